#include "views/time/profile_sum.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "model/append_profile.h"
#include "views/time/process_view.h"

#include "base/banned.h"

int hw_profile_sum_init(struct hw_profile_sum *b)
{
    *b = (struct hw_profile_sum){.interval_bytes = 1};
    return hw_profile_new(&b->p);
}

void hw_profile_sum_done(struct hw_profile_sum *b)
{
    hw_profile_free(b->p);
    free(b->v);
    free(b->base);
    *b = (struct hw_profile_sum){0};
}

static void subtract(struct hw_value *from, const struct hw_value *v, bool live)
{
    struct hw_value minus = {.alloc_space = -v->alloc_space,
                             .alloc_objects = -v->alloc_objects,
                             .alloc_samples = -v->alloc_samples,
                             .variance = v->variance,
                             .variance_objects = v->variance_objects,
                             .variance_alloc_space = v->variance_alloc_space,
                             .variance_alloc_objects = v->variance_alloc_objects,
                             .variance_rounding = v->variance_rounding,
                             .temporary_space = -v->temporary_space,
                             .temporary_objects = -v->temporary_objects,
                             .variance_temporary_space = v->variance_temporary_space,
                             .variance_temporary_objects = v->variance_temporary_objects,
                             .lacks_variances = v->lacks_variances,
                             .knows_temporary = v->knows_temporary};
    if (live) {
        minus.space = -v->space;
        minus.objects = -v->objects;
        minus.samples = -v->samples;
        minus.idle = -v->idle;
        minus.rounding = -v->rounding;
    }
    hw_value_add(from, &minus);
}

static int grow(struct hw_value **v, size_t from, size_t to)
{
    struct hw_value *grown = realloc(*v, to * sizeof **v);
    if (!grown)
        return HW_ENOMEM;
    *v = grown;
    for (size_t i = from; i < to; i++)
        grown[i] = (struct hw_value){0};
    return HW_OK;
}

/* A process that was chosen with probability 1 / w counts w times. The variance is w times its own,
 * plus w (w - 1) times the square of the estimate for the choice. Samples are not multiplied. */
static double chosen_variance(double variance, int64_t estimate, double w)
{
    return w * variance + w * (w - 1) * (double)estimate * (double)estimate;
}

static float chosen_float(float variance, int64_t estimate, double w)
{
    return hw_alloc_variance_kept(chosen_variance((double)variance, estimate, w));
}

static void add_chosen(struct hw_value *to, const struct hw_value *v, uint32_t share)
{
    int64_t n = INT64_C(1) << share;
    double w = (double)n;
    struct hw_value m = *v;
    m.space = hw_sat_mul(m.space, n);
    m.objects = hw_sat_mul(m.objects, n);
    m.alloc_space = hw_sat_mul(m.alloc_space, n);
    m.alloc_objects = hw_sat_mul(m.alloc_objects, n);
    m.temporary_space = hw_sat_mul(m.temporary_space, n);
    m.temporary_objects = hw_sat_mul(m.temporary_objects, n);
    m.idle = hw_sat_mul(m.idle, n);
    m.rounding = hw_sat_mul(m.rounding, n);
    m.variance = chosen_variance(v->variance, v->space, w);
    m.variance_objects = chosen_float(v->variance_objects, v->objects, w);
    m.variance_alloc_space = chosen_float(v->variance_alloc_space, v->alloc_space, w);
    m.variance_alloc_objects = chosen_float(v->variance_alloc_objects, v->alloc_objects, w);
    m.variance_rounding = chosen_float(v->variance_rounding, v->rounding, w);
    m.variance_temporary_space = chosen_float(v->variance_temporary_space, v->temporary_space, w);
    m.variance_temporary_objects =
        chosen_float(v->variance_temporary_objects, v->temporary_objects, w);
    hw_value_add(to, &m);
}

static int add_values(struct hw_profile_sum *b, const hw_values *values,
                      const hw_callsite_id *callsite, const struct hw_profile_sum_part *part)
{
    enum hw_profile_sum_role role = part->role;
    size_t n = hw_callsites_count(b->p->callsites);
    if (n > b->n && (grow(&b->v, b->n, n) < 0 || grow(&b->base, b->n, n) < 0))
        return HW_ENOMEM;
    b->n = n > b->n ? n : b->n;
    for (size_t i = 0; i < values->n; i++) {
        const struct hw_value *v = &values->v[i].v;
        uint32_t c = callsite[values->v[i].callsite.v].v;
        if (role == HW_PROFILE_SUM_ADD)
            add_chosen(&b->v[c], v, part->share);
        else
            subtract(&b->v[c], v, role == HW_PROFILE_SUM_TAKE);
        if (role == HW_PROFILE_SUM_BASE) {
            b->base[c].space += v->space;
            b->base[c].objects += v->objects;
        }
    }
    return HW_OK;
}

static bool is_heap(const void *ctx, const struct hw_profile *p, const struct hw_series *s)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(p->callsites), s->heap_name);
    return !ctx || hw_bytes_equal(name, hw_bytes_str(ctx));
}

static int add_process(struct hw_profile_sum *b, const struct hw_profile_sum_part *part,
                       const struct hw_series_list *list, hw_upid upid,
                       const hw_callsite_id *callsite)
{
    struct hw_process_view view;
    hw_values values = {0};
    int rc = hw_process_view_init(&view, part->p, list, upid);
    if (rc < 0)
        return rc;
    const struct hw_process_moment *m =
        view.moments.n ? &view.moments.v[view.moments.n - 1] : hw_process_view_peak(&view);
    if (m)
        rc = hw_process_values_of(part->p, list, upid, m->ts_ns, m->at_max, is_heap, part->heap,
                                  &values);
    if (view.interval_bytes > b->interval_bytes)
        b->interval_bytes = view.interval_bytes;
    if (rc == HW_OK)
        rc = add_values(b, &values, callsite, part);
    hw_vec_done(&values);
    hw_process_view_done(&view);
    return rc;
}

int hw_profile_sum_add(struct hw_profile_sum *b, const struct hw_profile_sum_part *part)
{
    struct hw_series_list list = {0};
    hw_process_ranks ranks = {0};
    const struct hw_callsites *from = part->p->callsites;
    hw_callsite_id *callsite = calloc(hw_callsites_count(from) + 1, sizeof *callsite);
    int rc = callsite ? hw_callsites_append(b->p->callsites, from, callsite) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_series_list_init(&list, part->p);
    if (rc == HW_OK)
        rc = hw_process_rank_all(part->p, &list, &ranks);
    for (size_t i = 0; rc == HW_OK && i < ranks.n; i++)
        if (part->upid.v == HW_ID_NONE || part->upid.v == ranks.v[i].upid.v)
            rc = add_process(b, part, &list, ranks.v[i].upid, callsite);
    free(callsite);
    hw_vec_done(&ranks);
    hw_series_list_done(&list);
    return rc;
}

static bool is_zero(const struct hw_value *v)
{
    return !v->space && !v->objects && !v->alloc_space && !v->alloc_objects;
}

int hw_profile_sum_values(struct hw_profile_sum *b, hw_values *out, hw_values *base)
{
    for (uint32_t i = 0; i < b->n; i++) {
        struct hw_callsite_value now = {{i}, b->v[i]}, before = {{i}, b->base[i]};
        if (is_zero(&now.v) && is_zero(&before.v))
            continue;
        if (hw_vec_push(out, now) < 0 || (base && hw_vec_push(base, before) < 0))
            return HW_ENOMEM;
    }
    return hw_profile_freeze(b->p);
}
