/*
 * A packet is built after the tag and length of Trace.packet (five bytes, the length filled in when
 * it ends) and written by one write. `good` counts the bytes of whole packets in the file: after a
 * short write the file is truncated to start + good. With compression, packets are collected in
 * `pending` and written as one compressed packet.
 */
#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

enum { SERVICE_SEQUENCE = 1, DEFLATE_BYTES = 400 * 1024 };

struct hw_trace_writer {
    struct hw_trace_sink sink;
    int fd;        /* of our own sink: the caller's */
    off_t start;   /* where our first packet is; -1 = not seekable */
    uint64_t good; /* bytes of whole packets written */
    uint64_t n_packets;
    uint32_t last_sequence;
    HW_VEC(bool) started; /* by sequence: its first packet is out */
    struct hw_pb pb;
    bool no_events; /* disabled by the config */
    uint64_t primary_clock;
    enum hw_trace_compression compression;
    int level;                /* of zstd */
    struct hw_strbuf pending; /* whole packets to be deflated together */
    int failed;               /* the errno of the write that failed; 0 */
    uid_t uid;                /* ours, as is pid; written to packets */
    pid_t pid;
};

static int file_write(void *ctx, const void *p, size_t n)
{
    const struct hw_trace_writer *w = ctx;
    return hw_fd_write_all(w->fd, p, n);
}

static int file_cut(void *ctx, off_t size)
{
    const struct hw_trace_writer *w = ctx;
    return ftruncate(w->fd, size) < 0 || lseek(w->fd, size, SEEK_SET) < 0 ? -1 : 0;
}

int hw_trace_writer_new_to(const struct hw_trace_sink *sink, struct hw_trace_writer **out,
                           struct hw_error *err)
{
    struct hw_trace_writer *w = calloc(1, sizeof *w);
    if (!w)
        return hw_fail(err, HW_ENOMEM, 0, "trace writer");
    w->sink = *sink;
    w->fd = -1;
    w->start = sink->start;
    w->uid = getuid();
    w->pid = getpid();
    w->last_sequence = SERVICE_SEQUENCE;
    *out = w;
    return HW_OK;
}

