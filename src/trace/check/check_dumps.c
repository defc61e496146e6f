/*
 * Values are cumulative, so the last ones of each (process, heap, callstack) are kept. Tables in
 * the packets themselves (the format's first form) are valid for one dump; the next dump has new
 * ids, so nothing is kept after its end.
 */
#include "trace/check/check_dumps.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/check/check_ids.h"
#include "trace/check/check_sample.h"
#include "trace/check/checker.h"
#include "trace/check/packet_time.h"
#include "trace/reader.h"

#include "base/banned.h"

#define F_PROCESS(name) HW_F_ProfilePacket_ProcessHeapSamples_##name

enum { MAX_NAME = 40 };

/* Of a (process, heap). */
struct heap {
    uint64_t pid, hash;
    uint64_t last_ts;
    uint64_t sum_count, stats_count; /* of the dump: allocations in its samples, in its stats */
    uint64_t dump;                   /* the last that it is in */
    struct hw_check_pos at;          /* of that */
    char name[MAX_NAME + 1];
    bool has_ts, reported_loss, reported_interval, reported_total;
};

/* Of a (process, heap, callstack). */
struct site {
    size_t heap;
    uint64_t callstack;
    uint64_t allocated, freed, allocs, frees, temporary;
    uint64_t dump; /* the last that listed it, from 1 */
    struct hw_check_pos at;
};

struct hw_check_dumps {
    uint64_t next_index, dump; /* number of the open or next dump, from 1 */
    bool open;
    struct hw_check_pos open_at;
    struct hw_map64 heap_by_key, site_by_key;
    HW_VEC(struct heap) heaps;
    HW_VEC(struct site) sites;
    HW_VEC(size_t) in_dump;           /* heaps of the open dump */
    struct hw_check_interned *legacy; /* owned; of the open dump; NULL = it has none */
};

/* The fields other than the samples. */
struct head {
    uint64_t pid, ts, start_ts, interval, heap_samples, lost;
    bool has_ts, has_start, rejected;
    const char *loss; /* NULL = it is complete */
    struct hw_bytes heap;
};

void hw_check_dumps_free(struct hw_check_dumps *d)
{
    if (!d)
        return;
    hw_map64_done(&d->heap_by_key);
    hw_map64_done(&d->site_by_key);
    hw_vec_done(&d->heaps);
    hw_vec_done(&d->sites);
    hw_vec_done(&d->in_dump);
    hw_check_interned_free(d->legacy);
    free(d);
}

static struct hw_check_dumps *dumps_of(struct hw_check_sequence *s)
{
    if (!s->dumps) {
        s->dumps = calloc(1, sizeof *s->dumps);
        if (s->dumps)
            s->dumps->dump = 1;
    }
    return s->dumps;
}

/* ---- heads ---- */

static uint64_t heap_samples_of(struct hw_bytes stats)
{
    struct hw_pb_reader r = hw_pb_read(stats);
    struct hw_pb_field f;
    uint64_t n = 0;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProfilePacket_ProcessStats_heap_samples)
            n = f.value;
    return n;
}

static void read_loss(struct head *h, const struct hw_pb_field *f)
{
    if (f->wire != HW_PB_VARINT || f->value == 0)
        return;
    switch (f->number) {
    case F_PROCESS(rejected_concurrent):
        h->rejected = true;
        break;
    case F_PROCESS(buffer_overran):
        h->loss = "its buffer overran";
        break;
    case F_PROCESS(buffer_corrupted):
        h->loss = "its buffer was damaged";
        break;
    case F_PROCESS(hit_guardrail):
        h->loss = "the profiler stopped itself";
        break;
    case F_PROCESS(client_error):
        h->loss = "the client failed";
        break;
    case F_PROCESS(lost_samples):
        h->loss = "samples were lost";
        break;
    default:
        break;
    }
}

