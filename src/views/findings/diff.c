/*
 * Each side is first merged by itself (flame.c), then both trees are merged into one: parents come
 * before children in each, so a parent's union node is known before its children's. The error of
 * the change is computed per callstack, where samples that stayed differ from samples that came or
 * went, and summed like any value.
 */
#include "views/findings/diff.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "views/flame/program.h"

#include "base/banned.h"

enum { A, B, N_SIDES };

struct side {
    const struct hw_diff_side *in;
    struct hw_flame tree;
    uint32_t *node_of_value;
    uint32_t *function_of; /* its function → common function */
    uint32_t *union_of;    /* its node → union node */
};

struct make {
    struct hw_diff *out;
    struct side side[N_SIDES];
    unsigned flags;
    struct hw_map64 by_key;    /* string id of a function's key → common function */
    struct hw_map64 namesakes; /* hashes of keys that several functions of a side have */
    struct hw_flame merged;
    struct hw_flame_index index;
    struct hw_strbuf key, label, module;
};

/* ---- which functions are the same ---- */

struct hw_bytes hw_module_stem(struct hw_bytes path)
{
    struct hw_bytes b = hw_bytes_base_name(path);
    static const char so[] = ".so";
    const uint8_t *at = b.p ? memmem(b.p, b.n, so, 3) : NULL;
    if (at && (at + 3 == b.p + b.n || at[3] == '.')) {
        b.n = (size_t)(at + 3 - b.p);
        /* libfoo-1.2.so matches libfoo-1.3.so */
        size_t stem = b.n - 3;
        while (stem > 0 && (isdigit(b.p[stem - 1]) || b.p[stem - 1] == '.'))
            stem--;
        if (stem > 1 && stem < b.n - 3 && b.p[stem - 1] == '-')
            b.n = stem - 1;
    }
    return b;
}

/* Frames without a name only match in the same file, by its build id. */
static void add_build_id(struct hw_strbuf *key, const struct hw_diff_side *s,
                         const struct hw_function *fn)
{
    const struct hw_callsites *cs = s->p->callsites;
    const struct hw_strings *strings = hw_callsites_strings(s->p->callsites);
    for (uint32_t i = 0; i < hw_callsites_n_mappings(cs); i++) {
        const struct hw_mapping *m = hw_callsites_get_mapping(cs, (hw_mapping_id){i});
        if (m->path.v != fn->module.v || m->build_id.v == 0)
            continue;
        struct hw_bytes id = hw_strings_get(strings, m->build_id);
        hw_strbuf_add(key, id.p, id.n);
        return;
    }
}

static void make_plain_key(struct make *m, const struct hw_diff_side *s,
                           const struct hw_function *fn)
{
    hw_strbuf_clear(&m->key);
    hw_strbuf_clear(&m->label);
    hw_strbuf_clear(&m->module);
    hw_function_label(&m->label, s->p->callsites, fn, s->namer);
    hw_function_module(&m->module, s->p->callsites, fn);
    hw_strbuf_add(&m->key, m->label.p, m->label.n);
    hw_strbuf_addc(&m->key, '\0');
    if (fn->name.v == 0) {
        add_build_id(&m->key, s, fn);
    } else if (!(m->flags & HW_DIFF_BY_NAME)) {
        struct hw_bytes stem = hw_module_stem(hw_bytes_of(m->module.p, m->module.n));
        hw_strbuf_add(&m->key, stem.p, stem.n);
    }
}

/* Source files may be known on one side only, so keys contain them only for these namesakes. */
static int find_namesakes(struct make *m, const struct hw_diff_side *s)
{
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < hw_functions_count(s->fns); i++) {
        const struct hw_function *fn = hw_functions_get(s->fns, i);
        if (!fn->is_namesake)
            continue;
        make_plain_key(m, s, fn);
        rc = hw_map64_put(&m->namesakes, hw_hash_bytes(m->key.p, m->key.n), 1);
    }
    return rc;
}

