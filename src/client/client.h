/*
 * client.h - what the parts of the client share
 *
 * Why:     a guest in somebody else's malloc. Everything a hook touches is here: the thread's
 *          words, its slab, the session, and the two pages whose loads must be one instruction.
 * Shapes:  hooks.c decides in a few instructions whether anything is to be done and otherwise jumps
 *          to the real function. slow_path.c does the rest: sampler.c (is it due?), capture.c (the
 *          stack), live.c (which blocks are sampled), session.c (handshake, stop, ring).
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

#include "client/sample/managed.h"
#include "client/sample/marks.h"
#include "client/sample/python.h"
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

/* glibc's own word for it, 2.32 and later; its malloc relies on it, too. A thread that shares our
 * memory without libc's knowledge (a raw clone) must not allocate beside us anyway. */
extern char __libc_single_threaded __attribute__((weak));
static inline bool hw_alone(void)
{
    return &__libc_single_threaded && __libc_single_threaded;
}

/* ---- the caller of a hook ---- */

struct hw_call_site {
    uint64_t pc; /* return address into the caller */
    uint64_t sp; /* the caller's stack pointer behind the call */
    uint64_t fp;
};

/* In a function that the hook reached by a jump: its own return address is the program's. */
#define HW_SITE(name)                                                                              \
    struct hw_call_site name = {(uint64_t)(uintptr_t)__builtin_return_address(0),                  \
                                (uint64_t)(uintptr_t)__builtin_dwarf_cfa(),                        \
                                *(const uintptr_t *)__builtin_frame_address(0)}

/* ---- one thread ---- */

enum hw_tls_flags {
    HW_TLS_BORROWS = 1,   /* has no slab, or no more: one is borrowed for each sample */
    HW_TLS_RESOLVING = 2, /* boot.c is looking up the real functions */
    HW_TLS_OURS = 4,      /* libc allocates because we asked it for something */
    HW_TLS_HUSHED = 8,    /* a thread of ours: nothing it does is the program's */
    HW_TLS_LOOKING = 16,  /* no session; looks at the probes' semaphore when left is used up */
    HW_TLS_PROBING = 32,  /* no session; the countdown is the probes' */
    HW_TLS_UNNAMED = 64,  /* bare client: nothing says whose words these are by now */
    HW_TLS_ARMED = 128    /* no session; the countdown is that of the one to come */
};

/* All our static thread-local storage: at most 64 bytes (libraries that are loaded late share 1664
 * with each other). */
