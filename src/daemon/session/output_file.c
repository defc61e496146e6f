#include "daemon/session/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/detached.h"
#include "base/files/fd.h"
#include "daemon/clients/blocking_fd.h"

#include "base/banned.h"

#define OUTPUT_WAIT_NS UINT64_C(3000000000)

enum work { NOTHING, SEEK, WRITE, CUT, END };

struct hw_output_file {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users; /* the main thread and ours: the last one frees it */
    uid_t uid;
    bool stuck; /* the main thread waits for nothing any more */

    /* Given by the main thread while work is NOTHING, ours until it is again. */
    enum work work;
    uint8_t *bytes; /* owned */
    size_t n, room;
    off_t at;
    int error; /* of what was done last; 0 = none */
    int fd;    /* owned by the thread */
};

static void drop(struct hw_output_file *f)
{
    pthread_mutex_lock(&f->lock);
    bool last = --f->users == 0;
    pthread_mutex_unlock(&f->lock);
    if (!last)
        return;
    (void)pthread_mutex_destroy(&f->lock); /* nobody has them */
    (void)pthread_cond_destroy(&f->changed);
    free(f->bytes);
    free(f);
}

/* ---- in the thread ---- */

static int do_work(struct hw_output_file *f, enum work work)
{
    off_t at;
    switch (work) {
    case SEEK:
        at = lseek(f->fd, 0, fcntl(f->fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
        f->at = at;
        return 0;
    case WRITE:
        return hw_fd_write_all(f->fd, f->bytes, f->n) < 0 ? errno ? errno : EIO : 0;
    case CUT:
        if (ftruncate(f->fd, f->at) < 0)
            return errno;
        return lseek(f->fd, f->at, SEEK_SET) < 0 ? errno : 0;
    case NOTHING:
    case END:
        break;
    }
    return 0;
}

static void *run(void *arg)
{
    struct hw_output_file *f = arg;
    bool stuck = false;
    pthread_mutex_lock(&f->lock);
    while (f->work != END) {
        if (f->work == NOTHING) {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        enum work work = f->work;
        pthread_mutex_unlock(&f->lock);
        int error = do_work(f, work);
        pthread_mutex_lock(&f->lock);
        f->error = error;
        stuck = f->stuck;
        f->work = stuck ? END : NOTHING;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    (void)close(f->fd); /* each write was checked; here it may take its time */
    if (stuck)
        hw_blocking_fd_leave(f->uid);
    drop(f);
    return NULL;
}

/* ---- in the main thread ---- */

/* Under the lock: whether the work was done in time. */
static bool is_done(struct hw_output_file *f)
{
    uint64_t until = hw_now_monotonic_ns() + OUTPUT_WAIT_NS;
    struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    while (f->work != NOTHING)
        if (pthread_cond_clockwait(&f->changed, &f->lock, CLOCK_MONOTONIC, &ts) == ETIMEDOUT)
            return f->work == NOTHING;
    return true;
}

/* Under the lock. */
static int give(struct hw_output_file *f, enum work work)
{
    int error;
    f->work = work;
    pthread_cond_broadcast(&f->changed);
    if (is_done(f)) {
        error = f->error;
    } else {
        f->stuck = true;
        hw_blocking_fd_stuck(f->uid);
        error = ETIMEDOUT;
    }
    return error;
}

static int finish(struct hw_output_file *f, int error)
{
    pthread_mutex_unlock(&f->lock);
    errno = error;
    return error ? -1 : 0;
}

int hw_output_file_write(void *ctx, const void *p, size_t n)
{
    struct hw_output_file *f = ctx;
    pthread_mutex_lock(&f->lock);
    if (f->stuck)
        return finish(f, ETIMEDOUT);
    if (n > f->room) {
        uint8_t *more = realloc(f->bytes, n);
        if (!more)
            return finish(f, ENOMEM);
        f->bytes = more;
        f->room = n;
    }
    memcpy(f->bytes, p, n);
    f->n = n;
    return finish(f, give(f, WRITE));
}

int hw_output_file_cut(void *ctx, off_t size)
{
    struct hw_output_file *f = ctx;
    pthread_mutex_lock(&f->lock);
    if (f->stuck)
        return finish(f, ETIMEDOUT);
    f->at = size;
    return finish(f, give(f, CUT));
}

int hw_output_file_new(int fd, uid_t uid, struct hw_output_file **out, off_t *start)
{
    struct hw_output_file *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    f->uid = uid;
    f->users = 2;
    (void)pthread_mutex_init(&f->lock, NULL); /* these cannot fail */
    (void)pthread_cond_init(&f->changed, NULL);
    if (f->fd < 0 || !hw_detached_run(run, f, HW_DETACHED_SMALL)) {
        int error = f->fd < 0 ? errno : EAGAIN;
        if (f->fd >= 0)
            (void)close(f->fd); /* not the last one */
        f->users = 1;
        drop(f);
        errno = error;
        return -1;
    }
    pthread_mutex_lock(&f->lock);
    int rc = finish(f, give(f, SEEK));
    if (rc < 0) {
        int error = errno;
        hw_output_file_free(f);
        errno = error;
        return -1;
    }
    *start = f->at;
    *out = f;
    return 0;
}

void hw_output_file_free(struct hw_output_file *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    if (!f->stuck)
        f->work = END;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    drop(f);
}
