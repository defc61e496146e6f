/* The text parser: what it accepts (against protoc) and each message it gives, with its place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"

#include "test.h"

static int parse(const char *text, bool lossy, struct hw_strbuf *out, struct hw_error *err)
{
    return hw_config_text_to_binary("-", hw_bytes_str(text), lossy, out, err);
}

static void test_messages(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"duration_sm: 1", "-:1:1 error: No field named \"duration_sm\" in proto TraceConfig\n"
                           "duration_sm: 1\n^~~~~~~~~~~"},
        {"buffers { size: 1 }", "-:1:11 error: No field named \"size\" in proto BufferConfig\n"
                                "buffers { size: 1 }\n          ^~~~"},
        {"duration_ms: 1\n\tduration_ms: 2",
         "-:2:2 error: Saw non-repeating field 'duration_ms' more than once\n"
         "\tduration_ms: 2\n\t^~~~~~~~~~~"},
        {"duration_ms: \"x\"",
         "-:1:14 error: Expected value of type uint32 for field duration_ms in "
         "proto TraceConfig instead saw '\"x\"'\n"
         "duration_ms: \"x\"\n             ^~~"},
        {"duration_ms: -1",
         "-:1:14 error: Expected value of type uint32 for field duration_ms in proto TraceConfig "
         "instead saw '-1'\nduration_ms: -1\n             ^~"},
        {"duration_ms: 4294967296",
         "-:1:14 error: Expected value of type uint32 for field duration_ms in proto TraceConfig "
         "instead saw '4294967296'\nduration_ms: 4294967296\n             ^~~~~~~~~~"},
        {"duration_ms { }", "-:1:13 error: Expected value of type uint32 for field duration_ms in "
                            "proto TraceConfig instead saw '{'\nduration_ms { }\n            ^"},
        {"buffers: 3", "-:1:10 error: Expected value of type message for field buffers in proto "
                       "TraceConfig instead saw '3'\nbuffers: 3\n         ^"},
        {"buffers { fill_policy: RING }",
         "-:1:24 error: Unexpected value 'RING' for enum field fill_policy in proto BufferConfig\n"
         "buffers { fill_policy: RING }\n                       ^~~~"},
        {"write_into_file: yes", "-:1:18 error: Expected 'true' or 'false' for boolean field "
                                 "write_into_file in proto TraceConfig instead saw 'yes'\n"
                                 "write_into_file: yes\n                 ^~~"},
        {"duration_ms: 1 }", "-:1:16 error: Unmatched closing brace\n"
                             "duration_ms: 1 }\n               ^"},
        {"buffers {\n size_kb: 1", "-:1:9 error: Nested message not closed\n"
                                   "buffers {\n        ^"},
        {"duration_ms:", "-:1:13 error: Unexpected end of input\nduration_ms:\n            ^"},
        {"output_path: \"abc", "-:1:18 error: Unexpected end of input\n"
                               "output_path: \"abc\n                 ^"},
        {"duration_ms: @", "-:1:14 error: Unexpected character '@'\n"
                           "duration_ms: @\n             ^"},
        {"duration_ms: 1@", "-:1:15 error: Unexpected character '@'\n"
                            "duration_ms: 1@\n              ^"},
        {"output_path: \"a\\q\"", "-:1:16 error: Unknown string escape\n"
                                  "output_path: \"a\\q\"\n               ^~"},
        {"output_path: \"\\12\"", "-:1:15 error: Malformed string escape\n"
                                  "output_path: \"\\12\"\n              ^~"},
        {"output_path: \"\\777\"", "-:1:15 error: Malformed string escape\n"
                                   "output_path: \"\\777\"\n              ^~"},
        {"\x01", "-:1:1 error: Unexpected character '\\x01'\n?\n^"},
        {"buffers { > ", "-:1:11 error: Unmatched closing brace\nbuffers { > \n          ^"},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        struct hw_strbuf out = {0};
        struct hw_error err = {0};
        assert_int_equal(parse(rows[i].text, false, &out, &err), HW_EINVAL);
        assert_string_equal(err.text, rows[i].message);
        hw_strbuf_done(&out);
    }
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    struct hw_strbuf text = {0}, out = {0};
    struct hw_error err = {0};
    for (int i = 0; i < 100000; i++)
        hw_strbuf_adds(&text, "x {");
    assert_int_equal(parse(text.p, /* lossy = */ true, &out, &err), HW_EINVAL);
    assert_non_null(strstr(err.text, "nested more than"));
    hw_strbuf_done(&text);
    hw_strbuf_done(&out);
}

static void test_lossy(void **state)
{
    (void)state;
    static const char text[] = "unknown: 1 other { a: \"x\" b [1, 2] c { } } [some.ext]: 3\n"
                               "buffers { size_kb: 4 fill_policy: NO_SUCH }";
    struct hw_strbuf out = {0}, back = {0};
    struct hw_error err = {0};
    assert_int_equal(parse(text, true, &out, &err), 0);
    assert_int_equal(hw_config_binary_to_text(hw_bytes_of(out.p, out.n), &back, &err), 0);
    assert_string_equal(back.p, "buffers {\n  size_kb: 4\n}\n");
    hw_strbuf_done(&out);
    hw_strbuf_done(&back);
}