static struct head read_head(struct hw_bytes dump)
{
    struct hw_pb_reader r = hw_pb_read(dump);
    struct hw_pb_field f;
    struct head h = {0};
    while (hw_pb_next(&r, &f) == 1)
        switch (f.number) {
        case F_PROCESS(samples):
            break;
        case F_PROCESS(pid):
            h.pid = f.value;
            break;
        case F_PROCESS(timestamp):
            h.ts = f.value;
            h.has_ts = true;
            break;
        case F_PROCESS(start_timestamp):
            h.start_ts = f.value;
            h.has_start = true;
            break;
        case F_PROCESS(heap_name):
            h.heap = f.bytes;
            break;
        case F_PROCESS(sampling_interval_bytes):
            h.interval = f.value;
            break;
        case F_PROCESS(stats):
            h.heap_samples = heap_samples_of(f.bytes);
            break;
        default:
            read_loss(&h, &f);
        }
    return h;
}

static int heap_get(struct hw_check_dumps *d, const struct head *h, size_t *out)
{
    uint64_t hash = hw_hash_bytes(h->heap.p, h->heap.n), *at;
    bool fresh;
    if (hw_map64_at(&d->heap_by_key, hw_hash_mix(h->pid, hash), &at, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        struct heap heap = {.pid = h->pid, .hash = hash};
        int n = h->heap.n < MAX_NAME ? (int)h->heap.n : MAX_NAME;
        (void)snprintf(heap.name, sizeof heap.name, "%.*s", n,
                       h->heap.n ? (const char *)h->heap.p : "");
        *at = d->heaps.n;
        if (hw_vec_push(&d->heaps, heap) < 0)
            return HW_ENOMEM;
    }
    *out = (size_t)*at;
    struct heap *known = &d->heaps.v[*at];
    if (known->dump != d->dump && hw_vec_push(&d->in_dump, *out) < 0)
        return HW_ENOMEM;
    known->dump = d->dump;
    return HW_OK;
}

static int check_head(struct hw_checker *c, struct heap *heap, const struct head *h)
{
    unsigned long long pid = h->pid;
    if (h->has_ts && heap->has_ts && h->ts < heap->last_ts)
        hw_check_found(c, HW_CHECK_DUMP_TIME_BACK, "heap '%s' of pid %llu at %llu, %llu before",
                       heap->name, pid, (unsigned long long)h->ts,
                       (unsigned long long)heap->last_ts);
    if (h->has_ts && h->has_start && h->start_ts > h->ts)
        hw_check_found(c, HW_CHECK_DUMP_WINDOW, "heap '%s' of pid %llu from %llu to %llu",
                       heap->name, pid, (unsigned long long)h->start_ts, (unsigned long long)h->ts);
    if (h->interval == 0 && !heap->reported_interval)
        hw_check_found(c, HW_CHECK_INTERVAL_MISSING, "heap '%s' of pid %llu", heap->name, pid);
    if (h->loss && !heap->reported_loss)
        hw_check_found(c, HW_CHECK_DUMP_LOSS, "heap '%s' of pid %llu: %s", heap->name, pid,
                       h->loss);
    heap->reported_interval |= h->interval == 0;
    heap->reported_loss |= h->loss != NULL;
    if (h->has_ts) {
        heap->has_ts = true;
        heap->last_ts = h->ts;
    }
    heap->stats_count = h->heap_samples;
    heap->at = c->at;
    return h->has_ts ? hw_check_dump_clock(c) : HW_OK;
}

/* ---- samples ---- */

static void check_decrease(struct hw_checker *c, const struct heap *h,
                           const struct hw_check_sample *s, const char *what, uint64_t now,
                           uint64_t before)
{
    if (now < before)
        hw_check_found(c, HW_CHECK_SAMPLE_BACK,
                       "callstack %llu of heap '%s' of pid %llu: %llu %s, %llu before",
                       (unsigned long long)s->callstack, h->name, (unsigned long long)h->pid,
                       (unsigned long long)now, what, (unsigned long long)before);
}

static int site_get(struct hw_checker *c, struct hw_check_dumps *d, size_t heap, uint64_t callstack,
                    struct site **out)
{
    uint64_t *at;
    bool fresh;
    if (hw_map64_at(&d->site_by_key, hw_hash_mix(heap, callstack), &at, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        *at = d->sites.n;
        if (hw_vec_push(&d->sites,
                        (struct site){.heap = heap, .callstack = callstack, .at = c->at}) < 0)
            return HW_ENOMEM;
    }
    *out = &d->sites.v[*at];
    return HW_OK;
}

/* Compares a sample with the callstack's previous one. */
static void check_change(struct hw_checker *c, struct hw_check_dumps *d, struct heap *h,
                         struct site *before, const struct hw_check_sample *s)
{
    if (before->dump == d->dump)
        hw_check_found(c, HW_CHECK_SAMPLE_TWICE, "callstack %llu of heap '%s' of pid %llu",
                       (unsigned long long)s->callstack, h->name, (unsigned long long)h->pid);
    before->dump = d->dump;
    if (s->has_max)
        return;
    check_decrease(c, h, s, "bytes allocated", s->allocated, before->allocated);
    check_decrease(c, h, s, "bytes freed", s->freed, before->freed);
    check_decrease(c, h, s, "allocations", s->allocs, before->allocs);
    check_decrease(c, h, s, "frees", s->frees, before->frees);
    check_decrease(c, h, s, "bytes freed within a second", s->temporary, before->temporary);
    h->sum_count += s->allocs;
    before->allocated = s->allocated;
    before->freed = s->freed;
    before->allocs = s->allocs;
    before->frees = s->frees;
    before->temporary = s->temporary;
}

static int check_sample(struct hw_checker *c, struct hw_check_sequence *q, size_t heap,
                        struct hw_bytes message)
{
    struct hw_check_dumps *d = q->dumps;
    struct hw_check_sample s = hw_check_sample_read(message);
    struct heap *h = &d->heaps.v[heap];
    struct site *site = NULL;
    if (s.callstack == 0) {
        hw_check_found(c, HW_CHECK_IID_ZERO,
                       "a sample of heap '%s' of pid %llu has the callstack 0", h->name,
                       (unsigned long long)h->pid);
        return HW_OK;
    }
    if (!d->legacy && !q->interned) { /* its tables may be in later packets */
        d->legacy = calloc(1, sizeof *d->legacy);
        if (!d->legacy)
            return HW_ENOMEM;
    }
    int rc = d->legacy ? hw_check_refer(c, &d->legacy->kinds[HW_CHECK_KIND_CALLSTACK], s.callstack)
                       : hw_check_refer_interned(c, q, HW_CHECK_KIND_CALLSTACK, s.callstack);
    if (rc == HW_OK)
        rc = site_get(c, d, heap, s.callstack, &site);
    if (rc < 0)
        return rc;
    hw_check_sample_values(c, h->name, h->pid, &s);
    check_change(c, d, h, site, &s);
    return HW_OK;
}

static int check_dump(struct hw_checker *c, struct hw_check_sequence *q, struct hw_bytes dump)
{
    struct hw_pb_reader r = hw_pb_read(dump);
    struct hw_pb_field f;
    struct head h = read_head(dump);
    size_t heap;
    if (h.rejected)
        return HW_OK;
    int rc = heap_get(q->dumps, &h, &heap);
    if (rc == HW_OK)
        rc = check_head(c, &q->dumps->heaps.v[heap], &h);
    if (rc == HW_OK)
        rc = hw_check_pid_used(c, (int64_t)h.pid);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == F_PROCESS(samples) && f.wire == HW_PB_BYTES)
            rc = check_sample(c, q, heap, f.bytes);
    return rc;
}

/* ---- tables in the packet ---- */

/* These strings may be of any kind. */
static int add_string(struct hw_checker *c, struct hw_check_interned *in, struct hw_bytes message)
{
    static const enum hw_check_kind strings[] = {HW_CHECK_KIND_FUNCTION_NAME,
                                                 HW_CHECK_KIND_BUILD_ID, HW_CHECK_KIND_MAPPING_PATH,
                                                 HW_CHECK_KIND_SOURCE_PATH};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(strings); i++)
        rc = hw_check_intern_entry(c, in, strings[i], message);
    return rc;
}

