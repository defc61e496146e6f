/*
 * session.h - one recording: which processes it selects, what it holds and reports
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_SESSION_H
#define HW_DAEMON_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "config/config.h"
#include "daemon/clients/client_page.h"
#include "daemon/policy/permission.h"
#include "wire/control.h"

struct hw_conn;

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

/* A process that the session no longer wants. */
struct hw_left_process {
    int32_t pid;
    uint64_t start_ticks;
};

#define HW_SESSION_PARENTS 64u
#define HW_SESSION_FORKS   16u /* children that have not said hello yet */

struct hw_inherited;

struct hw_session {
    struct hw_recorder *rec;
    struct hw_control_conn *control; /* NULL: it went away, or is detached */
    char *detach_key;                /* owned; NULL = belongs to a connection */
    uint64_t id;
    uint32_t uid;
    struct hw_permission_request asking;
    /* target_fork.c: of the newest forks; owned; NULL = none */
    struct hw_inherited *inherited[HW_SESSION_FORKS];
    struct hw_map64 heirs; /* numbers of processes that have been given theirs */
    size_t n_forks;
    struct hw_page parents[HW_SESSION_PARENTS]; /* target_fork.c: of those that have ended */
    size_t n_parents;
    HW_VEC(struct hw_left_process) refused; /* processes that were meant and may not be profiled */
    HW_VEC(struct hw_followed) followed;
    HW_VEC(
        struct hw_silent {                    /* session_silent.c: meant, and not heard of yet */
                           struct hw_pid pid; /* owned */
                           bool is_told;      /* its name is in the trace */
                           bool is_root;      /* started by the command: read if it is Go's */
                           bool is_shown;     /* the command knows that it is read */
                           char name[sizeof((struct hw_proc_status *)0)->name]; /* as last read */
                           struct hw_account_reading *kept; /* owned; NULL = none */
                           struct hw_go_alloc *go;          /* owned; NULL = none */
        })
    silent;
    uint64_t silent_next_ns;             /* their memory is not read before */
    uint64_t silent_keep_ns;             /* likewise, for readings that are kept */
    uint32_t n_read;                     /* Go programs among them */
    HW_VEC(struct hw_left_process) left; /* session_exclude.c: processes that were told to leave */
    HW_VEC(struct hw_record_again) broken_off;
    HW_VEC(struct hw_missed { /* unrecorded.c */
                              int32_t pid;
                              uint64_t ticks; /* since boot, when it was missed */
    })
    missed;
    uint32_t n_missed_more; /* without room in it */
    bool told_share;        /* share.c */
    bool told_room;         /* target_maps.c: a process may map little */
    bool has_rule;          /* exec_watch.c: the finder has its rule */
    uint64_t arm_token;     /* the same: of programs that are armed for it (wire/handshake.h) */
    bool rule_is_late;      /* the same: it does not yet, though the session has begun */
    bool said_unread;       /* that programs are not held as their files do not answer */
    uint64_t start_ticks;   /* a process that started later starts during the session */
    uint64_t last_exec_ns;  /* time of the last dump of an image that made way for another */
    struct hw_control_start start;
    struct hw_trace_config config;
    int fd;                        /* owned */
    struct hw_output_file *output; /* owned; of a service, else NULL */
    struct hw_trace_writer *writer;
    HW_VEC(struct hw_session_source) sources;
    HW_VEC(struct hw_java_source *) java; /* owned */
    struct hw_proc_poll *proc;            /* process_stats and friends; NULL = none */
    HW_VEC(struct hw_awaited_start) waiting;
    struct hw_profile_writer *go_writer; /* owned; NULL = none yet */
    uint64_t n_go;                       /* Go programs so far */
    struct hw_slice_writer *slices;      /* owned; NULL = none yet */
    uint32_t note_sequence;              /* notes.c; 0 = none yet */
    uint32_t mark_sequence, n_marks;     /* mark.c; sequence 0 = none yet */
    bool signalled;                      /* SIGUSR1, since the last check */
    hw_pid_list scan;                    /* attach_preloaded.c: processes not checked yet */
    hw_pid_list again;     /* attach_preloaded.c: HW_START_RESCAN: those that others have */
    uint64_t next_scan_ns; /* when they are checked; 0 = none */
    struct hw_pid root;    /* HW_START_LAUNCHED: owned; pid -1 = none */
    uint32_t generation;
    uint64_t next_trigger_ns, pressure_ns;
    uint64_t started_ns, last_checkpoint_ns, next_clock_ns, next_progress_ns, next_guard_ns;
    uint64_t checkpoint_every_ns, clocks_every_ns, guards_every_ns;
    uint64_t cpu_start_us, ring_budget, ring_used;
    bool stopping, started_told, warned_budget;
    bool hurried;     /* asked to stop once more */
    bool targets_due; /* stopping: their last dumps wait for a heap graph */
    bool closed;      /* the file is complete: nothing more is written */
    bool ended;       /* nothing refers to it any more */
    uint64_t stopped_ns, stop_deadline_ns;
    struct hw_target *writing; /* whose dump is half written; NULL = nobody's */
    uint64_t whole_bytes;      /* of the file, when that began */
    char reason[160];
    int status;
    uint32_t n_targets, n_dumps;
    uint64_t n_samples, n_lost;
    uint64_t spent_ns;  /* rate.c: for the samples of targets that are over */
    uint32_t doublings; /* rate.c: of the intervals of all its targets */
    bool progress_due;
};

/* ---- session_start.c ---- */

int hw_session_new(struct hw_recorder *r, const struct hw_control_start *start,
                   struct hw_bytes config, int fd, uint32_t uid, struct hw_control_conn *control,
                   struct hw_session **out, struct hw_error *err);