static void make_key(struct make *m, const struct hw_diff_side *s, const struct hw_function *fn)
{
    uint64_t found;
    make_plain_key(m, s, fn);
    if (!fn->file.v || m->flags & HW_DIFF_BY_NAME)
        return;
    if (fn->language == HW_FUNCTION_MANAGED ||
        hw_map64_get(&m->namesakes, hw_hash_bytes(m->key.p, m->key.n), &found)) {
        hw_strbuf_addc(&m->key, '\0');
        hw_function_place(&m->key, s->p->callsites, fn->file, 0);
    }
}

static int common_function(struct make *m, const struct hw_diff_side *s,
                           const struct hw_function *fn, uint32_t *out)
{
    struct hw_diff_function common = {.of = {HW_ID_NONE, HW_ID_NONE}};
    hw_str_id key;
    uint64_t found;
    make_key(m, s, fn);
    if (m->key.failed || m->label.failed || m->module.failed)
        return HW_ENOMEM;
    int rc = hw_strings_intern(m->out->strings, hw_bytes_of(m->key.p, m->key.n), &key);
    if (rc < 0)
        return rc;
    if (hw_map64_get(&m->by_key, key.v, &found)) {
        *out = (uint32_t)found;
        return HW_OK;
    }
    struct hw_bytes base = hw_program_module_shown(s->program, s->p->callsites, fn->module);
    hw_strbuf_clear(&m->label);
    hw_program_label(s->program, &m->label, s->p->callsites, fn, s->namer);
    if (m->label.failed)
        return HW_ENOMEM;
    rc = hw_strings_intern(m->out->strings, hw_bytes_of(m->label.p, m->label.n), &common.name);
    if (rc == 0)
        rc = hw_strings_intern(m->out->strings, base, &common.module);
    if (rc == 0 && hw_vec_push(&m->out->functions, common) < 0)
        rc = HW_ENOMEM;
    *out = (uint32_t)m->out->functions.n - 1;
    return rc < 0 ? rc : hw_map64_put(&m->by_key, key.v, *out);
}

static int match_functions(struct make *m, struct side *s)
{
    size_t n = hw_functions_count(s->in->fns);
    s->function_of = calloc(n + 1, sizeof *s->function_of);
    if (!s->function_of)
        return HW_ENOMEM;
    int rc = HW_OK;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = common_function(m, s->in, hw_functions_get(s->in->fns, i), &s->function_of[i]);
        uint32_t *of = rc == 0 ? m->out->functions.v[s->function_of[i]].of : NULL;
        if (of && of[s - m->side] == HW_ID_NONE)
            of[s - m->side] = i;
    }
    return rc;
}

/* ---- the union tree ---- */

static int make_tree(struct make *m, struct side *s)
{
    s->node_of_value = calloc(s->in->values->n + 1, sizeof *s->node_of_value);
    if (!s->node_of_value)
        return HW_ENOMEM;
    struct hw_flame_input q = {.cs = s->in->p->callsites,
                               .fns = s->in->fns,
                               .values = s->in->values,
                               .flags = m->flags & HW_DIFF_ALL_FRAMES ? 0 : HW_FLAME_SITES,
                               .filters = s->in->filters,
                               .node_of_value = s->node_of_value};
    return hw_flame_build_with(&q, &s->tree);
}

static int merge_tree(struct make *m, struct side *s)
{
    s->union_of = calloc(s->tree.v.n, sizeof *s->union_of);
    if (!s->union_of)
        return HW_ENOMEM;
    int rc = HW_OK;
    for (uint32_t i = 1; rc == 0 && i < s->tree.v.n; i++) {
        const struct hw_flame_node *n = &s->tree.v.v[i];
        rc = hw_flame_child(&m->merged, &m->index, s->union_of[n->parent],
                            s->function_of[n->function], &s->union_of[i]);
    }
    return rc;
}

