/*
 * inject_job.c - one thread that attaches to a process, and how many there may be
 *
 * Everything that stops the process happens on that thread: ptrace belongs to a thread, and a
 * process may keep us waiting for two seconds.
 *
 * A process that locks its memory, or maps files that it serves itself, keeps that thread for as
 * long as it likes. So a job counts against the common limit only for a moment, against its user's
 * for as long as it lasts, and nobody waits for it for ever; a thread that returns too late undoes
 * what it did.
 */
#include "daemon/reach/inject_job.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/files/fd.h"
#include "daemon/core.h"

#include "base/banned.h"

#define MS          UINT64_C(1000000)
#define TABLES_WAIT (1000 * MS)
#define MAX_RUNNING 16u /* at a time: --all means hundreds */
#define MAX_OF_USER 8u  /* of these; late ones count */
#define MAX_LATE    64u
#define PLACE_NS    (2000 * MS) /* most take milliseconds */
#define LEAVE_STEP  (1000000)   /* ns */

struct hw_inject_job *hw_inject_job_find(const struct hw_recorder *r, const struct hw_pid *pid)
{
    for (size_t i = 0; i < r->injecting.n; i++)
        if (hw_pid_is_same(&r->injecting.v[i]->pid, pid))
            return r->injecting.v[i];
    return NULL;
}

void hw_inject_job_free(struct hw_inject_job *j)
{
    hw_pid_done(&j->pid);
    hw_permission_request_done(&j->asking);
    hw_tables_done(&j->tables);
    hw_vec_done(&j->ranges);
    if (j->done_fd >= 0)
        (void)close(j->done_fd); /* nothing is pending on it */
    free(j->library);
    free(j);
}

