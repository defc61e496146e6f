/*
 * core.h - the objects of the recorder's main thread and who may call whom
 *
 *     recorder ──┬── controls   connections of commands            control.c
 *                ├── sessions   one recording each                 session.c
 *                ├── conns      clients that are not profiled      clients.c
 *                ├── targets    one profiled process each          target.c, dump.c
 *                ├── modules    files they execute                 modules.c
 *                └── drain      threads that empty rings           drain.c
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_CORE_H
#define HW_DAEMON_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "config/config.h"
#include "daemon/again.h"
#include "daemon/books/callsite_totals.h"
#include "daemon/books/drain.h"
#include "daemon/books/ring_consumer.h"
#include "daemon/books/slices.h"
#include "daemon/code/blocking_reader.h"
#include "daemon/code/frames.h"
#include "daemon/code/jit.h"
#include "daemon/code/modules.h"
#include "daemon/code/tables.h"
#include "daemon/code/worker.h"
#include "daemon/execwatch/exec_watch.h"
#include "daemon/java/graph_links.h"
#include "daemon/notes.h"
#include "daemon/policy/permission.h"
#include "daemon/reach/namespace_socket.h"
#include "daemon/recorder.h"
#include "daemon/rest.h"
#include "proc/limits.h"
#include "proc/pid.h"
#include "trace/process_writer.h"
#include "wire/control.h"
#include "wire/control_page.h"
#include "wire/handshake.h"

struct hw_control_conn;
struct hw_trace_writer;
struct hw_profile_writer;
struct hw_proc_poll;
struct hw_recorder;
struct hw_java_source;
struct hw_session;
struct hw_target;

/* A descriptor in the epoll set. Embedded in its object; fn gets it back. */
struct hw_watch {
    int fd;
    void (*fn)(struct hw_watch *w, uint32_t events);
};

#define HW_OWNER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* The page through which a client is switched on and off. */
struct hw_page {
    int fd; /* owned; -1 after it was sent */
    struct hw_control_page *map;
};
/* What of its system calls a process has given up; compared with what it had at the handshake. */
struct hw_filters {
    int32_t seccomp;
    uint64_t n;
};
/* The main thread's, or the strictest of all threads'. */
struct hw_filters hw_filters_of(int proc_dir, bool all_threads);
/* Sets the page's word when there are more than at the handshake; gives whether there are. */
bool hw_page_look(struct hw_page *p, int proc_dir, const struct hw_filters *before,
                  bool all_threads);
/* version: agreed on with the client. */
int hw_page_init(struct hw_page *p, uint32_t version, const char *socket_path,
                 const struct hw_filters *at_hello);
void hw_page_done(struct hw_page *p);
void hw_page_beat(struct hw_page *p); /* we live */

/* ---- clients.c: connections from targets ---- */

struct hw_conn {
    struct hw_watch watch;
    struct hw_recorder *rec;
    const struct hw_namespace_socket *door; /* by which it came */
    uint32_t uid;
    int32_t pid;
    uint64_t since_ns;
    bool heard, closed;
    bool waiting;          /* WAIT was answered: page is its control page */
    struct hw_hello hello; /* its version: agreed on */
    struct hw_page page;
    struct hw_filters filters;
    uint64_t filters_ns; /* last look */
};

/* Of either listening socket. Without descriptors both rest for half a second. */
int hw_accept(struct hw_recorder *r, int listener);
/* How many programs may wait, so that descriptors are left for sessions and commands. */
void hw_clients_limit(struct hw_recorder *r);
/* Those that wait at a listening socket; door NULL = our own. A turn takes some of them: gives
 * whether more may wait. */
bool hw_clients_accept(struct hw_recorder *r, int listener, const struct hw_namespace_socket *door);
/* A turn for all that was said so far, by whichever door, also by who has ended. The same. */
bool hw_clients_hear(struct hw_recorder *r);
int hw_clients_listen(struct hw_recorder *r, const char *name, struct hw_error *err);
void hw_clients_tick(struct hw_recorder *r, uint64_t now);
/* A session began: clients that wait are told to shake hands again. */
void hw_clients_wake(struct hw_recorder *r);
/* Is one of them this process? */
bool hw_clients_know(const struct hw_recorder *r, int32_t pid);
bool hw_clients_called(const struct hw_recorder *r, int32_t pid); /* it waits, and was told */
/* The same for one process, when it waits: its name is another one now. */
bool hw_clients_wake_one(struct hw_recorder *r, int32_t pid);
/* Its recording is over, the process is not: it waits for the next one with the same page. An
 * embedded recorder keeps only those that it records again. */
