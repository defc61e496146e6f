/*
 * client.h - what the parts of the client share
 *
 * Why:     we are a guest in somebody else's malloc. Everything a hook touches is here: the
 *          thread's words, its slab, the session, and the two pages whose loads must take one
 *          instruction.
 * Shapes:  malloc_hooks.c decides in a few instructions whether there is anything to do, and
 *          otherwise jumps to the real function. slow_path.c does the rest: sample_due.c and
 *          sampler.c (is it due?), capture.c (the stack), live_set.c (which blocks are sampled),
 *          session/ (handshake, end).
 * Owns:    all memory comes from mmap and is static or belongs to a session.
 * Errors:  none reach the program: profiling stops, the reason goes to the ring's page.
 * Threads: see each part. errno is kept by every function that a hook calls.
 * Source:  doc/design/client.md
 */
#ifndef HW_CLIENT_CLIENT_H
#define HW_CLIENT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/interpreters/chain.h"
#include "client/ring/mixed.h"
#include "client/ring/open_marks.h"
#include "heapwise/marks.h"
#include "unwind/walk.h"
#include "wire/control_page.h"
#include "wire/handshake.h"
#include "wire/ring.h"

#define HW_EXPORT      __attribute__((visibility("default")))
#define HW_HIDDEN      __attribute__((visibility("hidden"))) /* data: reached without the GOT */
#define HW_COLD        __attribute__((noinline, cold))
#define hw_likely(x)   __builtin_expect(!!(x), 1)
#define hw_unlikely(x) __builtin_expect(!!(x), 0)

#if defined(__aarch64__)
#define HW_PAGE_ALIGN 65536 /* the largest page size of the architecture */
#else
#define HW_PAGE_ALIGN 4096
#endif

/* glibc's own variable for it, 2.32 and later; its malloc relies on it, too. A thread that
 * shares our memory without libc's knowledge (a raw clone) must not allocate beside us anyway. */
extern char __libc_single_threaded __attribute__((weak));
static inline bool hw_is_single_threaded(void)
{
    return &__libc_single_threaded && __libc_single_threaded;
}

/* ---- the caller of a hook ---- */

struct hw_call_site {
    uint64_t pc; /* return address into the caller */
    uint64_t sp; /* the caller's stack pointer after the call */
    uint64_t fp;
};

/* In a function that the hook jumped to: its own return address is the program's. */
#define HW_SITE(name)                                                                              \
    struct hw_call_site name = {(uint64_t)(uintptr_t)__builtin_return_address(0),                  \
                                (uint64_t)(uintptr_t)__builtin_dwarf_cfa(),                        \
                                *(const uintptr_t *)__builtin_frame_address(0)}

/* ---- one thread ---- */

enum hw_tls_flags {
    HW_TLS_BORROWS = 1,    /* has no slab (any more): borrows one for each sample */
    HW_TLS_RESOLVING = 2,  /* boot.c is looking up the real functions */
    HW_TLS_OURS = 4,       /* what is allocated now is for a call of ours */
    HW_TLS_SUPPRESSED = 8, /* our own thread: nothing it does counts as the program's */
    HW_TLS_LOOKING = 16,   /* no session; checks the probes' semaphore when left is used up */
    HW_TLS_PROBING = 32,   /* no session; the countdown is the probes' */
    HW_TLS_UNNAMED = 64,   /* bare client: not known which thread these words belong to */
    HW_TLS_ARMED = 128,    /* no session yet; the countdown belongs to the next one */
    HW_TLS_OBJECT = 256    /* in a realloc of Python's, and malloc's was not called in it so far */
};

/* All our static thread-local storage: at most 64 bytes (libraries that are loaded late share
 * 1664). */
