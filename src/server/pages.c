/*
 * Traces are loaded by separate threads, so that the page appears at once and shows progress. A
 * trace is published by its state alone (release after everything else was written).
 */
#include "server/pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "import/import.h"
#include "server/api/heap/pages_heap.h"
#include "server/api/pages_internal.h"
#include "server/api/samples.h"

#include "base/banned.h"

enum { END_S = 2 };

/* ---- reading ---- */

static void add_names(void *ctx, struct hw_profile *profile)
{
    struct hw_page_trace *t = ctx;
    struct hw_pages *p = t->pages;
    if (!p->o.add_names)
        return;
    if (hw_callsites_count(profile->callsites)) /* 0 before a trace is loaded */
        atomic_store(&t->stage, HW_PAGE_NAMING);
    pthread_mutex_lock(&p->names_lock);
    hw_pb_done(&t->names); /* drops those of the empty profile */
    t->names = (struct hw_pb){0};
    p->o.add_names(p->o.ctx, profile, t->symbol_dirs, t->away, &t->names);
    pthread_mutex_unlock(&p->names_lock);
}

static int borrow_profile(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    struct hw_page_trace *t = ctx;
    (void)err;
    t->profile = hw_sql_profile(db); /* the processor never reads another trace */
    return HW_OK;
}

static int name_functions(struct hw_page_trace *t)
{
    struct hw_callsites *cs = t->profile->callsites;
    int rc = hw_functions_new(cs, NULL, &t->functions);
    if (rc == HW_OK)
        rc = hw_demangler_new(hw_callsites_strings(cs), &t->demangler);
    return rc == HW_OK ? hw_page_names_init(t) : rc;
}

static int sum_dumps(struct hw_page_trace *t)
{
    int rc = hw_series_list_init(&t->list, t->profile);
    if (rc == HW_OK)
        rc = hw_process_views_init(t->profile, &t->list, &t->processes);
    if (rc == HW_OK)
        rc = hw_by_process_init(&t->views_of, t->processes.v, t->processes.n,
                                sizeof *t->processes.v);
    return rc;
}

static void *sum_thread(void *ctx)
{
    return sum_dumps(ctx) == HW_OK ? NULL : ctx; /* the only failure is out of memory */
}

/*
 * Data every request needs. All dumps are summed up here, once, in parallel with naming functions:
 * the two are independent.
 */
static int prepare_trace(struct hw_page_trace *t)
{
    pthread_t thread;
    void *failed = NULL;
    bool parallel = pthread_create(&thread, NULL, sum_thread, t) == 0;
    int rc = parallel ? HW_OK : sum_dumps(t);
    if (rc == HW_OK)
        rc = name_functions(t);
    if (parallel)
        (void)pthread_join(thread, &failed); /* cannot fail: joined only once */
    return failed ? HW_ENOMEM : rc;
}

static int read_trace(struct hw_page_trace *t, struct hw_error *err)
{
    struct hw_processor_options o = {
        .limits = t->pages->o.limits, .add_names = add_names, .ctx = t, .progress = &t->progress};
    int rc = hw_processor_new(&o, &t->processor, err);
    if (rc == HW_OK)
        rc = hw_processor_load(t->processor, t->path, err);
    if (rc == HW_OK)
        rc = hw_processor_with(t->processor, NULL, borrow_profile, t, err);
    if (rc < 0)
        return rc;
    atomic_store(&t->stage, HW_PAGE_SUMMING);
    rc = prepare_trace(t);
    return rc < 0 ? hw_fail(err, rc, 0, "cannot read '%s'", t->name) : HW_OK;
}

/* Shows a file's first bytes: only of uploads, and of files that the server's owner named. */
static void keep_head(struct hw_page_trace *t)
{
    hw_autofd int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? 0 : pread(fd, t->head, sizeof t->head, 0);
    t->n_head = n > 0 ? (size_t)n : 0;
}

/*
 * Importers quote what they cannot parse. For a file only named by a request that is not revealed.
 */
static void keep_failure(struct hw_page_trace *t, int rc, const struct hw_error *err)
{
    bool named = t->fd >= 0 && !t->sent;
    t->failure = strdup(err->code && !named ? err->text : hw_errc_text(rc));
    if (!named)
        keep_head(t);
}

void hw_page_trace_ref(struct hw_page_trace *t)
{
    pthread_mutex_lock(&t->pages->lock);
    t->n_users++;
    pthread_mutex_unlock(&t->pages->lock);
}

