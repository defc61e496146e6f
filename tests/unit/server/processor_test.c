/* Questions that are ended from outside. */
#include <string.h>

#include "base/error.h"
#include "server/rpc/processor.h"
#include "test.h"

static const char endless[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                              " SELECT max(i) FROM n";

/* Between the last look at the job and the first step of its query. */
static int cancelled_just_now(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    hw_processor_cancel(ctx);
    return hw_sql_run(db, endless, strlen(endless), NULL, NULL, err);
}

static void test_cancel_before_first_step(void **unused)
{
    struct hw_processor_options o = {.limits = {.timeout_ms = 20000}};
    struct hw_processor *p;
    struct hw_error err = {0};
    (void)unused;
    assert_int_equal(hw_processor_new(&o, &p, &err), HW_OK);
    struct hw_processor_job job = {.processor = p};
    assert_int_equal(hw_processor_with(p, &job, cancelled_just_now, &job, &err), HW_ETIMEOUT);
    assert_string_equal(err.text, "interrupted"); /* not: took too long */
    hw_processor_free(p);
}

/* ---- memory ---- */

static int run(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    return hw_sql_run(db, ctx, strlen(ctx), NULL, NULL, err);
}

static int ask(struct hw_processor *p, uint64_t client, const char *sql)
{
    struct hw_processor_job job = {.processor = p, .client = client};
    struct hw_error err = {0};
    int rc = hw_processor_with(p, &job, run, (void *)(uintptr_t)sql, &err);
    if (rc < 0)
        print_message("client %d: %s\n", (int)client, err.text);
    return rc;
}

/* One client's tables hold most of the memory: another's query has room nevertheless, and small
 * tables stay. */
static void test_tables_of_others(void **unused)
{
    static const char large[] = "CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
                                " SELECT i + 1 FROM n LIMIT 48) SELECT zeroblob(1000000) FROM n";
    static const char needs[] = "SELECT length(group_concat(x, '')) FROM (WITH RECURSIVE n(i) AS"
                                " (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20)"
                                " SELECT hex(zeroblob(500000)) x FROM n)";
    struct hw_processor_options o = {.limits = {.timeout_ms = 20000}};
    struct hw_processor *p;
    struct hw_error err = {0};
    (void)unused;
    hw_sql_limit_memory(64 << 20);
    assert_int_equal(hw_processor_new(&o, &p, &err), HW_OK);
    assert_int_equal(ask(p, 3, "CREATE TABLE small(a)"), HW_OK);
    assert_int_equal(ask(p, 1, large), HW_OK);
    assert_int_equal(ask(p, 1, "SELECT count(*) FROM t"), HW_OK);
    assert_int_equal(ask(p, 2, needs), HW_OK);
    assert_int_equal(ask(p, 3, "SELECT * FROM small"), HW_OK);
    hw_processor_free(p);
    hw_sql_limit_memory(0);
}

HW_TEST_MAIN(cmocka_unit_test(test_cancel_before_first_step),
             cmocka_unit_test(test_tables_of_others))
