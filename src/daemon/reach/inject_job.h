/*
 * inject_job.h - injects the client into one process, or removes its hooks
 *
 *   new ──> PREPARING ── ready and a place ──> RUNNING on a thread of its own ──> done ──> free
 *
 * Why:     stopping a process may take as long as that process likes, so it runs on a thread.
 *          attach_injected.c acts on the result.
 * Owns:    new adds it to hw_recorder.injecting; whoever removes it there frees it.
 * Threads: main thread; may and run inside on the job's own, which reads what new has set.
 */
#ifndef HW_DAEMON_REACH_INJECT_JOB_H
#define HW_DAEMON_REACH_INJECT_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "daemon/code/unwind_tables.h"
#include "daemon/policy/permission.h"
#include "inject/inject.h"
#include "proc/pid.h"

struct hw_recorder;
struct hw_session;

#define HW_JOB_LATE_NS UINT64_C(5000000000) /* then nobody waits for it */

/* Of its thread. If the thread finds LEFT it frees the job; until then what it uses must stay. */
enum hw_inject_job_state { HW_JOB_RUNNING, HW_JOB_ASKING, HW_JOB_DONE, HW_JOB_LEFT };

struct hw_inject_job {
    struct hw_recorder *rec;             /* the main thread's only: the job may outlive it */
    char *library;                       /* owned */
    int done_fd;                         /* owned; rung when it is done */
    struct hw_session *session;          /* NULL: it is over */
    struct hw_permission_request asking; /* whose; its own, for its thread */
    struct hw_pid pid;                   /* owned */
    uint32_t uid;
    bool quietly; /* a refusal is not reported */
    enum hw_attach_command command;
    char socket[108]; /* where it finds us */
    uint32_t generation, n_tries;
    uint64_t again_ns; /* not before; 0 = at once */
    struct hw_tables tables;
    HW_VEC(struct hw_table_range) ranges;
    uint64_t since_ns, started_ns;
    pthread_t thread;
    bool running, given_up;
    _Atomic int state; /* enum hw_inject_job_state */
    int rc;
    struct hw_inject_result result;
    struct hw_error error;
};

int hw_inject_job_new(struct hw_recorder *r, struct hw_session *s,
                      const struct hw_permission_request *asking, const struct hw_pid *pid,
                      uint32_t uid, enum hw_attach_command command, struct hw_error *err);
void hw_inject_job_free(struct hw_inject_job *j);
/* NULL = it has none. */
struct hw_inject_job *hw_inject_job_find(const struct hw_recorder *r, const struct hw_pid *pid);
/* Its files' tables are there, or were waited for long enough. */
bool hw_inject_job_is_ready(const struct hw_inject_job *j, uint64_t now);
void hw_inject_job_start(struct hw_inject_job *j);
/* Runs it when there is a place for it; without hope of one it is done. */
void hw_inject_job_start_if_place(struct hw_inject_job *j, uint64_t now);
bool hw_inject_job_is_done(const struct hw_inject_job *j);
/* The recorder ends: waits for its thread, but not for ever. Then the job is the thread's, which
 * ends with the process at the latest. */
void hw_inject_job_leave(struct hw_inject_job *j);

#endif
