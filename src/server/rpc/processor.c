/*
 * Clients run queries concurrently, each on a slot with its own SQL connection: they do not see
 * each other's tables, and nobody waits for another's long query. A client runs one query at a
 * time. A client without a slot gets the least recently used idle one, and has priority over those
 * with a slot: so with more clients than slots each gets its turn.
 *
 * Appended bytes go to an unlinked file: the importer reads a trace twice and at arbitrary offsets,
 * and a trace of gigabytes should be in the page cache, not in our memory.
 */
#include "server/rpc/processor.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "enrich/lines/demangle.h"
#include "import/import.h"
#include "model/profile.h"
#include "sql/packages.h"

#include "base/banned.h"

enum { SLOTS = 4, MAX_WAITING = 64, POLL_MS = 100 };

struct slot {
    struct hw_sql *db;            /* NULL = not needed yet */
    uint64_t client, used;        /* its owner; p->n_assigned when it was last assigned */
    bool taken, owned;            /* a query is running; client is valid */
    struct hw_processor_job *job; /* job_lock; of the query, NULL = not interruptible */
};

struct waiter { /* on its thread's stack */
    uint64_t client;
    struct slot *slot; /* the assigned one; NULL = none yet */
    struct waiter *next;
};

struct hw_processor {
    struct hw_processor_options o;
    pthread_mutex_t lock;     /* for everything below; not held while a query runs */
    pthread_cond_t changed;   /* with lock: a slot was assigned, or no query runs any more */
    pthread_mutex_t job_lock; /* for the slots' jobs; taken inside lock, never vice versa */
    struct slot slots[SLOTS];
    struct waiter *waiting; /* in order of arrival */
    unsigned n_running, n_exclusive;
    uint64_t n_assigned;
    struct hw_profile *profile;
    struct hw_sql_packages packages; /* of clients */
    char *name;
    int fd;           /* the trace's bytes; -1 = none */
    uint64_t n_bytes; /* appended */
    bool ended;       /* by finalize or load: further bytes begin another trace */
    bool stale;       /* bytes were appended that the profile does not contain */
};

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

/* None of them may be in use. */
static void close_slots(struct hw_processor *p)
{
    for (size_t i = 0; i < SLOTS; i++) {
        hw_sql_close(p->slots[i].db);
        p->slots[i] = (struct slot){0};
    }
}

/* Takes ownership of the profile, even on failure. */
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
    close_slots(p);
    hw_profile_free(p->profile);
    p->slots[0].db = db;
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
    return rc < 0 ? hw_fail(err, rc, 0, "profile:") : use_profile(p, empty, err);
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
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &attr);
    pthread_condattr_destroy(&attr);
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
    close_slots(p);
    hw_profile_free(p->profile);
    hw_sql_packages_done(&p->packages);
    free(p->name);
    if (p->fd >= 0)
        (void)close(p->fd);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->job_lock);
    pthread_cond_destroy(&p->changed);
    free(p);
}

/* ---- queueing of clients ---- */

/* A free slot for the client; NULL: it has to wait. With the lock held. */
static struct slot *free_slot(struct hw_processor *p, uint64_t client, bool *has_one)
{
    struct slot *best = NULL;
    *has_one = false;
    for (struct slot *s = p->slots; s < p->slots + SLOTS; s++) {
        if (s->owned && s->client == client) {
            *has_one = true;
            return s->taken ? NULL : s;
        }
        if (!s->taken && (!best || (best->owned && (!s->owned || s->used < best->used))))
            best = s;
    }
    return best;
}

/* Assigns the slot. Closing the previous client's connection drops its tables. */
static void assign_slot(struct hw_processor *p, struct slot *s, struct waiter *w)
{
    if (s->owned && s->client != w->client) {
        hw_sql_close(s->db);
        s->db = NULL;
    }
    s->client = w->client;
    s->owned = s->taken = true;
    s->used = ++p->n_assigned;
    w->slot = s;
    p->n_running++;
}

/* First to clients without a slot, then to those whose own slot is free. With the lock held. */
static void assign_slots(struct hw_processor *p)
{
    for (int has_slot = 0; has_slot < 2 && p->n_exclusive == 0; has_slot++) {
        for (struct waiter **at = &p->waiting; *at;) {
            bool has_one;
            struct waiter *w = *at;
            struct slot *s = free_slot(p, w->client, &has_one);
            if (s && has_one == (bool)has_slot) {
                *at = w->next;
                assign_slot(p, s, w);
            } else {
                at = &w->next;
            }
        }
    }
    pthread_cond_broadcast(&p->changed);
}

