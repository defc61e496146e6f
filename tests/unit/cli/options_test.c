/* The option parser: forms of options, prefixes, units, messages; and the tables' own rules. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/cli.h"
#include "config/command/options.h"

#include "test.h"

static int parse(struct hw_opts *o, const char *command, char **words, struct hw_error *err)
{
    const struct hw_command *cmd = hw_command_find(command);
    int argc = 1;
    char *argv[16] = {(char *)command};
    while (words[argc - 1]) {
        argv[argc] = words[argc - 1];
        argc++;
    }
    assert_int_equal(hw_opts_init(o, cmd, err), 0);
    return hw_opts_parse(o, cmd, argc, argv, err);
}

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})
#define W(s)       ((char *)(s))

static void test_forms(void **state)
{
    (void)state;
    static char *const forms[][4] = {
        {W("-i"), W("64"), NULL},   {W("-i64"), NULL},     {W("--interval"), W("64"), NULL},
        {W("--interval=64"), NULL}, {W("--int=64"), NULL}, {W("-i"), W("1"), W("-i64"), NULL},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(forms); i++) {
        struct hw_opts o;
        struct hw_error err = {0};
        char *words[4];
        memcpy(words, forms[i], sizeof words);
        if (parse(&o, "record", words, &err) != 0)
            fail_msg("form %zu: %s", i, err.text);
        assert_int_equal(hw_opt_num(&o, HW_OPT_INTERVAL), 64);
        assert_true(o.v[HW_OPT_INTERVAL].set);
        hw_opts_done(&o);
    }
}

static void test_clusters_and_words(void **state)
{
    (void)state;
    struct hw_opts o;
    struct hw_error err = {0};
    assert_int_equal(
        parse(&o, "record", WORDS(W("-vvqi2"), W("ls"), W("-l"), W("--"), W("x")), &err), 0);
    assert_int_equal(o.v[HW_OPT_VERBOSE].count, 2);
    assert_true(hw_opt_flag(&o, HW_OPT_QUIET));
    assert_int_equal(hw_opt_num(&o, HW_OPT_INTERVAL), 2);
    assert_int_equal(o.n_args, 4); /* the program's own options are its own, "--" too */
    assert_string_equal(o.args[1], "-l");
    assert_string_equal(o.args[2], "--");
    hw_opts_done(&o);

    assert_int_equal(parse(&o, "heap_profile",
                           WORDS(W("host"), W("-i"), W("7"), W("--"), W("ls"), W("-i"), W("9")),
                           &err),
                     0);
    assert_int_equal(hw_opt_num(&o, HW_OPT_INTERVAL), 7);
    assert_int_equal(o.n_before_dashes, 1);
    assert_int_equal(o.n_args, 4);
    hw_opts_done(&o);
}

static void test_lists(void **state)
{
    (void)state;
    struct hw_opts o;
    struct hw_error err = {0};
    assert_int_equal(
        parse(&o, "heap_profile", WORDS(W("-n"), W("a,b"), W("--na=c"), W("-p"), W("1,,2")), &err),
        0);
    assert_int_equal(o.v[HW_OPT_NAME].list.n, 3);
    assert_string_equal(o.v[HW_OPT_NAME].list.v[2], "c");
    assert_int_equal(o.v[HW_OPT_PID].list.n, 2);
    hw_opts_done(&o);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *command, *word, *message;
    } rows[] = {
        {"record", "--intervall", "unknown option '--intervall'; did you mean '--interval'?"},
        {"record", "--zzzzzzzz", "unknown option '--zzzzzzzz'"},
        {"record", "-Z", "unknown option '-Z'"},
        {"record", "--interval", "option --interval needs a value (BYTES)"},
        {"record", "-i", "option -i needs a value (BYTES)"},
        {"record", "--exact=1", "option --exact takes no value"},
        {"record", "-iq", "option -i: 'q' is not a size"},
        {"record", "-i4Q", "option -i: '4Q' is not a size: unknown unit 'Q'"},
        {"record", "-i99999999999999999999", "option -i: size '99999999999999999999' is too large"},
        {"record", "--duration=8d", "option --duration: '8d' is out of range (0 to 604800000)"},
        {"record", "--d=1",
         "option '--d' is ambiguous: --disable-fork-teardown --duration "
         "--dump-at-max --dump-when"},
        {"heap_profile", "--seed=1", "unknown option '--seed'"}, /* another command's */
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        struct hw_opts o;
        struct hw_error err = {0};
        assert_int_equal(parse(&o, rows[i].command, WORDS(W(rows[i].word)), &err), HW_EINVAL);
        assert_string_equal(err.text, rows[i].message);
        hw_opts_done(&o);
    }
}

