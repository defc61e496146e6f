/*
 * A row's variance is the callstack's as of its dump, not a change. A recorder that knows the
 * variance writes it for some callstack of the heap; then a callstack without one is exact. A trace
 * in which no row has one comes from a recorder that does not know it: interval² for each live
 * sample stands in.
 */
#include "views/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

struct slot {
    struct hw_value v;
    uint32_t callsite;
    uint32_t variance_dump; /* of the row that set v.variance; two rows of a dump keep the larger */
};

struct hw_sum {
    const struct hw_profile *p; /* borrowed */
    const struct hw_series *s;  /* borrowed */
    uint32_t *slot_of;          /* by callsite; slot index + 1, 0 = none */
    HW_VEC(struct slot) slots;
    size_t next; /* index into s->all */
    uint64_t interval_bytes;
    bool knows_variance;
};

int hw_sum_new(const struct hw_profile *p, const struct hw_series *s, struct hw_sum **out)
{
    struct hw_sum *t = calloc(1, sizeof *t);
    if (!t)
        return HW_ENOMEM;
    t->p = p;
    t->s = s;
    t->interval_bytes = 1;
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
    free(t->slot_of);
    hw_vec_done(&t->slots);
    free(t);
}

static struct slot *slot_get(struct hw_sum *t, uint32_t callsite)
{
    uint32_t i = t->slot_of[callsite];
    if (i)
        return &t->slots.v[i - 1];
    struct slot fresh = {.callsite = callsite, .variance_dump = HW_ID_NONE};
    if (hw_vec_push(&t->slots, fresh) < 0)
        return NULL;
    t->slot_of[callsite] = (uint32_t)t->slots.n;
    return &t->slots.v[t->slots.n - 1];
}

static int add_row(struct hw_sum *t, const struct hw_alloc_row *r)
{
    struct slot *s = slot_get(t, r->callsite.v);
    if (!s)
        return HW_ENOMEM;
    struct hw_value *v = &s->v;
    v->space = hw_sat_add(v->space, r->size);
    v->objects = hw_sat_add(v->objects, r->count);
    v->samples = hw_sat_add(v->samples, r->samples);
    if (r->size >= 0 && r->count >= 0 && r->samples >= 0) {
        v->alloc_space = hw_sat_add(v->alloc_space, r->size);
        v->alloc_objects = hw_sat_add(v->alloc_objects, r->count);
        v->alloc_samples = hw_sat_add(v->alloc_samples, r->samples);
    }
    bool same_dump = s->variance_dump == r->dump;
    double variance = r->variance > 0 && isfinite(r->variance) ? r->variance : 0;
    if (!same_dump || variance > v->variance)
        v->variance = variance;
    if (!same_dump || r->idle > v->idle)
        v->idle = r->idle;
    s->variance_dump = r->dump;
    t->knows_variance |= variance > 0;
    return HW_OK;
}

static int add_dump(struct hw_sum *t, uint32_t dump)
{
    size_t first, n;
    hw_profile_dump_rows(t->p, dump, &first, &n);
    t->interval_bytes = t->p->dumps.v[dump].interval_bytes;
    for (size_t i = first; i < first + n; i++) {
        struct hw_alloc_row r = hw_alloc_row_of(&t->p->allocs, dump, i);
        if (add_row(t, &r) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_sum_advance(struct hw_sum *t, uint32_t dump)
{
    if (t->next && dump < t->s->all.v[t->next - 1])
        return HW_EINVAL;
    while (t->next < t->s->all.n && t->s->all.v[t->next] <= dump) {
        int rc = add_dump(t, t->s->all.v[t->next]);
        if (rc < 0)
            return rc;
        t->next++;
    }
    return HW_OK;
}

static struct hw_value finished(const struct hw_sum *t, const struct slot *s)
{
    struct hw_value v = s->v;
    double step = (double)t->interval_bytes;
    if (t->interval_bytes <= 1 || v.space <= 0)
        v.variance = 0;
    else if (!t->knows_variance)
        v.variance = v.samples > 0 ? step * step * (double)v.samples : 0;
    return v;
}

static int by_callsite(const void *a, const void *b)
{
    uint32_t x = ((const struct hw_callsite_value *)a)->callsite.v;
    uint32_t y = ((const struct hw_callsite_value *)b)->callsite.v;
    return x < y ? -1 : x > y;
}

int hw_sum_values(const struct hw_sum *t, hw_values *out)
{
    hw_vec_clear(out);
    if (hw_vec_reserve(out, t->slots.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < t->slots.n; i++) {
        const struct slot *s = &t->slots.v[i];
        out->v[out->n++] = (struct hw_callsite_value){{s->callsite}, finished(t, s)};
    }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_callsite);
    return HW_OK;
}

struct hw_value hw_sum_total(const struct hw_sum *t)
{
    struct hw_value sum = {0};
    for (size_t i = 0; i < t->slots.n; i++) {
        struct hw_value v = finished(t, &t->slots.v[i]);
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
    to->variance += v->variance;
}

int64_t hw_value_get(const struct hw_value *v, enum hw_metric m)
{
    switch (m) {
    case HW_METRIC_SPACE:
        return v->space;
    case HW_METRIC_OBJECTS:
        return v->objects;
    case HW_METRIC_ALLOC_SPACE:
        return v->alloc_space;
    case HW_METRIC_ALLOC_OBJECTS:
        return v->alloc_objects;
    case HW_METRIC_COUNT:
        break;
    }
    return 0;
}

int64_t hw_value_samples(const struct hw_value *v, enum hw_metric m)
{
    return m == HW_METRIC_SPACE || m == HW_METRIC_OBJECTS ? v->samples : v->alloc_samples;
}

double hw_value_error(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes)
{
    if (interval_bytes <= 1)
        return 0;
    double k = (double)hw_value_samples(v, m), x = (double)hw_value_get(v, m);
    double step = (double)interval_bytes;
    switch (m) {
    case HW_METRIC_SPACE:
        return 2 * sqrt(v->variance);
    case HW_METRIC_ALLOC_SPACE:
        /* The trace carries no variance of this one; that of live bytes, where it is smaller than
         * interval² a sample, tells the share of exact samples. */
        if (v->samples > 0 && v->variance < step * step * (double)v->samples)
            return 2 * sqrt(v->variance / (double)v->samples * k);
        return 2 * step * sqrt(k > 0 ? k : 0);
    case HW_METRIC_OBJECTS:
    case HW_METRIC_ALLOC_OBJECTS:
        /* The weights are not in the trace; with equal ones this is the sum of their squares. */
        return k > 0 && x > k ? 2 * x / sqrt(k) : 0;
    case HW_METRIC_COUNT:
        break;
    }
    return 0;
}

static const char *const metric_names[HW_METRIC_COUNT] = {
    [HW_METRIC_SPACE] = "space",
    [HW_METRIC_OBJECTS] = "objects",
    [HW_METRIC_ALLOC_SPACE] = "alloc_space",
    [HW_METRIC_ALLOC_OBJECTS] = "alloc_objects",
};

const char *hw_metric_name(enum hw_metric m)
{
    return m < HW_METRIC_COUNT ? metric_names[m] : "?";
}

bool hw_metric_find(const char *name, enum hw_metric *out)
{
    for (int m = 0; m < HW_METRIC_COUNT; m++) {
        if (strcmp(metric_names[m], name) == 0) {
            *out = (enum hw_metric)m;
            return true;
        }
    }
    return false;
}
