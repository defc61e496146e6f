/*
 * ring.h - one ring per target: many writers, one reader, no lock
 *
 * Why:     samples travel from a target's threads to the daemon in the order in which they
 *          happened.
 * Shapes:  a sealed memory file (HW_RING_SEALS): one page struct hw_ring_shm, then 2^k bytes of
 *          data, mapped twice in a row so that records never wrap. Positions are bytes since the
 *          start, they only grow; the first is HW_RING_FIRST_POS, or a later one in a ring whose
 *          memory comes in parts. Records: wire/records.h.
 * Threads: any number of writers (also in signal handlers): reserve is one compare-and-swap, commit
 *          one release store. One reader. A record reserved but not committed (a hole) names its
 *          thread, and is waited for while that one lives; hw_ring_pass_hole steps over it after
 *          that, and hw_ring_skip_hole over any when the process is dead.
 * Errors:  the reader trusts nothing: HW_EFORMAT = the shared memory was damaged, drop the client.
 * Source:  writers use no libc call but inlined atomics; doc/design/ring.md
 */
#ifndef HW_WIRE_RING_H
#define HW_WIRE_RING_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/single_thread.h"
#include "wire/records.h"
#include "wire/slice_batch.h"

#define HW_RING_MAGIC         0x31676e6972777768u /* "hwwring1" */
#define HW_RING_FIRST_POS     4096u
#define HW_RING_SEALS         (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define HW_RING_MIN_BYTES     (8u * 1024u)
#define HW_RING_MAX_BYTES     (500u * 1024u * 1024u)
#define HW_RING_DEFAULT_BYTES (8u * 1024u * 1024u)

/* Why a client gave up; the first one stays. Values of ClientError in the trace if it has them. */
enum hw_client_error {
    HW_CLIENT_OK = 0,
    HW_CLIENT_HIT_TIMEOUT = 1,          /* the buffer stayed full */
    HW_CLIENT_INVALID_STACK_BOUNDS = 2, /* kept for the format; ours copies a page instead */
    HW_CLIENT_RECORDER_GONE = 3,        /* heartbeat too old */
    HW_CLIENT_NO_MEMORY = 4,
    HW_CLIENT_LOCKED_OUT = 5,   /* it locks its memory, and ours does not fit under the limit */
    HW_CLIENT_RING_DAMAGED = 6, /* the positions are not those that recorder and writers left */
    HW_CLIENT_ERROR_COUNT
};

/* What became of the heap of Python's objects, python.alloc. */
enum hw_ring_objects {
    HW_RING_OBJECTS_NONE = 0,    /* not wanted, or not tried so far: no interpreter was seen */
    HW_RING_OBJECTS_PLACED = 1,  /* they are recorded */
    HW_RING_OBJECTS_MALLOCS = 2, /* malloc serves them all (PYTHONMALLOC=malloc) */
    HW_RING_OBJECTS_OTHERS =
        3, /* other functions are in the way: PYTHONMALLOC=debug, tracemalloc */
    HW_RING_OBJECTS_UNKNOWN = 4, /* the interpreter's table was not found, or is not as expected */
    HW_RING_OBJECTS_LOST = 5 /* they were recorded until the program changed the table as a whole */
};

/* Counters that the client adds to, relaxed. X(name, what it counts). All count since the
 * session began. */