void hw_clients_take_back(struct hw_target *t);
void hw_clients_done(struct hw_recorder *r);

/* ---- target.c ---- */

enum hw_target_end {
    HW_END_NONE = 0,
    HW_END_SESSION, /* the session stopped */
    HW_END_EXITED,
    HW_END_EXECED,
    HW_END_BROKEN,  /* shared memory damaged */
    HW_END_STUCK,   /* a record was never finished */
    HW_END_GAVE_UP, /* the client did: its error word */
    HW_END_GUARDRAIL
};

enum hw_target_phase {
    HW_PHASE_PREPARING, /* tables are being compiled; the client waits */
    HW_PHASE_RUNNING,
    HW_PHASE_FINISHING, /* the last snapshot is on its way or being written */
    HW_PHASE_DONE
};

struct hw_heap_totals {
    uint32_t heap_id;
    char name[HW_HEAP_NAME_MAX];
    struct hw_callsite_totals tally;
    uint64_t last_ts_ns; /* of the last dump written; 0 = none */
    bool dumped;
};

/* trigger.c's: what the conditions of its source have seen of this process. */
struct hw_target_triggers {
    uint32_t fired;                   /* bit i: condition i, once */
    uint64_t base[HW_MAX_CONDITIONS]; /* rss+SIZE: bytes at the last dump; 0 = none yet */
    struct hw_limits limits;
    uint64_t limits_ns; /* when they were read */
    uint32_t level;     /* of nearness to a limit that a checkpoint was made for */
};

/* Meant by a source whose conditions to start were not true yet; begun: one was. */
struct hw_waiting {
    struct hw_pid pid; /* owned */
    uint32_t source;
    bool begun;
    struct hw_target_triggers triggers;
};

struct hw_target {
    struct hw_watch watch; /* the client's socket: its end */
    struct hw_watch exit;  /* pidfd */
    struct hw_recorder *rec;
    const struct hw_namespace_socket *door; /* by which it came */
    struct hw_session *session;
    uint32_t source; /* data source in the session */
    struct hw_pid pid;
    uint32_t uid;
    struct hw_hello hello;
    char name[256]; /* shown: argv[0]'s last part */
    char exe[256];
    bool launcher;
    bool from_startup;
    bool socket_closed;
    bool welcomed; /* it has the page */
    bool hit_guardrail;
    uint64_t max_bytes; /* of the recorder's memory */
    uint64_t key;       /* of its callsites in the trace; of its drain thread */
    uint64_t since_ns, since_coarse_ns;
    uint64_t next_poll_ns;             /* procpoll.c; 0 = not yet decided */
    struct hw_process_counters kept;   /* procpoll.c: read, and not in the trace yet */
    uint64_t kept_ns, next_keep_ns;    /* boot time of them, 0 = none; when others are due */
    struct hw_malloc_info malloc_info; /* the last it told */
    uint64_t malloc_info_ns;           /* boot time of that; 0 = none yet */

    enum hw_target_phase phase;
    enum hw_target_end end;
    struct hw_page page;
    struct hw_filters filters;
    uint64_t filters_ns; /* last look */
    struct hw_tables tables;
    bool warned_room;
    bool warned_python, warned_java;
    hw_notes notes;
    const struct hw_module_file *python; /* whose interpreter the client was told of */
    struct hw_ring_consumer *feed;       /* owned; with a drain thread while with_thread */
    bool with_thread;
    bool hides_libc; /* libc.malloc is sampled for another heap's sake, and not shown */
    bool is_jvm;     /* libjvm was seen in it */
    bool wants_java; /* a heap of Java objects was asked for by name */
    uint64_t ring_bytes;

    struct hw_frames frames;
    struct hw_target_slices slices;
    struct hw_jit jit;
    uint64_t jit_look_age_ns; /* at which its files are looked for next */
    int32_t inner_pid;        /* as it knows itself; 0 = not asked yet */
    struct hw_maps maps;
    uint64_t maps_ns;      /* last reading */
    uint64_t maps_debt_ns; /* the rest that readings up to then have earned */
    bool maps_due;         /* to be read as soon as the rate allows */
    bool maps_answer_due;  /* a feed waits for it */
    uint32_t maps_ask;     /* its last question */
    uint64_t hole_next_ns; /* nobody looks for a writer before */
    uint64_t map_reparses;
    struct hw_map64 files; /* that were opened for it, once each */
    HW_VEC(struct hw_queued_stack {
        const struct hw_stack *stack;
        bool as_is; /* names that it still lacks do not come */
    })
    unresolved; /* a queue: those before unresolved_at are done */
    size_t unresolved_at;
    HW_VEC(const struct hw_stack *) unnamed; /* whose managed frames' names are on their way */
    struct hw_rest names_rest;               /* from looking for names */