int hw_trace_writer_new(int fd, struct hw_trace_writer **out, struct hw_error *err)
{
    struct hw_trace_sink sink = {.write = file_write, .cut = file_cut};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return hw_fail_sys(err, "trace file descriptor %d", fd);
    sink.start = lseek(fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
    int rc = hw_trace_writer_new_to(&sink, out, err);
    if (rc < 0)
        return rc;
    (*out)->fd = fd;
    (*out)->sink.ctx = *out;
    return HW_OK;
}

void hw_trace_writer_free(struct hw_trace_writer *w)
{
    if (!w)
        return;
    hw_pb_done(&w->pb);
    hw_vec_done(&w->started);
    hw_strbuf_done(&w->pending);
    free(w);
}

uint64_t hw_trace_writer_bytes(const struct hw_trace_writer *w)
{
    return w->good;
}

uint32_t hw_trace_writer_sequence(struct hw_trace_writer *w)
{
    return ++w->last_sequence;
}

static bool first_on_sequence(struct hw_trace_writer *w, uint32_t sequence)
{
    while (w->started.n <= sequence)
        if (hw_vec_push(&w->started, false) < 0) {
            w->pb.buf.failed = true;
            return false;
        }
    bool first = !w->started.v[sequence];
    w->started.v[sequence] = true;
    return first;
}

static void write_identity(const struct hw_trace_writer *w, struct hw_pb *pb, uint32_t sequence)
{
    hw_pb_sint64(pb, HW_F_TracePacket_trusted_uid, (int64_t)w->uid);
    hw_pb_uint(pb, HW_F_TracePacket_trusted_packet_sequence_id, sequence);
}

struct hw_pb *hw_trace_begin(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns)
{
    struct hw_pb *pb = &w->pb;
    hw_pb_clear(pb);
    hw_pb_begin(pb, HW_F_Trace_packet);
    if (boottime_ns)
        hw_pb_uint(pb, HW_F_TracePacket_timestamp, boottime_ns);
    write_identity(w, pb, sequence);
    if (sequence == SERVICE_SEQUENCE) {
        if (boottime_ns)
            hw_pb_uint(pb, HW_F_TracePacket_timestamp_clock_id,
                       HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME);
        return pb;
    }
    hw_pb_sint64(pb, HW_F_TracePacket_trusted_pid, (int64_t)w->pid);
    if (first_on_sequence(w, sequence)) {
        hw_pb_uint(pb, HW_F_TracePacket_sequence_flags,
                   HW_V_TracePacket_SequenceFlags_SEQ_INCREMENTAL_STATE_CLEARED);
        hw_pb_uint(pb, HW_F_TracePacket_first_packet_on_sequence, 1);
    }
    return pb;
}

static int write_failed(struct hw_trace_writer *w, struct hw_error *err)
{
    w->failed = errno ? errno : EIO;
    /* A reader must not find half a packet. Where this fails (pipes), nothing can be done. */
    if (w->start >= 0 && w->failed != ETIMEDOUT)
        (void)w->sink.cut(w->sink.ctx, w->start + (off_t)w->good);
    if (w->failed == ETIMEDOUT)
        return hw_fail(err, HW_ETIMEOUT, w->good,
                       "the output file takes no more data after %llu bytes: its disk does not "
                       "respond, or a process has it locked",
                       (unsigned long long)w->good);
    errno = w->failed;
    return hw_fail_sys(err, "cannot write the trace after %llu bytes", (unsigned long long)w->good);
}

static int append(struct hw_trace_writer *w, struct hw_bytes b, struct hw_error *err)
{
    if (w->sink.write(w->sink.ctx, b.p, b.n) < 0)
        return write_failed(w, err);
    w->good += b.n;
    return HW_OK;
}

void hw_trace_writer_set_compression(struct hw_trace_writer *w, enum hw_trace_compression how,
                                     int level)
{
    w->compression = how;
    w->level = level;
}

int hw_trace_writer_flush(struct hw_trace_writer *w, struct hw_error *err)
{
    struct hw_strbuf z = {0};
    if (w->pending.failed)
        return hw_fail(err, HW_ENOMEM, w->good, "packets to be deflated");
    if (!w->pending.n || w->failed)
        return HW_OK;
    bool zstd = w->compression == HW_TRACE_ZSTD;
    struct hw_bytes plain = hw_bytes_of(w->pending.p, w->pending.n);
    int rc =
        zstd ? hw_zstd_deflate(plain, w->level, &z, err) : hw_deflate(plain, HW_GZIP_ZLIB, &z, err);
    if (rc == HW_OK) {
        struct hw_pb pb = {0};
        hw_pb_begin(&pb, HW_F_Trace_packet);
        hw_pb_bytes(&pb,
                    zstd ? HW_F_TracePacket_zstd_compressed_packets
                         : HW_F_TracePacket_compressed_packets,
                    z.p, z.n);
        hw_pb_end(&pb);
        rc = hw_pb_failed(&pb) ? hw_fail(err, HW_ENOMEM, w->good, "deflated packets")
                               : append(w, hw_pb_view(&pb), err);
        hw_pb_done(&pb);
    }
    hw_strbuf_done(&z);
    hw_strbuf_clear(&w->pending);
    return rc;
}

/* Packets too large to be compressed with others are written uncompressed. */
static int collect(struct hw_trace_writer *w, struct hw_bytes b, struct hw_error *err)
{
    int rc = HW_OK;
    if (w->pending.n + b.n > DEFLATE_BYTES)
        rc = hw_trace_writer_flush(w, err);
    if (rc < 0 || b.n > DEFLATE_BYTES)
        return rc < 0 ? rc : append(w, b, err);
    hw_strbuf_add(&w->pending, b.p, b.n);
    return w->pending.failed ? hw_fail(err, HW_ENOMEM, w->good, "packets to be deflated") : HW_OK;
}

int hw_trace_end(struct hw_trace_writer *w, struct hw_error *err)
{
    hw_pb_end(&w->pb);
    if (w->failed) {
        errno = w->failed;
        return hw_fail_sys(err, "the trace ended after %llu bytes", (unsigned long long)w->good);
    }
    if (hw_pb_failed(&w->pb))
        return hw_fail(err, HW_ENOMEM, w->good, "trace packet");
    struct hw_bytes b = hw_pb_view(&w->pb);
    if (b.n > HW_TRACE_MAX_PACKET)
        return hw_fail(err, HW_ELIMIT, w->good, "trace packet of %zu bytes", b.n);
    int rc = w->compression ? collect(w, b, err) : append(w, b, err);
    w->n_packets += rc == HW_OK;
    return rc;
}

/* ---- service packets ---- */

struct preamble_options {
    uint64_t primary_clock;
    bool no_config, no_system_info, no_events;
};

/*
 * BuiltinDataSource of the config. disable_clock_snapshotting is ignored for the first snapshot:
 * without it readers cannot convert a heap dump's time and drop the dump.
 */
static struct preamble_options read_builtin(struct hw_bytes config)
{
    struct preamble_options o = {.primary_clock = HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME};
    struct hw_pb_reader r = hw_pb_read(config);
    struct hw_pb_field f, b;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_TraceConfig_builtin_data_sources || f.wire != HW_PB_BYTES)
            continue;
        struct hw_pb_reader in = hw_pb_read(f.bytes);
        while (hw_pb_next(&in, &b) == 1) {
            if (b.number == HW_F_TraceConfig_BuiltinDataSource_primary_trace_clock && b.value)
                o.primary_clock = b.value;
            else if (b.number == HW_F_TraceConfig_BuiltinDataSource_disable_trace_config)
                o.no_config = b.value != 0;
            else if (b.number == HW_F_TraceConfig_BuiltinDataSource_disable_system_info)
                o.no_system_info = b.value != 0;
            else if (b.number == HW_F_TraceConfig_BuiltinDataSource_disable_service_events)
                o.no_events = b.value != 0;
        }
    }
    return o;
}

