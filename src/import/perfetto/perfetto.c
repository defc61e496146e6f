/*
 * The file is read twice. The first time takes in interned data, tracks and clock snapshots, as all
 * may stand behind the samples that need them, and leaves large packets of samples out; the second
 * time everything else. That holds no sample in memory beside the model's rows. Packets that name
 * frames are read a third time, when all frames are known.
 */
#include "import/perfetto/perfetto.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "import/deobfuscate.h"
#include "import/import.h"
#include "import/perfetto/cpu_samples.h"
#include "import/perfetto/heap_dumps.h"
#include "import/perfetto/heap_graphs.h"
#include "import/perfetto/interned.h"
#include "import/perfetto/memory_tracker.h"
#include "import/perfetto/processes.h"
#include "import/perfetto/symbols.h"
#include "import/perfetto/track_events.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "schema/print.h"
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
    struct hw_cpu_importer cpu;
    struct hw_track_importer tracks;
    bool has_time;
    int64_t newest_ns; /* of the packets so far: the time of one without */
    bool has_names;    /* packets that name frames were seen */
};

/* ---- the first time through ---- */

/* Samples are left out of large packets here, tables and `continued` are not. */
static int gather_profile(struct import *im, const struct hw_packet *p)
{
    int rc = hw_interned_add_legacy(&im->interned, p->sequence, p->data);
    if (rc == HW_OK && !hw_heap_dumps_is_continued(p->data))
        rc = hw_interned_end_dump(&im->interned, p->sequence);
    return rc;
}

static int gather_packet(struct import *im, const struct hw_packet *p)
{
    int rc = HW_OK;
    if (p->interned.n)
        rc = hw_interned_add(&im->interned, p->sequence, p->generation, p->interned);
    if (rc == HW_OK && p->data_field == F(clock_snapshot))
        rc = hw_clocks_add(&im->clocks, p->data, p->sequence);
    if (rc == HW_OK && p->data_field == F(profile_packet))
        rc = gather_profile(im, p);
    if (rc == HW_OK && p->data_field == F(track_descriptor))
        rc = hw_track_importer_descriptor(&im->tracks, p->data);
    im->has_names |=
        p->data_field == F(module_symbols) || p->data_field == F(deobfuscation_mapping);
    return rc;
}

enum { FIRST_TENTHS = 1 }; /* of the time: the first way through skips the samples */

/* `tenths` of the work begin where `before` of them are done. */
static void tell_progress(const struct import *im, uint64_t before, uint64_t tenths,
                          uint64_t offset)
{
    uint64_t size = hw_trace_reader_size(im->reader);
    if (size <= UINT64_MAX / 10)
        hw_progress_at(im->p->progress, before * size + tenths * offset, 10 * size);
}

static int gather(struct import *im, struct hw_error *err)
{
    struct hw_packet p;
    int rc;
    hw_trace_reader_leave_out_samples(im->reader);
    while ((rc = hw_trace_reader_next(im->reader, &p, err)) == 1) {
        rc = gather_packet(im, &p);
        if (rc < 0)
            return hw_fail(err, rc, p.offset, "trace packet:");
        tell_progress(im, 0, FIRST_TENTHS, p.offset);
    }
    return rc;
}

/* ---- single packets ---- */

static int set_text(struct import *im, const char *name, struct hw_bytes text)
{
    struct hw_strbuf copy = {0};
    hw_strbuf_add(&copy, text.p, text.n);
    int rc = copy.failed ? HW_ENOMEM : hw_profile_metadata_set(im->p, name, copy.p, 0);
    hw_strbuf_done(&copy);
    return rc;
}

/* What is asked of a configuration later. */
static int look_at_config(struct import *im, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes name = {NULL, 0};
    bool into_file = false, flushes = false;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceConfig_write_into_file)
            into_file = f.value != 0;
        else if (f.number == HW_F_TraceConfig_flush_period_ms)
            flushes = f.value != 0;
        else if (f.number == HW_F_TraceConfig_unique_session_name && f.wire == HW_PB_BYTES)
            name = f.bytes;
    }
    int rc = name.n ? set_text(im, "unique_session_name", name) : HW_OK;
    if (rc == HW_OK && into_file && !flushes)
        rc = hw_profile_stat_set(im->p, "config_write_into_file_no_flush", -1, HW_STAT_INFO, 1);
    return rc;
}

