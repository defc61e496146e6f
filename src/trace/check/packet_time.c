/*
 * Snapshots may follow the times that need them, so which clocks they relate is known only at the
 * end: clocks of one snapshot are joined (union-find), and a time can be converted if its clock is
 * joined with the trace's.
 */
#include "trace/check/packet_time.h"

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/check/checker.h"
#include "trace/reader.h"

#include "base/banned.h"

#define F(name)     HW_F_TracePacket_##name
#define CLOCK(name) HW_V_BuiltinClock_BUILTIN_CLOCK_##name

enum {
    FIRST_OWN = 64,
    FIRST_GLOBAL = 128
}; /* ids of a sequence's own clocks; of global ones again */

static bool is_own(uint32_t clock)
{
    return clock >= FIRST_OWN && clock < FIRST_GLOBAL;
}

static uint64_t clock_key(uint32_t clock, uint64_t sequence)
{
    return is_own(clock) ? hw_hash_mix(sequence, clock) | 1ull << 63 : clock;
}

static int clock_get(struct hw_check_clocks *t, uint32_t clock, uint64_t sequence, size_t *out)
{
    uint64_t *at;
    bool fresh;
    if (hw_map64_at(&t->by_key, clock_key(clock, sequence), &at, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        size_t n = *at = t->v.n;
        if (hw_vec_push(
                &t->v, (struct hw_check_clock){.id = clock, .parent = n, .oldest = UINT64_MAX}) < 0)
            return HW_ENOMEM;
    }
    *out = *at;
    return HW_OK;
}

static size_t root_of(struct hw_check_clocks *t, size_t i)
{
    while (t->v.v[i].parent != i)
        i = t->v.v[i].parent = t->v.v[t->v.v[i].parent].parent;
    return i;
}

static int use_clock(struct hw_checker *c, uint32_t clock, uint64_t sequence, bool of_dumps,
                     size_t *out)
{
    int rc = clock_get(&c->clocks, clock, sequence, out);
    if (rc < 0 || c->clocks.v.v[*out].used)
        return rc;
    c->clocks.v.v[*out].used = true;
    c->clocks.v.v[*out].of_dumps = of_dumps;
    c->clocks.v.v[*out].at = c->at;
    return HW_OK;
}

int hw_check_dump_clock(struct hw_checker *c)
{
    size_t i;
    return use_clock(c, CLOCK(MONOTONIC_COARSE), /* sequence = */ 0, /* of_dumps = */ true, &i);
}

/* ---- snapshots ---- */

struct reading {
    uint32_t clock;
    uint64_t ts;
    bool incremental;
};

static struct reading read_clock(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct reading out = {0};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ClockSnapshot_Clock_clock_id)
            out.clock = (uint32_t)f.value;
        else if (f.number == HW_F_ClockSnapshot_Clock_timestamp)
            out.ts = f.value;
        else if (f.number == HW_F_ClockSnapshot_Clock_is_incremental)
            out.incremental = f.value != 0;
    }
    return out;
}

/* The wall clock may be set back. */
static bool may_go_back(uint32_t clock)
{
    return clock == CLOCK(REALTIME) || clock == CLOCK(REALTIME_COARSE);
}

static int add_clock(struct hw_checker *c, uint64_t sequence, struct reading now, size_t *joined)
{
    struct hw_check_clocks *t = &c->clocks;
    size_t i;
    int rc = clock_get(t, now.clock, sequence, &i);
    if (rc < 0)
        return rc;
    struct hw_check_clock *k = &t->v.v[i];
    if (k->in_snapshot && now.ts < k->last && !may_go_back(now.clock) && !now.incremental)
        hw_check_found(c, HW_CHECK_CLOCK_BACK, "clock %u shows %llu, %llu before", now.clock,
                       (unsigned long long)now.ts, (unsigned long long)k->last);
    k->in_snapshot = true;
    k->last = now.ts;
    k->incremental |= now.incremental;
    if (*joined != SIZE_MAX)
        t->v.v[root_of(t, i)].parent = root_of(t, *joined);
    *joined = i;
    return HW_OK;
}

static int read_snapshot(struct hw_checker *c, const struct hw_packet *p)
{
    struct hw_pb_reader r = hw_pb_read(p->data);
    struct hw_pb_field f;
    size_t joined = SIZE_MAX;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ClockSnapshot_clocks && f.wire == HW_PB_BYTES)
            rc = add_clock(c, p->sequence, read_clock(f.bytes), &joined);
        else if (f.number == HW_F_ClockSnapshot_primary_trace_clock && c->clocks.trace_clock == 0)
            c->clocks.trace_clock = (uint32_t)f.value;
    }
    return rc;
}

/* ---- packets ---- */

/* Events may have their own time. */
static bool has_own_time(struct hw_bytes event)
{
    struct hw_pb_reader r = hw_pb_read(event);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_TrackEvent_timestamp_delta_us ||
            f.number == HW_F_TrackEvent_timestamp_absolute_us)
            return true;
    return false;
}

