/* The words of enum values, as the API writes them. */
#include "daemon/operations/operations.h"

const char *sandbox_state_word(enum sandbox_state state)
{
    switch (state) {
    case SANDBOX_CREATING:
        return "creating";
    case SANDBOX_RUNNING:
        return "running";
    case SANDBOX_PAUSED:
        return "paused";
    case SANDBOX_ORPHANED:
        return "orphaned";
    case SANDBOX_DELETING:
        return "deleting";
    case SANDBOX_STATE_COUNT:
        break;
    }
    return "unknown";
}

const char *region_state_word(enum region_state state)
{
    switch (state) {
    case REGION_CREATING:
        return "creating";
    case REGION_READY:
        return "ready";
    case REGION_LOST:
        return "lost";
    case REGION_DELETING:
        return "deleting";
    }
    return "unknown";
}

const char *region_layout_word(enum region_layout layout)
{
    return layout == REGION_LAYOUT_RAW ? "raw" : "chan";
}

const char *on_rollback_word(enum on_rollback on_rollback)
{
    switch (on_rollback) {
    case ON_ROLLBACK_RESTORE:
        return "restore";
    case ON_ROLLBACK_KEEP:
        return "keep";
    case ON_ROLLBACK_CLEAR:
        return "clear";
    }
    return "unknown";
}

const char *link_role_word(enum link_role role)
{
    return role == LINK_ROLE_CLIENT ? "client" : "server";
}

const char *link_state_word(enum link_row_state state)
{
    switch (state) {
    case LINK_CREATING:
        return "creating";
    case LINK_READY:
        return "ready";
    case LINK_DELETING:
        return "deleting";
    case LINK_STATE_COUNT:
        break;
    }
    return "unknown";
}
