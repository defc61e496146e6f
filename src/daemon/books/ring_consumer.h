/*
 * ring_consumer.h - one target's stream: ring in, books and stacks out
 *
 * Why:     the work that must keep up with the target is separated from what may wait for disks,
 *          /proc and other processes. A feed knows numbers only: positions, sizes, addresses, stack
 *          numbers.
 * Shapes:  stacks are numbered densely from 0 in order of appearance and never change; their frames
 *          stay in place until the feed is freed, so the recorder's main thread may read a stack
 *          that was reported to it while the feed is drained.
 * Owns:    ring, books, stacks. Borrows the tables' mapping.
 * Errors:  a damaged ring or record ends the feed (HW_CONSUMER_BROKEN), never the recorder.
 * Threads: one owner at a time: a drain thread (drain.h), or the thread that was told that it has
 *          released the feed.
 */
#ifndef HW_DAEMON_BOOKS_RING_CONSUMER_H
#define HW_DAEMON_BOOKS_RING_CONSUMER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory/arena.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "daemon/books/books.h"
#include "daemon/books/idle_samples.h"
#include "daemon/books/managed_names.h"
#include "daemon/books/mappings.h"
#include "daemon/books/pace.h"
#include "proc/shared_maps.h"
#include "trace/stream_writer.h"
#include "wire/ring.h"

#define HW_UNWIND_BUCKETS_FEED 20

struct hw_stack {
    uint32_t index;
    uint32_t n_frames;
    uint16_t stop;       /* enum hw_walk_stop; HW_CONSUMER_STOP_LOST */
    uint16_t generation; /* low bits of the snapshot's that it was walked with */
    bool mixed;          /* some entries are ids of managed frames */
    uint64_t time_ns;    /* CLOCK_MONOTONIC: its code existed by then */
    /* Leaf first; after them the words with the bits of exact ones; mixed: those of managed
     * ones. */
    uint64_t pcs[];
};
#define HW_CONSUMER_STOP_LOST       1000u /* frames of this id never arrived */
#define HW_CONSUMER_STOP_NOT_WALKED 1001u /* there are none: HW_STACK_ID_NOT_WALKED */

static inline bool hw_stack_is_exact(const struct hw_stack *s, uint32_t i)
{
    return s->pcs[s->n_frames + i / 64] >> (i % 64) & 1;
}

static inline bool hw_stack_is_managed(const struct hw_stack *s, uint32_t i)
{
    return s->mixed && s->pcs[s->n_frames + (s->n_frames + 63) / 64 + i / 64] >> (i % 64) & 1;
}

struct hw_inherited;
struct hw_walk_cache;
struct hw_walk_out;
struct hw_ring_consumer_known;
struct hw_slice_seen;

/* A scope that begins or ends, see struct hw_slice_entry. */
struct hw_fed_slice {
    uint64_t id; /* 0 = an end */
    uint64_t time_ns;
    uint32_t tid, depth;
};

/* The allocator's figures, and what the books had where they stand in the ring. */
struct hw_minfo {
    struct hw_rec_minfo r;
    uint64_t live_bytes; /* of libc.malloc */
    double rounding;     /* < 0: unknown */
};

struct hw_ring_consumer {
    void *owner; /* for the reader of the messages; never used here */
    struct hw_ring_reader ring;
    struct hw_books books;
    struct hw_mappings mappings;
    struct hw_map64 ids;                  /* stack id → number, FEED_INCOMPLETE */
    struct hw_ring_consumer_known *known; /* owned; cells of recent stacks in libc.malloc */
    HW_VEC(const struct hw_stack *) stacks;
    size_t n_told; /* stacks below this were reported */
    struct hw_managed_names managed;
    struct hw_arena arena;
    _Atomic uint64_t *heartbeat; /* in the control page; borrowed; NULL = none */
    uint64_t heartbeat_ns;
    const void *tables; /* struct hw_tables_dir; borrowed; NULL = none */
    uint32_t arch;
    bool stream; /* stream_allocations: events are reported, stacks not wanted */
    HW_VEC(struct hw_stream_event) events;   /* not reported yet */
    uint64_t sequence_numbers[HW_MAX_HEAPS]; /* per heap, from 1: counted here */
    HW_VEC(struct hw_fed_slice) slices;      /* not reported yet */
    struct hw_slice_seen *slots;             /* owned; HW_SLICE_SLOTS; NULL = none seen yet */
    _Atomic size_t n_slices_told;            /* and not written yet */
    uint64_t n_lost_slices;                  /* for want of memory or time */
    struct hw_map64 addresses;               /* of live samples, for their frees */
    bool keeps_addresses;                    /* --idle-allocations */
    struct hw_idle_live idle;
    struct hw_walk_cache *cache;    /* owned; made at the first copied stack */
    struct hw_walk_out *walk;       /* owned */
    struct hw_copied_frames *mixed; /* owned; with what an interpreter ran */
    uint16_t walk_generation;       /* of its snapshot */

