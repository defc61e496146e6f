/* Rows of a store become figures: means, their errors, steps; damaged answers. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "fleet/rows_write.h"
#include "model/profile.h"
#include "views/time/process_view.h"
#include "views/time/series.h"

struct read {
    struct canned_source canned;
    struct hw_fleet_source from;
    struct hw_fleet_where where;
    struct hw_fleet_result answer;
    struct hw_series_list list;
    struct hw_process_view view;
};

static void begin(struct read *r)
{
    *r = (struct read){.where = {.since_s = 1000, .until_s = 5000}};
    r->from = (struct hw_fleet_source){canned_ask, &r->canned, "store"};
}

static void look(struct read *r)
{
    assert_int_equal(hw_series_list_init(&r->list, r->answer.p), 0);
    assert_int_equal(hw_process_view_init(&r->view, r->answer.p, &r->list, (hw_upid){0}), 0);
}

static void end(struct read *r)
{
    hw_process_view_done(&r->view);
    hw_series_list_done(&r->list);
    hw_fleet_result_done(&r->answer);
    canned_done(&r->canned);
}

static void put_sum(struct hw_strbuf *b, uint64_t stack, int64_t bytes, int64_t objects,
                    double variance, double variance_objects)
{
    put_u64(b, stack);
    put_u64(b, (uint64_t)bytes);
    put_u64(b, (uint64_t)objects);
    put_real(b, variance);
    put_real(b, variance_objects);
}

/* 10 dumps of 5 processes: every sum by 10, every variance by 50. */
static void means(void **state)
{
    (void)state;
    struct read r;
    begin(&r);
    put_moments(canned_add(&r.canned, "any(ts)"), 10, 5);
    struct hw_strbuf *sums = canned_add(&r.canned, "sum(space)");
    put_sum(sums, 7, 10000, 20, 5e6, 50);
    put_sum(sums, 8, 3000, 10, 0, 0);
    put_sum(sums, 9, 500, 10, 0, 200); /* no frames in the store */
    struct hw_strbuf *stacks = canned_add(&r.canned, "hash IN (7,8,9)");
    put_stack(stacks, 7, "main;work;leaf");
    put_stack(stacks, 7, "main;work;other"); /* a part not merged yet: the first stays */
    put_stack(stacks, 8, "main;idle");
    assert_int_equal(hw_fleet_get(&r.from, &r.where, HW_METRIC_SPACE, &r.answer, NULL), 0);
    assert_int_equal(r.answer.n_stacks, 3);
    assert_int_equal(r.answer.n_unknown, 1);
    look(&r);
    assert_int_equal(r.view.moments.n, 1);
    assert_int_equal(r.view.moments.v[0].total.space, 1350);
    assert_true(fabs(r.view.moments.v[0].total.variance - 1e5) < 1);
    assert_true(fabs(hw_value_error(&r.view.moments.v[0].total, HW_METRIC_OBJECTS, 4096) -
                     2 * sqrt(250.0 / 50)) < 1e-4);
    assert_int_equal(r.view.interval_bytes, 4096);
    hw_values values = {0};
    assert_int_equal(hw_process_values(r.answer.p, &r.list, (hw_upid){0}, r.view.moments.v[0].ts_ns,
                                       false, &values),
                     0);
    assert_int_equal(values.n, 3);
    for (size_t i = 0; i < values.n; i++) {
        if (values.v[i].v.space != 1000)
            continue;
        assert_int_equal(values.v[i].v.objects, 2);
        assert_int_equal(values.v[i].v.samples, 10); /* 1000² / 1e5 */
        const struct hw_callsite *leaf =
            hw_callsites_get(r.answer.p->callsites, values.v[i].callsite);
        const struct hw_frame *f = hw_callsites_get_frame(r.answer.p->callsites, leaf->frame);
        struct hw_strings *names = hw_callsites_strings(r.answer.p->callsites);
        assert_string_equal(hw_strings_cstr(names, f->name), "leaf");
        assert_string_equal(hw_strings_cstr(names, f->file), "a.c");
        assert_int_equal(f->line, 3);
        assert_int_equal(leaf->depth, 2);
    }
    hw_vec_done(&values);
    end(&r);
}

