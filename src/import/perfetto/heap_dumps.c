/*
 * Heads of dumps and the packets around them; samples are read in heap_samples.c.
 *
 * A checkpoint's values are read like those of any dump. If a later dump of the series exists,
 * hw_heap_dumps_finish moves the checkpoint's rows into it: what changed up to the checkpoint also
 * changed up to the later dump, which may omit what did not change since.
 */
#include "import/perfetto/heap_dumps.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"
#include "codec/pb.h"
#include "import/perfetto/heap_samples.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_PROCESS(name) HW_F_ProfilePacket_ProcessHeapSamples_##name
#define F_STATS(name)   HW_F_ProfilePacket_ProcessStats_##name

/* A ProcessHeapSamples; its samples are read in a second pass over `message`. */
struct process_dump {
    struct hw_bytes message, heap_name, trigger, lost_reason;
    uint64_t pid, timestamp, start_timestamp, client_error, lost_slices;
    bool has_stats, has_start, is_implausible;
    struct hw_heap_dump row;
};

void hw_heap_dumps_init(struct hw_heap_dumps *d, struct hw_profile *profile,
                        struct hw_interned *interned, struct hw_clocks *clocks)
{
    *d = (struct hw_heap_dumps){.profile = profile, .interned = interned, .clocks = clocks};
}

void hw_heap_dumps_done(struct hw_heap_dumps *d)
{
    for (size_t i = 0; i < d->series.n; i++) {
        hw_heap_series_done(d->series.v[i]);
        free(d->series.v[i]);
    }
    hw_vec_done(&d->series);
    hw_vec_done(&d->sequences);
    hw_map64_done(&d->sequence_of);
    hw_map64_done(&d->series_by_key);
    hw_vec_done(&d->series_of_dump);
}

static int count_error(struct hw_heap_dumps *d, const char *stat, int64_t key)
{
    return hw_profile_stat_add(d->profile, stat, key, HW_STAT_ERROR, 1);
}

static int64_t clamp(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* ---- heads ---- */

static void stats_read(struct hw_bytes message, struct hw_heap_dump *row)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == F_STATS(unwinding_errors))
            row->unwinding_errors = f.value;
        else if (f.number == F_STATS(heap_samples))
            row->heap_samples = f.value;
        else if (f.number == F_STATS(map_reparses))
            row->map_reparses = f.value;
        else if (f.number == F_STATS(total_unwinding_time_us))
            row->unwinding_time_us = f.value;
        else if (f.number == F_STATS(client_spinlock_blocked_us))
            row->blocked_us = f.value;
    }
}

static void set_flag(struct hw_heap_dump *row, uint32_t flag, uint64_t on)
{
    if (on)
        row->flags |= flag;
}

static void head_field(struct process_dump *h, const struct hw_pb_field *f)
{
    struct hw_heap_dump *row = &h->row;
    switch (f->number) {
    case F_PROCESS(pid):
        h->pid = f->value;
        break;
    case F_PROCESS(from_startup):
        set_flag(row, HW_DUMP_FROM_STARTUP, f->value);
        break;
    case F_PROCESS(rejected_concurrent):
        set_flag(row, HW_DUMP_REJECTED, f->value);
        break;
    case F_PROCESS(disconnected):
        set_flag(row, HW_DUMP_DISCONNECTED, f->value);
        break;
    case F_PROCESS(buffer_overran):
        set_flag(row, HW_DUMP_BUFFER_OVERRAN, f->value);
        break;
    case F_PROCESS(buffer_corrupted):
        set_flag(row, HW_DUMP_BUFFER_CORRUPTED, f->value);
        break;
    case F_PROCESS(hit_guardrail):
        set_flag(row, HW_DUMP_HIT_GUARDRAIL, f->value);
        break;
    case F_PROCESS(checkpoint):
        set_flag(row, HW_DUMP_CHECKPOINT, f->value);
        break;
    case F_PROCESS(keeps_peak):
        set_flag(row, HW_DUMP_KEEPS_PEAK, f->value);
        break;
    case F_PROCESS(all_variances):
        set_flag(row, HW_DUMP_ALL_VARIANCES | HW_DUMP_KNOWS_VARIANCE, f->value);
        break;
    case F_PROCESS(has_temporary):
        set_flag(row, HW_DUMP_KNOWS_TEMPORARY, f->value);
        break;
    case F_PROCESS(has_rounding):
        set_flag(row, HW_DUMP_KNOWS_ROUNDING, f->value);
        break;
    case F_PROCESS(stats):
        h->has_stats = true;
        stats_read(f->bytes, row);
        break;
    case F_PROCESS(timestamp):
        h->timestamp = f->value;
        break;
    case F_PROCESS(start_timestamp):
        h->start_timestamp = f->value;
        h->has_start = true;
        break;
    case F_PROCESS(heap_name):
        h->heap_name = f->bytes;
        break;
    case F_PROCESS(sampling_interval_bytes):
        row->interval_bytes = f->value;
        break;
    case F_PROCESS(orig_sampling_interval_bytes):
        row->orig_interval_bytes = f->value;
        break;
    case F_PROCESS(client_error):
        row->client_error = (uint32_t)f->value;
        break;
    case F_PROCESS(trigger):
        h->trigger = f->bytes;
        break;
    case F_PROCESS(lost_samples):
        row->lost_samples = f->value;
        break;
    case F_PROCESS(lost_slices):
        h->lost_slices = f->value;
        break;
    case F_PROCESS(lost_reason):
        h->lost_reason = f->bytes;
        break;
    default:
        break;
    }
}

