/*
 * The file is read in passes. The first reads interned data, tracks and clock snapshots, as all may
 * follow the samples that need them, and skips samples of large packets. The second reads all the
 * rest, in order of time (packet_order.h), so no sample is in memory besides the model's rows.
 * Packets that name frames are read in later passes, when all frames are known: first symbols, then
 * names of obfuscated code.
 */
#include "import/perfetto/perfetto_reader.h"

#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/progress.h"
#include "codec/pb.h"
#include "import/code_packages.h"
#include "import/deobfuscate.h"
#include "import/import.h"
#include "import/perfetto/art_process.h"
#include "import/perfetto/heap_dumps.h"
#include "import/perfetto/heap_graphs.h"
#include "import/perfetto/interned.h"
#include "import/perfetto/perf_samples.h"
#include "import/perfetto/symbol_packets.h"
#include "import/perfetto/track_events.h"
#include "import/system/clock_rows.h"
#include "import/system/memory_tracker.h"
#include "import/system/packet_order.h"
#include "import/system/process_packets.h"
#include "import/system/trace_facts.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "schema/schema.h"
#include "trace/clocks.h"
#include "trace/reader.h"

#include "base/banned.h"

#define F(name) HW_F_TracePacket_##name

struct import {
    struct hw_profile *p;
    struct hw_trace_reader *reader;
    struct hw_interned interned;
    struct hw_clocks clocks;
    struct hw_heap_dumps dumps;
    struct hw_heap_graphs graphs;
    struct hw_art_processes art;
    struct hw_cpu_importer cpu;
    struct hw_track_importer tracks;
    bool has_time;
    int64_t newest_ns;                 /* of the packets so far; the time of one without a time */
    bool has_symbols, has_clear_names; /* packets of these kinds were seen */
    struct hw_map64 has_defaults;      /* sequences whose first defaults were read */
    enum hw_trigger_kind trigger;

    struct hw_packet_order order;
    bool has_known_ns; /* the current packet's time has been converted */
    int64_t known_ns;
};

/* ---- the first pass ---- */

/* Large packets come without their samples here, but with tables and `continued`. */
static int collect_profile(struct import *im, const struct hw_packet *p)
{
    int rc = hw_interned_add_legacy(&im->interned, p->sequence, p->data);
    if (rc == HW_OK && !hw_heap_dumps_is_continued(p->data))
        rc = hw_interned_end_dump(&im->interned, p->sequence);
    return rc;
}

static int read_defaults(struct import *im, const struct hw_packet *p)
{
    int rc = p->defaults.n ? hw_cpu_importer_defaults(&im->cpu, p) : HW_OK;
    return rc == HW_OK && p->defaults.n ? hw_track_importer_defaults(&im->tracks, p) : rc;
}

/* In order of time a packet may come before its sequence's defaults, so the first ones are read
 * now. */
static int collect_defaults(struct import *im, const struct hw_packet *p)
{
    uint64_t *v;
    bool fresh;
    if (hw_map64_at(&im->has_defaults, p->sequence, &v, &fresh) < 0)
        return HW_ENOMEM;
    return fresh ? read_defaults(im, p) : HW_OK;
}

static int collect_packet(struct import *im, const struct hw_packet *p)
{
    int rc = HW_OK;
    hw_packet_order_check_raw(&im->order, p);
    if (p->interned.n)
        rc = hw_interned_add(&im->interned, p->sequence, p->generation, p->interned);
    if (rc == HW_OK && p->defaults.n)
        rc = collect_defaults(im, p);
    if (rc == HW_OK && p->data_field == F(clock_snapshot))
        rc = hw_clocks_add(&im->clocks, p->data, p->sequence);
    if (rc == HW_OK && p->data_field == F(profile_packet))
        rc = collect_profile(im, p);
    if (rc == HW_OK && p->data_field == F(track_descriptor))
        rc = hw_track_importer_descriptor(&im->tracks, p->data);
    im->has_symbols |= p->data_field == F(module_symbols);
    im->has_clear_names |= p->data_field == F(deobfuscation_mapping);
    return rc;
}

