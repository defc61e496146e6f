/*
 * A PerfSample is one of four things: a sample (with a callstack, or counters only), a count of
 * records that the kernel lost, a sample that the recorder skipped, or the recorder's stop. The
 * oldest writers name no counters at all; they used the CPU clock.
 */
#include "import/perfetto/perf_samples.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_SAMPLE(name) HW_F_PerfSample_##name

enum { MAX_FOLLOWERS = 64 }; /* the kernel reads far fewer at once */

struct hw_cpu_session {
    uint32_t number;
    hw_str_id names[1 + MAX_FOLLOWERS]; /* of the counters, the timebase first */
    struct hw_map64 track_of;           /* counter << 32 | cpu -> track */
};

struct sample {
    uint64_t cpu, pid, tid, mode, unwind_error, iid, lost, skipped;
    uint64_t counts[1 + MAX_FOLLOWERS];
    size_t n_followers;
    bool has_tid, has_stack, has_count, has_lost, has_skipped, has_event;
};

void hw_cpu_importer_init(struct hw_cpu_importer *c, struct hw_profile *profile,
                          struct hw_interned *interned)
{
    *c = (struct hw_cpu_importer){.profile = profile, .interned = interned};
}

void hw_cpu_importer_done(struct hw_cpu_importer *c)
{
    for (size_t i = 0; i < c->sessions.n; i++) {
        hw_map64_done(&c->sessions.v[i]->track_of);
        free(c->sessions.v[i]);
    }
    hw_vec_done(&c->sessions);
    hw_map64_done(&c->by_sequence);
}

static int session_of(struct hw_cpu_importer *c, uint64_t sequence, struct hw_cpu_session **out)
{
    uint64_t at;
    if (!hw_map64_get(&c->by_sequence, sequence, &at)) {
        struct hw_cpu_session *s = calloc(1, sizeof *s);
        at = c->sessions.n;
        if (!s || hw_vec_push(&c->sessions, s) < 0) {
            free(s);
            return HW_ENOMEM;
        }
        s->number = HW_ID_NONE;
        int rc = hw_map64_put(&c->by_sequence, sequence, at);
        if (rc < 0)
            return rc;
    }
    *out = c->sessions.v[at];
    return HW_OK;
}

/* The same for samples and events: the first of them gives the session its number. */
static int numbered_session(struct hw_cpu_importer *c, uint64_t sequence,
                            struct hw_cpu_session **out)
{
    int rc = session_of(c, sequence, out);
    if (rc == HW_OK && (*out)->number == HW_ID_NONE)
        (*out)->number = c->profile->cpu.n_sessions++;
    return rc;
}

/* ---- names of counters ---- */

/* By enum PerfEvents.Counter: the names that perf uses. */
static const char *const counter_names[] = {"unknown",
                                            "cpu-clock",
                                            "page-faults",
                                            "task-clock",
                                            "context-switches",
                                            "cpu-migrations",
                                            "minor-faults",
                                            "major-faults",
                                            "alignment-faults",
                                            "emulation-faults",
                                            "cpu-cycles",
                                            "instructions",
                                            "cache-references",
                                            "cache-misses",
                                            "branch-instructions",
                                            "branch-misses",
                                            "bus-cycles",
                                            "stalled-cycles-frontend",
                                            "stalled-cycles-backend",
                                            "ref-cycles",
                                            "dummy"};

static struct hw_bytes tracepoint_name(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes name = hw_bytes_str("tracepoint");
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_PerfEvents_Tracepoint_name && f.wire == HW_PB_BYTES)
            name = f.bytes;
    return name;
}

/* Timebase and FollowerEvent have the same fields under different numbers. */
struct event_fields {
    uint32_t name, counter, tracepoint, raw;
};

static struct hw_bytes event_name(struct hw_bytes message, const struct event_fields *by)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes given = {NULL, 0}, name = hw_bytes_str("cpu-clock");
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == by->name && f.wire == HW_PB_BYTES)
            given = f.bytes;
        else if (f.number == by->counter && f.wire == HW_PB_VARINT)
            name = hw_bytes_str(counter_names[f.value < HW_ARRAY_LEN(counter_names) ? f.value : 0]);
        else if (f.number == by->tracepoint && f.wire == HW_PB_BYTES)
            name = tracepoint_name(f.bytes);
        else if (f.number == by->raw && f.wire == HW_PB_BYTES)
            name = hw_bytes_str("raw-event");
    }
    return given.n ? given : name;
}