/* Drops a number that is larger than any real one, as if the field were absent. */
static void drop_implausible(struct process_dump *h, uint64_t *v)
{
    if (*v >> 62 == 0)
        return;
    *v = 0;
    h->is_implausible = true;
}

static void check_numbers(struct process_dump *h)
{
    drop_implausible(h, &h->timestamp);
    drop_implausible(h, &h->start_timestamp);
    drop_implausible(h, &h->row.interval_bytes);
    drop_implausible(h, &h->row.orig_interval_bytes);
}

/* HW_ETRUNCATED, HW_EFORMAT if the message is damaged; what precedes the damage counts. */
static int head_read(struct hw_bytes message, struct process_dump *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    *out = (struct process_dump){.message = message};
    hw_heap_samples_skip(&r);
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number != F_PROCESS(samples))
            head_field(out, &f);
        hw_heap_samples_skip(&r);
    }
    check_numbers(out);
    return rc;
}

/* The rows in `stats` that show how far a dump can be trusted; keyed by pid. */
static int head_stats(struct hw_heap_dumps *d, const struct process_dump *h)
{
    static const struct {
        uint32_t flag;
        const char *name;
        enum hw_stat_severity severity;
    } flags[] = {
        {HW_DUMP_BUFFER_CORRUPTED, "heapprofd_buffer_corrupted", HW_STAT_ERROR},
        {HW_DUMP_BUFFER_OVERRAN, "heapprofd_buffer_overran", HW_STAT_DATA_LOSS},
        {HW_DUMP_REJECTED, "heapprofd_rejected_concurrent", HW_STAT_ERROR},
        {HW_DUMP_HIT_GUARDRAIL, "heapprofd_hit_guardrail", HW_STAT_ERROR},
        {HW_DUMP_DISCONNECTED, "heapprofd_client_disconnected", HW_STAT_INFO},
    };
    struct hw_profile *p = d->profile;
    const struct hw_heap_dump *row = &h->row;
    int64_t pid = (int64_t)h->pid;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(flags); i++)
        if (row->flags & flags[i].flag)
            rc = hw_profile_stat_set(p, flags[i].name, pid, flags[i].severity, 1);
    if (rc == HW_OK && h->is_implausible)
        rc = hw_profile_stat_add(p, "heapprofd_implausible_number", pid, HW_STAT_ERROR, 1);
    if (rc == HW_OK && row->client_error)
        rc = hw_profile_stat_set(p, "heapprofd_client_error", pid, HW_STAT_ERROR,
                                 (int64_t)row->client_error);
    if (rc == HW_OK && row->orig_interval_bytes)
        rc = hw_profile_stat_set(p, "heapprofd_sampling_interval_adjusted", pid, HW_STAT_INFO,
                                 (int64_t)(row->interval_bytes - row->orig_interval_bytes));
    if (rc == HW_OK && row->lost_samples)
        rc = hw_profile_stat_set(p, "heapprofd_lost_samples", pid, HW_STAT_DATA_LOSS,
                                 clamp(row->lost_samples));
    if (rc == HW_OK && h->lost_slices)
        rc = hw_profile_stat_set(p, "heapprofd_lost_slices", pid, HW_STAT_DATA_LOSS,
                                 clamp(h->lost_slices));
    if (rc < 0 || !h->has_stats)
        return rc;
    rc = hw_profile_stat_set(p, "heapprofd_unwind_time_us", pid, HW_STAT_INFO,
                             clamp(row->unwinding_time_us));
    if (rc == HW_OK)
        rc = hw_profile_stat_set(p, "heapprofd_unwind_samples", pid, HW_STAT_INFO,
                                 clamp(row->heap_samples));
    if (rc == HW_OK)
        rc = hw_profile_stat_set(p, "heapprofd_client_spinlock_blocked", pid, HW_STAT_INFO,
                                 clamp(row->blocked_us));
    return rc;
}

