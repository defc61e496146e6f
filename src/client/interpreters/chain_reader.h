/*
 * chain_reader.h - loads of an interpreter's structures, and a stack in which its functions replace it
 *
 * Why:     an interpreter of bytecode keeps a chain of frames. Its own loop is in the native stack
 *          once for each evaluation that began in C, so the chain is cut into as many parts. Python,
 *          Ruby and PHP differ in what a frame is and in where a part begins, not in the rest.
 * Shapes:  each includer defines its own struct layout. What is read is the target's own memory, by
 *          loads; until its layout is proven the kernel is asked about every address before.
 * Owns:    nothing.
 * Errors:  `bad` stays set after an address that cannot be; what is read then is 0.
 * Threads: a reader has one thread; a proof is shared by all.
 */
#ifndef HW_CLIENT_INTERPRETERS_CHAIN_READER_H
#define HW_CLIENT_INTERPRETERS_CHAIN_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/ring/mixed.h"

#define HW_CHAIN_PROOF        64u /* walks in which every address is checked */
#define HW_CHAIN_MAX_FAILURES 64u
#define HW_CHAIN_NULL_BYTES   4096u

/* ---- loads ---- */

struct layout;

struct chain_reader {
    const struct layout *l;
    uint64_t code_type;  /* Python: of code objects */
    uint64_t checked_to; /* addresses after this one are loaded as they are */
    bool careful, bad;
};

static HW_COLD bool may_load(struct chain_reader *k, uint64_t at)
{
    if (k->bad || at < HW_CHAIN_NULL_BYTES || at >> 47 || at % 8 ||
        (k->careful && !hw_sys_readable(at)))
        k->bad = true;
    return !k->bad;
}

/* Once the layout is verified, an address that is not null is valid. */
static inline uint64_t word_at(struct chain_reader *k, uint64_t at)
{
    if (hw_unlikely(at <= k->checked_to) && !may_load(k, at))
        return 0;
    return *(const volatile uint64_t *)(uintptr_t)at;
}

static inline uint32_t u32_at(struct chain_reader *k, uint64_t at)
{
    return (uint32_t)(word_at(k, at & ~7ull) >> (at & 4 ? 32 : 0));
}

static inline uint32_t byte_at(struct chain_reader *k, uint64_t at)
{
    return (uint32_t)(word_at(k, at & ~7ull) >> at % 8 * 8 & 0xff);
}

/* The bytes [at, at + n), n > 0 and small. */
static inline bool may_read(struct chain_reader *k, uint64_t at, uint64_t n)
{
    for (uint64_t p = at & ~7ull; k->careful && p < at + n && !k->bad; p += 4096 - p % 4096)
        (void)may_load(k, p);
    return may_load(k, (at + n - 1) & ~7ull);
}

static inline uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* ---- is an interpreter laid out as we think? ---- */

struct hw_chain_proof {
    _Atomic uint64_t eval; /* the interpreter that the other words describe */
    _Atomic uint32_t n_good, n_bad;
};

/* False: it is left alone. */
bool hw_chain_begin_proof(struct hw_chain_proof *p, struct chain_reader *k, uint64_t eval);

/* ---- evaluations in a native stack ---- */

struct hw_evals {
    uint64_t lo, n_bytes;       /* the function of which each evaluation has one frame */
    uint64_t cold_lo, n_cold;   /* the part of it that the compiler put elsewhere */
    uint64_t inner_lo, n_inner; /* what it calls to run bytecode; 0: it does that itself */
    uint64_t there;             /* a word of the interpreter's own: is it still loaded? */
};

static inline bool hw_evals_have(const struct hw_evals *e, uint64_t pc)
{
    return pc - 1 - e->lo < e->n_bytes || pc - 1 - e->cold_lo < e->n_cold;
}

/*
 * Begins with a stack: false, and there is nothing to read, if it has no evaluation, or the
 * interpreter is left alone. An evaluation that a signal's handler interrupted may be halfway
 * between two frames of its own: such a stack counts as one without.
 */
bool hw_chain_begin(struct hw_client_session *s, struct hw_chain *p, const struct hw_walk_out *o,
                    const struct hw_evals *e, struct chain_reader *k, struct hw_chain_proof *proof);
/* Ends it. known: the frames were read; all: up to the last one. Gives the hash of what replaces the
 * evaluations, 0 = nothing does. */
uint64_t hw_chain_end(struct hw_client_session *s, struct hw_chain *p, const struct hw_walk_out *o,
                      const struct chain_reader *k, struct hw_chain_proof *proof, bool known,
                      bool all);
/* The frames before this one began with the evaluation that the next part does not. */
static inline void end_part(struct hw_chain *p)
{
    p->ends[p->n_parts++] = (uint16_t)p->n_ids;
}
/* Inserts the parts of a chain, each in the place of its evaluation. */
void hw_evals_replace(const struct hw_evals *e, const struct hw_chain *p, struct hw_mixed_stack *m);

/* ---- names ---- */

struct text {
    const char *p;
    size_t n;
};

/* Of its first 64 and last 8 bytes. */
uint64_t hw_text_digest(const struct text *t);

/* Where an instruction is remembered: the newer entry first. */
static inline struct hw_chain_call *hw_chain_pair(struct hw_chain *p, uint64_t instr)
{
    return p->calls[(instr * 0x9e3779b97f4a7c15u) >> (64 - HW_CHAIN_CALLS_BITS)];
}

/* An id that means this text and line, which the recorder gets to know; false: no room in the ring. */
bool hw_chain_name(struct hw_client_session *s, enum hw_managed_kind kind,
                   const struct heapwise_managed_text *t, uint64_t *id);

struct hw_chain_place {
    uint64_t code, instr;
    uint64_t print; /* of what decides what is shown of it: memory is reused */
};

/* The id of a place in code that was met before and is the same still; 0 = none. */
uint64_t hw_chain_find_place(struct hw_chain *p, const struct hw_chain_place *place);
/* Remembers one that was not, and names it. */
uint64_t hw_chain_add_place(struct hw_client_session *s, struct hw_chain *p,
                            enum hw_managed_kind kind, const struct hw_chain_place *place,
                            const struct heapwise_managed_text *t);

#endif
