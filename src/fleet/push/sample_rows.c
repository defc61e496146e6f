/*
 * A callstack's hash covers its function names and modules, folded from the root, one function at a
 * time: the same callstack has the same hash in every profile of every machine, whatever its
 * addresses and ids. A callsite's hash is that of its parent with its own functions folded in, so
 * each node of the tree is visited once.
 *
 *     callsite --(first use)--> hash --> index into stacks; callsites may share a stack
 *
 * A dump's values are added up by stack and sorted by hash, the store's order.
 */
#include "fleet/push/sample_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "fleet/push/dumps.h"
#include "fleet/store/rowbinary.h"
#include "views/time/values.h"

#include "base/banned.h"

#define DAY_S 86400

struct stack {
    uint64_t hash;
    hw_callsite_id callsite; /* one of its callsites */
    uint32_t batch;          /* the last batch that contains it, + 1 */
};

struct label {
    size_t at;
    uint32_t name_n, module_n; /* bytes of the name at `at`, and of the module after it */
    uint64_t hash;
    bool made;
};

struct figure {
    uint32_t stack;
    struct hw_value v;
};
typedef HW_VEC(struct figure) figures;

struct maker {
    const struct hw_profile *p;
    const struct hw_sample_rows_options *o;
    struct hw_functions *functions;
    struct label *labels;   /* by function */
    struct hw_strbuf texts; /* names and modules of labels */
    uint64_t *hash_of;      /* by callsite; 0 = not computed */
    uint32_t *stack_of;     /* by callsite; HW_ID_NONE = not computed */
    struct hw_map64 by_hash;
    HW_VEC(struct stack) stacks;
    uint32_t *sum_at; /* by stack: index in `now` + 1, while a dump is added up */
    size_t sum_cap;
    figures now;
    struct hw_fleet_process *processes;
    struct hw_strbuf samples, stack_rows;
    size_t n_samples, n_stacks;
    uint32_t batch;
    int64_t today;
};

/* ---- callstacks ---- */

static struct hw_bytes name_of(const struct maker *m, const struct label *l)
{
    return hw_bytes_of(m->texts.p + l->at, l->name_n);
}

static struct hw_bytes module_of(const struct maker *m, const struct label *l)
{
    return hw_bytes_of(m->texts.p + l->at + l->name_n, l->module_n);
}

static const struct label *label_of(struct maker *m, uint32_t function)
{
    struct label *l = &m->labels[function];
    if (l->made)
        return l;
    const struct hw_callsites *cs = m->p->callsites;
    const struct hw_function *fn = hw_functions_get(m->functions, function);
    l->at = m->texts.n;
    hw_function_label(&m->texts, cs, fn, m->o->namer);
    l->name_n = (uint32_t)(m->texts.n - l->at);
    struct hw_bytes module = hw_module_base(cs, fn->module);
    hw_strbuf_add(&m->texts, module.p, module.n);
    l->module_n = (uint32_t)module.n;
    if (m->texts.failed)
        l->name_n = l->module_n = 0; /* checked at the end */
    else
        l->hash = hw_hash_mix(hw_hash_bytes(m->texts.p + l->at, l->name_n),
                              hw_hash_bytes(m->texts.p + l->at + l->name_n, l->module_n));
    l->made = true;
    return l;
}

static struct hw_bytes text(const struct maker *m, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(m->p->callsites), id);
}

static uint64_t fold_frame(struct maker *m, uint64_t hash, hw_frame_id frame)
{
    size_t n;
    const struct hw_function_at *at = hw_functions_chain(m->functions, frame, &n);
    for (size_t i = 0; i < n; i++) {
        struct hw_bytes file = text(m, at[i].file);
        hash = hw_hash_mix(hash, label_of(m, at[i].function)->hash);
        hash = hw_hash_mix(hash, hw_hash_bytes(file.p, file.n) + at[i].line);
    }
    return hash;
}

/* Computes down from the nearest ancestor with a known hash; no recursion, as files determine the
 * depth. */
