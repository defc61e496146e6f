/*
 * blocking_reader.c - main thread ──job──> reading thread ──> main thread, or left behind
 *
 * One thread reads at a time. When it does not come back, the job is its own: it frees it if it
 * ever gets so far, and ends. A thread that only waits for a processor is waited for longer: its
 * state in /proc/self/task tells (R, running or about to).
 * Both wake each other without the lock: who is woken would only wait for it again.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_close.h"
#include "base/log.h"
#include "base/memory/lower_bound.h"
#include "base/memory/vec.h"
#include "daemon/code/file_facts.h"
#include "daemon/code/holder.h"
#include "inject/inject.h"
#include "proc/file.h"
#include "proc/pid.h"
#include "proc/rights/as_user.h"

#include "base/banned.h"

#define MS           UINT64_C(1000000)
#define WAIT_NS      (200 * MS) /* a cold disk's block is there by then */
#define WAIT_MORE_NS (50 * MS)
#define WAIT_MOST_NS (5000 * MS)
#define MAX_LEFT     32u
#define MAX_OF_USER  4u
#define MAX_STRIKES  3u
#define N_STRUCK     64u
#define MAX_MEM      4096u
#define MAX_ENVIRON  (4u << 20)
#define WORDS_MAX    4096u

struct job {
    struct hw_reading_who who; /* dir is the job's own */
    void (*run)(struct job *j);
    void (*drop)(struct job *j); /* what run left in it; NULL = nothing */
    bool finished, left;
    int rc;
    uint64_t cpu_ns;
};

struct struck {
    int32_t pid;
    uint32_t n;
    uint64_t start_ticks;
};

/* What a process was started with, as it was read in this turn of the owner's. */
struct words {
    int32_t pid; /* 0 = none */
    uint64_t start_ticks;
    size_t n;
    char text[WORDS_MAX]; /* ended by 0 */
};