    /* A copied stack that waits for a table. */
    uint64_t stall_since_ns;  /* 0 = no stall */
    uint64_t stalls_again_ns; /* one waited in vain: no other waits before */
    uint64_t maps_asked_ns;
    uint64_t maps_pc; /* why */
    bool maps_wanted; /* to be reported to the main thread */
    bool maps_answered;
    uint32_t maps_ask;       /* number of the question */
    uint64_t quick_until_ns; /* threads of the target may be waiting for new modules until then */

    /* mapping_feed.c: records whose kind only the main thread can find out wait for its look at the
     * process's shared mappings. One look answers for all that was in the ring by then. */
    struct hw_asked_shared {
        struct hw_shared_maps maps; /* owned; of the last look... */
        uint64_t until;             /* ...which knows what the records below have mapped */
        uint64_t asks_until;        /* the same of the one that was asked for */
        uint64_t since_ns;          /* a record has waited since then; 0 = none waits */
        uint64_t again_ns;          /* one waited in vain: no other waits before */
        uint32_t ask;               /* number of the question */
        bool wanted;                /* to be told to the main thread */
    } shared;

    HW_VEC(struct hw_inherited *) forks; /* what its children have; not told yet */
    uint64_t fork_next_ns;               /* none is looked at before */
    struct hw_minfo minfo; /* the newest; to be told to the main thread when minfo_new */
    bool minfo_new;

    bool stops_at_failure;  /* at the next one, which clears it */
    uint32_t failure_flags; /* of the snapshot there */
    uint64_t n_failed;      /* failed allocations that the target reported */

    uint64_t hole_pos, hole_since_ns;
    struct hw_ring_hole hole; /* about which the main thread was last asked */
    uint64_t hole_ask_ns;     /* and when it is asked again */
    bool dead;                /* the process is gone: holes are skipped */
    _Atomic bool gone;        /* set by the main thread: nothing writes any more */
    bool broken;
    uint64_t max_bytes;             /* of memory; 0 = no limit */
    _Atomic uint64_t bytes;         /* as of the last drain that booked something */
    _Atomic uint64_t live;          /* likewise: estimated live bytes of all heaps */
    _Atomic uint64_t gaps_libc;     /* likewise: around blocks of libc.malloc */
    _Atomic uint64_t live_libc;     /* likewise: of libc.malloc; UINT64_MAX = none was reported */
    _Atomic uint64_t rounding_libc; /* likewise: of these; UINT64_MAX = the rule is not known */
    _Atomic uint64_t spent_ns;      /* CPU time for its records: decreases with fewer samples */
    bool full;                      /* more than that: nothing more is read */

    struct { /* drain.c's own */
        struct hw_pace pace;
        bool snap, final, told_broken, told_stuck, told_full, at_failure;
        uint32_t snap_flags;
        uint64_t snap_until, snap_deadline_ns, names_deadline_ns;
    } d;

    uint64_t n_records, n_samples, n_unwind_errors, n_collisions, n_lost_stacks, n_copies, n_nomem;
    uint64_t n_unclear; /* copied stacks that an interpreter's frames did not fit */
    uint64_t unwind_us;
    uint64_t unwind_hist[HW_UNWIND_BUCKETS_FEED];
};

enum hw_ring_consumer_status {
    HW_CONSUMER_EMPTY,   /* nothing more to read */
    HW_CONSUMER_REACHED, /* everything below `until` is booked */
    HW_CONSUMER_MORE,    /* the limit of records was used up */
    HW_CONSUMER_STALLED, /* a copied stack waits for a table */
    HW_CONSUMER_HOLE,    /* a reserved record is not committed; the process lives */
    HW_CONSUMER_FULL,    /* max_bytes: this and all later ones */
    HW_CONSUMER_FAILED,  /* an allocation failed just here (stops_at_failure) */
    HW_CONSUMER_BROKEN
};

/* Takes over the ring. follow_peak: see books.h. */
void hw_ring_consumer_init(struct hw_ring_consumer *f, struct hw_ring_reader *ring,
                           bool follow_peak);
void hw_ring_consumer_done(struct hw_ring_consumer *f);

/* Books records below the position until (UINT64_MAX = all), at most max of them. */
enum hw_ring_consumer_status hw_ring_consumer_drain(struct hw_ring_consumer *f, uint64_t until,
                                                    size_t max, uint64_t now_ns);

/* ---- copied_stack.c ---- */

/* As in a record HW_REC_STACK, or HW_REC_MIXED. */
struct hw_copied_stack {
    struct hw_rec_stack head;
    const void *pcs, *bits; /* borrowed from the consumer, until the next one */
    bool mixed;
};

