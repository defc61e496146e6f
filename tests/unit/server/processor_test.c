/* Questions that are ended from outside. */
#include <string.h>

#include "base/error.h"
#include "server/processor.h"
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

HW_TEST_MAIN(cmocka_unit_test(test_cancel_before_first_step))
