/* Expected texts are checked once by eye and by python's json in the e2e tests of --json. */
#include "base/text/json_out.h"

#include <math.h>
#include <stdlib.h>

#include "test.h"

static void test_nesting_and_commas(void **state)
{
    (void)state;
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_int(&j, "a", -1);
    hw_json_key(&j, "b");
    hw_json_begin_array(&j);
    hw_json_end_array(&j);
    hw_json_key(&j, "c");
    hw_json_begin_array(&j);
    hw_json_bool(&j, true);
    hw_json_null(&j);
    hw_json_begin_object(&j);
    hw_json_end_object(&j);
    hw_json_uint(&j, UINT64_MAX);
    hw_json_end_array(&j);
    hw_json_kv_str(&j, "d", NULL);
    hw_json_end_object(&j);
    assert_int_equal(hw_json_finish(&j), 0);
    assert_string_equal(j.buf.p,
                        "{\"a\":-1,\"b\":[],\"c\":[true,null,{},18446744073709551615],\"d\":null}");
    hw_json_done(&j);
}

static void test_strings(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", "\"\""},
        {"a\"b\\c\n\t\x01\x7f", "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff", "\"\xef\xbf\xbd\""},                                   /* never valid */
        {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                   /* overlong NUL */
        {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                   /* cut */
        {"\xed\xa0\x80x", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\""}, /* surrogate */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, false);
        hw_json_str(&j, rows[i].in);
        assert_int_equal(hw_json_finish(&j), 0);
        assert_string_equal(j.buf.p, rows[i].out);
        hw_json_done(&j);
    }
}

static void test_doubles_read_back(void **state)
{
    (void)state;
    static const double values[] = {0, 1, -1.5, 0.1, 1e300, 1.0 / 3, 123456789.125, 5e-324};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, false);
        hw_json_double(&j, values[i]);
        assert_int_equal(hw_json_finish(&j), 0);
        assert_true(strtod(j.buf.p, NULL) == values[i]);
        hw_json_done(&j);
    }
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, false);
    hw_json_double(&j, NAN);
    assert_int_equal(hw_json_finish(&j), 0);
    assert_string_equal(j.buf.p, "null");
    hw_json_done(&j);
}

static void test_pretty(void **state)
{
    (void)state;
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ true);
    hw_json_begin_object(&j);
    hw_json_kv_bool(&j, "x", false);
    hw_json_key(&j, "y");
    hw_json_begin_array(&j);
    hw_json_int(&j, 1);
    hw_json_int(&j, 2);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    assert_int_equal(hw_json_finish(&j), 0);
    assert_string_equal(j.buf.p, "{\n  \"x\": false,\n  \"y\": [\n    1,\n    2\n  ]\n}\n");
    hw_json_done(&j);
}

HW_TEST_MAIN(cmocka_unit_test(test_nesting_and_commas), cmocka_unit_test(test_strings),
             cmocka_unit_test(test_doubles_read_back), cmocka_unit_test(test_pretty))