struct hw_tls {
    uint64_t left;     /* after this many bytes the slow path runs; the hot path's only word */
    uint64_t reserve;  /* countdown = left + reserve; left <= interval, see sampler.c */
    uint64_t interval; /* of the draw; 0 = not sampling */
    uint64_t rng;
    uintptr_t busy; /* address of the outermost visit active on this thread, 0 = none */
    struct hw_slab *slab;
    uint32_t generation;                   /* control generation that the words above belong to */
    uint32_t flags;                        /* enum hw_tls_flags */
    uint32_t n_closing : 32 - HW_TID_BITS; /* dlclose calls of this thread, not returned */
    uint32_t tid : HW_TID_BITS;            /* 0 = not asked yet, or not known */
    uint32_t last_pos; /* / 8: of the last record reserved in the current visit; 0 = none */
#ifdef HW_BARE
    int err; /* errno */
#endif
};

#ifdef HW_BARE
#include "client/freestanding/freestanding.h"
#else
_Static_assert(sizeof(struct hw_tls) <= 64, "static TLS is scarce");
extern HW_HIDDEN __thread struct hw_tls hw_here __attribute__((tls_model("initial-exec")));
#endif

struct hw_heap_countdown {
    uint64_t left; /* bytes until the next sample, minus 1 */
    uint64_t interval;
};

/* What a thread needs once it samples; from a pool, returned when the thread ends. */
struct hw_slab {
    _Atomic uintptr_t busy;          /* seen 0 by the thread that wants to unmap a session */
    _Atomic uint32_t owner;          /* its thread's number; 0 = nobody */
    uint32_t generation;             /* of the session that the caches below belong to */
    uint64_t stack_lo, stack_hi;     /* the thread's stack, as far as it was seen; hi 0 = not yet */
    uint64_t foreign_lo, foreign_hi; /* the last stack that was found to be another */
    uint64_t copy_second_ns;         /* start of the second of copied_bytes */
    uint32_t copied_bytes;           /* see hw_copy_allowed() */
    uint32_t n_rounds;               /* of the thread's key destructors */
    uint32_t index;                  /* of all slabs */
    /* Frames, and samples with a walk, not yet added to the session's counters. */
    uint32_t n_walked, n_adopted, n_samples;
    bool sure;         /* out was walked with a list of modules that was valid then */
    bool is_unsettled; /* it led through unknown code, and was not pushed */
    bool is_mixed;     /* `mixed` is the stack, not `out` */
    bool is_known;     /* the recorder has out's frames, and out has not */
    struct hw_heap_countdown heaps[HW_MAX_HEAPS];
    struct hw_walk_out out;
    struct hw_mixed_stack mixed; /* untouched if no runtime is asked */
    struct hw_chain chain;
    struct hw_marks marks;
    /* the walker's cache follows, 64-byte aligned */
};

static inline struct hw_walk_cache *hw_slab_cache(struct hw_slab *s)
{
    return (struct hw_walk_cache *)(void *)((char *)s + ((sizeof *s + 63) & ~(size_t)63));
}

/* ---- one session ---- */

#define HW_SENT_SLOTS  65536u
#define HW_NAMED_SLOTS 8192u

/* The beginning of the tables' file, as far as it is mapped: mapped_tables.c. */
struct hw_tables_view {
    const void *at;
    uint64_t n_bytes;
};
#define HW_TABLES_VIEWS 24u /* each half as large again as needed when it was made */

