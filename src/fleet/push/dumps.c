#include "fleet/push/dumps.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "views/time/series.h"

#include "base/banned.h"

#define SECOND_NS INT64_C(1000000000)

struct state { /* of a series */
    struct hw_sum *sum;
    hw_values before; /* cumulative at the previous dump, by callsite */
    int64_t before_ns;
    bool began;
};

struct walk {
    const struct hw_profile *p;
    const struct hw_fleet_dumps *o;
    struct hw_series_list list;
    hw_moment_list moments;
    struct state *states; /* by series */
    hw_values now;        /* cumulative */
    hw_values values;     /* the same, with alloc_* since the previous dump */
};

static int wall_of(const struct walk *w, int64_t ts_ns, int64_t *out)
{
    if (!hw_profile_wall_ns(w->p, ts_ns, out)) {
        if (!w->o->wall_ns)
            return HW_EINVAL;
        *out = hw_sat_add(*w->o->wall_ns, hw_sat_sub(ts_ns, w->p->last_ns));
    }
    return *out < 0 || *out / SECOND_NS > UINT32_MAX ? HW_EINVAL : HW_OK;
}

/* Is there a later dump of the series in the same second? */
static bool is_superseded(const struct walk *w, size_t i, int64_t wall_ns)
{
    for (size_t k = i + 1; k < w->moments.n; k++) {
        int64_t then;
        const struct hw_moment *m = &w->moments.v[k];
        const struct hw_heap_dump *d = &w->p->dumps.v[m->dump];
        if (wall_of(w, d->ts_ns, &then) < 0 || then / SECOND_NS > wall_ns / SECOND_NS)
            return false;
        if (m->series == w->moments.v[i].series && !(d->flags & HW_DUMP_AT_MAX) &&
            then / SECOND_NS == wall_ns / SECOND_NS)
            return true;
    }
    return false;
}

/* Both lists are sorted by callsite, and a sum never loses callsites. */
static int compute_differences(struct walk *w, const hw_values *before)
{
    size_t b = 0;
    hw_vec_clear(&w->values);
    if (hw_vec_reserve(&w->values, w->now.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < w->now.n; i++) {
        struct hw_callsite_value cv = w->now.v[i];
        while (b < before->n && before->v[b].callsite.v < cv.callsite.v)
            b++;
        if (b < before->n && before->v[b].callsite.v == cv.callsite.v) {
            const struct hw_value *then = &before->v[b].v;
            cv.v.alloc_space = hw_sat_sub(cv.v.alloc_space, then->alloc_space);
            cv.v.alloc_objects = hw_sat_sub(cv.v.alloc_objects, then->alloc_objects);
            cv.v.alloc_samples = hw_sat_sub(cv.v.alloc_samples, then->alloc_samples);
            cv.v.variance_alloc_space =
                hw_variance_since(cv.v.variance_alloc_space, then->variance_alloc_space);
            cv.v.variance_alloc_objects =
                hw_variance_since(cv.v.variance_alloc_objects, then->variance_alloc_objects);
        }
        if (!hw_value_is_zero(&cv.v))
            w->values.v[w->values.n++] = cv;
    }
    return HW_OK;
}

static int values_of(struct walk *w, const struct hw_moment *m)
{
    struct state *s = &w->states[m->series];
    int rc = HW_OK;
    if (!s->sum)
        rc = hw_sum_new(w->p, &w->list.v.v[m->series], &s->sum);
    if (rc == 0)
        rc = hw_sum_advance(s->sum, m->dump);
    if (rc == 0)
        rc = hw_sum_values(s->sum, &w->now);
    return rc < 0 ? rc : compute_differences(w, &s->before);
}

static int visit_moment(struct walk *w, size_t i, struct hw_error *err)
{
    const struct hw_moment *m = &w->moments.v[i];
    struct state *s = &w->states[m->series];
    struct hw_fleet_dump d = {.dump = &w->p->dumps.v[m->dump], .values = &w->values};
    if (d.dump->flags & (HW_DUMP_AT_MAX | HW_DUMP_BASE))
        return HW_OK; /* the next dump's sum starts from the base */
    if (wall_of(w, d.dump->ts_ns, &d.wall_ns) < 0)
        return hw_fail(err, HW_EINVAL, 0, "the profile does not say when it was recorded");
    if (is_superseded(w, i, d.wall_ns))
        return HW_OK;
    int rc = values_of(w, m);
    if (rc < 0)
        return hw_fail(err, rc, 0, "values of a dump");
    d.since_ns = s->before_ns;
    if (!s->began && wall_of(w, d.dump->start_ts_ns, &d.since_ns) < 0)
        d.since_ns = d.wall_ns;
    s->began = true;
    s->before_ns = d.wall_ns;
    hw_values swap = s->before;
    s->before = w->now;
    w->now = swap;
    return w->o->visit(w->o->ctx, &d, err);
}

static int walk_init(struct walk *w)
{
    int rc = hw_series_list_init(&w->list, w->p);
    if (rc == 0)
        rc = hw_moments(w->p, &w->list, &w->moments);
    if (rc < 0)
        return rc;
    w->states = calloc(w->list.v.n + 1, sizeof *w->states);
    return w->states ? HW_OK : HW_ENOMEM;
}

static void walk_done(struct walk *w)
{
    for (size_t i = 0; w->states && i < w->list.v.n; i++) {
        hw_sum_free(w->states[i].sum);
        hw_vec_done(&w->states[i].before);
    }
    free(w->states);
    hw_vec_done(&w->now);
    hw_vec_done(&w->values);
    hw_vec_done(&w->moments);
    hw_series_list_done(&w->list);
}

int hw_fleet_dumps_visit(const struct hw_profile *p, const struct hw_fleet_dumps *o,
                         struct hw_error *err)
{
    struct walk w = {.p = p, .o = o};
    int rc = walk_init(&w);
    if (rc < 0)
        (void)hw_fail(err, rc, 0, "list of dumps"); /* the code is returned below */
    else if (w.moments.n == 0)
        rc = hw_fail(err, HW_ENOTFOUND, 0, "no heap profile in it");
    for (size_t i = 0; rc == 0 && i < w.moments.n; i++)
        rc = visit_moment(&w, i, err);
    walk_done(&w);
    return rc;
}
