/*
 * Saving what is tracked: a snapshot of each process, all with the same timestamp, as one trace;
 * then symbols, then the same as memory-infra JSON.
 *
 * Several threads take snapshots, each over its own connection, so an unresponsive one does not
 * delay the others. None waits for a process itself, only for its recorder.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "open/export_file.h"
#include "open/symbol_options.h"
#include "record/controller.h"
#include "record/tracked/tracked_processes.h"
#include "trace/merge.h"

#include "base/banned.h"

enum { MAX_THREADS = 8, LOOK_MS = 11000, MAX_NAMES = 10000 };

#define BASE_NAME "trace_with_heap_dump"
#define JSON_END  ".json.gz"
#define TRACE_END ".trace"

struct look {
    int32_t recorder;
    bool embedded;
    int fd; /* the trace; -1 = none */
};

struct work {
    struct hw_tracked_save *s;
    struct look *looks; /* as s->all */
    uint64_t moment_ns;
    atomic_size_t next;
    pthread_mutex_t lock;
    size_t n_done; /* lock */
};

/* ---- readings of the processes ---- */

static int connect_to(const struct look *l, struct hw_controller **out, struct hw_error *err)
{
    char path[64];
    (void)snprintf(path, sizeof path, HW_CONTROL_EMBEDDED "%d", l->recorder); /* fits */
    return hw_controller_connect(l->embedded ? path : NULL, out, err);
}

static int look_at(const struct work *w, struct look *l, int32_t pid, struct hw_error *err)
{
    struct hw_control_live_request ask = {
        .pid = pid, .flags = HW_LIVE_REQUEST_COUNTERS, .moment_ns = w->moment_ns};
    struct hw_controller *c = NULL;
    struct hw_controller_event e;
    int rc = connect_to(l, &c, err);
    if (rc == HW_OK)
        rc = hw_controller_request_live(c, &ask, err);
    if (rc == HW_OK)
        rc = hw_controller_wait(c, HW_CTL_LIVE_REPLY, LOOK_MS, &e, err);
    if (rc == HW_OK && (l->fd = hw_controller_take_fd(c)) < 0)
        rc = hw_fail(err, HW_EFORMAT, 0, "the recorder sent no data of the process");
    hw_controller_free(c);
    return rc;
}

static void *look_thread(void *ctx)
{
    struct work *w = ctx;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->s->n;) {
        struct hw_tracked_one *one = &w->s->all[i];
        struct hw_error err = {0};
        int rc = look_at(w, &w->looks[i], one->pid, &err);
        one->state = rc < 0 ? HW_SAVED_FAILED : HW_SAVED_DONE;
        if (rc < 0)
            (void)snprintf(one->why, sizeof one->why, "%.255s",
                           err.code ? err.text : hw_errc_text(rc));
        pthread_mutex_lock(&w->lock);
        w->n_done++;
        if (w->s->progress)
            w->s->progress(w->s->ctx, w->n_done, w->s->n);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static void look_at_all(struct work *w)
{
    pthread_t threads[MAX_THREADS];
    size_t n = 0;
    pthread_mutex_init(&w->lock, NULL);
    while (n + 1 < MAX_THREADS && n + 1 < w->s->n &&
           pthread_create(&threads[n], NULL, look_thread, w) == 0)
        n++;
    (void)look_thread(w); /* also the caller's */
    for (size_t i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&w->lock);
}

/* ---- selection ---- */

static bool is_meant(const struct hw_tracked_save *s, int32_t pid)
{
    for (size_t i = 0; i < s->n_pids; i++)
        if (s->pids[i] == pid)
            return true;
    return s->n_pids == 0;
}

static int choose(struct work *w, const struct hw_tracked_list *l, struct hw_error *err)
{
    struct hw_tracked_save *s = w->s;
    s->all = calloc(l->n_tracked + 1, sizeof *s->all);
    w->looks = calloc(l->n_tracked + 1, sizeof *w->looks);
    if (!s->all || !w->looks)
        return hw_fail(err, HW_ENOMEM, 0, "processes");
    for (size_t i = 0; i < l->rows.n; i++) {
        const struct hw_tracked_row *r = &l->rows.v[i];
        if (!r->tracked || !is_meant(s, r->process->pid))
            continue;
        s->all[s->n].pid = r->process->pid;
        (void)snprintf(s->all[s->n].name, sizeof s->all->name, "%s", r->target->name);
        w->looks[s->n++] = (struct look){.recorder = r->process->recorder->state.pid,
                                         .embedded = r->process->recorder->embedded,
                                         .fd = -1};
    }
    for (size_t k = 0; k < s->n_pids; k++) {
        bool found = false;
        for (size_t i = 0; i < s->n; i++)
            found |= s->all[i].pid == s->pids[k];
        if (!found)
            return hw_fail(err, HW_ENOTFOUND, 0, "process %d is not tracked", s->pids[k]);
    }
    if (s->n == 0)
        return hw_fail(err, HW_ENOTFOUND, 0,
                       "no process is tracked, so there is nothing to save: start one first");
    return HW_OK;
}

/* ---- output files ---- */

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);
    return n > m && strcmp(s + n - m, with) == 0;
}

