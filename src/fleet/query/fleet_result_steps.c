/* A profile with one dump per step of time, filled stack by stack. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "fleet/query/fleet_result.h"
#include "fleet/query/fleet_result_internal.h"
#include "fleet/query/fleet_result_work.h"

#include "base/banned.h"

enum { MAX_STEPS = 2000 };

/* A callstack's values at the previous step, to compute changes. */
struct level {
    int64_t space, objects, samples;
    double variance_alloc_space, variance_alloc_objects; /* of all steps so far */
};

static int query_step_moments(struct hw_fleet_result_work *k, struct hw_fleet_query_args ask)
{
    struct hw_fleet_counts *all = &k->out->counts;
    uint64_t n_steps = (uint64_t)(k->w->until_s - k->w->since_s) / ask.step_s + 1;
    struct hw_rows r;
    ask.query = HW_FLEET_Q_STEP_MOMENTS;
    int rc = hw_fleet_do(k->from, &ask, &k->reply, &r, k->err);
    while (rc == 0 && hw_rows_more(&r)) {
        uint32_t step = hw_rows_u32(&r);
        struct hw_fleet_counts n = hw_fleet_result_read_counts(&r);
        struct hw_fleet_counts none = {0};
        r.bad |= step >= n_steps;
        while (rc == 0 && !r.bad && k->steps.n <= step)
            rc = hw_vec_push(&k->steps, none) < 0 ? HW_ENOMEM : HW_OK;
        if (rc < 0 || r.bad)
            break;
        k->steps.v[step] = n;
        all->first_s = all->n_dumps == 0 || n.first_s < all->first_s ? n.first_s : all->first_s;
        all->last_s = n.last_s > all->last_s ? n.last_s : all->last_s;
        all->n_dumps += n.n_dumps;
        all->n_rows += n.n_rows;
        all->n_processes = n.n_processes > all->n_processes ? n.n_processes : all->n_processes;
        all->n_hosts = n.n_hosts > all->n_hosts ? n.n_hosts : all->n_hosts;
        if (n.interval_bytes > all->interval_bytes)
            all->interval_bytes = n.interval_bytes;
    }
    return rc < 0 ? rc : hw_fleet_rows_check(k->from, &r, k->err);
}

static int add_step_dumps(struct hw_fleet_result_work *k, uint32_t step_s, uint32_t *dump_of)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < k->steps.n; i++) {
        dump_of[i] = (uint32_t)k->p->dumps.n;
        if (k->steps.v[i].n_dumps && k->steps.v[i].n_processes)
            rc = hw_fleet_result_add_dump(k, k->w->since_s + (int64_t)i * step_s,
                                          k->steps.v[i].interval_bytes);
        else
            k->steps.v[i].n_dumps = 0;
    }
    return rc;
}

static int add_change(struct hw_fleet_result_work *k, uint32_t dump, hw_callsite_id callsite,
                      const struct hw_alloc_row *now, int64_t alloc_space, int64_t alloc_objects,
                      struct level *last)
{
    int64_t space = hw_sat_sub(now->size, last->space);
    int64_t objects = hw_sat_sub(now->count, last->objects);
    int64_t samples = hw_sat_sub(now->samples, last->samples);
    struct hw_alloc_row added = {.dump = dump,
                                 .callsite = callsite,
                                 .size = alloc_space > space ? alloc_space : space,
                                 .count = alloc_objects > objects ? alloc_objects : objects,
                                 .samples = samples > 0 ? samples : 0,
                                 .variance = now->variance,
                                 .variance_objects = now->variance_objects};
    last->variance_alloc_space +=
        (double)(alloc_space > space ? now->variance_alloc_space
                                     : hw_alloc_variance_kept(now->variance));
    last->variance_alloc_objects +=
        (double)(alloc_objects > objects ? now->variance_alloc_objects : now->variance_objects);
    added.variance_alloc_space = hw_alloc_variance_kept(last->variance_alloc_space);
    added.variance_alloc_objects = hw_alloc_variance_kept(last->variance_alloc_objects);
    added.size = added.size > 0 ? added.size : 0;
    added.count = added.count > 0 ? added.count : 0;
    struct hw_alloc_row removed = {.dump = dump,
                                   .callsite = callsite,
                                   .size = hw_sat_sub(space, added.size),
                                   .count = hw_sat_sub(objects, added.count),
                                   .samples = hw_sat_sub(samples, added.samples),
                                   .variance = now->variance,
                                   .variance_objects = now->variance_objects,
                                   .variance_alloc_space = added.variance_alloc_space,
                                   .variance_alloc_objects = added.variance_alloc_objects};
    last->space = now->size;
    last->objects = now->count;
    last->samples = now->samples;
    int rc = added.size || added.count || added.variance > 0
                 ? hw_alloc_rows_push(&k->p->allocs, &added)
                 : HW_OK;
    if (rc == 0 && (removed.size || removed.count || removed.samples))
        rc = hw_alloc_rows_push(&k->p->allocs, &removed);
    return rc;
}

