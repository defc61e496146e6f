#include "server/api/pprof_endpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "export/export.h"
#include "import/import.h"
#include "server/api/pages_internal.h"
#include "views/time/profile_sum.h"

#include "base/banned.h"

enum { MAX_SECONDS = 3600, WAIT_MS = 100 };

/* The parameters of a request. */
struct query {
    struct hw_pages *pages;
    struct hw_http_request *req;
    int32_t pid;      /* 0 = by name */
    const char *name; /* NULL = the only one */
    const char *heap; /* NULL = all heaps */
    unsigned seconds; /* 0 = the current values */
    bool text, allocs;
};

static int number(struct hw_http_request *req, const char *name, unsigned long max,
                  unsigned long *out, struct hw_error *err)
{
    const char *text = hw_http_query(req, name);
    char *end;
    *out = 0;
    if (!text)
        return HW_OK;
    errno = 0;
    *out = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || *out > max)
        return hw_fail(err, HW_EINVAL, 0, "%s must be a number from 0 to %lu", name, max);
    return HW_OK;
}

static int read_query(struct query *q, struct hw_error *err)
{
    unsigned long pid = 0, seconds = 0, debug = 0;
    int rc = number(q->req, "pid", INT32_MAX, &pid, err);
    if (rc == HW_OK)
        rc = number(q->req, "seconds", MAX_SECONDS, &seconds, err);
    if (rc == HW_OK)
        rc = number(q->req, "debug", 2, &debug, err);
    q->pid = (int32_t)pid;
    q->seconds = (unsigned)seconds;
    q->text = debug > 0;
    q->name = hw_http_query(q->req, "name");
    q->heap = hw_http_query(q->req, "heap");
    if (rc == HW_OK && q->pid && q->name)
        rc = hw_fail(err, HW_EINVAL, 0, "pid or name, not both");
    return rc;
}

/* ---- which processes ---- */

static bool is_named(const char *process, const char *name)
{
    const char *slash = strrchr(process, '/');
    return strcmp(process, name) == 0 || (slash && strcmp(slash + 1, name) == 0);
}

static bool is_listed(const hw_page_recorded_list *l, int32_t pid)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].pid == pid)
            return true;
    return false;
}

/* Each process once, even if several recordings have it. */
static int find(const struct query *q, hw_page_recorded_list *out, struct hw_error *err)
{
    const struct hw_page_recorder *r = q->pages->o.recorder;
    hw_page_recorded_list all = {0};
    int rc = r->recorded(r->ctx, &all, err);
    for (size_t i = 0; rc == HW_OK && i < all.n; i++) {
        bool wanted = q->pid    ? all.v[i].pid == q->pid
                      : q->name ? is_named(all.v[i].name, q->name)
                                : true;
        if (wanted && !is_listed(out, all.v[i].pid) && hw_vec_push(out, all.v[i]) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "recorded processes");
    }
    hw_vec_done(&all);
    if (rc < 0)
        return rc;
    if (out->n == 0 && q->pid)
        return hw_fail(err, HW_ENOTFOUND, 0, "process %d is not being recorded", q->pid);
    if (out->n == 0)
        return hw_fail(err, HW_ENOTFOUND, 0, "no process%s%s is being recorded",
                       q->name ? " named " : "", q->name ? q->name : "");
    if (out->n > 1 && !q->name)
        return hw_fail(err, HW_EINVAL, 0,
                       "%zu processes are recorded: choose by ?pid= or ?name=; /debug/pprof/ lists "
                       "them",
                       out->n);
    return HW_OK;
}

/* ---- snapshots ---- */

static int take_snapshot(const struct query *q, int32_t pid, struct hw_profile **out,
                         struct hw_error *err)
{
    const struct hw_page_recorder *r = q->pages->o.recorder;
    struct hw_page_live_view look;
    int rc = r->look(r->ctx, pid, &look, err);
    if (rc < 0)
        return rc;
    rc = hw_import_fd(look.fd, look.name, out, err);
    (void)close(look.fd);
    return rc;
}

/*
 * One snapshot of each; NULL if the process has ended meanwhile. first: earlier snapshots;
 * processes without one are skipped.
 */
static int take_snapshots(const struct query *q, const hw_page_recorded_list *who,
                          struct hw_profile *const *first, struct hw_profile **out,
                          struct hw_error *err)
{
    size_t n_taken = 0;
    int rc = HW_OK;
    for (size_t i = 0; i < who->n; i++) {
        if (first && !first[i])
            continue;
        int one = take_snapshot(q, who->v[i].pid, &out[i], err);
        if (one < 0 && one != HW_EGONE && one != HW_ENOTFOUND)
            return one;
        n_taken += one == HW_OK;
        rc = one < 0 ? one : rc;
    }
    return n_taken ? HW_OK : rc;
}

/*
 * A process that ended between its snapshots is left out of both: otherwise the difference would
 * claim that it freed everything.
 */
