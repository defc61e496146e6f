/*
 * heap_native.h - memory outside a managed heap, by owning class and allocating callstack
 *
 * Why:     "64 MB of direct buffers" is half an answer: the other half is the native callstack.
 * Shapes:  a row for each class and kind of memory, by descending bytes; below it the callstacks
 *          of its samples, merged if they go through the same functions, whatever their lines.
 *          Bytes of blocks are what the runtime says; bytes of samples are an unbiased estimate of
 *          the same. Blocks without a sample were too small for one, or allocated before the
 *          recording.
 * Units:   bytes, blocks.
 * Owns:    two arrays.
 * Errors:  HW_ENOMEM.
 * Cost:    O(blocks + links + frames of linked callstacks), and sorting.
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_NATIVE_H
#define HW_VIEWS_OBJECTS_HEAP_NATIVE_H

#include "base/memory/vec.h"
#include "model/graph/heap_graph.h"

struct hw_callsites;
struct hw_functions;

struct hw_native_stack {
    hw_callsite_id callsite; /* one of them */
    int64_t bytes;           /* estimated from its samples */
    uint32_t n_samples;
};

struct hw_native_owner {
    uint32_t class;
    uint8_t kind; /* enum hw_block_kind */
    uint32_t n_blocks, n_linked;
    int64_t bytes, linked_bytes; /* of all blocks; of those with a sample */
    int64_t sampled_bytes;       /* of all its stacks */
    size_t first_stack, n_stacks;
};

struct hw_heap_native_view {
    HW_VEC(struct hw_native_owner) owners;
    HW_VEC(struct hw_native_stack) stacks; /* grouped by owner, the largest first */
};

int hw_heap_native_build(const struct hw_heap_graph *g, const struct hw_callsites *cs,
                         const struct hw_functions *functions, struct hw_heap_native_view *out);
void hw_heap_native_done(struct hw_heap_native_view *v);

#endif