static int read_events(struct hw_cpu_importer *c, struct hw_cpu_session *s, struct hw_bytes message)
{
    static const struct event_fields timebase = {
        HW_F_PerfEvents_Timebase_name, HW_F_PerfEvents_Timebase_counter,
        HW_F_PerfEvents_Timebase_tracepoint, HW_F_PerfEvents_Timebase_raw_event};
    static const struct event_fields follower = {
        HW_F_FollowerEvent_name, HW_F_FollowerEvent_counter, HW_F_FollowerEvent_tracepoint,
        HW_F_FollowerEvent_raw_event};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    size_t n = 0;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == HW_F_PerfSampleDefaults_timebase)
            rc = hw_profile_str(c->profile, event_name(f.bytes, &timebase), &s->names[0]);
        else if (f.number == HW_F_PerfSampleDefaults_followers && n < MAX_FOLLOWERS)
            rc = hw_profile_str(c->profile, event_name(f.bytes, &follower), &s->names[++n]);
    }
    return rc;
}

int hw_cpu_importer_defaults(struct hw_cpu_importer *c, const struct hw_packet *p)
{
    struct hw_cpu_session *s;
    struct hw_pb_reader r = hw_pb_read(p->defaults);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_TracePacketDefaults_perf_sample_defaults || f.wire != HW_PB_BYTES)
            continue;
        rc = session_of(c, p->sequence, &s);
        if (rc == HW_OK)
            rc = read_events(c, s, f.bytes);
    }
    return rc;
}

/* ---- samples ---- */

static void add_follower(struct sample *s, uint64_t count)
{
    if (s->n_followers < MAX_FOLLOWERS)
        s->counts[++s->n_followers] = count;
}

static struct sample sample_read(struct hw_bytes message)
{
    struct sample s = {.unwind_error = HW_V_Profiling_StackUnwindError_UNWIND_ERROR_NONE};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t v;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.wire == HW_PB_BYTES && f.number == F_SAMPLE(follower_counts))
            while (hw_pb_next_packed(&f.bytes, &v) == 1)
                add_follower(&s, v);
        if (f.wire == HW_PB_BYTES && f.number == F_SAMPLE(producer_event))
            s.has_event = true;
        if (f.wire != HW_PB_VARINT)
            continue;
        switch (f.number) {
        case F_SAMPLE(cpu):
            s.cpu = f.value;
            break;
        case F_SAMPLE(pid):
            s.pid = f.value;
            break;
        case F_SAMPLE(tid):
            s.tid = f.value;
            s.has_tid = true;
            break;
        case F_SAMPLE(callstack_iid):
            s.iid = f.value;
            s.has_stack = true;
            break;
        case F_SAMPLE(cpu_mode):
            s.mode = f.value;
            break;
        case F_SAMPLE(timebase_count):
            s.counts[0] = f.value;
            s.has_count = true;
            break;
        case F_SAMPLE(follower_counts):
            add_follower(&s, f.value);
            break;
        case F_SAMPLE(unwind_error):
            s.unwind_error = f.value;
            break;
        case F_SAMPLE(kernel_records_lost):
            s.lost = f.value;
            s.has_lost = true;
            break;
        case F_SAMPLE(sample_skipped_reason):
            s.skipped = f.value;
            s.has_skipped = true;
            break;
        default:
            break;
        }
    }
    return s;
}

static int add_count(struct hw_cpu_importer *c, struct hw_cpu_session *session, uint32_t cpu,
                     size_t counter, int64_t ts_ns, uint64_t value)
{
    struct hw_cpu_samples *all = &c->profile->cpu;
    uint64_t *at;
    bool fresh;
    int rc = HW_OK;
    if (hw_vec_reserve(&all->tracks, all->tracks.n + 1) < 0)
        return HW_ENOMEM;
    if (!session->names[counter].v)
        rc = hw_profile_str(c->profile, hw_bytes_str(counter ? "unknown" : "cpu-clock"),
                            &session->names[counter]);
    if (rc == HW_OK)
        rc = hw_map64_at(&session->track_of, (uint64_t)counter << 32 | cpu, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = all->tracks.n;
        all->tracks.v[all->tracks.n++] = (struct hw_cpu_track){
            session->number, cpu, session->names[counter], /* is_timebase = */ counter == 0};
    }
    struct hw_cpu_count row = {ts_ns, (uint32_t)*at, all->n_sets, (double)value};
    return hw_vec_push(&all->counts, row) < 0 ? HW_ENOMEM : HW_OK;
}

