/* hold.c - see hold.h */
#include "inject/remote/hold.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "inject/remote/thread.h"
#include "proc/number.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MAX_THREADS 4096u
#define MAX_LOOKS   16u
#define FINISH_NS   UINT64_C(10000000)

static bool has(const struct hw_hold *h, int32_t tid)
{
    for (size_t i = 0; i < h->threads.n; i++)
        if (h->threads.v[i]->tid == tid)
            return true;
    return false;
}

static int take_one(const struct hw_pid *pid, int32_t tid, int32_t number, struct hw_hold *h,
                    struct hw_error *err)
{
    if (h->threads.n >= MAX_THREADS)
        return hw_fail(err, HW_ELIMIT, 0, "process %d has more than %u threads", pid->pid,
                       MAX_THREADS);
    struct hw_thread *t = calloc(1, sizeof *t);
    if (!t || hw_vec_reserve(&h->threads, h->threads.n + 1) < 0) {
        free(t);
        return hw_fail(err, HW_ENOMEM, 0, "threads of process %d", pid->pid);
    }
    t->number = number;
    t->mem = -1;
    t->filtered = h->filtered;
    int rc = hw_thread_seize_begin(t, pid->pid, tid, err);
    if (rc < 0) {
        free(t);
        return rc == HW_EGONE ? HW_OK : rc; /* it ended by itself */
    }
    h->threads.v[h->threads.n++] = t;
    return HW_OK;
}

/* Its number could have become another process's before we stopped it. */
static bool is_of(const struct hw_pid *pid, const struct hw_thread *t)
{
    char name[32];
    (void)snprintf(name, sizeof name, "task/%d", t->number);
    return faccessat(pid->dir, name, F_OK, 0) == 0;
}

/* Waits for the threads from `first` on, which were asked to stop. Those that have ended are
 * dropped. */
static int await(const struct hw_pid *pid, struct hw_hold *h, size_t first, struct hw_error *err)
{
    int rc = HW_OK;
    for (size_t i = first; i < h->threads.n && rc == HW_OK;) {
        rc = hw_thread_seize_end(h->threads.v[i], err);
        bool execed = h->threads.v[i]->execed;
        if (rc == HW_OK && !is_of(pid, h->threads.v[i])) {
            (void)hw_thread_release(h->threads.v[i]); /* it is stopped */
            rc = HW_EGONE;
        }
        if (rc == HW_EGONE) {
            free(h->threads.v[i]);
            h->threads.v[i] = h->threads.v[--h->threads.n];
            h->execed |= execed;
            if (execed)
                return hw_fail(err, rc, 0, "process %d has executed another program", pid->pid);
            rc = HW_OK;
            continue;
        }
        if (rc == HW_OK) /* the thread that would read what it writes may be stopped, too */
            hw_thread_finish_call(h->threads.v[i], pid, FINISH_NS);
        i++;
    }
    return rc;
}

/* Reads the list once. *n_new: how many were not held before. */
static int look(const struct hw_pid *pid, int32_t except_tid, struct hw_hold *h, size_t *n_new,
                struct hw_error *err)
{
    hw_autofd int fd = openat(pid->dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(dup(fd));
    const struct dirent *e;
    int rc = HW_OK;
    size_t first = h->threads.n;
    *n_new = 0;
    if (!d)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    while (rc == HW_OK && (e = readdir(d))) {
        int32_t number = (int32_t)strtol(e->d_name, NULL, 10);
        int32_t tid = number > 0 ? hw_proc_tid_of(number) : 0;
        if (tid <= 0 || tid == except_tid || has(h, tid))
            continue;
        rc = take_one(pid, tid, number, h, err);
        *n_new += 1;
    }
    (void)closedir(d); /* it was only read */
    return rc < 0 ? rc : await(pid, h, first, err);
}

/*
 * A thread that does not stop could be inside an exec, and have the first thread's number when that
 * ends: then no registers are set, since they could be the new program's.
 */
static void give_up(struct hw_hold *h, struct hw_thread *except)
{
    bool stuck = false;
    for (size_t i = 0; i < h->threads.n; i++)
        if (h->threads.v[i]->execed || !h->threads.v[i]->known)
            stuck |= !hw_thread_release(h->threads.v[i]);
    if (!stuck && !h->execed)
        return;
    for (size_t i = 0; i < h->threads.n; i++)
        hw_thread_give_up(h->threads.v[i]);
    hw_thread_give_up(except);
}

int hw_hold_take(const struct hw_pid *pid, struct hw_thread *except, struct hw_hold *out,
                 struct hw_error *err)
{
    struct hw_hold h = {.filtered = except->filtered};
    size_t n_new = 1;
    int rc = HW_OK;
    for (unsigned i = 0; i < MAX_LOOKS && n_new && rc == HW_OK; i++)
        rc = look(pid, except->tid, &h, &n_new, err);
    if (rc == HW_OK && n_new)
        rc = hw_fail(err, HW_ETIMEOUT, 0,
                     "process %d starts threads faster than they can be stopped; try again",
                     pid->pid);
    if (rc < 0) {
        give_up(&h, except);
        hw_hold_release(&h);
        return rc;
    }
    *out = h;
    return HW_OK;
}

void hw_hold_release(struct hw_hold *h)
{
    for (size_t i = 0; i < h->threads.n; i++) {
        (void)hw_thread_release(h->threads.v[i]); /* it is stopped */
        free(h->threads.v[i]);
    }
    hw_vec_done(&h->threads);
}
