/* Framing, compressed packets, sequences; and damage at every byte of a small trace. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/process_writer.h"
#include "trace/reader.h"
#include "trace/writer.h"

#define F(name) HW_F_TracePacket_##name

static struct hw_reader_stats read_all(struct hw_bytes file, uint32_t *kinds, size_t max, size_t *n)
{
    struct hw_trace_reader *r;
    struct hw_packet p;
    int rc;
    *n = 0;
    assert_int_equal(hw_trace_reader_open_bytes(file, &r, NULL), 0);
    while ((rc = hw_trace_reader_next(r, &p, NULL)) == 1) {
        if (*n < max)
            kinds[*n] = p.data_field;
        ++*n;
    }
    assert_int_equal(rc, 0);
    struct hw_reader_stats s = *hw_trace_reader_stats(r);
    hw_trace_reader_free(r);
    return s;
}

static void put_clocks(struct hw_pb *w)
{
    hw_pb_begin(w, F(clock_snapshot));
    for (uint32_t id = 1; id <= 6; id++) {
        hw_pb_begin(w, HW_F_ClockSnapshot_clocks);
        hw_pb_uint(w, HW_F_ClockSnapshot_Clock_clock_id, id);
        hw_pb_uint(w, HW_F_ClockSnapshot_Clock_timestamp, 1700000000123456789u + id);
        hw_pb_end(w);
    }
    hw_pb_end(w);
}

/* 15 packets as the writer makes them, but of the same bytes each time: no times, no uuid. */
static struct hw_bytes small_trace(char **owned)
{
    static const uint8_t marker[16] = {0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba,
                                       0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};
    struct hw_pb w = {0};
    for (uint32_t i = 0; i < 15; i++) {
        hw_pb_begin(&w, HW_F_Trace_packet);
        if (i == 1) { /* where a reader finds its way again; last in its packet */
            hw_pb_uint(&w, F(trusted_uid), 1000);
            hw_pb_uint(&w, F(trusted_packet_sequence_id), 1);
            hw_pb_bytes(&w, F(synchronization_marker), marker, sizeof marker);
            hw_pb_end(&w);
            continue;
        }
        hw_pb_uint(&w, F(timestamp), 86400000000000u + i * 1000u);
        hw_pb_uint(&w, F(trusted_uid), 1000);
        hw_pb_uint(&w, F(trusted_packet_sequence_id), i < 4 ? 1 : 2);
        if (i == 4)
            hw_pb_uint(&w, F(sequence_flags), 1);
        if (i < 4) {
            put_clocks(&w);
        } else {
            hw_pb_begin(&w, F(process_tree));
            hw_pb_begin(&w, HW_F_ProcessTree_processes);
            hw_pb_uint(&w, HW_F_ProcessTree_Process_pid, 100 + i);
            hw_pb_str(&w, HW_F_ProcessTree_Process_cmdline, "/bin/true");
            hw_pb_end(&w);
            hw_pb_end(&w);
        }
        hw_pb_end(&w);
    }
    assert_false(hw_pb_failed(&w));
    struct hw_bytes all = hw_pb_view(&w);
    *owned = malloc(all.n);
    assert_non_null(*owned);
    memcpy(*owned, all.p, all.n);
    hw_pb_done(&w);
    return hw_bytes_of(*owned, all.n);
}

/* Ends of the whole packets that stand before each offset. */
static size_t packets_before(struct hw_bytes file, size_t offset)
{
    struct hw_pb_reader r = hw_pb_read(file);
    struct hw_pb_field f;
    size_t n = 0;
    while (hw_pb_next(&r, &f) == 1 && (size_t)(r.pos - r.start) <= offset)
        n++;
    return n;
}

static void a_cut_file_gives_its_whole_packets(void **state)
{
    (void)state;
    char *owned;
    struct hw_bytes file = small_trace(&owned);
    for (size_t cut = 0; cut <= file.n; cut++) {
        size_t n;
        hw_autofree uint8_t *copy = malloc(cut + 1); /* so that a sanitizer sees the end */
        memcpy(copy, file.p, cut);
        struct hw_reader_stats s = read_all(hw_bytes_of(copy, cut), NULL, 0, &n);
        assert_int_equal(n, packets_before(file, cut));
        bool at_boundary = cut == 0 || packets_before(file, cut) > packets_before(file, cut - 1);
        assert_int_equal(s.truncated, !at_boundary);
    }
    free(owned);
}

