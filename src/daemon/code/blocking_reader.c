/*
 * blocking_reader.c - main thread ──job──> reading thread ──> main thread, or abandoned
 *
 * One thread reads at a time. If it does not come back, it owns the job: it frees it if it ever
 * gets that far, and ends. A thread that only waits for a processor is given longer: its state in
 * /proc/self/task shows that (R, running or runnable). Both wake each other without the lock: the
 * woken thread would only wait for it again.
 */
#include "daemon/code/blocking_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "daemon/code/blocking_reader_job.h"
#include "daemon/code/file_facts.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MS           UINT64_C(1000000)
#define WAIT_NS      (200 * MS) /* a cold disk's block has been read by then */
#define WAIT_MORE_NS (50 * MS)
#define WAIT_MOST_NS (5000 * MS)
#define MAX_LEFT     32u
#define MAX_OF_USER  4u
#define MAX_STRIKES  3u
#define N_STRUCK     64u

struct struck {
    int32_t pid;
    uint32_t n;
    uint64_t start_ticks;
};

struct hw_blocking_reader {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct hw_reading_job *next; /* for the reading thread */
    bool has_thread, stop;
    pid_t tid;
    uint64_t thread; /* number of the present one: earlier ones were abandoned */
    HW_VEC(struct hw_reading_job *) left;
    struct struck struck[N_STRUCK];
    size_t next_struck;
    struct hw_facts *facts; /* owned; of any thread that reads */
    struct hw_reading_words words;
};

int hw_blocking_reader_new(struct hw_blocking_reader **out)
{
    struct hw_blocking_reader *l = calloc(1, sizeof *l);
    pthread_condattr_t a;
    if (!l || hw_facts_new(&l->facts) < 0) {
        free(l);
        return HW_ENOMEM;
    }
    (void)pthread_condattr_init(&a); /* these cannot fail on Linux */
    (void)pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->work, &a);
    (void)pthread_cond_init(&l->done, &a);
    (void)pthread_condattr_destroy(&a);
    *out = l;
    return HW_OK;
}

/* ---- the reading thread ---- */

void hw_reading_job_free(struct hw_reading_job *j)
{
    if (j->who.dir >= 0)
        (void)close(j->who.dir); /* a directory */
    if (j->drop)
        j->drop(j);
    free(j);
}

static void forget_left(struct hw_blocking_reader *l, const struct hw_reading_job *j)
{
    for (size_t i = 0; i < l->left.n; i++)
        if (l->left.v[i] == j) {
            l->left.v[i] = l->left.v[--l->left.n];
            return;
        }
}

static void *reader(void *arg)
{
    struct hw_blocking_reader *l = arg;
    (void)prctl(PR_SET_NAME, "look"); /* only a name */
    pthread_mutex_lock(&l->lock);
    l->tid = (pid_t)syscall(SYS_gettid);
    for (;;) {
        while (!l->next && !l->stop)
            pthread_cond_wait(&l->work, &l->lock);
        struct hw_reading_job *j = l->next;
        l->next = NULL;
        if (!j)
            break;
        pthread_mutex_unlock(&l->lock);
        uint64_t before = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        j->run(j);
        j->cpu_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
        pthread_mutex_lock(&l->lock);
        if (j->left) { /* another thread has replaced us by now */
            forget_left(l, j);
            pthread_mutex_unlock(&l->lock);
            hw_reading_job_free(j);
            return NULL;
        }
        j->finished = true; /* from now on the main thread's */
        pthread_mutex_unlock(&l->lock);
        pthread_cond_broadcast(&l->done);
        pthread_mutex_lock(&l->lock);
    }
    l->has_thread = false;
    pthread_cond_broadcast(&l->done);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static int need_thread(struct hw_blocking_reader *l)
{
    if (l->has_thread)
        return HW_OK;
    pthread_t t;
    sigset_t all, old; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&t, NULL, reader, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return HW_ENOMEM;
    (void)pthread_detach(t); /* it is joinable */
    l->has_thread = true;
    l->tid = 0;
    return HW_OK;
}

void hw_blocking_reader_free(struct hw_blocking_reader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    while (l->has_thread)
        pthread_cond_wait(&l->done, &l->lock);
    bool alone = l->left.n == 0;
    pthread_mutex_unlock(&l->lock);
    if (!alone)
        return; /* the process ends now, and those threads with it */
    hw_vec_done(&l->left);
    (void)pthread_mutex_destroy(&l->lock); /* no thread holds it */
    hw_facts_free(l->facts);
    free(l);
}

/* ---- waiting for it ---- */

static struct struck *strikes_of(struct hw_blocking_reader *l, const struct hw_reading_who *w)
{
    for (size_t i = 0; i < N_STRUCK; i++)
        if (l->struck[i].pid == w->pid && l->struck[i].start_ticks == w->start_ticks)
            return &l->struck[i];
    return NULL;
}

static bool is_refused(struct hw_blocking_reader *l, const struct hw_reading_who *w)
{
    const struct struck *s = strikes_of(l, w);
    size_t of_user = 0;
    for (size_t i = 0; i < l->left.n; i++) {
        const struct hw_reading_who *o = &l->left.v[i]->who;
        of_user += o->uid == w->uid;
        if (o->pid == w->pid && o->start_ticks == w->start_ticks)
            return true;
    }
    return (s && s->n >= MAX_STRIKES) || of_user >= MAX_OF_USER || l->left.n >= MAX_LEFT;
}

static void strike(struct hw_blocking_reader *l, const struct hw_reading_who *w)
{
    struct struck *s = strikes_of(l, w);
    if (!s) {
        s = &l->struck[l->next_struck++ % N_STRUCK];
        *s = (struct struck){.pid = w->pid, .start_ticks = w->start_ticks};
    }
    s->n++;
}

static bool is_running(const char *path)
{
    hw_autofree char *text = NULL;
    size_t n;
    if (hw_file_read(AT_FDCWD, path, 4096, &text, &n, NULL) < 0)
        return false;
    const char *p = strrchr(text, ')');
    return p && p[1] == ' ' && p[2] == 'R';
}

/* The thread, or the process that it waits for. */
static bool is_at_work(const struct hw_blocking_reader *l, const struct hw_reading_job *j)
{
    char path[64];
    int32_t helper = atomic_load_explicit(&j->helper, memory_order_relaxed);
    if (l->tid == 0)
        return true; /* it has not even begun */
    if (helper)
        (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)helper);
    else
        (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)l->tid);
    return is_running(path);
}

