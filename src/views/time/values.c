/*
 * A row's variance is that of its callstack at its dump, not a change. If the recorder knows the
 * variance (HW_DUMP_KNOWS_VARIANCE, or some row has one), a callstack without one is exact: all its
 * allocations are at least as large as the interval. For other recorders the variance is interval²
 * for each live sample, and metrics other than space have rules of thumb (lacks_variances).
 */
#include "views/time/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "views/time/packed_values.h"

#include "base/banned.h"

enum { FIRST_SPACING = 4, AHEAD = 12 };

struct slot {
    struct hw_value v;
    uint32_t callsite;
    uint32_t
        passed; /* the sum's n_passes of its last row: two rows of a dump keep the larger variance */
};

/* The sum as it was before dump s->all[next]. */
struct mark {
    size_t next;
    struct hw_packed_values slots; /* owned; their callsites are those of the sum's slots */
    uint64_t interval_bytes;
    bool knows_variance, knows_all, knows_temporary;
};

struct hw_sum {
    const struct hw_profile *p; /* borrowed */
    const struct hw_series *s;  /* borrowed */
    uint32_t *slot_of;          /* by callsite; slot index + 1, 0 = none */
    HW_VEC(struct slot) slots;  /* in order of their first row, also after seeking back */
    size_t next;                /* index into s->all */
    uint32_t n_passes;          /* dumps that were added, also those that were taken back */
    uint64_t interval_bytes;
    bool knows_variance, knows_temporary;
    bool knows_all;            /* variances of all metrics, in every dump so far */
    HW_VEC(struct mark) marks; /* in order of next */
    size_t marks_bytes, max_marks_bytes;
    double choice;
    uint64_t new_rows; /* since the last mark, or the start */
    unsigned spacing;  /* rows per slot between two marks */
};

int hw_sum_new(const struct hw_profile *p, const struct hw_series *s, struct hw_sum **out)
{
    struct hw_sum *t = calloc(1, sizeof *t);
    if (!t)
        return HW_ENOMEM;
    t->p = p;
    t->s = s;
    t->interval_bytes = 1;
    t->knows_all = true;
    size_t n = hw_callsites_count(p->callsites);
    t->slot_of = calloc(n ? n : 1, sizeof *t->slot_of);
    if (!t->slot_of) {
        hw_sum_free(t);
        return HW_ENOMEM;
    }
    *out = t;
    return HW_OK;
}

void hw_sum_free(struct hw_sum *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->marks.n; i++)
        hw_packed_values_done(&t->marks.v[i].slots);
    hw_vec_done(&t->marks);
    free(t->slot_of);
    hw_vec_done(&t->slots);
    free(t);
}

