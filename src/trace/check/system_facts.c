#include "trace/check/system_facts.h"

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "schema/schema.h"
#include "trace/check/checker.h"
#include "trace/reader.h"

#include "base/banned.h"

#define F(name) HW_F_TracePacket_##name

/* A numeric field; 0 if absent. */
static uint64_t number_of(struct hw_bytes message, uint32_t field)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t v = 0;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == field && f.wire == HW_PB_VARINT)
            v = f.value;
    return v;
}

static bool has_field(struct hw_bytes message, uint32_t field)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == field)
            return true;
    return false;
}

/* ---- processes ---- */

static int check_once(struct hw_checker *c, struct hw_map64 *seen, const char *what, uint64_t id)
{
    uint64_t *v;
    bool fresh;
    if (hw_map64_at(seen, id, &v, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh)
        hw_check_found(c, HW_CHECK_PROCESS_TWICE, "%s %d", what, (int32_t)id);
    return HW_OK;
}

static int check_tree(struct hw_checker *c, struct hw_bytes tree)
{
    struct hw_pb_reader r = hw_pb_read(tree);
    struct hw_pb_field f;
    struct hw_map64 processes = {0}, threads = {0};
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == HW_F_ProcessTree_threads) {
            rc = check_once(c, &threads, "thread", number_of(f.bytes, HW_F_ProcessTree_Thread_tid));
        } else if (f.number == HW_F_ProcessTree_processes) {
            uint64_t pid = number_of(f.bytes, HW_F_ProcessTree_Process_pid);
            rc = check_once(c, &processes, "process", pid);
            if (!has_field(f.bytes, HW_F_ProcessTree_Process_cmdline))
                hw_check_found(c, HW_CHECK_PROCESS_NAMELESS, "process %d", (int32_t)pid);
            else if (rc == HW_OK)
                rc = hw_check_pid_described(c, (int32_t)pid);
        }
    }
    hw_map64_done(&processes);
    hw_map64_done(&threads);
    return rc;
}

static int check_track(struct hw_checker *c, struct hw_bytes track)
{
    struct hw_pb_reader r = hw_pb_read(track);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_TrackDescriptor_process && f.wire == HW_PB_BYTES)
            rc = hw_check_pid_described(c, (int32_t)number_of(f.bytes, HW_F_ProcessDescriptor_pid));
    return rc;
}

void hw_check_pids_end(struct hw_checker *c)
{
    for (size_t i = 0; i < c->pids.v.n; i++) {
        const struct hw_check_pid *p = &c->pids.v.v[i];
        if (p->used && !p->described)
            hw_check_found_at(c, HW_CHECK_PROCESS_UNDESCRIBED, p->at, "process %lld",
                              (long long)p->pid);
    }
}

void hw_check_pids_done(struct hw_checker *c)
{
    hw_map64_done(&c->pids.by_pid);
    hw_vec_done(&c->pids.v);
}

/* ---- memory maps ---- */

struct columns {
    uint64_t n_names, n_rows, max_name;
    uint32_t first; /* the column that n_rows is of; 0 = none yet */
    bool by_name;   /* aggregated: row i has name i */
};

static void read_column(struct hw_checker *c, struct columns *t, const struct hw_pb_field *f)
{
    struct hw_bytes rest = f->bytes;
    uint64_t n = 0, v;
    while (f->wire == HW_PB_BYTES && hw_pb_next_packed(&rest, &v) == 1) {
        n++;
        if (f->number == HW_F_PackedSmaps_name_id && v > t->max_name)
            t->max_name = v;
    }
    t->by_name |= f->number == HW_F_PackedSmaps_aggregate_count;
    if (t->first && n != t->n_rows)
        hw_check_found(c, HW_CHECK_MAPS_COLUMNS, "column %u has %llu rows, column %u %llu",
                       f->number, (unsigned long long)n, t->first, (unsigned long long)t->n_rows);
    if (t->first)
        return;
    t->first = f->number;
    t->n_rows = n;
}