static int read_config(struct import *im, struct hw_bytes message)
{
    const struct hw_schema_message *m = hw_schema_message_find("TraceConfig");
    struct hw_strbuf text = {0};
    size_t damaged = 0;
    int rc = hw_schema_print(m, message, /* indent = */ 0, &text, &damaged, NULL);
    if (rc == HW_OK)
        rc = hw_profile_str(im->p, hw_bytes_of(text.p, text.n), &im->p->config_text);
    hw_strbuf_done(&text);
    return rc < 0 ? rc : look_at_config(im, message);
}

struct named_stat {
    uint32_t field;
    const char *name;
    enum hw_stat_severity severity;
};

/* One statistic for each field of the message that the list names. */
static int read_stats(struct import *im, struct hw_bytes message, int64_t key,
                      const struct named_stat *known, size_t n_known)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        for (size_t i = 0; rc == HW_OK && i < n_known; i++)
            if (known[i].field == f.number && f.wire == HW_PB_VARINT)
                rc = hw_profile_stat_set(im->p, known[i].name, key, known[i].severity,
                                         f.value > INT64_MAX ? INT64_MAX : (int64_t)f.value);
    return rc;
}

static int read_buffer_stats(struct import *im, struct hw_bytes message, int64_t buffer)
{
#define B(name, severity)                                                                          \
    {                                                                                              \
        HW_F_TraceStats_BufferStats_##name, "traced_buf_" #name, severity                          \
    }
    static const struct named_stat known[] = {
        B(bytes_written, HW_STAT_INFO),
        B(chunks_written, HW_STAT_INFO),
        B(chunks_overwritten, HW_STAT_INFO),
        B(write_wrap_count, HW_STAT_INFO),
        B(patches_succeeded, HW_STAT_INFO),
        B(patches_failed, HW_STAT_DATA_LOSS),
        B(readaheads_succeeded, HW_STAT_INFO),
        B(readaheads_failed, HW_STAT_INFO),
        B(abi_violations, HW_STAT_DATA_LOSS),
        B(chunks_rewritten, HW_STAT_INFO),
        B(chunks_committed_out_of_order, HW_STAT_INFO),
        B(buffer_size, HW_STAT_INFO),
        B(bytes_overwritten, HW_STAT_INFO),
        B(bytes_read, HW_STAT_INFO),
        B(padding_bytes_written, HW_STAT_INFO),
        B(padding_bytes_cleared, HW_STAT_INFO),
        B(chunks_read, HW_STAT_INFO),
        B(chunks_discarded, HW_STAT_INFO),
        B(trace_writer_packet_loss, HW_STAT_DATA_LOSS),
    };
#undef B
    return read_stats(im, message, buffer, known, HW_ARRAY_LEN(known));
}

static int read_trace_stats(struct import *im, struct hw_bytes message)
{
#define T(name, severity)                                                                          \
    {                                                                                              \
        HW_F_TraceStats_##name, "traced_" #name, severity                                          \
    }
    static const struct named_stat known[] = {
        T(producers_connected, HW_STAT_INFO),
        T(producers_seen, HW_STAT_INFO),
        T(data_sources_registered, HW_STAT_INFO),
        T(data_sources_seen, HW_STAT_INFO),
        T(tracing_sessions, HW_STAT_INFO),
        T(total_buffers, HW_STAT_INFO),
        T(chunks_discarded, HW_STAT_INFO),
        T(patches_discarded, HW_STAT_INFO),
        T(flushes_requested, HW_STAT_INFO),
        T(flushes_succeeded, HW_STAT_INFO),
        T(flushes_failed, HW_STAT_DATA_LOSS),
        {HW_F_TraceStats_missed_processes, "heapprofd_missed_processes", HW_STAT_DATA_LOSS},
    };
#undef T
    int64_t buffer = 0;
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = read_stats(im, message, -1, known, HW_ARRAY_LEN(known));
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceStats_buffer_stats)
            rc = read_buffer_stats(im, f.bytes, buffer++);
        else if (f.number == HW_F_TraceStats_final_flush_outcome && f.value)
            rc = f.value == HW_V_TraceStats_FinalFlushOutcome_FINAL_FLUSH_FAILED
                     ? hw_profile_stat_set(im->p, "traced_final_flush_failed", -1,
                                           HW_STAT_DATA_LOSS, 1)
                     : hw_profile_stat_set(im->p, "traced_final_flush_succeeded", -1, HW_STAT_INFO,
                                           1);
    }
    return rc;
}