/* 1 = converted; 0 = it cannot be (counted). */
static int to_trace_clock(struct hw_heap_dumps *d, uint64_t value, int64_t *out)
{
    static const char *const names[] = {
        [HW_CLOCK_UNKNOWN_SOURCE] = "clock_sync_failure_unknown_source_clock",
        [HW_CLOCK_UNKNOWN_TARGET] = "clock_sync_failure_unknown_target_clock",
        [HW_CLOCK_NO_PATH] = "clock_sync_failure_no_path",
    };
    int rc = hw_clocks_convert(d->clocks, HW_V_BuiltinClock_BUILTIN_CLOCK_MONOTONIC_COARSE, 0,
                               value, out);
    if (rc < 0)
        return rc;
    if (rc == HW_CLOCK_OK)
        return 1;
    rc = count_error(d, names[rc], -1);
    return rc < 0 ? rc : 0;
}

/* Those of one key are a list. */
static uint64_t series_key(const struct hw_dump_sequence *q, hw_upid upid, hw_str_id heap)
{
    const uint64_t key[] = {q->id, (uint64_t)upid.v << 32 | heap.v, q->run};
    return hw_hash_bytes_seeded(hw_hash_seed(), key, sizeof key);
}

static int series_get(struct hw_heap_dumps *d, const struct hw_dump_sequence *q, hw_upid upid,
                      hw_str_id heap, size_t *out)
{
    uint64_t *first;
    bool fresh;
    if (hw_map64_at(&d->series_by_key, series_key(q, upid, heap), &first, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh)
        *first = HW_ID_NONE;
    for (uint64_t i = *first; i != HW_ID_NONE; i = d->series.v[i]->next) {
        const struct hw_heap_series *s = d->series.v[i];
        if (s->upid.v == upid.v && s->heap.v == heap.v && s->sequence == q->id &&
            s->run == q->run) {
            *out = i;
            return HW_OK;
        }
    }
    struct hw_heap_series *s = calloc(1, sizeof *s);
    if (!s || hw_vec_push(&d->series, s) < 0) {
        free(s);
        return HW_ENOMEM;
    }
    const char *name = hw_strings_cstr(hw_callsites_strings(d->profile->callsites), heap);
    *s = (struct hw_heap_series){.sequence = q->id,
                                 .run = q->run,
                                 .upid = upid,
                                 .heap = heap,
                                 .is_art = strcmp(name, "com.android.art") == 0,
                                 .dump = HW_ID_NONE,
                                 .next = *first};
    *out = *first = d->series.n - 1;
    return HW_OK;
}

static int fill_strings(struct hw_heap_dumps *d, struct process_dump *h)
{
    struct hw_bytes heap = h->heap_name.n ? h->heap_name : hw_bytes_str("unknown");
    set_flag(&h->row, HW_DUMP_OF_UNNAMED_HEAP, h->heap_name.n == 0);
    int rc = hw_profile_str(d->profile, heap, &h->row.heap_name);
    if (rc == HW_OK)
        rc = hw_profile_str(d->profile, h->trigger, &h->row.trigger);
    if (rc == HW_OK)
        rc = hw_profile_str(d->profile, h->lost_reason, &h->row.lost_reason);
    return rc;
}

/* 1 = the times are set; 0 = the dump's own cannot be converted. If the start's cannot, the dump
 * starts at its own time. */
static int fill_times(struct hw_heap_dumps *d, struct process_dump *h)
{
    int rc = to_trace_clock(d, h->timestamp, &h->row.ts_ns);
    h->row.start_ts_ns = h->row.ts_ns;
    if (rc != 1 || !h->has_start)
        return rc;
    rc = to_trace_clock(d, h->start_timestamp, &h->row.start_ts_ns);
    set_flag(&h->row, HW_DUMP_KNOWS_START, rc == 1);
    return rc < 0 ? rc : 1;
}

/* The dump this head belongs to: the one begun in an earlier packet, or a new one. */
static int open_dump(struct hw_heap_dumps *d, const struct hw_dump_sequence *q,
                     struct hw_heap_series *s, size_t series, const struct process_dump *h)
{
    struct hw_profile *p = d->profile;
    if (s->dump != HW_ID_NONE && s->dump_of_sequence == q->dump && s->raw_ts == h->timestamp) {
        p->dumps.v[s->dump].flags |= h->row.flags;
        return HW_OK;
    }
    if (p->dumps.n >= HW_ID_NONE)
        return HW_ELIMIT;
    if (hw_vec_push(&p->dumps, h->row) < 0 || hw_vec_push(&d->series_of_dump, (uint32_t)series) < 0)
        return HW_ENOMEM;
    s->dump = (uint32_t)p->dumps.n - 1;
    s->dump_of_sequence = q->dump;
    s->cursor = 0;
    s->raw_ts = h->timestamp;
    return hw_profile_stat_set(p, "heapprofd_last_profile_timestamp", (int64_t)h->pid, HW_STAT_INFO,
                               d->packet_ns == INT64_MIN ? h->row.ts_ns : d->packet_ns);
}

static int read_process_dump(struct hw_heap_dumps *d, const struct hw_dump_sequence *q,
                             const struct hw_heap_samples_context *at, struct hw_bytes message)
{
    struct process_dump h;
    size_t series;
    int rc = head_read(message, &h);
    if (rc < 0 || h.pid > INT32_MAX) /* damaged; a head cut short cannot be trusted */
        return count_error(d, "stackprofile_parser_error", -1);
    rc = hw_profile_traced_process(d->profile, (int64_t)h.pid, &h.row.upid);
    if (rc == HW_OK)
        rc = head_stats(d, &h);
    if (rc < 0 || (h.row.flags & HW_DUMP_REJECTED && !h.timestamp))
        return rc; /* a rejection is not a dump */
    rc = fill_strings(d, &h);
    if (rc == HW_OK)
        rc = fill_times(d, &h);
    if (rc != 1)
        return rc;
    rc = series_get(d, q, h.row.upid, h.row.heap_name, &series);
    if (rc == HW_OK)
        rc = open_dump(d, q, d->series.v[series], series, &h);
    return rc < 0 ? rc : hw_heap_samples_read(d->series.v[series], at, message);
}

/* ---- packets ---- */

static int sequence_get(struct hw_heap_dumps *d, uint64_t id, struct hw_dump_sequence **out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&d->sequence_of, id, &at, &fresh);
    if (rc == HW_OK && fresh) {
        *at = d->sequences.n;
        if (hw_vec_push(&d->sequences, (struct hw_dump_sequence){.id = id}) < 0)
            return HW_ENOMEM; /* ends the import */
    }
    if (rc == HW_OK)
        *out = &d->sequences.v[*at];
    return rc;
}

