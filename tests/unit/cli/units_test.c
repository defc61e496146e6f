#include "test.h"

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "cli/parts/short_name.h"
#include "config/command/units.h"

static void figures(void **state)
{
    (void)state;
    char b[HW_UNIT_MAX];
    static const struct {
        double v;
        const char *bytes, *count;
    } cases[] = {{0, "0 B", "0"},
                 {999, "999 B", "999"},
                 {1000, "1000 B", "1.00 k"},
                 {1023, "1023 B", "1.02 k"},
                 {1024, "1.00 KiB", "1.02 k"},
                 {10239, "10.0 KiB", "10.2 k"},
                 {1048575, "1.00 MiB", "1.05 M"},
                 {191260262, "182.4 MiB", "191.3 M"},
                 {-5000, "-4.88 KiB", "-5.00 k"},
                 {1e19, "8.67 EiB", "10.0 E"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        assert_string_equal(hw_fmt_bytes(b, cases[i].v), cases[i].bytes);
        assert_string_equal(hw_fmt_count(b, cases[i].v), cases[i].count);
    }
    assert_string_equal(hw_fmt_bytes_exact(b, 4096), "4 KiB");
    assert_string_equal(hw_fmt_bytes_exact(b, 4097), "4097 B");
    assert_string_equal(hw_fmt_bytes_exact(b, 0), "0 B");
    assert_string_equal(hw_fmt_duration(b, 1234000000), "1.234 s");
    assert_string_equal(hw_fmt_duration(b, 120000000000), "2m 00s");
    assert_string_equal(hw_fmt_duration(b, 7260000000000), "2h 01m");
    assert_string_equal(hw_fmt_clock(b, 72000000000), "01:12");
    assert_string_equal(hw_fmt_clock(b, 3723000000000), "1:02:03");
    assert_string_equal(hw_fmt_clock(b, 12000000), "12 ms");
}

static void short_names(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        size_t max;
        const char *want;
    } cases[] = {
        {"malloc", 40, "malloc"},
        {"Cache::insert(int, char const*)", 40, "Cache::insert"},
        {"Cache::get(int) const", 40, "Cache::get"},
        {"void foo<int>(int)", 40, "foo<int>"},
        {"(anonymous namespace)::run()", 40, "(anonymous namespace)::run"},
        {"(anonymous namespace)::run(void (*)(int))", 40, "(anonymous namespace)::run"},
        {"Job::operator()(int)", 40, "Job::operator()"},
        {"Job::operator()", 40, "Job::operator()"},
        {"<top (required)>", 40, "<top (required)>"},
        {"block (2 levels) in call", 40, "block (2 levels) in call"},
        {"operator new(unsigned long)", 40, "operator new"},
        {"f(int) [clone .isra.0]", 40, "f"},
        {"std::vector<std::string, std::allocator<std::string> >::push_back(std::string&&)", 30,
         "std::vector<..>::push_back"},
        {"a_very_long_function_name_of_c", 12, ".._name_of_c"},
        {"main::{lambda(int)#1}::operator()(int) const", 40, "main::{lambda(int)#1}::operator()"},
        {"strings.(*Builder).grow", 40, "strings.(*Builder).grow"},
        {"net/http.(*conn).serve.func1", 40, "net/http.(*conn).serve.func1"},
        {"main.main.func1", 40, "main.main.func1"},
        {"main.f[...]", 40, "main.f[...]"},
        {"main.(*list[...]).add", 40, "main.(*list[...]).add"},
        {"main.T.f", 40, "main.T.f"},
        {"<F as core::ops::FnOnce<()>>::call_once", 40, "<F as core::ops::FnOnce<()>>::call_once"},
        {"alloc::vec::Vec<(u32, u32)>::push", 40, "alloc::vec::Vec<(u32, u32)>::push"},
        {"main::{{closure}}", 40, "main::{{closure}}"},
        {"f(int)::{lambda(int)#1}::operator()(int) const", 40,
         "f(int)::{lambda(int)#1}::operator()"},
        {"std::function<void (int)>::operator()(int) const", 50,
         "std::function<void (int)>::operator()"},
        {"java.util.ArrayList.grow", 40, "java.util.ArrayList.grow"},
        {"java.util.ArrayList.add(java.lang.Object)", 40, "java.util.ArrayList.add"},
        {"block (2 levels) in <main>", 40, "block (2 levels) in <main>"},
        {"x\033[2J", 40, "x\\x1b[2J"},
        {")", 10, ")"},
        {"()", 10, "()"},
        {"", 10, ""},
        {"<<<<", 2, "<..>"},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_strbuf b = {0};
        hw_short_name(&b, cases[i].label, cases[i].max);
        assert_string_equal(b.p ? b.p : "", cases[i].want);
        hw_strbuf_done(&b);
    }
}

/* A text as wide as its column, or wider, keeps apart from what is before it. */
static void cells_do_not_run_together(void **state)
{
    (void)state;
    struct hw_strbuf b = {0};
    hw_put_cell(&b, "+86.5 KiB/s", 11);
    hw_put_cell(&b, "+1010.7 KiB", 11);
    hw_put_cell(&b, "1 B", 5);
    assert_string_equal(b.p, "+86.5 KiB/s +1010.7 KiB  1 B");
    hw_strbuf_done(&b);
}

HW_TEST_MAIN(cmocka_unit_test(cells_do_not_run_together), cmocka_unit_test(figures),
             cmocka_unit_test(short_names))