static uint64_t hash_of(struct maker *m, hw_callsite_id c)
{
    const struct hw_callsites *cs = m->p->callsites;
    hw_frame_id path[HW_MAX_CALLSITE_DEPTH];
    hw_callsite_id nodes[HW_MAX_CALLSITE_DEPTH];
    size_t n = 0;
    uint64_t hash = 1;
    while (c.v != HW_ID_NONE && n < HW_MAX_CALLSITE_DEPTH) {
        if (m->hash_of[c.v]) {
            hash = m->hash_of[c.v];
            break;
        }
        const struct hw_callsite *s = hw_callsites_get(cs, c);
        nodes[n] = c;
        path[n++] = s->frame;
        c = s->parent;
    }
    while (n-- > 0) {
        hash = fold_frame(m, hash, path[n]);
        hash += hash == 0; /* 0 means "not computed" */
        m->hash_of[nodes[n].v] = hash;
    }
    return hash;
}

static int stack_of(struct maker *m, hw_callsite_id c, uint32_t *out)
{
    if (m->stack_of[c.v] == HW_ID_NONE) {
        uint64_t hash = hash_of(m, c), *found;
        bool fresh;
        if (hw_map64_at(&m->by_hash, hash, &found, &fresh) < 0)
            return HW_ENOMEM;
        if (fresh) {
            *found = m->stacks.n;
            if (hw_vec_push(&m->stacks, ((struct stack){hash, c, 0})) < 0)
                return HW_ENOMEM;
        }
        m->stack_of[c.v] = (uint32_t)*found;
    }
    *out = m->stack_of[c.v];
    return HW_OK;
}

enum column { C_FRAMES, C_MODULES, C_FILES, C_LINES };

static size_t count_functions(const struct maker *m, const hw_frame_id *path, size_t depth)
{
    size_t all = 0, n;
    for (size_t i = 0; i < depth; i++, all += n)
        (void)hw_functions_chain(m->functions, path[i], &n); /* only the count is used */
    return all;
}

static void put_array(struct maker *m, const hw_frame_id *path, size_t depth, enum column what)
{
    struct hw_strbuf *out = &m->stack_rows;
    size_t n;
    hw_row_put_length(out, count_functions(m, path, depth));
    for (size_t i = 0; i < depth; i++) {
        const struct hw_function_at *at = hw_functions_chain(m->functions, path[i], &n);
        for (size_t k = 0; k < n; k++) {
            const struct label *l = label_of(m, at[k].function);
            switch (what) {
            case C_FRAMES:
                hw_row_put_text(out, name_of(m, l));
                break;
            case C_MODULES:
                hw_row_put_text(out, module_of(m, l));
                break;
            case C_FILES:
                hw_row_put_text(out, text(m, at[k].file));
                break;
            case C_LINES:
                hw_row_put_u32(out, at[k].line);
                break;
            }
        }
    }
}

/* In the order of table_schema.def. */
static void put_stack(struct maker *m, const struct stack *s)
{
    hw_frame_id path[HW_MAX_CALLSITE_DEPTH];
    size_t depth = hw_callsites_path(m->p->callsites, s->callsite, path, HW_MAX_CALLSITE_DEPTH);
    if (depth > HW_MAX_CALLSITE_DEPTH)
        depth = HW_MAX_CALLSITE_DEPTH;
    hw_row_put_u64(&m->stack_rows, s->hash);
    for (int c = C_FRAMES; c <= C_LINES; c++)
        put_array(m, path, depth, (enum column)c);
    hw_row_put_u16(&m->stack_rows, (uint16_t)m->today);
    m->n_stacks++;
}

/* ---- samples ---- */

static int flush(struct maker *m, struct hw_error *err)
{
    if (m->samples.failed || m->stack_rows.failed || m->texts.failed)
        return hw_fail(err, HW_ENOMEM, 0, "rows");
    if (m->n_samples == 0)
        return HW_OK;
    struct hw_sample_rows_batch b = {.samples = hw_bytes_of(m->samples.p, m->samples.n),
                                     .stacks = hw_bytes_of(m->stack_rows.p, m->stack_rows.n),
                                     .n_samples = m->n_samples,
                                     .n_stacks = m->n_stacks};
    int rc = m->o->take(m->o->ctx, &b, err);
    hw_strbuf_clear(&m->samples);
    hw_strbuf_clear(&m->stack_rows);
    m->n_samples = m->n_stacks = 0;
    m->batch++;
    return rc;
}