static int sum_up(const struct query *q, const hw_page_recorded_list *who,
                  struct hw_profile *const *first, struct hw_profile *const *now,
                  struct hw_profile_sum *b, struct hw_error *err)
{
    int rc = hw_profile_sum_init(b);
    struct hw_profile_sum_part part = {.upid = {HW_ID_NONE}, .heap = q->heap};
    for (size_t i = 0; rc == HW_OK && i < who->n; i++) {
        if (!now[i])
            continue;
        part.p = now[i];
        part.role = HW_PROFILE_SUM_ADD;
        rc = hw_profile_sum_add(b, &part);
        part.p = first ? first[i] : NULL;
        part.role = HW_PROFILE_SUM_TAKE;
        if (rc == HW_OK && part.p)
            rc = hw_profile_sum_add(b, &part);
    }
    return rc < 0 ? hw_fail(err, rc, 0, "profile:") : rc;
}

/* False: the client has disconnected. */
static bool wait_seconds(const struct query *q)
{
    uint64_t end = hw_now_monotonic_ns() + q->seconds * UINT64_C(1000000000);
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    while (hw_now_monotonic_ns() < end) {
        if (hw_http_gone(q->req))
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

/* ---- answers ---- */

static int by_space(const void *a, const void *b)
{
    const struct hw_callsite_value *x = a, *y = b;
    if (x->v.space != y->v.space)
        return x->v.space < y->v.space ? 1 : -1;
    return (x->callsite.v > y->callsite.v) - (x->callsite.v < y->callsite.v);
}

static void put_totals(FILE *out, const struct hw_value *v)
{
    fprintf(out, "%" PRId64 ": %" PRId64 " [%" PRId64 ": %" PRId64 "] @", v->objects, v->space,
            v->alloc_objects, v->alloc_space);
}

static void put_stack(FILE *out, const struct hw_callsites *cs, hw_callsite_id callsite,
                      const struct hw_namer *namer, struct hw_strbuf *label)
{
    for (hw_callsite_id c = callsite; c.v != HW_ID_NONE;) {
        const struct hw_callsite *s = hw_callsites_get(cs, c);
        const struct hw_frame *f = hw_callsites_get_frame(cs, s->frame);
        struct hw_function fn = {.name = f->name};
        if (f->mapping.v != HW_ID_NONE)
            fn.module = hw_callsites_get_mapping(cs, f->mapping)->path;
        if (fn.name.v == 0)
            fn.rel_pc = f->rel_pc;
        hw_strbuf_clear(label);
        hw_strbuf_adds(label, "#\t");
        hw_function_label(label, cs, &fn, namer);
        hw_strbuf_addc(label, '\n');
        (void)fwrite(label->p, 1, label->n, out); /* the stream remembers a failure */
        c = s->parent;
    }
}

/* The text format of Go programs, largest first. */
static int write_text(const struct hw_export_input *in, hw_values *values, FILE *out)
{
    struct hw_value total = {0};
    struct hw_strbuf label = {0};
    for (size_t i = 0; i < values->n; i++)
        hw_value_add(&total, &values->v[i].v);
    if (values->n)
        qsort(values->v, values->n, sizeof *values->v, by_space);
    fputs("heap profile: ", out);
    put_totals(out, &total);
    fprintf(out, " heap/%" PRIu64 "\n", in->interval_bytes);
    for (size_t i = 0; i < values->n; i++) {
        put_totals(out, &values->v[i].v);
        fputc('\n', out);
        put_stack(out, in->profile->callsites, values->v[i].callsite, in->namer, &label);
        fputc('\n', out);
    }
    int rc = label.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&label);
    return rc;
}

static void add_names(struct hw_pages *p, struct hw_profile *profile)
{
    struct hw_pb unused = {0};
    if (!p->o.add_names)
        return;
    pthread_mutex_lock(&p->names_lock);
    p->o.add_names(p->o.ctx, profile, NULL, /* away = */ false, &unused);
    pthread_mutex_unlock(&p->names_lock);
    hw_pb_done(&unused);
}

static int write_response(const struct query *q, struct hw_profile_sum *b, char **bytes, size_t *n,
                          struct hw_error *err)
{
    struct timespec now;
    hw_values values = {0};
    struct hw_demangler *demangler = NULL;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    struct hw_scrape_form form = {.time_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec,
                                  .duration_ns = q->seconds * INT64_C(1000000000),
                                  .allocs = q->allocs};
    int rc = hw_profile_sum_values(b, &values, NULL);
    if (rc == HW_OK) {
        add_names(q->pages, b->p);
        rc = hw_demangler_new(hw_callsites_strings(b->p->callsites), &demangler);
    }
    FILE *out = rc == HW_OK ? open_memstream(bytes, n) : NULL;
    struct hw_namer namer = {hw_demangle_shown, demangler};
    struct hw_export_input in = {.profile = b->p,
                                 .values = &values,
                                 .upid = {HW_ID_NONE},
                                 .interval_bytes = b->interval_bytes,
                                 .namer = &namer,
                                 .scrape = &form,
                                 .gzip = true};
    if (!out)
        rc = rc < 0 ? rc : HW_ENOMEM;
    else
        rc = q->text ? write_text(&in, &values, out) : hw_export_pprof.write(&in, out, err);
    if (out && fclose(out) != 0 && rc == HW_OK)
        rc = HW_ENOMEM;
    hw_demangler_free(demangler);
    hw_vec_done(&values);
    return rc < 0 && !err->code ? hw_fail(err, rc, 0, "profile:") : rc;
}

static void reply(const struct query *q, struct hw_profile_sum *b)
{
    struct hw_error err = {0};
    char *bytes = NULL;
    size_t n = 0;
    int rc = write_response(q, b, &bytes, &n, &err);
    if (rc < 0) {
        hw_page_reply_error(q->req, &err, rc);
    } else if (q->text) {
        hw_http_reply(q->req, HTTP_OK, "text/plain; charset=utf-8", bytes, n);
    } else {
        hw_http_add_header(q->req, "Content-Disposition", "attachment; filename=\"heap.pb.gz\"");
        hw_http_reply(q->req, HTTP_OK, "application/octet-stream", bytes, n);
    }
    free(bytes);
}

static void fail(struct hw_http_request *req, const struct hw_error *err, int rc)
{
    char text[sizeof err->text + 2];
    if (rc != HW_ENOTFOUND && rc != HW_EGONE) {
        hw_page_reply_error(req, err, rc);
        return;
    }
    (void)snprintf(text, sizeof text, "%s\n", err->text);
    hw_http_reply_text(req, HTTP_NOT_FOUND, text);
}

static void free_snapshots(struct hw_profile **snapshots, size_t n)
{
    for (size_t i = 0; snapshots && i < n; i++)
        hw_profile_free(snapshots[i]);
    free(snapshots);
}

static int collect(const struct query *q, const hw_page_recorded_list *who,
                   struct hw_profile_sum *b, struct hw_error *err)
{
    struct hw_profile **first = calloc(who->n + 1, sizeof *first);
    struct hw_profile **now = calloc(who->n + 1, sizeof *now);
    int rc = first && now ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "looks");
    if (rc == HW_OK && q->seconds) {
        rc = take_snapshots(q, who, NULL, first, err);
        if (rc == HW_OK && !wait_seconds(q))
            rc = hw_fail(err, HW_EGONE, 0, "the request was abandoned by its client");
    }
    if (rc == HW_OK)
        rc = take_snapshots(q, who, q->seconds ? first : NULL, now, err);
    if (rc == HW_OK)
        rc = sum_up(q, who, q->seconds ? first : NULL, now, b, err);
    free_snapshots(first, who->n);
    free_snapshots(now, who->n);
    return rc;
}

