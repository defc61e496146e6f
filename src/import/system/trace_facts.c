#include "import/system/trace_facts.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "schema/print.h"
#include "schema/schema.h"

#include "base/banned.h"

/* ---- configuration and statistics ---- */

static int set_text(struct hw_profile *p, const char *name, struct hw_bytes text)
{
    struct hw_strbuf copy = {0};
    hw_strbuf_add(&copy, text.p, text.n);
    int rc = copy.failed ? HW_ENOMEM : hw_profile_metadata_set(p, name, copy.p, 0);
    hw_strbuf_done(&copy);
    return rc;
}

/* The last field of that number. */
static struct hw_bytes field_of(struct hw_bytes message, uint32_t number, bool *found)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes last = {NULL, 0};
    *found = false;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == number && f.wire == HW_PB_BYTES) {
            last = f.bytes;
            *found = true;
        }
    return last;
}

/* A TraceConfig.DataSource; only those that sample heaps matter. */
static int read_source(struct hw_profile *p, struct hw_bytes message)
{
    bool found;
    uint64_t interval = 0;
    struct hw_bytes config = field_of(message, HW_F_TraceConfig_DataSource_config, &found);
    struct hw_bytes heaps = field_of(config, HW_F_DataSourceConfig_heapprofd_config, &found);
    struct hw_pb_reader r = hw_pb_read(heaps);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_HeapprofdConfig_sampling_interval_bytes && f.wire == HW_PB_VARINT)
            interval = f.value;
    return found && hw_vec_push(&p->config_intervals, interval) < 0 ? HW_ENOMEM : HW_OK;
}

/* Reads what is needed of the configuration later. */
static int read_config(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes name = {NULL, 0};
    bool into_file = false, flushes = false;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceConfig_data_sources && f.wire == HW_PB_BYTES)
            rc = read_source(p, f.bytes);
        else if (f.number == HW_F_TraceConfig_write_into_file)
            into_file = f.value != 0;
        else if (f.number == HW_F_TraceConfig_flush_period_ms)
            flushes = f.value != 0;
        else if (f.number == HW_F_TraceConfig_unique_session_name && f.wire == HW_PB_BYTES)
            name = f.bytes;
    }
    if (rc == HW_OK && name.n)
        rc = set_text(p, "unique_session_name", name);
    if (rc == HW_OK && into_file && !flushes)
        rc = hw_profile_stat_set(p, "config_write_into_file_no_flush", -1, HW_STAT_INFO, 1);
    return rc;
}

int hw_import_trace_config(struct hw_profile *p, struct hw_bytes message)
{
    const struct hw_schema_message *m = hw_schema_message_find("TraceConfig");
    struct hw_strbuf text = {0};
    size_t damaged = 0;
    int rc = hw_schema_print(m, message, /* indent = */ 0, &text, &damaged, NULL);
    if (rc == HW_OK)
        rc = hw_profile_str(p, hw_bytes_of(text.p, text.n), &p->config_text);
    hw_strbuf_done(&text);
    return rc < 0 ? rc : read_config(p, message);
}

struct named_stat {
    uint32_t field;
    const char *name;
    enum hw_stat_severity severity;
};

/* One statistic for each field of the message that the list names. */
static int read_stats(struct hw_profile *p, struct hw_bytes message, int64_t key,
                      const struct named_stat *known, size_t n_known)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        for (size_t i = 0; rc == HW_OK && i < n_known; i++)
            if (known[i].field == f.number && f.wire == HW_PB_VARINT)
                rc = hw_profile_stat_set(p, known[i].name, key, known[i].severity,
                                         f.value > INT64_MAX ? INT64_MAX : (int64_t)f.value);
    return rc;
}

static int read_buffer_stats(struct hw_profile *p, struct hw_bytes message, int64_t buffer)
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
    return read_stats(p, message, buffer, known, HW_ARRAY_LEN(known));
}