struct hw_tls {
    uint64_t left;     /* this many bytes call the slow path; the hot path's only word */
    uint64_t reserve;  /* countdown = left + reserve; left <= interval, see sampler.c */
    uint64_t interval; /* of the draw; 0 = not sampling */
    uint64_t rng;
    uintptr_t busy; /* address of the outermost visit at work on this thread, 0 = none */
    struct hw_slab *slab;
    uint32_t generation;                   /* control generation that the words above belong to */
    uint32_t flags;                        /* enum hw_tls_flags */
    uint32_t n_closing : 32 - HW_TID_BITS; /* dlclose calls of this thread, not returned */
    uint32_t tid : HW_TID_BITS;            /* 0 = not asked yet, or it cannot be told */
    uint32_t last_pos; /* / 8: of the last record reserved in the visit under way; 0 = none */
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

/* What a thread needs once it samples; from a pool, given back when the thread ends. */
struct hw_slab {
    _Atomic uintptr_t busy;          /* seen 0 by the thread that wants to unmap a session */
    _Atomic uint32_t owner;          /* its thread's number; 0 = nobody */
    uint32_t generation;             /* of the session that the caches below belong to */
    uint64_t stack_lo, stack_hi;     /* the thread's, as far as it was seen; hi 0 = not yet */
    uint64_t foreign_lo, foreign_hi; /* the last stack that was found to be another */
    uint64_t copy_second_ns;         /* start of the second in which n_copies were made */
    uint32_t n_copies;
    uint32_t n_rounds; /* of the thread's key destructors */
    uint32_t index;    /* of all slabs */
    /* Frames, and samples with a walk, not yet added to the session's counters. */
    uint32_t n_walked, n_adopted, n_samples;
    bool sure;     /* out was walked with a list of modules that was right then */
    bool is_mixed; /* `mixed` is the stack, not `out` */
    struct hw_heap_countdown heaps[HW_MAX_HEAPS];
    struct hw_walk_out out;
    struct hw_mixed mixed; /* untouched where no runtime is asked */
    struct hw_python python;
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

/* The beginning of the tables' file, as far as it is mapped: tables.c. */
struct hw_tables_view {
    const void *at;
    uint64_t n_bytes;
};
#define HW_TABLES_VIEWS 24u /* each half as large again as what it was made for */

struct hw_client_session {
    struct hw_ring_writer ring;
    const void *tables;   /* the first view: its directory */
    uint64_t tables_room; /* of the file that may be mapped */
    struct hw_tables_view views[HW_TABLES_VIEWS];
    _Atomic uint32_t n_views;
    _Atomic uint32_t views_lock; /* for good where no more can be made */
    uint32_t generation;
    uint32_t tag; /* of its live samples, never 0, 16 bits */
    uint64_t seed;
    uint64_t ahead_ns; /* the recorder's clock - ours, modulo 2^64; 0 in the same time namespace */
    _Atomic uint64_t n_draws;      /* ordinal of threads, for their seeds */
    _Atomic uint64_t last_maps_pc; /* the last notice of unknown code, and when */
    _Atomic uint64_t last_maps_ns;
    uint64_t began_ns;
    _Atomic uint64_t waited_ns;  /* by samples, for tables of new modules */
    _Atomic uint64_t settled_ns; /* waited by dlclose and exit */
    _Atomic uint32_t unsettled;  /* a copy was sent that leads through code not known yet */
    _Atomic uint32_t minfo_done; /* the request that was answered last */
    _Atomic uint64_t minfo_next_ns;
    _Atomic uint64_t failed_next_ns; /* the next failed allocation is told of then */
    struct hw_client_session *next;  /* retired ones */
    struct hw_client_config config;
    _Atomic uint64_t interval[HW_MAX_HEAPS];
    uint64_t base[HW_MAX_HEAPS];            /* as configured, of heaps that have an interval */
    _Atomic uint32_t doublings;             /* by the recorder, as of the last sample */
    _Atomic uint8_t doubled[HW_MAX_HEAPS];  /* by ourselves */
    _Atomic uint64_t rate_since_ns;         /* begin of the second that is counted */
    _Atomic uint32_t rate_samples;          /* in it so far */
    _Atomic uint64_t sent[HW_SENT_SLOTS];   /* stack ids whose frames are in the ring */
    _Atomic uint64_t named[HW_NAMED_SLOTS]; /* managed ids whose names are */
};

static inline bool hw_marks_is_told(const struct hw_client_session *s, uint64_t id)
{
    return atomic_load_explicit(&s->named[id % HW_NAMED_SLOTS], memory_order_relaxed) == id;
}

/*
 * The page that a forked child finds wiped: whatever kind of fork, nobody is profiled there until
 * the child has looked. Also holds the locks, so that none is inherited locked.
 */
struct hw_process_page_layout {
    _Atomic(struct hw_client_session *) session;
    _Atomic uint32_t started;
    _Atomic int32_t pid;
    _Atomic uint32_t settled; /* generation whose answer is known and was no */
    _Atomic uint32_t session_lock;
    _Atomic uint32_t live_lock;
    _Atomic uint32_t n_busy_without_slab;
    _Atomic uint64_t retry_ns;   /* no handshake before */
    _Atomic uint32_t n_failed;   /* handshakes in a row */
    _Atomic uint32_t child;      /* a forked child that was not answered yet */
    _Atomic uint32_t unanswered; /* the token's welcome is still to come; under session_lock */
    _Atomic uint32_t slab_lock;
    _Atomic uint32_t armed_child;  /* it is a forked one that is armed */
    _Atomic uint64_t armed;        /* the interval with which threads draw; 0 = they do not */
    _Atomic uint64_t n_lost_early; /* samples that were due while the recorder had not answered */
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

/* ---- sandbox.c: may we call the kernel? ---- */

/* Filters that were set, or are being set, by this process through libc. */
extern HW_HIDDEN _Atomic uint32_t hw_sandbox_filters, hw_sandbox_stricts;

/* enum hw_sandbox. The recorder looks after the target's filters, too: see control_page.h. */
static inline uint32_t hw_sandbox(void)
{
    if (hw_unlikely(atomic_load_explicit(&hw_sandbox_stricts, memory_order_relaxed) != 0))
        return HW_SANDBOX_STRICT;
    uint32_t told = atomic_load_explicit(&hw_control.sandbox, memory_order_relaxed);
    if (hw_unlikely(atomic_load_explicit(&hw_sandbox_filters, memory_order_relaxed) != 0) && !told)
        return HW_SANDBOX_FILTER;
    return told;
}
void hw_sandbox_init(void); /* in the constructor */

/* ---- memlock.c: mlockall ---- */

extern HW_HIDDEN bool hw_memlock_undo; /* what we map is locked, and is not to be */
void hw_memlock_init(void *real);      /* in the constructor; NULL = by the kernel's number */
int hw_memlock(int flags, bool by_number);

/* ---- a visit: our code at work, nothing may be unmapped meanwhile ---- */

struct hw_client_guard {
    uint64_t mark;                     /* both: of a visit under way */
    struct hw_client_session *session; /* NULL: nobody is recording */
    uintptr_t tls_before, slab_before;
    uint32_t last_pos_before;
    struct hw_slab *slab; /* whose busy word was set; NULL = the common counter */
    bool nested;          /* a signal handler inside another visit: record frees only */
    uint64_t end_mark;
};

/* *v is on the caller's stack: its address tells inner visits from abandoned ones. */
void hw_enter(struct hw_client_guard *v);
void hw_leave(struct hw_client_guard *v);
struct hw_slab *hw_slab_get(void); /* the thread's; NULL when there is none for it */
/* For one sample of a thread that has given its own back; NULL when there is none. */
struct hw_slab *hw_slab_borrow(void);
void hw_slab_return(struct hw_slab *s);
bool hw_slabs_idle(void);                  /* no thread is inside a visit */
void hw_slabs_reset(struct hw_slab *mine); /* in a forked child: only this thread is left */
/* thread_ends: what libc calls with the slab of a thread that ends. */
int hw_slabs_init(void (*thread_ends)(void *slab));
/* In there: shall it come once more? Else the slab is left, by the last who needs it. */
bool hw_slab_is_kept(struct hw_slab *slab);
void hw_slab_leave(struct hw_slab *slab);
void hw_visit_abandon(struct hw_tls *t); /* the outermost visit of this thread will never end */
uint64_t hw_slabs_bytes(void);           /* of address space that those of some threads take */
void hw_slabs_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes), void *arg);

/* ---- sampler.c ---- */

/* The hot path. true = the slow path shall look; false = the bytes are accounted. */
static inline bool hw_due(uint64_t n)
{
    struct hw_tls *t = &hw_here;
    uint64_t left = t->left;
    if (hw_unlikely(t->generation !=
                    atomic_load_explicit(&hw_control.generation, memory_order_relaxed)))
        return true;
    if (hw_unlikely(n >= left))
        return true;
    t->left = left - n;
    return false;
}

#define HW_NOT_SAMPLED UINT64_MAX

/* Bytes that this allocation of libc.malloc stands for, or HW_NOT_SAMPLED. After hw_due was true.
 * A block of size 0 is sampled at interval 1, and stands for 0. sp: the caller's. */
uint64_t hw_sampler_take(uint64_t n, uint64_t sp);
/* The same for a heap of the program. */
uint64_t hw_sampler_take_heap(struct hw_client_session *s, uint32_t heap_id, uint64_t n);
uint64_t hw_sampler_draw(uint64_t *rng, uint64_t interval); /* geometric, mean interval */
void hw_sampler_start(struct hw_tls *t, struct hw_client_session *s);
void hw_sampler_begin(struct hw_tls *t, uint64_t seed, uint64_t interval); /* a first draw */
uint64_t hw_sampler_mix(uint64_t x); /* a seed of something that is none */
/* countdown <= 0 after the bytes were taken: draws until it is above. Gives the sampled weight. */
uint64_t hw_sampler_redraw(uint64_t *rng, uint64_t interval, uint64_t missing, uint64_t *countdown);

static inline void hw_sampler_split(struct hw_tls *t, uint64_t countdown)
{
    uint64_t most = t->interval > 1 ? t->interval : 0;
    t->left = countdown < most ? countdown : most;
    t->reserve = countdown - t->left;
}

/* Bytes until a thread that is not sampling looks again without a new generation. */
#define HW_QUIET_BYTES (1ull << 62)
extern HW_HIDDEN bool hw_left_alone; /* in this process nothing is ever sampled */

/* ---- limits.c, prepare.c ---- */

/* May so much address space be ours? Where the program may use little (RLIMIT_AS), 1 / share. */
bool hw_may_take(uint64_t n_bytes, uint32_t share);
/* Is whatever is mapped now there at once, and to stay? */
bool hw_locks_what_comes(void);
uint64_t hw_random_seed(void);    /* another one each time */
void hw_membarrier_prepare(void); /* while there is one thread: with several it costs more */

/* ---- session.c, retire.c, fork.c ---- */

void hw_client_session_settle(struct hw_tls *t, uint32_t generation);
void hw_client_session_start(uint32_t hello_flags, uint64_t timeout_ns);
/* A sample is due that was drawn with this interval, without a session. True: one runs by now for
 * which that counts, and the thread is in it. Waits for an answer, a moment. */
bool hw_client_session_ask(struct hw_tls *t, uint64_t interval);
/* The program is about to give up its calls: whoever is armed asks now, or never can. */
void hw_client_session_ask_last(void);
void hw_client_session_stop(struct hw_client_session *s);
/* Puts it out of sight; false: somebody else has. */
bool hw_client_session_retire(struct hw_client_session *s);
/* Those that were, and that nobody has collected so far. Under the session's lock. */
struct hw_client_session *hw_client_session_collect(void);
void hw_client_session_give_up(struct hw_client_session *s, enum hw_client_error why);
void hw_client_session_forked(void); /* the live page was found wiped */
bool hw_client_session_strips(void); /* the recorder wants this process not to hand us on */
bool hw_client_session_strips_children(void);
void hw_client_session_init(const char *socket_path, const char *other_path); /* "" = no other */
void hw_fork_init(void);
void hw_token_drop(void); /* closes the token descriptor if it is still ours */

extern HW_HIDDEN struct hw_client_session
    *hw_client_session_last; /* survives a fork, unlike the live page's pointer */

/* What we have mapped, in pieces: all, or what goes when the session is over. Outside of any visit.
 */
void hw_client_session_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes),
                                    void *arg, bool of_session);
