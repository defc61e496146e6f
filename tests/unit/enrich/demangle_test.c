#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "enrich/lines/demangle.h"

static void names_of_three_languages(void **state)
{
    (void)state;
    static const struct {
        const char *raw, *shown;
    } cases[] = {
        {"_ZN5Cache6insertEi", "Cache::insert(int)"},
        {"_Znwm", "operator new(unsigned long)"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi",
         "std::vector<int, std::allocator<int> >::push_back(int const&)"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_D3std5stdio4File4openMFAyaxAaZv", NULL /* whatever it is: not the raw name */},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = hw_demangle_text(cases[i].raw);
        assert_non_null(text);
        if (cases[i].shown)
            assert_string_equal(text, cases[i].shown);
        free(text);
    }
}

static void what_is_not_mangled_stays(void **state)
{
    (void)state;
    static const char *const raw[] = {"",   "_",  "malloc", "_Z",       "__libc_start_main", "_ZN",
                                      "_R", "_D", "_Zzzzz", "_DYNAMIC", "_Remalloc"};
    for (size_t i = 0; i < sizeof raw / sizeof raw[0]; i++)
        assert_null(hw_demangle_text(raw[i]));
}

/* Each template argument list names the one before it twice: 2^40 characters, were it printed. */
static void a_name_that_explodes_is_left_alone(void **state)
{
    (void)state;
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char raw[1024];
    size_t n = (size_t)snprintf(raw, sizeof raw, "_Z1f1a1bIS_S_E");
    for (int id = 1; id < 36; id++)
        n += (size_t)snprintf(raw + n, sizeof raw - n, "S0_IS%c_S%c_E", digits[id], digits[id]);
    assert_null(hw_demangle_text(raw));
    raw[14 + 11 * 3] = 0; /* three doublings are fine */
    char *text = hw_demangle_text(raw);
    assert_non_null(text);
    free(text);
}

/* Nothing is printed while a pack is looked for through 2^60 pairs of the ones before. */
static void a_name_that_only_takes_time_is_left_alone(void **state)
{
    (void)state;
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    enum { LEVELS = 60 };
    char raw[1024];
    size_t n = (size_t)snprintf(raw, sizeof raw, "_Z1fDp");
    for (int i = 0; i < LEVELS; i++)
        n += (size_t)snprintf(raw + n, sizeof raw - n, "1%cI", 'a' + i % 26);
    n += (size_t)snprintf(raw + n, sizeof raw - n, "ii");
    for (int i = LEVELS - 1; i < 2 * LEVELS - 2; i++) /* what has just been closed, again */
        n += i < 36 ? (size_t)snprintf(raw + n, sizeof raw - n, "ES%c_", digits[i])
                    : (size_t)snprintf(raw + n, sizeof raw - n, "ES%c%c_", digits[i / 36],
                                       digits[i % 36]);
    n += (size_t)snprintf(raw + n, sizeof raw - n, "E");
    assert_null(hw_demangle_text(raw));
    char *text = hw_demangle_text("_ZN5Cache6insertEi");
    assert_non_null(text); /* nothing is left behind */
    free(text);
}

/* D: an array whose key and element are both the one before, 70 times. */
static void back_references_of_d_are_counted(void **state)
{
    (void)state;
    char raw[1024];
    size_t n = (size_t)snprintf(raw, sizeof raw, "_D1aF"), before = n;
    n += (size_t)snprintf(raw + n, sizeof raw - n, "Hii");
    for (int i = 0; i < 70; i++) {
        size_t here = n;
        raw[n++] = 'H';
        for (int k = 0; k < 2; k++)
            n += (size_t)snprintf(raw + n, sizeof raw - n, "Q%c", (char)('a' + (n - before)));
        before = here;
    }
    (void)snprintf(raw + n, sizeof raw - n, "Zv");
    assert_null(hw_demangle_text(raw));
}

static void deep_and_long_names_end(void **state)
{
    (void)state;
    char *raw = malloc(200000);
    assert_non_null(raw);
    for (size_t n = 100; n < 190000; n = n * 3 + 17) {
        memset(raw, 'P', n);
        memcpy(raw, "_Z1f", 4);
        memcpy(raw + n, "i", 2);
        char *text = hw_demangle_text(raw);
        assert_true(text == NULL || n <= HW_DEMANGLE_MAX_IN);
        free(text);
        memset(raw, 'I', n);
        memcpy(raw, "_ZN1f", 5);
        raw[n] = 0;
        free(hw_demangle_text(raw));
    }
    free(raw);
}

static void cached_by_id(void **state)
{
    (void)state;
    struct hw_strings *s;
    struct hw_demangler *d;
    hw_str_id a, b;
    assert_int_equal(hw_strings_new(&s), 0);
    assert_int_equal(hw_demangler_new(s, &d), 0);
    assert_int_equal(hw_strings_intern(s, hw_bytes_str("_ZN5Cache6insertEi"), &a), 0);
    const char *first = hw_demangle(d, a);
    assert_string_equal(first, "Cache::insert(int)");
    assert_int_equal(hw_strings_intern(s, hw_bytes_str("plain"), &b), 0);
    assert_string_equal(hw_demangle(d, b), "plain");
    assert_ptr_equal(hw_demangle(d, a), first);
    assert_string_equal(hw_demangle_shown(d, (hw_str_id){999}), "");
    hw_demangler_free(d);
    hw_strings_free(s);
}

/* A kilobyte of name makes eleven of text, and there may be any number of them. */
static void all_together_are_limited(void **state)
{
    (void)state;
    enum { NAMES = 30000, PART = 1000 };
    struct hw_strings *s;
    struct hw_demangler *d;
    hw_str_id id;
    size_t shown = 0;
    char raw[PART + 64];
    assert_int_equal(hw_strings_new(&s), 0);
    assert_int_equal(hw_demangler_new(s, &d), 0);
    size_t n = (size_t)snprintf(raw, sizeof raw, "_Z1f%d", PART);
    memset(raw + n, 'a', PART);
    memcpy(raw + n + PART, "S_S_S_S_S_S_S_S_S_S_", 21);
    for (int i = 0; i < NAMES; i++) {
        char digits[8];
        snprintf(digits, sizeof digits, "%07d", i);
        memcpy(raw + n + 1, digits, 7);
        assert_int_equal(hw_strings_intern(s, hw_bytes_str(raw), &id), 0);
        const char *text = hw_demangle(d, id);
        shown += text[0] == 'f' ? strlen(text) : 0;
        if (i == 0)
            assert_in_range(strlen(text), 11 * PART, 11 * PART + 64);
    }
    assert_in_range(shown, 200u << 20, (256u << 20) + HW_DEMANGLE_MAX_OUT);
    hw_demangler_free(d);
    hw_strings_free(s);
}

HW_TEST_MAIN(cmocka_unit_test(names_of_three_languages),
             cmocka_unit_test(what_is_not_mangled_stays),
             cmocka_unit_test(a_name_that_explodes_is_left_alone),
             cmocka_unit_test(a_name_that_only_takes_time_is_left_alone),
             cmocka_unit_test(back_references_of_d_are_counted),
             cmocka_unit_test(deep_and_long_names_end), cmocka_unit_test(cached_by_id),
             cmocka_unit_test(all_together_are_limited))