static const char *needs_time(const struct hw_packet *p)
{
    switch (p->data_field) {
    case F(profile_packet):
        return "samples";
    case F(heap_graph):
        return "a heap graph";
    case F(process_stats):
        return "statistics of processes";
    case F(smaps_packet):
        return "memory maps";
    case F(memory_tracker_snapshot):
        return "a memory dump";
    case F(perf_sample):
    case F(streaming_profile_packet):
        return "CPU samples";
    case F(art_process_metadata):
        return "metadata of a process";
    case F(track_event):
        return has_own_time(p->data) ? NULL : "an event";
    default:
        return NULL;
    }
}

/* ---- the order of time ---- */

/*
 * Packets may be in any order: readers sort them. Readers that sort while reading emit the packets
 * before the last window but one whenever buffers were read and at least two flushes have ended
 * since the last time (events of the recording service). They drop older packets that come later.
 * Clocks are checked separately, as they can be converted only at the end.
 */

static void end_windows(struct hw_checker *c)
{
    for (size_t i = 0; i < c->clocks.v.n; i++) {
        struct hw_check_clock *k = &c->clocks.v.v[i];
        if (k->marked <= k->oldest) /* else late packets hold the others back */
            k->emitted = k->marked;
        k->marked = k->newest;
        k->oldest = UINT64_MAX;
    }
    c->n_flushes = 0;
}

static void read_event(struct hw_checker *c, const struct hw_packet *p)
{
    struct hw_pb_reader r = hw_pb_read(p->data);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        c->n_flushes +=
            f.number == HW_F_TracingServiceEvent_all_data_sources_flushed && f.value != 0;
        if (f.number == HW_F_TracingServiceEvent_read_tracing_buffers_completed && f.value != 0 &&
            c->n_flushes >= 2)
            end_windows(c);
    }
}

/* Kinds that take effect at their position in the file are not sorted. */
static bool is_sorted(const struct hw_packet *p)
{
    switch (p->data_field) {
    case 0:
    case F(clock_snapshot):
    case F(trace_config):
    case F(trace_stats):
    case F(trace_uuid):
    case F(trace_provenance):
    case F(trace_attributes):
    case F(synchronization_marker):
    case F(system_info):
    case F(service_event):
    case F(module_symbols):
    case F(deobfuscation_mapping):
        return false;
    default:
        return true;
    }
}

static void check_order(struct hw_checker *c, struct hw_check_clock *k, const struct hw_packet *p)
{
    if (k->incremental || !is_sorted(p)) /* deltas do not show the order */
        return;
    if (p->timestamp < k->oldest)
        k->oldest = p->timestamp;
    if (p->timestamp < k->emitted)
        hw_check_found(c, HW_CHECK_TIME_ORDER, "%llu in clock %u, readers are at %llu by then",
                       (unsigned long long)p->timestamp, k->id, (unsigned long long)k->emitted);
    else if (p->timestamp > k->newest)
        k->newest = p->timestamp;
}

int hw_check_packet_time(struct hw_checker *c, const struct hw_packet *p)
{
    const char *what = p->has_timestamp ? NULL : needs_time(p);
    if (what)
        hw_check_found(c, HW_CHECK_TIME_MISSING, "%s without a time stamp", what);
    if (p->data_field == F(clock_snapshot)) {
        int rc = read_snapshot(c, p);
        if (rc < 0)
            return rc;
    }
    if (p->data_field == F(service_event))
        read_event(c, p);
    if (!p->has_timestamp)
        return HW_OK;
    size_t i;
    int rc = use_clock(c, p->clock_id ? p->clock_id : CLOCK(BOOTTIME), p->sequence,
                       /* of_dumps = */ false, &i);
    if (rc == HW_OK)
        check_order(c, &c->clocks.v.v[i], p);
    return rc;
}

/* ---- the end ---- */

/* The trace's own clock needs no snapshot. */
void hw_check_clocks_end(struct hw_checker *c)
{
    struct hw_check_clocks *t = &c->clocks;
    uint32_t own = t->trace_clock ? t->trace_clock : CLOCK(BOOTTIME);
    uint64_t at = 0;
    bool is_tied = hw_map64_get(&t->by_key, own, &at);
    size_t root = is_tied ? root_of(t, (size_t)at) : SIZE_MAX;
    for (size_t i = 0; i < t->v.n; i++) {
        const struct hw_check_clock *k = &t->v.v[i];
        if (!k->used || k->id == own || (is_tied && root_of(t, i) == root))
            continue;
        if (k->of_dumps)
            hw_check_found_at(c, HW_CHECK_CLOCK_UNDEFINED, k->at,
                              "no snapshot has clock %u (MONOTONIC_COARSE), which heap dumps are "
                              "in, and clock %u: readers drop them",
                              k->id, own);
        else
            hw_check_found_at(c, HW_CHECK_CLOCK_UNDEFINED, k->at,
                              "no snapshot ties clock %u to clock %u, the trace's", k->id, own);
    }
}

void hw_check_clocks_done(struct hw_checker *c)
{
    hw_map64_done(&c->clocks.by_key);
    hw_vec_done(&c->clocks.v);
}