static void write_clock(struct hw_pb *pb, uint32_t id, uint64_t ns)
{
    hw_pb_begin(pb, HW_F_ClockSnapshot_clocks);
    hw_pb_uint(pb, HW_F_ClockSnapshot_Clock_clock_id, id);
    hw_pb_uint(pb, HW_F_ClockSnapshot_Clock_timestamp, ns);
    hw_pb_end(pb);
}

static int write_clocks(struct hw_trace_writer *w, uint64_t primary, struct hw_error *err)
{
    static const struct {
        uint32_t id;
        clockid_t clock;
    } all[] = {
        {HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME, CLOCK_BOOTTIME},
        {HW_V_BuiltinClock_BUILTIN_CLOCK_REALTIME, CLOCK_REALTIME},
        {HW_V_BuiltinClock_BUILTIN_CLOCK_REALTIME_COARSE, CLOCK_REALTIME_COARSE},
        {HW_V_BuiltinClock_BUILTIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
        {HW_V_BuiltinClock_BUILTIN_CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_COARSE},
        {HW_V_BuiltinClock_BUILTIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
    };
    uint64_t ns[HW_ARRAY_LEN(all)];
    for (size_t i = 0; i < HW_ARRAY_LEN(all); i++) /* back to back, before any formatting */
        ns[i] = hw_clock_ns(all[i].clock);
    struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, ns[0]);
    hw_pb_begin(pb, HW_F_TracePacket_clock_snapshot);
    for (size_t i = 0; i < HW_ARRAY_LEN(all); i++)
        write_clock(pb, all[i].id, ns[i]);
    hw_pb_uint(pb, HW_F_ClockSnapshot_primary_trace_clock, primary);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_write_clocks(struct hw_trace_writer *w, struct hw_error *err)
{
    uint64_t primary = w->primary_clock;
    return write_clocks(w, primary ? primary : HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME, err);
}

/* Identity first and the marker last: a reader finds the packet's end by scanning for it. */
static int write_marker(struct hw_trace_writer *w, struct hw_error *err)
{
    static const uint8_t marker[16] = {0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba,
                                       0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};
    struct hw_pb *pb = &w->pb;
    hw_pb_clear(pb);
    hw_pb_begin(pb, HW_F_Trace_packet);
    write_identity(w, pb, SERVICE_SEQUENCE);
    hw_pb_bytes(pb, HW_F_TracePacket_synchronization_marker, marker, sizeof marker);
    return hw_trace_end(w, err);
}

static int write_config(struct hw_trace_writer *w, struct hw_bytes config, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, hw_now_boottime_ns());
    hw_pb_bytes(pb, HW_F_TracePacket_trace_config, config.p, config.n);
    return hw_trace_end(w, err);
}

static int write_uuid(struct hw_trace_writer *w, int64_t msb, int64_t lsb, struct hw_error *err)
{
    if (msb == 0 && lsb == 0) {
        uint64_t random[2];
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
            return hw_fail_sys(err, "no random bytes for the trace's uuid");
        /* Version 4, variant 1. */
        msb = (int64_t)((random[0] & ~0xf000ull) | 0x4000);
        lsb = (int64_t)((random[1] & ~(3ull << 62)) | 2ull << 62);
    }
    struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, hw_now_boottime_ns());
    hw_pb_begin(pb, HW_F_TracePacket_trace_uuid);
    hw_pb_sint64(pb, HW_F_TraceUuid_msb, msb);
    hw_pb_sint64(pb, HW_F_TraceUuid_lsb, lsb);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

/*
 * Which producer's packets are on which sequence. Sequence ids are assigned in order, so those of
 * this recording are known before its first packet. All use one buffer, as in trace_stats.
 */
static int write_provenance(struct hw_trace_writer *w, uint32_t n_sequences, struct hw_error *err)
{
    enum { PRODUCER = 1 }; /* the recorder itself, the only one */
    struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, hw_now_boottime_ns());
    hw_pb_begin(pb, HW_F_TracePacket_trace_provenance);
    hw_pb_begin(pb, HW_F_TraceProvenance_buffers);
    for (uint32_t i = 1; i <= n_sequences; i++) {
        hw_pb_begin(pb, HW_F_TraceProvenance_Buffer_sequences);
        hw_pb_uint(pb, HW_F_TraceProvenance_Sequence_id, w->last_sequence + i);
        hw_pb_sint64(pb, HW_F_TraceProvenance_Sequence_producer_id, PRODUCER);
        hw_pb_end(pb);
    }
    hw_pb_end(pb);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

/* Attributes in the config are copied for readers of the trace: the same message. */
static int write_attributes(struct hw_trace_writer *w, struct hw_bytes config, struct hw_error *err)
{
    struct hw_pb_reader r = hw_pb_read(config);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_TraceConfig_trace_attributes || f.wire != HW_PB_BYTES)
            continue;
        struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, hw_now_boottime_ns());
        hw_pb_bytes(pb, HW_F_TracePacket_trace_attributes, f.bytes.p, f.bytes.n);
        rc = hw_trace_end(w, err);
    }
    return rc;
}