/* Ends the session, because the program wants the room. false: somebody is using it still. */
bool hw_client_session_make_way(void);

/* The recording is over and nobody will call a hook any more: all that is left goes. */
void hw_client_session_detach(void);
bool hw_client_session_busy(void); /* a recorder has us, and is alive */

/* ---- init.c ---- */

/* In the constructor, before anything asks for the time. NULL: by a system call. */
void hw_clock_init(void *of_kernel);
int hw_client_prepare(void); /* everything before the first handshake; 0, or -1 = no memory */

/* ---- patch.c: hooks by changed words ---- */

struct hw_patch_counts {
    uint32_t n_modules, n_changed;
    uint32_t n_slots; /* that lead to us now */
};
/* The loader's lock is held. on: they lead to our hooks, else to the real functions. */
void hw_patch_all(bool on, struct hw_patch_counts *out);
/* In the constructor of a preloaded client: the allocator's own operators, if it has some. */
void hw_patch_operators(void);
void *hw_operator_real(const char *name); /* NULL = not hooked */

/* ---- push.c ---- */

struct hw_ring_thread hw_push_thread(void); /* this one, as the ring wants to know it */
/* A visit of this thread was left in the middle: its last record will not be finished by it. */
void hw_push_abandoned(struct hw_client_session *s);
/* Room for a record, waiting as the configuration says; 0 = there is none, the session is over. */
uint64_t hw_push_reserve(struct hw_client_session *s, uint32_t size);
bool hw_push_alone(struct hw_client_session *s, uint64_t now_ns); /* recorder long dead: given up */
/* Has its heart not beaten for so long, as far as we have looked? now_ns: of hw_local_ns(). */
bool hw_recorder_silent(uint64_t now_ns, uint64_t limit_ns);
void hw_recorder_heard(uint64_t now_ns); /* it has just answered */
void hw_push_free(struct hw_client_session *s, uint64_t sample_id);
void hw_push_heap(struct hw_client_session *s, uint32_t heap_id, const char *name,
                  uint64_t interval);
