#include <string.h>

#include "test.h"

#include "base/text/strbuf.h"

/* What a terminal or a reader would take for something else is spelled out. */
static void text_from_outside_is_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"plain name", "plain name"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\x1b[31m\n\x7f", "a\\x1b[31m\\x0a\\x7f"},
        {"bidi_\xe2\x80\xaegnp.exe", "bidi_\\u{202e}gnp.exe"},
        {"\xe2\x81\xa6x\xe2\x81\xa9\xef\xbb\xbf", "\\u{2066}x\\u{2069}\\u{feff}"},
        {"c1 \xc2\x9b"
         "31m",
         "c1 \\u{9b}31m"},
        {"raw \x9b"
         "31m \xff",
         "raw \\x9b31m \\xff"},
        {"cut \xe2\x80", "cut \\xe2\\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hw_strbuf b = {0};
        hw_strbuf_add_escaped(&b, cases[i].in, strlen(cases[i].in));
        assert_string_equal(b.p ? b.p : "", cases[i].out);
        hw_strbuf_done(&b);
    }
}

static void shells_read_one_word(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {{"heap.redis_7101.42.trace", "heap.redis_7101.42.trace"},
                 {"/tmp/a:b,c=d@e+f%g-h", "/tmp/a:b,c=d@e+f%g-h"},
                 {"heap.größe.1.trace", "heap.größe.1.trace"},
                 {"", "''"},
                 {"a b", "'a b'"},
                 {"a*b", "'a*b'"},
                 {"~x", "'~x'"},
                 {"it's", "'it'\\''s'"},
                 {"a\nb'\\", "$'a\\x0ab\\'\\\\'"},
                 {"\xff", "$'\\xff'"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_strbuf b = {0};
        hw_strbuf_add_shell_word(&b, cases[i].in);
        assert_string_equal(b.p, cases[i].out);
        hw_strbuf_done(&b);
    }
}

HW_TEST_MAIN(cmocka_unit_test(text_from_outside_is_escaped), cmocka_unit_test(shells_read_one_word))
