/* Which module is the program, and what is shown of it, of stacks written by hand. */
#include "test.h"

#include <stdlib.h>

#include "views/fill.h"
#include "views/filter.h"
#include "views/flame/program.h"
#include "views/time/process_view.h"

static struct hw_profile *profile_of(const char *stack, const char *name)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t d = fill_dump(p, 7, "libc.malloc", 1, 1, 0);
    fill_row(p, d, stack, 1, 100);
    assert_int_equal(hw_profile_str(p, hw_bytes_str(name), &p->processes.v[0].name), 0);
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

static struct hw_shown_program by_values(const struct hw_profile *p)
{
    struct hw_series_list list;
    hw_values values = {0};
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_process_values(p, &list, (hw_upid){0}, 1, false, &values), 0);
    hw_series_list_done(&list);
    struct hw_shown_program found =
        hw_program_find(p->callsites, &values, hw_process_name(p, (hw_upid){0}));
    hw_vec_done(&values);
    return found;
}

/* Both ways to find it agree: by the callstacks of a selection, and for all processes at once. */
static void check(const char *stack, const char *name, const char *module, const char *shown)
{
    struct hw_profile *p = profile_of(stack, name);
    struct hw_shown_program *all;
    assert_int_equal(hw_programs_find(p, &all), 0);
    const struct hw_shown_program each[] = {by_values(p), all[0]};
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(hw_strings_cstr(hw_callsites_strings(p->callsites), each[i].module),
                            module);
        assert_true(hw_bytes_equal(each[i].name, hw_bytes_str(shown)));
    }
    free(all);
    hw_profile_free(p);
}

static void the_program_is_what_the_c_library_starts(void **state)
{
    (void)state;
    check("_start@/bin/check-rdb;__libc_start_main_impl@/lib/libc.so.6;main;f;malloc",
          "/usr/bin/server", "/bin/check-rdb", "server");
    check("worker@/lib/libpool.so;f;malloc", "./app", "/bin/app", "app");
    check("worker@/lib/libpool.so;f;malloc", "other", "", "other");
    check("_start@/bin/check-rdb;__libc_start_main_impl@/lib/libc.so.6;main;f;malloc",
          "server *:6379", "/bin/check-rdb", "server"); /* a title of its own */
}

static size_t matches(const struct hw_profile *p, const struct hw_shown_program *program,
                      const char *filter)
{
    hw_filters filters = {0};
    struct hw_filter_matches m;
    struct hw_functions *fns;
    size_t n = 0;
    assert_int_equal(hw_functions_new(p->callsites, NULL, &fns), 0);
    assert_int_equal(hw_filters_add(&filters, filter, NULL), 0);
    assert_int_equal(hw_filter_match(&filters, p->callsites, fns, NULL, program, &m), 0);
    for (size_t i = 0; i < m.n_functions; i++)
        n += m.v[i];
    hw_filter_matches_done(&m);
    hw_filters_done(&filters);
    hw_functions_free(fns);
    return n;
}

static void filters_take_the_name_and_the_file(void **state)
{
    (void)state;
    struct hw_profile *p =
        profile_of("_start@/bin/check-rdb;__libc_start_main_impl@/lib/libc.so.6;"
                   "main@/bin/check-rdb;@0x10@/bin/check-rdb;malloc@/lib/libc.so.6",
                   "/usr/bin/server");
    const struct hw_shown_program program = by_values(p);
    assert_int_equal(matches(p, &program, "\"server+0x10\""), 1);
    assert_int_equal(matches(p, &program, "\"check-rdb+0x10\""), 1);
    assert_int_equal(matches(p, &program, "M:\"server\""), 3);
    assert_int_equal(matches(p, &program, "M:\"/bin/check-rdb\""), 3);
    assert_int_equal(matches(p, &program, "M:server"), 3);
    assert_int_equal(matches(p, NULL, "server"), 0);
    hw_profile_free(p);
}

/* Whose code the one function of a profile is that stands in these files. */
static enum hw_function_owner owner_in(const char *mapping, const char *const *files, size_t n)
{
    char stack[64];
    (void)snprintf(stack, sizeof stack, "main;@0x10@%s;malloc", mapping);
    struct hw_profile *p = profile_of(stack, "/bin/app");
    struct hw_functions *fns;
    uint32_t work = HW_ID_NONE;
    for (size_t i = 0; i < n; i++) {
        char frame[32];
        struct hw_symbol_line line = {fill_str(p, "work"), fill_str(p, files[i]), 3};
        (void)snprintf(frame, sizeof frame, "@0x%zx@%s", 0x10 + i, mapping);
        assert_int_equal(hw_symbol_sets_put(hw_callsites_symbol_sets(p->callsites),
                                            fill_frame(p, frame, strlen(frame)), &line, 1),
                         0);
    }
    const struct hw_shown_program program = by_values(p);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &fns), 0);
    for (uint32_t i = 0; i < hw_functions_count(fns); i++)
        if (hw_functions_get(fns, i)->language == HW_FUNCTION_MANAGED)
            work = i;
    assert_int_not_equal(work, HW_ID_NONE);
    enum hw_function_owner owner =
        hw_function_owner_of(&program, p->callsites, hw_functions_get(fns, work));
    hw_functions_free(fns);
    hw_profile_free(p);
    return owner;
}