static int check_index(struct hw_heap_dumps *d, struct hw_dump_sequence *q, uint64_t index,
                       uint32_t generation)
{
    bool restart = q->has_index && index == 0 && generation != q->generation;
    bool gap = !restart && index != q->next_index;
    q->run += restart;
    q->has_index = true;
    q->next_index = index + 1;
    q->generation = generation;
    return gap ? count_error(d, "heapprofd_missing_packet", -1) : HW_OK;
}

bool hw_heap_dumps_is_continued(struct hw_bytes profile_packet)
{
    struct hw_pb_reader r = hw_pb_read(profile_packet);
    struct hw_pb_field f;
    bool continued = false;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProfilePacket_continued)
            continued = f.value != 0;
    return continued;
}

int hw_heap_dumps_packet(struct hw_heap_dumps *d, const struct hw_packet *p, int64_t ts_ns)
{
    struct hw_pb_reader r = hw_pb_read(p->data);
    struct hw_pb_field f;
    struct hw_dump_sequence *q = NULL;
    struct hw_heap_samples_context at = {d->profile, d->interned, p->sequence, p->generation,
                                         hw_interned_has_legacy(d->interned, p->sequence)};
    bool continued = false, has_index = false;
    uint64_t index = 0;
    int rc = sequence_get(d, p->sequence, &q), end;
    while (rc == HW_OK && (end = hw_pb_next(&r, &f)) == 1) {
        if (f.number == HW_F_ProfilePacket_continued)
            continued = f.value != 0;
        else if (f.number == HW_F_ProfilePacket_index) {
            has_index = true;
            index = f.value;
        }
    }
    if (rc == HW_OK && end < 0)
        rc = count_error(d, "stackprofile_parser_error", -1);
    if (rc == HW_OK && has_index)
        rc = check_index(d, q, index, p->generation);
    if (rc == HW_OK && at.has_legacy)
        rc = hw_interned_legacy_rows(d->interned, p->sequence, p->data);
    d->packet_ns = ts_ns;
    r = hw_pb_read(p->data);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProfilePacket_process_dumps && f.wire == HW_PB_BYTES)
            rc = read_process_dump(d, q, &at, f.bytes);
    if (rc == HW_OK && has_index) {
        q->open = continued;
        q->dump += !continued;
    }
    return rc == HW_OK && !continued ? hw_interned_end_dump(d->interned, p->sequence) : rc;
}