enum hw_copy_status {
    HW_COPY_WALKED,
    HW_COPY_WAITS,   /* for a table; the same record comes again */
    HW_COPY_FOREIGN, /* of another architecture, or without its registers */
    HW_COPY_NO_MEMORY
};
/* A record HW_REC_ALLOC_COPY whose sizes are right: after its head come registers, then bytes, then whatever its n_bytes have.
 * out: as if the target had walked it. */
enum hw_copy_status hw_ring_consumer_walk(struct hw_ring_consumer *f, const struct hw_rec_copy *c,
                                          struct hw_bytes behind, uint64_t now_ns,
                                          struct hw_copied_stack *out);
/* A record HW_REC_MAPS: the target met code that is in no table; false: it is damaged. */
bool hw_ring_consumer_maps(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size,
                           uint64_t now_ns);

/* ---- mapping_feed.c ---- */

/* A record of an allocation in one of the mappings' heaps; false: there is more to do, and the
 * same record comes again. */
bool hw_ring_consumer_map(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint64_t pos,
                          uint32_t stack, bool is_cut);
/* Before that: does it wait until the main thread has looked? The ring stays readable meanwhile: it
 * waits no longer than half of it is free. */
bool hw_ring_consumer_map_waits(struct hw_ring_consumer *f, const struct hw_rec_alloc *a,
                                uint64_t pos, uint64_t now_ns);
/* The look; takes over what is in it. */
void hw_ring_consumer_take_shared(struct hw_ring_consumer *f, uint32_t ask,
                                  struct hw_shared_maps *maps);
void hw_ring_consumer_map_done(struct hw_ring_consumer *f);
/* Of a record HW_REC_FORK; false: it is damaged. */
bool hw_ring_consumer_fork(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size);
/* Of a record HW_REC_UNMAP; 1: it comes again; HW_EFORMAT: it is damaged. */
int hw_ring_consumer_unmap(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size);

/* ---- slice_feed.c ---- */

/* A record HW_REC_SLICES; false: it is damaged. */
bool hw_ring_consumer_minfo(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size);
bool hw_ring_consumer_slices(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size);
/* What threads have collected and not sent. final: nothing more comes through the ring. */
void hw_ring_consumer_slice_rests(struct hw_ring_consumer *f, bool final);

/* ---- ring_snapshot.c ---- */

/* After records were booked: how much memory it takes, and what is live. */
void hw_ring_consumer_measure(struct hw_ring_consumer *f);

/* What a dump needs, self-contained: */

struct hw_snap_cell {
    uint32_t stack;
    struct hw_totals t;
};

struct hw_snap_book {
    uint32_t heap_id;
    char name[HW_HEAP_NAME_MAX];
    uint64_t interval_bytes, orig_interval_bytes, n_samples;
    uint64_t peak_ns;
    bool has_peak;                          /* a new maximum that is not the present state */
    HW_VEC(struct hw_snap_cell) cells;      /* changed since the last snapshot */
    HW_VEC(struct hw_snap_cell) peak_cells; /* totals at the maximum */
};

struct hw_snapshot {
    uint64_t ts_ns; /* CLOCK_MONOTONIC_COARSE when the drain was complete */
    uint64_t until; /* ring position it covers */
    uint32_t client_error;
    uint32_t objects; /* enum hw_ring_objects */
    bool broken;
#define X(name, text) uint64_t name;
    HW_RING_COUNTERS(X)
#undef X
    uint64_t n_records, n_samples, n_unwind_errors, n_collisions, n_lost_stacks, n_holes,
        hole_bytes, n_unknown_free, n_copies, unwind_us;
    uint64_t unwind_hist[HW_UNWIND_BUCKETS_FEED];
    HW_VEC(struct hw_snap_book) books;
    HW_VEC(struct hw_idle_sample) idle; /* live ones of libc.malloc; keeps_addresses */
    bool has_rounding;                  /* in the totals of libc.malloc */
    hw_mapped_list mapped;              /* of mmap.anon, at most HW_SNAP_MAPPED */
    uint64_t mapped_bytes;              /* all of mmap.anon */
};

#define HW_SNAP_MAPPED 32768u

enum hw_snap_flags {
    HW_SNAP_PEAK = 1, /* also new maxima, of cells changed since the last snapshot */
    HW_SNAP_MAX = 2,  /* all cells at their maximum (dump_at_max) */
    HW_SNAP_LIVE = 4  /* all cells, for display only: the next snapshot still has every change */
};

int hw_ring_consumer_snapshot(struct hw_ring_consumer *f, uint32_t flags, struct hw_snapshot **out);
void hw_snapshot_free(struct hw_snapshot *s);

#endif