/* The same with another extension: x.json.gz, x.json → x.trace. */
static char *trace_name(const char *json)
{
    static const char *const known[] = {JSON_END, ".json"};
    struct hw_strbuf b = {0};
    size_t n = strlen(json);
    for (size_t i = 0; i < HW_ARRAY_LEN(known); i++)
        if (ends(json, known[i])) {
            n -= strlen(known[i]);
            break;
        }
    hw_strbuf_add(&b, json, n);
    hw_strbuf_adds(&b, TRACE_END);
    return hw_strbuf_take(&b);
}

/* Creates both files, so that no other save takes their names. *trace_fd is the trace's. */
static int make(const char *json, const char *trace, bool force, int *trace_fd,
                struct hw_error *err)
{
    int flags = O_CREAT | O_CLOEXEC | O_NOFOLLOW | (force ? O_TRUNC : O_EXCL);
    hw_autofd int a = open(json, O_WRONLY | flags, 0600);
    if (a < 0)
        return errno == EEXIST
                   ? hw_fail(err, HW_EEXIST, 0, "'%s' exists; --force overwrites it", json)
                   : hw_fail_sys(err, "cannot create '%s'", json);
    *trace_fd = open(trace, O_RDWR | flags, 0600);
    if (*trace_fd >= 0)
        return HW_OK;
    int rc = errno == EEXIST
                 ? hw_fail(err, HW_EEXIST, 0, "'%s' exists; --force overwrites it", trace)
                 : hw_fail_sys(err, "cannot create '%s'", trace);
    (void)unlink(json); /* empty */
    return rc;
}

static int make_files(struct hw_tracked_save *s, int *trace_fd, struct hw_error *err)
{
    int rc = HW_EEXIST;
    for (unsigned i = 1; rc == HW_EEXIST && i < (s->path ? 2 : MAX_NAMES); i++) {
        struct hw_strbuf b = {0};
        free(s->json);
        free(s->trace);
        if (s->path)
            hw_strbuf_adds(&b, s->path);
        else if (i == 1)
            hw_strbuf_adds(&b, BASE_NAME JSON_END);
        else
            hw_strbuf_addf(&b, BASE_NAME ".%u" JSON_END, i);
        s->json = hw_strbuf_take(&b);
        s->trace = s->json ? trace_name(s->json) : NULL;
        rc = s->trace ? make(s->json, s->trace, s->force, trace_fd, err)
                      : hw_fail(err, HW_ENOMEM, 0, "name of the file");
    }
    if (rc < 0) {
        free(s->json);
        free(s->trace);
        s->json = s->trace = NULL;
    }
    return rc;
}

static int write_files(struct hw_tracked_save *s, const struct look *looks, struct hw_error *err)
{
    hw_autofd int fd = -1;
    int rc = make_files(s, &fd, err);
    if (rc < 0)
        return rc;
    struct hw_trace_merge merge = {.out_fd = fd};
    hw_autofree struct hw_trace_merge_input *in = calloc(s->n ? s->n : 1, sizeof *in);
    size_t n = 0;
    for (size_t i = 0; in && i < s->n; i++)
        if (looks[i].fd >= 0)
            in[n++].fd = looks[i].fd;
    rc = in ? hw_trace_merge(&merge, in, n, err) : hw_fail(err, HW_ENOMEM, 0, "cannot merge");
    if (rc == HW_OK)
        (void)hw_symbol_options_add(s->cli, s->trace,
                                    NULL); /* else without symbols, which can be added later */
    if (rc == HW_OK)
        rc = hw_export_file(&hw_export_memory_infra, s->trace, s->json, err);
    if (rc < 0) {
        (void)unlink(s->json); /* half a dump would look like a whole one */
        (void)unlink(s->trace);
        free(s->json);
        free(s->trace);
        s->json = s->trace = NULL;
    }
    return rc;
}

int hw_tracked_save(struct hw_tracked *m, struct hw_tracked_save *s, struct hw_error *err)
{
    struct hw_tracked_list list;
    struct work w = {.s = s};
    int rc = hw_tracked_query(m, &list, err);
    if (rc < 0)
        return rc;
    rc = choose(&w, &list, err);
    hw_tracked_list_done(&list);
    if (rc == HW_OK) {
        w.moment_ns = hw_clock_ns(CLOCK_MONOTONIC_COARSE);
        look_at_all(&w);
        for (size_t i = 0; i < s->n; i++)
            s->n_failed += s->all[i].state != HW_SAVED_DONE;
        if (s->n_failed == s->n)
            rc = hw_fail(err, HW_ETIMEOUT, 0, "process %d: %s", s->all[0].pid, s->all[0].why);
    }
    if (rc == HW_OK)
        rc = write_files(s, w.looks, err);
    for (size_t i = 0; w.looks && i < s->n; i++)
        if (w.looks[i].fd >= 0)
            (void)close(w.looks[i].fd); /* a memory file */
    free(w.looks);
    return rc;
}

void hw_tracked_save_done(struct hw_tracked_save *s)
{
    free(s->all);
    free(s->json);
    free(s->trace);
}