static void put_labels(struct maker *m, const struct hw_fleet_process *f)
{
    const struct hw_fleet_labels *l = m->o->labels;
    bool gap = f->unknown_since.n > 0;
    for (int values = 0; values < 2; values++) {
        hw_row_put_length(&m->samples, l->more.n + f->n_more + gap);
        for (size_t i = 0; i < l->more.n; i++)
            hw_row_put_text(&m->samples,
                            hw_bytes_str(values ? l->more.v[i].value : l->more.v[i].name));
        for (size_t i = 0; i < f->n_more; i++)
            hw_row_put_text(&m->samples, values ? f->more[i].value : hw_bytes_str(f->more[i].name));
        if (gap)
            hw_row_put_text(&m->samples, values ? f->unknown_since : hw_bytes_str("unknown_since"));
    }
}

/* Traces of other recorders have no variances: derives one from the error shown for them. */
static double variance_of(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes)
{
    double variance = hw_value_variance(v, m);
    double deviation = variance < 0 ? hw_value_error(v, m, interval_bytes) / 2 : 0;
    return variance < 0 ? deviation * deviation : variance;
}

/* In the order of table_schema.def. */
static void put_sample(struct maker *m, const struct hw_heap_dump *d, int64_t second,
                       uint64_t stack, const struct hw_value *v)
{
    struct hw_strbuf *out = &m->samples;
    const struct hw_fleet_process *f = &m->processes[d->upid.v];
    const struct hw_fleet_labels *l = m->o->labels;
    hw_row_put_u16(out, (uint16_t)(second / DAY_S));
    hw_row_put_u32(out, (uint32_t)second);
    hw_row_put_text(out, f->service);
    hw_row_put_text(out, f->host);
    hw_row_put_text(out, hw_bytes_str(l->version ? l->version : ""));
    hw_row_put_text(out, hw_bytes_of(f->build_id.p, f->build_id.n));
    hw_row_put_u32(out, (uint32_t)m->p->processes.v[d->upid.v].pid);
    hw_row_put_text(out, text(m, d->heap_name));
    put_labels(m, f);
    hw_row_put_u64(out, stack);
    hw_row_put_u64(out, (uint64_t)v->alloc_space);
    hw_row_put_u64(out, (uint64_t)v->alloc_objects);
    hw_row_put_u64(out, (uint64_t)v->space);
    hw_row_put_u64(out, (uint64_t)v->objects);
    hw_row_put_real(out, v->variance);
    hw_row_put_u32(out, d->interval_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)d->interval_bytes);
    hw_row_put_real(out, variance_of(v, HW_METRIC_OBJECTS, d->interval_bytes));
    hw_row_put_real(out, variance_of(v, HW_METRIC_ALLOC_SPACE, d->interval_bytes));
    hw_row_put_real(out, variance_of(v, HW_METRIC_ALLOC_OBJECTS, d->interval_bytes));
    m->n_samples++;
}

static int by_hash(const void *a, const void *b, void *ctx)
{
    const struct stack *stacks = ctx;
    uint64_t x = stacks[((const struct figure *)a)->stack].hash;
    uint64_t y = stacks[((const struct figure *)b)->stack].hash;
    return (x > y) - (x < y);
}

static int grow_sum_at(struct maker *m)
{
    size_t want = m->stacks.n + 1;
    if (want <= m->sum_cap)
        return HW_OK;
    want += want / 2;
    uint32_t *more = reallocarray(m->sum_at, want, sizeof *more);
    if (!more)
        return HW_ENOMEM;
    memset(more + m->sum_cap, 0, (want - m->sum_cap) * sizeof *more);
    m->sum_at = more;
    m->sum_cap = want;
    return HW_OK;
}