static const char *const accepted[] = {
    "",
    "# only a comment",
    "duration_ms: 5 # c\nwrite_into_file: true;flush_period_ms: 7",
    "buffers: { size_kb: 63488 } buffers { fill_policy: DISCARD name: \"b\" }",
    "buffers <size_kb: 1> buffers { size_kb: 0x10 }",
    "data_sources { config { name: \"android.heapprofd\" heapprofd_config {\n"
    "  sampling_interval_bytes: 4096 process_cmdline: \"a\" process_cmdline: 'b\"c'\n"
    "  pid: 1 pid: [2, 3] continuous_dump_config { dump_phase_ms: 0 dump_interval_ms: 5000 }\n"
    "  heap_sampling_intervals: 18446744073709551615 block_client: false } } }",
    "output_path: \"a\" \"b\" 'c'\nunique_session_name: "
    "\"\\\\\\'\\\"\\?\\a\\b\\f\\n\\r\\t\\v\\101\\x41\"",
    "trace_uuid_msb: -9223372036854775808 trace_uuid_lsb: 9223372036854775807",
    "trigger_config { trigger_mode: CLONE_SNAPSHOT triggers { skip_probability: 0.25 } "
    "triggers { skip_probability: -1e3 } }",
    "compression { zstd { level: -3 } }",
    "data_sources { config { heapprofd_config { [heapwise.protos.idle_allocations]: true } } }",
    "buffers [ { size_kb: 1 }, { size_kb: 2 } ], duration_ms: 1, lockdown_mode: LOCKDOWN_SET",
    "data_sources { config { java_hprof_config { smaps_config {\n"
    " vma_fields: VMA_FIELD_SWAP_PSS vma_fields: VMA_FIELD_SIZE } } } }",
};

/* Forms that protoc does not know. */
static void test_own_forms(void **state)
{
    (void)state;
    struct hw_strbuf out = {0}, back = {0};
    struct hw_error err = {0};
    assert_int_equal(
        parse("duration_ms 5 write_into_file true output_path \"x\"", false, &out, &err), 0);
    assert_int_equal(hw_config_binary_to_text(hw_bytes_of(out.p, out.n), &back, &err), 0);
    assert_string_equal(back.p, "duration_ms: 5\nwrite_into_file: true\noutput_path: \"x\"\n");
    hw_strbuf_done(&out);
    hw_strbuf_done(&back);
}

static char *run(const char *command)
{
    FILE *f = popen(command, "r");
    assert_non_null(f);
    struct hw_strbuf b = {0};
    char part[4096];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        hw_strbuf_add(&b, part, n);
    assert_int_equal(pclose(f), 0);
    return hw_strbuf_take(&b);
}

static void write_file(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* protoc reads the same text; both binaries, read back by protoc, must say the same. */
static void test_against_protoc(void **state)
{
    (void)state;
    if (system("protoc --version >/dev/null 2>&1") != 0)
        skip();
    char dir[] = "/tmp/hw-text-test-XXXXXX", command[1024], a[64], b[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(a, sizeof a, "%s/text", dir);
    (void)snprintf(b, sizeof b, "%s/ours", dir);
    for (size_t i = 0; i < HW_ARRAY_LEN(accepted); i++) {
        struct hw_strbuf out = {0};
        struct hw_error err = {0};
        if (parse(accepted[i], false, &out, &err) != 0)
            fail_msg("row %zu: %s", i, err.text);
        write_file(a, accepted[i], strlen(accepted[i]));
        write_file(b, out.p, out.n);
        const char *protoc = "protoc -I" PROTO_DIR " --%s=perfetto.protos.TraceConfig config.proto "
                             "heapwise.proto";
        char encode[400], decode[400];
        (void)snprintf(encode, sizeof encode, protoc, "encode");
        (void)snprintf(decode, sizeof decode, protoc, "decode");
        (void)snprintf(command, sizeof command, "%s <%s | %s", encode, a, decode);
        char *theirs = run(command);
        (void)snprintf(command, sizeof command, "%s <%s", decode, b);
        char *ours = run(command);
        assert_string_equal(ours, theirs);
        free(theirs);
        free(ours);
        hw_strbuf_done(&out);
    }
    (void)unlink(a);
    (void)unlink(b);
    (void)rmdir(dir);
}

/* What is printed reads back to the same bytes. */
static void test_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < HW_ARRAY_LEN(accepted); i++) {
        struct hw_strbuf one = {0}, text = {0}, two = {0};
        struct hw_error err = {0};
        assert_int_equal(parse(accepted[i], false, &one, &err), 0);
        assert_int_equal(hw_config_binary_to_text(hw_bytes_of(one.p, one.n), &text, &err), 0);
        if (parse(text.p ? text.p : "", false, &two, &err) != 0)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(one.n, two.n);
        assert_memory_equal(one.p ? one.p : "", two.p ? two.p : "", one.n);
        hw_strbuf_done(&one);
        hw_strbuf_done(&text);
        hw_strbuf_done(&two);
    }
}

HW_TEST_MAIN(cmocka_unit_test(test_messages), cmocka_unit_test(test_depth_is_bounded),
             cmocka_unit_test(test_lossy), cmocka_unit_test(test_own_forms),
             cmocka_unit_test(test_against_protoc), cmocka_unit_test(test_round_trip))
