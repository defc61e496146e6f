/*
 * pages_groups.h - a selection in parts: by allocating module or owner, by heap, by process
 *
 * Why:     a graph has a box for each part below its root, and a file a frame for each.
 * Shapes:  each part has a name and values of its own; together they are those of the selection.
 * Owns:    hw_page_parts: its values, graphs and otherwise unowned names.
 * Errors:  HW_EINVAL for an unknown group, HW_ENOMEM.
 */
#ifndef HW_SERVER_API_PAGES_GROUPS_H
#define HW_SERVER_API_PAGES_GROUPS_H

#include "base/memory/vec.h"
#include "views/flame/flame.h"
#include "views/time/values.h"

struct hw_error;
struct hw_page_selection;
struct hw_page_trace;

struct hw_page_part {
    const char *name; /* borrowed; NULL = no groups */
    char *owned;      /* the name, if not borrowed */
    hw_values values;
    struct hw_flame flame; /* made on demand */
};
typedef HW_VEC(struct hw_page_part) hw_page_parts;

/* group: module, owner, heap, process; NULL and "" = one part, which takes over the values. */
int hw_page_parts_by(const char *group, const struct hw_page_trace *t,
                     const struct hw_page_selection *s, hw_values *values, hw_page_parts *out,
                     struct hw_error *err);
void hw_page_parts_done(hw_page_parts *p);

#endif