static void a_broken_byte_costs_its_packet_at_most(void **state)
{
    (void)state;
    char *owned;
    struct hw_bytes file = small_trace(&owned);
    size_t whole = packets_before(file, file.n);
    static const uint8_t flips[] = {0x01, 0x08, 0x80, 0xff};
    for (size_t at = 0; at < file.n; at++)
        for (size_t k = 0; k < sizeof flips; k++) {
            size_t n;
            uint8_t *p = (uint8_t *)owned + at;
            *p ^= flips[k];
            (void)read_all(file, NULL, 0, &n);
            *p ^= flips[k];
            /* A changed tag may make the trace's first field another one: then it is skipped. */
            if (n + 1 < whole || n > whole)
                fail_msg("byte %zu ^ %02x: %zu of %zu packets", at, flips[k], n, whole);
        }
    free(owned);
}

/* A field of each wire type beside the packets; like protobuf's own readers, this one goes on. */
static void put_unknown(struct hw_pb *w, uint32_t number)
{
    hw_pb_uint(w, number, 300);
    hw_pb_double(w, number + 1, 0.5);
    hw_pb_float(w, number + 2, 0.5f);
    hw_pb_str(w, number + 3, "new");
}

/* Packets without an owner: none is found again after damage. */
static void unknown_fields_are_skipped(void **state)
{
    (void)state;
    for (int place = 0; place < 5; place++) {
        struct hw_pb w = {0};
        size_t n;
        uint32_t kinds[3] = {0};
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 2 && (place == i || place == 4); k++)
                put_unknown(&w, 1001);
            hw_pb_begin(&w, HW_F_Trace_packet);
            hw_pb_begin(&w, F(process_tree));
            hw_pb_end(&w);
            hw_pb_end(&w);
        }
        if (place >= 3)
            put_unknown(&w, 1001);
        struct hw_reader_stats s = read_all(hw_pb_view(&w), kinds, 3, &n);
        assert_int_equal(n, 3);
        assert_int_equal(kinds[2], F(process_tree));
        assert_int_equal(s.unknown_fields, place == 4 ? 28 : place == 3 ? 4 : 8);
        assert_int_equal(s.skipped_bytes, 0);
        hw_pb_done(&w);
    }
}

/* The rest of a packet whose beginning is lost has numbers, too. They are no unknown fields. */
static void a_lost_beginning_is_no_unknown_field(void **state)
{
    (void)state;
    char *owned;
    struct hw_bytes file = small_trace(&owned);
    size_t all = packets_before(file, file.n);
    for (size_t from = 1; from < file.n; from++) {
        size_t n, before = packets_before(file, from), whole = all - before;
        bool at_boundary = before > packets_before(file, from - 1);
        hw_autofree uint8_t *copy = malloc(file.n - from + 1);
        memcpy(copy, file.p + from, file.n - from);
        struct hw_reader_stats s = read_all(hw_bytes_of(copy, file.n - from), NULL, 0, &n);
        if (n > whole || n + 1 < whole)
            fail_msg("from byte %zu: %zu of %zu packets", from, n, whole);
        if (!at_boundary && s.skipped_bytes + s.unknown_fields + s.damaged_packets == 0 &&
            !s.truncated)
            fail_msg("from byte %zu: %zu packets, and nothing is counted", from, n);
    }
    free(owned);
}

/* Fields of eight bytes that hide packets must not cost the square of the file's size. */
static void hidden_packets_cost_little(void **state)
{
    (void)state;
    enum { N = 400000 };
    static const uint8_t hides[8] = {0, 0x0a, 4, 0x18, 1, 0x50, 1, 0};
    struct hw_bytes file = {.n = 10 * (size_t)N};
    uint8_t *p = malloc(file.n);
    size_t n;
    assert_non_null(p);
    for (size_t i = 0; i < N; i++) {
        p[10 * i] = 0xe9; /* field 1021, eight bytes */
        p[10 * i + 1] = 0x3f;
        memcpy(p + 10 * i + 2, hides, 8);
    }
    p[file.n - 1] = 0xff;
    file.p = p;
    (void)read_all(file, NULL, 0, &n);
    assert_true(n <= N);
    free(p);
}