#define HW_RING_COUNTERS_10(X)                                                                     \
    X(samples, "sampled allocations recorded")                                                     \
    X(lost_full, "samples not recorded: buffer full")                                              \
    X(lost_no_slot, "samples not recorded: no live-sample slot")                                   \
    X(lost_nested, "samples not recorded: a handler inside our code, or no stack left")            \
    X(lost_free, "frees of sampled blocks that could not be recorded")                             \
    X(missed_free, "blocks found freed by a way that is not hooked")                               \
    X(copy_fallback, "samples sent as a copy of the stack")                                        \
    X(copy_limited, "samples without stack: copy budget used up")                                  \
    X(truncated, "stacks cut at the frame limit")                                                  \
    X(blocked_us, "time threads waited for space, us")                                             \
    X(blocked, "times a thread waited for space")                                                  \
    X(adopted_frames, "frames taken over from the previous sample")                                \
    X(walked_frames, "frames walked")                                                              \
    X(lost_slices,                                                                                 \
      "beginnings and ends of scopes not recorded: buffer full, or no thread to name")             \
    X(no_slab, "samples taken without per-thread cache")                                           \
    X(frames_unclear, "stacks of Python, Ruby or PHP whose frames did not fit: they are native")   \
    X(managed_asked, "stacks that a runtime was asked about")                                      \
    X(managed_none, "of them in threads that run none of its code")                                \
    X(managed_not_asked, "in signal handlers, or while the runtime ended")                         \
    X(managed_anchor, "without a place to begin at")                                               \
    X(managed_collecting, "while garbage was collected")                                           \
    X(managed_unwalkable, "that the runtime could not walk")                                       \
    X(managed_otherwise, "that the runtime refused otherwise")                                     \
    X(managed_copied, "that were known, and unwound from a copy without them")                     \
    X(managed_unnamed, "frames of them without room for a name")
/* New ones are appended; there is room for seven up to the intents. */
#define HW_RING_COUNTERS(X)                                                                        \
    HW_RING_COUNTERS_10(X)                                                                         \
    X(lost_early, "samples not recorded: the recorder had not answered yet")

struct hw_ring_counters {
#define X(name, text) _Atomic uint64_t name;
    HW_RING_COUNTERS(X)
#undef X
};

/*
 * A thread that is about to reserve says so here: where, how much, which thread. This stands for
 * its record only between the reservation and the first store into it. A thread uses the entry of
 * its number, or one of the next whose record has been read.
 *
 *              63         50 49           28 27                   0
 *             +-------------+---------------+----------------------+
 *             | length / 8  | thread        | of the position / 8  |
 *             +-------------+---------------+----------------------+
 */
#define HW_RING_WRITERS  32u
#define HW_RING_POS_BITS 28u
_Static_assert(HW_RING_MAX_BYTES / 8 < 1u << HW_RING_POS_BITS, "one place of a ring");

struct hw_ring_intent {
    _Atomic uint64_t word;
    uint8_t pad[56]; /* own cache line */
};

static inline uint64_t hw_ring_intent_of(uint64_t pos, uint32_t size_bytes, uint32_t tid)
{
    return (uint64_t)(size_bytes / 8) << 50 | (uint64_t)tid << HW_RING_POS_BITS |
           (pos / 8 & ((1u << HW_RING_POS_BITS) - 1));
}

/*
 * Memory that the client has mapped for itself without a name, and its library's image, for the
 * account of the target's memory. A word each, 0 = none; all 0: an older client, which does not say.
 *
 *              63                 28    27    26                 0
 *             +---------------------+-------+---------------------+
 *             | address / 4096      | stays | length / 4096       |
 *             +---------------------+-------+---------------------+
 */
#define HW_RING_OWN       192u
#define HW_RING_OWN_STAYS (UINT64_C(1) << 27) /* until the process ends: for the client */

/* 0 = it has no room for these numbers. */
static inline uint64_t hw_ring_own_of(uint64_t at, uint64_t n_bytes, bool stays)
{
    uint64_t pages = (n_bytes + 4095) / 4096;
    if (at >> 48 != 0 || at % 4096 != 0 || pages == 0 || pages >= HW_RING_OWN_STAYS)
        return 0;
    return at / 4096 << 28 | (stays ? HW_RING_OWN_STAYS : 0) | pages;
}

static inline uint64_t hw_ring_own_lo(uint64_t word)
{
    return (word >> 28) * 4096;
}

