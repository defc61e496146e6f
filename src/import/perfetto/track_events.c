#include "import/perfetto/track_events.h"

#include <string.h>

#include "base/error.h"
#include "codec/pb.h"
#include "import/system/mark_events.h"
#include "schema/fields.h"

#include "base/banned.h"

#define NO_TRACK UINT32_MAX

struct hw_described_track {
    uint64_t parent;
    int64_t pid, tid; /* -1 = unknown */
    hw_str_id name;   /* of the thread, or of the track itself */
    uint32_t track;   /* of the model, once it has an event; NO_TRACK before */
};

void hw_track_importer_init(struct hw_track_importer *t, struct hw_profile *profile,
                            struct hw_interned *interned)
{
    *t = (struct hw_track_importer){.profile = profile, .interned = interned};
}

void hw_track_importer_done(struct hw_track_importer *t)
{
    hw_vec_done(&t->described);
    hw_map64_done(&t->by_uuid);
    hw_map64_done(&t->of_sequence);
}

/* ---- descriptors ---- */

static int described_at(struct hw_track_importer *t, uint64_t uuid, struct hw_described_track **out)
{
    uint64_t *at;
    bool fresh;
    if (hw_vec_reserve(&t->described, t->described.n + 1) < 0)
        return HW_ENOMEM;
    int rc = hw_map64_at(&t->by_uuid, uuid, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = t->described.n;
        t->described.v[t->described.n++] =
            (struct hw_described_track){.pid = -1, .tid = -1, .track = NO_TRACK};
    }
    *out = &t->described.v[*at];
    return HW_OK;
}

static int read_thread(struct hw_track_importer *t, struct hw_bytes message,
                       struct hw_described_track *d)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ThreadDescriptor_pid && f.wire == HW_PB_VARINT)
            d->pid = (int32_t)f.value;
        else if (f.number == HW_F_ThreadDescriptor_tid && f.wire == HW_PB_VARINT)
            d->tid = (int32_t)f.value;
        else if (f.number == HW_F_ThreadDescriptor_thread_name && f.wire == HW_PB_BYTES)
            rc = hw_profile_str(t->profile, f.bytes, &d->name);
    }
    return rc;
}

/* Names a process, unless the process tree does. */
static int read_process(struct hw_track_importer *t, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int64_t pid = -1;
    struct hw_bytes name = {NULL, 0};
    hw_upid upid;
    hw_str_id id;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ProcessDescriptor_pid && f.wire == HW_PB_VARINT)
            pid = (int32_t)f.value;
        else if (f.number == HW_F_ProcessDescriptor_process_name && f.wire == HW_PB_BYTES)
            name = f.bytes;
    }
    if (pid <= 0 || !name.n)
        return HW_OK;
    int rc = hw_profile_traced_process(t->profile, pid, &upid);
    if (rc == HW_OK)
        rc = hw_profile_str(t->profile, name, &id);
    if (rc == HW_OK && !t->profile->processes.v[upid.v].name.v)
        t->profile->processes.v[upid.v].name = id;
    return rc;
}

int hw_track_importer_descriptor(struct hw_track_importer *t, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_described_track d = {.pid = -1, .tid = -1, .track = NO_TRACK}, *at;
    uint64_t uuid = 0;
    hw_str_id name = {0};
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TrackDescriptor_uuid && f.wire == HW_PB_VARINT)
            uuid = f.value;
        else if (f.number == HW_F_TrackDescriptor_parent_uuid && f.wire == HW_PB_VARINT)
            d.parent = f.value;
        else if (f.wire != HW_PB_BYTES)
            continue;
        else if (f.number == HW_F_TrackDescriptor_thread)
            rc = read_thread(t, f.bytes, &d);
        else if (f.number == HW_F_TrackDescriptor_process)
            rc = read_process(t, f.bytes);
        else if (f.number == HW_F_TrackDescriptor_name ||
                 f.number == HW_F_TrackDescriptor_static_name)
            rc = hw_profile_str(t->profile, f.bytes, &name);
    }
    if (!d.name.v)
        d.name = name;
    if (rc == HW_OK)
        rc = described_at(t, uuid, &at);
    if (rc == HW_OK)
        *at = d; /* the last one counts: a thread may change its name */
    return rc;
}

int hw_track_importer_defaults(struct hw_track_importer *t, const struct hw_packet *p)
{
    struct hw_pb_reader r = hw_pb_read(p->defaults);
    struct hw_pb_field f, of;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_TracePacketDefaults_track_event_defaults || f.wire != HW_PB_BYTES)
            continue;
        struct hw_pb_reader inner = hw_pb_read(f.bytes);
        while (rc == HW_OK && hw_pb_next(&inner, &of) == 1)
            if (of.number == HW_F_TrackEventDefaults_track_uuid && of.wire == HW_PB_VARINT)
                rc = hw_map64_put(&t->of_sequence, p->sequence, of.value);
    }
    return rc;
}

/* ---- events ---- */

struct event {
    uint64_t type, phase, name_iid, category_iid, track;
    int64_t duration_us;
    struct hw_bytes name, category;
    bool has_track;
};

