/*
 * pprof_errors_test.c - the errors read from a file of continuous recording: pprof has no place for
 * them, so they follow from count, bytes, period, and how many starts the processes stand for
 */
#include <math.h>

#include "test.h"

#include "base/error.h"
#include "export/export.h"
#include "import/pprof_reader.h"
#include "views/fill.h"
#include "views/time/values.h"

enum { PERIOD = 65536, SITES = 4, MAX_COMMENTS = 3 };

/* A period of processes that gave everything back: alloc_space of `size` at each of some sites. */
static void write_pprof(const char *const *comments, int64_t count, int64_t size, char **bytes,
                        size_t *n)
{
    static const char *const stack[SITES] = {"main;a", "main;b", "main;c", "main;d"};
    struct hw_profile *p = NULL;
    hw_values values = {0}, base = {0};
    assert_int_equal(hw_profile_new(&p), 0);
    (void)fill_dump(p, 4211, "libc.malloc", 1000, PERIOD, 0);
    for (size_t i = 0; i < SITES; i++) {
        hw_callsite_id c = fill_stack(p, stack[i]);
        struct hw_callsite_value v = {c, {.alloc_space = size, .alloc_objects = count}};
        assert_int_equal(hw_vec_push(&values, v), 0);
        assert_int_equal(hw_vec_push(&base, ((struct hw_callsite_value){.callsite = c})), 0);
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    size_t n_comments = 0;
    while (comments[n_comments])
        n_comments++;
    struct hw_scrape_form form = {.time_ns = 1000000,
                                  .duration_ns = 1000,
                                  .base = &base,
                                  .comments = comments,
                                  .n_comments = n_comments};
    struct hw_export_input in = {.profile = p,
                                 .values = &values,
                                 .upid = {HW_ID_NONE},
                                 .interval_bytes = PERIOD,
                                 .scrape = &form};
    FILE *out = open_memstream(bytes, n);
    assert_non_null(out);
    assert_int_equal(hw_export_pprof.write(&in, out, NULL), 0);
    assert_int_equal(fclose(out), 0);
    hw_vec_done(&values);
    hw_vec_done(&base);
    hw_profile_free(p);
}

static struct hw_value total_of(const char *const *comments, int64_t count, int64_t size)
{
    char *bytes = NULL;
    size_t n = 0;
    struct hw_profile *p = NULL;
    struct hw_series_list list;
    hw_values values = {0};
    struct hw_value total = {0};
    write_pprof(comments, count, size, &bytes, &n);
    assert_int_equal(hw_profile_new(&p), 0);
    assert_int_equal(hw_import_pprof.read(hw_bytes_of(bytes, n), p, NULL), 0);
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(list.v.n, 1);
    assert_int_equal(hw_values_at(p, &list.v.v[0], (uint32_t)p->dumps.n - 1, &values), 0);
    assert_int_equal(values.n, SITES);
    for (size_t i = 0; i < values.n; i++)
        hw_value_add(&total, &values.v[i].v);
    assert_int_equal(total.alloc_space, SITES * size);
    hw_vec_done(&values);
    hw_series_list_done(&list);
    hw_profile_free(p);
    free(bytes);
    return total;
}

static void near(const char *what, double is, double want)
{
    if (fabs(is - want) > 0.02 * want)
        fail_msg("%s: %.1f, not %.1f", what, is, want);
}

static double error_of(const struct hw_value *v, enum hw_metric m)
{
    return hw_value_error(v, m, PERIOD);
}

/* What was freed again has its error like what lives. */
static void freed_has_its_error(void **state)
{
    static const char *const none[] = {NULL};
    double s = 2000, n = SITES * 1000, p = 1 - exp(-s / PERIOD);
    (void)state;
    struct hw_value v = total_of(none, 1000, 2000 * 1000);
    near("alloc_space", error_of(&v, HW_METRIC_ALLOC_SPACE), 2 * s * sqrt(n * (1 - p) / p));
    near("alloc_objects", error_of(&v, HW_METRIC_ALLOC_OBJECTS), 2 * sqrt(n * (1 - p) / p));
    assert_true(error_of(&v, HW_METRIC_SPACE) == 0);
    assert_true(fabs((double)v.alloc_samples - n * p) <= SITES); /* and not what they stand for */
}

/* One process for sixteen starts: all of its sites are too large together, or too small. */
static void sites_share_the_choice(void **state)
{
    static const char *const one[] = {"heapwise.starts=16", NULL};
    double x = SITES * 16 * 2000.0 * 1000, s = 2000, n = SITES * 16 * 1000.0;
    double p = 1 - exp(-s / PERIOD), own = 16 * n * s * s * (1 - p) / p;
    (void)state;
    struct hw_value v = total_of(one, 16 * 1000, 16 * 2000 * 1000);
    near("alloc_space", error_of(&v, HW_METRIC_ALLOC_SPACE), 2 * sqrt(x * x * 15 / 16 + own));
    near("alloc_objects", error_of(&v, HW_METRIC_ALLOC_OBJECTS),
         2 * sqrt(x * x * 15 / 16 + own) / s);
}

/* Four that were recorded anyway and one that stands for sixteen: w (w - 1) of each, over 20². */
static void weights_differ(void **state)
{
    static const char *const five[] = {"heapwise.processes=5", "heapwise.starts=20",
                                       "heapwise.starts_variance=240", NULL};
    double x = SITES * 20 * 2000.0 * 1000, s = 2000, n = SITES * 20 * 1000.0;
    double p = 1 - exp(-s / PERIOD), own = (1 + 240.0 / 20) * n * s * s * (1 - p) / p;
    (void)state;
    struct hw_value v = total_of(five, 20 * 1000, 20 * 2000 * 1000);
    near("alloc_space", error_of(&v, HW_METRIC_ALLOC_SPACE),
         2 * sqrt(x * x * 240 / (20 * 20) + own));
}

HW_TEST_MAIN(cmocka_unit_test(freed_has_its_error), cmocka_unit_test(sites_share_the_choice),
             cmocka_unit_test(weights_differ))