void hw_page_trace_unref(struct hw_page_trace *t)
{
    pthread_mutex_lock(&t->pages->lock);
    bool last = --t->n_users == 0;
    pthread_mutex_unlock(&t->pages->lock);
    if (last)
        hw_page_trace_free(t);
}

unsigned hw_page_traces(struct hw_pages *p, struct hw_page_trace **out)
{
    pthread_mutex_lock(&p->lock);
    unsigned n = p->n;
    for (unsigned i = 0; i < n; i++) {
        out[i] = p->traces[i];
        out[i]->n_users++;
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}

static void *read_thread(void *ctx)
{
    struct hw_page_trace *t = ctx;
    struct hw_pages *p = t->pages;
    struct hw_error err = {0};
    int rc = read_trace(t, &err);
    t->took_ns = hw_now_monotonic_ns() - t->begin_ns;
    if (rc < 0)
        keep_failure(t, rc, &err);
    atomic_store_explicit(&t->state, rc < 0 ? HW_PAGE_FAILED : HW_PAGE_READY, memory_order_release);
    atomic_fetch_add(&p->changes, 1);
    hw_page_trace_unref(t);
    pthread_mutex_lock(&p->lock);
    p->n_readers--;
    pthread_cond_broadcast(&p->reader_ended);
    pthread_mutex_unlock(&p->lock); /* `p` may be freed from here on */
    return NULL;
}

void hw_page_trace_free(struct hw_page_trace *t)
{
    if (!t)
        return;
    hw_page_flame_windows_forget(t->pages->flame_windows, t);
    hw_page_infra_forget(t->pages->infra, t);
    hw_page_names_done(t);
    hw_page_heaps_free(t->heaps);
    hw_functions_free(t->functions);
    hw_demangler_free(t->demangler);
    hw_series_list_done(&t->list);
    hw_process_views_done(&t->processes);
    hw_by_process_done(&t->views_of);
    hw_processor_free(t->processor);
    hw_profile_free(t->own);
    pthread_mutex_destroy(&t->names_lock);
    if (t->fd >= 0)
        (void)close(t->fd);
    hw_pb_done(&t->names);
    free(t->symbol_dirs);
    free(t->failure);
    free(t->path);
    free(t->name);
    free(t);
}

static struct hw_page_trace *new_trace(struct hw_pages *p, const char *path, const char *name)
{
    struct hw_page_trace *t = calloc(1, sizeof *t);
    struct stat st;
    if (!t)
        return NULL;
    t->pages = p;
    t->fd = -1;
    pthread_mutex_init(&t->names_lock, NULL);
    t->path = strdup(path);
    t->name = strdup(name);
    t->begin_ns = hw_now_monotonic_ns();
    t->n_bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    hw_progress_init(&t->progress, t->n_bytes);
    if (!t->path || !t->name || hw_page_heaps_new(&t->heaps) < 0) {
        hw_page_trace_free(t);
        return NULL;
    }
    return t;
}

/* Readers are detached: one that hangs must not block the server. */
static int start_reader(struct hw_page_trace *t, struct hw_error *err)
{
    pthread_t thread;
    int code = pthread_create(&thread, NULL, read_thread, t);
    if (code)
        return hw_fail(err, HW_ESYS, 0, "cannot start a thread: %s", strerror(code));
    (void)pthread_detach(thread);
    return HW_OK;
}

/* Takes ownership of the trace. */
static int begin_reading(struct hw_pages *p, struct hw_page_trace *t, unsigned *id,
                         struct hw_error *err)
{
    int rc = HW_OK;
    if (!t)
        return hw_fail(err, HW_ENOMEM, 0, "trace");
    pthread_mutex_lock(&p->lock);
    if (p->n == HW_PAGES_MAX_TRACES)
        rc = hw_fail(err, HW_ELIMIT, 0, "%u traces are open; close one first", p->n);
    else
        rc = start_reader(t, err);
    if (rc == HW_OK) {
        p->n_readers++; /* its end waits for the lock that we hold */
        p->traces[p->n++] = t;
        *id = t->id = ++p->last_id;
        t->n_users = 2; /* the list and the reader */
        atomic_fetch_add(&p->changes, 1);
    }
    pthread_mutex_unlock(&p->lock);
    if (rc < 0)
        hw_page_trace_free(t);
    return rc;
}

/* Allows requests to reopen the file; not if out of memory. */
static void allow_reopen(struct hw_pages *p, const char *path)
{
    char *real = realpath(path, NULL);
    pthread_mutex_lock(&p->lock);
    if (real && hw_vec_push(&p->opened, real) == 0)
        real = NULL;
    pthread_mutex_unlock(&p->lock);
    free(real);
}

int hw_pages_open(struct hw_pages *p, const char *path, unsigned *id, struct hw_error *err)
{
    allow_reopen(p, path);
    return begin_reading(p, new_trace(p, path, path), id, err);
}

/*
 * Where a trace comes from. Whoever can put files into a directory of --traces is not always
 * allowed to read all other files.
 */
enum origin { OPENED_BEFORE, BELOW_DIR, SENT, SAMPLE };

/* Takes ownership of fd. */
static int open_fd(struct hw_pages *p, int fd, const char *name, enum origin how, unsigned *id,
                   struct hw_error *err)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct hw_page_trace *t = new_trace(p, path, name);
    if (t) {
        t->fd = fd;
        t->sent = how == SENT || how == SAMPLE;
        t->away = how == SAMPLE || (how != OPENED_BEFORE && !p->o.own);
    } else {
        (void)close(fd);
    }
    return begin_reading(p, t, id, err);
}

