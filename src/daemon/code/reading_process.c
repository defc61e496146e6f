/* Readings that a process itself can influence: its texts, its memory, who listens where it says. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/blocking_reader_job.h"
#include "daemon/code/holder.h"
#include "inject/inject.h"
#include "proc/pid.h"
#include "proc/rights/as_user.h"

#include "base/banned.h"

#define MAX_MEM     4096u
#define MAX_ENVIRON (4u << 20)

bool hw_reading_has_words(struct hw_blocking_reader *l, const struct hw_reading_who *who)
{
    const struct hw_reading_words *w = hw_reading_words(l);
    return w->pid == who->pid && w->start_ticks == who->start_ticks;
}

void hw_reading_keep_words(struct hw_blocking_reader *l, const struct hw_reading_words *w)
{
    struct hw_reading_words *words = hw_reading_words(l);
    if (!words->kept || w->n == 0)
        return;
    words->pid = w->pid;
    words->start_ticks = w->start_ticks;
    words->n = w->n;
    memcpy(words->text, w->text, w->n + 1);
}

void hw_reading_read_words(const struct hw_reading_who *who, struct hw_reading_words *out)
{
    hw_autofd int fd = openat(who->dir, "cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out->text, sizeof out->text - 1);
    out->pid = who->pid;
    out->start_ticks = who->start_ticks;
    out->n = n > 0 ? (size_t)n : 0;
    out->text[out->n] = '\0';
}

/* ---- its texts, its files below /proc ---- */

struct text_job {
    struct hw_reading_job job;
    char *text; /* cmdline */
    size_t n;
};

struct words_job {
    struct hw_reading_job job;
    struct hw_reading_words words;
};

static void run_words(struct hw_reading_job *j)
{
    hw_reading_read_words(&j->who, &((struct words_job *)(void *)j)->words);
}

static void run_cmdline(struct hw_reading_job *j)
{
    struct text_job *t = (struct text_job *)(void *)j;
    j->rc = hw_proc_cmdline(j->who.dir, &t->text, &t->n);
}

static void run_environ(struct hw_reading_job *j)
{
    struct text_job *t = (struct text_job *)(void *)j;
    j->rc = hw_file_read(j->who.dir, "environ", MAX_ENVIRON, &t->text, &t->n, NULL);
}

static void drop_text(struct hw_reading_job *j)
{
    free(((struct text_job *)(void *)j)->text);
}

void hw_reading_argv0(struct hw_blocking_reader *l, struct hw_reading_who who, char *out,
                      size_t max)
{
    out[0] = '\0';
    if (hw_reading_has_words(l, &who)) {
        (void)snprintf(out, max, "%.511s", hw_reading_words(l)->text);
        return;
    }
    struct words_job *w = hw_reading_job_new(sizeof *w, &who, run_words, NULL);
    if (!w || hw_reading_job_do(l, &w->job) < 0)
        return;
    (void)snprintf(out, max, "%.511s", w->words.text);
    hw_reading_keep_words(l, &w->words);
    hw_reading_job_free(&w->job);
}

