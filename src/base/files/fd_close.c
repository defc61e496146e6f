/*
 * fd_close.c - one thread closes after the other
 *
 * A file of FUSE is asked for each close of each descriptor (FUSE_FLUSH), also where it is not the
 * last one, so there is no letting go: another thread has to close it. Mostly that takes
 * microseconds. A thread that does not come back gets successors; when there are too many, files
 * stay open.
 */
#include "base/files/fd_close.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/detached.h"
#include "base/log.h"
#include "base/memory/vec.h"

#include "base/banned.h"

#define CLOSE_NS    UINT64_C(100000000)
#define MAX_CLOSERS 8u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    HW_VEC(int) files;
    uint64_t since_ns[MAX_CLOSERS]; /* of a thread each: when it last took a file; 0 = none */
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t closer_once = PTHREAD_ONCE_INIT;

static void closer_init(void)
{
    pthread_condattr_t a;
    (void)pthread_condattr_init(&a); /* these cannot fail on Linux */
    (void)pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&closer.moved, &a);
    (void)pthread_condattr_destroy(&a);
}

bool hw_fd_is_slow(int file)
{
    struct statfs fs;
    return fstatfs(file, &fs) < 0 || fs.f_type == FUSE_SUPER_MAGIC ||
           fs.f_type == OVERLAYFS_SUPER_MAGIC; /* which may lie over the other */
}

static void *run_closer(void *arg)
{
    uint64_t *since_ns = arg;
    pthread_mutex_lock(&closer.lock);
    while (closer.files.n) {
        int file = closer.files.v[--closer.files.n];
        *since_ns = hw_now_monotonic_ns();
        pthread_mutex_unlock(&closer.lock);
        (void)close(file); /* read only */
        pthread_mutex_lock(&closer.lock);
    }
    *since_ns = 0;
    pthread_cond_broadcast(&closer.moved);
    pthread_mutex_unlock(&closer.lock);
    return NULL;
}

static bool is_at_work(uint64_t now)
{
    for (size_t i = 0; i < MAX_CLOSERS; i++)
        if (closer.since_ns[i] && now - closer.since_ns[i] < CLOSE_NS)
            return true;
    return false;
}

static void start_closer(uint64_t now)
{
    for (size_t i = 0; i < MAX_CLOSERS; i++) {
        if (closer.since_ns[i])
            continue;
        closer.since_ns[i] = now;
        if (!hw_detached_run(run_closer, &closer.since_ns[i], HW_DETACHED_SMALL))
            closer.since_ns[i] = 0;
        return;
    }
}

void hw_fd_close_slow(int file)
{
    (void)pthread_once(&closer_once, closer_init);
    uint64_t now = hw_now_monotonic_ns(), until = now + CLOSE_NS;
    struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    pthread_mutex_lock(&closer.lock);
    if (hw_vec_push(&closer.files, file) < 0)
        hw_log(WARN, "a file stays open: no memory to close it"); /* rather than wait for it */
    if (!is_at_work(now))
        start_closer(now);
    while (is_at_work(now) && now < until) {
        (void)pthread_cond_timedwait(&closer.moved, &closer.lock, &ts); /* then it is looked at */
        now = hw_now_monotonic_ns();
    }
    pthread_mutex_unlock(&closer.lock);
}