struct hw_client_session {
    struct hw_ring_writer ring;
    const void *tables;   /* the first view: its directory */
    uint64_t tables_room; /* of the file that may be mapped */
    struct hw_tables_view views[HW_TABLES_VIEWS];
    _Atomic uint32_t n_views;
    _Atomic uint32_t views_lock; /* for good if no more can be made */
    uint32_t generation;
    uint32_t tag; /* of its live samples, never 0, 16 bits */
    uint64_t seed;
    uint64_t ahead_ns; /* the recorder's clock - ours, modulo 2^64; 0 in the same time namespace */
    _Atomic uint64_t n_draws;      /* ordinal of threads, for their seeds */
    _Atomic uint64_t last_maps_pc; /* the last notice of unknown code, and when */
    _Atomic uint64_t last_maps_ns;
    uint64_t began_ns;
    _Atomic uint64_t waited_ns;     /* by samples, for tables of new modules */
    _Atomic uint32_t waits_in_vain; /* those of them after which the table was still missing */
    _Atomic uint64_t settled_ns;    /* time that dlclose and exit waited */
    _Atomic uint64_t unsettled_pos; /* of the ring: behind the last copy through unknown code */
    _Atomic uint32_t minfo_done;    /* the request that was answered last */
    _Atomic uint64_t minfo_next_ns;
    _Atomic uint64_t failed_next_ns; /* failed allocations are reported again after this */
    _Atomic uint64_t maps_since_ns;  /* start of the second in which n_maps were made */
    _Atomic uint32_t n_maps;
    _Atomic uint32_t own_shown;     /* own_memory.h: what the ring's page says of our own memory */
    struct hw_client_session *next; /* retired ones */
    struct hw_client_config config;
    _Atomic uint64_t interval[HW_MAX_HEAPS];
    uint64_t base[HW_MAX_HEAPS];            /* as configured, of heaps that have an interval */
    _Atomic uint32_t doublings;             /* by the recorder, as of the last sample */
    _Atomic uint8_t doubled[HW_MAX_HEAPS];  /* by ourselves */
    _Atomic uint64_t rate_since_ns;         /* start of the second that is counted */
    _Atomic uint32_t rate_samples;          /* samples in it so far */
    _Atomic uint64_t sent[HW_SENT_SLOTS];   /* stack ids whose frames are in the ring */
    _Atomic uint64_t named[HW_NAMED_SLOTS]; /* ids of managed frames whose names are */
};

/*
 * The page that a forked child finds wiped, whatever kind of fork it was: the child is not profiled
 * until it has set itself up. It also holds the locks, so that none is inherited locked.
 */
struct hw_process_page_layout {
    _Atomic(struct hw_client_session *) session;
    _Atomic uint32_t started;
    _Atomic int32_t pid;
    _Atomic uint32_t settled; /* the generation that needs no handshake: it was answered */
    _Atomic uint32_t session_lock;
    _Atomic uint32_t live_lock;
    _Atomic uint32_t n_busy_without_slab;
    _Atomic uint64_t retry_ns;   /* no handshake before */
    _Atomic uint32_t n_failed;   /* handshakes in a row */
    _Atomic uint32_t child;      /* a forked child that was not answered yet */
    _Atomic uint32_t unanswered; /* the welcome has not arrived yet; under session_lock */
    _Atomic uint32_t slab_lock;
    _Atomic uint32_t armed_child;  /* it is a forked one that is armed */
    _Atomic uint32_t objects_lock; /* hooks/python_objects.c */
    _Atomic uint64_t armed;        /* the interval with which threads draw; 0 = they do not */
    _Atomic uint64_t n_lost_early; /* samples that were due before the recorder answered */
};

union hw_process_page_block {
    struct hw_process_page_layout page;
    char bytes[HW_PAGE_ALIGN];
};
union hw_control_block {
    struct hw_control_page page;
    char bytes[HW_PAGE_ALIGN];
};
extern HW_HIDDEN union hw_process_page_block hw_process_page_block;
extern HW_HIDDEN union hw_control_block hw_control_block;
extern HW_HIDDEN struct heapwise_marks hw_marks_shown;
#define hw_process_page (hw_process_page_block.page)
#define hw_control      (hw_control_block.page)

/* ---- may we call the kernel? ---- */

/* Filters that this process has set, or is setting, through libc. */
extern HW_HIDDEN _Atomic uint32_t hw_sandbox_filters, hw_sandbox_stricts;

/* enum hw_sandbox. The recorder checks the target's filters, too: see control_page.h. */
static inline uint32_t hw_sandbox(void)
{
    if (hw_unlikely(atomic_load_explicit(&hw_sandbox_stricts, memory_order_relaxed) != 0))
        return HW_SANDBOX_STRICT;
    uint32_t by_recorder = atomic_load_explicit(&hw_control.sandbox, memory_order_relaxed);
    if (hw_unlikely(atomic_load_explicit(&hw_sandbox_filters, memory_order_relaxed) != 0) &&
        !by_recorder)
        return HW_SANDBOX_FILTER;
    return by_recorder;
}

extern HW_HIDDEN bool hw_memlock_undo; /* our mappings are locked, and should not be */

#endif