static struct slot *slot_get(struct hw_sum *t, uint32_t callsite)
{
    uint32_t i = t->slot_of[callsite];
    if (i)
        return &t->slots.v[i - 1];
    struct slot fresh = {.callsite = callsite};
    if (hw_vec_push(&t->slots, fresh) < 0)
        return NULL;
    t->slot_of[callsite] = (uint32_t)t->slots.n;
    return &t->slots.v[t->slots.n - 1];
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

static void set_more(struct hw_value *v, const struct hw_alloc_row *r, bool same_dump)
{
    struct hw_value was = {0};
    if (same_dump)
        was = *v;
    v->variance_objects = larger(r->variance_objects, was.variance_objects);
    v->variance_alloc_space = larger(r->variance_alloc_space, was.variance_alloc_space);
    v->variance_alloc_objects = larger(r->variance_alloc_objects, was.variance_alloc_objects);
    v->variance_rounding = larger(r->variance_rounding, was.variance_rounding);
    v->variance_temporary_space = larger(r->variance_temporary_space, was.variance_temporary_space);
    v->variance_temporary_objects =
        larger(r->variance_temporary_objects, was.variance_temporary_objects);
}

static int add_row(struct hw_sum *t, const struct hw_alloc_row *r, bool base)
{
    struct slot *s = slot_get(t, r->callsite.v);
    if (!s)
        return HW_ENOMEM;
    struct hw_value *v = &s->v;
    v->space = hw_sat_add(v->space, r->size);
    v->objects = hw_sat_add(v->objects, r->count);
    v->samples = hw_sat_add(v->samples, r->samples);
    if (r->size >= 0 && r->count >= 0 && r->samples >= 0 && !base) {
        v->alloc_space = hw_sat_add(v->alloc_space, r->size);
        v->alloc_objects = hw_sat_add(v->alloc_objects, r->count);
        v->alloc_samples = hw_sat_add(v->alloc_samples, r->samples);
    }
    v->temporary_space = hw_sat_add(v->temporary_space, r->temporary_space);
    v->temporary_objects = hw_sat_add(v->temporary_objects, r->temporary_objects);
    bool same_dump = s->passed == t->n_passes;
    if (!same_dump || r->variance > v->variance)
        v->variance = r->variance;
    set_more(v, r, same_dump);
    if (!same_dump || r->idle > v->idle)
        v->idle = r->idle;
    v->rounding = r->rounding;
    s->passed = t->n_passes;
    t->knows_variance |= r->variance > 0 && isfinite(r->variance);
    return HW_OK;
}

/* Rows come in any order of callsites, and slots of a large profile are in no cache. */
static void prefetch(const struct hw_sum *t, size_t row)
{
    uint32_t slot = t->slot_of[t->p->allocs.callsite[row]];
    if (slot) {
        hw_prefetch_write(&t->slots.v[slot - 1]);
        hw_prefetch_write((char *)&t->slots.v[slot - 1] + 64);
    }
}

static int add_dump(struct hw_sum *t, uint32_t dump)
{
    size_t first, n;
    hw_profile_dump_rows(t->p, dump, &first, &n);
    t->interval_bytes = t->p->dumps.v[dump].interval_bytes;
    t->knows_variance |= (t->p->dumps.v[dump].flags & HW_DUMP_KNOWS_VARIANCE) != 0;
    t->knows_all &= (t->p->dumps.v[dump].flags & HW_DUMP_ALL_VARIANCES) != 0;
    t->knows_temporary |= (t->p->dumps.v[dump].flags & HW_DUMP_KNOWS_TEMPORARY) != 0;
    t->choice = fmax(t->choice, t->p->dumps.v[dump].choice);
    bool base = t->p->dumps.v[dump].flags & HW_DUMP_BASE;
    t->n_passes++;
    for (size_t i = first; i < first + n; i++) {
        if (i + AHEAD < first + n)
            prefetch(t, i + AHEAD);
        struct hw_alloc_row r = hw_alloc_row_of(&t->p->allocs, dump, i);
        if (add_row(t, &r, base) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* ---- marks: copies of the sum to seek back to ---- */

void hw_sum_keep_marks(struct hw_sum *t, size_t max_bytes)
{
    t->max_marks_bytes = max_bytes;
    t->spacing = FIRST_SPACING;
}

/* Removes every second mark and doubles the distance between future ones. */
static void remove_half(struct hw_sum *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->marks.n; i++) {
        if (i % 2) {
            t->marks.v[kept++] = t->marks.v[i];
            continue;
        }
        t->marks_bytes -= t->marks.v[i].slots.n_bytes;
        hw_packed_values_done(&t->marks.v[i].slots);
    }
    t->marks.n = kept;
    t->spacing *= 2;
}

/* Without memory there is no mark, and seeking back takes longer. */
static void add_mark(struct hw_sum *t)
{
    struct mark m = {.next = t->next,
                     .interval_bytes = t->interval_bytes,
                     .knows_variance = t->knows_variance,
                     .knows_all = t->knows_all,
                     .knows_temporary = t->knows_temporary};
    bool newer = t->marks.n == 0 || t->marks.v[t->marks.n - 1].next < t->next;
    if (!newer || t->new_rows < (uint64_t)t->spacing * t->slots.n)
        return;
    t->new_rows = 0;
    if (t->slots.n == 0 ||
        hw_packed_values_init(&m.slots, t->slots.v, t->slots.n, sizeof *t->slots.v) < 0)
        return;
    while (t->marks.n && t->marks_bytes + m.slots.n_bytes > t->max_marks_bytes)
        remove_half(t);
    if (t->marks_bytes + m.slots.n_bytes > t->max_marks_bytes || hw_vec_push(&t->marks, m) < 0)
        hw_packed_values_done(&m.slots);
    else
        t->marks_bytes += m.slots.n_bytes;
}

static void restore(struct hw_sum *t, const struct mark *m)
{
    size_t n = m ? m->slots.n : 0;
    for (size_t i = n; i < t->slots.n; i++)
        t->slot_of[t->slots.v[i].callsite] = 0;
    /* There were as many slots when m was made, with these callsites: the order of first rows is
     * always the same. */
    if (n)
        hw_packed_values_read(&m->slots, t->slots.v, sizeof *t->slots.v);
    for (size_t i = t->slots.n; i < n; i++)
        t->slot_of[t->slots.v[i].callsite] = (uint32_t)i + 1;
    t->slots.n = n;
    t->next = m ? m->next : 0;
    t->interval_bytes = m ? m->interval_bytes : 1;
    t->knows_variance = m && m->knows_variance;
    t->knows_all = !m || m->knows_all;
    t->knows_temporary = m && m->knows_temporary;
    t->new_rows = 0;
}

static int add_until(struct hw_sum *t, uint32_t dump)
{
    while (t->next < t->s->all.n && t->s->all.v[t->next] <= dump) {
        size_t first, n;
        hw_profile_dump_rows(t->p, t->s->all.v[t->next], &first, &n);
        int rc = add_dump(t, t->s->all.v[t->next]);
        if (rc < 0)
            return rc;
        t->next++;
        t->new_rows += n;
        if (t->max_marks_bytes)
            add_mark(t);
    }
    return HW_OK;
}

static bool is_past(const struct hw_sum *t, size_t next, uint32_t dump)
{
    return next && t->s->all.v[next - 1] > dump;
}

int hw_sum_seek(struct hw_sum *t, uint32_t dump)
{
    size_t n = t->marks.n;
    while (n && is_past(t, t->marks.v[n - 1].next, dump))
        n--;
    if (is_past(t, t->next, dump) || (n && t->marks.v[n - 1].next > t->next))
        restore(t, n ? &t->marks.v[n - 1] : NULL);
    return add_until(t, dump);
}

int hw_sum_advance(struct hw_sum *t, uint32_t dump)
{
    return is_past(t, t->next, dump) ? HW_EINVAL : add_until(t, dump);
}

size_t hw_sum_bytes(const struct hw_sum *t)
{
    return sizeof *t + hw_callsites_count(t->p->callsites) * sizeof *t->slot_of +
           t->slots.cap * sizeof *t->slots.v + t->marks_bytes;
}

static struct hw_value final_value(const struct hw_sum *t, const struct slot *s)
{
    struct hw_value v = s->v;
    double step = (double)t->interval_bytes;
    if (t->interval_bytes <= 1 || v.space <= 0)
        v.variance = 0;
    else if (!t->knows_variance && isfinite(v.variance))
        v.variance = v.samples > 0 ? step * step * (double)v.samples : 0;
    v.lacks_variances = !t->knows_all && t->interval_bytes > 1;
    v.choice = (float)t->choice;
    v.knows_temporary = t->knows_temporary;
    if (t->interval_bytes <= 1)
        v.variance_objects = v.variance_alloc_space = v.variance_alloc_objects =
            v.variance_rounding = v.variance_temporary_space = v.variance_temporary_objects = 0;
    else if (v.objects <= 0)
        v.variance_objects = 0;
    return v;
}

static int by_callsite(const void *a, const void *b)
{
    uint32_t x = ((const struct hw_callsite_value *)a)->callsite.v;
    uint32_t y = ((const struct hw_callsite_value *)b)->callsite.v;
    return x < y ? -1 : x > y;
}

size_t hw_sum_count(const struct hw_sum *t)
{
    return t->slots.n;
}

struct hw_callsite_value hw_sum_get(const struct hw_sum *t, size_t i)
{
    const struct slot *s = &t->slots.v[i];
    return (struct hw_callsite_value){{s->callsite}, final_value(t, s)};
}

int hw_sum_values(const struct hw_sum *t, hw_values *out)
{
    hw_vec_clear(out);
    if (hw_vec_reserve(out, t->slots.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < t->slots.n; i++) {
        const struct slot *s = &t->slots.v[i];
        out->v[out->n++] = (struct hw_callsite_value){{s->callsite}, final_value(t, s)};
    }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_callsite);
    return HW_OK;
}

struct hw_value hw_sum_total(const struct hw_sum *t)
{
    struct hw_value sum = {0};
    for (size_t i = 0; i < t->slots.n; i++) {
        struct hw_value v = final_value(t, &t->slots.v[i]);
        hw_value_add(&sum, &v);
    }
    return sum;
}

int hw_values_at(const struct hw_profile *p, const struct hw_series *s, uint32_t dump,
                 hw_values *out)
{
    struct hw_sum *t;
    int rc = hw_sum_new(p, s, &t);
    if (rc < 0)
        return rc;
    if (p->dumps.v[dump].flags & HW_DUMP_AT_MAX)
        rc = add_dump(t, dump);
    else
        rc = hw_sum_advance(t, dump);
    if (rc == 0)
        rc = hw_sum_values(t, out);
    hw_sum_free(t);
    return rc;
}

void hw_value_add(struct hw_value *to, const struct hw_value *v)
{
    to->space = hw_sat_add(to->space, v->space);
    to->objects = hw_sat_add(to->objects, v->objects);
    to->alloc_space = hw_sat_add(to->alloc_space, v->alloc_space);
    to->alloc_objects = hw_sat_add(to->alloc_objects, v->alloc_objects);
    to->samples = hw_sat_add(to->samples, v->samples);
    to->alloc_samples = hw_sat_add(to->alloc_samples, v->alloc_samples);
    to->idle = hw_sat_add(to->idle, v->idle);
    to->rounding = hw_sat_add(to->rounding, v->rounding);
    to->variance += v->variance;
    to->variance_objects += v->variance_objects;
    to->variance_alloc_space += v->variance_alloc_space;
    to->variance_alloc_objects += v->variance_alloc_objects;
    to->variance_rounding += v->variance_rounding;
    to->temporary_space = hw_sat_add(to->temporary_space, v->temporary_space);
    to->temporary_objects = hw_sat_add(to->temporary_objects, v->temporary_objects);
    to->variance_temporary_space += v->variance_temporary_space;
    to->variance_temporary_objects += v->variance_temporary_objects;
    to->lacks_variances |= v->lacks_variances;
    to->knows_temporary |= v->knows_temporary;
    to->choice = larger(to->choice, v->choice);
}

float hw_variance_since(float now, float before)
{
    if (isinf(before))
        return before;
    return now > before ? now - before : 0;
}

static int64_t growth(int64_t now, int64_t before)
{
    int64_t d = hw_sat_sub(now, before);
    return d > 0 ? d : 0;
}

void hw_value_since(struct hw_value *now, const struct hw_value *before)
{
    now->space = growth(now->space, before->space);
    now->objects = growth(now->objects, before->objects);
    now->alloc_space = growth(now->alloc_space, before->alloc_space);
    now->alloc_objects = growth(now->alloc_objects, before->alloc_objects);
    now->samples = growth(now->samples, before->samples);
    now->alloc_samples = growth(now->alloc_samples, before->alloc_samples);
    now->rounding = growth(now->rounding, before->rounding);
    now->temporary_space = growth(now->temporary_space, before->temporary_space);
    now->temporary_objects = growth(now->temporary_objects, before->temporary_objects);
    now->variance += before->variance;
    now->variance_objects += before->variance_objects;
    now->variance_rounding += before->variance_rounding;
    /* What was allocated before is the same samples in both. */
    now->variance_alloc_space =
        hw_variance_since(now->variance_alloc_space, before->variance_alloc_space);
    now->variance_alloc_objects =
        hw_variance_since(now->variance_alloc_objects, before->variance_alloc_objects);
    now->variance_temporary_space =
        hw_variance_since(now->variance_temporary_space, before->variance_temporary_space);
    now->variance_temporary_objects =
        hw_variance_since(now->variance_temporary_objects, before->variance_temporary_objects);
    now->lacks_variances |= before->lacks_variances;
    now->knows_temporary |= before->knows_temporary;
    now->choice = larger(now->choice, before->choice);
}

bool hw_value_is_zero(const struct hw_value *v)
{
    return !v->space && !v->objects && !v->alloc_space && !v->alloc_objects && !v->alloc_samples;
}

static double own_variance(const struct hw_value *v, enum hw_metric m)
{
    switch (m) {
    case HW_METRIC_SPACE:
        return v->variance;
    case HW_METRIC_OBJECTS:
        return (double)v->variance_objects;
    case HW_METRIC_ALLOC_SPACE:
        return (double)v->variance_alloc_space;
    case HW_METRIC_ALLOC_OBJECTS:
        return (double)v->variance_alloc_objects;
    case HW_METRIC_TEMPORARY_SPACE:
        return (double)v->variance_temporary_space;
    case HW_METRIC_TEMPORARY_OBJECTS:
        return (double)v->variance_temporary_objects;
    case HW_METRIC_COUNT:
        break;
    }
    return 0;
}

/* As many of equal weight have this variance. */
static int64_t samples_of(int64_t objects, double x, double variance)
{
    double k = variance > 0 ? x * x / variance : (double)objects;
    return k < (double)objects ? (int64_t)(k + 0.5) : objects;
}

int64_t hw_value_samples(const struct hw_value *v, enum hw_metric m)
{
    if (m >= HW_METRIC_USUAL) /* not counted */
        return samples_of(v->temporary_objects, (double)hw_value_get(v, m), own_variance(v, m));
    return hw_metric_is_live(m) ? v->samples : v->alloc_samples;
}

double hw_value_step(const struct hw_value *v, uint64_t interval_bytes)
{
    if (interval_bytes <= 1 || v->space <= 0)
        return 0;
    return fmin(v->variance / (double)v->space, (double)interval_bytes);
}

double hw_value_variance(const struct hw_value *v, enum hw_metric m)
{
    double x = (double)hw_value_get(v, m);
    if (v->lacks_variances && m != HW_METRIC_SPACE && m < HW_METRIC_USUAL)
        return -1;
    return own_variance(v, m) + (double)v->choice * x * x;
}

/* For traces with at most the variance of live bytes. */
static double guessed_error(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes)
{
    double k = (double)hw_value_samples(v, m), x = (double)hw_value_get(v, m);
    double step = (double)interval_bytes;
    switch (m) {
    case HW_METRIC_ALLOC_SPACE:
        /* The trace has no variance for this metric; if that of live bytes is smaller than
         * interval² per sample, the difference gives the share of exact samples. */
        if (v->samples > 0 && v->variance < step * step * (double)v->samples)
            return 2 * sqrt(v->variance / (double)v->samples * k);
        return 2 * step * sqrt(k > 0 ? k : 0);
    case HW_METRIC_OBJECTS:
    case HW_METRIC_ALLOC_OBJECTS:
        /* The weights are not in the trace; this is the sum of their squares if they are equal. */
        return k > 0 && x > k ? 2 * x / sqrt(k) : 0;
    case HW_METRIC_SPACE:
    case HW_METRIC_TEMPORARY_SPACE: /* what knows them knows all variances */
    case HW_METRIC_TEMPORARY_OBJECTS:
    case HW_METRIC_COUNT:
        break;
    }
    return 0;
}

double hw_value_error(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes)
{
    if (interval_bytes <= 1 && v->choice <= 0)
        return 0;
    double variance = hw_value_variance(v, m);
    if (variance < 0)
        return guessed_error(v, m, interval_bytes);
    return variance >= 0 ? 2 * sqrt(variance) : INFINITY;
}

/* The variance of one more sample: a block has the weight interval / size, at most the interval. */
static double one_more(const struct hw_value *v, uint64_t interval_bytes)
{
    double variance = (double)v->variance_alloc_objects, all = (double)v->alloc_objects;
    double step = (double)interval_bytes, points = (double)v->variance_alloc_space / (step * step);
    if (!isfinite(variance) || all <= 0)
        return 0;
    double of_sample = points > 0 && isfinite(points) ? variance / points : 0;
    return fmin(fmax(variance / all * (variance / all), of_sample), step * step);
}

double hw_figure_error(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes)
{
    double error = hw_value_error(v, m, interval_bytes);
    int64_t seen = m == HW_METRIC_TEMPORARY_OBJECTS ? v->temporary_objects : hw_value_samples(v, m);
    bool is_known = !v->lacks_variances && isfinite(error) && interval_bytes > 1;
    if (hw_metric_is_bytes(m) || seen <= 0 || !is_known)
        return error;
    return sqrt(error * error + 4 * one_more(v, interval_bytes));
}

/*
 * With k samples of equal weight the error is 2 / sqrt(k) of the figure: 0.63 for ten samples. If
 * weights differ or some samples are exact, this share counts, not the number of samples.
 */
bool hw_value_is_rough(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes)
{
    double error = hw_value_error(v, m, interval_bytes);
    double share = hw_value_samples(v, m) < 10 ? 0.3 : 0.63;
    return error > share * fabs((double)hw_value_get(v, m));
}

static const char *const metric_names[HW_METRIC_COUNT] = {
    [HW_METRIC_SPACE] = "space",
    [HW_METRIC_OBJECTS] = "objects",
    [HW_METRIC_ALLOC_SPACE] = "alloc_space",
    [HW_METRIC_ALLOC_OBJECTS] = "alloc_objects",
    [HW_METRIC_TEMPORARY_SPACE] = "temporary_space",
    [HW_METRIC_TEMPORARY_OBJECTS] = "temporary_objects",
};

enum hw_metric hw_values_metrics(const hw_values *values)
{
    for (size_t i = 0; i < values->n; i++)
        if (values->v[i].v.knows_temporary)
            return HW_METRIC_COUNT;
    return HW_METRIC_USUAL;
}

const char *hw_metric_name(enum hw_metric m)
{
    return m < HW_METRIC_COUNT ? metric_names[m] : "?";
}

bool hw_metric_find(const char *name, enum hw_metric *out)
{
    if (strcmp(name, "temporary") == 0)
        name = metric_names[HW_METRIC_TEMPORARY_SPACE];
    for (int m = 0; m < HW_METRIC_COUNT; m++) {
        if (strcmp(metric_names[m], name) == 0) {
            *out = (enum hw_metric)m;
            return true;
        }
    }
    return false;
}