static void python_is_told_apart_by_its_files(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        enum hw_function_owner owner;
    } rows[] = {{"/home/me/work.py", HW_OWNER_PROGRAM},
                {"work.py", HW_OWNER_PROGRAM},
                {"", HW_OWNER_PROGRAM},
                {"/home/me/python3/work.py", HW_OWNER_PROGRAM},
                {"/srv/lib/python-tools/work.py", HW_OWNER_PROGRAM},
                {"/usr/lib/python3.11/json/decoder.py", HW_OWNER_RUNTIME},
                {"/usr/lib/python3/x.py", HW_OWNER_RUNTIME},
                {"/opt/py/lib64/python3.12/re/_parser.py", HW_OWNER_RUNTIME},
                {"<frozen importlib._bootstrap>", HW_OWNER_RUNTIME},
                {"<string>", HW_OWNER_PROGRAM},
                {"/usr/lib/python3.11/site-packages/numpy/x.py", HW_OWNER_LIBRARY},
                {"/usr/lib/python3/dist-packages/yaml/x.py", HW_OWNER_LIBRARY},
                {"/home/me/.venv/lib/python3.12/site-packages/flask/app.py", HW_OWNER_LIBRARY}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (owner_in("/[python]", &rows[i].file, 1) != rows[i].owner)
            fail_msg("%s: %d", rows[i].file, (int)owner_in("/[python]", &rows[i].file, 1));
    /* One name in files of both: nothing of the program's may be hidden among the rest. */
    static const char *const both[] = {"/usr/lib/python3.11/json/decoder.py", "/home/me/work.py"};
    assert_int_equal(owner_in("/[python]", both, 2), HW_OWNER_PROGRAM);
}

static void php_is_told_apart_by_its_files(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        enum hw_function_owner owner;
    } rows[] = {{"/var/www/app/index.php", HW_OWNER_PROGRAM},
                {"/var/www/app/vendor/monolog/monolog/src/Logger.php", HW_OWNER_LIBRARY},
                {"/usr/share/php/Composer/Semver/Semver.php", HW_OWNER_LIBRARY},
                {"/var/www/x.php(3) : eval()'d code", HW_OWNER_PROGRAM}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (owner_in("/[php]", &rows[i].file, 1) != rows[i].owner)
            fail_msg("%s: %d", rows[i].file, (int)owner_in("/[php]", &rows[i].file, 1));
}

static void ruby_is_told_apart_by_its_files(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        enum hw_function_owner owner;
    } rows[] = {
        {"/home/me/work.rb", HW_OWNER_PROGRAM},
        {"app/models/user.rb", HW_OWNER_PROGRAM},
        {"/srv/ruby/work.rb", HW_OWNER_PROGRAM},
        {"(eval)", HW_OWNER_PROGRAM},
        {"<internal:kernel>", HW_OWNER_RUNTIME},
        {"/usr/lib/ruby/3.1.0/json/common.rb", HW_OWNER_RUNTIME},
        {"/usr/local/lib/ruby/3.1.0/set.rb", HW_OWNER_RUNTIME},
        {"/usr/lib/ruby/vendor_ruby/rubygems/specification.rb", HW_OWNER_RUNTIME},
        {"/usr/lib/ruby/vendor_ruby/rack.rb", HW_OWNER_LIBRARY},
        {"/usr/share/rubygems-integration/all/gems/rake-13.0.6/lib/rake.rb", HW_OWNER_LIBRARY},
        {"/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb", HW_OWNER_LIBRARY}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (owner_in("/[ruby]", &rows[i].file, 1) != rows[i].owner)
            fail_msg("%s: %d", rows[i].file, (int)owner_in("/[ruby]", &rows[i].file, 1));
}

HW_TEST_MAIN(cmocka_unit_test(python_is_told_apart_by_its_files),
             cmocka_unit_test(ruby_is_told_apart_by_its_files),
             cmocka_unit_test(php_is_told_apart_by_its_files),
             cmocka_unit_test(the_program_is_what_the_c_library_starts),
             cmocka_unit_test(filters_take_the_name_and_the_file))