/* A thousand callstacks with a third of an object each hold 333 together. */
static void thirds_add_up(void **state)
{
    (void)state;
    struct read r;
    begin(&r);
    put_moments(canned_add(&r.canned, "any(ts)"), 3, 1);
    struct hw_strbuf *sums = canned_add(&r.canned, "sum(alloc_space)");
    struct hw_strbuf *stacks = canned_add(&r.canned, "hash IN");
    for (uint64_t i = 0; i < 1000; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "main;f%d", (int)i);
        put_sum(sums, i, 100, 1, 900, 9);
        put_stack(stacks, i, name);
    }
    assert_int_equal(hw_fleet_get(&r.from, &r.where, HW_METRIC_ALLOC_SPACE, &r.answer, NULL), 0);
    look(&r);
    const struct hw_value *v = &r.view.moments.v[0].total;
    assert_true(llabs(v->alloc_objects - 333) <= 1);
    assert_true(llabs(v->alloc_space - 33333) <= 1);
    /* 3 dumps, each with samples of its own: sums of variances by 9. */
    assert_true(fabs(hw_value_error(v, HW_METRIC_ALLOC_SPACE, 4096) - 2 * sqrt(1e5)) < 0.1);
    assert_true(fabs(hw_value_error(v, HW_METRIC_ALLOC_OBJECTS, 4096) - 2 * sqrt(1e3)) < 0.01);
    assert_int_equal(v->space, 0); /* what lives was not asked */
    assert_int_equal(v->objects, 0);
    end(&r);
}

static void put_step(struct hw_strbuf *b, uint32_t step, uint64_t stack, int64_t space,
                     int64_t alloc)
{
    put_u32(b, step);
    put_u64(b, stack);
    put_u64(b, (uint64_t)space);
    put_u64(b, (uint64_t)space / 10);
    put_real(b, (double)space * 100);
    put_real(b, (double)space / 100);
    put_u64(b, (uint64_t)alloc);
    put_u64(b, (uint64_t)alloc / 10);
    put_real(b, (double)alloc * 100);
    put_real(b, (double)alloc / 100);
}

static void steps(void **state)
{
    (void)state;
    struct read r;
    begin(&r);
    struct hw_strbuf *moments = canned_add(&r.canned, "any(ts)");
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 2)
            continue; /* nobody recorded then */
        put_u32(moments, i);
        put_moments(moments, 2, 1);
    }
    struct hw_strbuf *sums = canned_add(&r.canned, "sum(space)");
    put_step(sums, 3, 7, 8000, 1000);
    put_step(sums, 0, 7, 2000, 5000);
    put_step(sums, 1, 7, 4000, 2000);
    put_step(sums, 1, 8, 600, 300); /* only there */
    struct hw_strbuf *stacks = canned_add(&r.canned, "hash IN");
    put_stack(stacks, 7, "main;grow");
    put_stack(stacks, 8, "main;once");
    assert_int_equal(hw_fleet_get_steps(&r.from, &r.where, 1000, &r.answer, NULL), 0);
    look(&r);
    static const int64_t space[] = {1000, 2300, 4000}, ts_s[] = {0, 1000, 3000};
    /* What came is at least what is more; 5000 were asked for at the first step, … */
    static const int64_t alloc[] = {5000, 5000 + 2000 + 300, 5000 + 2000 + 300 + 2000};
    /* At the last step more came than was asked for: that has the variance of what lives. */
    static const double asked[] = {5000, 5000 + 2000 + 300, 5000 + 2000 + 300 + 4000};
    assert_int_equal(r.view.moments.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r.view.moments.v[i].ts_ns, ts_s[i] * 1000000000);
        assert_int_equal(r.view.moments.v[i].total.space, space[i]);
        assert_int_equal(r.view.moments.v[i].total.objects, space[i] / 10);
        const struct hw_value *v = &r.view.moments.v[i].total;
        assert_int_equal(v->alloc_space, alloc[i]);
        /* 2 dumps of 1 process: of what lives by 2, of what was asked for by 1. */
        assert_true(fabs(hw_value_variance(v, HW_METRIC_SPACE) - (double)space[i] * 100) < 1);
        assert_true(fabs(hw_value_variance(v, HW_METRIC_OBJECTS) - (double)space[i] / 100) < 0.1);
        assert_true(fabs(hw_value_variance(v, HW_METRIC_ALLOC_SPACE) - asked[i] * 100) < 1);
        assert_true(fabs(hw_value_variance(v, HW_METRIC_ALLOC_OBJECTS) - asked[i] / 100) < 0.1);
    }
    struct hw_fleet_result none;
    assert_int_equal(hw_fleet_get_steps(&r.from, &r.where, 1, &none, NULL), HW_ELIMIT);
    end(&r);
}