static void check_columns(struct hw_checker *c, struct hw_bytes packed)
{
    struct hw_pb_reader r = hw_pb_read(packed);
    struct hw_pb_field f;
    struct columns t = {0};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == HW_F_PackedSmaps_string_table)
            t.n_names++;
        else
            read_column(c, &t, &f);
    }
    if (t.by_name ? t.n_rows > t.n_names : t.first && t.max_name >= t.n_names)
        hw_check_found(c, HW_CHECK_MAPS_NAME, "%s %llu of %llu", t.by_name ? "row" : "name",
                       (unsigned long long)(t.by_name ? t.n_rows - 1 : t.max_name),
                       (unsigned long long)t.n_names);
}

static int check_maps(struct hw_checker *c, struct hw_bytes maps)
{
    struct hw_pb_reader r = hw_pb_read(maps);
    struct hw_pb_field f;
    bool packed = false, entries = false;
    while (hw_pb_next(&r, &f) == 1) {
        entries |= f.number == HW_F_SmapsPacket_entries;
        if (f.number == HW_F_SmapsPacket_packed_entries && f.wire == HW_PB_BYTES) {
            packed = true;
            check_columns(c, f.bytes);
        }
    }
    int64_t pid = (int64_t)number_of(maps, HW_F_SmapsPacket_pid);
    if (packed && entries)
        hw_check_found(c, HW_CHECK_MAPS_TWO_FORMS, "memory maps of process %lld", (long long)pid);
    return hw_check_pid_used(c, pid);
}

/* ---- statistics ---- */

static void report_stats(struct hw_checker *c, const char *message, const struct hw_pb_field *f)
{
    const struct hw_schema_field *field =
        hw_schema_field_by_number(hw_schema_message_find(message), f->number);
    if (f->wire == HW_PB_VARINT && f->value)
        hw_check_found(c, HW_CHECK_STATS_LOSS, "%s is %llu", field ? field->name : "?",
                       (unsigned long long)f->value);
}

static void check_buffer(struct hw_checker *c, struct hw_bytes buffer)
{
    struct hw_pb_reader r = hw_pb_read(buffer);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        switch (f.number) {
        case HW_F_TraceStats_BufferStats_chunks_overwritten:
        case HW_F_TraceStats_BufferStats_patches_failed:
        case HW_F_TraceStats_BufferStats_abi_violations:
        case HW_F_TraceStats_BufferStats_chunks_discarded:
        case HW_F_TraceStats_BufferStats_trace_writer_packet_loss:
            report_stats(c, "TraceStats.BufferStats", &f);
            break;
        default:
            break;
        }
}

static void check_stats(struct hw_checker *c, struct hw_bytes stats)
{
    struct hw_pb_reader r = hw_pb_read(stats);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        switch (f.number) {
        case HW_F_TraceStats_buffer_stats:
            if (f.wire == HW_PB_BYTES)
                check_buffer(c, f.bytes);
            break;
        case HW_F_TraceStats_chunks_discarded:
        case HW_F_TraceStats_patches_discarded:
        case HW_F_TraceStats_invalid_packets:
        case HW_F_TraceStats_flushes_failed:
        case HW_F_TraceStats_missed_processes:
            report_stats(c, "TraceStats", &f);
            break;
        case HW_F_TraceStats_final_flush_outcome:
            if (f.value == HW_V_TraceStats_FinalFlushOutcome_FINAL_FLUSH_FAILED)
                report_stats(c, "TraceStats", &f);
            break;
        default:
            break;
        }
}

int hw_check_system_packet(struct hw_checker *c, const struct hw_packet *p)
{
    switch (p->data_field) {
    case F(process_tree):
        return check_tree(c, p->data);
    case F(track_descriptor):
        return check_track(c, p->data);
    case F(process_descriptor):
        return hw_check_pid_described(c, (int32_t)number_of(p->data, HW_F_ProcessDescriptor_pid));
    case F(art_process_metadata):
        return hw_check_pid_described(c, (int32_t)number_of(p->data, HW_F_ArtProcessMetadata_pid));
    case F(smaps_packet):
        return check_maps(c, p->data);
    case F(trace_stats):
        check_stats(c, p->data);
        return HW_OK;
    default:
        return HW_OK;
    }
}
