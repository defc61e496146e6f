/*
 * large_stacks.h - callstacks that hold much themselves, as records, a profile or a tree
 *
 * Why:     diff_heap_profiler writes them to files, and the MemoryInfra page offers the same ones.
 * Shapes:  a record is {"count", "size", "count_by_type", "size_by_type", "stackframes" (innermost
 *          first)}; of details with two moments the figures are changes. A callstack counts with
 *          more objects and more bytes than the limits. The largest come first. As text a record is
 *          a line of bytes and objects, then a line a function, innermost first. As a profile they
 *          are one dump of one heap, for any exporter.
 * Owns:    records.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/memory-infra.md, "Large callstacks"
 */
#ifndef HW_EXPORT_LARGE_STACKS_H
#define HW_EXPORT_LARGE_STACKS_H

#include "views/infra/heap_details.h"
#include "views/time/values.h"

enum hw_large_form { HW_LARGE_JSON, HW_LARGE_TEXT };

struct hw_large_stack {
    int64_t size, count;
    char *text; /* owned */
};

struct hw_large_stacks {
    int64_t min_count, min_size; /* set before, as is the form */
    enum hw_large_form form;
    HW_VEC(struct hw_large_stack) v;
};

/* Takes the place of what was found before. */
int hw_large_stacks_find(struct hw_large_stacks *l, const struct hw_heap_details *d);
/* As JSON an array, a record a line. */
int hw_large_stacks_text(const struct hw_large_stacks *l, struct hw_strbuf *out);
void hw_large_stacks_done(struct hw_large_stacks *l);

/* The same callstacks in a profile of their own (frozen) and their values; min_* of l count. */
int hw_large_stacks_profile(const struct hw_large_stacks *l, const struct hw_heap_details *d,
                            int64_t pid, const char *heap, struct hw_profile **out,
                            hw_values *values);
/* {"name": ".", "children": [...]} from the outermost function on, figures as strings and only
 * where a callstack of its own ends. */
int hw_large_stacks_tree(const struct hw_profile *p, const hw_values *values,
                         struct hw_strbuf *out);

#endif