static bool change(struct hw_inject_job *j, int from, int to)
{
    /* Acquire and release: what the other one wrote before its change is seen after ours. */
    return atomic_compare_exchange_strong_explicit(&j->state, &from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

bool hw_inject_job_is_done(const struct hw_inject_job *j)
{
    return atomic_load_explicit(&j->state, memory_order_acquire) == HW_JOB_DONE;
}

/* ---- its thread ---- */

/* Asked on the stopped thread: a process that was permitted may execute another program by now. */
static int may(void *arg, const struct hw_pid *thread, struct hw_error *err)
{
    struct hw_inject_job *j = arg;
    struct hw_proc_status st;
    if (hw_proc_status(thread->dir, &st) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", thread->pid);
    if (!change(j, HW_JOB_RUNNING, HW_JOB_ASKING))
        return hw_fail(err, HW_EGONE, 0, "the recorder has ended");
    int rc = hw_permission_profile(&j->asking, thread, &st, err);
    (void)change(j, HW_JOB_ASKING, HW_JOB_RUNNING); /* nobody else changes that */
    return rc;
}

static void *job_run(void *arg)
{
    struct hw_inject_job *j = arg;
    struct hw_inject_request q = {.pid = &j->pid,
                                  .library = j->library,
                                  .command = j->command,
                                  .socket_path = j->socket,
                                  .generation = j->generation,
                                  .tables = j->tables.map,
                                  .may = may,
                                  .arg = j};
    hw_autofd int fd = fcntl(j->done_fd, F_DUPFD_CLOEXEC, 3);
    j->rc = hw_inject(&q, &j->result, &j->error);
    if (!change(j, HW_JOB_RUNNING, HW_JOB_DONE))
        hw_inject_job_free(j);
    else
        (void)eventfd_write(fd, 1); /* the tick would find it, too */
    return NULL;
}

/* ---- before it ---- */

/* Maps and files, so that stacks can be walked. */
static int look(struct hw_inject_job *j)
{
    struct hw_recorder *r = j->rec;
    struct hw_reading_image i;
    int rc = hw_reading_image(r->blocking_reader, hw_reading_at(&j->pid, j->uid),
                              HW_READING_ALL_FILES, NULL, NULL, 0, &i);
    if (rc < 0)
        return rc; /* then there is no image */
    for (size_t k = 0; rc == HW_OK && k < i.n_files; k++) {
        struct hw_reading_file *f = &i.files[k];
        const struct hw_map *m = &i.maps.maps.v[f->map];
        struct hw_module_file *file;
        int fd = f->fd;
        f->fd = -1;
        if (hw_modules_get(r->modules, fd, &f->facts, m->path, &file) < 0)
            continue;
        hw_modules_want_table(r->modules, file);
        if (hw_vec_push(&j->ranges,
                        (struct hw_table_range){m->start, m->end,
                                                m->start - m->offset - file->load_bias, file}) < 0)
            rc = HW_ENOMEM;
    }
    hw_reading_image_done(&i);
    return rc;
}

int hw_inject_job_new(struct hw_recorder *r, struct hw_session *s,
                      const struct hw_permission_request *asking, const struct hw_pid *pid,
                      uint32_t uid, enum hw_attach_command command, struct hw_error *err)
{
    struct hw_namespace_socket *ns_socket = NULL;
    struct hw_inject_job *j = calloc(1, sizeof *j);
    if (!j)
        return hw_fail(err, HW_ENOMEM, 0, "attach");
    *j = (struct hw_inject_job){.rec = r,
                                .session = s,
                                .pid = HW_PID_NONE,
                                .uid = uid,
                                .command = command,
                                .tables = {.fd = -1},
                                .done_fd = fcntl(r->inject_watch.fd, F_DUPFD_CLOEXEC, 3),
                                .library = strdup(r->options.library),
                                .since_ns = hw_now_monotonic_ns()};
    j->generation = ++r->next_generation + 0x40000000u; /* as in attach_preloaded.c */
    int rc = j->library ? hw_permission_request_copy(asking, &j->asking) : HW_ENOMEM;
    if (rc < 0)
        rc = hw_fail(err, rc, 0, "attach:");
    else if (j->done_fd < 0)
        rc = hw_fail_sys(err, "attach");
    else
        rc = hw_pid_open(pid->pid, &j->pid, err);
    if (rc == HW_OK && !hw_pid_is_same(&j->pid, pid))
        rc = hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    if (rc == HW_OK && command == HW_ATTACH_HOOK)
        rc = hw_namespace_socket_for(r, &j->pid, &ns_socket, err);
    (void)snprintf(j->socket, sizeof j->socket, "%s", hw_namespace_socket_name(r, ns_socket));
    if (rc == HW_OK && hw_tables_init(&j->tables, HW_ARCH_HERE, 0) < 0)
        rc = hw_fail_sys(err, "memory files");
    if (rc == HW_OK && (rc = look(j)) < 0)
        rc = hw_fail(err, rc, 0, "its mappings: %s", hw_errc_text(rc));
    if (rc == HW_OK && hw_vec_push(&r->injecting, j) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "attach");
    if (rc < 0)
        hw_inject_job_free(j);
    return rc;
}

bool hw_inject_job_is_ready(const struct hw_inject_job *j, uint64_t now)
{
    if (now < j->again_ns)
        return false;
    if (now - j->since_ns > TABLES_WAIT)
        return true;
    for (size_t i = 0; i < j->ranges.n; i++) {
        enum hw_table_state s = j->ranges.v[i].file->table_state;
        if (s == HW_TABLE_COMPILING || s == HW_TABLE_WANTED)
            return false;
    }
    return true;
}

void hw_inject_job_start(struct hw_inject_job *j)
{
    sigset_t all, old;
    sigfillset(&all);
    (void)hw_tables_publish(&j->tables, j->ranges.v, j->ranges.n); /* else its own frame decides */
    (void)pthread_sigmask(SIG_BLOCK, &all, &old); /* cannot fail with these arguments */
    j->started_ns = hw_now_monotonic_ns();
    j->state = HW_JOB_RUNNING;
    j->running = pthread_create(&j->thread, NULL, job_run, j) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!j->running) {
        j->rc = hw_fail(&j->error, HW_ENOMEM, 0, "cannot start a thread to attach to it");
        j->state = HW_JOB_DONE;
    }
}

/* ---- places ---- */

struct places {
    size_t all, late, of_user, late_of_user;
};

static struct places places_for(const struct hw_recorder *r, uint32_t uid, uint64_t now)
{
    struct places p = {0};
    for (size_t i = 0; i < r->injecting.n; i++) {
        const struct hw_inject_job *j = r->injecting.v[i];
        bool late = now - j->started_ns > PLACE_NS;
        if (!j->running)
            continue;
        p.all += !late;
        p.late += late;
        p.of_user += j->uid == uid;
        p.late_of_user += late && j->uid == uid;
    }
    return p;
}

void hw_inject_job_start_if_place(struct hw_inject_job *j, uint64_t now)
{
    struct places p = places_for(j->rec, j->uid, now);
    bool can_wait = j->command == HW_ATTACH_UNHOOK; /* it is worth it */
    if (!can_wait && (p.late_of_user >= MAX_OF_USER || p.late >= MAX_LATE)) {
        j->rc = hw_fail(&j->error, HW_EBUSY, 0,
                        "process %d is not attached to: too many earlier ones do not respond; try "
                        "again when they have ended or run on",
                        j->pid.pid);
        j->state = HW_JOB_DONE;
    } else if (p.all < MAX_RUNNING && p.late < MAX_LATE &&
               (j->uid == 0 || p.of_user < MAX_OF_USER)) {
        hw_inject_job_start(j);
    }
}

void hw_inject_job_leave(struct hw_inject_job *j)
{
    struct timespec step = {0, LEAVE_STEP};
    uint64_t last = j->started_ns + HW_JOB_LATE_NS;
    while (j->running && !hw_inject_job_is_done(j)) {
        uint64_t now = hw_now_monotonic_ns();
        if (now > last && (change(j, HW_JOB_RUNNING, HW_JOB_LEFT) || now > last + HW_JOB_LATE_NS)) {
            (void)pthread_detach(j->thread); /* it is joinable */
            return;
        }
        (void)nanosleep(&step, NULL); /* a signal only shortens it */
    }
    if (j->running)
        (void)pthread_join(j->thread, NULL); /* it has run its last line */
    hw_inject_job_free(j);
}