    HW_VEC(struct hw_heap_totals) heaps;
    struct hw_dump_job { /* dump.c */
        bool active, final, next, next_final;
        /* Those that were asked for are numbered from 1 as they begin: of the one that is under
         * way (0 = it was not asked for), of the newest, and of the last that is written. */
        uint64_t number, newest, written;
        const char *trigger, *next_trigger;
        struct hw_snapshot *snap; /* owned */
        uint64_t since_ns;
        bool settled; /* its stacks have their names */
        enum {        /* dump_turns.c: what of it is written */
               HW_DUMP_WAITS,
               HW_DUMP_BEGINS,
               HW_DUMP_BOOKS,
               HW_DUMP_FREES,
               HW_DUMP_LOOKS
        } stage;
        bool worth; /* it is shown */
        bool cut;   /* no more of it is */
        uint64_t began_ns;
        struct hw_dump_writing *writing; /* owned; NULL = nothing just now */
        struct hw_look *look;            /* owned; live_view.c */
        bool told_last;                  /* nobody wants the last look (any more) */
        size_t n_questions;              /* that the snapshot answers */
        /* A failed allocation's snapshot comes unasked, and is older than the answer that a job
         * waits for: that job steps back until it is written. */
        struct hw_dump_back {
            bool active, final, answered;
            uint64_t number;
            const char *trigger;
            struct hw_snapshot *snap; /* owned */
            size_t n_questions;
        } back;
        bool has_failure;            /* and waits until what is written now is */
        struct hw_snapshot *failure; /* owned */
    } dump;
    HW_VEC(struct hw_graph_question) questions; /* of heap graphs of this process */
    struct hw_target_triggers triggers;
    uint64_t n_samples, n_lost;
    uint64_t n_unresolved; /* stacks without memory for their frames */
    uint32_t n_dumps;
    bool is_untold;         /* not in the trace yet: its number stands for another process there */
    struct hw_target_idle { /* dump.c */
        struct hw_idle source;
        bool failed;           /* said once */
        bool known;            /* bytes are of the dump that is written now */
        struct hw_map64 bytes; /* callsite → idle bytes */
    } idle;
};

/* A client said hello and a session wants it. Takes over the connection's descriptor. */
int hw_target_new(struct hw_session *s, uint32_t source, struct hw_conn *c, struct hw_target **out,
                  struct hw_error *err);
void hw_target_tick(struct hw_target *t, uint64_t now);
/* The recorder's memory it takes, roughly; and the end for taking too much. */
uint64_t hw_target_bytes(const struct hw_target *t);
void hw_target_too_big(struct hw_target *t);
void hw_target_finish(struct hw_target *t, enum hw_target_end why);
void hw_target_free(struct hw_target *t);
/* It may execute code that its mappings did not have when they were read: they are read again,
 * though not too often. */
void hw_target_meet_code(struct hw_target *t);

/* ---- stacks.c: a target's stacks on their way to callsites ---- */

void hw_target_stacks(struct hw_target *t, const struct hw_stack **list, size_t n);
/* Goes on with those that wait, until the moment; gives whether some are left. */
bool hw_target_has_stacks(const struct hw_target *t);
/* No more time for these: what was allocated there is counted as lost. */
void hw_target_drop_stacks(struct hw_target *t);
/* A turn of the main loop: a little for each target, from another one on each time. */
void hw_targets_resolve(struct hw_recorder *r);
void hw_target_stacks_done(struct hw_target *t);
void hw_target_names(struct hw_target *t, const struct hw_managed_name **list, size_t n);
/* Beginnings and ends of scopes, in the order of each thread: writes and frees them. */
void hw_target_slices(struct hw_target *t, struct hw_fed_slice *list, size_t n);
/* Before a dump is written. True: every stack has its frames; late: also without names. */
bool hw_target_settle_names(struct hw_target *t, bool late);
void hw_target_maps_wanted(struct hw_target *t, uint32_t ask);
void hw_target_hole(struct hw_target *t, int32_t tid); /* who writes no longer, perhaps */
void hw_target_module_changed(struct hw_target *t, const struct hw_module_file *m);
/* Before a dump: names for code that was made at run time. False: more are there, for another
 * call. */
bool hw_target_name_generated(struct hw_target *t);
/* The files about its generated code, while it is young: when it has ended they cannot be opened.
 */