struct hw_blocking_reader {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct job *next; /* for the reading thread */
    bool has_thread, stop;
    pid_t tid;
    uint64_t thread; /* number of the present one: those before it are left behind */
    HW_VEC(struct job *) left;
    struct struck struck[N_STRUCK];
    size_t next_struck;
    struct hw_facts *facts; /* owned; of any thread that reads */
    bool keeps_words;       /* its owner counts turns */
    struct words words;
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

static void job_free(struct job *j)
{
    if (j->who.dir >= 0)
        (void)close(j->who.dir); /* a directory */
    if (j->drop)
        j->drop(j);
    free(j);
}

static void forget_left(struct hw_blocking_reader *l, const struct job *j)
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
        struct job *j = l->next;
        l->next = NULL;
        if (!j)
            break;
        pthread_mutex_unlock(&l->lock);
        uint64_t before = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        j->run(j);
        j->cpu_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
        pthread_mutex_lock(&l->lock);
        if (j->left) { /* another thread has our place by now */
            forget_left(l, j);
            pthread_mutex_unlock(&l->lock);
            job_free(j);
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
    (void)pthread_mutex_destroy(&l->lock); /* nobody holds it */
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

static bool is_running(pid_t tid)
{
    char path[64];
    hw_autofree char *text = NULL;
    size_t n;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    if (tid == 0)
        return true; /* it has not even begun */
    if (hw_file_read(AT_FDCWD, path, 4096, &text, &n, NULL) < 0)
        return false;
    const char *p = strrchr(text, ')');
    return p && p[1] == ' ' && p[2] == 'R';
}

static bool wait_for(struct hw_blocking_reader *l, const struct job *j)
{
    uint64_t began = hw_now_monotonic_ns(), until = began + WAIT_NS;
    while (!j->finished) {
        struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
        int rc = pthread_cond_timedwait(&l->done, &l->lock, &ts);
        if (rc != ETIMEDOUT || j->finished)
            continue;
        if (until > began + WAIT_MOST_NS || !is_running(l->tid))
            return false;
        until = hw_now_monotonic_ns() + WAIT_MORE_NS;
    }
    return true;
}

/* Takes over the job, unless it gives HW_OK: then the results are the caller's, who frees it. */
static int look(struct hw_blocking_reader *l, struct job *j)
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
        job_free(j);
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

static void *job_new(size_t size, const struct hw_reading_who *who, void (*run)(struct job *),
                     void (*drop)(struct job *))
{
    struct job *j = calloc(1, size);
    if (!j)
        return NULL;
    *j = (struct job){.who = *who, .run = run, .drop = drop};
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
    l->keeps_words = true;
    l->words.pid = 0;
}

static bool has_words(const struct hw_blocking_reader *l, const struct hw_reading_who *who)
{
    return l->words.pid == who->pid && l->words.start_ticks == who->start_ticks;
}

/* ---- what is read ---- */

struct text_job {
    struct job job;
    char *text; /* cmdline */
    size_t n;
};

struct words_job {
    struct job job;
    size_t n;
    char text[WORDS_MAX];
};

static void run_words(struct job *j)
{
    struct words_job *w = (struct words_job *)(void *)j;
    hw_autofd int fd = openat(j->who.dir, "cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, w->text, sizeof w->text - 1);
    w->n = n > 0 ? (size_t)n : 0;
    w->text[w->n] = '\0';
}

static void run_cmdline(struct job *j)
{
    struct text_job *t = (struct text_job *)(void *)j;
    j->rc = hw_proc_cmdline(j->who.dir, &t->text, &t->n);
}

static void run_environ(struct job *j)
{
    struct text_job *t = (struct text_job *)(void *)j;
    j->rc = hw_file_read(j->who.dir, "environ", MAX_ENVIRON, &t->text, &t->n, NULL);
}

static void drop_text(struct job *j)
{
    free(((struct text_job *)(void *)j)->text);
}

void hw_reading_argv0(struct hw_blocking_reader *l, struct hw_reading_who who, char *out,
                      size_t max)
{
    out[0] = '\0';
    if (has_words(l, &who)) {
        (void)snprintf(out, max, "%.511s", l->words.text);
        return;
    }
    struct words_job *w = job_new(sizeof *w, &who, run_words, NULL);
    if (!w || look(l, &w->job) < 0)
        return;
    (void)snprintf(out, max, "%.511s", w->text);
    if (l->keeps_words && w->n) {
        l->words.pid = who.pid;
        l->words.start_ticks = who.start_ticks;
        l->words.n = w->n;
        memcpy(l->words.text, w->text, w->n + 1);
    }
    job_free(&w->job);
}

static int look_at_text(struct hw_blocking_reader *l, const struct hw_reading_who *who,
                        void (*run)(struct job *), char **out, size_t *n)
{
    struct text_job *t = job_new(sizeof *t, who, run, drop_text);
    int rc = t ? look(l, &t->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = t->job.rc;
    *out = t->text;
    *n = t->n;
    if (rc == HW_OK)
        t->text = NULL;
    job_free(&t->job);
    return rc;
}

int hw_reading_cmdline(struct hw_blocking_reader *l, struct hw_reading_who who, char **out,
                       size_t *n)
{
    if (has_words(l, &who) && l->words.n < WORDS_MAX - 1) { /* else it was cut */
        *out = malloc(l->words.n + 1);
        *n = l->words.n;
        if (*out)
            memcpy(*out, l->words.text, *n + 1);
        return *out ? HW_OK : HW_ENOMEM;
    }
    return look_at_text(l, &who, run_cmdline, out, n);
}

int hw_reading_environ(struct hw_blocking_reader *l, struct hw_reading_who who, char **out,
                       size_t *n)
{
    return look_at_text(l, &who, run_environ, out, n);
}

struct smaps_job {
    struct job job;
    int rollup;
    struct hw_smaps smaps;
};

static void run_smaps(struct job *j)
{
    struct smaps_job *s = (struct smaps_job *)(void *)j;
    j->rc = hw_smaps_read(j->who.dir, s->rollup, &s->smaps);
}

static void drop_smaps(struct job *j)
{
    hw_smaps_done(&((struct smaps_job *)(void *)j)->smaps);
}

int hw_reading_smaps(struct hw_blocking_reader *l, struct hw_reading_who who, int rollup,
                     struct hw_smaps *out)
{
    struct smaps_job *s = job_new(sizeof *s, &who, run_smaps, drop_smaps);
    if (s)
        s->rollup = rollup;
    int rc = s ? look(l, &s->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = s->job.rc;
    if (rc == HW_OK) {
        *out = s->smaps;
        s->smaps = (struct hw_smaps){0};
    }
    job_free(&s->job);
    return rc;
}

struct mem_job {
    struct job job;
    int fd; /* the job's own */
    bool write;
    uint64_t at;
    size_t n;
    char bytes[MAX_MEM];
};

static void run_mem(struct job *j)
{
    struct mem_job *m = (struct mem_job *)(void *)j;
    if (m->fd < 0)
        m->fd = openat(j->who.dir, "mem", O_RDWR | O_CLOEXEC);
    if (m->fd < 0)
        j->rc = HW_EPERM;
    else if (!m->write)
        j->rc = hw_fd_pread_all(m->fd, m->bytes, m->n, m->at);
    else if (pwrite(m->fd, m->bytes, m->n, (off_t)m->at) != (ssize_t)m->n)
        j->rc = HW_ESYS;
}

static void drop_mem(struct job *j)
{
    struct mem_job *m = (struct mem_job *)(void *)j;
    if (m->fd >= 0)
        (void)close(m->fd); /* nothing is pending on it */
}

int hw_reading_read_mem(struct hw_blocking_reader *l, struct hw_reading_who who, uint64_t at,
                        void *out, size_t n, int *opened)
{
    struct mem_job *m = n > MAX_MEM ? NULL : job_new(sizeof *m, &who, run_mem, drop_mem);
    if (!m)
        return HW_ENOMEM;
    m->fd = -1;
    m->at = at;
    m->n = n;
    int rc = look(l, &m->job);
    if (rc < 0)
        return rc;
    rc = m->job.rc;
    if (rc == HW_OK) {
        memcpy(out, m->bytes, n);
        *opened = m->fd;
        m->fd = -1;
    }
    job_free(&m->job);
    return rc;
}

int hw_reading_write_mem(struct hw_blocking_reader *l, struct hw_reading_who who, int mem,
                         uint64_t at, const void *p, size_t n)
{
    struct mem_job *m = n > MAX_MEM ? NULL : job_new(sizeof *m, &who, run_mem, drop_mem);
    if (!m)
        return HW_ENOMEM;
    m->fd = fcntl(mem, F_DUPFD_CLOEXEC, 3);
    m->write = true;
    m->at = at;
    m->n = n;
    memcpy(m->bytes, p, n);
    int rc = look(l, &m->job);
    if (rc < 0)
        return rc;
    rc = m->job.rc;
    job_free(&m->job);
    return rc;
}

/* ---- who listens where it says? ---- */

struct socket_job {
    struct job job;
    char name[108];
    int32_t holder;
};

/* It may name what its user could not even look at, or a file system of his. */
static void run_socket(struct job *j)
{
    struct socket_job *s = (struct socket_job *)(void *)j;
    struct hw_as_user as;
    struct hw_proc_status st;
    j->rc = hw_proc_status(j->who.dir, &st);
    if (j->rc < 0 || hw_as_user_begin(&as, st.euid, st.egid) < 0)
        return;
    j->rc = hw_holder_listens(s->name, &s->holder);
    hw_as_user_end(&as);
}

int hw_reading_listens(struct hw_blocking_reader *l, struct hw_reading_who who, const char *name,
                       int32_t *holder)
{
    struct socket_job *s = job_new(sizeof *s, &who, run_socket, NULL);
    *holder = 0;
    if (!s)
        return HW_ENOMEM;
    (void)snprintf(s->name, sizeof s->name, "%.107s", name);
    int rc = look(l, &s->job);
    if (rc < 0)
        return rc;
    rc = s->job.rc;
    *holder = s->holder;
    job_free(&s->job);
    return rc;
}

/* ---- may it be attached to? ---- */

struct inject_job {
    struct job job;
    int pidfd; /* the job's own */
    struct hw_error err;
};

static void run_inject(struct job *j)
{
    struct inject_job *i = (struct inject_job *)(void *)j;
    struct hw_pid p = {j->who.pid, i->pidfd, j->who.dir, j->who.start_ticks};
    j->rc = hw_inject_check(&p, &i->err);
}

static void drop_inject(struct job *j)
{
    (void)close(((struct inject_job *)(void *)j)->pidfd); /* nothing is pending on it */
}

int hw_reading_inject(struct hw_blocking_reader *l, const struct hw_pid *p, uint32_t uid,
                      struct hw_error *err)
{
    struct hw_reading_who who = hw_reading_at(p, uid);
    hw_autofd int pidfd = fcntl(p->pidfd, F_DUPFD_CLOEXEC, 3);
    struct inject_job *i = pidfd < 0 ? NULL : job_new(sizeof *i, &who, run_inject, drop_inject);
    if (!i)
        return hw_fail(err, HW_ENOMEM, 0, "process %d cannot be inspected", p->pid);
    i->pidfd = hw_fd_take(&pidfd);
    int rc = look(l, &i->job);
    if (rc < 0)
        return hw_fail(err, rc, 0, "process %d may not be inspected: %s", p->pid, hw_errc_text(rc));
    rc = i->job.rc;
    if (rc < 0)
        *err = i->err;
    job_free(&i->job);
    return rc;
}

/* ---- a file that grows ---- */

struct piece_job {
    struct job job;
    char *path;        /* own; NULL: of the map */
    struct hw_map map; /* its path is own */
    int fd;            /* the job's own */
    bool opened, slow;
    uint8_t *bytes; /* own */
    size_t max, n;
    uint64_t offset, size, dev, inode;
};

static void run_piece(struct job *j)
{
    struct piece_job *p = (struct piece_job *)(void *)j;
    struct stat st;
    if (p->fd < 0) {
        j->rc = p->path
                    ? hw_proc_open_written(j->who.dir, j->who.uid, p->path, &p->fd, NULL)
                    : hw_proc_open_written_mapping(j->who.dir, j->who.uid, &p->map, &p->fd, NULL);
        p->opened = j->rc == HW_OK;
        p->slow = p->opened && hw_fd_is_slow(p->fd);
    }
    if (j->rc < 0)
        return;
    if (fstat(p->fd, &st) < 0) {
        j->rc = HW_ESYS;
        return;
    }
    p->size = (uint64_t)st.st_size;
    p->dev = st.st_dev;
    p->inode = st.st_ino;
    if (p->offset >= p->size)
        return;
    ssize_t n = pread(p->fd, p->bytes, p->max, (off_t)p->offset);
    if (n < 0)
        j->rc = HW_ESYS;
    else
        p->n = (size_t)n;
}

static void drop_piece(struct job *j)
{
    struct piece_job *p = (struct piece_job *)(void *)j;
    hw_modules_close_file(p->fd, p->slow);
    free(p->path);
    free((char *)p->map.path);
    free(p->bytes);
}

static struct piece_job *piece_job(const struct hw_reading_who *who,
                                   const struct hw_reading_piece *p)
{
    struct piece_job *j = job_new(sizeof *j, who, run_piece, drop_piece);
    if (!j)
        return NULL;
    j->fd = *p->fd >= 0 ? fcntl(*p->fd, F_DUPFD_CLOEXEC, 3) : -1;
    j->slow = *p->fd >= 0 && p->slow;
    j->offset = p->offset;
    j->max = p->max;
    j->bytes = malloc(p->max + 1);
    if (*p->fd < 0 && p->path) {
        j->path = strdup(p->path);
    } else if (*p->fd < 0) {
        j->map = *p->map;
        j->map.path = strdup(p->map->path);
    }
    if (j->bytes && (*p->fd < 0 ? j->path || j->map.path : j->fd >= 0))
        return j;
    job_free(&j->job);
    return NULL;
}

int hw_reading_piece(struct hw_blocking_reader *l, struct hw_reading_who who,
                     struct hw_reading_piece *p)
{
    struct piece_job *j = piece_job(&who, p);
    int rc = j ? look(l, &j->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = j->job.rc;
    if (j->opened) {
        p->slow = j->slow;
        *p->fd = j->fd;
        j->fd = -1;
    }
    memcpy(p->out, j->bytes, j->n);
    p->n = j->n;
    p->size = j->size;
    p->dev = j->dev;
    p->inode = j->inode;
    p->cpu_ns = j->job.cpu_ns;
    job_free(&j->job);
    return rc;
}

/* ---- the image ---- */

struct image_job {
    struct job job;
    enum hw_reading_files which;
    char name[64];
    struct hw_facts *facts;         /* borrowed */
    struct hw_reading_known *known; /* owned; sorted by start */
    size_t n_known;
    struct hw_reading_image image;
};

static bool is_known(const struct image_job *i, const struct hw_map *m)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, i->n_known, i->known[mid].start < m->start);
    if (lo == i->n_known)
        return false;
    const struct hw_reading_known *k = &i->known[lo];
    return k->start == m->start && k->end == m->end && k->inode == m->inode &&
           k->offset == m->offset;
}

static bool is_wanted(const struct image_job *i, const struct hw_map *m)
{
    if (!(m->flags & HW_MAP_EXEC) || m->path[0] != '/' || m->start >> 63)
        return false;
    const char *base = strrchr(m->path, '/');
    return i->which == HW_READING_ALL_FILES ? !is_known(i, m) : strcmp(base + 1, i->name) == 0;
}

static void run_image(struct job *j)
{
    struct image_job *i = (struct image_job *)(void *)j;
    struct hw_maps *maps = &i->image.maps;
    j->rc = hw_maps_read(j->who.dir, maps, NULL);
    size_t n = 0;
    for (size_t k = 0; j->rc == HW_OK && i->which != HW_READING_NO_FILES && k < maps->maps.n; k++)
        n += is_wanted(i, &maps->maps.v[k]);
    if (n == 0 || !(i->image.files = calloc(n, sizeof *i->image.files)))
        return; /* without memory: mappings without files */
    for (size_t k = 0; k < maps->maps.n && i->image.n_files < n; k++) {
        struct hw_reading_file f = {.map = k};
        if (!is_wanted(i, &maps->maps.v[k]) ||
            hw_proc_open_mapping(j->who.dir, j->who.uid, &maps->maps.v[k], &f.fd, NULL) < 0)
            continue;
        if (hw_facts_read(i->facts, f.fd, &f.facts) < 0)
            (void)close(f.fd); /* it cannot even be looked at */
        else
            i->image.files[i->image.n_files++] = f;
        if (i->which == HW_READING_ONE_FILE)
            return;
    }
}

void hw_reading_image_done(struct hw_reading_image *i)
{
    for (size_t k = 0; k < i->n_files; k++)
        hw_modules_close_file(i->files[k].fd, i->files[k].facts.slow);
    free(i->files);
    hw_maps_done(&i->maps);
    *i = (struct hw_reading_image){0};
}

static void drop_image(struct job *j)
{
    struct image_job *i = (struct image_job *)(void *)j;
    free(i->known);
    hw_reading_image_done(&i->image);
}

int hw_reading_image(struct hw_blocking_reader *l, struct hw_reading_who who,
                     enum hw_reading_files which, const char *name,
                     const struct hw_reading_known *known, size_t n_known,
                     struct hw_reading_image *out)
{
    struct image_job *i = job_new(sizeof *i, &who, run_image, drop_image);
    if (!i)
        return HW_ENOMEM;
    i->which = which;
    i->facts = l->facts;
    (void)snprintf(i->name, sizeof i->name, "%s", name ? name : "");
    i->known = n_known ? malloc(n_known * sizeof *known) : NULL;
    if (i->known) {
        memcpy(i->known, known, n_known * sizeof *known);
        i->n_known = n_known;
    }
    int rc = look(l, &i->job);
    if (rc < 0)
        return rc;
    rc = i->job.rc;
    if (rc == HW_OK) {
        *out = i->image;
        out->cpu_ns = i->job.cpu_ns;
        i->image = (struct hw_reading_image){0};
    }
    job_free(&i->job);
    return rc;
}
