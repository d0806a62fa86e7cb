#include "dataplane/control/end_types.h"

#include <string.h>

#include "base/cleanup.h"
#include "dataplane/vhost_user/vhost_user.h"

static const struct {
    const char *type;
    end_factory make;
} types[] = {
    {"vhost-user", vhost_user_end_new},
};

int end_types_make(const struct end_specification *specification, int listener, struct control_loop *loop,
                   struct worker_task *task, struct end **ret, struct error *err)
{
    auto_close int given = listener;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].type, specification->type) == 0)
            return types[i].make(specification, take_fd(&given), loop, task, ret, err);
    return error_set(err, REASON_INVALID_REQUEST, "there is no end of type \"%s\"; there is: %s",
                     specification->type, types[0].type);
}
