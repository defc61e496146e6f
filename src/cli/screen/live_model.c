#include "cli/screen/live_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/import.h"
#include "views/flame/places.h"

#include "base/banned.h"

static void now_done(struct hw_live_now *x)
{
    for (size_t i = 0; i < x->labels.n; i++)
        free(x->labels.v[i]);
    hw_vec_done(&x->labels);
    hw_vec_done(&x->rows);
    hw_vec_done(&x->values);
    hw_functions_free(x->functions);
    free(x->places);
    hw_demangler_free(x->demangler);
    hw_process_view_done(&x->view);
    hw_series_list_done(&x->list);
    hw_profile_free(x->p);
    *x = (struct hw_live_now){0};
}

static int make_labels(struct hw_live_now *x)
{
    size_t n = hw_functions_count(x->functions);
    for (size_t i = 0; i < n; i++) {
        struct hw_strbuf b = {0};
        hw_program_label(&x->program, &b, x->p->callsites,
                         hw_functions_get(x->functions, (uint32_t)i), &x->namer);
        char *text = hw_strbuf_take(&b);
        if (!text || hw_vec_push(&x->labels, text) < 0) {
            free(text);
            return HW_ENOMEM;
        }
    }
    return HW_OK;
}

static int make_rows(struct hw_live_now *x)
{
    struct hw_flame flame = {0};
    hw_function_values values = {0};
    int rc = hw_flame_build(x->p->callsites, x->functions, &x->values, HW_FLAME_SITES, &flame);
    if (rc == HW_OK)
        rc = hw_flame_by_function(&flame, x->labels.n, &values);
    for (size_t i = 0; rc == HW_OK && i < values.n; i++) {
        const struct hw_function_value *v = &values.v[i];
        if (v->total.alloc_space == 0)
            continue;
        hw_str_id where = hw_function_where(hw_functions_get(x->functions, v->function));
        const char *label = x->labels.v[v->function];
        struct hw_bytes w = hw_strings_get(hw_callsites_strings(x->p->callsites), where);
        struct hw_live_row row = {
            .label = label,
            .function = v->function,
            .key = hw_hash_mix(hw_hash_bytes(label, strlen(label)), hw_hash_bytes(w.p, w.n)),
            .self = v->self,
            .total = v->total};
        rc = hw_vec_push(&x->rows, row) < 0 ? HW_ENOMEM : HW_OK;
    }
    hw_vec_done(&values);
    hw_flame_done(&flame);
    return rc;
}

/* A process without samples yet has no series: it holds nothing, which is not an error. */
static int read_look(int fd, struct hw_live_now *x, struct hw_error *err)
{
    char path[40];
    hw_process_ranks ranks = {0};
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = hw_import_file(path, &x->p, err);
    if (rc < 0)
        return rc;
    rc = hw_series_list_init(&x->list, x->p);
    if (rc == HW_OK)
        rc = hw_process_rank_all(x->p, &x->list, &ranks);
    if (rc == HW_OK && ranks.n)
        rc = hw_process_view_init(&x->view, x->p, &x->list, ranks.v[0].upid);
    if (rc == HW_OK && x->view.moments.n)
        rc = hw_process_values(x->p, &x->list, ranks.v[0].upid,
                               x->view.moments.v[x->view.moments.n - 1].ts_ns, false, &x->values);
    if (rc == HW_OK)
        rc = hw_functions_new(x->p->callsites, NULL, &x->functions);
    if (rc == HW_OK)
        rc = hw_places_find(x->p->callsites, x->functions, &x->values, HW_METRIC_SPACE, &x->places);
    if (rc == HW_OK)
        rc = hw_demangler_new(hw_callsites_strings(x->p->callsites), &x->demangler);
    x->namer = (struct hw_namer){hw_demangle_shown, x->demangler};
    if (rc == HW_OK && ranks.n)
        x->program =
            hw_program_find(x->p->callsites, &x->values, hw_process_name(x->p, ranks.v[0].upid));
    if (rc == HW_OK)
        rc = make_labels(x);
    if (rc == HW_OK)
        rc = make_rows(x);
    hw_vec_done(&ranks);
    return rc < 0 && err->code == 0 ? hw_fail(err, rc, 0, "look:") : rc;
}