static int copy_nodes(struct make *m)
{
    struct hw_diff *d = m->out;
    if (hw_vec_reserve(&d->nodes, m->merged.v.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < m->merged.v.n; i++) {
        const struct hw_flame_node *n = &m->merged.v.v[i];
        d->nodes.v[d->nodes.n++] =
            (struct hw_diff_node){.parent = n->parent, .function = n->function, .depth = n->depth};
    }
    for (int side = A; side < N_SIDES; side++) {
        const struct side *s = &m->side[side];
        for (uint32_t i = 0; i < s->tree.v.n; i++) {
            struct hw_diff_value *v = &d->nodes.v[s->union_of[i]].self;
            hw_value_add(side == A ? &v->a : &v->b, hw_flame_self(&s->tree, i));
        }
    }
    return HW_OK;
}

/* ---- the error of the change ---- */

/* Of one callstack in two dumps of one process. The trace does not say which samples were freed:
 * the variance is largest if all of them were live at A. */
static double change_variance(const struct hw_value *a, const struct hw_value *b, enum hw_metric m)
{
    double variance_a = hw_value_variance(a, m), variance_b = hw_value_variance(b, m);
    double live_a = (double)a->samples, live_b = (double)b->samples;
    double came = (double)b->alloc_samples - (double)a->alloc_samples;
    double went = came - (live_b - live_a);
    double per_sample =
        fmax(live_a > 0 ? variance_a / live_a : 0, live_b > 0 ? variance_b / live_b : 0);
    if (isinf(variance_a + variance_b))
        return INFINITY;
    double went_old = fmin(fmax(went, 0), live_a);
    double stayed = live_a - went_old;
    return fmin(variance_a + variance_b, per_sample * (went_old + fmax(live_b - stayed, 0)));
}

static void add_variance(struct hw_diff_value *to, const struct hw_value *a,
                         const struct hw_value *b, bool same_run)
{
    if (!same_run) {
        to->variance += a->variance + b->variance;
        return;
    }
    to->variance += change_variance(a, b, HW_METRIC_SPACE);
    if (!a->lacks_variances && !b->lacks_variances)
        to->variance_objects += change_variance(a, b, HW_METRIC_OBJECTS);
}

static void add_variances(struct make *m)
{
    static const struct hw_value nothing;
    const hw_values *va = m->side[A].in->values, *vb = m->side[B].in->values;
    bool same_run = m->flags & HW_DIFF_SAME_RUN;
    for (size_t i = 0, k = 0; i < va->n || k < vb->n;) {
        uint32_t ca = i < va->n ? va->v[i].callsite.v : HW_ID_NONE;
        uint32_t cb = k < vb->n ? vb->v[k].callsite.v : HW_ID_NONE;
        bool both = same_run && ca == cb;
        bool use_a = i < va->n && (both || !same_run || ca < cb);
        bool use_b = k < vb->n && (both || !use_a);
        const struct hw_value *a = use_a ? &va->v[i].v : &nothing;
        const struct hw_value *b = use_b ? &vb->v[k].v : &nothing;
        const struct side *s = &m->side[use_a ? A : B];
        uint32_t node = s->node_of_value[use_a ? i : k];
        if (use_a && use_b && node == HW_ID_NONE) {
            s = &m->side[B];
            node = s->node_of_value[k];
        }
        if (node != HW_ID_NONE)
            add_variance(&m->out->nodes.v[s->union_of[node]].self, a, b, same_run);
        i += use_a;
        k += use_b;
    }
}

static void value_add(struct hw_diff_value *to, const struct hw_diff_value *v)
{
    hw_value_add(&to->a, &v->a);
    hw_value_add(&to->b, &v->b);
    to->variance += v->variance;
    to->variance_objects += v->variance_objects;
}

static void sum_up(struct hw_diff *d)
{
    for (size_t i = d->nodes.n; i-- > 0;) {
        struct hw_diff_node *n = &d->nodes.v[i];
        value_add(&n->total, &n->self);
        if (n->parent != HW_ID_NONE)
            value_add(&d->nodes.v[n->parent].total, &n->total);
    }
}

/* ---- rows ---- */

/* A function counts once per stack, even if it recurs: only its node nearest the root does. open
 * counts how often each function is on the current path. */
static int make_rows(struct make *m)
{
    struct hw_diff *d = m->out;
    size_t n = d->functions.n;
    uint32_t *open = calloc(n + 1, sizeof *open);
    if (!open || hw_vec_reserve(&d->rows, n) < 0) {
        free(open);
        return HW_ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++)
        d->rows.v[d->rows.n++] = (struct hw_diff_row){.function = i};
    uint32_t at = m->merged.v.v[0].first_child;
    while (at != HW_ID_NONE && at != 0) {
        const struct hw_flame_node *node = &m->merged.v.v[at];
        struct hw_diff_row *row = &d->rows.v[node->function];
        value_add(&row->self, &d->nodes.v[at].self);
        if (open[node->function]++ == 0)
            value_add(&row->total, &d->nodes.v[at].total);
        if (node->first_child != HW_ID_NONE) {
            at = node->first_child;
            continue;
        }
        while (at != 0) {
            node = &m->merged.v.v[at];
            open[node->function]--;
            if (node->next_sibling != HW_ID_NONE) {
                at = node->next_sibling;
                break;
            }
            at = node->parent;
        }
    }
    free(open);
    return HW_OK;
}

static void make_done(struct make *m)
{
    for (int i = A; i < N_SIDES; i++) {
        hw_flame_done(&m->side[i].tree);
        free(m->side[i].node_of_value);
        free(m->side[i].function_of);
        free(m->side[i].union_of);
    }
    hw_map64_done(&m->by_key);
    hw_map64_done(&m->namesakes);
    hw_flame_done(&m->merged);
    hw_flame_index_done(&m->index);
    hw_strbuf_done(&m->key);
    hw_strbuf_done(&m->label);
    hw_strbuf_done(&m->module);
}

int hw_diff_make(const struct hw_diff_side *a, const struct hw_diff_side *b, unsigned flags,
                 struct hw_diff *out)
{
    *out = (struct hw_diff){.interval_a = a->interval_bytes,
                            .interval_b = b->interval_bytes,
                            .scale_a = 1,
                            .scale_b = 1,
                            .same_run = flags & HW_DIFF_SAME_RUN};
    struct make m = {.out = out, .flags = flags, .side = {{.in = a}, {.in = b}}};
    int rc = hw_strings_new(&out->strings);
    if (rc == 0)
        rc = hw_flame_begin(&m.merged);
    for (int i = A; rc == 0 && i < N_SIDES; i++)
        rc = find_namesakes(&m, m.side[i].in);
    for (int i = B; rc == 0 && i >= A; i--) /* B first: its module names are shown */
        rc = match_functions(&m, &m.side[i]);
    for (int i = A; rc == 0 && i < N_SIDES; i++) {
        rc = make_tree(&m, &m.side[i]);
        if (rc == 0)
            rc = merge_tree(&m, &m.side[i]);
    }
    if (rc == 0)
        rc = copy_nodes(&m);
    if (rc == 0) {
        add_variances(&m);
        sum_up(out);
        rc = make_rows(&m);
    }
    make_done(&m);
    if (rc < 0)
        hw_diff_done(out);
    return rc;
}

void hw_diff_done(struct hw_diff *d)
{
    hw_strings_free(d->strings);
    hw_vec_done(&d->functions);
    hw_vec_done(&d->nodes);
    hw_vec_done(&d->rows);
    *d = (struct hw_diff){0};
}

/* ---- reading it ---- */

void hw_diff_scale(struct hw_diff *d, double scale_a, double scale_b)
{
    d->scale_a = scale_a;
    d->scale_b = scale_b;
}

double hw_diff_side_a(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m)
{
    return (double)hw_value_get(&v->a, m) * d->scale_a;
}

double hw_diff_side_b(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m)
{
    return (double)hw_value_get(&v->b, m) * d->scale_b;
}

double hw_diff_change(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m)
{
    return hw_diff_side_b(d, v, m) - hw_diff_side_a(d, v, m);
}

/*
 * What a recording without a sample there may have missed: UNSEEN intervals, with 95 % (a chance of
 * exp(-3) that none of them was hit). Objects: of the other side's mean size, as bytes are missed.
 */
#define UNSEEN 3.0

static double unseen_error(const struct hw_value *v, const struct hw_value *other, enum hw_metric m,
                           uint64_t interval_bytes)
{
    bool live = hw_metric_is_live(m);
    int64_t bytes = live ? other->space : other->alloc_space;
    int64_t objects = live ? other->objects : other->alloc_objects;
    if (interval_bytes <= 1 || hw_value_get(v, m) != 0 || hw_value_samples(v, m) != 0)
        return 0;
    double unseen = UNSEEN * (double)interval_bytes;
    if (hw_metric_is_bytes(m))
        return unseen;
    return bytes > 0 ? unseen * (double)objects / (double)bytes : 0;
}

/* In units of the metric. */
static double unscaled_error(const struct hw_diff *d, const struct hw_diff_value *v,
                             enum hw_metric m, double a, double b)
{
    switch (m) {
    case HW_METRIC_SPACE:
        return 2 * sqrt(v->variance);
    case HW_METRIC_ALLOC_SPACE:
    case HW_METRIC_ALLOC_OBJECTS:
    case HW_METRIC_TEMPORARY_SPACE:
    case HW_METRIC_TEMPORARY_OBJECTS: /* B's samples are A's and newer ones */
        if (d->same_run)
            return sqrt(fmax(b * b - a * a, 0));
        break;
    case HW_METRIC_OBJECTS:
        if (d->same_run && !v->a.lacks_variances && !v->b.lacks_variances)
            return 2 * sqrt(v->variance_objects);
        if (d->same_run) { /* assume the same share of the error as of that of space */
            double both = v->a.variance + v->b.variance;
            return both > 0 ? sqrt((a * a + b * b) * fmin(1, v->variance / both)) : 0;
        }
        break;
    case HW_METRIC_COUNT:
        break;
    }
    return sqrt(a * a + b * b);
}

double hw_diff_error(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m)
{
    double a = hw_value_error(&v->a, m, d->interval_a), b = hw_value_error(&v->b, m, d->interval_b);
    if (isinf(a) || isinf(b))
        return INFINITY;
    double missed_a = 0, missed_b = 0;
    if (!d->same_run) {
        missed_a = unseen_error(&v->a, &v->b, m, d->interval_a);
        missed_b = unseen_error(&v->b, &v->a, m, d->interval_b);
    }
    if (fabs(d->scale_a - d->scale_b) <= 0)
        return d->scale_a * hypot(unscaled_error(d, v, m, a, b), hypot(missed_a, missed_b));
    a = hypot(a, missed_a);
    b = hypot(b, missed_b);
    return sqrt(a * a * d->scale_a * d->scale_a + b * b * d->scale_b * d->scale_b);
}

bool hw_diff_is_significant(const struct hw_diff *d, const struct hw_diff_value *v,
                            enum hw_metric m)
{
    double change = fabs(hw_diff_change(d, v, m));
    return change > 0 && change > hw_diff_error(d, v, m);
}

bool hw_diff_is_open(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m)
{
    return fabs(hw_diff_change(d, v, m)) > 0 && isinf(hw_diff_error(d, v, m));
}

struct order {
    const struct hw_diff *d;
    enum hw_metric by;
};

static int by_change(const void *a, const void *b, void *ctx)
{
    const struct order *o = ctx;
    uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
    double x = fabs(hw_diff_change(o->d, &o->d->rows.v[ia].self, o->by));
    double y = fabs(hw_diff_change(o->d, &o->d->rows.v[ib].self, o->by));
    if (x > y || x < y)
        return x > y ? -1 : 1;
    return ia < ib ? -1 : ia > ib;
}

void hw_diff_rank(const struct hw_diff *d, enum hw_metric by, uint32_t *out)
{
    struct order o = {d, by};
    for (uint32_t i = 0; i < d->rows.n; i++)
        out[i] = i;
    if (d->rows.n)
        qsort_r(out, d->rows.n, sizeof *out, by_change, &o);
}
