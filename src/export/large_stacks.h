/*
 * large_stacks.h - callstacks with a large value of their own, as records, a profile or a tree
 *
 * Why:     diff_heap_profiler writes them to files, and the MemoryInfra page offers the same ones.
 * Shapes:  a record is {"count", "size", "count_by_type", "size_by_type", "stackframes" (innermost
 *          first)}; for details with two moments the figures are differences. A callstack is large
 *          if both its objects and its bytes exceed the limits. The largest come first. As text, a
 *          record is a line of bytes and objects, then one line per function, innermost first. As a
 *          profile they are one dump of one heap, for any exporter.
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
    int64_t min_count, min_size; /* set by the caller, as is the form */
    enum hw_large_form form;
    HW_VEC(struct hw_large_stack) v;
};

/* Replaces the results of an earlier call. */
int hw_large_stacks_find(struct hw_large_stacks *l, const struct hw_heap_details *d);
/* JSON: an array with one record per line. */
int hw_large_stacks_text(const struct hw_large_stacks *l, struct hw_strbuf *out);
void hw_large_stacks_done(struct hw_large_stacks *l);

/* The same callstacks in a profile of their own (frozen) and their values; uses only l->min_*. */
int hw_large_stacks_profile(const struct hw_large_stacks *l, const struct hw_heap_details *d,
                            int64_t pid, const char *heap, struct hw_profile **out,
                            hw_values *values);
/* {"name": ".", "children": [...]} from the outermost function down. Figures are strings, and only
 * on nodes where a large callstack ends. */
int hw_large_stacks_tree(const struct hw_profile *p, const hw_values *values,
                         struct hw_strbuf *out);

#endif
