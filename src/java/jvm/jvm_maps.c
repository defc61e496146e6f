/* jvm_maps.c - see jvm_maps.h */
#include "java/jvm/jvm_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "proc/maps.h"
#include "proc/pid.h"

#include "base/banned.h"

/* As long as the recorder's own looks wait at most: a busy machine starves threads. */
#define WAIT_NS UINT64_C(5000000000)

struct job {
    int dir; /* owned */
    struct hw_maps maps;
    int rc;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t done;
    bool finished; /* it is the asker's */
    bool left;     /* it is the reader's */
};

static void job_free(struct job *j)
{
    if (j->dir >= 0)
        (void)close(j->dir); /* a directory */
    (void)pthread_cond_destroy(&j->done);
    (void)pthread_mutex_destroy(&j->lock);
    free(j);
}

static struct job *job_new(const struct hw_pid *pid)
{
    struct job *j = calloc(1, sizeof *j);
    pthread_condattr_t a;
    if (!j)
        return NULL;
    (void)pthread_condattr_init(&a); /* these cannot fail on Linux */
    (void)pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&j->done, &a);
    (void)pthread_condattr_destroy(&a);
    (void)pthread_mutex_init(&j->lock, NULL);
    j->dir = fcntl(pid->dir, F_DUPFD_CLOEXEC, 3);
    if (j->dir >= 0)
        return j;
    job_free(j);
    return NULL;
}

static void *reader(void *arg)
{
    struct job *j = arg;
    int rc = hw_maps_read(j->dir, &j->maps, NULL);
    (void)pthread_mutex_lock(&j->lock);
    j->rc = rc;
    j->finished = true;
    bool left = j->left;
    if (!left)
        (void)pthread_cond_signal(&j->done);
    (void)pthread_mutex_unlock(&j->lock);
    if (!left)
        return NULL;
    if (rc == HW_OK)
        hw_maps_done(&j->maps);
    job_free(j);
    return NULL;
}

static bool start(struct job *j)
{
    pthread_t t;
    sigset_t all, old; /* signals are others' */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&t, NULL, reader, j);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        (void)pthread_detach(t); /* it is joinable */
    return rc == 0;
}

int hw_jvm_maps(const struct hw_pid *pid, struct hw_maps *out)
{
    struct job *j = job_new(pid);
    if (!j)
        return HW_ENOMEM;
    if (!start(j)) {
        job_free(j);
        return HW_ENOMEM;
    }
    uint64_t until = hw_now_monotonic_ns() + WAIT_NS;
    struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    (void)pthread_mutex_lock(&j->lock);
    while (!j->finished && pthread_cond_timedwait(&j->done, &j->lock, &ts) != ETIMEDOUT)
        ;
    bool finished = j->finished;
    j->left = !finished;
    (void)pthread_mutex_unlock(&j->lock);
    if (!finished)
        return HW_ETIMEOUT;
    int rc = j->rc;
    if (rc == HW_OK)
        *out = j->maps;
    job_free(j);
    return rc;
}