/* The rows of one callstack: sums [first, end), by ascending step; missing steps are zero. */
static int add_stack_steps(struct hw_fleet_result_work *k, size_t first, size_t end,
                           const uint32_t *dump_of)
{
    struct level last = {0};
    size_t at = first;
    for (uint32_t step = k->sums.v[first].step; step < k->steps.n; step++) {
        const struct hw_fleet_counts *n = &k->steps.v[step];
        const struct hw_fleet_result_sum none = {0}, *s = at < end && k->sums.v[at].step == step
                                                              ? &k->sums.v[at++]
                                                              : &none;
        if (n->n_dumps == 0 || (s == &none && last.space == 0 && last.objects == 0))
            continue;
        double dumps = (double)n->n_dumps, processes = (double)n->n_processes;
        struct hw_alloc_row now = {.size = hw_fleet_result_round((double)s->space / dumps),
                                   .count = hw_fleet_result_round((double)s->objects / dumps),
                                   .variance = hw_fleet_result_mean_variance(s->variance, n),
                                   .variance_objects = hw_alloc_variance_kept(
                                       hw_fleet_result_mean_variance(s->variance_objects, n))};
        now.variance_alloc_space = hw_alloc_variance_kept(
            hw_fleet_result_mean_variance_alloc(s->variance_alloc_space, processes));
        now.variance_alloc_objects = hw_alloc_variance_kept(
            hw_fleet_result_mean_variance_alloc(s->variance_alloc_objects, processes));
        now.samples = hw_fleet_result_samples_of((double)now.size, now.variance, now.count);
        int rc = add_change(k, dump_of[step], k->sums.v[first].callsite, &now,
                            hw_fleet_result_round((double)s->alloc_space / processes),
                            hw_fleet_result_round((double)s->alloc_objects / processes), &last);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* Merges sums of the same callstack and step; they are sorted by these. */
static void merge_steps(struct hw_fleet_result_work *k)
{
    size_t kept = 0;
    for (size_t i = 0; i < k->sums.n; i++) {
        const struct hw_fleet_result_sum *s = &k->sums.v[i];
        struct hw_fleet_result_sum *to = kept ? &k->sums.v[kept - 1] : NULL;
        if (!to || to->stack != s->stack || to->step != s->step) {
            k->sums.v[kept++] = *s;
            continue;
        }
        to->space = hw_sat_add(to->space, s->space);
        to->objects = hw_sat_add(to->objects, s->objects);
        to->alloc_space = hw_sat_add(to->alloc_space, s->alloc_space);
        to->alloc_objects = hw_sat_add(to->alloc_objects, s->alloc_objects);
        to->variance += s->variance;
        to->variance_objects += s->variance_objects;
        to->variance_alloc_space += s->variance_alloc_space;
        to->variance_alloc_objects += s->variance_alloc_objects;
    }
    k->sums.n = kept;
}

static int fill_steps(struct hw_fleet_result_work *k, uint32_t step_s)
{
    uint32_t *dump_of = calloc(k->steps.n + 1, sizeof *dump_of);
    int rc = dump_of ? add_step_dumps(k, step_s, dump_of) : HW_ENOMEM;
    for (size_t i = 0; i < k->sums.n; i++) /* those beyond the limit become one callstack */
        if (k->sums.v[i].callsite.v == k->rest.v)
            k->sums.v[i].stack = HW_MAP64_NO_KEY;
    if (k->sums.n)
        qsort(k->sums.v, k->sums.n, sizeof *k->sums.v, hw_fleet_result_by_stack);
    merge_steps(k);
    for (size_t i = 0, end; rc == 0 && i < k->sums.n; i = end) {
        for (end = i + 1; end < k->sums.n && k->sums.v[end].stack == k->sums.v[i].stack;)
            end++;
        if (k->sums.v[i].callsite.v != HW_ID_NONE)
            rc = add_stack_steps(k, i, end, dump_of);
    }
    free(dump_of);
    return rc;
}

static int get_steps(struct hw_fleet_result_work *k, uint32_t step_s)
{
    struct hw_fleet_query_args ask = {.query = HW_FLEET_Q_STEPS, .where = k->w, .step_s = step_s};
    int rc = query_step_moments(k, ask);
    if (rc == 0 && k->out->counts.n_dumps == 0)
        rc = hw_fleet_result_no_rows(k);
    if (rc == 0)
        rc = hw_fleet_result_get_stacks(k, &ask);
    if (rc == 0)
        rc = fill_steps(k, step_s);
    return rc < 0 ? rc : hw_fleet_result_end_profile(k);
}

int hw_fleet_get_steps(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                       uint32_t step_s, struct hw_fleet_result *out, struct hw_error *err)
{
    *out = (struct hw_fleet_result){0};
    struct hw_fleet_result_work k = {.from = from, .w = w, .out = out, .err = err};
    int rc = hw_fleet_where_check(w, err);
    if (rc == 0 && (step_s == 0 || (uint64_t)(w->until_s - w->since_s) / step_s > MAX_STEPS))
        rc = hw_fail(err, HW_ELIMIT, 0, "more than %d steps of time; take longer ones", MAX_STEPS);
    if (rc == 0)
        rc = get_steps(&k, step_s);
    return hw_fleet_result_finish(&k, rc);
}