static void remember(struct hw_live_model *m, double space)
{
    if (m->n_history == HW_LIVE_HISTORY)
        memmove(m->history, m->history + 1, --m->n_history * sizeof *m->history);
    m->history[m->n_history++] = space;
}

static void compare(struct hw_live_model *m, double seconds)
{
    for (size_t i = 0; i < m->now.rows.n; i++) {
        struct hw_live_row *r = &m->now.rows.v[i];
        uint64_t base = 0, before = 0;
        (void)hw_map64_get(&m->base, r->key, &base);     /* none: it is new */
        (void)hw_map64_get(&m->before, r->key, &before); /* none: all of it counts */
        r->growth = r->self.space - (int64_t)base;
        double more = (double)r->self.alloc_space - (double)before;
        r->rate = seconds > 0 && more > 0 ? more / seconds : 0;
        /* out of memory: no rate next time */
        (void)hw_map64_put(&m->before, r->key, (uint64_t)r->self.alloc_space);
    }
}

void hw_live_model_rebase(struct hw_live_model *m)
{
    hw_map64_done(&m->base);
    m->base_space = m->total.space;
    for (size_t i = 0; i < m->now.rows.n; i++) {
        struct hw_live_row *r = &m->now.rows.v[i];
        (void)hw_map64_put(&m->base, r->key, (uint64_t)r->self.space); /* no memory: shows more */
        r->growth = 0;
    }
}

int hw_live_model_update(struct hw_live_model *m, int fd, const struct hw_control_live *facts,
                         uint64_t rss_bytes, uint64_t now_ns, struct hw_error *err)
{
    struct hw_live_now next = {0};
    int rc = read_look(fd, &next, err);
    if (rc < 0) {
        now_done(&next);
        return rc;
    }
    bool first = m->first_ns == 0;
    double seconds = first ? 0 : (double)(now_ns - m->at_ns) / 1e9;
    struct hw_value before = m->total;
    now_done(&m->now);
    m->now = next;
    m->now.namer.ctx = m->now.demangler;
    m->facts = *facts;
    m->rss_bytes = rss_bytes;
    m->at_ns = now_ns;
    m->total = (struct hw_value){0};
    if (m->now.view.moments.n)
        m->total = m->now.view.moments.v[m->now.view.moments.n - 1].total;
    m->interval_bytes = m->now.view.interval_bytes;
    m->error = hw_value_error(&m->total, HW_METRIC_SPACE, m->interval_bytes);
    m->peak_space = m->total.space > m->peak_space ? m->total.space : m->peak_space;
    if (seconds > 0) {
        m->alloc_rate = (double)(m->total.alloc_space - before.alloc_space) / seconds;
        m->alloc_count_rate = (double)(m->total.alloc_objects - before.alloc_objects) / seconds;
    }
    remember(m, (double)m->total.space);
    compare(m, seconds);
    if (first) {
        m->first_ns = now_ns;
        hw_live_model_rebase(m);
    }
    return HW_OK;
}

void hw_live_model_done(struct hw_live_model *m)
{
    now_done(&m->now);
    hw_map64_done(&m->base);
    hw_map64_done(&m->before);
}

static int64_t order_of(const struct hw_live_row *r, enum hw_live_order by)
{
    switch (by) {
    case HW_LIVE_BY_SELF:
        return r->self.space;
    case HW_LIVE_BY_TOTAL:
        return r->total.space;
    case HW_LIVE_BY_COUNT:
        return r->self.objects;
    case HW_LIVE_BY_GROWTH:
        return r->growth;
    }
    return 0;
}

static int by_order(const void *a, const void *b, void *ctx)
{
    const struct hw_live_row *x = a, *y = b;
    enum hw_live_order by = *(const enum hw_live_order *)ctx;
    int64_t p = order_of(x, by), q = order_of(y, by);
    if (p == q) {
        p = x->self.space;
        q = y->self.space;
    }
    if (p == q) {
        p = x->total.space;
        q = y->total.space;
    }
    return p < q ? 1 : p > q ? -1 : strcmp(x->label, y->label);
}

void hw_live_model_sort(struct hw_live_model *m, enum hw_live_order by)
{
    if (m->now.rows.n)
        qsort_r(m->now.rows.v, m->now.rows.n, sizeof *m->now.rows.v, by_order, &by);
}