static int add_table(struct hw_checker *c, struct hw_check_dumps *d, const struct hw_pb_field *f)
{
    if (!d->legacy && !(d->legacy = calloc(1, sizeof *d->legacy)))
        return HW_ENOMEM;
    switch (f->number) {
    case HW_F_ProfilePacket_strings:
        return add_string(c, d->legacy, f->bytes);
    case HW_F_ProfilePacket_frames:
        return hw_check_intern_entry(c, d->legacy, HW_CHECK_KIND_FRAME, f->bytes);
    case HW_F_ProfilePacket_callstacks:
        return hw_check_intern_entry(c, d->legacy, HW_CHECK_KIND_CALLSTACK, f->bytes);
    default:
        return hw_check_intern_entry(c, d->legacy, HW_CHECK_KIND_MAPPING, f->bytes);
    }
}

/* Ids that the packets do not define may be defined in interned_data. */
static int resolve_undefined(struct hw_checker *c, struct hw_check_sequence *s)
{
    struct hw_check_pos here = c->at;
    int rc = HW_OK;
    for (int k = 0; k < HW_CHECK_KIND_COUNT; k++) {
        const struct hw_check_table *t = &s->dumps->legacy->kinds[k];
        for (size_t i = 0; rc == HW_OK && i < t->v.n; i++) {
            c->at = t->v.v[i].at;
            if (t->v.v[i].defined)
                continue;
            if (s->interned)
                rc = hw_check_refer_interned(c, s, (enum hw_check_kind)k, t->v.v[i].id);
            else
                hw_check_found(c, HW_CHECK_IID_UNDEFINED, "%s %llu is never defined in its dump",
                               hw_check_kind_name((enum hw_check_kind)k),
                               (unsigned long long)t->v.v[i].id);
        }
    }
    c->at = here;
    return rc;
}