static void put_packet(struct hw_pb *w, uint32_t sequence, uint32_t flags, bool dropped,
                       bool interned)
{
    hw_pb_begin(w, HW_F_Trace_packet);
    hw_pb_uint(w, F(trusted_packet_sequence_id), sequence);
    if (flags)
        hw_pb_uint(w, F(sequence_flags), flags);
    if (dropped)
        hw_pb_uint(w, F(previous_packet_dropped), 1);
    if (interned)
        hw_pb_bytes(w, F(interned_data), "\x1a\x00", 2);
    hw_pb_end(w);
}

static void sequences_keep_their_state(void **state)
{
    (void)state;
    static const struct {
        uint32_t sequence, flags;
        bool dropped, interned;
        uint32_t generation; /* expected */
        bool interned_kept, skipped;
    } packets[] = {
        {5, 0, false, true, 0, false, false}, /* before the first clear */
        {5, 1, false, true, 1, true, false},  /* clear */
        {6, 2, false, false, 0, false, true}, /* another sequence has no state */
        {5, 2, false, true, 1, true, false},  /* needs it, has it */
        {5, 0, true, true, 0, false, false},  /* loss */
        {5, 2, false, false, 0, false, true}, /* still invalid */
        {5, 1, true, true, 2, true, false},   /* the clear wins over the loss */
        {0, 1, false, true, 0, false, false}, /* no sequence at all */
    };
    struct hw_pb w = {0};
    struct hw_trace_reader *r;
    struct hw_packet p;
    for (size_t i = 0; i < HW_ARRAY_LEN(packets); i++)
        put_packet(&w, packets[i].sequence, packets[i].flags, packets[i].dropped,
                   packets[i].interned);
    assert_int_equal(hw_trace_reader_open_bytes(hw_pb_view(&w), &r, NULL), 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(packets); i++) {
        if (packets[i].skipped)
            continue;
        assert_int_equal(hw_trace_reader_next(r, &p, NULL), 1);
        assert_int_equal(p.sequence, packets[i].sequence);
        assert_int_equal(p.generation, packets[i].generation);
        assert_int_equal(p.interned.n != 0, packets[i].interned_kept);
    }
    assert_int_equal(hw_trace_reader_next(r, &p, NULL), 0);
    assert_int_equal(hw_trace_reader_stats(r)->interned_skipped, 3);
    assert_int_equal(hw_trace_reader_stats(r)->needs_state_skipped, 2);
    hw_trace_reader_free(r);
    hw_pb_done(&w);
}

static void compressed_packets_are_opened(void **state)
{
    (void)state;
    struct hw_pb inner = {0}, outer = {0};
    struct hw_strbuf z = {0};
    size_t n;
    for (uint32_t i = 0; i < 100; i++)
        put_packet(&inner, 3, i == 0, false, true);
    assert_int_equal(hw_deflate(hw_pb_view(&inner), HW_GZIP_ZLIB, &z, NULL), 0);
    put_packet(&outer, 2, 0, false, false);
    hw_pb_begin(&outer, HW_F_Trace_packet);
    hw_pb_bytes(&outer, F(compressed_packets), z.p, z.n);
    hw_pb_end(&outer);
    put_packet(&outer, 2, 0, false, false);
    struct hw_reader_stats s = read_all(hw_pb_view(&outer), NULL, 0, &n);
    assert_int_equal(n, 102);
    assert_int_equal(s.damaged_compressed, 0);

    /* A broken stream gives what can be inflated, and the file goes on behind it. */
    hw_pb_clear(&outer);
    hw_pb_begin(&outer, HW_F_Trace_packet);
    hw_pb_bytes(&outer, F(compressed_packets), z.p, z.n - 6);
    hw_pb_end(&outer);
    put_packet(&outer, 2, 0, false, false);
    s = read_all(hw_pb_view(&outer), NULL, 0, &n);
    assert_int_equal(s.damaged_compressed, 1);
    assert_true(n >= 1);
    hw_pb_done(&inner);
    hw_pb_done(&outer);
    hw_strbuf_done(&z);
}

