/* Conditions: each form, what may follow it, and what is refused. */
#include <string.h>

#include "base/error.h"
#include "config/when.h"

#include "test.h"

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum hw_when_act act;
        enum hw_when_kind kind;
        uint64_t limit;
    } rows[] = {
        {"rss>2G", HW_ACT_STOP, HW_WHEN_RSS, 2ull << 30},
        {"rss>=2G", HW_ACT_DUMP, HW_WHEN_RSS, 2ull << 30},
        {"rss = 1.5M", HW_ACT_DUMP, HW_WHEN_RSS, 3ull << 19},
        {"rss+500M", HW_ACT_DUMP, HW_WHEN_RSS_GROWTH, 500ull << 20},
        {"rss + 4096", HW_ACT_STOP, HW_WHEN_RSS_GROWTH, 4096},
        {"time>2m", HW_ACT_DUMP, HW_WHEN_TIME, 120000},
        {"samples>7", HW_ACT_STOP, HW_WHEN_SAMPLES, 7},
        {"dumps=10", HW_ACT_STOP, HW_WHEN_DUMPS, 10},
        {"dumps>10", HW_ACT_STOP, HW_WHEN_DUMPS, 10},
        {"failure", HW_ACT_DUMP, HW_WHEN_FAILURE, 1},
        {"memory-limit", HW_ACT_DUMP, HW_WHEN_MEMORY_LIMIT, HW_WHEN_LIMIT_PERCENT},
        {"memory-limit>80%", HW_ACT_STOP, HW_WHEN_MEMORY_LIMIT, 80},
        {"memory-limit>5", HW_ACT_STOP, HW_WHEN_MEMORY_LIMIT, 5},
        {"rss>2G", HW_ACT_START, HW_WHEN_RSS, 2ull << 30},
        {"signal", HW_ACT_START, HW_WHEN_SIGNAL, 1},
        {"memory-limit", HW_ACT_START, HW_WHEN_MEMORY_LIMIT, HW_WHEN_LIMIT_PERCENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hw_when w;
        struct hw_error err = {0};
        if (hw_when_parse(rows[i].text, rows[i].act, &w, &err) < 0)
            fail_msg("%s: %s", rows[i].text, err.text);
        assert_int_equal(w.kind, rows[i].kind);
        assert_int_equal(w.limit, rows[i].limit);
        assert_int_equal(w.act, rows[i].act);
        assert_string_equal(w.text, rows[i].text);
        hw_when_done(&w);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "rss",
        "rss>",
        "rss>0",
        "rss>x",
        "rss<5",
        "rs>5",
        "rss+",
        "rss+0",
        "time>",
        "time+5s",
        "failure>1",
        "dumps",
        "dumps=0",
        "dumps+1",
        "memory-limit>0",
        "memory-limit>100",
        "memory-limit>",
        "memory-limit+5",
        "rss>99999999999999999999",
        ">5",
        "memory-limit>123456789%",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int stops = 0; stops < 2; stops++) {
            struct hw_when w;
            struct hw_error err = {0};
            if (hw_when_parse(rows[i], stops, &w, &err) == 0)
                fail_msg("'%s' was taken", rows[i]);
            assert_true(err.text[0]);
        }
    struct hw_when w;
    assert_int_equal(hw_when_parse("dumps=5", /* stops = */ false, &w, NULL), HW_EINVAL);
    char text[200] = "rss>5";
    memset(text + 5, ' ', sizeof text - 6);
    assert_int_equal(hw_when_parse(text, /* stops = */ true, &w, NULL), HW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