int hw_import_trace_stats(struct hw_profile *p, struct hw_bytes message)
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
    int rc = read_stats(p, message, -1, known, HW_ARRAY_LEN(known));
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceStats_buffer_stats)
            rc = read_buffer_stats(p, f.bytes, buffer++);
        else if (f.number == HW_F_TraceStats_final_flush_outcome && f.value)
            rc = f.value == HW_V_TraceStats_FinalFlushOutcome_FINAL_FLUSH_FAILED
                     ? hw_profile_stat_set(p, "traced_final_flush_failed", -1, HW_STAT_DATA_LOSS, 1)
                     : hw_profile_stat_set(p, "traced_final_flush_succeeded", -1, HW_STAT_INFO, 1);
    }
    return rc;
}

/* ---- facts about the trace ---- */

int hw_import_trace_uuid(struct hw_profile *p, struct hw_bytes message)
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
    return hw_profile_metadata_set(p, "trace_uuid", text, 0);
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

int hw_import_trigger(struct hw_profile *p, struct hw_bytes message, enum hw_trigger_kind kind,
                      enum hw_trigger_kind *so_far)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes name = hw_bytes_str("");
    if (kind <= *so_far)
        return HW_OK;
    *so_far = kind;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_Trigger_trigger_name && f.wire == HW_PB_BYTES)
            name = f.bytes;
    return set_text(p, "trace_trigger", name);
}

/* One text: "buffer" and its "sequence/producer" pairs, for each buffer. */
int hw_import_provenance(struct hw_profile *p, struct hw_bytes message)
{
    enum { MAX_TEXT = 4096 }; /* for people to read */
    struct hw_strbuf text = {0};
    struct hw_pb_reader r = hw_pb_read(message), in;
    struct hw_pb_field f, s;
    while (hw_pb_next(&r, &f) == 1 && text.n < MAX_TEXT) {
        if (f.number != HW_F_TraceProvenance_buffers || f.wire != HW_PB_BYTES)
            continue;
        hw_strbuf_adds(&text, text.n ? " buffer" : "buffer");
        in = hw_pb_read(f.bytes);
        while (hw_pb_next(&in, &s) == 1 && text.n < MAX_TEXT)
            if (s.number == HW_F_TraceProvenance_Buffer_sequences && s.wire == HW_PB_BYTES)
                add_sequence(&text, s.bytes);
    }
    int rc = text.failed ? HW_ENOMEM
                         : hw_profile_metadata_set(p, "trace_provenance", text.n ? text.p : "", 0);
    hw_strbuf_done(&text);
    return rc;
}

static int read_utsname(struct hw_profile *p, struct hw_bytes message)
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
            rc = set_text(p, names[f.number], f.bytes);
    return rc;
}

int hw_import_system_info(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case HW_F_SystemInfo_utsname:
            rc = read_utsname(p, f.bytes);
            break;
        case HW_F_SystemInfo_tracing_service_version:
            rc = set_text(p, "tracing_service_version", f.bytes);
            break;
        case HW_F_SystemInfo_android_build_fingerprint:
            rc = set_text(p, "android_build_fingerprint", f.bytes);
            break;
        case HW_F_SystemInfo_timezone_off_mins:
            rc = hw_profile_metadata_set(p, "timezone_off_mins", NULL, (int32_t)f.value);
            break;
        case HW_F_SystemInfo_system_ram_bytes:
            rc = hw_profile_metadata_set(p, "system_ram_bytes", NULL, (int64_t)f.value);
            break;
        default:
            break;
        }
    }
    return rc;
}

int hw_import_service_event(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TracingServiceEvent_tracing_started)
            rc = hw_profile_metadata_set(p, "tracing_started_ns", NULL, ts_ns);
        else if (f.number == HW_F_TracingServiceEvent_all_data_sources_started)
            rc = hw_profile_metadata_set(p, "all_data_source_started_ns", NULL, ts_ns);
        else if (f.number == HW_F_TracingServiceEvent_tracing_disabled)
            rc = hw_profile_metadata_set(p, "tracing_disabled_ns", NULL, ts_ns);
    }
    return rc;
}

static int read_attribute(struct hw_profile *p, struct hw_bytes message)
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
        rc = hw_profile_metadata_set(p, name.p, is_text ? text.p : NULL, number);
    hw_strbuf_done(&name);
    hw_strbuf_done(&text);
    return rc;
}

int hw_import_attributes(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_TraceAttributes_attribute && f.wire == HW_PB_BYTES)
            rc = read_attribute(p, f.bytes);
    return rc;
}
