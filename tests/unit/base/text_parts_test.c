#include "test.h"

#include "base/text/hex.h"
#include "base/text/text_parts.h"

static void beginnings_and_ends(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
        bool begins, ends;
    } cases[] = {{"abc", "ab", true, false},  {"abc", "bc", false, true},
                 {"abc", "abc", true, true},  {"abc", "", true, true},
                 {"", "", true, true},        {"", "a", false, false},
                 {"ab", "abc", false, false}, {"aba", "a", true, true}};
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_bytes b = hw_bytes_str(cases[i].text);
        assert_int_equal(hw_starts_with(cases[i].text, cases[i].part), cases[i].begins);
        assert_int_equal(hw_ends_with(cases[i].text, cases[i].part), cases[i].ends);
        assert_int_equal(hw_bytes_start_with(b, cases[i].part), cases[i].begins);
        assert_int_equal(hw_bytes_end_with(b, cases[i].part), cases[i].ends);
    }
    /* bytes need no NUL */
    assert_true(hw_bytes_end_with(hw_bytes_of("libc.so.6", 7), ".so"));
}

static void base_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/usr/bin/env", "env"}, {"./a", "a"}, {"a", "a"}, {"a/", "a/"}, {"/", "/"}, {"", ""}};
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_bytes b = hw_bytes_base_name(hw_bytes_str(cases[i][0]));
        assert_string_equal(hw_base_name(cases[i][0]), cases[i][1]);
        assert_true(hw_bytes_equal(b, hw_bytes_str(cases[i][1])));
    }
}

static void hex_digits(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdefABCDEF";
    for (int c = -128; c < 128; c++) {
        const char *at = c ? strchr(digits, (char)c) : NULL;
        int n = at ? (int)(at - digits) : -1;
        assert_int_equal(hw_hex_digit((char)c), n > 15 ? n - 6 : n);
    }
}

HW_TEST_MAIN(cmocka_unit_test(beginnings_and_ends), cmocka_unit_test(base_names),
             cmocka_unit_test(hex_digits))