static int look_at_text(struct hw_blocking_reader *l, const struct hw_reading_who *who,
                        void (*run)(struct hw_reading_job *), char **out, size_t *n)
{
    struct text_job *t = hw_reading_job_new(sizeof *t, who, run, drop_text);
    int rc = t ? hw_reading_job_do(l, &t->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = t->job.rc;
    *out = t->text;
    *n = t->n;
    if (rc == HW_OK)
        t->text = NULL;
    hw_reading_job_free(&t->job);
    return rc;
}

int hw_reading_cmdline(struct hw_blocking_reader *l, struct hw_reading_who who, char **out,
                       size_t *n)
{
    const struct hw_reading_words *words = hw_reading_words(l);
    if (hw_reading_has_words(l, &who) && words->n < HW_READING_WORDS - 1) { /* else it was cut */
        *out = malloc(words->n + 1);
        *n = words->n;
        if (*out)
            memcpy(*out, words->text, *n + 1);
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
    struct hw_reading_job job;
    int rollup;
    struct hw_smaps smaps;
};

static void run_smaps(struct hw_reading_job *j)
{
    struct smaps_job *s = (struct smaps_job *)(void *)j;
    j->rc = hw_smaps_read(j->who.dir, s->rollup, &s->smaps);
}

static void drop_smaps(struct hw_reading_job *j)
{
    hw_smaps_done(&((struct smaps_job *)(void *)j)->smaps);
}

int hw_reading_smaps(struct hw_blocking_reader *l, struct hw_reading_who who, int rollup,
                     struct hw_smaps *out)
{
    struct smaps_job *s = hw_reading_job_new(sizeof *s, &who, run_smaps, drop_smaps);
    if (s)
        s->rollup = rollup;
    int rc = s ? hw_reading_job_do(l, &s->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = s->job.rc;
    if (rc == HW_OK) {
        *out = s->smaps;
        s->smaps = (struct hw_smaps){0};
    }
    hw_reading_job_free(&s->job);
    return rc;
}

struct mem_job {
    struct hw_reading_job job;
    int fd; /* the job's own */
    bool write;
    uint64_t at;
    size_t n;
    char bytes[MAX_MEM];
};

static void run_mem(struct hw_reading_job *j)
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

static void drop_mem(struct hw_reading_job *j)
{
    struct mem_job *m = (struct mem_job *)(void *)j;
    if (m->fd >= 0)
        (void)close(m->fd); /* nothing is pending on it */
}

int hw_reading_read_mem(struct hw_blocking_reader *l, struct hw_reading_who who, uint64_t at,
                        void *out, size_t n, int *opened)
{
    struct mem_job *m = n > MAX_MEM ? NULL : hw_reading_job_new(sizeof *m, &who, run_mem, drop_mem);
    if (!m)
        return HW_ENOMEM;
    m->fd = -1;
    m->at = at;
    m->n = n;
    int rc = hw_reading_job_do(l, &m->job);
    if (rc < 0)
        return rc;
    rc = m->job.rc;
    if (rc == HW_OK) {
        memcpy(out, m->bytes, n);
        *opened = m->fd;
        m->fd = -1;
    }
    hw_reading_job_free(&m->job);
    return rc;
}

int hw_reading_write_mem(struct hw_blocking_reader *l, struct hw_reading_who who, int mem,
                         uint64_t at, const void *p, size_t n)
{
    struct mem_job *m = n > MAX_MEM ? NULL : hw_reading_job_new(sizeof *m, &who, run_mem, drop_mem);
    if (!m)
        return HW_ENOMEM;
    m->fd = fcntl(mem, F_DUPFD_CLOEXEC, 3);
    m->write = true;
    m->at = at;
    m->n = n;
    memcpy(m->bytes, p, n);
    int rc = hw_reading_job_do(l, &m->job);
    if (rc < 0)
        return rc;
    rc = m->job.rc;
    hw_reading_job_free(&m->job);
    return rc;
}

/* ---- who listens where it says? ---- */

struct socket_job {
    struct hw_reading_job job;
    char name[108];
    int32_t holder;
};

/* It may name something that its user could not even see, or a file system of that user. */
static void run_socket(struct hw_reading_job *j)
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
    struct socket_job *s = hw_reading_job_new(sizeof *s, &who, run_socket, NULL);
    *holder = 0;
    if (!s)
        return HW_ENOMEM;
    (void)snprintf(s->name, sizeof s->name, "%.107s", name);
    int rc = hw_reading_job_do(l, &s->job);
    if (rc < 0)
        return rc;
    rc = s->job.rc;
    *holder = s->holder;
    hw_reading_job_free(&s->job);
    return rc;
}

/* ---- may it be attached to? ---- */

struct inject_job {
    struct hw_reading_job job;
    int pidfd; /* the job's own */
    struct hw_error err;
};

static void run_inject(struct hw_reading_job *j)
{
    struct inject_job *i = (struct inject_job *)(void *)j;
    struct hw_pid p = {j->who.pid, i->pidfd, j->who.dir, j->who.start_ticks};
    j->rc = hw_inject_check(&p, &i->err);
}

static void drop_inject(struct hw_reading_job *j)
{
    (void)close(((struct inject_job *)(void *)j)->pidfd); /* nothing is pending on it */
}

int hw_reading_inject(struct hw_blocking_reader *l, const struct hw_pid *p, uint32_t uid,
                      struct hw_error *err)
{
    struct hw_reading_who who = hw_reading_at(p, uid);
    hw_autofd int pidfd = fcntl(p->pidfd, F_DUPFD_CLOEXEC, 3);
    struct inject_job *i =
        pidfd < 0 ? NULL : hw_reading_job_new(sizeof *i, &who, run_inject, drop_inject);
    if (!i)
        return hw_fail(err, HW_ENOMEM, 0, "process %d cannot be inspected", p->pid);
    i->pidfd = hw_fd_take(&pidfd);
    int rc = hw_reading_job_do(l, &i->job);
    if (rc < 0)
        return hw_fail(err, rc, 0, "process %d may not be inspected: %s", p->pid, hw_errc_text(rc));
    rc = i->job.rc;
    if (rc < 0)
        *err = i->err;
    hw_reading_job_free(&i->job);
    return rc;
}

struct shared_job {
    struct hw_reading_job job;
    struct hw_shared_maps maps;
};

static void run_shared(struct hw_reading_job *j)
{
    j->rc = hw_shared_maps_read(j->who.dir, &((struct shared_job *)(void *)j)->maps);
}

static void drop_shared(struct hw_reading_job *j)
{
    hw_shared_maps_done(&((struct shared_job *)(void *)j)->maps);
}

int hw_reading_shared(struct hw_blocking_reader *l, struct hw_reading_who who,
                      struct hw_shared_maps *out, uint64_t *cpu_ns)
{
    struct shared_job *s = hw_reading_job_new(sizeof *s, &who, run_shared, drop_shared);
    int rc = s ? hw_reading_job_do(l, &s->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = s->job.rc;
    *cpu_ns = s->job.cpu_ns;
    *out = s->maps;
    s->maps = (struct hw_shared_maps){0};
    hw_reading_job_free(&s->job);
    return rc;
}