static bool wait_for(struct hw_blocking_reader *l, const struct hw_reading_job *j)
{
    uint64_t began = hw_now_monotonic_ns(), until = began + WAIT_NS;
    while (!j->finished) {
        struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
        int rc = pthread_cond_timedwait(&l->done, &l->lock, &ts);
        if (rc != ETIMEDOUT || j->finished)
            continue;
        if (until > began + WAIT_MOST_NS || !is_at_work(l, j))
            return false;
        until = hw_now_monotonic_ns() + WAIT_MORE_NS;
    }
    return true;
}

int hw_reading_job_do(struct hw_blocking_reader *l, struct hw_reading_job *j)
{
    int rc = HW_OK;
    pthread_mutex_lock(&l->lock);
    if (is_refused(l, &j->who))
        rc = HW_ETIMEOUT;
    if (rc == HW_OK && hw_vec_reserve(&l->left, l->left.n + 1) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = need_thread(l);
    if (rc < 0) {
        pthread_mutex_unlock(&l->lock);
        hw_reading_job_free(j);
        return rc;
    }
    l->next = j;
    pthread_mutex_unlock(&l->lock);
    pthread_cond_signal(&l->work);
    pthread_mutex_lock(&l->lock);
    if (!wait_for(l, j)) {
        j->left = true;
        l->left.v[l->left.n++] = j;
        l->has_thread = false;
        strike(l, &j->who);
        pthread_mutex_unlock(&l->lock);
        return HW_ETIMEOUT;
    }
    pthread_mutex_unlock(&l->lock);
    return HW_OK;
}

void *hw_reading_job_new(size_t size, const struct hw_reading_who *who,
                         void (*run)(struct hw_reading_job *),
                         void (*drop)(struct hw_reading_job *))
{
    struct hw_reading_job *j = calloc(1, size);
    if (!j)
        return NULL;
    *j = (struct hw_reading_job){.who = *who, .run = run, .drop = drop};
    j->who.dir = fcntl(who->dir, F_DUPFD_CLOEXEC, 3);
    if (j->who.dir >= 0)
        return j;
    free(j);
    return NULL;
}

struct hw_reading_who hw_reading_at(const struct hw_pid *p, uint32_t uid)
{
    return (struct hw_reading_who){p->pid, uid, p->start_ticks, p->dir};
}

void hw_blocking_reader_turn(struct hw_blocking_reader *l)
{
    l->words.kept = true;
    l->words.pid = 0;
}

struct hw_reading_words *hw_reading_words(struct hw_blocking_reader *l)
{
    return &l->words;
}

struct hw_facts *hw_reading_facts(struct hw_blocking_reader *l)
{
    return l->facts;
}