/* ---- ends ---- */

/* Finds callstacks of a heap that have the same frames for other readers. */
static int check_callstacks_differ(struct hw_checker *c, struct hw_check_dumps *d,
                                   struct hw_check_interned *in)
{
    struct hw_map64 seen = {0};
    int rc = HW_OK;
    for (size_t i = 0; in && rc == HW_OK && i < d->sites.n; i++) {
        const struct site *s = &d->sites.v[i];
        uint64_t identity = hw_check_callstack_identity(in, s->callstack), *first;
        bool fresh;
        if (identity == 0)
            continue;
        rc = hw_map64_at(&seen, hw_hash_mix(s->heap, identity), &first, &fresh);
        if (rc == HW_OK && fresh)
            *first = s->callstack;
        else if (rc == HW_OK)
            hw_check_found_at(c, HW_CHECK_CALLSITE_TWICE, s->at,
                              "callstacks %llu and %llu of heap '%s' of pid %llu differ in nothing "
                              "that readers tell frames by",
                              (unsigned long long)*first, (unsigned long long)s->callstack,
                              d->heaps.v[s->heap].name,
                              (unsigned long long)d->heaps.v[s->heap].pid);
    }
    hw_map64_done(&seen);
    return rc;
}

static void drop_sites(struct hw_check_dumps *d)
{
    hw_map64_done(&d->site_by_key);
    hw_vec_clear(&d->sites);
}

/* Of this dump only: the pid may be reused later by another program, whose count starts at 0. */
static void check_totals(struct hw_checker *c, struct hw_check_dumps *d)
{
    for (size_t i = 0; i < d->in_dump.n; i++) {
        struct heap *h = &d->heaps.v[d->in_dump.v[i]];
        uint64_t sum = h->sum_count;
        h->sum_count = 0;
        if (h->stats_count == 0 || sum <= h->stats_count || h->reported_total)
            continue;
        h->reported_total = true;
        hw_check_found_at(c, HW_CHECK_SAMPLES_OVER_TOTAL, h->at,
                          "heap '%s' of pid %llu: %llu allocations in the samples, %llu were "
                          "sampled",
                          h->name, (unsigned long long)h->pid, (unsigned long long)sum,
                          (unsigned long long)h->stats_count);
    }
}