enum { FIRST_TENTHS = 1 }; /* the first pass's share of the time, as it skips samples */

/* offset is the progress within `tenths` of the work, which follow `before` tenths. */
static void report_progress(const struct import *im, uint64_t before, uint64_t tenths,
                            uint64_t offset)
{
    uint64_t size = hw_trace_reader_size(im->reader);
    if (size <= UINT64_MAX / 10)
        hw_progress_at(im->p->progress, before * size + tenths * offset, 10 * size);
}

static int collect(struct import *im, struct hw_error *err)
{
    struct hw_packet p;
    int rc;
    hw_trace_reader_leave_out_samples(im->reader);
    while ((rc = hw_trace_reader_next(im->reader, &p, err)) == 1) {
        rc = collect_packet(im, &p);
        if (rc < 0)
            return hw_fail(err, rc, p.offset, "trace packet:");
        report_progress(im, 0, FIRST_TENTHS, p.offset);
    }
    return rc;
}

/* ---- the second pass ---- */

static void extend_bounds(struct import *im, int64_t ns)
{
    struct hw_profile *p = im->p;
    if (!im->has_time || ns < p->first_ns)
        p->first_ns = ns;
    if (!im->has_time || ns > p->last_ns)
        p->last_ns = ns;
    im->has_time = true;
}

/* 1 = *out is set, 0 = cannot be placed in time. */
static int convert_time(struct import *im, const struct hw_packet *p, int64_t *out)
{
    if (im->has_known_ns) {
        *out = im->known_ns;
        return 1;
    }
    if (im->clocks.n_snapshots == 0) { /* nothing to convert by */
        *out = (int64_t)p->timestamp;
        return 1;
    }
    int rc = hw_clocks_convert(&im->clocks, hw_packet_clock(p), p->sequence, p->timestamp, out);
    return rc < 0 ? rc : rc == HW_CLOCK_OK;
}

/* The time of a packet that becomes rows. 1 = *out is set, 0 = cannot be placed (counted). */
static int packet_time(struct import *im, const struct hw_packet *p, int64_t *out)
{
    int rc = convert_time(im, p, out);
    if (rc != 0)
        return rc;
    rc = hw_heap_graphs_flush(&im->graphs);
    if (rc == HW_OK)
        rc = hw_profile_stat_add(im->p, "clock_sync_failure_no_path", -1, HW_STAT_ERROR, 1);
    return rc < 0 ? rc : 0;
}

static int read_timed(struct import *im, const struct hw_packet *p)
{
    int64_t ts = 0;
    int rc = packet_time(im, p, &ts);
    if (rc != 1)
        return rc;
    if (!p->has_timestamp && p->data_field != F(track_event) && im->newest_ns != INT64_MIN)
        ts = im->newest_ns;
    if (p->has_timestamp)
        extend_bounds(im, ts);
    if (p->has_timestamp && ts > im->newest_ns)
        im->newest_ns = ts;
    switch (p->data_field) {
    case F(process_stats):
        return hw_import_process_stats(im->p, p->data, ts);
    case F(malloc_info):
        return hw_import_malloc_info(im->p, p->data, ts);
    case F(memory_account):
        return hw_import_memory_account(im->p, p->data, ts);
    case F(smaps_packet):
        return hw_import_smaps(im->p, p->data, ts);
    case F(track_event):
        return hw_track_importer_event(&im->tracks, p, ts);
    case F(memory_tracker_snapshot):
        return hw_import_memory_snapshot(im->p, p->data, ts);
    case F(heap_graph):
        return hw_heap_graphs_packet(&im->graphs, p, ts);
    case F(art_process_metadata):
        return hw_art_processes_packet(&im->art, p->data, ts);
    case F(managed_links):
        return hw_raw_links_packet(&im->graphs.links, p, ts, &im->interned);
    case F(perf_sample):
        return hw_cpu_importer_sample(&im->cpu, p, ts);
    default:
        return hw_import_service_event(im->p, p->data, ts);
    }
}

