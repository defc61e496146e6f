/*
 * Appended bytes go to an unlinked file: the import reads a trace twice and at its own offsets, and
 * a trace of gigabytes is to be the file system's memory, not ours.
 */
#include "server/processor.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "enrich/demangle.h"
#include "import/import.h"
#include "model/profile.h"
#include "sql/packages.h"

#include "base/banned.h"

struct hw_processor {
    struct hw_processor_options o;
    pthread_mutex_t lock;     /* of everything below, also while a query runs */
    pthread_mutex_t job_lock; /* of current; taken inside lock, never the other way round */
    struct hw_processor_job *current;
    struct hw_profile *profile;
    struct hw_sql *db;
    struct hw_sql_packages packages; /* of clients */
    char *name;
    int fd;           /* the trace's bytes; -1 = none */
    uint64_t n_bytes; /* appended */
    bool ended;       /* by finalize or load: what comes now is another trace */
    bool stale;       /* bytes came that the profile does not have */
};

static const uint64_t default_max_trace = (uint64_t)64 << 30;

/* ---- the connection over a profile ---- */

static int open_sql(struct hw_processor *p, struct hw_profile *profile, struct hw_sql **out,
                    struct hw_error *err)
{
    int rc = hw_sql_open(profile, &p->o.limits, out, err);
    if (rc < 0)
        return rc;
    rc = hw_sql_use_demangler(*out, hw_demangle_text);
    if (rc == HW_OK && p->o.packages)
        rc = hw_sql_use_packages(*out, p->o.packages);
    if (rc == HW_OK)
        rc = hw_sql_use_packages(*out, &p->packages);
    if (rc < 0) {
        hw_sql_close(*out);
        return hw_fail(err, rc, 0, "SQL: %s", hw_errc_text(rc));
    }
    return HW_OK;
}

/* Takes the profile over, also when it fails. */
static int use_profile(struct hw_processor *p, struct hw_profile *profile, struct hw_error *err)
{
    struct hw_sql *db;
    if (p->o.add_names)
        p->o.add_names(p->o.ctx, profile);
    int rc = open_sql(p, profile, &db, err);
    if (rc < 0) {
        hw_profile_free(profile);
        return rc;
    }
    hw_sql_close(p->db);
    hw_profile_free(p->profile);
    p->db = db;
    p->profile = profile;
    p->stale = false;
    return HW_OK;
}

static int use_nothing(struct hw_processor *p, struct hw_error *err)
{
    struct hw_profile *empty;
    int rc = hw_profile_new(&empty);
    if (rc == HW_OK && (rc = hw_profile_freeze(empty)) < 0)
        hw_profile_free(empty);
    return rc < 0 ? hw_fail(err, rc, 0, "profile") : use_profile(p, empty, err);
}

int hw_processor_new(const struct hw_processor_options *o, struct hw_processor **out,
                     struct hw_error *err)
{
    struct hw_processor *p = calloc(1, sizeof *p);
    if (!p)
        return hw_fail(err, HW_ENOMEM, 0, "trace processor");
    p->o = *o;
    p->fd = -1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->job_lock, NULL);
    int rc = use_nothing(p, err);
    if (rc < 0) {
        hw_processor_free(p);
        return rc;
    }
    *out = p;
    return HW_OK;
}

void hw_processor_free(struct hw_processor *p)
{
    if (!p)
        return;
    hw_sql_close(p->db);
    hw_profile_free(p->profile);
    hw_sql_packages_done(&p->packages);
    free(p->name);
    if (p->fd >= 0)
        (void)close(p->fd);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->job_lock);
    free(p);
}

/* ---- the trace ---- */

static void forget_trace(struct hw_processor *p)
{
    if (p->fd >= 0)
        (void)close(p->fd);
    p->fd = -1;
    p->n_bytes = 0;
    p->ended = p->stale = false;
    free(p->name);
    p->name = NULL;
}

