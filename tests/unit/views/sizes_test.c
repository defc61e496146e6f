/* Sizes against a twin that finds each row's class by counting up and keeps one table of sums. */
#include "test.h"

#include "views/fill.h"
#include "views/findings/sizes.h"
#include "views/flame/functions.h"
#include "views/time/process_view.h"
#include "views/time/series.h"
#include "views/time/values.h"

enum { STACKS = 12, DUMPS = 6, HEAPS = 2 };

static uint32_t state_of_dice = 12345;

static int64_t dice(int64_t n)
{
    state_of_dice = state_of_dice * 1664525u + 1013904223u;
    return (int64_t)((state_of_dice >> 8) % (uint32_t)n);
}

/* Doubles hold these figures exactly, and halves; no rounding but the one asked for. */
static unsigned twin_class(int64_t space, int64_t objects)
{
    double size = (double)space / (double)(objects ? objects : 1), up_to = 1;
    unsigned c = 0;
    while (up_to + 0.5 <= size) {
        up_to *= 2;
        c++;
    }
    return c;
}

struct twin {
    struct hw_size_value v[HEAPS][STACKS][HW_SIZE_CLASSES];
    int64_t objects[HEAPS][STACKS], space[HEAPS][STACKS];
    int64_t temporary_objects[HEAPS][STACKS], temporary_space[HEAPS][STACKS];
};

static struct twin twin;

static const char *const heaps[HEAPS] = {"libc.malloc", "custom"};

static void fill_one(struct hw_profile *p, uint32_t dump, int heap, int stack)
{
    char text[64];
    int64_t count = 1 + dice(5), size = dice(2) ? count << dice(20) : dice(100000);
    (void)snprintf(text, sizeof text, "main;f%d;malloc", stack);
    fill_row(p, dump, text, count, size);
    struct hw_size_value *v = &twin.v[heap][stack][twin_class(size, count)];
    v->alloc_objects += count;
    v->alloc_space += size;
    v->exact_objects += count == 1 ? 1 : 0;
    twin.objects[heap][stack] += count;
    twin.space[heap][stack] += size;
    if (dice(3) == 0) {
        struct hw_alloc_row r = hw_alloc_row_get(&p->allocs, p->allocs.n - 1);
        r.temporary_objects = 1 + dice(3);
        r.temporary_space = r.temporary_objects * dice(5000);
        assert_int_equal(hw_alloc_rows_set(&p->allocs, p->allocs.n - 1, &r), 0);
        twin.temporary_objects[heap][stack] += r.temporary_objects;
        twin.temporary_space[heap][stack] += r.temporary_space;
    }
    if (dice(2) && twin.objects[heap][stack] > 1) {
        int64_t freed = twin.space[heap][stack] / 3;
        fill_row(p, dump, text, -1, -freed);
        twin.objects[heap][stack]--;
        twin.space[heap][stack] -= freed;
    }
}

static struct hw_profile *filled(void)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    for (int d = 0; d < DUMPS; d++)
        for (int h = 0; h < HEAPS; h++) {
            uint32_t dump = fill_dump(p, 42, heaps[h], 1000 * (d + 1), 1, 0);
            for (int s = 0; s < STACKS; s++)
                if (dice(3))
                    fill_one(p, dump, h, s);
        }
    uint32_t peak = fill_dump(p, 42, "libc.malloc", 2500, 1, HW_DUMP_AT_MAX);
    fill_row(p, peak, "main;f0;malloc", 3, 96);
    uint32_t other = fill_dump(p, 43, "libc.malloc", 1000, 1, 0);
    fill_row(p, other, "main;f0;malloc", 1, 7);
    assert_int_equal(hw_profile_freeze(p), 0);
    for (int h = 0; h < HEAPS; h++)
        for (int s = 0; s < STACKS; s++) {
            unsigned c = twin_class(twin.space[h][s], twin.objects[h][s]);
            twin.v[h][s][c].objects += twin.objects[h][s];
            twin.v[h][s][c].space += twin.space[h][s];
            c = twin_class(twin.temporary_space[h][s], twin.temporary_objects[h][s]);
            twin.v[h][s][c].temporary_objects += twin.temporary_objects[h][s];
            twin.v[h][s][c].temporary_space += twin.temporary_space[h][s];
        }
    return p;
}