void hw_target_find_generated(struct hw_target *t, uint64_t now);
bool hw_target_seeks_generated(const struct hw_target *t);
/* HW_ETIMEOUT: they cannot be read (blocking_reader.h); what is known stays. */
int hw_target_refresh_maps(struct hw_target *t, uint64_t now);

/* ---- dump.c ---- */

/* enum hw_snap_flags of its dumps. */
uint32_t hw_dump_flags(const struct hw_target *t);
/* Asks for a dump; one that is under way makes it wait. */
void hw_dump_request(struct hw_target *t, const char *trigger, bool final);
void hw_dump_snapshot(struct hw_target *t, struct hw_snapshot *s, uint32_t flags);
/* stream_allocations: writes and frees them. */
void hw_dump_events(struct hw_target *t, struct hw_stream_event *events, size_t n);
void hw_dump_tick(struct hw_target *t);
/* The one that a request of this moment has asked for; dump.written tells. */
uint64_t hw_dump_number_of_request(const struct hw_target *t);
/* Begins a look (HW_TRIGGER_LIVE) unless a dump is under way, which comes first. */
#define HW_TRIGGER_LIVE "live"
void hw_dump_live(struct hw_target *t);
/* A heap graph of this process was written: a dump is made, and the samples are written that were
 * allocated for its blocks. */
#define HW_TRIGGER_GRAPH "heap-graph"
void hw_dump_for_graph(struct hw_target *t, uint64_t graph_boottime_ns,
                       const hw_native_blocks *blocks);

/* ---- dump_await.c: commands that wait for dumps ---- */

struct hw_awaited_dump {
    uint64_t key;    /* of the target */
    uint64_t number; /* of its dump */
};
struct hw_awaited_dumps {
    uint64_t session, until_ns;
    uint32_t n;
    HW_VEC(struct hw_awaited_dump) left;
};
/* HW_CTL_DUMP; the answer comes by the tick. */
void hw_dumps_ask(struct hw_control_conn *c, uint64_t session, struct hw_bytes body);
void hw_dumps_tick(struct hw_recorder *r, uint64_t now);
void hw_dumps_forget(struct hw_control_conn *c);

/* ---- dump_turns.c: dumps that are ready ---- */

/* A turn of the main loop: a little of each, from another one on each time. */
void hw_targets_write(struct hw_recorder *r);
void hw_dump_turns_done(struct hw_target *t);

/* ---- trigger.c: conditions on which a dump is made or the session ends ---- */

#define HW_TRIGGER_FAILURE "failure"

void hw_triggers_tick(struct hw_session *s, uint64_t now);
/* An allocation failed; the dump of that is being written. */
void hw_trigger_failure(struct hw_target *t);
bool hw_trigger_wants_failures(const struct hw_heapprofd_config *c);
/* May its profile begin? If not, it waits for one of its source's conditions. */
bool hw_start_is_due(struct hw_session *s, uint32_t source, const struct hw_pid *pid);
bool hw_start_awaits(const struct hw_recorder *r, int32_t pid);
void hw_start_done(struct hw_session *s);
void hw_start_forget(struct hw_session *s);
/* Not shown when a later dump exists. */
bool hw_trigger_is_checkpoint(const char *trigger);
/* The kernel says that memory is short. */
void hw_triggers_pressure(struct hw_recorder *r);

/* ---- session.c ---- */

struct hw_session_source {
    struct hw_heapprofd_config *config; /* in the session's config */
    struct hw_profile_writer *writer;   /* owned */
    uint32_t stream_sequence;           /* stream_allocations; 0 = none yet */
    uint64_t next_dump_ns;              /* 0 = none */
    uint32_t fired;                     /* bit i: condition i, of those about the whole session */
    HW_VEC(int32_t) rejected;
    bool hit_guardrail;
};

/* A process whose descendants are meant, too. */
struct hw_followed {
    int32_t pid;
    uint64_t start_ticks;
    uint32_t source;
};

/* A process that the session does not want any more. */
struct hw_left {
    int32_t pid;
    uint64_t start_ticks;
};

