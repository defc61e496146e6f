/*
 * open_marks.h - the scopes and types that a thread has open
 *
 * Shapes:  two stacks in the thread's slab. Those that do not fit are counted, so that ends stay
 *          balanced.
 * Threads: struct hw_marks has one thread, and the signal handlers on it.
 */
#ifndef HW_CLIENT_RING_OPEN_MARKS_H
#define HW_CLIENT_RING_OPEN_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#define HW_MAX_SCOPES       128u
#define HW_MAX_TYPES        16u
#define HW_MARKS_GENERATION (UINT32_MAX >> 1) /* a mark keeps these bits of the session's */

struct heapwise_mark;
struct hw_slice_slot;

struct hw_open_mark {
    struct heapwise_mark *mark;
    uint64_t return_address, sp; /* of the function that began it */
};

struct hw_marks {
    uint32_t generation; /* the session in which they were begun */
    uint32_t n_scopes, n_types;
    bool names_thread;          /* its name has not been sent yet */
    int32_t tid;                /* if slices are wanted; 0 = not known */
    struct hw_slice_slot *slot; /* the generation's; NULL = not requested yet, or none */
    struct hw_open_mark scopes[HW_MAX_SCOPES];
    struct hw_open_mark types[HW_MAX_TYPES];
};

#endif
