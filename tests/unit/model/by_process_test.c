/* Compares the index with a search through all rows. */
#include "model/by_process.h"

#include "test.h"

struct row {
    hw_upid upid;
    int64_t other;
};

static void check(const struct row *rows, size_t n, uint32_t n_processes)
{
    struct hw_by_process b = {0};
    assert_int_equal(hw_by_process_init(&b, rows, n, sizeof *rows), 0);
    for (uint32_t u = 0; u < n_processes + 2; u++) {
        struct hw_process_rows of = hw_by_process_of(&b, (hw_upid){u});
        size_t seen = 0;
        for (uint32_t i = 0; i < n; i++)
            if (rows[i].upid.v == u) {
                assert_true(seen < of.n);
                assert_int_equal(of.v[seen++], i);
            }
        assert_int_equal(seen, of.n);
    }
    assert_int_equal(hw_by_process_of(&b, (hw_upid){HW_ID_NONE}).n, 0);
    hw_by_process_done(&b);
}

static void random_rows_match_a_search(void **state)
{
    (void)state;
    enum { MAX_ROWS = 60, MAX_PROCESSES = 9 };
    uint64_t x = 1;
    for (int round = 0; round < 500; round++) {
        struct row rows[MAX_ROWS];
        x = x * 6364136223846793005u + 1442695040888963407u;
        size_t n = (x >> 33) % (MAX_ROWS + 1);
        for (size_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint32_t u = (uint32_t)(x >> 33) % (MAX_PROCESSES + 1);
            rows[i] = (struct row){{u == MAX_PROCESSES ? HW_ID_NONE : u}, -1};
        }
        check(rows, n, MAX_PROCESSES);
    }
}

static void no_rows(void **state)
{
    (void)state;
    struct hw_by_process b = {0};
    assert_int_equal(hw_by_process_of(&b, (hw_upid){0}).n, 0);
    assert_int_equal(hw_by_process_init(&b, NULL, 0, sizeof(struct row)), 0);
    assert_int_equal(hw_by_process_of(&b, (hw_upid){0}).n, 0);
    hw_by_process_done(&b);
}

HW_TEST_MAIN(cmocka_unit_test(random_rows_match_a_search), cmocka_unit_test(no_rows))