/* ---- facts about the trace ---- */

static int read_uuid(struct import *im, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t msb = 0, lsb = 0;
    char text[40];
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceUuid_msb)
            msb = f.value;
        else if (f.number == HW_F_TraceUuid_lsb)
            lsb = f.value;
    }
    (void)snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(msb >> 32),
                   (unsigned)(msb >> 16 & 0xffff), (unsigned)(msb & 0xffff), (unsigned)(lsb >> 48),
                   (unsigned long long)(lsb & 0xffffffffffff)); /* 36 characters */
    return hw_profile_metadata_set(im->p, "trace_uuid", text, 0);
}

static void add_sequence(struct hw_strbuf *text, struct hw_bytes message)
{
    uint32_t id = 0;
    int32_t producer = 0;
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceProvenance_Sequence_id)
            id = (uint32_t)f.value;
        else if (f.number == HW_F_TraceProvenance_Sequence_producer_id)
            producer = (int32_t)f.value;
    }
    hw_strbuf_addf(text, " %u/%d", id, producer);
}

/* One text: "buffer" and its "sequence/producer" pairs, for each buffer. */
static int read_provenance(struct import *im, struct hw_bytes message)
{
    enum { ENOUGH = 4096 }; /* a person reads it */
    struct hw_strbuf text = {0};
    struct hw_pb_reader r = hw_pb_read(message), in;
    struct hw_pb_field f, s;
    while (hw_pb_next(&r, &f) == 1 && text.n < ENOUGH) {
        if (f.number != HW_F_TraceProvenance_buffers || f.wire != HW_PB_BYTES)
            continue;
        hw_strbuf_adds(&text, text.n ? " buffer" : "buffer");
        in = hw_pb_read(f.bytes);
        while (hw_pb_next(&in, &s) == 1 && text.n < ENOUGH)
            if (s.number == HW_F_TraceProvenance_Buffer_sequences && s.wire == HW_PB_BYTES)
                add_sequence(&text, s.bytes);
    }
    int rc = text.failed
                 ? HW_ENOMEM
                 : hw_profile_metadata_set(im->p, "trace_provenance", text.n ? text.p : "", 0);
    hw_strbuf_done(&text);
    return rc;
}

static int read_utsname(struct import *im, struct hw_bytes message)
{
    static const char *const names[] = {
        [HW_F_Utsname_sysname] = "system_name",
        [HW_F_Utsname_version] = "system_version",
        [HW_F_Utsname_release] = "system_release",
        [HW_F_Utsname_machine] = "system_machine",
    };
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number < HW_ARRAY_LEN(names) && names[f.number] && f.wire == HW_PB_BYTES)
            rc = set_text(im, names[f.number], f.bytes);
    return rc;
}

static int read_system_info(struct import *im, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case HW_F_SystemInfo_utsname:
            rc = read_utsname(im, f.bytes);
            break;
        case HW_F_SystemInfo_tracing_service_version:
            rc = set_text(im, "tracing_service_version", f.bytes);
            break;
        case HW_F_SystemInfo_android_build_fingerprint:
            rc = set_text(im, "android_build_fingerprint", f.bytes);
            break;
        case HW_F_SystemInfo_timezone_off_mins:
            rc = hw_profile_metadata_set(im->p, "timezone_off_mins", NULL, (int32_t)f.value);
            break;
        case HW_F_SystemInfo_system_ram_bytes:
            rc = hw_profile_metadata_set(im->p, "system_ram_bytes", NULL, (int64_t)f.value);
            break;
        default:
            break;
        }
    }
    return rc;
}

