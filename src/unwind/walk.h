/*
 * walk.h - registers + stack bytes + tables → frames
 *
 * Why:     the one stepping code, compiled for the client (live stack, inside the sampled malloc)
 *          and for the daemon (over a stack copy). No malloc, lock, system call, TLS or libc call.
 * Shapes:  pcs come leaf first: pcs[0] is the hook's return address. `exact` bit i set = pcs[i] is
 *          the interrupted instruction of a signal frame, not a return address (look it up as is).
 * Units:   addresses are the target's. delta is added to a target stack address to get the address
 *          where its byte can be read (0 in the client, copy - sp in the daemon).
 * Errors:  none: a walk always gives the frames it found and why it stopped.
 * Threads: a cache has one user at a time. A walk that is left by siglongjmp leaves the cache
 *          usable. The walker reads nothing but tables, cache and [sp, hi) (and `others`).
 * Source:  doc/design/unwinding.md
 */
#ifndef HW_UNWIND_WALK_H
#define HW_UNWIND_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "unwind/table.h"

/* Why a walk ended. The first two are complete stacks. */
enum hw_walk_stop {
    HW_STOP_END = 0,       /* END rule: outermost frame */
    HW_STOP_ZERO = 1,      /* return address 0 */
    HW_STOP_LIMIT = 2,     /* frame limit */
    HW_STOP_NO_MODULE = 3, /* pc in no module of the snapshot and no usable frame pointer */
    HW_STOP_PENDING = 4,   /* the module's table does not exist yet */
    HW_STOP_UNSUP = 5,     /* REG or UNSUP rule */
    HW_STOP_BOUNDS = 6,    /* a load outside [sp, hi) */
    HW_STOP_BAD_CFA = 7,   /* CFA not above sp, or misaligned */
    HW_STOP_SIGNALS = 8,   /* more than 4 signal frames */
    HW_STOP_FP_LOST = 9,   /* frame-pointer step not plausible */
    HW_STOP_COUNT
};

struct hw_walk_regs {
    uint64_t pc, sp, fp;
    uint64_t lr; /* arm64, frame 0 or after a signal frame */
};

/* Ranges other than [sp, hi) on which a walk may continue after a signal frame (alternate
 * stacks, fibers). */
#define HW_WALK_MAX_STACKS 8
struct hw_walk_range {
    uint64_t lo, hi;
};

struct hw_walk_in {
    const void *tables;    /* struct hw_tables_dir */
    uint64_t tables_bytes; /* of it mapped here: a table not all in it is as UNSUP; 0 = all */
    const struct hw_module_snapshot *snapshot;
    struct hw_walk_regs regs;
    uint64_t hi; /* end of the stack that holds sp */
    uint64_t delta;
    uint32_t max_frames; /* <= HW_MAX_FRAMES */
    uint32_t n_others;
    struct hw_walk_range others[HW_WALK_MAX_STACKS];
    bool first_is_exact; /* regs.pc is not a return address */

    /*
     * Asked once per lookup address that lies in no module of the snapshot (the answer is cached
     * until the snapshot changes): true = it belongs to an ELF file that the snapshot does not
     * have yet, so stop with NO_MODULE; false = generated code, step by frame pointer. NULL = all
     * such addresses are generated code.
     */
    bool (*is_new_module)(void *arg, uint64_t pc);
    void *is_new_module_arg;
};

struct hw_walk_out {
    uint32_t n_frames;
    uint32_t stop;       /* enum hw_walk_stop */
    uint16_t generation; /* low bits of the snapshot's */
    uint64_t stop_pc;    /* where it stopped, for NO_MODULE and PENDING */
    uint64_t stack_id;   /* hash of pcs, stop and the snapshot's generation; never 0 */
    uint32_t n_adopted;  /* frames taken over from the cache */
    uint32_t n_by_fp;    /* frames found by the frame-pointer fallback */
    uint64_t exact[HW_MAX_FRAMES / 64];
    uint64_t pcs[HW_MAX_FRAMES];
};

/*
 * Per-thread memory of the walker: rule cache and the previous sample's frames. Opaque bytes, all
 * zero at first; the caller maps them (client slab) or allocates them (daemon).
 */
struct hw_walk_cache;
size_t hw_walk_cache_bytes(void);
void hw_walk_cache_reset(struct hw_walk_cache *c); /* stack range changed, new session */

/* cache may be NULL: slower, same frames. */
void hw_walk(const struct hw_walk_in *in, struct hw_walk_cache *cache, struct hw_walk_out *out);

/*
 * Before a walk with this cache: the stack may be one that was walked before. Then out gets what a walk would give, but
 * for the frames (pcs and exact stay as they are), at less than half of its cost. False: walk.
 */
bool hw_walk_known(const struct hw_module_snapshot *snapshot, const struct hw_walk_regs *regs,
                   uint64_t hi, struct hw_walk_cache *cache, struct hw_walk_out *out);

/* The same for registers, stacks and tables of i386, in the recorder beside the one above. */
void hw_walk_x86(const struct hw_walk_in *in, struct hw_walk_cache *cache, struct hw_walk_out *out);

static inline bool hw_stop_is_complete(uint32_t stop)
{
    return stop == HW_STOP_END || stop == HW_STOP_ZERO;
}

/* Should this sample be sent as a copy, because the daemon can know more? */
static inline bool hw_stop_wants_copy(uint32_t stop)
{
    return stop == HW_STOP_NO_MODULE || stop == HW_STOP_PENDING || stop == HW_STOP_UNSUP;
}

#endif
