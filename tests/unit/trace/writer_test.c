/* The writer where writing fails: whole packets stay, the error stays. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/reader.h"
#include "trace/writer.h"

enum { LIMIT = 100000 };

/* A file-size limit stands for a full disk: the write that crosses it is cut short. */
static void a_full_disk_leaves_whole_packets(void **state)
{
    (void)state;
    char path[] = "/tmp/hw-writer-XXXXXX";
    int fd = mkstemp(path), rc = 0, n_written = 0, n_read = 0;
    struct rlimit old, small;
    struct hw_trace_writer *w;
    struct hw_trace_reader *r;
    struct hw_packet p;
    struct hw_error err;
    static char text[7001];
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(hw_trace_writer_new(fd, &w, NULL), 0);
    for (int i = 0; i < 40; i++) {
        struct hw_pb *pb = hw_trace_begin(w, 2, 1);
        hw_pb_bytes(pb, HW_F_TracePacket_trace_config, text, sizeof text);
        rc = hw_trace_end(w, &err);
        n_written += rc == 0;
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(rc, HW_ESYS);
    assert_int_equal(err.sys_errno, EFBIG);
    assert_int_equal(n_written, 14);
    assert_int_equal(lseek(fd, 0, SEEK_END), hw_trace_writer_bytes(w));
    assert_int_equal(hw_trace_reader_open_fd(fd, &r, NULL), 0);
    while (hw_trace_reader_next(r, &p, NULL) == 1)
        n_read++;
    assert_int_equal(n_read, n_written);
    assert_false(hw_trace_reader_stats(r)->truncated);
    hw_trace_reader_free(r);
    hw_trace_writer_free(w);
    close(fd);
    unlink(path);
}

/* What the writer adds goes behind what is there. */
static void packets_are_appended(void **state)
{
    (void)state;
    char path[] = "/tmp/hw-writer-XXXXXX";
    int fd = mkstemp(path);
    struct hw_trace_reader *r;
    struct hw_packet p;
    for (int i = 0; i < 2; i++) {
        struct hw_trace_writer *w;
        assert_int_equal(hw_trace_writer_new(fd, &w, NULL), 0);
        assert_int_equal(hw_trace_write_clocks(w, NULL), 0);
        hw_trace_writer_free(w);
    }
    assert_int_equal(hw_trace_reader_open_fd(fd, &r, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hw_trace_reader_next(r, &p, NULL), 1);
        assert_int_equal(p.data_field, HW_F_TracePacket_clock_snapshot);
    }
    assert_int_equal(hw_trace_reader_next(r, &p, NULL), 0);
    hw_trace_reader_free(r);
    close(fd);
    unlink(path);
}

HW_TEST_MAIN(cmocka_unit_test(a_full_disk_leaves_whole_packets),
             cmocka_unit_test(packets_are_appended))
