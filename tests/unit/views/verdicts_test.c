/*
 * How often verdicts are right, on programs with a known answer: each asks for memory at random
 * moments, a sampler sees it at points INTERVAL bytes apart on average, dumps are taken at even
 * times. A steady leak of twelve samples or more is found in at least 95 % of them; what fills up
 * and stays, comes and goes, was there from the start, or (24 samples or more) came with the last of
 * several loads is never called a likely leak. Fixed seed.
 */
#include <math.h>

#include "test.h"

#include "views/fill.h"
#include "views/findings/leaks.h"

enum { RUNS = 200, INTERVAL = 524288, MAX_DUMPS = 60 };

static uint64_t state = 7;

static double uniform(void) /* (0, 1) */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 0.5) * 0x1p-53;
}

enum shape { LEAK, LEAK_ON_BASE, PLATEAU, SAWTOOTH, START_UP, CHURN, REPLACING, LOAD, SHAPES };

/* Samples of a program of `many` samples: when each came and went, as shares of the run. */
struct life {
    double came, went; /* went > 1: lives on */
};

static struct life live_one(enum shape s, size_t i, size_t many)
{
    double u = uniform();
    switch (s) {
    case LEAK:
        return (struct life){u, 2};
    case LEAK_ON_BASE: /* as much again from the start */
        return (struct life){i < many / 2 ? 0.001 * u : u, 2};
    case PLATEAU:
        return (struct life){u * 0.55, 2};
    case SAWTOOTH: /* flushed five times */
        return (struct life){u, (floor(u * 5.3) + 1) / 5.3};
    case START_UP:
        return (struct life){u * 0.08, 2};
    case CHURN:
        return (struct life){u, u + 0.03 * uniform()};
    case REPLACING: /* a full cache: each entry makes room for another after a third of the run */
        return (struct life){i < many / 4 ? 0.05 * u : u, i < many / 4 ? u / 3 : u + 0.33};
    case LOAD: /* one of several loads, the last but for a little rest: its data stay */
        return (struct life){0.55 + 0.4 * u, 2};
    case SHAPES:
        break;
    }
    return (struct life){0, 0};
}

static struct hw_profile *record(enum shape s, size_t many, int n_dumps)
{
    struct hw_profile *p;
    struct life lives[4096];
    assert_true(many <= 4096);
    for (size_t i = 0; i < many; i++)
        lives[i] = live_one(s, i, many);
    assert_int_equal(hw_profile_new(&p), 0);
    for (int d = 0; d < n_dumps; d++) {
        double from = d ? (double)d / n_dumps : -1, to = (double)(d + 1) / n_dumps;
        uint32_t dump = fill_dump(p, 7, "libc.malloc", (d + 1) * 1000000000ll, INTERVAL, 0);
        int64_t came = 0, went = 0;
        for (size_t i = 0; i < many; i++) {
            came += lives[i].came > from && lives[i].came <= to;
            went += lives[i].went > from && lives[i].went <= to;
        }
        if (came)
            fill_row(p, dump, "main;serve;remember;malloc@/lib/libc.so", came, came * INTERVAL);
        if (went)
            fill_row(p, dump, "main;serve;remember;malloc@/lib/libc.so", -went, -went * INTERVAL);
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

static bool is_likely(struct hw_profile *p)
{
    struct hw_series_list list;
    struct hw_process_view view;
    struct hw_functions *fns;
    struct hw_leaks leaks;
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_process_view_init(&view, p, &list, (hw_upid){0}), 0);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &fns), 0);
    struct hw_leaks_query q = {.p = p, .list = &list, .view = &view, .fns = fns};
    assert_int_equal(hw_leaks_find(&q, &leaks), 0);
    bool likely = leaks.v.n && leaks.v.v[0].verdict == HW_LEAK_LIKELY;
    hw_leaks_done(&leaks);
    hw_functions_free(fns);
    hw_process_view_done(&view);
    hw_series_list_done(&list);
    hw_profile_free(p);
    return likely;
}

static void each_shape(void **unused)
{
    (void)unused;
    static const char *const names[SHAPES] = {"leak",     "leak on a base", "plateau",   "sawtooth",
                                              "start-up", "churn",          "replacing", "load"};
    static const size_t samples[] = {12, 24, 80, 500};
    static const int dumps[] = {8, 20, MAX_DUMPS};
    for (int s = 0; s < SHAPES; s++)
        for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++)
            for (size_t d = 0; d < sizeof dumps / sizeof dumps[0]; d++) {
                if (s == LOAD && samples[k] < 24)
                    continue; /* twelve may come late by chance */
                size_t many = samples[k] * (s == LEAK_ON_BASE ? 2 : 1);
                int likely = 0;
                for (int run = 0; run < RUNS; run++)
                    likely += is_likely(record((enum shape)s, many, dumps[d]));
                bool leaks = s == LEAK || s == LEAK_ON_BASE;
                if (leaks ? likely < RUNS * 95 / 100 : likely > 0)
                    fail_msg("%s of %zu samples, %d dumps: %d of %d called likely leaks", names[s],
                             many, dumps[d], likely, RUNS);
            }
}

HW_TEST_MAIN(cmocka_unit_test(each_shape))