static inline uint64_t hw_ring_own_hi(uint64_t word)
{
    return hw_ring_own_lo(word) + (word & (HW_RING_OWN_STAYS - 1)) * 4096;
}

/* Page 0 of the ring's memory file. The daemon fills it before handing the file over. */
struct hw_ring_shm {
    uint64_t magic;
    uint32_t version;              /* agreed on with the client (wire/version.h) */
    uint32_t slots_bytes;          /* after the data, for wire/slice_batch.h; 0 = none */
    uint64_t data_bytes;           /* 2^k */
    _Atomic uint32_t client_error; /* enum hw_client_error */
    /* dlcloses of the target in this session: code may be replaced after them. Equal while none
     * is running; the reader compares before it reads the target's mappings. */
    _Atomic uint32_t closes_begun;
    _Atomic uint32_t closes_ended;
    _Atomic uint32_t objects; /* enum hw_ring_objects */
    /* Client, once: the recorder's clock - the target's, modulo 2^64. Its records use the
     * recorder's. */
    _Atomic uint64_t target_behind_ns;
    uint8_t pad0[16];
    _Atomic uint64_t write_pos; /* writers: next position to reserve */
    uint8_t pad1[56];
    _Atomic uint64_t read_pos; /* reader: everything below is free again */
    uint8_t pad2[56];
    struct hw_ring_counters counters;
    _Alignas(
        64) struct hw_ring_intent intents[HW_RING_WRITERS]; /* mostly of thread % HW_RING_WRITERS */
    _Atomic uint64_t own[HW_RING_OWN];
    _Atomic uint64_t own_left_bytes; /* that found no place there */
};
_Static_assert(offsetof(struct hw_ring_shm, write_pos) == 64, "own cache line");
_Static_assert(offsetof(struct hw_ring_shm, read_pos) == 128, "own cache line");
_Static_assert(offsetof(struct hw_ring_shm, counters) == 192, "own cache line");
_Static_assert(offsetof(struct hw_ring_shm, intents) == 448,
               "of wire version 10, with any counters");
_Static_assert(sizeof(struct hw_ring_shm) <= 4096, "one page");

/* ---- writer side (client): header only, no libc ---- */

struct hw_ring_writer {
    struct hw_ring_shm *shm;
    uint8_t *data;               /* 2 * data_bytes of address space */
    uint64_t mask;               /* data_bytes - 1 */
    struct hw_slice_slot *slots; /* NULL = none */
};

/* The writer. */
struct hw_ring_thread {
    uint32_t tid; /* 0 = not known: its hole is waited for as long as the process lives */
    bool alone;   /* the process has one thread, and no other one writes */
    volatile uint32_t *last; /* gets the low bits of the position / 8, before it is reserved */
};

/* Release: a reader that sees the new position also sees the intent. */
static inline bool hw_ring_advance(_Atomic uint64_t *write_pos, uint64_t *pos, uint32_t size,
                                   bool alone)
{
    if (alone)
        return hw_single_thread_cas_u64(write_pos, pos, *pos + size);
    return atomic_compare_exchange_weak_explicit(write_pos, pos, *pos + size, memory_order_release,
                                                 memory_order_relaxed);
}

static inline uint32_t hw_ring_intent_tid(uint64_t word)
{
    return (uint32_t)(word >> HW_RING_POS_BITS) & ((1u << HW_TID_BITS) - 1);
}

static inline uint32_t hw_ring_intent_bytes(uint64_t word)
{
    return (uint32_t)(word >> (HW_RING_POS_BITS + HW_TID_BITS)) * 8;
}

/* Another thread's entry may still be needed. */
_Atomic uint64_t *hw_ring_other_intent(struct hw_ring_shm *shm, uint32_t tid);

