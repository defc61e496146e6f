/*
 * slice_batch.h - a thread's scopes that are not in the ring yet
 *
 * Why:     scopes may begin and end every few nanoseconds. Each thread gathers them, and one record
 *          of the ring takes a batch; the rest of a batch can be read by the recorder at any time,
 *          also when the thread sleeps or its process was killed.
 * Shapes:  HW_SLICE_SLOTS slots behind the ring's data, in the same memory file, and a page more,
 *          so that no size of the file is also that of a ring without them. One writer per slot.
 *          Its entries below n are complete; `batch` counts up before they are rewritten, so that a
 *          reader that has copied them meanwhile can tell.
 * Units:   ticks of the processor's counter. A pair (ticks, nanoseconds) at both ends of a batch
 *          turns ticks into times, so nobody needs to know the counter's frequency.
 * Threads: see Shapes; the reader trusts nothing of it.
 * Source:  doc/design/client.md
 */
#ifndef HW_WIRE_SLICE_BATCH_H
#define HW_WIRE_SLICE_BATCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HW_SLICE_SLOTS      1024u
#define HW_SLICE_BATCH      124u
#define HW_SLICE_DEPTH_BITS 16u
#define HW_SLICE_MAX_DEPTH  ((1u << HW_SLICE_DEPTH_BITS) - 1)

/*
 * A scope begins, or ends: then all scopes of the thread at this depth or deeper end, as one may be
 * left by longjmp, or its end lost. A scope whose beginning was lost reports no end.
 */
struct hw_slice_entry {
    _Alignas(8) uint64_t id; /* of HW_MANAGED_SLICE; 0 = an end */
    uint64_t when;           /* ticks since the batch's first << HW_SLICE_DEPTH_BITS | depth */
};

struct hw_slice_slot {
    _Atomic uint32_t n;
    _Atomic uint32_t batch;
    uint32_t tid; /* as the target knows it */
    uint32_t reserved0;
    _Alignas(8) uint64_t ticks;
    uint64_t time_ns; /* the same moment on the monotonic clock */
    uint8_t pad[32];
    struct hw_slice_entry entry[HW_SLICE_BATCH];
};
_Static_assert(sizeof(struct hw_slice_slot) == 2048, "ring layout");
_Static_assert(offsetof(struct hw_slice_slot, entry) == 64, "ring layout");

static inline uint64_t hw_slice_ticks(void)
{
#if defined(__aarch64__)
    uint64_t v;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
    return v;
#else
    return __builtin_ia32_rdtsc();
#endif
}

#endif