/* Sums the rows of callsites by stack, into m->now. */
static int sum_by_stack(struct maker *m, const hw_values *values)
{
    int rc = HW_OK;
    hw_vec_clear(&m->now);
    for (size_t i = 0; rc == 0 && i < values->n; i++) {
        const struct hw_callsite_value *cv = &values->v[i];
        uint32_t stack = 0;
        if (hw_value_is_zero(&cv->v))
            continue;
        rc = stack_of(m, cv->callsite, &stack);
        if (rc == 0)
            rc = grow_sum_at(m);
        if (rc < 0)
            break;
        if (m->sum_at[stack]) {
            hw_value_add(&m->now.v[m->sum_at[stack] - 1].v, &cv->v);
        } else if (hw_vec_push(&m->now, ((struct figure){stack, cv->v})) < 0) {
            rc = HW_ENOMEM;
        } else {
            m->sum_at[stack] = (uint32_t)m->now.n;
        }
    }
    for (size_t i = 0; i < m->now.n; i++)
        m->sum_at[m->now.v[i].stack] = 0;
    if (rc == 0 && m->now.n)
        qsort_r(m->now.v, m->now.n, sizeof *m->now.v, by_hash, m->stacks.v);
    return rc;
}

static int put_figure(struct maker *m, const struct hw_heap_dump *d, int64_t second,
                      const struct figure *f, struct hw_error *err)
{
    struct stack *s = &m->stacks.v[f->stack];
    const struct hw_value *v = &f->v;
    if (!v->space && !v->objects && !v->alloc_space && !v->alloc_objects)
        return HW_OK;
    if (m->samples.n > HW_SAMPLE_ROWS_MAX_BYTES || m->stack_rows.n > HW_SAMPLE_ROWS_MAX_BYTES) {
        int rc = flush(m, err);
        if (rc < 0)
            return rc;
    }
    if (s->batch != m->batch + 1) {
        s->batch = m->batch + 1;
        if (!m->o->known || !hw_map64_find(m->o->known, s->hash))
            put_stack(m, s);
    }
    put_sample(m, d, second, s->hash, v);
    return HW_OK;
}

static int put_dump(void *ctx, const struct hw_fleet_dump *d, struct hw_error *err)
{
    struct maker *m = ctx;
    int64_t second = d->wall_ns / 1000000000;
    int rc = sum_by_stack(m, d->values);
    if (rc < 0)
        return hw_fail(err, rc, 0, "rows of a dump");
    m->today = second / DAY_S;
    for (size_t i = 0; rc == 0 && i < m->now.n; i++)
        rc = put_figure(m, d->dump, second, &m->now.v[i], err);
    return rc;
}

static int maker_init(struct maker *m)
{
    const struct hw_profile *p = m->p;
    size_t n = hw_callsites_count(p->callsites) + 1;
    int rc = hw_functions_new(p->callsites, NULL, &m->functions);
    if (rc < 0)
        return rc;
    m->labels = calloc(hw_functions_count(m->functions) + 1, sizeof *m->labels);
    m->hash_of = calloc(n, sizeof *m->hash_of);
    m->stack_of = malloc(n * sizeof *m->stack_of);
    m->processes = calloc(p->processes.n + 1, sizeof *m->processes);
    if (!m->labels || !m->hash_of || !m->stack_of || !m->processes)
        return HW_ENOMEM;
    memset(m->stack_of, 0xff, n * sizeof *m->stack_of); /* HW_ID_NONE */
    for (uint32_t i = 0; rc == 0 && i < p->processes.n; i++)
        rc = hw_fleet_process_init(&m->processes[i], p, (hw_upid){i}, m->o->labels);
    return rc;
}

static void maker_done(struct maker *m)
{
    for (size_t i = 0; m->processes && i < m->p->processes.n; i++)
        hw_fleet_process_done(&m->processes[i]);
    free(m->processes);
    free(m->labels);
    free(m->hash_of);
    free(m->stack_of);
    free(m->sum_at);
    hw_functions_free(m->functions);
    hw_map64_done(&m->by_hash);
    hw_vec_done(&m->stacks);
    hw_vec_done(&m->now);
    hw_strbuf_done(&m->texts);
    hw_strbuf_done(&m->samples);
    hw_strbuf_done(&m->stack_rows);
}

int hw_sample_rows_make(const struct hw_profile *p, const struct hw_sample_rows_options *o,
                        struct hw_error *err)
{
    struct maker m = {.p = p, .o = o};
    int rc = maker_init(&m);
    const struct hw_fleet_dumps each = {.wall_ns = o->wall_ns, .visit = put_dump, .ctx = &m};
    rc = rc < 0 ? hw_fail(err, rc, 0, "rows") : hw_fleet_dumps_visit(p, &each, err);
    if (rc == 0)
        rc = flush(&m, err);
    maker_done(&m);
    return rc;
}