/* Packets larger than a window, over a file. */
static void files_are_read_in_windows(void **state)
{
    (void)state;
    char path[] = "/tmp/hw-reader-XXXXXX";
    int fd = mkstemp(path);
    struct hw_trace_reader *r;
    struct hw_packet p;
    static char big[3 << 20];
    struct hw_pb w = {0};
    for (int i = 0; i < 4; i++) {
        put_packet(&w, 2, 1, false, false);
        hw_pb_begin(&w, HW_F_Trace_packet);
        hw_pb_uint(&w, F(trusted_packet_sequence_id), 2);
        hw_pb_bytes(&w, F(trace_config), big, sizeof big);
        hw_pb_end(&w);
    }
    assert_int_equal(hw_fd_write_all(fd, w.buf.p, w.buf.n), 0);
    assert_int_equal(hw_trace_reader_open_fd(fd, &r, NULL), 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(hw_trace_reader_next(r, &p, NULL), 1);
        assert_int_equal(p.data.n, i % 2 ? sizeof big : 0);
    }
    assert_int_equal(hw_trace_reader_next(r, &p, NULL), 0);
    hw_trace_reader_free(r);
    hw_pb_done(&w);
    close(fd);
    unlink(path);
}

/* Packets of samples above and below the size that is left out, beside others as large. */
static void put_some_packet(struct hw_pb *w, uint64_t r)
{
    static const char zeros[200000];
    size_t n = 1000 + (r >> 8) % (sizeof zeros - 1000);
    hw_pb_begin(w, HW_F_Trace_packet);
    if (r & 1)
        hw_pb_uint(w, F(timestamp), r);
    if (r % 11 == 0) {
        hw_pb_bytes(w, F(interned_data), zeros, n);
    } else if (r % 7 < 4) {
        hw_pb_begin(w, F(profile_packet));
        if (r % 13 == 0) /* a table of the old form: needed */
            hw_pb_bytes(w, HW_F_ProfilePacket_strings, zeros, n);
        hw_pb_bytes(w, HW_F_ProfilePacket_process_dumps, zeros, n);
        if (r % 5 == 0)
            hw_pb_bytes(w, HW_F_ProfilePacket_process_dumps, zeros, n / 2);
        if (r % 17 < 8)
            hw_pb_uint(w, HW_F_ProfilePacket_continued, r % 17 < 6);
        hw_pb_uint(w, HW_F_ProfilePacket_index, r % 3);
        hw_pb_end(w);
    } else {
        hw_pb_bytes(w, F(process_tree), zeros, r % 3 ? 20 : n);
    }
    hw_pb_uint(w, F(trusted_uid), 1000);
    hw_pb_uint(w, F(trusted_packet_sequence_id), 1 + (uint32_t)(r % 2));
    if (r % 4 == 0)
        hw_pb_uint(w, F(sequence_flags), 1 + r % 3);
    hw_pb_end(w);
}

struct seen_packet {
    uint64_t offset, sequence, timestamp;
    size_t n_interned, n_data;
    uint32_t data_field, generation;
    uint32_t continued; /* what a packet of samples says of itself */
};

static uint32_t is_continued(struct hw_bytes profile_packet)
{
    struct hw_pb_reader r = hw_pb_read(profile_packet);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProfilePacket_continued)
            return f.value != 0;
    return 0;
}

static size_t read_fd(int fd, bool leave_out, struct seen_packet *seen, size_t max,
                      struct hw_reader_stats *stats)
{
    struct hw_trace_reader *r;
    struct hw_packet p;
    size_t n = 0;
    assert_int_equal(hw_trace_reader_open_fd(fd, &r, NULL), 0);
    if (leave_out)
        hw_trace_reader_leave_out_samples(r);
    while (hw_trace_reader_next(r, &p, NULL) == 1 && n < max)
        seen[n++] = (struct seen_packet){
            p.offset,     p.sequence,
            p.timestamp,  p.interned.n,
            p.data.n,     p.data_field,
            p.generation, p.data_field == F(profile_packet) ? is_continued(p.data) : 0};
    *stats = *hw_trace_reader_stats(r);
    hw_trace_reader_free(r);
    return n;
}

