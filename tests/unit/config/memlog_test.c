/* Modes of memory internals: whom each means, roles, groups, and what is refused. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config/config.h"
#include "config/memlog_modes.h"

#include "test.h"

static bool means(const char *mode, struct hw_memlog_process p)
{
    struct hw_memlog m = {0};
    struct hw_error err = {0};
    if (hw_memlog_parse(hw_bytes_str(mode), &m, &err) < 0)
        fail_msg("%s: %s", mode, err.text);
    bool is = hw_memlog_means(&m, &p);
    hw_memlog_done(&m);
    return is;
}

/* Of the roles browser, gpu, renderer, utility, other: who is meant, when chance is with it. */
static void test_modes(void **state)
{
    static const char *const roles[] = {"browser", "gpu", "renderer", "utility", "other"};
    static const struct {
        const char *mode, *meant;
    } rows[] = {{"manual", "....."},
                {"all", "bgruo"},
                {"minimal", "bg..."},
                {"browser", "b...."},
                {"gpu", ".g..."},
                {"all-renderers", "..r.."},
                {"renderer-sampling", "..r.."},
                {"all-utilities", "...u."},
                {"utility-sampling", "...u."},
                {"utility-and-browser", "b..u."},
                {"role:other", "....o"},
                {"gpu,role:other", ".g..o"},
                {"manual,gpu", ".g..."}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[6] = ".....";
        for (size_t k = 0; k < 5; k++)
            if (means(rows[i].mode,
                      (struct hw_memlog_process){.role = roles[k], .argv0 = "a", .cgroup = "/"}))
                got[k] = roles[k][0];
        if (strcmp(got, rows[i].meant) != 0)
            fail_msg("%s: %s, not %s", rows[i].mode, got, rows[i].meant);
    }
    for (size_t n = 0; hw_memlog_modes[n].name; n++)
        (void)means(hw_memlog_modes[n].name,
                    (struct hw_memlog_process){.role = "", .argv0 = "", .cgroup = "/"});
}

static void test_sampling(void **state)
{
    unsigned n_renderers = 0, n_utilities = 0;
    struct hw_memlog_process p = {.role = "renderer", .argv0 = "a", .cgroup = "/"};
    (void)state;
    for (p.chance = 0; p.chance < 3000; p.chance++)
        n_renderers += means("renderer-sampling", p);
    assert_int_equal(n_renderers, 1000);
    p.chance = 0;
    p.others = true;
    assert_false(means("renderer-sampling", p)); /* at most one at a time */
    assert_true(means("all-renderers", p));
    p.role = "utility";
    for (p.chance = 0; p.chance < 3000; p.chance++)
        n_utilities += means("utility-sampling", p);
    assert_int_equal(n_utilities, 1000);
}

static void test_selectors(void **state)
{
    struct hw_memlog_process p = {
        .role = "utility", .argv0 = "/usr/bin/redis-server", .cgroup = "/system.slice/redis"};
    (void)state;
    assert_true(means("name:redis-server", p));
    assert_true(means("name:redis*", p));
    assert_false(means("name:redis", p));
    assert_true(means("cgroup:/system.slice", p));
    assert_true(means("cgroup:/system.slice/", p));
    assert_true(means("cgroup:/system.slice/redis", p));
    assert_true(means("cgroup:/", p));
    assert_false(means("cgroup:/system.slice/red", p));
    assert_false(means("cgroup:/system.slice/redis/a", p));
    assert_true(means("gpu,name:no,name:redis*", p));
}

static void test_refusals(void **state)
{
    static const char *const rows[] = {"",      "al",    "ALL",     "all,", ",all",
                                       "role:", "name:", "cgroup:", "role", "sampling"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hw_memlog m = {0};
        struct hw_error err = {0};
        assert_int_equal(hw_memlog_parse(hw_bytes_str(rows[i]), &m, &err), HW_EINVAL);
        assert_non_null(strstr(err.text, "is not a mode"));
        hw_memlog_done(&m);
    }
    struct hw_memlog m = {0};
    struct hw_error err = {0};
    assert_int_equal(hw_memlog_parse(hw_bytes_of("a\0b", 3), &m, &err), HW_EINVAL);
    char many[400] = "gpu";
    for (size_t i = 0; i < 70; i++)
        memcpy(many + 3 + 4 * i, ",gpu", 5);
    assert_int_equal(hw_memlog_parse(hw_bytes_str(many), &m, &err), HW_ELIMIT);
    hw_memlog_done(&m);
}