static int read_packet(struct import *im, const struct hw_packet *p)
{
    int64_t ts, packet_ns = im->newest_ns;
    int rc = p->data_field == F(heap_graph) ? HW_OK : hw_heap_graphs_flush(&im->graphs);
    if (rc == HW_OK && p->has_timestamp && p->data_field == F(profile_packet))
        rc = packet_time(im, p, &ts);
    if (rc < 0)
        return rc;
    if (rc == 1)
        packet_ns = ts;
    if (packet_ns > im->newest_ns)
        im->newest_ns = packet_ns;
    switch (p->data_field) {
    case F(clock_snapshot):
        hw_clocks_pass(&im->clocks, p->data, p->sequence);
        return HW_OK;
    case F(trace_config):
        return hw_import_trace_config(im->p, p->data);
    case F(trace_stats):
        return hw_import_trace_stats(im->p, p->data);
    case F(trace_uuid):
        return hw_import_trace_uuid(im->p, p->data);
    case F(trace_provenance):
        return hw_import_provenance(im->p, p->data);
    case F(system_info):
        return hw_import_system_info(im->p, p->data);
    case F(trace_attributes):
        return hw_import_attributes(im->p, p->data);
    case F(process_tree):
        return hw_import_process_tree(im->p, p->data);
    case F(packages_list):
        return hw_import_packages(im->p, p->data);
    case F(user_list):
        return hw_import_users(im->p, p->data);
    case F(trigger):
        return hw_import_trigger(im->p, p->data, HW_TRIGGER_START, &im->trigger);
    case F(clone_snapshot_trigger):
        return hw_import_trigger(im->p, p->data, HW_TRIGGER_CLONE, &im->trigger);
    case F(stack_sample): /* doc/formats/reading.md, "11. CPU samples" */
        return hw_profile_stat_add(im->p, "stack_samples_left_out", -1, HW_STAT_DATA_LOSS, 1);
    case F(profile_packet):
        return hw_heap_dumps_packet(&im->dumps, p, packet_ns);
    case F(process_stats):
    case F(malloc_info):
    case F(memory_account):
    case F(smaps_packet):
    case F(memory_tracker_snapshot):
    case F(service_event):
    case F(track_event):
    case F(heap_graph):
    case F(managed_links):
    case F(perf_sample):
    case F(art_process_metadata):
        return read_timed(im, p);
    default:
        return HW_OK;
    }
}

/* Finds the packets that are out of order, if times may decrease. */
static int find_order(struct import *im, struct hw_error *err)
{
    struct hw_packet p;
    int rc = HW_OK;
    hw_trace_reader_rewind(im->reader);
    while (im->order.may_be_needed && (rc = hw_trace_reader_next(im->reader, &p, err)) == 1) {
        int64_t ts = 0;
        int placed = p.has_timestamp && hw_packet_is_ordered(&p) ? convert_time(im, &p, &ts) : 0;
        if (p.data_field == F(clock_snapshot))
            hw_clocks_pass(&im->clocks, p.data, p.sequence);
        rc = placed < 0 ? placed : hw_packet_order_add(&im->order, &p, placed == 1, ts);
        if (rc < 0)
            return hw_fail(err, rc, p.offset, "trace packet:");
    }
    hw_packet_order_rewind(&im->order);
    for (size_t i = 0; i < im->clocks.scales.n; i++)
        im->clocks.scales.v[i].last = 0;
    return rc;
}

static int read_at(struct import *im, const struct hw_packet *p, int64_t ts_ns)
{
    im->has_known_ns = true;
    im->known_ns = ts_ns;
    int rc = read_packet(im, p);
    im->has_known_ns = false;
    return rc < 0 ? rc : HW_OK;
}

