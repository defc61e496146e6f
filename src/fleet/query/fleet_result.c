#include "fleet/query/fleet_result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "fleet/query/fleet_result_internal.h"
#include "fleet/query/fleet_result_work.h"
#include "fleet/store/clickhouse.h"
#include "model/profile.h"

#include "base/banned.h"

/* The server refuses statements above 256 KiB: 8,000 numbers of 20 digits are 164 KiB. */
enum { STACKS_AT_ONCE = 8000, TIMEOUT_MS = 300000 };
#define MAX_REPLY ((size_t)1 << 30)
#define NS        1000000000ll

/* ---- one statement ---- */

/* A statement that fails after the first rows ends with the text of its error. */
static bool ends_in_error(const struct hw_strbuf *reply)
{
    static const char words[] = "e.displayText() = DB::";
    size_t n_tail = reply->n < 4096 ? reply->n : 4096;
    return n_tail && memmem(reply->p + reply->n - n_tail, n_tail, words, sizeof words - 1);
}

static int query_clickhouse(void *ctx, const char *sql, struct hw_strbuf *reply,
                            struct hw_error *err)
{
    /* Queries are read-only: a second barrier in addition to escaping. */
    static const char *const settings[] = {"readonly", "2"};
    struct hw_clickhouse_query ask = {
        .sql = sql, .settings = settings, .n_settings = HW_ARRAY_LEN(settings)};
    return hw_clickhouse_do(ctx, &ask, reply, err);
}

struct hw_fleet_source hw_fleet_source_of(struct hw_clickhouse *c)
{
    c->timeout_ms = c->timeout_ms ? c->timeout_ms : TIMEOUT_MS;
    c->max_reply = c->max_reply ? c->max_reply : MAX_REPLY;
    return (struct hw_fleet_source){query_clickhouse, c, c->store->shown};
}

int hw_fleet_do(const struct hw_fleet_source *from, const struct hw_fleet_query_args *ask,
                struct hw_strbuf *reply, struct hw_rows *rows, struct hw_error *err)
{
    struct hw_strbuf sql = {0};
    hw_fleet_sql(ask, &sql);
    hw_strbuf_clear(reply);
    int rc = sql.failed ? hw_fail(err, HW_ENOMEM, 0, "statement")
                        : from->ask(from->ctx, sql.p, reply, err);
    hw_strbuf_done(&sql);
    if (rc == 0 && ends_in_error(reply))
        rc = hw_fail(err, HW_EGONE, 0, "store '%s' gave up in the middle of its answer",
                     from->shown);
    *rows = hw_rows_of(rc == 0 ? hw_bytes_of(reply->p, reply->n) : hw_bytes_of("", 0));
    return rc;
}

int hw_fleet_rows_check(const struct hw_fleet_source *from, const struct hw_rows *r,
                        struct hw_error *err)
{
    return r->bad ? hw_fail(err, HW_EFORMAT, 0,
                            "store '%s' answers with other columns than these tables have; "
                            "heapwise push --init-schema makes them, and adds what they lack",
                            from->shown)
                  : HW_OK;
}

struct hw_fleet_counts hw_fleet_result_read_counts(struct hw_rows *r)
{
    struct hw_fleet_counts n = {0};
    n.n_dumps = hw_rows_u64(r);
    n.n_processes = hw_rows_u64(r);
    n.n_hosts = hw_rows_u64(r);
    n.n_rows = hw_rows_u64(r);
    n.first_s = hw_rows_u32(r);
    n.last_s = hw_rows_u32(r);
    n.interval_bytes = hw_rows_u32(r);
    return n;
}

/* ---- sums ---- */

static int query_sums(struct hw_fleet_result_work *k, const struct hw_fleet_query_args *ask)
{
    struct hw_rows r;
    bool steps = ask->query == HW_FLEET_Q_STEPS;
    int rc = hw_fleet_do(k->from, ask, &k->reply, &r, k->err);
    while (rc == 0 && hw_rows_more(&r)) {
        struct hw_fleet_result_sum s = {.callsite = {HW_ID_NONE}};
        s.step = steps ? hw_rows_u32(&r) : 0;
        s.stack = hw_rows_u64(&r);
        s.space = hw_rows_i64(&r);
        s.objects = hw_rows_i64(&r);
        s.variance = hw_rows_real(&r);
        s.variance_objects = hw_rows_real(&r);
        s.alloc_space = steps ? hw_rows_i64(&r) : 0;
        s.alloc_objects = steps ? hw_rows_i64(&r) : 0;
        s.variance_alloc_space = steps ? hw_rows_real(&r) : 0;
        s.variance_alloc_objects = steps ? hw_rows_real(&r) : 0;
        if (!r.bad && hw_vec_push(&k->sums, s) < 0)
            rc = HW_ENOMEM;
    }
    return rc < 0 ? rc : hw_fleet_rows_check(k->from, &r, k->err);
}