void hw_session_free(struct hw_session *s);

/* ---- session.c ---- */

void hw_session_tick(struct hw_session *s, uint64_t now);

/* ---- session_stop.c: its dumps, and its end ---- */

void hw_session_dump(struct hw_session *s, const char *trigger, const int32_t *pids, size_t n);
void hw_session_dump_source(struct hw_session *s, uint32_t source, const char *trigger);
void hw_session_stop(struct hw_session *s, const char *reason);
/* Asked to stop once more: the file ends with what there is. */
void hw_session_hurry(struct hw_session *s);
/* Stopping: their last dumps are requested as soon as no heap graph is in progress. */
void hw_session_finish_targets(struct hw_session *s, uint64_t now);

/* ---- session_say.c: what it tells, and what it has counted ---- */

void hw_session_warn(struct hw_session *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A write to the trace failed: its next tick stops it. */
void hw_session_write_failed(struct hw_session *s, int rc, const struct hw_error *err);
/* A dump was written that started then. */
void hw_session_wrote(struct hw_session *s, uint64_t began_ns);
/* A period that may be shortened from outside, for tests (doc/design/recorder.md). */
uint64_t hw_session_period_ns(const char *name, uint64_t usual_ms);
void hw_session_counters(const struct hw_session *s, uint64_t *samples, uint64_t *lost);
/* Up to this moment, including what no dump has reported yet. */
uint64_t hw_target_samples(const struct hw_target *t);
/* What the samples of its targets have cost us. */
uint64_t hw_session_sampling_ns(const struct hw_session *s);
uint64_t hw_session_cpu_us(void); /* of the recorder itself */

/* ---- session_facts.c ---- */

bool hw_session_wants_pins(const struct hw_session *s); /* --pinned */
/* --idle-allocations, or the same in the data source's configuration. */
bool hw_session_wants_idle(const struct hw_session *s, uint32_t source);
/* Did it start during the session? To the kernel's clock ticks. */
bool hw_session_is_later(const struct hw_session *s, const struct hw_pid *pid);
/* It was told to leave (control/session_exclude.c). */
bool hw_session_has_excluded(const struct hw_session *s, const struct hw_pid *pid);
/* Of those named by number none is left. */
bool hw_session_excluded_all(const struct hw_session *s);

/* ---- session_match.c: which processes it means ---- */

/* The session and data source that want this process; false = none. */
bool hw_sessions_match(struct hw_recorder *r, const struct hw_conn *c, const struct hw_pid *pid,
                       struct hw_session **session, uint32_t *source);
/* Does this session mean a running process that has said nothing yet? */
bool hw_session_wants_running(struct hw_session *s, const struct hw_pid *pid, bool *by_number);
/* --follow-fork: what this process starts is meant from now on. True: it was not before. */
bool hw_session_follow(struct hw_session *s, const struct hw_pid *pid, uint32_t source);
/* Another session or recorder has a running process that it means: reported once, and in the
 * trace unless the session gets it after all (has). */
void hw_session_reject(struct hw_session *s, const struct hw_pid *pid, const char *why);
/* The same for one that was meant by its name when it started, and may be over. */
void hw_session_reject_named(struct hw_session *s, int32_t pid, const char *why);
/* Those that it means and another session has. */
void hw_session_reject_running(struct hw_session *s);
void hw_session_has(struct hw_session *s, uint32_t source, int32_t pid);
/* reach/memlog.c: does the mode of this source, which means all, mean this process? */
bool hw_memlog_wants(const struct hw_session *s, const struct hw_heapprofd_config *c,
                     const struct hw_pid *pid, const struct hw_proc_status *st);

/* ---- session/session_refuse.c: those that it means and cannot have ---- */

/* An empty profile with the reason, once per process; false = it is there. */
bool hw_session_refuse(struct hw_session *s, uint32_t source, int32_t pid, const char *reason);
/* The process that has the number now. Without memory it is not remembered. */
bool hw_session_was_refused(const struct hw_session *s, int32_t pid);
bool hw_session_remember_refused(struct hw_session *s, int32_t pid);
/* Fails with that reason; holder: the other recorder's process, 0 = not known. */
int hw_session_held_elsewhere(const struct hw_session *s, int32_t holder, int rc,
                              struct hw_error *err);
/* It is ready: from its next allocation on it is profiled. */
void hw_session_called(struct hw_session *s, int32_t pid);
/* It cannot be had: reported once, and in the trace. Nobody need wait for this process any more. */
void hw_session_fail(struct hw_session *s, int32_t pid, const char *text);
/* Another recorder has it, and may release it: it is checked again (HW_START_RESCAN). */
void hw_session_try_again(struct hw_session *s, int32_t pid);

/* ---- session_silent.c: those that it means and has not heard from ---- */

/* Processes that the session names, not all that run: they have an account though no sample. */
void hw_session_silent_add(struct hw_session *s, int32_t pid);
void hw_session_silent_drop(struct hw_session *s, int32_t pid); /* it was heard from */
/* Readings of their memory into the trace, at a dump. */
void hw_session_silent_dump(struct hw_session *s, bool final);
/* Keeps readings of those that may end before the next dump. */
void hw_session_silent_tick(struct hw_session *s, uint64_t now);
/* Reads one now. True: it is a Go program, whose allocations are known without our library in it. */
bool hw_session_silent_reads(struct hw_session *s, int32_t pid);
void hw_session_silent_done(struct hw_session *s);
void hw_session_forget_forks(struct hw_session *s);   /* target_fork.c */
void hw_session_forget_parents(struct hw_session *s); /* the same: their children ask no more */

#endif