/* Reads the late packets that are older than ts_ns, and adds their number to *n. */
static int read_late(struct import *im, int64_t ts_ns, size_t *n, struct hw_error *err)
{
    struct hw_late_packet *late;
    int rc = HW_OK;
    while (rc == HW_OK && (late = hw_packet_order_next_late(&im->order, ts_ns))) {
        rc = late->copy ? 1 : hw_trace_reader_again(im->reader, &late->packet, err);
        ++*n;
        if (rc == 1)
            rc = read_at(im, &late->packet, late->ts_ns);
    }
    return rc;
}

/* Reads the next packet of the second pass, with late ones before it, in order of time. */
static int read_in_order(struct import *im, struct hw_packet *p, struct hw_error *err)
{
    int64_t ts = 0;
    size_t n_late = 0;
    bool is_late = hw_packet_order_is_late(&im->order);
    int rc = read_defaults(im, p);
    if (rc < 0 || im->order.late.n == 0)
        return rc < 0 ? rc : read_packet(im, p);
    int placed = p->has_timestamp && hw_packet_is_ordered(p) ? convert_time(im, p, &ts) : 0;
    if (placed < 0 || is_late)
        return placed < 0 ? placed : HW_OK;
    if (placed == 0)
        return read_packet(im, p);
    rc = read_late(im, ts, &n_late, err);
    if (rc == HW_OK && n_late && !p->compressed) {
        rc = hw_trace_reader_again(im->reader, p, err);
        if (rc != 1)
            return rc;
    }
    return rc < 0 ? rc : read_at(im, p, ts);
}

/* At a packet, or at an earlier one of a heap graph that was added only now. */
static int fail_at(const struct import *im, int rc, uint64_t offset, struct hw_error *err)
{
    return hw_fail(err, rc, im->graphs.has_failed ? im->graphs.failed_at : offset, "trace packet:");
}

static int read_all(struct import *im, struct hw_error *err)
{
    struct hw_packet p;
    size_t n_late = 0;
    int rc = find_order(im, err);
    if (rc < 0)
        return rc;
    hw_trace_reader_rewind(im->reader);
    hw_interned_rewind(&im->interned);
    while ((rc = hw_trace_reader_next(im->reader, &p, err)) == 1) {
        rc = read_in_order(im, &p, err);
        if (rc < 0)
            return fail_at(im, rc, p.offset, err);
        report_progress(im, FIRST_TENTHS, 10 - FIRST_TENTHS, p.offset);
    }
    if (rc == HW_OK)
        rc = read_late(im, INT64_MAX, &n_late, err);
    if (rc == HW_OK && (rc = hw_heap_graphs_flush(&im->graphs)) < 0)
        return fail_at(im, rc, 0, err);
    return rc;
}

/* ---- packets that name frames ---- */

/* Calls take for every packet of a kind. */
static int each_packet(struct import *im, uint32_t kind,
                       int (*take)(void *ctx, struct hw_bytes message), void *ctx,
                       struct hw_error *err)
{
    struct hw_packet p;
    int rc = HW_OK, next = 0;
    hw_trace_reader_rewind(im->reader);
    hw_trace_reader_leave_out_samples(im->reader);
    while (rc == HW_OK && (next = hw_trace_reader_next(im->reader, &p, err)) == 1)
        if (p.data_field == kind) {
            rc = take(ctx, p.data);
            if (rc < 0)
                rc = hw_fail(err, rc, p.offset, "trace packet:");
        }
    return rc < 0 ? rc : next;
}

static int add_symbols(void *ctx, struct hw_bytes message)
{
    return hw_import_module_symbols(ctx, message);
}

static int read_symbols(struct import *im, struct hw_error *err)
{
    struct hw_frame_index ix;
    int rc = hw_frame_index_init(&ix, im->p);
    if (rc < 0)
        return hw_fail(err, rc, 0, "frames of the trace:");
    rc = each_packet(im, F(module_symbols), add_symbols, &ix, err);
    hw_frame_index_done(&ix);
    return rc;
}

struct clear_names {
    struct hw_profile *p;
    struct hw_code_packages packages;
};

