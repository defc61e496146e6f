/* Addresses of stores, labels, statements of the schema. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fleet/push/labels.h"
#include "fleet/store/store.h"
#include "fleet/store/table_schema.h"
#include "test.h"

static const char *text(const char *s)
{
    return s ? s : "-";
}

static void test_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *url, *base, *path, *user, *password, *shown;
    } good[] = {
        {"clickhouse://h", "http://h:8123", "", "-", "-", "clickhouse://h:8123"},
        {"clickhouse+https://u:p@h:1/db", "https://h:1", "/db", "u", "p",
         "clickhouse+https://u@h:1/db"},
        {"clickhouse://u%40x:a%3Ab@h/db/?a=1", "http://h:8123", "/db", "u@x", "a:b",
         "clickhouse://u@x@h:8123/db"},
        {"pyroscope+http://u:p@ss@h", "http://h:4040", "", "u", "p@ss", "pyroscope://u@h:4040"},
        {"parca://[::1]:7070/a/b/", "http://[::1]:7070", "/a/b", "-", "-",
         "parca://[::1]:7070/a/b"},
        {"otlp://h#x", "http://h:4318", "", "-", "-", "otlp://h:4318"},
    };
    unsetenv("HEAPWISE_STORE_PASSWORD");
    unsetenv("HEAPWISE_STORE_TOKEN");
    for (size_t i = 0; i < HW_ARRAY_LEN(good); i++) {
        struct hw_store s;
        struct hw_error err = {0};
        if (hw_store_init(&s, good[i].url, &err) < 0)
            fail_msg("%s: %s", good[i].url, err.text);
        assert_string_equal(s.base, good[i].base);
        assert_string_equal(s.path, good[i].path);
        assert_string_equal(text(s.user), good[i].user);
        assert_string_equal(text(s.password), good[i].password);
        assert_string_equal(s.shown, good[i].shown);
        hw_store_done(&s);
    }
    static const char *const bad[] = {"",
                                      "h:8123",
                                      "x://h",
                                      "clickhouse://",
                                      "ingest+ftp://h",
                                      "clickhouse://h:",
                                      "clickhouse://h:123456",
                                      "clickhouse://h:1x",
                                      "clickhouse://[::1",
                                      "clickhouse://h/a b",
                                      "clickhouse://h/a`b",
                                      "clickhouse://h\r\nX: y",
                                      "clickhouse://h/1db",
                                      "://h"};
    for (size_t i = 0; i < HW_ARRAY_LEN(bad); i++) {
        struct hw_store s;
        struct hw_error err = {0};
        if (hw_store_init(&s, bad[i], &err) == 0)
            fail_msg("'%s' is no address", bad[i]);
        assert_true(err.text[0]);
    }
}

/* A header line ends at a line's end: no part of an address may hold one. */
static void test_credentials(void **state)
{
    (void)state;
    struct hw_store s;
    struct hw_store_auth a;
    assert_int_equal(hw_store_init(&s, "clickhouse://u%0d%0aX:p%00q@h", NULL), 0);
    assert_int_equal(hw_store_auth_init(&a, &s, NULL), 0);
    assert_int_equal(a.n, 2);
    assert_string_equal(a.line[0], "X-ClickHouse-User: uX");
    assert_string_equal(a.line[1], "X-ClickHouse-Key: pq");
    hw_store_auth_done(&a);
    hw_store_done(&s);
    setenv("HEAPWISE_STORE_TOKEN", "t0k", 1);
    assert_int_equal(hw_store_init(&s, "pyroscope://u:p@h", NULL), 0);
    assert_int_equal(hw_store_auth_init(&a, &s, NULL), 0);
    assert_string_equal(a.line[0], "Authorization: Bearer t0k");
    hw_store_auth_done(&a);
    hw_store_done(&s);
    unsetenv("HEAPWISE_STORE_TOKEN");
}

static void test_labels(void **state)
{
    (void)state;
    struct hw_fleet_labels l;
    hw_fleet_labels_init(&l);
    static const char *const given[] = {"a=1",       "a=2",    "9x.y=z=w",
                                        "service=s", "host=h", "\xc3\xa4=v"};
    for (size_t i = 0; i < HW_ARRAY_LEN(given); i++)
        assert_int_equal(hw_fleet_labels_add(&l, given[i], NULL), 0);
    assert_string_equal(l.service, "s");
    assert_string_equal(l.host, "h");
    assert_int_equal(l.more.n, 3);
    static const char *const want[][2] = {{"a", "2"}, {"_9x_y", "z=w"}, {"__", "v"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(want); i++) {
        assert_string_equal(l.more.v[i].name, want[i][0]);
        assert_string_equal(l.more.v[i].value, want[i][1]);
    }
    assert_int_equal(hw_fleet_labels_add(&l, "novalue", NULL), HW_EINVAL);
    assert_int_equal(hw_fleet_labels_add(&l, "=v", NULL), HW_EINVAL);
    char pair[32];
    int rc = 0;
    for (int i = 0; rc == 0; i++) {
        (void)snprintf(pair, sizeof pair, "k%d=v", i);
        rc = hw_fleet_labels_add(&l, pair, NULL);
        assert_true(i < 1000);
    }
    assert_int_equal(rc, HW_ELIMIT);
    assert_int_equal(l.more.n, HW_LABELS_MAX);
    hw_fleet_labels_done(&l);
}

static void test_statements(void **state)
{
    (void)state;
    struct hw_strbuf out = {0};
    size_t alone = 0, together = 0;
    for (; hw_fleet_schema_statement(&out, alone, "db", NULL); alone++)
        assert_null(out.failed ? "no memory" : NULL);
    assert_null(strstr(out.p, "CLUSTER"));
    hw_strbuf_clear(&out);
    for (; hw_fleet_schema_statement(&out, together, "db", "c"); together++)
        assert_non_null(strstr(out.p, "ON CLUSTER `c`"));
    assert_int_equal(alone, 1 + HW_FLEET_TABLE_COUNT);
    assert_int_equal(together, 1 + 2 * HW_FLEET_TABLE_COUNT);
    hw_strbuf_done(&out);
}

HW_TEST_MAIN(cmocka_unit_test(test_addresses), cmocka_unit_test(test_credentials),
             cmocka_unit_test(test_labels), cmocka_unit_test(test_statements))
