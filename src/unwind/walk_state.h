/*
 * walk_state.h - what the parts of walk.c share
 *
 * Why:     one file would have three subjects, and three objects would lose what the compiler does
 *          across them. So the parts are headers of walk.c, compiled once for each architecture.
 * Shapes:  a frame is identified by `ret`: its lookup address + 1. For a return address that is the
 *          address itself; for an interrupted instruction (exact) it is one more.
 */
#ifndef HW_UNWIND_WALK_STATE_H
#define HW_UNWIND_WALK_STATE_H

#include "base/bytes.h"
#include "unwind/regs.h"
#include "unwind/walk.h"

#define WORD ((uint64_t)HW_REGS_WORD)
enum {
    RULE_BITS = 12,
    RULE_SLOTS = 1 << RULE_BITS,
    GO_ON = -1 /* no reason to stop */
};

#define HASH_ADDR  0x9e3779b97f4a7c15u
#define HASH_MIX   0xd6e8feb86659fd93u
#define HASH_CHAIN 0xa0761d6478bd642fu /* = 3 mod 4 */

struct rule_slot {
    uint64_t key; /* lookup address | generation << 48 */
    uint64_t rule;
};

enum { FRAME_EXACT = 1, FRAME_BY_FP = 2 /* state.fp_only */ };

struct frame {
    uint64_t sp; /* | FRAME_EXACT or FRAME_BY_FP: it equals no current one */
    uint64_t ret;
    uint64_t fp;
    uint64_t fp_slot, ra_slot;
    uint64_t hash; /* of this frame to the root */
};

static inline bool frame_is_by_fp(const struct frame *f)
{
    return HW_REGS_HAVE_LR && f->sp & FRAME_BY_FP;
}

/* walk_known.h */
enum {
    KNOWN_BITS = 7,
    KNOWN_WORDS = 64,
    KNOWN_TRIES = 6,
    KNOWN_WINDOW = 128, /* of the adaptive switch */
    KNOWN_PAUSE = 512,
    KNOWN_LONGEST = 32768,
    PAGE_BYTES = 4096 /* the smallest there is */
};

struct known_stack {
    uint64_t pc, sp, fp; /* of the first frame; pc 0 = none */
    uint64_t hi;
    const struct hw_module_snapshot *snapshot;
    uint64_t id;
    uint32_t generation, epoch;
    uint16_t first, n_frames; /* first: of the words, which end at KNOWN_WORDS */
    bool fp_matters;
    uint32_t at[KNOWN_WORDS]; /* from sp */
    uint64_t value[KNOWN_WORDS];
};

struct hw_walk_cache {
    struct rule_slot rules[RULE_SLOTS];
    struct known_stack known[1 << KNOWN_BITS]; /* 13 cache lines each */
    const struct hw_module_snapshot *snapshot; /* the frames below were found with */
    uint64_t hi;
    uint64_t never; /* stays 0: no return address */
    uint32_t top;   /* first frame of old in use */
    uint32_t ready;
    uint32_t generation;                             /* of the last walk */
    uint32_t n_samples, n_frames, n_adopted, n_skip; /* the adaptive switch */
    struct frame old[HW_MAX_FRAMES + 1];
    struct frame fresh[HW_MAX_FRAMES];
    uint32_t known_epoch;                                      /* entries of another are void */
    uint32_t known_tries, known_hits, known_skip, known_pause; /* the adaptive switch */
    struct known_stack *known_next; /* for the walk that follows; NULL = none */
};

/* One frame and how it was reached. */
struct state {
    uint64_t ret, sp, fp;
    uint64_t lr, hi;
    uint64_t ra_slot, fp_slot; /* readable addresses; 0 = fp as before / not to be adopted */
    uint32_t n_signals;
    bool exact, has_lr, moved, fp_only;
};

struct walker {
    const struct hw_walk_in *in;
    struct hw_walk_cache *c;
    struct hw_walk_out *out;
    uint64_t gen_key;
    uint32_t max;
    uint32_t n;       /* frames in out */
    uint32_t n_fresh; /* of them in c->fresh; the last is the current one */
    uint32_t at;      /* cursor in c->old */
    uint32_t tail;    /* frames old[tail..] end the stack; HW_MAX_FRAMES = none */
    bool is_kept;     /* the frames are in c->old */
};

/* A copy may lie at any address; all architectures load it with the same instruction. */
typedef hw_regs_word word_alias __attribute__((may_alias, aligned(1)));

/* Stacks are read as they are: redzones of an instrumented target are not our errors. */
#if defined(__SANITIZE_ADDRESS__)
#define LOADS_AS_IS __attribute__((no_sanitize("address"), noinline))
#else
#define LOADS_AS_IS __attribute__((always_inline)) inline
#endif
LOADS_AS_IS static uint64_t load(uint64_t readable)
{
    return *(const word_alias *)(uintptr_t)readable;
}

static inline uint64_t mix(uint64_t ret, bool exact)
{
    uint64_t p = ret * HASH_ADDR;
    return ((p ^ p >> 32) + exact) * HASH_MIX;
}

#endif