struct hw_session {
    struct hw_recorder *rec;
    struct hw_control_conn *control; /* NULL: it went away, or is detached */
    char *detach_key;                /* owned; NULL = belongs to a connection */
    uint64_t id;
    uint32_t uid;
    struct hw_asking asking;
    HW_VEC(struct hw_left) refused; /* processes that were meant and may not be profiled */
    HW_VEC(struct hw_followed) followed;
    HW_VEC(struct hw_left) left; /* session_exclude.c: processes that were told to leave it */
    HW_VEC(struct hw_again) broken_off;
    HW_VEC(struct hw_missed { /* missed.c */
                              int32_t pid;
                              uint64_t ticks; /* since boot, when it was missed */
    })
    missed;
    uint32_t n_missed_more; /* without room in it */
    bool told_share;        /* share.c */
    bool has_rule;          /* exec_watch.c: the finder knows whom it means */
    uint64_t arm_token;     /* the same: of programs that are armed for it (wire/handshake.h) */
    bool rule_is_late;      /* the same: it does not yet, though the session has begun */
    uint64_t start_ticks;   /* who started later is one that starts during the session */
    uint64_t last_exec_ns;  /* time of the last dump of an image that made way for another */
    struct hw_control_start start;
    struct hw_trace_config config;
    int fd; /* owned */
    struct hw_trace_writer *writer;
    HW_VEC(struct hw_session_source) sources;
    HW_VEC(struct hw_java_source *) java; /* owned */
    struct hw_proc_poll *proc;            /* process_stats and friends; NULL = none */
    HW_VEC(struct hw_waiting) waiting;
    struct hw_slice_writer *slices;  /* owned; NULL = none yet */
    uint32_t note_sequence;          /* notes.c; 0 = none yet */
    uint32_t mark_sequence, n_marks; /* mark.c; sequence 0 = none yet */
    bool signalled;                  /* SIGUSR1, since the last look */
    hw_pid_list scan;                /* attach.c: processes not looked at yet */
    hw_pid_list again;               /* attach.c: HW_START_RESCAN: those that others have */
    uint64_t next_scan_ns;           /* when they are looked at; 0 = none */
    struct hw_pid root;              /* HW_START_LAUNCHED: owned; pid -1 = none */
    uint32_t generation;
    uint64_t next_trigger_ns, pressure_ns;
    uint64_t started_ns, last_checkpoint_ns, next_clock_ns, next_progress_ns, next_guard_ns;
    uint64_t checkpoint_every_ns, clocks_every_ns, guards_every_ns;
    uint64_t cpu_start_us, ring_budget, ring_used;
    bool stopping, started_told, warned_budget;
    bool hurried;     /* asked to stop once more */
    bool targets_due; /* stopping: their last dumps wait for a heap graph */
    bool closed;      /* the file is complete: nothing more is written */
    bool ended;       /* nobody names it any more */
    uint64_t stopped_ns, stop_deadline_ns;
    struct hw_target *writing; /* whose dump is in the middle; NULL = nobody's */
    uint64_t whole_bytes;      /* of the file, when that began */
    char reason[160];
    int status;
    uint32_t n_targets, n_dumps;
    uint64_t n_samples, n_lost;
    uint64_t spent_ns;  /* rate.c: for the samples of targets that are over */
    uint32_t doublings; /* rate.c: of the intervals of all its targets */
    bool progress_due;
};

int hw_session_new(struct hw_recorder *r, const struct hw_control_start *start,
                   struct hw_bytes config, int fd, uint32_t uid, struct hw_control_conn *control,
                   struct hw_session **out, struct hw_error *err);
void hw_session_tick(struct hw_session *s, uint64_t now);
/* A period that may be shortened from outside, for tests and the impatient
 * (doc/design/recorder.md). */
uint64_t hw_session_period_ns(const char *name, uint64_t usual_ms);
void hw_session_stop(struct hw_session *s, const char *reason, int status);
/* Asked to stop once more: the file ends with what there is. */
void hw_session_hurry(struct hw_session *s);
void hw_session_dump(struct hw_session *s, const char *trigger, const int32_t *pids, size_t n);
void hw_session_free(struct hw_session *s);
/* Up to this moment, also what no dump has told yet. */
uint64_t hw_target_samples(const struct hw_target *t);
uint64_t hw_session_cpu_us(void); /* of the recorder itself */
void hw_session_counters(const struct hw_session *s, uint64_t *samples, uint64_t *lost);
/* A dump was written that began then. */
void hw_session_wrote(struct hw_session *s, uint64_t began_ns);
/* A write to the trace failed. */
void hw_session_write_failed(struct hw_session *s, int rc, const struct hw_error *err);
/* The session and data source that want this process; false = none. */
bool hw_sessions_match(struct hw_recorder *r, const struct hw_conn *c, const struct hw_pid *pid,
                       struct hw_session **session, uint32_t *source);
/* Does this session mean a running process that has said nothing yet? */
bool hw_session_wants_running(struct hw_session *s, const struct hw_pid *pid, bool *by_number);
/* An empty profile with the reason, once a process; false = it is there. */
bool hw_session_refuse(struct hw_session *s, uint32_t source, int32_t pid, const char *reason);
/* The process that has the number now. Without memory it is not remembered. */
bool hw_session_was_refused(const struct hw_session *s, int32_t pid);
bool hw_session_remember_refused(struct hw_session *s, int32_t pid);
/* Somebody else has a running process that it means: told once, and in the trace unless the session
 * gets it after all (has). */