/* The allocator refused so many bytes. Outside of any visit; keeps errno. */
void hw_push_failed(size_t n_bytes);
void hw_push_maps(struct hw_client_session *s, uint64_t pc, uint64_t now_ns);

#define hw_count(s, name, n)                                                                       \
    ((void)atomic_fetch_add_explicit(&(s)->ring.shm->counters.name, (n), memory_order_relaxed))

/* ---- tables.c: the part of the tables' file that is mapped ---- */

bool hw_tables_map(struct hw_client_session *s, int fd,
                   uint64_t room); /* fd: it is as long as that */
void hw_tables_unmap(const struct hw_client_session *s);
const struct hw_tables_view *hw_tables_grow(struct hw_client_session *s, uint64_t used);

/* One that holds all that is published, if that can be had. In a visit, which keeps it there. */
static inline const struct hw_tables_view *hw_tables_view(struct hw_client_session *s)
{
    uint32_t n = atomic_load_explicit(&s->n_views, memory_order_acquire);
    const struct hw_tables_view *v = &s->views[n - 1];
    const struct hw_tables_dir *d = v->at;
    uint64_t used = atomic_load_explicit(&d->used, memory_order_acquire);
    return hw_likely(used <= v->n_bytes) ? v : hw_tables_grow(s, used);
}