/* ---- checkpoints ---- */

/* For each dump, the dump that shows its rows: itself, or the next shown one of its series. */
static int find_shown(struct hw_heap_dumps *d, uint32_t *shown)
{
    const struct hw_profile *p = d->profile;
    hw_autofree uint32_t *later = malloc((d->series.n + 1) * sizeof *later);
    if (!later)
        return HW_ENOMEM;
    memset(later, 0xff, (d->series.n + 1) * sizeof *later);
    for (size_t i = p->dumps.n; i-- > 0;) {
        uint32_t *next = &later[d->series_of_dump.v[i]];
        bool hidden = p->dumps.v[i].flags & HW_DUMP_CHECKPOINT && *next != HW_ID_NONE;
        shown[i] = hidden ? *next : (uint32_t)i;
        if (!hidden)
            *next = (uint32_t)i;
    }
    return HW_OK;
}

/* Rounding is the callsite's at the dump, so the row of the other sign gets it, too. */
static int replace_rounding(struct hw_alloc_rows *to, const struct hw_map64 *seen, uint64_t key,
                            int64_t rounding)
{
    uint64_t at;
    if (!hw_map64_get(seen, key, &at))
        return HW_OK;
    struct hw_alloc_row row = hw_alloc_row_get(to, at);
    row.rounding = rounding;
    return hw_alloc_rows_set(to, at, &row);
}

/* Adds a row to the one of the same callsite and sign, if its dump has one already. */
static int merge_row(struct hw_alloc_rows *to, struct hw_map64 *seen,
                     const struct hw_alloc_row *row)
{
    uint64_t key = (uint64_t)row->dump << 33 | (uint64_t)row->callsite.v << 1 | (row->size < 0);
    uint64_t at;
    if (replace_rounding(to, seen, key ^ 1, row->rounding) < 0)
        return HW_ENOMEM;
    if (hw_map64_get(seen, key, &at)) {
        struct hw_alloc_row sum = hw_alloc_row_get(to, at);
        sum.samples = hw_sat_add(sum.samples, row->samples);
        sum.count = hw_sat_add(sum.count, row->count);
        sum.size = hw_sat_add(sum.size, row->size);
        sum.idle = row->idle;
        sum.rounding = row->rounding;
        sum.variance = row->variance;
        sum.variance_objects = row->variance_objects;
        sum.variance_alloc_space = row->variance_alloc_space;
        sum.variance_alloc_objects = row->variance_alloc_objects;
        sum.variance_rounding = row->variance_rounding;
        sum.temporary_space = hw_sat_add(sum.temporary_space, row->temporary_space);
        sum.temporary_objects = hw_sat_add(sum.temporary_objects, row->temporary_objects);
        sum.variance_temporary_space = row->variance_temporary_space;
        sum.variance_temporary_objects = row->variance_temporary_objects;
        return hw_alloc_rows_set(to, at, &sum);
    }
    if (hw_map64_put(seen, key, to->n) < 0)
        return HW_ENOMEM;
    return hw_alloc_rows_push(to, row);
}