void hw_session_reject(struct hw_session *s, const struct hw_pid *pid, const char *why);
/* The same of one that was meant by its name when it started, and may be over. */
void hw_session_reject_named(struct hw_session *s, int32_t pid, const char *why);
/* Those that it means and another session has. */
void hw_session_reject_running(struct hw_session *s);
/* Fails with that reason; holder: the other recorder's process, 0 = not known. */
int hw_session_held_elsewhere(const struct hw_session *s, int32_t holder, int rc,
                              struct hw_error *err);
/* It is ready: from its next allocation on it is profiled. */
void hw_session_called(struct hw_session *s, int32_t pid);
/* It cannot be had: told once, and in the trace. Whoever waits for this process need not any more.
 */
void hw_session_fail(struct hw_session *s, int32_t pid, const char *text);
void hw_session_has(struct hw_session *s, uint32_t source, int32_t pid);
/* Did it start during the session? To the kernel's clock ticks. */
bool hw_session_is_later(const struct hw_session *s, const struct hw_pid *pid);
/* --follow-fork: what this process starts is meant from now on. */
void hw_session_follow(struct hw_session *s, const struct hw_pid *pid, uint32_t source);
/* --idle-allocations, or the same in the data source's configuration. */
bool hw_session_wants_idle(const struct hw_session *s, uint32_t source);
void hw_session_warn(struct hw_session *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- attach.c: preloaded processes that started before us ---- */

struct hw_attach {
    struct hw_session *session;
    struct hw_pid pid;
    uint32_t uid;
    struct hw_module_file *library;
    uint64_t bias;
    uint64_t since_ns;
    uint64_t beat, beat_ns; /* of the recorder that has it: seen since then; 0 = not looked yet */
    int32_t holder;         /* its process; 0 = not known */
};
/* Finds running processes that the session means and that have the library, but no recorder: now
 * the list, then a slice of it in each tick, so that handshakes are answered in between. */
void hw_attach_scan(struct hw_session *s);
/* Another one has it, who may let it go; for HW_START_RESCAN. */
void hw_attach_again(struct hw_session *s, int32_t pid);
bool hw_attach_busy(const struct hw_recorder *r); /* another slice is due at once */
void hw_attach_tick(struct hw_recorder *r, uint64_t now);
void hw_attach_forget(struct hw_session *s);

/* A process that has started or got its name meanwhile. why: it could not be prepared; or "".
 * grown: it has begun its work, there is nothing to wait for. */
void hw_attach_found(struct hw_recorder *r, int32_t pid, const char *why, bool grown);
uint64_t hw_attach_found_ns(const struct hw_recorder *r); /* when the next is looked at; or never */
struct hw_found {
    struct hw_pid pid;
    uint64_t since_ns, next_ns;
    char why[112];
};

/* ---- exec_watch.c: processes that start later ---- */

struct hw_exec_watch {
    struct hw_exec_watch_setup setup;
    struct hw_watch talk;
    int order; /* -1 = none */
    int32_t pid;
    bool on, ready, lost;
    uint32_t flags, n_ruled;
};
int hw_exec_watch_init(struct hw_recorder *r, struct hw_error *err);
/* Programs that start behind this call are held, where that can be. */
void hw_exec_watch_add(struct hw_session *s);
void hw_exec_watch_rate(const struct hw_session *s); /* its interval has changed */
void hw_exec_watch_drop(struct hw_session *s);
void hw_exec_watch_follow(const struct hw_session *s, int32_t pid);
void hw_exec_watch_tick(struct hw_recorder *r);
void hw_exec_watch_done(struct hw_recorder *r);

/* ---- inject.c: processes that were not prepared ---- */

struct hw_inject_job;
struct hw_injected {
    struct hw_session *session; /* NULL: it is over */
    struct hw_asking asking;    /* whose it was */
    struct hw_pid pid;          /* owned */
    uint32_t uid;
    uint64_t code; /* what it executes: another number, other modules */
    uint64_t looked_ns;
    bool leaving;
};
int hw_inject_init(struct hw_recorder *r);
/* The session means this process: the client is put into it. What forbids it is told there, but not
 * when the process is one of all (quietly). */
void hw_inject_hook(struct hw_session *s, const struct hw_pid *pid, bool quietly);
bool hw_inject_has(const struct hw_recorder *r, int32_t pid);
/* A child of a process with hooks has them, too; another image has none. */
void hw_inject_forked(struct hw_session *s, const struct hw_pid *pid);
void hw_inject_execed(struct hw_recorder *r, const struct hw_pid *pid);
/* Its targets are over: hooks are taken out. Gives how many processes still have them. */
size_t hw_inject_leave(struct hw_session *s);
void hw_inject_forget(struct hw_session *s);
void hw_inject_mark_files(struct hw_recorder *r);
bool hw_inject_preparing(const struct hw_recorder *r); /* a tick is due soon */
void hw_inject_tick(struct hw_recorder *r, uint64_t now);
void hw_inject_done(struct hw_recorder *r);

/* ---- launch.c ---- */

/* Is the executable one that only starts others (sh, env, nice …)? */
bool hw_launch_is_launcher(const char *exe);
/* Does pid belong to the tree of a launched session? */
bool hw_launch_matches(const struct hw_session *s, const struct hw_pid *pid);
/* Is it the command's own child, that has not become the program yet? */
int hw_launch_check(const struct hw_pid *command, const struct hw_pid *root, struct hw_error *err);

/* ---- procpoll.c: data sources beside the profile ---- */

int hw_proc_poll_new(struct hw_session *s, struct hw_proc_poll **out);
void hw_proc_poll_free(struct hw_proc_poll *p);
void hw_proc_poll_tick(struct hw_proc_poll *p, uint64_t now);
bool hw_proc_poll_busy(const struct hw_recorder *r); /* more is due at once */
/* A target joined: its name and parents belong into the trace. */
void hw_proc_poll_target(struct hw_session *s, struct hw_target *t);
/* The same of those who wait for this one, whose last dump was written. */
void hw_proc_poll_untold(const struct hw_target *t);
/* At a dump of a target that lives. */
void hw_proc_poll_dump(struct hw_session *s, struct hw_target *t);
/* The same of one that has ended: what was read last. */
void hw_proc_poll_last(struct hw_session *s, struct hw_target *t);
/* What is known of it now, into another trace: name, counters, the allocator's last figures. */
int hw_proc_poll_look(const struct hw_target *t, struct hw_trace_writer *w, struct hw_error *err);
/* At a dump: the mappings with their addresses, if they are wanted. */
int hw_proc_poll_regions(const struct hw_target *t, struct hw_error *err);
/* The allocator's own figures arrived. */
void hw_proc_poll_malloc_info(struct hw_target *t, const struct hw_rec_minfo *m);

/* ---- control.c ---- */

struct hw_control_conn {
    struct hw_watch watch;
    struct hw_recorder *rec;
    struct hw_session *session; /* NULL = none */
    struct hw_asker who;
    uint32_t uid; /* of who */
    int32_t pid;
    struct hw_pid root;     /* HW_CTL_TARGET before HW_CTL_START; owned; pid -1 = none */
    uint64_t clone_session; /* whose dumps it waits for; 0 = none */
    uint64_t clone_deadline_ns;
    HW_VEC(struct hw_awaited_dumps) awaited;
    uint64_t live_key; /* of the target it wants to look at; 0 = none */
    bool live_served;  /* that look is being made */
    uint64_t live_deadline_ns;
    struct hw_control_look look; /* what it asked for */
    struct hw_control_out *out;  /* messages that its socket had no room for; owned */
    struct hw_control_out *out_last;
    size_t out_bytes;
    bool controller; /* the one of an embedded recorder */
    bool closed;
};

int hw_control_listen(struct hw_recorder *r, const char *name, struct hw_error *err);
int hw_control_add(struct hw_recorder *r, int fd, bool controller);
/* Refuses a request: HW_CTL_ERROR with the text. */
void hw_control_fail(struct hw_control_conn *c, const char *text);
/* What answers HW_CTL_STATUS. */
void hw_control_status(struct hw_control_conn *c);
/* A session of those this user may steer; 0 = the connection's own. NULL: there is none. */
struct hw_session *hw_control_session(struct hw_control_conn *c, uint64_t id);
/* NULL connection: nothing happens. */
void hw_control_send(struct hw_control_conn *c, enum hw_control_type type, uint64_t session,
                     const void *body, size_t n, const char *text);
/* What it had no room for is sent now; or nobody reads it any more. */
void hw_control_flush(struct hw_control_conn *c);
void hw_control_drop_kept(struct hw_control_conn *c);
void hw_control_done(struct hw_recorder *r);

/* ---- session_detach.c: sessions that outlive their command, and copies of running ones ---- */

void hw_session_handover_detach(struct hw_control_conn *c, struct hw_bytes key);
void hw_session_handover_attach(struct hw_control_conn *c, struct hw_bytes key);
void hw_mark_ask(struct hw_control_conn *c, uint64_t id, struct hw_bytes body); /* mark.c */
/* session_exclude.c: a process that is not profiled any more in a session that goes on. */
void hw_session_exclude_ask(struct hw_control_conn *c, uint64_t id, struct hw_bytes body);
bool hw_session_has_excluded(const struct hw_session *s, const struct hw_pid *pid);
bool hw_session_excluded_all(
    const struct hw_session *s); /* of those named by number none is left */
/* rate.c: how many samples all of a session's targets give, and what those cost us. */
void hw_rate_ask(struct hw_control_conn *c, uint64_t id, struct hw_bytes body);
uint64_t hw_rate_spent_ns(const struct hw_session *s);
/* memlog.c: does the mode of this source, which means all, mean this process? */
bool hw_memlog_wants(const struct hw_session *s, const struct hw_heapprofd_config *c,
                     const struct hw_pid *pid, const struct hw_proc_status *st);
void hw_session_handover_clone(struct hw_control_conn *c, uint64_t id, struct hw_bytes name);
void hw_session_handover_tick(struct hw_recorder *r, uint64_t now);

/* ---- live_view.c: commands that look at a process now and then ---- */

void hw_live_view_ask(struct hw_control_conn *c, struct hw_bytes pid);
/* Makes what the job's snapshot is wanted for: 1 = the turn is over, 0 = all is handed over. */
struct hw_dump_turn;
int hw_live_view_turn(struct hw_target *t, struct hw_dump_turn *turn);
/* Is the final snapshot to be handed to the session's command (HW_START_TELL_LAST)? Of a process
 * without a sample that is told at once. */
bool hw_live_view_begins_last(const struct hw_target *t);
void hw_live_view_no_memory(struct hw_target *t);
void hw_live_view_drop(struct hw_target *t);
void hw_live_view_tick(struct hw_recorder *r, uint64_t now);

/* ---- recorder.c ---- */

struct hw_recorder {
    struct hw_recorder_options options;
    int epoll_fd;
    struct hw_policy policy;
    int cache_fd;             /* -1 = none */
    struct hw_watch pressure; /* -1 = the kernel tells nothing */
    struct hw_watch signals, producers, consumers, answers_watch, workers_watch;
    struct hw_workers workers;
    struct hw_modules *modules;
    struct hw_blocking_reader *looker;
    struct hw_drain *drain;
    struct hw_message_queue answers;
    struct hw_msg *answered; /* owned; taken, and not looked at yet */
    HW_VEC(struct hw_conn *) conns;
    HW_VEC(struct hw_target *) targets;
    HW_VEC(struct hw_session *) sessions;
    HW_VEC(struct hw_control_conn *) controls;
    HW_VEC(struct hw_namespace_socket *) doors;
    HW_VEC(struct hw_attach) attaching;
    HW_VEC(struct hw_found) found;
    struct hw_exec_watch starts;
    HW_VEC(struct hw_inject_job *) injecting;
    HW_VEC(struct hw_injected) injected;
    struct hw_watch inject_watch;
    char producer_name[108];
    char taken_name[108]; /* where another recorder listens, and we should; "" = none */
    uint64_t next_session, next_key;
    uint32_t next_generation;
    bool embedded, stopping, controller_gone;
    bool activated;       /* the sockets are the service manager's */
    bool accept_paused;   /* out of descriptors */
    bool sweep_due;       /* a target ended: its files may be closed */
    bool stacks_left;     /* the last turn was too short for all of them */
    bool dumps_left;      /* the same */
    size_t next_resolved; /* of the targets: the next turn begins there */
    size_t next_written;  /* the same */
    uint64_t next_sweep_ns, next_weigh_ns, next_doors_ns;
    uint64_t accept_again_ns, accept_said_ns;
    uint32_t max_conns;      /* of programs; by the limit of descriptors */
    struct hw_refused_user { /* share.c */
        uint32_t uid;
        uint64_t n;
    } refused_users[64];
    size_t n_refused_users;
    uint64_t n_refused; /* of those, and of users without room there */
    int spare_fd;       /* given up for a moment to tell a command that there are no more; -1 */
};

int hw_watch_add(struct hw_recorder *r, struct hw_watch *w, uint32_t events);
void hw_watch_remove(struct hw_recorder *r, struct hw_watch *w);
/* Listening SOCK_SEQPACKET socket on a path or '@name'. */
int hw_listen(const char *name, struct hw_error *err);

#endif
