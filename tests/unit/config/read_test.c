/* hw_config_read: each refusal and warning with its text, defaults, and the derivation of heaps. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/config.h"

#include "test.h"

#define SOURCE(name, rest) "data_sources { config { name: \"" name "\" " rest " } }"
#define HEAPPROFD(fields)                                                                          \
    "buffers { size_kb: 1 } " SOURCE("android.heapprofd", "heapprofd_config { " fields " }")

static int read_text(const char *text, struct hw_trace_config *c, struct hw_error *err)
{
    struct hw_strbuf binary = {0};
    int rc = hw_config_text_to_binary("t", hw_bytes_str(text), false, &binary, err);
    if (rc == 0)
        rc = hw_config_read(hw_bytes_of(binary.p, binary.n), c, err);
    hw_strbuf_done(&binary);
    return rc;
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"duration_ms: 604800001", "Requested too long trace (604800001ms > 604800000ms)"},
        {"duration_ms: 86400001 enable_extra_guardrails: true",
         "Requested too long trace (86400001ms > 86400000ms)"},
        {"buffers { name: \"a\" } buffers { name: \"a\" }", "two buffers have the name 'a'"},
        {"buffers { size_kb: 131073 } enable_extra_guardrails: true",
         "with enable_extra_guardrails all buffers together may have 131072 KiB, not 131073 KiB"},
        {SOURCE("x", ""), "data source 'x' has no buffer: add `buffers { size_kb: 63488 }`"},
        {"buffers {} " SOURCE("x", "target_buffer: 1"),
         "data source 'x': target_buffer 1 is out of range (1 buffers)"},
        {"buffers { name: \"b\" } " SOURCE("x", "target_buffer_name: \"c\""),
         "data source 'x': no buffer has the name 'c'"},
        {"buffers {} buffers { name: \"b\" } " SOURCE("x",
                                                      "target_buffer: 0 target_buffer_name: \"b\""),
         "data source 'x': target_buffer and target_buffer_name differ"},
        {"trigger_config { }", "trigger_timeout_ms must be 1 to 604800000"},
        {"trigger_config { trigger_timeout_ms: 1 } duration_ms: 1",
         "trigger_config and duration_ms exclude each other"},
        {"trigger_config { trigger_timeout_ms: 1 trigger_mode: STOP_TRACING } write_into_file: "
         "true",
         "trigger_mode STOP_TRACING or CLONE_SNAPSHOT excludes write_into_file"},
        {"trigger_config { trigger_timeout_ms: 1 triggers { name: \"t\" } triggers { name: \"t\" } "
         "}",
         "two triggers have the name 't'"},
        {"output_path: \"/tmp/x\"", "output_path needs write_into_file: true"},
        {"trace_filter { }", "trace_filter cannot be obeyed here: more would be recorded than it "
                             "lets through"},
        {HEAPPROFD(""), "zero sampling interval. Use 1 or more bytes; 1 records every allocation."},
        {HEAPPROFD("sampling_interval_bytes: 0"),
         "zero sampling interval. Use 1 or more bytes; 1 records every allocation."},
        {HEAPPROFD("all_heaps: true"),
         "zero sampling interval. Use 1 or more bytes; 1 records every allocation."},
        {HEAPPROFD("heaps: \"a\" heap_sampling_intervals: 0"),
         "zero sampling interval. Use 1 or more bytes; 1 records every allocation."},
        {HEAPPROFD("heaps: \"a\" heap_sampling_intervals: 1 heap_sampling_intervals: 2"),
         "heap_sampling_intervals and heaps length mismatch."},
        {HEAPPROFD("sampling_interval_bytes: 1 heaps: \"python.alloc\""),
         "python.alloc has the interval of libc.malloc: name both, with one interval"},
        {HEAPPROFD(
             "heaps: \"python.alloc\" heaps: \"libc.malloc\" heap_sampling_intervals: [1, 2]"),
         "python.alloc has the interval of libc.malloc: name both, with one interval"},
        {HEAPPROFD("sampling_interval_bytes: 1 no_startup: true no_running: true"),
         "no_startup and no_running exclude each other: no process would be left"},
        {HEAPPROFD("sampling_interval_bytes: 1 process_cmdline: \"a*\""),
         "process_cmdline \"a*\" has a wildcard, which needs no_startup: true"},
        {HEAPPROFD("sampling_interval_bytes: 1 shmem_size_bytes: 12288"),
         "Failed to create shared memory. shmem_size_bytes 12288 is not a power of two and a "
         "multiple of 4096"},
        {HEAPPROFD("sampling_interval_bytes: 1 shmem_size_bytes: 4096"),
         "Failed to create shared memory. shmem_size_bytes 4096 is less than 8192"},
        {HEAPPROFD("sampling_interval_bytes: 1 pid: 0"), "pid 0 is not a process id"},
        {HEAPPROFD("sampling_interval_bytes: 1 target_installed_by: \"x\""),
         "target_installed_by selects by Android's installers and cannot be obeyed here: more "
         "processes than asked for would be profiled"},
        {HEAPPROFD("sampling_interval_bytes: 1 process_cmdline: \"a\\000b\""),
         "a name in the configuration contains a NUL byte"},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        struct hw_trace_config c = {0};
        struct hw_error err = {0};
        int rc = read_text(rows[i].text, &c, &err);
        assert_string_equal(rc < 0 ? err.text : rows[i].text, rows[i].message);
        assert_int_equal(rc, HW_EINVAL);
    }
}

static void test_many_buffers(void **state)
{
    (void)state;
    struct hw_strbuf text = {0};
    for (int i = 0; i < 129; i++)
        hw_strbuf_adds(&text, "buffers {} ");
    struct hw_trace_config c = {0};
    struct hw_error err = {0};
    assert_int_equal(read_text(text.p, &c, &err), HW_EINVAL);
    assert_string_equal(err.text, "Too many buffers configured (129)");
    hw_strbuf_done(&text);
}

static void test_warnings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *warning;
    } rows[] = {
        {"buffers {} " SOURCE("linux.ftrace", ""),
         "no data source 'linux.ftrace' here; the rest is recorded\n"},
        {"deferred_start: true", "deferred_start: the recording starts at once\n"},
        {"deferred_start: false", NULL},
        {HEAPPROFD("sampling_interval_bytes: 1 all: true pid: 3"),
         "all is set together with pid or process_cmdline: every process is meant\n"},
        {HEAPPROFD("sampling_interval_bytes: 1 shmem_size_bytes: 1073741824"),
         "shmem_size_bytes 1073741824 is above the limit of 524288000; 268435456 is used\n"},
        {HEAPPROFD("sampling_interval_bytes: 1"), NULL},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        struct hw_trace_config c = {0};
        struct hw_error err = {0};
        if (read_text(rows[i].text, &c, &err) != 0)
            fail_msg("row %zu: %s", i, err.text);
        assert_string_equal(c.warnings.n ? c.warnings.p : "",
                            rows[i].warning ? rows[i].warning : "");
        hw_trace_config_done(&c);
    }
}

static void test_defaults(void **state)
{
    (void)state;
    struct hw_trace_config c = {0};
    struct hw_error err = {0};
    assert_int_equal(read_text(HEAPPROFD("sampling_interval_bytes: 4096"), &c, &err), 0);
    assert_int_equal(c.heapprofd.n, 1);
    assert_int_equal(c.file_write_period_ms, 5000);
    assert_int_equal(c.flush_timeout_ms, 5000);
    assert_int_equal(c.stop_timeout_ms, 5000);
    const struct hw_heapprofd_config *h = &c.heapprofd.v[0];
    assert_int_equal(h->shmem_size_bytes, 8 << 20);
    assert_false(h->block_client);
    assert_int_equal(h->heaps.n, 1);
    assert_string_equal(h->heaps.v[0].name, "libc.malloc");
    assert_int_equal(h->heaps.v[0].interval_bytes, 4096);
    assert_int_equal(h->default_interval_bytes, 0);
    hw_trace_config_done(&c);
}

static void test_heaps(void **state)
{
    (void)state;
    struct hw_trace_config c = {0};
    struct hw_error err = {0};
    assert_int_equal(read_text(HEAPPROFD("all_heaps: true sampling_interval_bytes: 7 heaps: \"a\" "
                                         "heaps: \"b\" heap_sampling_intervals: [1, 2] "
                                         "exclude_heaps: \"c\""),
                               &c, &err),
                     0);
    const struct hw_heapprofd_config *h = &c.heapprofd.v[0];
    static const struct hw_heap_interval want[] = {
        {(char *)"a", 1}, {(char *)"b", 2}, {(char *)"c", 0}};
    assert_int_equal(h->heaps.n, HW_ARRAY_LEN(want));
    for (size_t i = 0; i < HW_ARRAY_LEN(want); i++) {
        assert_string_equal(h->heaps.v[i].name, want[i].name);
        assert_int_equal(h->heaps.v[i].interval_bytes, want[i].interval_bytes);
    }
    assert_int_equal(h->default_interval_bytes, 7);
    hw_trace_config_done(&c);
}

/* Those of mappings have no interval, and are in no list. */
static void test_mappings(void **state)
{
    static const struct {
        const char *text;
        uint32_t mappings;
        size_t n_heaps;
    } rows[] = {
        {HEAPPROFD("sampling_interval_bytes: 4096"), 0, 1},
        {HEAPPROFD("sampling_interval_bytes: 4096 all_heaps: true"), 0, 0},
        {HEAPPROFD("sampling_interval_bytes: 4096 heaps: \"mmap.anon\""), 1, 0},
        {HEAPPROFD("sampling_interval_bytes: 4096 heaps: \"libc.malloc\" heaps: \"mmap.file\" "
                   "heaps: \"mmap.shared\""),
         6, 1},
        {HEAPPROFD("sampling_interval_bytes: 4096 heaps: \"mmap.anon\" heaps: \"mmap.file\" "
                   "exclude_heaps: \"mmap.anon\""),
         2, 0},
        {HEAPPROFD("sampling_interval_bytes: 4096 heaps: \"mmap.other\""), 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        struct hw_trace_config c = {0};
        struct hw_error err = {0};
        assert_int_equal(read_text(rows[i].text, &c, &err), 0);
        assert_int_equal(c.heapprofd.v[0].mappings, rows[i].mappings);
        assert_int_equal(c.heapprofd.v[0].heaps.n, rows[i].n_heaps);
        hw_trace_config_done(&c);
    }
}

static void test_heap_limits(void **state)
{
    (void)state;
    struct hw_strbuf text = {0};
    hw_strbuf_adds(&text, "buffers {} data_sources { config { name: \"android.heapprofd\" "
                          "heapprofd_config { sampling_interval_bytes: 1 heaps: \"");
    for (int i = 0; i < 64; i++)
        hw_strbuf_addc(&text, 'n');
    hw_strbuf_adds(&text, "\" ");
    for (int i = 0; i < 70; i++)
        hw_strbuf_addf(&text, "heaps: \"h%d\" ", i);
    hw_strbuf_adds(&text, "} } }");
    struct hw_trace_config c = {0};
    struct hw_error err = {0};
    assert_int_equal(read_text(text.p, &c, &err), 0);
    assert_int_equal(c.heapprofd.v[0].heaps.n, 64);
    assert_non_null(strstr(c.warnings.p, "Invalid heap name 'nnn"));
    assert_non_null(strstr(c.warnings.p, "Too many heaps requested. Truncating.\n"));
    hw_trace_config_done(&c);
    hw_strbuf_done(&text);
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *configured, *argv0;
        bool match;
    } rows[] = {
        {"/system/bin/surfaceflinger@1.0", "surfaceflinger", true},
        {"surfaceflinger", "/system/bin/surfaceflinger@1.0", true},
        {"server", "/opt/x/server", true},
        {"server", "server2", false},
        {"/other/server", "/opt/server", true}, /* only the last piece counts */
        {"a", "", false},
        {"", "a", false},
        {"", "/", false},
        {"*", "x", true},
        {"*", "", false},
        {"ser*", "/opt/server", true},
        {"ser*r", "/opt/server", true},
        {"ser*x", "/opt/server", false},
        {"/opt/*", "/opt/x/server", true},
        {"/opt/*", "/usr/opt/server", false},
        {"*@1", "server@1", true}, /* globs are not cut */
        {"a*b*c", "axxbyybzzc", true},
        {"a*b*c", "axxbyybzz", false},
        {"**", "q", true},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++)
        if (hw_config_name_matches(rows[i].configured, rows[i].argv0) != rows[i].match)
            fail_msg("'%s' and '%s'", rows[i].configured, rows[i].argv0);
}

HW_TEST_MAIN(cmocka_unit_test(test_refusals), cmocka_unit_test(test_many_buffers),
             cmocka_unit_test(test_warnings), cmocka_unit_test(test_defaults),
             cmocka_unit_test(test_heaps), cmocka_unit_test(test_mappings),
             cmocka_unit_test(test_heap_limits), cmocka_unit_test(test_names))