static int add_clear_names(void *ctx, struct hw_bytes message)
{
    const struct clear_names *names = ctx;
    return hw_import_deobfuscation_of(names->p, &names->packages, message);
}

/* After all symbols, as their lines tell which function a short name was. */
static int read_clear_names(struct import *im, struct hw_error *err)
{
    struct clear_names names = {.p = im->p};
    int rc = hw_code_packages_init(&names.packages, im->p);
    if (rc < 0)
        return hw_fail(err, rc, 0, "packages of the trace:");
    rc = each_packet(im, F(deobfuscation_mapping), add_clear_names, &names, err);
    hw_code_packages_done(&names.packages);
    return rc;
}

static int add_reader_stats(struct import *im)
{
    const struct hw_reader_stats *s = hw_trace_reader_stats(im->reader);
    const struct {
        const char *name;
        enum hw_stat_severity severity;
        uint64_t value;
    } rows[] = {
        {"trace_damaged_packets", HW_STAT_ERROR, s->damaged_packets},
        {"trace_skipped_bytes", HW_STAT_ERROR, s->skipped_bytes},
        {"trace_unknown_fields", HW_STAT_DATA_LOSS, s->unknown_fields},
        {"trace_damaged_compressed_packets", HW_STAT_ERROR, s->damaged_compressed},
        {"trace_compressed_packets_cut", HW_STAT_DATA_LOSS, s->unpacked_cut},
        {"trace_unsupported_packets", HW_STAT_ERROR, s->unsupported_packets},
        {"trace_truncated", HW_STAT_DATA_LOSS, s->truncated},
        {"trace_sequence_losses", HW_STAT_DATA_LOSS, s->sequence_losses},
        {"interned_data_skipped_incremental_state_invalid", HW_STAT_DATA_LOSS, s->interned_skipped},
        {"packet_skipped_seq_needs_incremental_state_invalid", HW_STAT_INFO,
         s->needs_state_skipped},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        int rc = rows[i].value ? hw_profile_stat_add(im->p, rows[i].name, -1, rows[i].severity,
                                                     (int64_t)rows[i].value)
                               : HW_OK;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int finish_memory(struct import *im)
{
    int rc = hw_memory_dumps_finish(im->p);
    if (rc < 0 || im->p->memory.n_bad == 0)
        return rc;
    return hw_profile_stat_add(im->p, "memory_snapshot_parser_failure", -1, HW_STAT_ERROR,
                               (int64_t)im->p->memory.n_bad);
}

static int import_reader(struct hw_trace_reader *reader, struct hw_profile *into,
                         struct hw_error *err)
{
    struct import im = {.p = into, .reader = reader, .newest_ns = INT64_MIN};
    hw_packet_order_init(&im.order);
    hw_interned_init(&im.interned, into);
    hw_heap_dumps_init(&im.dumps, into, &im.interned, &im.clocks);
    hw_art_processes_init(&im.art, into);
    hw_heap_graphs_init(&im.graphs, into, &im.art);
    hw_cpu_importer_init(&im.cpu, into, &im.interned);
    hw_track_importer_init(&im.tracks, into, &im.interned);
    int rc = collect(&im, err);
    if (rc == HW_OK)
        rc = read_all(&im, err);
    if (rc == HW_OK) {
        rc = hw_heap_graphs_finish(&im.graphs);
        if (rc == HW_OK)
            rc = hw_art_processes_finish(&im.art);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "heap graph:");
    }
    if (rc == HW_OK && im.has_symbols)
        rc = read_symbols(&im, err);
    if (rc == HW_OK && im.has_clear_names)
        rc = read_clear_names(&im, err);
    if (rc == HW_OK) {
        rc = hw_heap_dumps_finish(&im.dumps);
        if (rc == HW_OK)
            rc = finish_memory(&im);
        if (rc == HW_OK)
            rc = hw_import_check_mappings(im.p);
        if (rc == HW_OK)
            rc = hw_import_clocks(im.p, &im.clocks);
        if (rc == HW_OK)
            rc = add_reader_stats(&im);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "trace:");
    }
    for (size_t i = 0; i < into->dumps.n; i++)
        extend_bounds(&im, into->dumps.v[i].ts_ns);
    const struct hw_reader_stats *s = hw_trace_reader_stats(reader);
    if (rc == HW_OK && s->packets == 0)
        rc = hw_fail(err, HW_EFORMAT, 0, "no packet can be read: this is not a trace");
    hw_heap_dumps_done(&im.dumps);
    hw_heap_graphs_done(&im.graphs);
    hw_art_processes_done(&im.art);
    hw_cpu_importer_done(&im.cpu);
    hw_track_importer_done(&im.tracks);
    hw_interned_done(&im.interned);
    hw_packet_order_done(&im.order);
    hw_map64_done(&im.has_defaults);
    hw_clocks_done(&im.clocks);
    return rc;
}