static void wait_briefly(struct hw_processor *p)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&p->changed, &p->lock, &until);
}

static bool is_over(void *ctx)
{
    struct hw_processor_job *job = ctx;
    return job->cancelled || (job->gone && job->gone(job->ctx));
}

/* False: too many queries of this client are already waiting. */
static bool enqueue(struct hw_processor *p, struct waiter *w)
{
    struct waiter **end = &p->waiting;
    unsigned n = 0;
    for (; *end; end = &(*end)->next)
        n += (*end)->client == w->client;
    if (n >= MAX_WAITING)
        return false;
    *end = w;
    return true;
}

static void dequeue(struct hw_processor *p, const struct waiter *w)
{
    for (struct waiter **at = &p->waiting; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            return;
        }
}

/* With the lock held; releases it while waiting. */
static int take_slot(struct hw_processor *p, struct hw_processor_job *job, struct slot **out,
                     struct hw_error *err)
{
    struct waiter w = {.client = job ? job->client : 0};
    if (!enqueue(p, &w))
        return hw_fail(
            err, HW_EBUSY, 0,
            "%d queries of this client are already waiting; try again when they are done",
            MAX_WAITING);
    assign_slots(p);
    while (!w.slot) {
        wait_briefly(p);
        if (!w.slot && job && is_over(job)) {
            dequeue(p, &w);
            return hw_fail(err, HW_ETIMEOUT, 0, "interrupted");
        }
    }
    *out = w.slot;
    return HW_OK;
}

static void release_slot(struct hw_processor *p, struct slot *s)
{
    s->taken = false;
    p->n_running--;
    assign_slots(p);
}

/* For changes of the trace: waits until no query runs; none starts until end_exclusive. */
static void begin_exclusive(struct hw_processor *p)
{
    pthread_mutex_lock(&p->lock);
    p->n_exclusive++;
    while (p->n_running)
        pthread_cond_wait(&p->changed, &p->lock);
}