static int read_event(struct import *im, struct hw_bytes message, int64_t ts_ns)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TracingServiceEvent_tracing_started)
            rc = hw_profile_metadata_set(im->p, "tracing_started_ns", NULL, ts_ns);
        else if (f.number == HW_F_TracingServiceEvent_all_data_sources_started)
            rc = hw_profile_metadata_set(im->p, "all_data_source_started_ns", NULL, ts_ns);
        else if (f.number == HW_F_TracingServiceEvent_tracing_disabled)
            rc = hw_profile_metadata_set(im->p, "tracing_disabled_ns", NULL, ts_ns);
    }
    return rc;
}

static int read_attribute(struct import *im, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_strbuf name = {0}, text = {0};
    bool is_text = false;
    int64_t number = 0;
    hw_strbuf_adds(&name, "trace_attribute.");
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceAttributes_Attribute_key) {
            hw_strbuf_add(&name, f.bytes.p, f.bytes.n);
        } else if (f.number == HW_F_TraceAttributes_Attribute_string_value) {
            is_text = true;
            hw_strbuf_clear(&text);
            hw_strbuf_add(&text, f.bytes.p, f.bytes.n);
        } else if (f.number == HW_F_TraceAttributes_Attribute_long_value) {
            number = (int64_t)f.value;
        }
    }
    int rc = name.failed || text.failed ? HW_ENOMEM : HW_OK;
    if (rc == HW_OK)
        rc = hw_profile_metadata_set(im->p, name.p, is_text ? text.p : NULL, number);
    hw_strbuf_done(&name);
    hw_strbuf_done(&text);
    return rc;
}

static int read_attributes(struct import *im, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_TraceAttributes_attribute && f.wire == HW_PB_BYTES)
            rc = read_attribute(im, f.bytes);
    return rc;
}

/* ---- the second time through ---- */

static void see_time(struct import *im, int64_t ns)
{
    struct hw_profile *p = im->p;
    if (!im->has_time || ns < p->first_ns)
        p->first_ns = ns;
    if (!im->has_time || ns > p->last_ns)
        p->last_ns = ns;
    im->has_time = true;
}

/* Packets whose time stamps make rows. 1 = *out is set, 0 = cannot be placed in time (counted). */
static int packet_time(struct import *im, const struct hw_packet *p, int64_t *out)
{
    if (im->clocks.n_snapshots == 0) { /* nothing to convert by: taken as it is */
        *out = (int64_t)p->timestamp;
        return 1;
    }
    uint32_t clock = p->clock_id ? p->clock_id : HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME;
    int rc = hw_clocks_convert(&im->clocks, clock, p->sequence, p->timestamp, out);
    if (rc < 0)
        return rc;
    if (rc == HW_CLOCK_OK)
        return 1;
    rc = hw_profile_stat_add(im->p, "clock_sync_failure_no_path", -1, HW_STAT_ERROR, 1);
    return rc < 0 ? rc : 0;
}

static int read_timed(struct import *im, const struct hw_packet *p)
{
    int64_t ts = 0;
    int rc = packet_time(im, p, &ts);
    if (rc != 1)
        return rc;
    if (p->has_timestamp)
        see_time(im, ts);
    if (p->has_timestamp && ts > im->newest_ns)
        im->newest_ns = ts;
    switch (p->data_field) {
    case F(process_stats):
        return hw_import_process_stats(im->p, p->data, ts);
    case F(malloc_info):
        return hw_import_malloc_info(im->p, p->data, ts);
    case F(smaps_packet):
        return hw_import_smaps(im->p, p->data, ts);
    case F(track_event):
        return hw_track_importer_event(&im->tracks, p, ts);
    case F(memory_tracker_snapshot):
        return hw_import_memory_snapshot(im->p, p->data, ts);
    case F(heap_graph):
        return hw_heap_graphs_packet(&im->graphs, p, ts);
    case F(managed_links):
        return hw_told_links_packet(&im->graphs.links, p, ts, &im->interned);
    case F(perf_sample):
        return hw_cpu_importer_sample(&im->cpu, p, ts);
    default:
        return read_event(im, p->data, ts);
    }
}