int hw_pages_open_fd(struct hw_pages *p, int fd, const char *name, unsigned *id,
                     struct hw_error *err)
{
    return open_fd(p, fd, name, SENT, id, err);
}

int hw_pages_open_sample(struct hw_pages *p, const struct hw_sample *s, unsigned *id,
                         struct hw_error *err)
{
    char name[64];
    int fd = hw_sample_open(s, err);
    (void)snprintf(name, sizeof name, "%s (sample)", s->name);
    return fd < 0 ? HW_ESYS : open_fd(p, fd, name, SAMPLE, id, err);
}

static bool was_opened(struct hw_pages *p, const char *path)
{
    bool found = false;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->opened.n; i++)
        found = found || strcmp(p->opened.v[i], path) == 0;
    pthread_mutex_unlock(&p->lock);
    return found;
}

int hw_pages_open_named(struct hw_pages *p, const char *path, unsigned *id, struct hw_error *err)
{
    int fd = was_opened(p, path) ? hw_files_open_real(path) : -1;
    if (fd >= 0)
        return open_fd(p, fd, path, OPENED_BEFORE, id, err);
    fd = hw_files_open(&p->trace_dirs, path, err);
    return fd < 0 ? fd : open_fd(p, fd, path, BELOW_DIR, id, err);
}

int hw_pages_open_again(struct hw_pages *p, const struct hw_page_trace *old, const char *dirs,
                        unsigned *id, struct hw_error *err)
{
    char path[40];
    int fd = old->fd >= 0 ? fcntl(old->fd, F_DUPFD_CLOEXEC, 0) : -1;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct hw_page_trace *t = new_trace(p, fd >= 0 ? path : old->path, old->name);
    if (t) {
        t->fd = fd;
        t->sent = old->sent;
        t->away = old->away;
        t->symbol_dirs = strdup(dirs);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return begin_reading(p, t, id, err);
}

int hw_page_trace_read(struct hw_pages *p, int fd, const char *name, struct hw_page_trace **out,
                       struct hw_error *err)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct hw_page_trace *t = new_trace(p, path, name);
    if (!t)
        return hw_fail(err, HW_ENOMEM, 0, "trace");
    int rc = hw_import_file(path, &t->own, err);
    if (rc == HW_OK) {
        t->profile = t->own;
        rc = prepare_trace(t);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "a look at '%s':", name); /* returned below */
    }
    if (rc < 0) {
        hw_page_trace_free(t);
        return rc;
    }
    atomic_store_explicit(&t->state, HW_PAGE_READY, memory_order_release);
    *out = t;
    return HW_OK;
}

/* The directories that requests may name. Traces may be next to their symbols. */
static int add_dirs(struct hw_pages *p, struct hw_error *err)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->o.n_traces; i++) {
        rc = hw_files_dirs_add(&p->trace_dirs, p->o.traces[i], err);
        if (rc == HW_OK)
            rc = hw_files_dirs_add(&p->symbol_dirs, p->o.traces[i], err);
    }
    for (size_t i = 0; rc == HW_OK && i < p->o.symbols.n_more; i++)
        /* Failures are fine: the directory may be created later. */
        (void)hw_files_dirs_add(&p->symbol_dirs, p->o.symbols.more[i], NULL);
    return rc;
}