static void read_legacy(struct hw_bytes message, struct event *e)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_VARINT)
            continue;
        if (f.number == HW_F_TrackEvent_LegacyEvent_phase)
            e->phase = f.value;
        else if (f.number == HW_F_TrackEvent_LegacyEvent_duration_us)
            e->duration_us = (int64_t)f.value;
        else if (f.number == HW_F_TrackEvent_LegacyEvent_name_iid && !e->name_iid)
            e->name_iid = f.value;
    }
}

/* Repeated fields may be packed; the first of several categories counts. */
static uint64_t first_of(const struct hw_pb_field *f)
{
    struct hw_bytes rest = f->bytes;
    uint64_t v = 0;
    if (f->wire == HW_PB_VARINT)
        return f->value;
    return f->wire == HW_PB_BYTES && hw_pb_next_packed(&rest, &v) == 1 ? v : 0;
}

static struct event event_read(struct hw_bytes message)
{
    struct event e = {0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TrackEvent_category_iids) {
            e.category_iid = e.category_iid ? e.category_iid : first_of(&f);
        } else if (f.wire == HW_PB_BYTES) {
            if (f.number == HW_F_TrackEvent_name)
                e.name = f.bytes;
            else if (f.number == HW_F_TrackEvent_categories && !e.category.n)
                e.category = f.bytes;
            else if (f.number == HW_F_TrackEvent_legacy_event)
                read_legacy(f.bytes, &e);
        } else if (f.wire == HW_PB_VARINT) {
            if (f.number == HW_F_TrackEvent_type)
                e.type = f.value;
            else if (f.number == HW_F_TrackEvent_name_iid)
                e.name_iid = f.value;
            else if (f.number == HW_F_TrackEvent_track_uuid)
                e.track = f.value, e.has_track = true;
        }
    }
    return e;
}

static bool kind_of(const struct event *e, enum hw_slice_event_kind *out)
{
    bool begins = e->type == HW_V_TrackEvent_Type_TYPE_SLICE_BEGIN || e->phase == 'B';
    if (begins || e->type == HW_V_TrackEvent_Type_TYPE_SLICE_END || e->phase == 'E')
        *out = begins ? HW_SLICE_BEGIN : HW_SLICE_END;
    else if (e->phase == 'X')
        *out = HW_SLICE_WHOLE;
    else
        return false;
    return true;
}

enum { MAX_PARENTS = 8 }; /* from a nested track to the thread; there may be a cycle */

static int make_track(struct hw_track_importer *t, struct hw_described_track *d)
{
    struct hw_profile *p = t->profile;
    hw_upid upid;
    uint32_t thread;
    if (d->pid < 0 || d->tid < 0)
        return hw_slices_named_track(&p->slices, d->name, &d->track);
    int rc = hw_profile_traced_process(p, d->pid, &upid);
    if (rc == HW_OK)
        rc = hw_profile_thread(p, upid, d->tid, d->name, &thread);
    return rc < 0 ? rc : hw_slices_thread_track(&p->slices, thread, &d->track);
}

/* A track without a name of its own counts as its parent. */
static int track_of(struct hw_track_importer *t, uint64_t uuid, uint32_t *out)
{
    struct hw_described_track *d;
    int rc = described_at(t, uuid, &d);
    for (int i = 0; rc == HW_OK && i < MAX_PARENTS && d->tid < 0 && !d->name.v && d->parent; i++)
        rc = described_at(t, d->parent, &d);
    if (rc == HW_OK && d->track == NO_TRACK)
        rc = make_track(t, d);
    if (rc == HW_OK)
        *out = d->track;
    return rc;
}

static int text_of(struct hw_track_importer *t, const struct hw_packet *p, struct hw_bytes text,
                   enum hw_interned_kind kind, uint64_t iid, hw_str_id *out)
{
    if (text.n || !iid)
        return hw_profile_str(t->profile, text, out);
    return hw_interned_text(t->interned, p->sequence, p->generation, kind, iid, out);
}

int hw_track_importer_event(struct hw_track_importer *t, const struct hw_packet *p, int64_t ts_ns)
{
    struct event e = event_read(p->data);
    struct hw_slice_event s = {.ts_ns = ts_ns};
    if (!kind_of(&e, &s.kind))
        return hw_import_mark(t->profile, p->data, ts_ns);
    if (!e.has_track)
        (void)hw_map64_get(&t->of_sequence, p->sequence, &e.track); /* else track 0 */
    if (e.duration_us > 0 && __builtin_mul_overflow(e.duration_us, 1000, &s.dur_ns))
        s.dur_ns = INT64_MAX;
    int rc = track_of(t, e.track, &s.track);
    if (rc == HW_OK && s.kind != HW_SLICE_END)
        rc = text_of(t, p, e.name, HW_INTERNED_EVENT_NAME, e.name_iid, &s.name);
    if (rc == HW_OK && s.kind != HW_SLICE_END)
        rc = text_of(t, p, e.category, HW_INTERNED_CATEGORY, e.category_iid, &s.category);
    return rc < 0 ? rc : hw_slices_add(&t->profile->slices, &s);
}