static void test_roles(void **state)
{
    static const struct {
        const char *environment, *cmdline;
        size_t n_environment, n_cmdline;
        bool leads;
        const char *role;
    } rows[] = {
#define TEXTS(e, c) e, c, sizeof(e) - 1, sizeof(c) - 1
        {TEXTS("", ""), false, "utility"},
        {TEXTS("", ""), true, "browser"},
        {TEXTS("", "chrome\0--type=renderer\0-x\0"), true, "renderer"},
        {TEXTS("", "chrome\0--type=gpu-process\0"), false, "gpu"},
        {TEXTS("", "chromium --type=gpu-process --x"), false, "gpu"}, /* a title */
        {TEXTS("", "chromium --type=renderer --x\0\0\0"), true, "renderer"},
        {TEXTS("", "sh\0-c\0chromium --type=renderer\0"), false, "utility"},
        {TEXTS("A=1\0MEMLOG_ROLE=worker\0B=2\0", "x\0--type=renderer\0"), false, "worker"},
        {TEXTS("XMEMLOG_ROLE=worker\0MEMLOG_ROLE=\0", "x\0"), false, "utility"},
        {TEXTS("MEMLOG_ROLE=worker", ""), false, "worker"},
        {TEXTS("", "a\0--type\0--type=\0x--type=b\0"), true, "browser"},
#undef TEXTS
    };
    char role[64];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hw_memlog_role(hw_bytes_of(rows[i].environment, rows[i].n_environment),
                       hw_bytes_of(rows[i].cmdline, rows[i].n_cmdline), rows[i].leads, role);
        assert_string_equal(role, rows[i].role);
    }
    char wide[200];
    memset(wide, 'x', sizeof wide);
    memcpy(wide, "--type=", 7);
    hw_memlog_role(hw_bytes_of(NULL, 0), hw_bytes_of(wide, sizeof wide), false, role);
    assert_int_equal(strlen(role), 63);
}

static void test_groups(void **state)
{
    static const struct {
        const char *text, *path;
    } rows[] = {{"0::/user.slice/a\n", "/user.slice/a"},
                {"12:memory:/m\n1:name=systemd:/s\n0::/u\n", "/u"},
                {"12:memory:/m\n1:name=systemd:/s\n", "/m"},
                {"", "/"},
                {"rubbish", "/"},
                {"0::", ""},
                {"10::/x\n", "/x"}};
    char path[64];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hw_memlog_cgroup(rows[i].text, path, sizeof path);
        assert_string_equal(path, rows[i].path);
    }
    hw_memlog_cgroup("0::/0123456789\n", path, 6);
    assert_string_equal(path, "/0123");
}

/* In a configuration: only with all. */
static void test_configuration(void **state)
{
    struct hw_strbuf binary = {0};
    struct hw_trace_config c;
    struct hw_error err = {0};
    static const char *const rows[] = {"all: true memlog: \"gpu,name:x\" memlog: \"all\"",
                                       "memlog: \"gpu\"", "all: true memlog: \"nothing\""};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        (void)snprintf(text, sizeof text,
                       "buffers { size_kb: 1 } data_sources { config { name: \"android.heapprofd\" "
                       "heapprofd_config { "
                       "sampling_interval_bytes: 4096 %s } } }",
                       rows[i]);
        hw_strbuf_clear(&binary);
        if (hw_config_text_to_binary("t", hw_bytes_str(text), false, &binary, &err) < 0)
            fail_msg("%s", err.text);
        int rc = hw_config_read(hw_bytes_of(binary.p, binary.n), &c, &err);
        assert_int_equal(rc, i ? HW_EINVAL : HW_OK);
        if (rc == HW_OK) {
            assert_int_equal(c.heapprofd.v[0].memlog.rules.n, 3);
            hw_trace_config_done(&c);
        }
    }
    hw_strbuf_done(&binary);
}

/* What is not needed is not read: of names alone neither a role nor a group. */
static void test_needs(void **state)
{
    (void)state;
    struct hw_memlog m = {0};
    assert_int_equal(hw_memlog_parse(hw_bytes_str("name:sh,name:ls"), &m, NULL), HW_OK);
    assert_true(hw_memlog_needs(&m, HW_MEMLOG_NAME));
    assert_false(hw_memlog_needs(&m, HW_MEMLOG_ROLE));
    assert_false(hw_memlog_needs(&m, HW_MEMLOG_CGROUP));
    assert_int_equal(hw_memlog_parse(hw_bytes_str("cgroup:/a,role:gpu"), &m, NULL), HW_OK);
    assert_true(hw_memlog_needs(&m, HW_MEMLOG_ROLE));
    assert_true(hw_memlog_needs(&m, HW_MEMLOG_CGROUP));
    assert_false(hw_memlog_needs_others(&m, "gpu"));
    assert_false(hw_memlog_needs_others(&m, "renderer"));
    assert_int_equal(hw_memlog_parse(hw_bytes_str("renderer-sampling"), &m, NULL), HW_OK);
    assert_true(hw_memlog_needs_others(&m, "renderer"));
    assert_false(hw_memlog_needs_others(&m, "gpu"));
    hw_memlog_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),         cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_selectors),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_roles),         cmocka_unit_test(test_groups),
        cmocka_unit_test(test_configuration), cmocka_unit_test(test_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