static int read_packet(struct import *im, const struct hw_packet *p)
{
    int64_t ts, packet_ns = im->newest_ns;
    int rc = p->defaults.n ? hw_cpu_importer_defaults(&im->cpu, p) : HW_OK;
    if (rc == HW_OK && p->defaults.n)
        rc = hw_track_importer_defaults(&im->tracks, p);
    if (rc < 0)
        return rc;
    if (p->has_timestamp && p->data_field == F(profile_packet)) {
        rc = packet_time(im, p, &ts);
        if (rc < 0)
            return rc;
        if (rc == 1)
            packet_ns = ts;
        if (packet_ns > im->newest_ns)
            im->newest_ns = packet_ns;
    }
    switch (p->data_field) {
    case F(clock_snapshot):
        hw_clocks_pass(&im->clocks, p->data, p->sequence);
        return HW_OK;
    case F(trace_config):
        return read_config(im, p->data);
    case F(trace_stats):
        return read_trace_stats(im, p->data);
    case F(trace_uuid):
        return read_uuid(im, p->data);
    case F(trace_provenance):
        return read_provenance(im, p->data);
    case F(system_info):
        return read_system_info(im, p->data);
    case F(trace_attributes):
        return read_attributes(im, p->data);
    case F(process_tree):
        return hw_import_process_tree(im->p, p->data);
    case F(packages_list):
        return hw_import_packages(im->p, p->data);
    case F(profile_packet):
        return hw_heap_dumps_packet(&im->dumps, p, packet_ns);
    case F(process_stats):
    case F(malloc_info):
    case F(smaps_packet):
    case F(memory_tracker_snapshot):
    case F(service_event):
    case F(track_event):
    case F(heap_graph):
    case F(managed_links):
    case F(perf_sample):
        return read_timed(im, p);
    case F(art_process_metadata):
        return hw_heap_graphs_process(&im->graphs, p->data);
    default:
        return HW_OK;
    }
}

static int read_all(struct import *im, struct hw_error *err)
{
    struct hw_packet p;
    int rc;
    hw_trace_reader_rewind(im->reader);
    hw_interned_rewind(&im->interned);
    while ((rc = hw_trace_reader_next(im->reader, &p, err)) == 1) {
        rc = read_packet(im, &p);
        if (rc < 0)
            return hw_fail(err, rc, p.offset, "trace packet:");
        tell_progress(im, FIRST_TENTHS, 10 - FIRST_TENTHS, p.offset);
    }
    return rc;
}

/* ---- the third time through ---- */