int hw_pages_new(const struct hw_pages_options *o, struct hw_pages **out, struct hw_error *err)
{
    struct hw_pages *p = calloc(1, sizeof *p);
    if (!p || hw_page_flame_windows_new(&p->flame_windows) < 0 ||
        hw_page_infra_new(&p->infra) < 0) {
        if (p)
            hw_page_flame_windows_free(p->flame_windows);
        free(p);
        return hw_fail(err, HW_ENOMEM, 0, "pages");
    }
    p->o = *o;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->names_lock, NULL);
    pthread_mutex_init(&p->live_lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->reader_ended, &attr);
    pthread_condattr_destroy(&attr);
    int rc = add_dirs(p, err);
    if (rc < 0) {
        (void)hw_pages_free(p); /* cannot fail: no reader runs */
        return rc;
    }
    *out = p;
    return HW_OK;
}

/* A pipe without a writer, a dead network file system: threads blocked there cannot be stopped. */
static bool wait_for_readers(struct hw_pages *p)
{
    struct timespec until;
    int rc = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_S;
    pthread_mutex_lock(&p->lock);
    while (p->n_readers && rc == 0)
        rc = pthread_cond_timedwait(&p->reader_ended, &p->lock, &until);
    bool none = p->n_readers == 0;
    pthread_mutex_unlock(&p->lock);
    return none;
}

bool hw_pages_free(struct hw_pages *p)
{
    if (!p)
        return true;
    if (!wait_for_readers(p))
        return false;
    for (unsigned i = 0; i < p->n; i++)
        hw_page_trace_free(p->traces[i]);
    hw_page_flame_windows_free(p->flame_windows);
    hw_page_infra_free(p->infra);
    hw_files_dirs_done(&p->trace_dirs);
    hw_files_dirs_done(&p->symbol_dirs);
    for (size_t i = 0; i < p->opened.n; i++)
        free(p->opened.v[i]);
    hw_vec_done(&p->opened);
    pthread_cond_destroy(&p->reader_ended);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->names_lock);
    pthread_mutex_destroy(&p->live_lock);
    free(p);
    return true;
}

/* ---- requests ---- */

static void unuse(void *ctx)
{
    hw_page_trace_unref(ctx);
}

/* The slot of the trace with this id; a slash may follow. p->n: none. With the lock held. */
static unsigned find_slot(const struct hw_pages *p, const char *id)
{
    char *end = NULL;
    unsigned long n = id ? strtoul(id, &end, 10) : 0;
    unsigned i = 0;
    if (!id || end == id || (*end && *end != '/'))
        return p->n;
    while (i < p->n && p->traces[i]->id != n)
        i++;
    return i;
}

struct hw_page_trace *hw_page_trace_get(struct hw_pages *p, struct hw_http_request *req,
                                        const char *id)
{
    pthread_mutex_lock(&p->lock);
    unsigned slot = find_slot(p, id);
    struct hw_page_trace *t = slot < p->n ? p->traces[slot] : NULL;
    if (t)
        t->n_users++;
    pthread_mutex_unlock(&p->lock);
    if (t && hw_http_at_end(req, unuse, t) < 0) {
        hw_page_trace_unref(t);
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(HW_ENOMEM));
        return NULL;
    }
    if (!t) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no trace with that number is open\n");
        return NULL;
    }
    int state = atomic_load_explicit(&t->state, memory_order_acquire);
    if (state == HW_PAGE_READY)
        return t;
    if (state == HW_PAGE_LOADING)
        hw_http_reply_text(req, HTTP_BUSY, "the trace is still being read; ask again\n");
    else
        hw_http_reply_text(req, HTTP_BAD, t->failure ? t->failure : "the trace cannot be read");
    return NULL;
}

bool hw_pages_close(struct hw_pages *p, const char *id)
{
    struct hw_page_trace *t = NULL;
    pthread_mutex_lock(&p->lock);
    unsigned slot = strchr(id, '/') ? p->n : find_slot(p, id);
    if (slot < p->n) {
        t = p->traces[slot];
        p->n--;
        memmove(&p->traces[slot], &p->traces[slot + 1],
                (p->n - slot) * sizeof(struct hw_page_trace *));
    }
    pthread_mutex_unlock(&p->lock);
    if (!t)
        return false;
    atomic_fetch_add(&p->changes, 1);
    hw_page_trace_unref(t);
    return true;
}
