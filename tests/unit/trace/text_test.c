/* The text of a trace: protoc turns it back into the very bytes that protoc makes of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "base/bytes.h"
#include "base/files/fd.h"
#include "trace/process_writer.h"
#include "trace/reader.h"
#include "trace/text.h"
#include "trace/writer.h"

static void write_trace(int fd)
{
    struct hw_trace_writer *w;
    static const char *const argv[] = {"/bin/a \"quoted\" \\ name", "\t\x01\xc3\xa9"};
    struct hw_process_entry e = {.pid = 7, .cmdline = argv, .n_cmdline = 2, .uid = -1};
    struct hw_process_counters c;
    struct hw_vma maps[] = {{"/lib/x.so", {0, 8, 4}}, {"", {0, 16, 16}}, {"/lib/x.so", {0, 4}}};
    struct hw_malloc_info m = {.pid = 7, .in_use_bytes = UINT64_MAX};
    assert_int_equal(hw_trace_writer_new(fd, &w, NULL), 0);
    assert_int_equal(hw_trace_write_preamble(w, hw_bytes_of("", 0), -5, 6, 2, NULL), 0);
    uint32_t seq = hw_trace_writer_sequence(w);
    assert_int_equal(hw_trace_process_tree(w, seq, 1, &e, 1, NULL, 0, NULL), 0);
    hw_process_counters_init(&c, 7);
    c.vm_rss_kb = 12;
    c.oom_score_adj = -1000;
    assert_int_equal(hw_trace_process_stats(w, seq, 2, &c, 1, NULL), 0);
    assert_int_equal(hw_trace_smaps(w, seq, 3, 7, maps, 3, 0, true, NULL), 0);
    assert_int_equal(hw_trace_smaps(w, seq, 3, 7, maps, 3, 0, false, NULL), 0);
    assert_int_equal(hw_trace_malloc_info(w, seq, 4, &m, NULL), 0);
    assert_int_equal(hw_trace_write_stats(w, 0, NULL), 0);
    hw_trace_writer_free(w);
}

static void run(const char *fmt, const char *a, const char *b, const char *c)
{
    char command[1024];
    (void)snprintf(command, sizeof command, fmt, a, b, c);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

static void protoc_reads_the_text(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw-text-XXXXXX", path[64], text[64];
    struct hw_trace_reader *r;
    size_t damaged = 0;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/bin", dir);
    (void)snprintf(text, sizeof text, "%s/txt", dir);
    FILE *bin = fopen(path, "w+"), *txt = fopen(text, "w");
    write_trace(fileno(bin));
    assert_int_equal(hw_trace_reader_open_fd(fileno(bin), &r, NULL), 0);
    assert_int_equal(hw_trace_print_text(r, fileno(txt), &damaged, NULL), 0);
    assert_int_equal(damaged, 0);
    hw_trace_reader_free(r);
    fclose(bin);
    fclose(txt);
    if (system("protoc --version > /dev/null 2>&1") == 0) {
#define PROTOC "protoc -I" PROTO_DIR " --%s=perfetto.protos.Trace trace.proto heapwise.proto"
        run(PROTOC " < %s > %s/again", "encode", text, dir);
        run(PROTOC " < %s > %s/text1", "decode", path, dir);
        run("protoc -I" PROTO_DIR " --decode=perfetto.protos.Trace trace.proto heapwise.proto"
            " < %s/again > %s/text2%s",
            dir, dir, "");
        run("cmp %s/text1 %s/text2%s", dir, dir, "");
    } else {
        print_message("no protoc: the text is not checked\n");
    }
    run("rm -r %s%s%s", dir, "", "");
}

HW_TEST_MAIN(cmocka_unit_test(protoc_reads_the_text))