static int move_rows(struct hw_heap_dumps *d, const uint32_t *shown, const bool *grows)
{
    struct hw_profile *p = d->profile;
    struct hw_alloc_rows moved = {0};
    struct hw_map64 seen = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->allocs.n; i++) {
        struct hw_alloc_row row = hw_alloc_row_get(&p->allocs, i);
        if (shown[row.dump] != row.dump && p->dumps.v[row.dump].flags & HW_DUMP_AT_MAX)
            continue; /* not a difference: the later dump has all of it */
        row.dump = shown[row.dump];
        rc = grows[row.dump] ? merge_row(&moved, &seen, &row) : hw_alloc_rows_push(&moved, &row);
    }
    hw_map64_done(&seen);
    if (rc < 0) {
        hw_alloc_rows_done(&moved);
        return rc;
    }
    hw_alloc_rows_done(&p->allocs);
    p->allocs = moved;
    return HW_OK;
}

static void drop_hidden(struct hw_profile *p, uint32_t *shown)
{
    size_t n = 0;
    for (size_t i = 0; i < p->dumps.n; i++) { /* the later dump's window includes this one's */
        int64_t *start = &p->dumps.v[shown[i]].start_ts_ns;
        *start = p->dumps.v[i].start_ts_ns < *start ? p->dumps.v[i].start_ts_ns : *start;
    }
    for (size_t i = 0; i < p->dumps.n; i++) {
        if (shown[i] != i)
            continue;
        p->dumps.v[n] = p->dumps.v[i];
        shown[i] = (uint32_t)n++; /* from here on the new number */
    }
    for (size_t i = 0; i < p->allocs.runs.n; i++)
        p->allocs.runs.v[i].dump = shown[p->allocs.runs.v[i].dump];
    p->dumps.n = n;
}

/* Where the file ends before the callstacks of its last dump, nothing of that dump can be told: it
 * would have zeros. */
static void drop_unreadable(struct hw_heap_dumps *d)
{
    struct hw_profile *p = d->profile;
    size_t n_runs = p->allocs.runs.n;
    uint32_t first = n_runs ? p->allocs.runs.v[n_runs - 1].dump + 1 : 0;
    while (p->dumps.n > first && p->dumps.v[p->dumps.n - 1].heap_samples > 0) {
        p->dumps.n--;
        d->series_of_dump.n--;
    }
}

int hw_heap_dumps_finish(struct hw_heap_dumps *d)
{
    struct hw_profile *p = d->profile;
    bool is_cut = false;
    for (size_t i = 0; i < d->sequences.n; i++) {
        int rc =
            d->sequences.v[i].open ? count_error(d, "heapprofd_non_finalized_profile", -1) : HW_OK;
        if (rc < 0)
            return rc;
        is_cut |= d->sequences.v[i].open;
    }
    if (is_cut)
        drop_unreadable(d);
    hw_autofree uint32_t *shown = malloc((p->dumps.n + 1) * sizeof *shown);
    hw_autofree bool *grows = calloc(p->dumps.n + 1, sizeof *grows);
    bool any = false;
    if (!shown || !grows)
        return HW_ENOMEM;
    int rc = find_shown(d, shown);
    for (size_t i = 0; rc == HW_OK && i < p->dumps.n; i++)
        if (shown[i] != i)
            any = grows[shown[i]] = true;
    if (rc < 0 || !any)
        return rc;
    rc = move_rows(d, shown, grows);
    if (rc == HW_OK)
        drop_hidden(p, shown);
    return rc;
}