static void samples_left_out_change_nothing_else(void **state)
{
    enum { FILES = 60, PACKETS = 40, MAX = 400 };
    (void)state;
    uint64_t rng = 3;
    size_t n_left_out = 0, n_damaged = 0;
    for (int file = 0; file < FILES; file++) {
        struct hw_pb w = {0};
        struct seen_packet all[MAX] = {0}, some[MAX] = {0};
        struct hw_reader_stats s_all, s_some;
        char path[] = "/tmp/hw-reader-XXXXXX";
        hw_autofd int fd = mkstemp(path);
        size_t starts[PACKETS];
        assert_true(fd >= 0);
        (void)unlink(path);
        for (int i = 0; i < PACKETS; i++) {
            starts[i] = hw_pb_view(&w).n;
            put_some_packet(&w, rng = hw_hash_u64(rng + 1));
        }
        struct hw_bytes b = hw_pb_view(&w);
        for (int i = 0; i < file % 4; i++) { /* damage where it is felt: in heads and tails */
            rng = hw_hash_u64(rng + 1);
            size_t at = starts[1 + rng % (PACKETS - 1)] + (rng >> 8) % 40 - 12;
            w.buf.p[at] = (char)(rng >> 16);
        }
        size_t n = file % 8 == 7 ? b.n - rng % 300000 : b.n; /* some end early */
        assert_int_equal(write(fd, b.p, n), n);
        size_t n_all = read_fd(fd, /* leave_out = */ false, all, MAX, &s_all);
        assert_int_equal(read_fd(fd, /* leave_out = */ true, some, MAX, &s_some), n_all);
        for (size_t i = 0; i < n_all; i++) {
            bool left_out = some[i].n_data < 3 && all[i].data_field == F(profile_packet);
            n_left_out += left_out && all[i].n_data;
            some[i].n_data = left_out ? all[i].n_data : some[i].n_data;
            assert_memory_equal(&all[i], &some[i], sizeof all[i]);
        }
        n_damaged += s_all.damaged_packets + (s_all.skipped_bytes > 0);
        assert_memory_equal(&s_all, &s_some, sizeof s_all);
        hw_pb_done(&w);
    }
    assert_in_range(n_left_out, 100, FILES * PACKETS);
    assert_in_range(n_damaged, 10, FILES * PACKETS);
}

/* What is not there any more ends the trace, in both ways of reading. */
static void a_file_may_shrink(void **state)
{
    (void)state;
    static const char zeros[400000];
    for (int leave_out = 0; leave_out < 2; leave_out++) {
        char path[] = "/tmp/hw-reader-XXXXXX";
        hw_autofd int fd = mkstemp(path);
        struct hw_trace_reader *r;
        struct hw_packet p;
        struct hw_pb w = {0};
        assert_true(fd >= 0);
        (void)unlink(path);
        for (int i = 0; i < 20; i++) {
            hw_pb_begin(&w, HW_F_Trace_packet);
            hw_pb_uint(&w, F(trusted_packet_sequence_id), 2);
            hw_pb_begin(&w, F(profile_packet));
            hw_pb_bytes(&w, HW_F_ProfilePacket_process_dumps, zeros, sizeof zeros);
            hw_pb_end(&w);
            hw_pb_end(&w);
        }
        assert_int_equal(hw_fd_write_all(fd, w.buf.p, w.buf.n), 0);
        hw_pb_done(&w);
        assert_int_equal(hw_trace_reader_open_fd(fd, &r, NULL), 0);
        if (leave_out)
            hw_trace_reader_leave_out_samples(r);
        assert_int_equal(hw_trace_reader_next(r, &p, NULL), 1);
        assert_int_equal(ftruncate(fd, 10 * sizeof zeros + 100000), 0);
        int n = 1;
        while (hw_trace_reader_next(r, &p, NULL) == 1)
            n++;
        assert_in_range(n, 10, 11); /* heads may be there where the bytes are not */
        assert_true(hw_trace_reader_stats(r)->truncated);
        hw_trace_reader_free(r);
    }
}

HW_TEST_MAIN(cmocka_unit_test(a_cut_file_gives_its_whole_packets),
             cmocka_unit_test(a_broken_byte_costs_its_packet_at_most),
             cmocka_unit_test(unknown_fields_are_skipped),
             cmocka_unit_test(a_lost_beginning_is_no_unknown_field),
             cmocka_unit_test(hidden_packets_cost_little),
             cmocka_unit_test(sequences_keep_their_state),
             cmocka_unit_test(compressed_packets_are_opened),
             cmocka_unit_test(files_are_read_in_windows),
             cmocka_unit_test(samples_left_out_change_nothing_else),
             cmocka_unit_test(a_file_may_shrink))