/* The sample's thread + 1; 0 = the idle task. */
static int find_thread(struct hw_profile *p, const struct sample *s, uint32_t *out)
{
    uint64_t tid = s->has_tid ? s->tid : s->pid;
    uint32_t row;
    hw_upid upid;
    *out = 0;
    if ((tid == 0 && s->pid == 0) || tid > INT32_MAX || s->pid > INT32_MAX)
        return HW_OK;
    int rc = hw_profile_traced_process(p, (int64_t)s->pid, &upid);
    if (rc == HW_OK)
        rc = hw_profile_thread(p, upid, (int64_t)tid, (hw_str_id){0}, &row);
    if (rc == HW_OK)
        *out = row + 1;
    return rc;
}

static int add_sample(struct hw_cpu_importer *c, const struct hw_packet *p, int64_t ts_ns,
                      const struct sample *s)
{
    struct hw_cpu_session *session;
    struct hw_cpu_sample row = {.ts_ns = ts_ns,
                                .callsite = {HW_ID_NONE},
                                .cpu = (uint32_t)s->cpu,
                                .counter_set = HW_ID_NONE,
                                .mode = (uint8_t)(s->mode > UINT8_MAX ? 0 : s->mode),
                                .unwind_error =
                                    (uint8_t)(s->unwind_error > UINT8_MAX ? 0 : s->unwind_error)};
    int rc = numbered_session(c, p->sequence, &session);
    if (rc == HW_OK)
        rc = find_thread(c->profile, s, &row.thread);
    if (rc == HW_OK && s->has_stack)
        rc = hw_interned_callstack(c->interned, p->sequence, p->generation, s->iid, &row.callsite);
    if (rc < 0)
        return rc;
    if (rc == 0) /* no stack, or an undefined one, which was counted */
        row.callsite.v = HW_ID_NONE;
    row.session = session->number;
    rc = s->has_count ? add_count(c, session, row.cpu, 0, ts_ns, s->counts[0]) : HW_OK;
    for (size_t i = 1; rc == HW_OK && i <= s->n_followers; i++)
        rc = add_count(c, session, row.cpu, i, ts_ns, s->counts[i]);
    if (s->has_count || s->n_followers)
        row.counter_set = c->profile->cpu.n_sets++;
    if (rc == HW_OK && hw_vec_push(&c->profile->cpu.samples, row) < 0)
        rc = HW_ENOMEM;
    return rc;
}

int hw_cpu_importer_sample(struct hw_cpu_importer *c, const struct hw_packet *p, int64_t ts_ns)
{
    struct sample s = sample_read(p->data);
    struct hw_cpu_session *session;
    if (s.has_lost)
        return hw_profile_stat_add(c->profile, "perf_cpu_lost_records", (int64_t)(uint32_t)s.cpu,
                                   HW_STAT_DATA_LOSS,
                                   s.lost > INT64_MAX ? INT64_MAX : (int64_t)s.lost);
    if (s.has_skipped) {
        bool chosen = s.skipped == HW_V_PerfSample_SampleSkipReason_PROFILER_SKIP_NOT_IN_SCOPE;
        return hw_profile_stat_add(
            c->profile, chosen ? "perf_samples_skipped" : "perf_samples_skipped_dataloss", -1,
            chosen ? HW_STAT_INFO : HW_STAT_DATA_LOSS, 1);
    }
    if (s.has_event) {
        int rc = numbered_session(c, p->sequence, &session);
        return rc < 0 ? rc
                      : hw_profile_stat_set(c->profile, "perf_guardrail_stop_ts", session->number,
                                            HW_STAT_DATA_LOSS, ts_ns);
    }
    return add_sample(c, p, ts_ns, &s);
}