int hw_processor_load(struct hw_processor *p, const char *path, struct hw_error *err)
{
    struct hw_profile *profile;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    int rc = hw_import_fd_with(fd, path, p->o.progress, &profile, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&p->lock);
    rc = use_profile(p, profile, err);
    if (rc == HW_OK) {
        forget_trace(p);
        p->name = strdup(path);
        p->fd = hw_fd_take(&fd);
        p->ended = true;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static int append(struct hw_processor *p, struct hw_bytes data, struct hw_error *err)
{
    uint64_t max = p->o.max_trace ? p->o.max_trace : default_max_trace;
    int rc = HW_OK;
    if (p->ended) {
        forget_trace(p);
        rc = use_nothing(p, err);
    }
    if (rc < 0 || data.n == 0)
        return rc;
    if (data.n > max - p->n_bytes)
        return hw_fail(err, HW_ELIMIT, 0, "the trace is larger than %llu bytes",
                       (unsigned long long)max);
    if (p->fd < 0) {
        p->fd = hw_fd_temp("/tmp");
        if (p->fd < 0)
            return hw_fail_sys(err, "cannot keep the trace");
    }
    if (hw_fd_write_all(p->fd, data.p, data.n) < 0)
        return hw_fail_sys(err, "cannot keep the trace");
    p->n_bytes += data.n;
    p->stale = true;
    return HW_OK;
}

int hw_processor_append(struct hw_processor *p, struct hw_bytes data, uint64_t *total,
                        struct hw_error *err)
{
    pthread_mutex_lock(&p->lock);
    int rc = append(p, data, err);
    *total = p->n_bytes;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* Reads what was appended. */
static int refresh(struct hw_processor *p, struct hw_error *err)
{
    struct hw_profile *profile;
    if (!p->stale)
        return HW_OK;
    int rc = hw_import_fd(p->fd, "the appended trace", &profile, err);
    return rc < 0 ? rc : use_profile(p, profile, err);
}

int hw_processor_finalize(struct hw_processor *p, struct hw_error *err)
{
    pthread_mutex_lock(&p->lock);
    int rc = refresh(p, err);
    p->ended = true;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

int hw_processor_reset(struct hw_processor *p, struct hw_error *err)
{
    pthread_mutex_lock(&p->lock);
    forget_trace(p);
    int rc = use_nothing(p, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

int hw_processor_restore(struct hw_processor *p, struct hw_error *err)
{
    struct hw_sql *fresh;
    pthread_mutex_lock(&p->lock);
    int rc = open_sql(p, p->profile, &fresh, err);
    if (rc == HW_OK) {
        hw_sql_close(p->db);
        p->db = fresh;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

char *hw_processor_trace_name(struct hw_processor *p)
{
    pthread_mutex_lock(&p->lock);
    char *copy = strdup(p->name ? p->name : p->n_bytes ? "[appended trace]" : "");
    pthread_mutex_unlock(&p->lock);
    return copy;
}

int hw_processor_add_module(struct hw_processor *p, const char *name, struct hw_bytes sql,
                            bool override, struct hw_error *err)
{
    pthread_mutex_lock(&p->lock);
    int rc = hw_sql_packages_add(&p->packages, name, sql, override, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* ---- questions ---- */

void hw_processor_cancel(struct hw_processor_job *job)
{
    struct hw_processor *p = job->processor;
    job->cancelled = true;
    pthread_mutex_lock(&p->job_lock);
    if (p->current == job)
        hw_sql_interrupt(p->db);
    pthread_mutex_unlock(&p->job_lock);
}

/* Asked while SQL runs: an interruption just before its start would be lost. */
static bool is_over(void *ctx)
{
    struct hw_processor_job *job = ctx;
    return job->cancelled || (job->gone && job->gone(job->ctx));
}

static void set_current(struct hw_processor *p, struct hw_processor_job *job)
{
    hw_sql_watch(p->db, job ? is_over : NULL, job);
    pthread_mutex_lock(&p->job_lock);
    p->current = job;
    pthread_mutex_unlock(&p->job_lock);
}

int hw_processor_with(struct hw_processor *p, struct hw_processor_job *job,
                      int (*fn)(struct hw_sql *db, void *ctx, struct hw_error *err), void *ctx,
                      struct hw_error *err)
{
    pthread_mutex_lock(&p->lock);
    int rc = refresh(p, err);
    set_current(p, job);
    if (rc == HW_OK && job && job->cancelled)
        rc = hw_fail(err, HW_ETIMEOUT, 0, "interrupted");
    if (rc == HW_OK)
        rc = fn(p->db, ctx, err);
    set_current(p, NULL);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

int hw_processor_with_trace(struct hw_processor *p, int (*fn)(int fd, void *ctx, struct hw_error *),
                            void *ctx, struct hw_error *err)
{
    pthread_mutex_lock(&p->lock);
    int rc = p->fd < 0 ? hw_fail(err, HW_EINVAL, 0, "no trace is loaded") : fn(p->fd, ctx, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}