/* ---- unload.c: code that goes away ---- */

/* Is the newest list of modules right for what runs on this thread now? Not behind a dlclose, until
 * the recorder has read the mappings again. */
static inline bool hw_modules_settled(const struct hw_client_session *s)
{
    const struct hw_tables_dir *d = s->tables;
    uint32_t begun = atomic_load_explicit(&s->ring.shm->closes_begun, memory_order_acquire);
    return begun - hw_here.n_closing == atomic_load_explicit(&d->closes_seen, memory_order_acquire);
}

/* ---- capture.c ---- */

struct hw_event {
    uint64_t id; /* address or alloc_id */
    uint64_t size, weight;
    uint32_t heap_id, flags;
    const struct hw_call_site *site;
};

bool hw_record_alloc(const struct hw_event *e);
void hw_report_free(uint32_t heap_id, uint64_t id);
void hw_adapt_interval(struct hw_client_session *s, uint32_t heap_id);
/* After somebody has doubled it or halved it. */
void hw_interval_refresh(struct hw_client_session *s, uint32_t heap_id);

/* ---- minfo.c: malloc_info ---- */

void hw_minfo_init(void);
/* In a visit, with the sample's stack: shall this thread ask its allocator? Claims the request. */
bool hw_minfo_due(struct hw_client_session *s, const struct hw_walk_out *o);
void hw_minfo_make(uint32_t generation); /* outside of any visit */

/* ---- java.c ---- */

/* Was this block asked for by a JVM's code, and does the recorder want our library in there? */
static inline bool hw_java_due(const struct hw_call_site *site)
{
    uint64_t hi = atomic_load_explicit(&hw_control.java_hi, memory_order_acquire);
    uint64_t lo = atomic_load_explicit(&hw_control.java_lo, memory_order_relaxed);
    return hw_unlikely(hi != 0) && site->pc - lo < hi - lo;
}
void hw_java_init(void);
void hw_java_bring_in(void); /* once a process; outside of any visit; keeps nothing of errno */
/* The same at once, by the thread that has just made a JVM: JNI's pointers. */
void hw_java_made(void *vm, void *env);

/* ---- launcher.c ---- */

void hw_launcher_init(void); /* in the constructor of a preloaded client */
bool hw_launcher_is_there(
    void); /* it may make a JVM, for which there has to be a session by then */
/* The java command makes a JVM: hw_java_made() will come, unless that fails. */
bool hw_launcher_is_making(void);

/* ---- heaps.c ---- */

void hw_heaps_select(struct hw_client_session *s);   /* fills s->interval */
void hw_heaps_announce(struct hw_client_session *s); /* writes the heaps' records */
/* For java.c: see wire/java_entrance.h. */
uint32_t hw_heaps_make(const char *name, void (*enabled)(uint64_t), void (*disabled)(void));
bool hw_heaps_sample(uint32_t id, uint64_t alloc_id, uint64_t size, uint64_t weight);
void hw_heaps_notice(uint32_t id);

/* ---- env.c, say.c ---- */

/* sanitizer.c: of a program held at its exec, whose environment has them no more; NULL = not there.
 * And the entry that the kernel's array has again in the place of each; NULL = none. */
const char *hw_start_variable(const char *name);
const char *hw_start_again(void);
void hw_env_init(void); /* in the constructor */
void hw_env_strip(void);
void hw_say(const char *text); /* one line to stderr; only for what the user asked for */

#endif