static inline void hw_ring_intend(struct hw_ring_shm *shm, uint64_t pos, uint32_t size,
                                  const struct hw_ring_thread *by)
{
    if (by->tid == 0)
        return;
    *by->last = (uint32_t)(pos / 8);
    _Atomic uint64_t *intent = &shm->intents[by->tid % HW_RING_WRITERS].word;
    if (hw_ring_intent_tid(atomic_load_explicit(intent, memory_order_relaxed)) != by->tid)
        intent = hw_ring_other_intent(shm, by->tid);
    atomic_store_explicit(intent, hw_ring_intent_of(pos, size, by->tid), memory_order_relaxed);
}

static inline void *hw_ring_at(const struct hw_ring_writer *w, uint64_t pos)
{
    return w->data + (pos & w->mask);
}

static inline _Atomic uint64_t *hw_ring_head(const struct hw_ring_writer *w, uint64_t pos)
{
    return (_Atomic uint64_t *)hw_ring_at(w, pos);
}

/*
 * Reserves size bytes (a multiple of 8, at most HW_REC_MAX_BYTES); gives the position, or 0 if
 * there is no room now. Acquire of read_pos pairs with the release in hw_ring_release(): the
 * reader's last loads are done before the bytes are written again.
 */
static inline uint64_t hw_ring_reserve_by(const struct hw_ring_writer *w, uint32_t size,
                                          struct hw_ring_thread by)
{
    struct hw_ring_shm *shm = w->shm;
    uint64_t pos = atomic_load_explicit(&shm->write_pos, memory_order_relaxed);
    for (;;) {
        uint64_t read = atomic_load_explicit(&shm->read_pos, memory_order_acquire);
        if ((int64_t)(pos - read) < 0) { /* our pos is older than the reader's: load again */
            pos = atomic_load_explicit(&shm->write_pos, memory_order_relaxed);
            if ((int64_t)(pos - read) < 0)
                return 0; /* damaged from outside: the reader will notice */
        }
        if (pos + size - read > w->mask + 1)
            return 0;
        uint64_t at = pos;
        hw_ring_intend(shm, pos, size, &by);
        if (!hw_ring_advance(&shm->write_pos, &pos, size, by.alone))
            continue;
        if (by.tid != 0)
            atomic_store_explicit(hw_ring_head(w, at), hw_rec_open(at, size, by.tid),
                                  memory_order_relaxed);
        return at;
    }
}

static inline uint64_t hw_ring_reserve(const struct hw_ring_writer *w, uint32_t size)
{
    return hw_ring_reserve_by(w, size, (struct hw_ring_thread){0});
}

/* Makes a filled record visible. Release: pairs with the acquire of the head in hw_ring_peek(). */
static inline void hw_ring_commit(const struct hw_ring_writer *w, uint64_t pos, uint32_t size,
                                  enum hw_rec_type type)
{
    atomic_store_explicit(hw_ring_head(w, pos), hw_rec_head(pos, size, type), memory_order_release);
}

/*
 * The thread was taken out of its last reservation and will not return to it (by.last is as it was
 * left): if its record is not committed, it becomes empty. false = perhaps it had one there,
 * perhaps another thread is about to begin its own: call it again.
 */
bool hw_ring_leave(const struct hw_ring_writer *w, struct hw_ring_thread by, bool sure);

static inline uint64_t hw_ring_free_bytes(const struct hw_ring_writer *w)
{
    uint64_t used = atomic_load_explicit(&w->shm->write_pos, memory_order_relaxed) -
                    atomic_load_explicit(&w->shm->read_pos, memory_order_relaxed);
    return used > w->mask + 1 ? 0 : w->mask + 1 - used;
}

/* ---- reader side (daemon): wire/ring.c ---- */