static void damaged(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 8; cut++) {
        struct read r;
        struct hw_error err = {0};
        begin(&r);
        put_moments(canned_add(&r.canned, "any(ts)"), 3, 1);
        struct hw_strbuf *sums = canned_add(&r.canned, "sum(space)");
        put_sum(sums, 7, 100, 1, cut == 1 ? NAN : 0, 0);
        struct hw_strbuf *stacks = canned_add(&r.canned, "hash IN");
        put_stack(stacks, 7, "main;work;leaf");
        if (cut == 2)
            hw_strbuf_adds(sums, "x");
        else if (cut == 3)
            stacks->n -= 1;
        else if (cut == 4)
            stacks->p[8] = (char)0xff; /* a length of many bytes */
        else if (cut == 5)
            hw_strbuf_adds(stacks, "Code: 241, e.displayText() = DB::Exception: Memory limit");
        else if (cut == 6)
            r.canned.v[0].reply.n = 0; /* no rows */
        else if (cut == 7)
            memset(r.canned.v[0].reply.p, 0, 16); /* no dumps */
        int rc = hw_fleet_get(&r.from, &r.where, HW_METRIC_SPACE, &r.answer, &err);
        assert_int_equal(rc, cut < 5 ? HW_EFORMAT : cut == 5 ? HW_EGONE : HW_ENOTFOUND);
        assert_true(err.text[0] != 0);
        assert_null(r.answer.p);
        canned_done(&r.canned);
    }
}

static void push_host(struct hw_fleet_hosts *h, double mean, double error)
{
    char name[16];
    (void)snprintf(name, sizeof name, "h%zu", h->v.n);
    struct hw_fleet_host host = {.name = strdup(name), .mean = mean, .error = error};
    if (hw_vec_push(&h->v, host) < 0)
        abort();
}

static void hosts(void **state)
{
    (void)state;
    struct hw_fleet_hosts h = {0};
    for (int i = 0; i < 99; i++) /* median 149, median distance 25 */
        push_host(&h, 100 + i, 1);
    push_host(&h, 149 + 150, 1);
    push_host(&h, 149 - 100, 1);   /* 2.7 spreads */
    push_host(&h, 149 + 200, 300); /* far, but not known to be */
    assert_int_equal(hw_fleet_hosts_judge(&h), 0);
    assert_true(fabs(h.median - 149.5) <= 1 && fabs(h.spread - 1.4826 * 25.5) <= 2);
    assert_string_equal(h.v.v[0].name, "h99");
    assert_true(h.v.v[0].deviates && !h.v.v[1].deviates);
    assert_string_equal(h.v.v[1].name, "h101");
    hw_fleet_hosts_done(&h);

    for (int i = 0; i < 6; i++) /* all but one are the same */
        push_host(&h, i == 3 ? 11 : 10, 0);
    assert_int_equal(hw_fleet_hosts_judge(&h), 0);
    assert_true(h.spread == 0 && h.v.v[0].deviates && !h.v.v[1].deviates);
    hw_fleet_hosts_done(&h);

    for (int i = 0; i < 4; i++) /* four are too few */
        push_host(&h, i == 3 ? 100 : 10, 0);
    assert_int_equal(hw_fleet_hosts_judge(&h), 0);
    assert_false(h.v.v[0].deviates);
    hw_fleet_hosts_done(&h);
}

HW_TEST_MAIN(cmocka_unit_test(means), cmocka_unit_test(thirds_add_up), cmocka_unit_test(steps),
             cmocka_unit_test(damaged), cmocka_unit_test(hosts))