static int stack_of(const struct hw_profile *p, const struct hw_functions *f, uint32_t function)
{
    const struct hw_function *fn = hw_functions_get(f, function);
    return (int)strtol(hw_strings_cstr(hw_callsites_strings(p->callsites), fn->name) + 1, NULL, 10);
}

static void as_the_twin(void **state)
{
    (void)state;
    struct hw_profile *p = filled();
    struct hw_series_list list;
    struct hw_functions *fns;
    hw_size_rows rows = {0};
    hw_values values = {0};
    struct hw_size_value sum[HW_SIZE_CLASSES], total;
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &fns), 0);
    struct hw_sizes_query q = {
        .p = p, .list = &list, .fns = fns, .upid = list.v.v[0].upid, .ts_ns = INT64_MAX};
    assert_int_equal(hw_sizes_find(&q, &rows), 0);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_size_row *r = &rows.v[i];
        const char *heap =
            hw_strings_cstr(hw_callsites_strings(p->callsites), list.v.v[r->series].heap_name);
        int h = strcmp(heap, heaps[1]) == 0, s = stack_of(p, fns, r->function);
        struct hw_size_value *want = &twin.v[h][s][r->class];
        assert_memory_equal(&r->v, want, sizeof *want);
        *want = (struct hw_size_value){0}; /* taken */
    }
    static const struct twin nothing;
    assert_memory_equal(twin.v, nothing.v, sizeof twin.v); /* none is missing */

    /* All classes together are the values that everybody else shows. */
    assert_int_equal(hw_process_values(p, &list, q.upid, INT64_MAX, false, &values), 0);
    struct hw_value all = {0};
    for (size_t i = 0; i < values.n; i++)
        hw_value_add(&all, &values.v[i].v);
    hw_sizes_sum(&rows, HW_ID_NONE, HW_ID_NONE, sum);
    total = hw_sizes_total(sum);
    assert_int_equal(total.alloc_space, all.alloc_space);
    assert_int_equal(total.alloc_objects, all.alloc_objects);
    assert_int_equal(total.space, all.space);
    assert_int_equal(total.objects, all.objects);
    assert_int_equal(total.temporary_space, all.temporary_space);
    assert_int_equal(total.temporary_objects, all.temporary_objects);

    q.ts_ns = 2500;
    q.at_max = true;
    assert_int_equal(hw_sizes_find(&q, &rows), 0);
    assert_int_equal(rows.n, 1);
    assert_int_equal(rows.v[0].class, 5);
    assert_int_equal(rows.v[0].v.space, 96);
    hw_vec_done(&rows);
    hw_vec_done(&values);
    hw_functions_free(fns);
    hw_series_list_done(&list);
    hw_profile_free(p);
}

/* The ends of classes, and figures no allocation has. */
static void ends(void **state)
{
    (void)state;
    static const struct {
        int64_t count, size;
        unsigned class;
    } cases[] = {{1, 0, 0},  {1, 1, 0},          {1, 2, 1},     {1, 3, 2},  {1, 4, 2},
                 {1, 5, 3},  {2, 9, 3},          {3, 12, 2},    {3, 13, 2}, {256, 4096, 4},
                 {0, 17, 5}, {1, INT64_MAX, 63}, {171, 4096, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hw_profile *p;
        struct hw_series_list list;
        struct hw_functions *fns;
        hw_size_rows rows = {0};
        assert_int_equal(hw_profile_new(&p), 0);
        uint32_t d = fill_dump(p, 1, "libc.malloc", 1000, 4096, 0);
        fill_row(p, d, "main;malloc", cases[i].count, cases[i].size);
        assert_int_equal(hw_profile_freeze(p), 0);
        assert_int_equal(hw_series_list_init(&list, p), 0);
        assert_int_equal(hw_functions_new(p->callsites, NULL, &fns), 0);
        struct hw_sizes_query q = {
            .p = p, .list = &list, .fns = fns, .upid = list.v.v[0].upid, .ts_ns = INT64_MAX};
        assert_int_equal(hw_sizes_find(&q, &rows), 0);
        assert_int_equal(rows.n, 1);
        if (rows.v[0].class != cases[i].class)
            fail_msg("%lld / %lld: class %u, not %u", (long long)cases[i].size,
                     (long long)cases[i].count, rows.v[0].class, cases[i].class);
        hw_vec_done(&rows);
        hw_functions_free(fns);
        hw_series_list_done(&list);
        hw_profile_free(p);
    }
}

HW_TEST_MAIN(cmocka_unit_test(as_the_twin), cmocka_unit_test(ends))
