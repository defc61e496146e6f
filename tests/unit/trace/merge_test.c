#include "test.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/merge.h"

enum { BOOTTIME = 6 };

/* A file of packets on sequence 1: each is a snapshot of the clocks at that time, or, below zero, another
 * one whose timestamp is that. */
static int file_of(const int *times, size_t n)
{
    struct hw_pb w = {0};
    for (size_t i = 0; i < n; i++) {
        hw_pb_begin(&w, HW_F_Trace_packet);
        hw_pb_uint(&w, HW_F_TracePacket_trusted_packet_sequence_id, 1);
        if (times[i] < 0)
            hw_pb_uint(&w, HW_F_TracePacket_timestamp, (uint64_t)-times[i]);
        else {
            hw_pb_begin(&w, HW_F_TracePacket_clock_snapshot);
            hw_pb_begin(&w, HW_F_ClockSnapshot_clocks);
            hw_pb_uint(&w, HW_F_ClockSnapshot_Clock_clock_id, BOOTTIME);
            hw_pb_uint(&w, HW_F_ClockSnapshot_Clock_timestamp, (uint64_t)times[i]);
            hw_pb_end(&w);
            hw_pb_end(&w);
        }
        hw_pb_end(&w);
    }
    int fd = memfd_create("trace", 0);
    assert_int_equal(write(fd, hw_pb_view(&w).p, hw_pb_view(&w).n), (ssize_t)hw_pb_view(&w).n);
    hw_pb_done(&w);
    return fd;
}

static uint64_t boot_time_of(struct hw_bytes snapshot)
{
    struct hw_pb_reader r = hw_pb_read(snapshot);
    struct hw_pb_field clock, value;
    assert_int_equal(hw_pb_next(&r, &clock), 1);
    r = hw_pb_read(clock.bytes);
    assert_int_equal(hw_pb_next(&r, &value), 1);
    assert_int_equal(hw_pb_next(&r, &value), 1);
    return value.value;
}

/* Text as "1:10 1:-11": sequence and number of each packet. */
static void merged(int a, int b, char *out, size_t n_out)
{
    struct hw_trace_merge_input in[] = {{.fd = a}, {.fd = b}};
    struct hw_trace_merge m = {.out_fd = memfd_create("merged", 0)};
    struct hw_trace_reader *reader;
    struct hw_packet p;
    size_t at = 0;
    assert_int_equal(hw_trace_merge(&m, in, 2, NULL), 0);
    assert_int_equal(hw_trace_reader_open_fd(m.out_fd, &reader, NULL), 0);
    out[0] = '\0';
    while (hw_trace_reader_next(reader, &p, NULL) == 1)
        at += (size_t)snprintf(out + at, n_out - at, "%s%d:%d", at ? " " : "",
                               (int)(uint32_t)p.sequence,
                               p.has_timestamp ? -(int)p.timestamp : (int)boot_time_of(p.data));
    hw_trace_reader_free(reader);
    close(m.out_fd);
}

static void parts_go_by_the_clock(void **state)
{
    (void)state;
    char text[256];
    int late = file_of((int[]){20, -25, 40, -41}, 4),
        early = file_of((int[]){-9, 10, -11, 30, -35, -38}, 6);
    merged(late, early, text, sizeof text);
    assert_string_equal(text, "1:-9 1:10 1:-11 2:20 2:-25 1:30 1:-35 1:-38 2:40 2:-41");
    merged(early, late, text, sizeof text);
    assert_string_equal(text, "1:-9 1:10 1:-11 2:20 2:-25 1:30 1:-35 1:-38 2:40 2:-41");
    close(late);
    close(early);
}

/* Without a snapshot, or with one that goes back, a file keeps its order. */
static void an_input_keeps_its_order(void **state)
{
    (void)state;
    char text[256];
    int none = file_of((int[]){-50, -51}, 2), back = file_of((int[]){20, -21, 10, -11}, 4);
    merged(back, none, text, sizeof text);
    assert_string_equal(text, "1:-50 1:-51 2:20 2:-21 2:10 2:-11");
    merged(none, none, text, sizeof text);
    assert_string_equal(text, "1:-50 1:-51 2:-50 2:-51");
    close(none);
    close(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_go_by_the_clock),
        cmocka_unit_test(an_input_keeps_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