static void test_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"0", 0},
                 {"17", 17},
                 {"4K", 4096},
                 {"4k", 4096},
                 {"4KB", 4000},
                 {"1KiB", 1024},
                 {"1.5G", 3u << 29},
                 {"2MB", 2000000},
                 {"0.5M", 524288},
                 {"3T", 3ull << 40},
                 {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < HW_ARRAY_LEN(sizes); i++) {
        uint64_t v;
        assert_int_equal(hw_parse_size(sizes[i].text, &v, NULL), 0);
        assert_int_equal(v, sizes[i].bytes);
    }
    static const struct {
        const char *text;
        uint64_t ms;
    } times[] = {{"5", 5},       {"5ms", 5},       {"5s", 5000},    {"1.5s", 1500},
                 {"2m", 120000}, {"2min", 120000}, {"1h", 3600000}, {"7d", 604800000}};
    for (size_t i = 0; i < HW_ARRAY_LEN(times); i++) {
        uint64_t v;
        assert_int_equal(hw_parse_time_ms(times[i].text, &v, NULL), 0);
        assert_int_equal(v, times[i].ms);
    }
    static const char *const bad[] = {
        "", "K", "-1", "1 K", "1e3", ".", "0x10", "18446744073709551616", "20000000T"};
    for (size_t i = 0; i < HW_ARRAY_LEN(bad); i++) {
        uint64_t v;
        assert_int_equal(hw_parse_size(bad[i], &v, NULL), HW_EINVAL);
    }
}

/* Within one command no long name and no short name may stand twice; every default must parse. */
static void test_tables(void **state)
{
    (void)state;
    for (int c = 0; c < HW_CMD_COUNT; c++) {
        struct hw_opts o;
        struct hw_error err = {0};
        if (hw_opts_init(&o, &hw_commands[c], &err) != 0)
            fail_msg("%s: %s", hw_commands[c].name, err.text);
        hw_opts_done(&o);
        for (int i = 0; i < HW_OPT_COUNT; i++)
            for (int k = i + 1; k < HW_OPT_COUNT; k++) {
                const struct hw_option *a = &hw_options[i], *b = &hw_options[k];
                if (!(a->commands & b->commands & 1ull << c))
                    continue;
                if (strcmp(a->name, b->name) == 0 ||
                    (a->short_name && a->short_name == b->short_name))
                    fail_msg("%s: --%s and --%s", hw_commands[c].name, a->name, b->name);
            }
    }
}

static void test_did_you_mean(void **state)
{
    (void)state;
    static const char *const known[] = {"record", "report", "stop", "stats"};
    static const struct {
        const char *word, *near;
    } rows[] = {{"recrod", "record"}, {"reprot", "report"}, {"stpo", "stop"},
                {"rec", "record"},    {"xyzzy", NULL},      {"sta", "stats"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        const char *near = hw_did_you_mean(rows[i].word, known, HW_ARRAY_LEN(known));
        assert_string_equal(near ? near : "", rows[i].near ? rows[i].near : "");
    }
}

HW_TEST_MAIN(cmocka_unit_test(test_forms), cmocka_unit_test(test_clusters_and_words),
             cmocka_unit_test(test_lists), cmocka_unit_test(test_errors),
             cmocka_unit_test(test_units), cmocka_unit_test(test_tables),
             cmocka_unit_test(test_did_you_mean))