static void handle(struct hw_http_request *req, void *ctx, bool allocs)
{
    struct query q = {.pages = ctx, .req = req, .allocs = allocs};
    hw_page_recorded_list who = {0};
    struct hw_error err = {0};
    struct hw_profile_sum b = {0};
    if (!q.pages->o.recorder) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "this server does not record\n");
        return;
    }
    int rc = read_query(&q, &err);
    if (rc == HW_OK)
        rc = find(&q, &who, &err);
    if (rc == HW_OK)
        rc = collect(&q, &who, &b, &err);
    if (rc < 0)
        fail(req, &err, rc);
    else
        reply(&q, &b);
    hw_profile_sum_done(&b);
    hw_vec_done(&who);
}

void hw_pprof_endpoint_heap(struct hw_http_request *req, void *ctx)
{
    handle(req, ctx, /* allocs = */ false);
}

void hw_pprof_endpoint_allocs(struct hw_http_request *req, void *ctx)
{
    handle(req, ctx, /* allocs = */ true);
}

void hw_pprof_endpoint_list(struct hw_http_request *req, void *ctx)
{
    struct hw_pages *p = ctx;
    const struct hw_page_recorder *r = p->o.recorder;
    hw_page_recorded_list all = {0};
    struct hw_error err = {0};
    struct hw_strbuf text = {0};
    int rc = r ? r->recorded(r->ctx, &all, &err) : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < all.n; i++)
        hw_strbuf_addf(&text, "/debug/pprof/heap?pid=%d  %s  recording %s\n", all.v[i].pid,
                       all.v[i].name, all.v[i].recording);
    if (rc == HW_OK && all.n == 0)
        hw_strbuf_adds(&text, "no process is being recorded\n");
    if (rc == HW_OK && text.failed)
        rc = hw_fail(&err, HW_ENOMEM, 0, "list");
    if (rc < 0)
        hw_page_reply_error(req, &err, rc);
    else
        hw_http_reply(req, HTTP_OK, "text/plain; charset=utf-8", text.p, text.n);
    hw_strbuf_done(&text);
    hw_vec_done(&all);
}