static void end_exclusive(struct hw_processor *p)
{
    p->n_exclusive--;
    assign_slots(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- the trace ---- */

static void drop_trace(struct hw_processor *p)
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
    begin_exclusive(p);
    rc = use_profile(p, profile, err);
    if (rc == HW_OK) {
        drop_trace(p);
        p->name = strdup(path);
        p->fd = hw_fd_take(&fd);
        p->ended = true;
    }
    end_exclusive(p);
    return rc;
}

static int append(struct hw_processor *p, struct hw_bytes data, struct hw_error *err)
{
    uint64_t max = p->o.max_trace ? p->o.max_trace : UINT64_MAX;
    int rc = HW_OK;
    if (p->ended) {
        drop_trace(p);
        rc = use_nothing(p, err);
    }
    if (rc < 0 || data.n == 0)
        return rc;
    if (data.n > max - p->n_bytes)
        return hw_fail(err, HW_ELIMIT, 0,
                       "the trace is larger than %llu MiB; --max-upload lets the server take more",
                       (unsigned long long)(max >> 20));
    if (p->fd < 0) {
        p->fd = hw_fd_temp("/tmp");
        if (p->fd < 0)
            return hw_fail_sys(err, "cannot keep the trace");
    }
    int room = hw_fd_check_room(p->fd, data.n, err);
    if (room < 0)
        return room;
    if (hw_fd_write_all(p->fd, data.p, data.n) < 0)
        return hw_fail_sys(err, "cannot keep the trace");
    p->n_bytes += data.n;
    p->stale = true;
    return HW_OK;
}

int hw_processor_append(struct hw_processor *p, struct hw_bytes data, uint64_t *total,
                        struct hw_error *err)
{
    begin_exclusive(p);
    int rc = append(p, data, err);
    *total = p->n_bytes;
    end_exclusive(p);
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
    begin_exclusive(p);
    int rc = refresh(p, err);
    p->ended = true;
    end_exclusive(p);
    return rc;
}

int hw_processor_reset(struct hw_processor *p, struct hw_error *err)
{
    begin_exclusive(p);
    drop_trace(p);
    int rc = use_nothing(p, err);
    end_exclusive(p);
    return rc;
}

int hw_processor_restore(struct hw_processor *p, struct hw_error *err)
{
    struct hw_sql *fresh;
    begin_exclusive(p);
    int rc = open_sql(p, p->profile, &fresh, err);
    if (rc == HW_OK) {
        close_slots(p);
        p->slots[0].db = fresh;
    }
    end_exclusive(p);
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
    begin_exclusive(p);
    int rc = hw_sql_packages_add(&p->packages, name, sql, override, err);
    end_exclusive(p);
    return rc;
}

/* ---- queries ---- */

void hw_processor_cancel(struct hw_processor_job *job)
{
    struct hw_processor *p = job->processor;
    job->cancelled = true;
    pthread_mutex_lock(&p->job_lock);
    for (size_t i = 0; i < SLOTS; i++)
        if (p->slots[i].job == job)
            hw_sql_interrupt(p->slots[i].db);
    pthread_mutex_unlock(&p->job_lock);
}

/* SQL polls the job while it runs: an interruption just before its start would be lost. */
static void set_job(struct hw_processor *p, struct slot *s, struct hw_processor_job *job)
{
    hw_sql_watch(s->db, job ? is_over : NULL, job);
    pthread_mutex_lock(&p->job_lock);
    s->job = job;
    pthread_mutex_unlock(&p->job_lock);
}

/* Reads newly appended bytes, exclusively. With the lock held. */
static int update_trace(struct hw_processor *p, struct hw_error *err)
{
    int rc = HW_OK;
    p->n_exclusive++;
    while (p->stale && p->n_running)
        pthread_cond_wait(&p->changed, &p->lock);
    if (p->stale)
        rc = refresh(p, err);
    p->n_exclusive--;
    assign_slots(p);
    return rc;
}

/* Drops idle clients' tables when they take more than the remaining memory. With the lock held. */
static void make_room(struct hw_processor *p, const struct slot *mine)
{
    for (;;) {
        struct slot *largest = NULL;
        uint64_t most = hw_sql_memory_left();
        for (struct slot *s = p->slots; s < p->slots + SLOTS; s++)
            if (s != mine && s->db && !s->taken && hw_sql_memory_kept(s->db) > most) {
                most = hw_sql_memory_kept(s->db);
                largest = s;
            }
        if (!largest)
            return;
        hw_sql_close(largest->db);
        largest->db = NULL;
        largest->owned = false;
    }
}

static int acquire_slot(struct hw_processor *p, struct hw_processor_job *job, struct slot **out,
                        struct hw_error *err)
{
    struct slot *s = NULL;
    int rc = p->stale ? update_trace(p, err) : HW_OK;
    if (rc == HW_OK)
        rc = take_slot(p, job, &s, err);
    if (rc < 0)
        return rc;
    make_room(p, s);
    if (!s->db && (rc = open_sql(p, p->profile, &s->db, err)) < 0) {
        s->owned = false;
        release_slot(p, s);
        return rc;
    }
    *out = s;
    return HW_OK;
}

int hw_processor_with(struct hw_processor *p, struct hw_processor_job *job,
                      int (*fn)(struct hw_sql *db, void *ctx, struct hw_error *err), void *ctx,
                      struct hw_error *err)
{
    struct slot *s = NULL;
    pthread_mutex_lock(&p->lock);
    int rc = acquire_slot(p, job, &s, err);
    pthread_mutex_unlock(&p->lock);
    if (rc < 0)
        return rc;
    set_job(p, s, job);
    rc = job && job->cancelled ? hw_fail(err, HW_ETIMEOUT, 0, "interrupted") : fn(s->db, ctx, err);
    set_job(p, s, NULL);
    pthread_mutex_lock(&p->lock);
    release_slot(p, s);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

int hw_processor_with_trace(struct hw_processor *p, int (*fn)(int fd, void *ctx, struct hw_error *),
                            void *ctx, struct hw_error *err)
{
    begin_exclusive(p);
    int rc = p->fd < 0 ? hw_fail(err, HW_EINVAL, 0, "no trace is loaded") : fn(p->fd, ctx, err);
    end_exclusive(p);
    return rc;
}