/* The kind of file, as front ends call it. */
static int set_kind(struct hw_profile *into, uint64_t n_bytes)
{
    int rc = hw_profile_metadata_set(into, "trace_type", "proto", 0);
    return rc < 0 ? rc
                  : hw_profile_metadata_set(into, "trace_size_bytes", NULL,
                                            n_bytes > INT64_MAX ? INT64_MAX : (int64_t)n_bytes);
}

static int read_fd(int fd, struct hw_profile *into, struct hw_error *err)
{
    struct hw_trace_reader *reader;
    int rc = hw_trace_reader_open_fd(fd, &reader, err);
    if (rc < 0)
        return rc;
    rc = import_reader(reader, into, err);
    hw_trace_reader_free(reader);
    struct stat st;
    return rc == HW_OK && fstat(fd, &st) == 0 ? set_kind(into, (uint64_t)st.st_size) : rc;
}

static int read_bytes(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct hw_trace_reader *reader;
    int rc = hw_trace_reader_open_bytes(file, &reader, err);
    if (rc < 0)
        return rc;
    rc = import_reader(reader, into, err);
    hw_trace_reader_free(reader);
    return rc == HW_OK ? set_kind(into, file.n) : rc;
}

int hw_import_perfetto_names(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct import im = {.p = into};
    int rc = hw_trace_reader_open_bytes(file, &im.reader, err);
    if (rc < 0)
        return rc;
    rc = read_symbols(&im, err);
    if (rc == HW_OK)
        rc = read_clear_names(&im, err);
    if (rc == HW_OK)
        rc = add_reader_stats(&im);
    hw_trace_reader_free(im.reader);
    return rc;
}

/*
 * A Trace starts with 0x0a, as does a pprof profile. What follows tells them apart: the body of the
 * first packet is a TracePacket with a sequence id, a time stamp or data of a known kind.
 */
static int probe(struct hw_bytes head)
{
    const struct hw_schema_message *m = hw_schema_message_find("TracePacket");
    struct hw_pb_field f;
    const uint8_t *p = head.p + 1;
    uint64_t n;
    if (head.n < 2 || head.p[0] != 0x0a || hw_pb_varint(&p, hw_bytes_end(head), &n) < 0)
        return 0;
    size_t left = (size_t)(hw_bytes_end(head) - p);
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(p, n < left ? (size_t)n : left));
    int known = 0, seen = 0;
    while (hw_pb_next(&r, &f) == 1) {
        const struct hw_schema_field *field = hw_schema_field_by_number(m, f.number);
        bool is_bytes = f.wire == HW_PB_BYTES;
        seen++;
        known += field && is_bytes == (field->type == HW_T_MESSAGE || field->type == HW_T_BYTES);
    }
    if (seen == 0) /* its first field extends beyond the head, or it is empty */
        return 20;
    return known == seen ? 90 : 10;
}

const struct hw_importer hw_import_perfetto = {
    .name = "perfetto",
    .summary = "trace with packets: the recorder's own format",
    .probe = probe,
    .read = read_bytes,
    .read_fd = read_fd,
};