static int by_size(const void *a, const void *b)
{
    const struct hw_fleet_result_sum *x = a, *y = b;
    int64_t sx = hw_sat_add(x->space, x->alloc_space), sy = hw_sat_add(y->space, y->alloc_space);
    if (sx != sy)
        return sx > sy ? -1 : 1;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

int hw_fleet_result_by_stack(const void *a, const void *b)
{
    const struct hw_fleet_result_sum *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

/* ---- callstacks ---- */

static int push_frame(struct hw_fleet_result_work *k, struct hw_bytes name, struct hw_bytes module,
                      struct hw_bytes file, uint32_t line)
{
    struct hw_frame f = {.mapping = {HW_ID_NONE}, .line = line};
    struct hw_mapping m = {0};
    hw_frame_id id;
    int rc = hw_profile_str(k->p, name, &f.name);
    if (rc == 0 && file.n)
        rc = hw_profile_str(k->p, file, &f.file);
    if (rc == 0 && module.n) {
        rc = hw_profile_str(k->p, module, &m.path);
        if (rc == 0)
            rc = hw_callsites_mapping(k->p->callsites, &m, &f.mapping);
    }
    if (rc == 0)
        rc = hw_callsites_frame(k->p->callsites, &f, &id);
    return rc == 0 && hw_vec_push(&k->path, id) < 0 ? HW_ENOMEM : rc;
}

static int intern(struct hw_fleet_result_work *k, hw_callsite_id *out)
{
    return hw_callsites_intern(k->p->callsites, k->path.v, k->path.n, out);
}

static int text_stack(struct hw_fleet_result_work *k, const char *text, hw_callsite_id *out)
{
    struct hw_bytes none = {0};
    k->path.n = 0;
    int rc = push_frame(k, hw_bytes_str(text), none, none, 0);
    return rc < 0 ? rc : intern(k, out);
}

/* Four consecutive arrays, read in parallel: one cursor each. */
static int read_stack(struct hw_fleet_result_work *k, struct hw_rows *r)
{
    uint64_t hash = hw_rows_u64(r);
    struct hw_rows at[3];
    uint64_t n[3];
    for (size_t a = 0; a < HW_ARRAY_LEN(at); a++) {
        n[a] = hw_rows_count(r);
        at[a] = *r;
        for (uint64_t i = 0; i < n[a]; i++)
            (void)hw_rows_text(r); /* read again below */
    }
    uint64_t n_lines = hw_rows_count(r);
    struct hw_rows lines = *r;
    for (uint64_t i = 0; i < n_lines; i++)
        (void)hw_rows_u32(r); /* read again below */
    if (r->bad || hash == HW_MAP64_NO_KEY || hw_map64_find(&k->callsites, hash))
        return HW_OK; /* bad: reported at the end; known: a row of an unmerged part */
    k->path.n = 0;
    for (uint64_t i = 0; i < n[0] && i < HW_MAX_CALLSITE_DEPTH; i++) {
        struct hw_bytes none = {0}, name = hw_rows_text(&at[0]);
        struct hw_bytes module = i < n[1] ? hw_rows_text(&at[1]) : none;
        struct hw_bytes file = i < n[2] ? hw_rows_text(&at[2]) : none;
        int rc = push_frame(k, name, module, file, i < n_lines ? hw_rows_u32(&lines) : 0);
        if (rc < 0)
            return rc;
    }
    hw_callsite_id id;
    int rc = k->path.n ? intern(k, &id) : text_stack(k, "[no callstack]", &id);
    return rc < 0 ? rc : hw_map64_put(&k->callsites, hash, id.v);
}

static int query_stacks(struct hw_fleet_result_work *k, const uint64_t *hashes, size_t n)
{
    struct hw_fleet_query_args ask = {
        .query = HW_FLEET_Q_STACKS, .where = k->w, .hashes = hashes, .n_hashes = n};
    struct hw_rows r;
    int rc = hw_fleet_do(k->from, &ask, &k->reply, &r, k->err);
    while (rc == 0 && hw_rows_more(&r))
        rc = read_stack(k, &r);
    return rc < 0 ? rc : hw_fleet_rows_check(k->from, &r, k->err);
}

/* The largest callstacks, in descending order, each once. */
static int pick_stacks(struct hw_fleet_result_work *k, uint64_t **out, size_t *n)
{
    struct hw_map64 seen = {0};
    uint64_t *v = calloc(HW_FLEET_MAX_STACKS, sizeof *v);
    int rc = v ? HW_OK : HW_ENOMEM;
    if (k->sums.n)
        qsort(k->sums.v, k->sums.n, sizeof *k->sums.v, by_size);
    *n = 0;
    for (size_t i = 0; rc == 0 && i < k->sums.n; i++) {
        uint64_t *value, stack = k->sums.v[i].stack;
        bool fresh;
        if (stack == HW_MAP64_NO_KEY)
            continue; /* the map's reserved key: this callstack stays unknown */
        rc = hw_map64_at(&seen, stack, &value, &fresh);
        if (rc == 0 && fresh && *n < HW_FLEET_MAX_STACKS)
            v[(*n)++] = stack;
        k->out->n_left_out += rc == 0 && fresh && seen.n > HW_FLEET_MAX_STACKS;
    }
    k->out->n_stacks = seen.n;
    hw_map64_done(&seen);
    if (rc < 0)
        free(v);
    else
        *out = v;
    return rc;
}

static int name_unknown(struct hw_fleet_result_work *k, uint64_t stack)
{
    char text[48];
    hw_callsite_id id;
    (void)snprintf(text, sizeof text, "[unknown callstack %016llx]", (unsigned long long)stack);
    int rc = text_stack(k, text, &id);
    k->out->n_unknown++;
    return rc < 0 ? rc : hw_map64_put(&k->callsites, stack, id.v);
}

static int find_stacks(struct hw_fleet_result_work *k)
{
    uint64_t *hashes = NULL;
    size_t n = 0;
    int rc = pick_stacks(k, &hashes, &n);
    for (size_t i = 0; rc == 0 && i < n; i += STACKS_AT_ONCE)
        rc = query_stacks(k, hashes + i, n - i < STACKS_AT_ONCE ? n - i : STACKS_AT_ONCE);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!hw_map64_find(&k->callsites, hashes[i]))
            rc = name_unknown(k, hashes[i]);
    free(hashes);
    k->rest = (hw_callsite_id){HW_ID_NONE};
    if (rc == 0 && k->out->n_left_out)
        rc = text_stack(k, "[other callstacks]", &k->rest);
    for (size_t i = 0; rc == 0 && i < k->sums.n; i++) {
        struct hw_fleet_result_sum *s = &k->sums.v[i];
        uint64_t id;
        if (s->stack != HW_MAP64_NO_KEY && hw_map64_get(&k->callsites, s->stack, &id))
            s->callsite.v = (uint32_t)id;
        else
            s->callsite = k->rest;
    }
    return rc;
}

/* ---- the profile ---- */

static const char *selected_service(const struct hw_fleet_where *w)
{
    for (size_t i = 0; i < w->v.n; i++)
        if (w->v.v[i].op == HW_FLEET_IS && strcmp(w->v.v[i].name, "service") == 0)
            return w->v.v[i].value;
    return "fleet";
}

static int add_facts(struct hw_fleet_result_work *k)
{
    const struct hw_fleet_counts *n = &k->out->counts;
    struct hw_strbuf text = {0};
    hw_fleet_where_show(k->w, &text);
    int rc = text.failed ? HW_ENOMEM : hw_profile_metadata_set(k->p, "fleet_selection", text.p, 0);
    hw_strbuf_done(&text);
    const struct {
        const char *name;
        uint64_t value;
    } facts[] = {{"fleet_dumps", n->n_dumps},
                 {"fleet_processes", n->n_processes},
                 {"fleet_hosts", n->n_hosts},
                 {"fleet_rows", n->n_rows},
                 {"fleet_stacks", k->out->n_stacks},
                 {"fleet_stacks_unknown", k->out->n_unknown},
                 {"fleet_stacks_left_out", k->out->n_left_out}};
    if (rc == 0)
        rc = hw_profile_metadata_set(k->p, "fleet_store", k->from->shown, 0);
    for (size_t i = 0; rc == 0 && i < HW_ARRAY_LEN(facts); i++)
        rc = hw_profile_metadata_set(k->p, facts[i].name, NULL, (int64_t)facts[i].value);
    return rc;
}

static int begin_profile(struct hw_fleet_result_work *k)
{
    hw_upid upid;
    int rc = hw_profile_new(&k->p);
    if (rc == 0)
        rc = hw_profile_process(k->p, 1, &upid);
    if (rc == 0)
        rc = hw_profile_str(k->p, hw_bytes_str(selected_service(k->w)),
                            &k->p->processes.v[upid.v].name);
    return rc;
}

int hw_fleet_result_get_stacks(struct hw_fleet_result_work *k,
                               const struct hw_fleet_query_args *ask)
{
    int rc = query_sums(k, ask);
    if (rc == 0)
        rc = begin_profile(k);
    return rc == 0 ? find_stacks(k) : rc;
}

int hw_fleet_result_add_dump(struct hw_fleet_result_work *k, int64_t ts_s, uint32_t interval)
{
    struct hw_heap_dump d = {.ts_ns = (ts_s - k->w->since_s) * NS,
                             .interval_bytes = interval,
                             .orig_interval_bytes = interval,
                             .flags = HW_DUMP_KNOWS_VARIANCE | HW_DUMP_ALL_VARIANCES};
    int rc = hw_profile_process(k->p, 1, &d.upid);
    if (rc == 0)
        rc = hw_profile_str(k->p, hw_bytes_str("all processes"), &d.heap_name);
    return rc == 0 && hw_vec_push(&k->p->dumps, d) < 0 ? HW_ENOMEM : rc;
}

int hw_fleet_result_end_profile(struct hw_fleet_result_work *k)
{
    int rc = add_facts(k);
    k->p->first_ns = k->p->dumps.n ? k->p->dumps.v[0].ts_ns : 0;
    k->p->last_ns = k->p->dumps.n ? k->p->dumps.v[k->p->dumps.n - 1].ts_ns : 0;
    if (rc == 0)
        rc = hw_profile_freeze(k->p);
    if (rc == 0) {
        k->out->p = k->p;
        k->p = NULL;
    }
    return rc;
}

int64_t hw_fleet_result_round(double v)
{
    return v >= 9e18 ? INT64_MAX : v <= -9e18 ? INT64_MIN : llrint(v);
}

/* The rounding error is carried to the next row, so that many callstacks with a third of an object
 * each add up to their true sum. */
static int64_t round_and_carry(double v, double *carry)
{
    int64_t n = hw_fleet_result_round(v + *carry);
    *carry += v - (double)n;
    return n;
}

/* The number of samples for this variance: k samples have the relative variance 1 / k. */
int64_t hw_fleet_result_samples_of(double space, double variance, int64_t objects)
{
    if (space <= 0)
        return 0;
    double k = variance > 0 ? space * space / variance : (double)objects;
    return k < 1 ? 1 : hw_fleet_result_round(k);
}

/* For live memory: samples of a process persist from dump to dump, so its dumps are not independent
 * and count as one. */
double hw_fleet_result_mean_variance(double sum, const struct hw_fleet_counts *n)
{
    return sum / ((double)n->n_dumps * (double)n->n_processes);
}

/* For memory allocated between dumps: each dump has its own, independent samples. */
double hw_fleet_result_mean_variance_alloc(double sum, double n)
{
    return sum / (n * n);
}

static void add_variances(struct hw_alloc_row *row, const struct hw_fleet_result_sum *s,
                          double dumps, bool live, const struct hw_fleet_counts *n)
{
    if (live) {
        row->variance = hw_fleet_result_mean_variance(s->variance, n);
        row->variance_objects =
            hw_alloc_variance_kept(hw_fleet_result_mean_variance(s->variance_objects, n));
    } else {
        row->variance_alloc_space =
            hw_alloc_variance_kept(hw_fleet_result_mean_variance_alloc(s->variance, dumps));
        row->variance_alloc_objects =
            hw_alloc_variance_kept(hw_fleet_result_mean_variance_alloc(s->variance_objects, dumps));
    }
}

static int add_row(struct hw_fleet_result_work *k, const struct hw_fleet_result_sum *s, bool live)
{
    double dumps = (double)k->out->counts.n_dumps;
    struct hw_alloc_row row = {.callsite = s->callsite};
    double space = (double)s->space / dumps;
    row.size = round_and_carry(space, &k->carry[0]);
    row.count = round_and_carry((double)s->objects / dumps, &k->carry[1]);
    add_variances(&row, s, dumps, live, &k->out->counts);
    row.samples = hw_fleet_result_samples_of(
        space, live ? row.variance : (double)row.variance_alloc_space, row.count);
    if ((row.size <= 0 && row.count <= 0) || row.size < 0 || row.count < 0)
        return HW_OK;
    int rc = hw_alloc_rows_push(&k->p->allocs, &row);
    if (rc < 0 || live)
        return rc;
    struct hw_alloc_row gone = {
        .callsite = row.callsite, .size = -row.size, .count = -row.count, .samples = -row.samples};
    return hw_alloc_rows_push(&k->p->allocs, &gone);
}

int hw_fleet_result_no_rows(const struct hw_fleet_result_work *k)
{
    struct hw_strbuf text = {0};
    hw_fleet_where_show(k->w, &text);
    int rc = hw_fail(k->err, HW_ENOTFOUND, 0, "store '%s' has no samples of %s in this time",
                     k->from->shown, text.p ? text.p : "this");
    hw_strbuf_done(&text);
    return rc;
}

static int get(struct hw_fleet_result_work *k, bool live)
{
    struct hw_fleet_query_args ask = {.query = HW_FLEET_Q_MOMENTS, .where = k->w};
    struct hw_rows r;
    int rc = hw_fleet_do(k->from, &ask, &k->reply, &r, k->err);
    if (rc == 0 && hw_rows_more(&r)) /* without rows older servers return none */
        k->out->counts = hw_fleet_result_read_counts(&r);
    if (rc == 0)
        rc = hw_fleet_rows_check(k->from, &r, k->err);
    if (rc == 0 && (k->out->counts.n_dumps == 0 || k->out->counts.n_processes == 0))
        rc = hw_fleet_result_no_rows(k);
    ask.query = live ? HW_FLEET_Q_LIVE : HW_FLEET_Q_ALLOCATED;
    if (rc == 0)
        rc = hw_fleet_result_get_stacks(k, &ask);
    if (rc == 0)
        rc = hw_fleet_result_add_dump(k, k->out->counts.last_s, k->out->counts.interval_bytes);
    for (size_t i = 0; rc == 0 && i < k->sums.n; i++)
        if (k->sums.v[i].callsite.v != HW_ID_NONE)
            rc = add_row(k, &k->sums.v[i], live);
    return rc < 0 ? rc : hw_fleet_result_end_profile(k);
}

static void work_done(struct hw_fleet_result_work *k)
{
    hw_strbuf_done(&k->reply);
    hw_vec_done(&k->sums);
    hw_vec_done(&k->path);
    hw_vec_done(&k->steps);
    hw_map64_done(&k->callsites);
    hw_profile_free(k->p);
}

int hw_fleet_result_finish(struct hw_fleet_result_work *k, int rc)
{
    work_done(k);
    if (rc == 0)
        return rc;
    hw_fleet_result_done(k->out);
    return k->err && k->err->code ? rc : hw_fail(k->err, rc, 0, "answer of the store");
}

int hw_fleet_get(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                 enum hw_metric metric, struct hw_fleet_result *out, struct hw_error *err)
{
    *out = (struct hw_fleet_result){0};
    struct hw_fleet_result_work k = {.from = from, .w = w, .out = out, .err = err};
    int rc = hw_fleet_where_check(w, err);
    if (rc == 0)
        rc = get(&k, hw_metric_is_live(metric));
    return hw_fleet_result_finish(&k, rc);
}

void hw_fleet_result_done(struct hw_fleet_result *a)
{
    hw_profile_free(a->p);
    *a = (struct hw_fleet_result){0};
}

/* ---- step by step ---- */
