/* Names of strangers in a line for a terminal or a log. */
#include "base/text/utf8.h"

#include <string.h>

#include "../test.h"

static void test_escape(void **state)
{
    (void)state;
    static const struct {
        const char *in, *keep, *out;
    } all[] = {
        {"plain 'ä' €", "", "plain 'ä' €"},
        {"a\033]0;x\007b", "", "a\\x1b]0;x\\x07b"},
        {"two\nlines\t", "", "two\\x0alines\\x09"},
        {"two\nlines\t", "\n\t", "two\nlines\t"},
        {"\xe2\x80\xae\xc2\x9b", "", "\\u{202e}\\u{9b}"},
        {"\xff\xc3", "", "\\xff\\xc3"},
    };
    char out[64];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(hw_utf8_escape(out, sizeof out, all[i].in, all[i].keep),
                         strlen(all[i].out));
        assert_string_equal(out, all[i].out);
    }
}

/* What does not fit is left out as a whole character. */
static void test_escape_room(void **state)
{
    (void)state;
    char out[8];
    for (size_t max = 1; max <= sizeof out; max++) {
        memset(out, 'z', sizeof out);
        size_t n = hw_utf8_escape(out, max, "€\033ab", "");
        assert_true(n < max);
        assert_int_equal(out[n], 0);
        assert_int_equal(n, max < 4 ? 0 : max < 8 ? 3 : 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_escape_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