static int read_names(struct import *im, struct hw_error *err)
{
    struct hw_frame_index ix;
    struct hw_packet p;
    int rc = hw_frame_index_init(&ix, im->p), next = 0;
    if (rc < 0)
        return hw_fail(err, rc, 0, "frames of the trace:");
    hw_trace_reader_rewind(im->reader);
    hw_trace_reader_leave_out_samples(im->reader);
    while (rc == HW_OK && (next = hw_trace_reader_next(im->reader, &p, err)) == 1) {
        if (p.data_field == F(module_symbols))
            rc = hw_import_module_symbols(&ix, p.data);
        else if (p.data_field == F(deobfuscation_mapping))
            rc = hw_import_deobfuscation(im->p, p.data);
        if (rc < 0)
            rc = hw_fail(err, rc, p.offset, "trace packet:");
    }
    hw_frame_index_done(&ix);
    return rc < 0 ? rc : next;
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

/* Such a binary was pushed there by hand: it can be built anew with a build id. */
static int look_at_mappings(struct import *im)
{
    static const char tmp[] = "/data/local/tmp/";
    const struct hw_callsites *cs = im->p->callsites;
    int64_t n = 0;
    for (uint32_t i = 0; i < hw_callsites_n_mappings(cs); i++) {
        const struct hw_mapping *m = hw_callsites_get_mapping(cs, (hw_mapping_id){i});
        const struct hw_strings *strings = hw_callsites_strings(im->p->callsites);
        struct hw_bytes path = hw_strings_get(strings, m->path);
        n += path.n > sizeof tmp - 1 && memcmp(path.p, tmp, sizeof tmp - 1) == 0 &&
             hw_strings_get(strings, m->build_id).n == 0;
    }
    return n ? hw_profile_stat_set(im->p, "symbolization_tmp_build_id_not_found", -1, HW_STAT_ERROR,
                                   n)
             : HW_OK;
}

static int take_wall_clock(struct import *im)
{
    struct hw_wall_point at = {0};
    for (size_t i = 0; hw_clocks_next_wall(&im->clocks, &i, &at.ts_ns, &at.wall_ns);)
        if (hw_vec_push(&im->p->wall, at) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

static int import_reader(struct hw_trace_reader *reader, struct hw_profile *into,
                         struct hw_error *err)
{
    struct import im = {.p = into, .reader = reader, .newest_ns = INT64_MIN};
    hw_interned_init(&im.interned, into);
    hw_heap_dumps_init(&im.dumps, into, &im.interned, &im.clocks);
    hw_heap_graphs_init(&im.graphs, into);
    hw_cpu_importer_init(&im.cpu, into, &im.interned);
    hw_track_importer_init(&im.tracks, into, &im.interned);
    int rc = gather(&im, err);
    if (rc == HW_OK)
        rc = read_all(&im, err);
    if (rc == HW_OK) {
        rc = hw_heap_graphs_finish(&im.graphs);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "heap graph:");
    }
    if (rc == HW_OK && im.has_names)
        rc = read_names(&im, err);
    if (rc == HW_OK) {
        rc = hw_heap_dumps_finish(&im.dumps);
        if (rc == HW_OK)
            rc = finish_memory(&im);
        if (rc == HW_OK)
            rc = look_at_mappings(&im);
        if (rc == HW_OK)
            rc = take_wall_clock(&im);
        if (rc == HW_OK)
            rc = add_reader_stats(&im);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "trace:");
    }
    for (size_t i = 0; i < into->dumps.n; i++)
        see_time(&im, into->dumps.v[i].ts_ns);
    const struct hw_reader_stats *s = hw_trace_reader_stats(reader);
    if (rc == HW_OK && s->packets == 0)
        rc = hw_fail(err, HW_EFORMAT, 0, "no packet can be read: this is not a trace");
    hw_heap_dumps_done(&im.dumps);
    hw_heap_graphs_done(&im.graphs);
    hw_cpu_importer_done(&im.cpu);
    hw_track_importer_done(&im.tracks);
    hw_interned_done(&im.interned);
    hw_clocks_done(&im.clocks);
    return rc;
}

/* The kind of file, as front ends know it. */
static int set_kind(struct hw_profile *into, uint64_t n_bytes)
{
    int rc = hw_profile_metadata_set(into, "trace_type", "proto", 0);
    return rc < 0 ? rc
                  : hw_profile_metadata_set(into, "trace_size_bytes", NULL,
                                            n_bytes > INT64_MAX ? INT64_MAX : (int64_t)n_bytes);
}

static int hw_import_perfetto_fd(int fd, struct hw_profile *into, struct hw_error *err)
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
    rc = read_names(&im, err);
    if (rc == HW_OK)
        rc = add_reader_stats(&im);
    hw_trace_reader_free(im.reader);
    return rc;
}

/*
 * A Trace starts with 0x0a, as does a pprof profile; what follows tells: the body of the first
 * packet is a TracePacket with a sequence id, a time stamp or data of a known kind.
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
    if (seen == 0) /* its first field goes beyond the head, or it is empty */
        return 20;
    return known == seen ? 90 : 10;
}

const struct hw_importer hw_import_perfetto = {
    .name = "perfetto",
    .summary = "trace with packets: the recorder's own format",
    .probe = probe,
    .read = read_bytes,
    .read_fd = hw_import_perfetto_fd,
};
