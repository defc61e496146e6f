#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "test.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/side_thread.h"

struct piece {
    pthread_t thread;
    int rc;
};

static int work(void *ctx)
{
    struct piece *p = ctx;
    p->thread = pthread_self();
    return p->rc;
}

static void one_processor(cpu_set_t *all)
{
    cpu_set_t first;
    assert_int_equal(sched_getaffinity(0, sizeof *all, all), 0);
    CPU_ZERO(&first);
    for (size_t c = 0; CPU_COUNT(&first) == 0; c++)
        if (CPU_ISSET(c, all))
            CPU_SET(c, &first);
    assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
}

static void errors_come_back(void **unused)
{
    static const int rcs[] = {HW_OK, HW_ENOMEM, HW_EFORMAT};
    cpu_set_t all;
    (void)unused;
    for (size_t i = 0; i < 2 * HW_ARRAY_LEN(rcs); i++) {
        struct piece p = {.rc = rcs[i / 2]};
        struct hw_side_thread b;
        if (i % 2)
            one_processor(&all);
        hw_side_thread_begin(&b, work, &p);
        bool beside = b.runs;
        assert_int_equal(hw_side_thread_end(&b), rcs[i / 2]);
        assert_int_equal(pthread_equal(p.thread, pthread_self()) == 0, beside);
        if (i % 2) {
            assert_false(beside);
            assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
        } else {
            assert_int_equal(beside, hw_processors() > 1);
        }
    }
}

static void count(void *ctx, size_t from, size_t end)
{
    unsigned char *seen = ctx;
    for (size_t i = from; i < end; i++)
        seen[i]++;
}

static void halves_are_all(void **unused)
{
    static const size_t sizes[] = {0, 1, HW_WORTH_TWO - 1, HW_WORTH_TWO, 3 * HW_WORTH_TWO + 1};
    (void)unused;
    for (size_t i = 0; i < HW_ARRAY_LEN(sizes); i++) {
        unsigned char *seen = calloc(sizes[i] + 1, 1);
        assert_non_null(seen);
        hw_in_halves(sizes[i], count, seen);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(seen[k], 1);
        assert_int_equal(seen[sizes[i]], 0);
        free(seen);
    }
}

HW_TEST_MAIN(cmocka_unit_test(errors_come_back), cmocka_unit_test(halves_are_all))
