/* svg and html: names from outside stay text, and nobody's script runs. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "export/markup.h"
#include "views/fill.h"
#include "views/time/series.h"

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *in, *visible, *markup;
    } cases[] = {
        {"a<b>&\"'", "a<b>&\"'", "a&#60;b&#62;&#38;&#34;&#39;"},
        {"]]>", "]]>", "]]&#62;"},
        {"x\033[31m\n\x7f", "x\\u{1b}[31m\\u{a}\\u{7f}", "x\\u{1b}[31m\\u{a}\\u{7f}"},
        {"u\xe2\x80\xaeser", "u\\u{202e}ser", "u\\u{202e}ser"},
        {"\xe2\x81\xa6i\xef\xbb\xbf\xc2\x9b", "\\u{2066}i\\u{feff}\\u{9b}",
         "\\u{2066}i\\u{feff}\\u{9b}"},
        {"gr\xc3\xbc\xc3\x9f\xe6\x9f\x90\xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f\xe6\x9f\x90\xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f\xe6\x9f\x90\xf0\x9f\x98\x80"},
        /* overlong, surrogate, cut, above the range, lone continuation, no character */
        {"\xc0\xbc", "\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"a\xe2\x80", "a\xef\xbf\xbd\xef\xbf\xbd", "a\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf5z", "\xef\xbf\xbdz", "\xef\xbf\xbdz"},
        {"\xef\xbf\xbf", "\\u{ffff}", "\\u{ffff}"},
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_strbuf a = {0}, b = {0};
        hw_visible_add(&a, hw_bytes_str(cases[i].in));
        hw_markup_add(&b, hw_bytes_str(cases[i].in));
        assert_string_equal(a.p ? a.p : "", cases[i].visible);
        assert_string_equal(b.p ? b.p : "", cases[i].markup);
        hw_strbuf_done(&a);
        hw_strbuf_done(&b);
    }
}

static char *export_as(const char *format)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t a = fill_dump(p, 1, "libc.malloc", 1000, 1, 0);
    p->processes.v[0].name = fill_str(p, "/bin/<b>evil</b>");
    fill_row(p, a, "main;</script><script>alert(1)</script>@/lib/\"><img src=x>.so;malloc", 2, 300);
    fill_row(p, a, "main;<!--<script>;\xe2\x80\xaegnp.exe", 1, 100);
    fill_row(p, a, "main;tiny", 1, 0);
    assert_int_equal(hw_profile_freeze(p), 0);
    struct hw_series_list list;
    hw_values values = {0};
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_values_at(p, &list.v.v[0], 0, &values), 0);
    struct hw_export_input in = {.profile = p, .values = &values, .interval_bytes = 1};
    const struct hw_exporter *e = hw_exporter_find(format);
    assert_non_null(e);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_int_equal(e->write(&in, f, NULL), 0);
    fclose(f);
    hw_vec_done(&values);
    hw_series_list_done(&list);
    hw_profile_free(p);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void svg(void **state)
{
    (void)state;
    char *t = export_as("svg");
    assert_non_null(strstr(t, "&#60;/script&#62;&#60;script&#62;alert(1)"));
    assert_non_null(strstr(t, "\\u{202e}gnp.exe"));
    assert_int_equal(count(t, "<script>"), 1); /* our own */
    assert_int_equal(count(t, "<img"), 0);
    assert_int_equal(count(t, "\xe2\x80\xae"), 0);
    assert_int_equal(count(t, "class=\"f\""), 6); /* all, main, two and two; tiny holds nothing */
    assert_non_null(strstr(t, " 300 B, 75.00%</title>"));
    assert_non_null(strstr(t, "1 frames below 0.1 points are left out"));
    free(t);
}

static void html(void **state)
{
    (void)state;
    char *t = export_as("html");
    assert_int_equal(count(t, "<script"), 2); /* the data and our own */
    assert_int_equal(count(t, "</script"), 2);
    assert_int_equal(count(t, "<img"), 0);
    assert_int_equal(count(t, "<!--"), 0);
    assert_int_equal(count(t, "\xe2\x80\xae"), 0);
    assert_int_equal(count(t, "@DATA@") + count(t, "@SCRIPT@"), 0);
    assert_int_equal(count(t, "http://") + count(t, "https://"), 0); /* asks nobody */
    assert_non_null(strstr(t, "\\u003c/script>\\u003cscript>alert(1)"));
    free(t);
}

HW_TEST_MAIN(cmocka_unit_test(names), cmocka_unit_test(svg), cmocka_unit_test(html))
