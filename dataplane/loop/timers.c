/* A pairing heap. `previous` of a node is its parent if it is the first child, else its left sibling. */
#include <stddef.h>

#include "dataplane/loop/internal.h"

static bool is_before(const struct loop_timer *one, const struct loop_timer *other)
{
    return one->at != other->at ? one->at < other->at : one->sequence < other->sequence;
}

/* Joins two heaps, whose roots have no siblings; either may be NULL. */
static struct loop_timer *join(struct loop_timer *one, struct loop_timer *other)
{
    if (one == NULL)
        return other;
    if (other == NULL)
        return one;
    struct loop_timer *root = is_before(other, one) ? other : one;
    struct loop_timer *below = root == one ? other : one;
    below->previous = root;
    below->next = root->child;
    if (below->next != NULL)
        below->next->previous = below;
    root->child = below;
    return root;
}

/* Makes one heap of a list of siblings: pairs from left to right, then all of them from right to left, which
 * is what keeps later removals cheap. */
static struct loop_timer *join_siblings(struct loop_timer *first)
{
    struct loop_timer *pairs = NULL; /* the last one first */
    while (first != NULL) {
        struct loop_timer *second = first->next;
        struct loop_timer *rest = second != NULL ? second->next : NULL;
        first->next = first->previous = NULL;
        if (second != NULL)
            second->next = second->previous = NULL;
        struct loop_timer *pair = join(first, second);
        pair->next = pairs;
        pairs = pair;
        first = rest;
    }
    struct loop_timer *root = NULL;
    while (pairs != NULL) {
        struct loop_timer *pair = pairs;
        pairs = pair->next;
        pair->next = NULL;
        root = join(root, pair);
    }
    return root;
}

void timer_heap_insert(struct loop_timer **heap, struct loop_timer *timer)
{
    timer->child = timer->next = timer->previous = NULL;
    *heap = join(*heap, timer);
}

void timer_heap_remove(struct loop_timer **heap, struct loop_timer *timer)
{
    struct loop_timer *children = join_siblings(timer->child);
    if (timer == *heap) {
        *heap = children;
    } else {
        if (timer->previous->child == timer)
            timer->previous->child = timer->next;
        else
            timer->previous->next = timer->next;
        if (timer->next != NULL)
            timer->next->previous = timer->previous;
        *heap = join(*heap, children);
    }
    timer->child = timer->next = timer->previous = NULL;
}