static void write_utsname(struct hw_pb *pb)
{
    struct utsname u;
    if (uname(&u) < 0)
        return;
    hw_pb_begin(pb, HW_F_SystemInfo_utsname);
    hw_pb_str(pb, HW_F_Utsname_sysname, u.sysname);
    hw_pb_str(pb, HW_F_Utsname_version, u.version);
    hw_pb_str(pb, HW_F_Utsname_release, u.release);
    hw_pb_str(pb, HW_F_Utsname_machine, u.machine);
    hw_pb_end(pb);
}

static int32_t timezone_off_mins(void)
{
    time_t now = time(NULL);
    struct tm tm;
    return localtime_r(&now, &tm) ? (int32_t)(tm.tm_gmtoff / 60) : 0;
}

static int write_system_info(struct hw_trace_writer *w, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, hw_now_boottime_ns());
    long page = sysconf(_SC_PAGESIZE), hz = sysconf(_SC_CLK_TCK);
    long cpus = sysconf(_SC_NPROCESSORS_CONF), pages = sysconf(_SC_PHYS_PAGES);
    hw_pb_begin(pb, HW_F_TracePacket_system_info);
    write_utsname(pb);
    hw_pb_sint64(pb, HW_F_SystemInfo_hz, hz);
    hw_pb_str(pb, HW_F_SystemInfo_tracing_service_version, "heapwise " HW_VERSION);
    hw_pb_uint(pb, HW_F_SystemInfo_page_size, (uint64_t)page);
    hw_pb_sint64(pb, HW_F_SystemInfo_timezone_off_mins, timezone_off_mins());
    if (cpus > 0)
        hw_pb_uint(pb, HW_F_SystemInfo_num_cpus, (uint64_t)cpus);
    if (pages > 0)
        hw_pb_uint(pb, HW_F_SystemInfo_system_ram_bytes, (uint64_t)pages * (uint64_t)page);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_write_event(struct hw_trace_writer *w, uint32_t field, struct hw_error *err)
{
    if (w->no_events)
        return HW_OK;
    struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, hw_now_boottime_ns());
    hw_pb_begin(pb, HW_F_TracePacket_service_event);
    hw_pb_uint(pb, field, 1);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_write_preamble(struct hw_trace_writer *w, struct hw_bytes config, int64_t uuid_msb,
                            int64_t uuid_lsb, uint32_t n_sequences, struct hw_error *err)
{
    struct preamble_options o = read_builtin(config);
    w->no_events = o.no_events;
    w->primary_clock = o.primary_clock;
    int rc = write_clocks(w, o.primary_clock, err);
    if (rc == HW_OK)
        rc = write_marker(w, err);
    if (rc == HW_OK && !o.no_config)
        rc = write_config(w, config, err);
    if (rc == HW_OK)
        rc = write_uuid(w, uuid_msb, uuid_lsb, err);
    if (rc == HW_OK)
        rc = write_provenance(w, n_sequences, err);
    if (rc == HW_OK)
        rc = write_attributes(w, config, err);
    if (rc == HW_OK && !o.no_system_info)
        rc = write_system_info(w, err);
    if (rc == HW_OK)
        rc = hw_trace_write_event(w, HW_F_TracingServiceEvent_tracing_started, err);
    return rc;
}

