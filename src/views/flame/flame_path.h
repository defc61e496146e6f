/*
 * flame_path.h - one callstack as functions, for the files that build flamegraphs
 *
 * Shapes:  with HW_FLAME_SITES a stack ends at its site, which may be in the middle of a frame's
 *          inlined functions.
 * Errors:  HW_ENOMEM.
 * Threads: pure.
 */
#ifndef HW_VIEWS_FLAME_FLAME_PATH_H
#define HW_VIEWS_FLAME_FLAME_PATH_H

#include "views/flame/flame.h"

struct hw_flame_end {
    uint32_t callsite;
    size_t depth; /* how many functions of its frame belong to the stack, of n */
    const struct hw_function_at *chain;
    size_t n;
};

typedef HW_VEC(uint32_t) hw_flame_path;

struct hw_flame_end hw_flame_end_of(const struct hw_flame_input *q, hw_callsite_id leaf);
/* The functions of a whole stack, root first. calls: scratch space. */
int hw_flame_path_of(const struct hw_flame_input *q, hw_callsite_id leaf, hw_flame_path *calls,
                     hw_flame_path *out);

#endif