static int end_dump(struct hw_checker *c, struct hw_check_sequence *s)
{
    struct hw_check_dumps *d = s->dumps;
    int rc = HW_OK;
    check_totals(c, d);
    hw_vec_clear(&d->in_dump);
    d->open = false;
    d->dump++;
    if (d->legacy) {
        rc = resolve_undefined(c, s);
        if (rc == HW_OK)
            rc = check_callstacks_differ(c, d, d->legacy);
        drop_sites(d);
        hw_check_interned_free(d->legacy);
        d->legacy = NULL;
    }
    return rc;
}

int hw_check_dumps_generation_end(struct hw_checker *c, struct hw_check_sequence *s)
{
    if (!s->dumps || s->dumps->legacy)
        return HW_OK;
    int rc = check_callstacks_differ(c, s->dumps, s->interned);
    drop_sites(s->dumps);
    return rc;
}

void hw_check_dumps_end(struct hw_checker *c, struct hw_check_sequence *s)
{
    const struct hw_check_dumps *d = s->dumps;
    if (d && d->open)
        hw_check_found_at(c, HW_CHECK_DUMP_UNFINISHED, d->open_at,
                          "the dump that begins here on sequence %u never ends", (uint32_t)s->id);
}

/* ---- a packet ---- */

struct profile {
    uint64_t index;
    bool continued, is_rejection, has_index;
};

static struct profile read_profile(struct hw_bytes packet)
{
    struct hw_pb_reader r = hw_pb_read(packet);
    struct hw_pb_field f;
    struct profile out = {0};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ProfilePacket_index) {
            out.index = f.value;
            out.has_index = true;
        } else if (f.number == HW_F_ProfilePacket_continued) {
            out.continued = f.value != 0;
        } else if (f.number == HW_F_ProfilePacket_process_dumps && f.wire == HW_PB_BYTES) {
            out.is_rejection |= read_head(f.bytes).rejected;
        }
    }
    return out;
}

static void check_index(struct hw_checker *c, const struct hw_check_sequence *s,
                        const struct profile *p)
{
    struct hw_check_dumps *d = s->dumps;
    if (p->is_rejection && !p->has_index)
        return; /* it is not counted */
    if (p->index != d->next_index)
        hw_check_found(c, HW_CHECK_DUMP_INDEX, "index %llu on sequence %u, %llu is next",
                       (unsigned long long)p->index, (uint32_t)s->id,
                       (unsigned long long)d->next_index);
    d->next_index = p->index + 1;
}

int hw_check_profile_packet(struct hw_checker *c, struct hw_check_sequence *s,
                            const struct hw_packet *p)
{
    struct hw_pb_reader r = hw_pb_read(p->data);
    struct hw_pb_field f;
    struct profile profile = read_profile(p->data);
    if (!dumps_of(s))
        return HW_ENOMEM;
    int rc = HW_OK;
    check_index(c, s, &profile);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.wire == HW_PB_BYTES && f.number >= HW_F_ProfilePacket_strings &&
            f.number <= HW_F_ProfilePacket_mappings)
            rc = add_table(c, s->dumps, &f);
    r = hw_pb_read(p->data);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.wire == HW_PB_BYTES && f.number == HW_F_ProfilePacket_process_dumps)
            rc = check_dump(c, s, f.bytes);
    if (rc < 0 || profile.is_rejection)
        return rc;
    if (!profile.continued)
        return end_dump(c, s);
    if (!s->dumps->open)
        s->dumps->open_at = c->at;
    s->dumps->open = true;
    return HW_OK;
}