int hw_trace_write_stats(struct hw_trace_writer *w, uint32_t n_missed, struct hw_error *err)
{
    uint64_t bytes = w->good, packets = w->n_packets;
    struct hw_pb *pb = hw_trace_begin(w, SERVICE_SEQUENCE, hw_now_boottime_ns());
    hw_pb_begin(pb, HW_F_TracePacket_trace_stats);
    /* We have no shared buffers that could lose data; what was written was also read. */
    hw_pb_begin(pb, HW_F_TraceStats_buffer_stats);
    hw_pb_uint(pb, HW_F_TraceStats_BufferStats_bytes_written, bytes);
    hw_pb_uint(pb, HW_F_TraceStats_BufferStats_chunks_written, packets);
    hw_pb_uint(pb, HW_F_TraceStats_BufferStats_buffer_size, bytes);
    hw_pb_uint(pb, HW_F_TraceStats_BufferStats_bytes_read, bytes);
    hw_pb_uint(pb, HW_F_TraceStats_BufferStats_chunks_read, packets);
    hw_pb_end(pb);
    hw_pb_uint(pb, HW_F_TraceStats_tracing_sessions, 1);
    hw_pb_uint(pb, HW_F_TraceStats_total_buffers, 1);
    hw_pb_uint(pb, HW_F_TraceStats_final_flush_outcome,
               HW_V_TraceStats_FinalFlushOutcome_FINAL_FLUSH_SUCCEEDED);
    if (n_missed)
        hw_pb_uint(pb, HW_F_TraceStats_missed_processes, n_missed);
    hw_pb_end(pb);
    int rc = hw_trace_end(w, err);
    return rc < 0 ? rc : hw_trace_writer_flush(w, err);
}