struct hw_ring_reader {
    struct hw_ring_shm *shm; /* the target may scribble on it */
    const uint8_t *data;
    const struct hw_slice_slot *slots; /* the target's, too; NULL = none */
    uint64_t data_bytes;
    uint64_t read_pos;     /* private cursor: never read back from shared memory */
    uint64_t released_pos; /* what the writers were last told */
    uint64_t known_end;    /* a write position seen before: loaded again only when it is reached */
    uint64_t first_pos;    /* where the writers began */
    uint64_t memory_end;   /* position that has no memory yet; UINT64_MAX = all have */
    uint64_t holes;        /* records skipped */
    uint64_t hole_bytes;
    uint8_t *scratch; /* one record, copied before it is used; owned */
    int fd;           /* memory file to hand to the client; owned; -1 after hw_ring_close_fd */
};

/* Creates, fills (no later SIGBUS), seals and maps a ring. data_bytes: power of two within the
 * limits. */
int hw_ring_create(struct hw_ring_reader *r, uint64_t data_bytes);
/* The same with HW_SLICE_SLOTS of wire/slice_batch.h. */
int hw_ring_create_with_slots(struct hw_ring_reader *r, uint64_t data_bytes);
/* The same, with memory for about so many bytes; the rest comes with hw_ring_grow(). Until then the
 * writers find as much room as there is memory. */
int hw_ring_create_begun(struct hw_ring_reader *r, uint64_t data_bytes, uint64_t begun_bytes);
/* More memory, if the writers have used a part of what they have. HW_ESYS: none is to be had now. */
int hw_ring_grow(struct hw_ring_reader *r);
uint64_t hw_ring_memory_bytes(const struct hw_ring_reader *r); /* how much of the data has memory */
void hw_ring_close_fd(struct hw_ring_reader *r);
void hw_ring_done(struct hw_ring_reader *r);

/* Position up to which records were reserved when asked: a dump covers exactly those below it.
 * HW_EFORMAT if the word makes no sense. */
int hw_ring_write_pos(const struct hw_ring_reader *r, uint64_t *out);

/*
 * Copies the record at the cursor. 1 = *rec is a private copy, valid until the next call, *pos its
 * position; 0 = nothing finished there now (empty, or a hole: compare hw_ring_write_pos);
 * HW_EFORMAT = damaged. Does not release the space: hw_ring_release does.
 */
int hw_ring_peek(struct hw_ring_reader *r, const uint8_t **rec, uint32_t *size, uint64_t *pos);
/* A free, or an allocation that stands for itself: what a small interval is full of. */
struct hw_ring_small {
    uint64_t pos;
    uint64_t id; /* stack id, or the freed sample's */
    uint64_t time_ns;
    uint64_t size_heap; /* hw_exact_pack() of a possible heap; 0 = a free */
};
/*
 * Copies the records of these kinds that begin at the cursor and follow each other below the
 * position until, at most max of them, and gives their number and the position after them. The
 * cursor stays. Stops at anything else, good or bad: that is for hw_ring_peek().
 */
size_t hw_ring_gather(struct hw_ring_reader *r, uint64_t until, struct hw_ring_small *out,
                      size_t max, uint64_t *end);
void hw_ring_next(struct hw_ring_reader *r, uint32_t size); /* cursor behind the peeked record */
void hw_ring_release(
    struct hw_ring_reader *r); /* returns everything before the cursor to the writers */
/* A record at the cursor that is not committed, and whose thread is known. */
struct hw_ring_hole {
    uint64_t pos;
    uint32_t size, tid;
};
bool hw_ring_hole(const struct hw_ring_reader *r, struct hw_ring_hole *out);
/* Only when that thread is gone: steps over the hole if it is still the same one. */
bool hw_ring_pass_hole(struct hw_ring_reader *r, const struct hw_ring_hole *hole);
/* Only when the target is dead: steps to the next record whose head is right. 1 = there is one, 0 =
 * none left (the cursor is at the end), HW_EFORMAT = damaged. */
int hw_ring_skip_hole(struct hw_ring_reader *r);

/* Maps a ring received as a descriptor (the client's side; ends with a SIGSYS-free error, never
 * exits). */
int hw_ring_attach(int fd, struct hw_ring_writer *out);
void hw_ring_detach(struct hw_ring_writer *w);

#endif
