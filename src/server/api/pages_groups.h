/*
 * pages_groups.h - a selection in parts: by the module that asked, by heap, by process
 *
 * Why:     a graph has a box for each part below its root, and a file a frame for each.
 * Shapes:  each part has a name and values of its own; together they are those of the selection.
 * Owns:    hw_page_parts: its values, graphs and the names that nobody else has.
 * Errors:  HW_EINVAL for a group that there is not, HW_ENOMEM.
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
    char *owned;      /* the name, where nobody else has it */
    hw_values values;
    struct hw_flame flame; /* made by who wants one */
};
typedef HW_VEC(struct hw_page_part) hw_page_parts;

/* group: module, heap, process; NULL and "" = one part, which takes the values over. */
int hw_page_parts_by(const char *group, const struct hw_page_trace *t,
                     const struct hw_page_selection *s, hw_values *values, hw_page_parts *out,
                     struct hw_error *err);
void hw_page_parts_done(hw_page_parts *p);

#endif
