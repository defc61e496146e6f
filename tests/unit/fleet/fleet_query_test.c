/* Text from outside in statements; times; what is no condition. ClickHouse itself reads the
 * statements in tests/e2e/serve/fleet.py. */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "fleet/query/fleet_query.h"

#define NOW ((int64_t)1772366400) /* 2026-03-01 12:00 UTC */

static char *sql_of(const char *const *conditions, size_t n, enum hw_fleet_query q,
                    const char *label)
{
    struct hw_fleet_where w;
    struct hw_strbuf out = {0};
    const uint64_t hashes[] = {1, UINT64_MAX};
    hw_fleet_where_init(&w, NOW);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(hw_fleet_where_add(&w, conditions[i], NOW, NULL), 0);
    struct hw_fleet_query_args a = {
        .query = q, .where = &w, .step_s = 60, .label = label, .hashes = hashes, .n_hashes = 2};
    hw_fleet_sql(&a, &out);
    hw_fleet_where_done(&w);
    return hw_strbuf_take(&out);
}

static void conditions(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sql;
    } cases[] = {
        {"service=checkout", " AND service = 'checkout' "},
        {"service!=a=b", " AND service != 'a=b' "},
        {"host~^web[0-9]", " AND match(host, '^web[0-9]') "},
        {"host!~x", " AND NOT match(host, 'x') "},
        {"version=", " AND version = '' "},
        {"version==1", " AND version = '=1' "},
        {"pid=4211", " AND toString(pid) = '4211' "},
        {"interval=4096", " AND toString(`interval`) = '4096' "},
        {"pod=p-1", " AND labels.v[indexOf(labels.k, 'pod')] = 'p-1' "},
        /* What tries to leave its quotes does not. */
        {"service=' OR 1=1 --", " AND service = '\\' OR 1=1 --' "},
        {"service=\\", " AND service = '\\\\' "},
        {"service=\\' OR 1 --", " AND service = '\\\\\\' OR 1 --' "},
        {"pod=\xff'; DROP TABLE samples", "'pod')] = '\xff\\'; DROP TABLE samples' "},
        {"service={where}{hashes}", " AND service = '{where}{hashes}' "},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        const char *const one[] = {cases[i].text};
        hw_autofree char *sql = sql_of(one, 1, HW_FLEET_Q_LIVE, NULL);
        if (!strstr(sql, cases[i].sql))
            fail_msg("%s: no '%s' in '%s'", cases[i].text, cases[i].sql, sql);
    }
}

static void no_conditions(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",       "service",    "=x",         "a b=1", "1a=1",      "a'=1", "labels.v=1",  "a`=1",
        "since=", "until=soon", "since=1d1h", "a!1",   "since=-1d", "a)=1", "since=2026-3"};
    struct hw_fleet_where w;
    hw_fleet_where_init(&w, NOW);
    for (size_t i = 0; i < HW_ARRAY_LEN(bad); i++) {
        struct hw_error err = {0};
        if (hw_fleet_where_add(&w, bad[i], NOW, &err) != HW_EINVAL || !err.text[0])
            fail_msg("'%s' passed", bad[i]);
    }
    assert_int_equal(w.v.n, 0);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(hw_fleet_where_add(&w, "a=1", NOW, NULL), 0);
    assert_int_equal(hw_fleet_where_add(&w, "a=1", NOW, NULL), HW_ELIMIT);
    hw_fleet_where_done(&w);
}

static void times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {{"now", NOW},
                 {"90s", NOW - 90},
                 {"24h", NOW - 86400},
                 {"1.5d", NOW - 129600},
                 {"2w", NOW - 14 * 86400},
                 {"2026-03-01T10:00Z", NOW - 7200},
                 {"2026-03-01 11:59:59Z", NOW - 1},
                 {"2026-03-01Z", NOW - 43200},
                 {"2026-03-01", NOW - 43200 - 3600}, /* the local clock is an hour ahead */
                 {"2026-03-01T13:00", NOW}};
    setenv("TZ", "XXX-1", 1);
    tzset();
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        int64_t t = 0;
        assert_int_equal(hw_fleet_time(cases[i].text, NOW, &t, NULL), 0);
        if (t != cases[i].want)
            fail_msg("%s: %lld", cases[i].text, (long long)(t - cases[i].want));
    }
    struct hw_fleet_where w = {.since_s = 5, .until_s = 5};
    assert_int_equal(hw_fleet_where_check(&w, NULL), HW_EINVAL);
    w.until_s = (int64_t)1 << 33;
    assert_int_equal(hw_fleet_where_check(&w, NULL), HW_EINVAL);
    w.until_s = 6;
    assert_int_equal(hw_fleet_where_check(&w, NULL), 0);
}

/* Every word in braces is put in, and one service needs neither days nor itself to tell processes.
 */
static void statements(void **state)
{
    (void)state;
    static const char *const one[] = {"service=a"}, *const two[] = {"service=a", "service~b"},
                             *const fits[] = {"service~a"};
    for (int q = 0; q < HW_FLEET_Q_COUNT; q++) {
        hw_autofree char *sql = sql_of(one, 1, (enum hw_fleet_query)q, "po'd");
        assert_null(strpbrk(sql, "{}"));
        assert_non_null(strstr(sql, " FORMAT RowBinary"));
    }
    hw_autofree char *a = sql_of(one, 1, HW_FLEET_Q_MOMENTS, NULL);
    hw_autofree char *b = sql_of(fits, 1, HW_FLEET_Q_MOMENTS, NULL);
    hw_autofree char *c = sql_of(two, 2, HW_FLEET_Q_MOMENTS, NULL);
    hw_autofree char *v = sql_of(one, 1, HW_FLEET_Q_VALUES, "po'd");
    hw_autofree char *s = sql_of(NULL, 0, HW_FLEET_Q_STACKS, NULL);
    assert_null(strstr(a, "day >="));
    assert_non_null(strstr(a, "cityHash64(host, pid, ts)"));
    assert_non_null(strstr(b, "day >= toDate(20511) AND day <= toDate(20514)"));
    assert_non_null(strstr(b, "cityHash64(service, host, pid, ts)"));
    assert_null(strstr(c, "day >="));
    assert_non_null(strstr(v, "indexOf(labels.k, 'po\\'d')"));
    assert_non_null(strstr(s, "IN (1,18446744073709551615)"));
}

static void shown(void **state)
{
    (void)state;
    struct hw_fleet_where w, copy;
    struct hw_strbuf b = {0};
    hw_fleet_where_init(&w, NOW);
    hw_fleet_where_show(&w, &b);
    assert_string_equal(b.p, "everything");
    assert_int_equal(hw_fleet_where_add(&w, "service=a\x1b[31m", NOW, NULL), 0);
    assert_int_equal(hw_fleet_where_add(&w, "host!~b", NOW, NULL), 0);
    assert_int_equal(hw_fleet_where_copy(&w, &copy), 0);
    hw_fleet_where_done(&w);
    hw_strbuf_clear(&b);
    hw_fleet_where_show(&copy, &b);
    assert_string_equal(b.p, "service=a\\x1b[31m host!~b");
    hw_strbuf_done(&b);
    hw_fleet_where_done(&copy);
}

HW_TEST_MAIN(cmocka_unit_test(conditions), cmocka_unit_test(no_conditions), cmocka_unit_test(times),
             cmocka_unit_test(statements), cmocka_unit_test(shown))
