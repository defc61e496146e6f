/*
 * Two buffers grow side by side while samples come in: the ProfilePacket being filled, and the
 * interned data that its callstacks need for the first time on this sequence. Either is written
 * out when it passes SPLIT_BYTES; readers take interned data from anywhere in the generation.
 *
 *     packet  {profile_packet {index 7, continued, process_dumps {head, samples…}}}
 *     packet  {profile_packet {index 8, continued, process_dumps {head, samples…}}}
 *     packet  {interned_data {strings, mappings, frames, callstacks}}
 *     packet  {profile_packet {index 9}}                               ends the dump
 */
#include "trace/profile_writer.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/profile_tables.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { SPLIT_BYTES = 400000 };

#define F_SAMPLE(name)  HW_F_ProfilePacket_HeapSample_##name
#define F_PROCESS(name) HW_F_ProfilePacket_ProcessHeapSamples_##name

/* The values of a heap's callsites when last written: a hash of the four of each. */
struct heap_state {
    char *name; /* owned */
    struct hw_map64 last;
};

struct source {
    struct hw_profile_iids iids;
    HW_VEC(struct heap_state) heaps;
};

struct hw_profile_writer {
    struct hw_trace_writer *trace; /* borrowed */
    uint32_t sequence;
    uint64_t next_index;
    struct hw_profile_tables tables;
    struct hw_map64 sources; /* cs_key -> struct source *, owned */

    /* The dump being written. */
    const struct hw_callsites *cs; /* borrowed */
    struct source *source;
    size_t heap; /* in source->heaps */
    bool full;   /* list unchanged callstacks too */
    bool at_max; /* samples carry max values */
    bool all_variances, has_temporary;
    uint64_t timestamp_boottime_ns;
    struct hw_strbuf head; /* the fields of ProcessHeapSamples, repeated in every packet */
    struct hw_pb samples;  /* ProcessHeapSamples */
};

static void source_free(struct source *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->heaps.n; i++) {
        free(s->heaps.v[i].name);
        hw_map64_done(&s->heaps.v[i].last);
    }
    hw_vec_done(&s->heaps);
    hw_profile_iids_done(&s->iids);
    free(s);
}

int hw_profile_writer_new(struct hw_trace_writer *w, struct hw_profile_writer **out)
{
    struct hw_profile_writer *p = calloc(1, sizeof *p);
    if (!p)
        return HW_ENOMEM;
    p->trace = w;
    p->sequence = hw_trace_writer_sequence(w);
    int rc = hw_profile_tables_init(&p->tables);
    if (rc < 0) {
        hw_profile_writer_free(p);
        return rc;
    }
    *out = p;
    return HW_OK;
}

void hw_profile_writer_free(struct hw_profile_writer *p)
{
    if (!p)
        return;
    for (size_t i = 0; p->sources.slots && i <= p->sources.mask; i++)
        if (p->sources.slots[i].key != HW_MAP64_NO_KEY)
            source_free((struct source *)(uintptr_t)p->sources.slots[i].value);
    hw_map64_done(&p->sources);
    hw_strbuf_done(&p->head);
    hw_pb_done(&p->samples);
    hw_profile_tables_done(&p->tables);
    free(p);
}

void hw_profile_forget(struct hw_profile_writer *p, uint64_t cs_key)
{
    uint64_t s;
    if (hw_map64_take(&p->sources, cs_key, &s))
        source_free((struct source *)(uintptr_t)s);
}

static int source_get(struct hw_profile_writer *p, uint64_t cs_key, struct source **out)
{
    uint64_t found;
    if (hw_map64_get(&p->sources, cs_key, &found)) {
        *out = (struct source *)(uintptr_t)found;
        return HW_OK;
    }
    struct source *s = calloc(1, sizeof *s);
    if (!s || hw_map64_put(&p->sources, cs_key, (uint64_t)(uintptr_t)s) < 0) {
        free(s);
        return HW_ENOMEM;
    }
    *out = s;
    return HW_OK;
}

static int heap_get(struct source *s, const char *name, size_t *out)
{
    for (size_t i = 0; i < s->heaps.n; i++)
        if (strcmp(s->heaps.v[i].name, name) == 0) {
            *out = i;
            return HW_OK;
        }
    char *copy = strdup(name);
    if (!copy || hw_vec_push(&s->heaps, (struct heap_state){copy, {0}}) < 0) {
        free(copy);
        return HW_ENOMEM;
    }
    *out = s->heaps.n - 1;
    return HW_OK;
}

/* ---- packets ---- */

static int flush_interned(struct hw_profile_writer *p, struct hw_error *err)
{
    struct hw_bytes b = hw_pb_view(&p->tables.interned);
    if (hw_pb_failed(&p->tables.interned))
        return hw_fail(err, HW_ENOMEM, 0, "interned data");
    if (!b.n)
        return HW_OK;
    struct hw_pb *pb = hw_trace_begin(p->trace, p->sequence, p->timestamp_boottime_ns);
    hw_pb_bytes(pb, HW_F_TracePacket_interned_data, b.p, b.n);
    int rc = hw_trace_end(p->trace, err);
    hw_pb_clear(&p->tables.interned);
    return rc;
}

/* Writes the samples so far, after the head; last: the packet that ends a dump, without samples. */
static int flush_samples(struct hw_profile_writer *p, bool last, struct hw_error *err)
{
    struct hw_bytes b = hw_pb_view(&p->samples);
    if (hw_pb_failed(&p->samples))
        return hw_fail(err, HW_ENOMEM, 0, "heap samples");
    struct hw_pb *pb = hw_trace_begin(p->trace, p->sequence, p->timestamp_boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_profile_packet);
    if (!last) {
        hw_pb_bytes(pb, HW_F_ProfilePacket_process_dumps, b.p, b.n);
        hw_pb_uint(pb, HW_F_ProfilePacket_continued, 1);
    }
    hw_pb_uint(pb, HW_F_ProfilePacket_index, p->next_index++);
    hw_pb_end(pb);
    hw_pb_clear(&p->samples);
    hw_strbuf_add(&p->samples.buf, p->head.p, p->head.n);
    return hw_trace_end(p->trace, err);
}

/* ---- a dump ---- */

int hw_profile_begin(struct hw_profile_writer *p, const struct hw_dump_head *head,
                     const struct hw_callsites *cs, uint64_t cs_key, struct hw_error *err)
{
    int rc = source_get(p, cs_key, &p->source);
    if (rc == HW_OK)
        rc = heap_get(p->source, head->heap_name, &p->heap);
    if (rc < 0)
        return hw_fail(err, rc, 0, "heap dump of pid %llu:", (unsigned long long)head->pid);
    p->cs = cs;
    p->at_max = head->at_max;
    p->all_variances = head->all_variances;
    p->has_temporary = head->has_temporary;
    p->full = head->list_all || head->at_max;
    p->timestamp_boottime_ns = hw_now_boottime_ns();
    hw_pb_clear(&p->samples);
    hw_dump_head_put(&p->samples, head);
    hw_strbuf_clear(&p->head);
    hw_strbuf_add(&p->head, p->samples.buf.p, p->samples.buf.n);
    if (hw_pb_failed(&p->samples) || p->head.failed)
        return hw_fail(err, HW_ENOMEM, 0, "heap dump of pid %llu", (unsigned long long)head->pid);
    return HW_OK;
}

/* *out: the callsite must be listed. Stores the values as written. */
static int changed(struct hw_profile_writer *p, const struct hw_dump_sample *s, bool *out)
{
    struct hw_map64 *last = &p->source->heaps.v[p->heap].last;
    uint64_t h = hw_hash_mix(s->self_allocated, s->self_freed);
    h = hw_hash_mix(hw_hash_mix(h, s->alloc_count), s->free_count);
    uint64_t *seen = hw_map64_find(last, s->callsite.v);
    *out = !seen || *seen != h || s->has_idle;
    if (seen) {
        *seen = h;
        return HW_OK;
    }
    return hw_map64_put(last, s->callsite.v, h);
}

static uint64_t rounded(double v)
{
    return v > 0 && v < 1e18 ? (uint64_t)(v + 0.5) : 0;
}

static void put_variance(struct hw_pb *pb, uint32_t field, double v)
{
    if (v > 0 && v <= FLT_MAX)
        hw_pb_float(pb, field, (float)v);
}

/* The last two are written only if they exceed those of what is live: most rare allocations were
 * never freed. */
static void put_variances(struct hw_pb *pb, const struct hw_dump_sample *s)
{
    put_variance(pb, F_SAMPLE(variance_objects), s->variance_objects);
    if (s->variance_alloc_space > s->variance_bytes)
        put_variance(pb, F_SAMPLE(variance_alloc_space), s->variance_alloc_space);
    if (s->variance_alloc_objects > s->variance_objects)
        put_variance(pb, F_SAMPLE(variance_alloc_objects), s->variance_alloc_objects);
}

static void put_temporary(struct hw_pb *pb, const struct hw_dump_sample *s)
{
    if (s->temporary_space)
        hw_pb_uint(pb, F_SAMPLE(temporary_space), s->temporary_space);
    if (rounded(s->est_temporary_objects))
        hw_pb_uint(pb, F_SAMPLE(temporary_objects), rounded(s->est_temporary_objects));
    put_variance(pb, F_SAMPLE(variance_temporary_space), s->variance_temporary_space);
    put_variance(pb, F_SAMPLE(variance_temporary_objects), s->variance_temporary_objects);
}

static void put_sample(const struct hw_profile_writer *p, struct hw_pb *pb,
                       const struct hw_dump_sample *s, uint64_t iid)
{
    hw_pb_begin(pb, F_PROCESS(samples));
    hw_pb_uint(pb, F_SAMPLE(callstack_id), iid);
    if (p->at_max) {
        hw_pb_uint(pb, F_SAMPLE(self_max), s->self_max);
        hw_pb_uint(pb, F_SAMPLE(self_max_count), s->self_max_count);
        hw_pb_uint(pb, F_SAMPLE(est_max_count), rounded(s->est_max_count));
    } else {
        hw_pb_uint(pb, F_SAMPLE(self_allocated), s->self_allocated);
        hw_pb_uint(pb, F_SAMPLE(self_freed), s->self_freed);
        hw_pb_uint(pb, F_SAMPLE(alloc_count), s->alloc_count);
        hw_pb_uint(pb, F_SAMPLE(free_count), s->free_count);
        hw_pb_uint(pb, F_SAMPLE(est_alloc_count), rounded(s->est_alloc_count));
        hw_pb_uint(pb, F_SAMPLE(est_free_count), rounded(s->est_free_count));
    }
    if (s->has_idle)
        hw_pb_uint(pb, F_SAMPLE(self_idle), s->self_idle);
    if (s->variance_bytes > 0)
        hw_pb_double(pb, F_SAMPLE(variance_bytes), s->variance_bytes);
    if (p->all_variances)
        put_variances(pb, s);
    if (rounded(s->rounding))
        hw_pb_uint(pb, F_SAMPLE(rounding_bytes), rounded(s->rounding));
    put_variance(pb, F_SAMPLE(variance_rounding), s->variance_rounding);
    if (p->has_temporary)
        put_temporary(pb, s);
    hw_pb_end(pb);
}

int hw_profile_sample(struct hw_profile_writer *p, const struct hw_dump_sample *s,
                      struct hw_error *err)
{
    uint64_t iid = 0;
    bool listed = p->full;
    int rc = HW_OK;
    if (!p->at_max) {
        bool differs;
        rc = changed(p, s, &differs);
        listed = listed || differs;
    }
    if (rc == HW_OK && listed)
        rc = hw_profile_tables_site(&p->tables, &p->source->iids, p->cs, s->callsite, &iid);
    if (rc < 0)
        return hw_fail(err, rc, 0, "heap sample:");
    if (!listed)
        return HW_OK;
    put_sample(p, &p->samples, s, iid);
    if (p->tables.interned.buf.n > SPLIT_BYTES)
        rc = flush_interned(p, err);
    if (rc == HW_OK && p->samples.buf.n > SPLIT_BYTES)
        rc = flush_samples(p, /* last = */ false, err);
    return rc;
}

int hw_profile_cut(struct hw_profile_writer *p, bool is_checkpoint, struct hw_error *err)
{
    if (is_checkpoint)
        hw_pb_uint(&p->samples, F_PROCESS(checkpoint), 1);
    int rc = flush_samples(p, /* last = */ false, err);
    if (rc == HW_OK)
        rc = flush_interned(p, err);
    if (rc == HW_OK)
        rc = hw_trace_writer_flush(p->trace, err);
    p->cs = NULL;
    p->source = NULL;
    return rc;
}

int hw_profile_end(struct hw_profile_writer *p, struct hw_error *err)
{
    int rc = flush_samples(p, /* last = */ false, err);
    if (rc == HW_OK)
        rc = flush_interned(p, err);
    if (rc == HW_OK)
        rc = flush_samples(p, /* last = */ true, err);
    if (rc == HW_OK)
        rc = hw_trace_writer_flush(p->trace, err);
    p->cs = NULL;
    p->source = NULL;
    return rc;
}

int hw_profile_refused(struct hw_profile_writer *p, uint64_t pid, uint64_t interval_bytes,
                       const char *reason, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(p->trace, p->sequence, hw_now_boottime_ns());
    hw_pb_begin(pb, HW_F_TracePacket_profile_packet);
    hw_pb_begin(pb, HW_F_ProfilePacket_process_dumps);
    hw_pb_uint(pb, F_PROCESS(pid), pid);
    hw_pb_uint(pb, F_PROCESS(rejected_concurrent), 1); /* for other readers: not recorded */
    hw_pb_uint(pb, F_PROCESS(timestamp), hw_now_monotonic_coarse_ns());
    hw_pb_str(pb, F_PROCESS(heap_name), "libc.malloc");
    hw_pb_uint(pb, F_PROCESS(sampling_interval_bytes), interval_bytes);
    hw_pb_str(pb, F_PROCESS(lost_reason), reason);
    hw_pb_end(pb);
    if (p->cs)
        hw_pb_uint(pb, HW_F_ProfilePacket_continued, 1);
    hw_pb_end(pb);
    return hw_trace_end(p->trace, err);
}

int hw_profile_rejected(struct hw_profile_writer *p, uint64_t pid, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(p->trace, p->sequence, hw_now_boottime_ns());
    hw_pb_begin(pb, HW_F_TracePacket_profile_packet);
    hw_pb_begin(pb, HW_F_ProfilePacket_process_dumps);
    hw_pb_uint(pb, F_PROCESS(pid), pid);
    hw_pb_uint(pb, F_PROCESS(rejected_concurrent), 1);
    hw_pb_end(pb);
    if (p->cs)
        hw_pb_uint(pb, HW_F_ProfilePacket_continued, 1);
    hw_pb_end(pb);
    return hw_trace_end(p->trace, err);
}

/* ---- links to heap graphs ---- */

static int put_link(struct hw_profile_writer *p, struct hw_pb *pb, const struct hw_dump_link *link)
{
    uint64_t iid;
    int rc = hw_profile_tables_site(&p->tables, &p->source->iids, p->cs, link->callsite, &iid);
    if (rc < 0)
        return rc;
    hw_pb_begin(pb, HW_F_ManagedLinks_links);
    hw_pb_uint(pb, HW_F_ManagedLinks_Link_block, link->block);
    hw_pb_uint(pb, HW_F_ManagedLinks_Link_callstack_id, iid);
    hw_pb_uint(pb, HW_F_ManagedLinks_Link_alloc_size, link->alloc_size);
    hw_pb_uint(pb, HW_F_ManagedLinks_Link_sample_size, link->sample_size);
    hw_pb_end(pb);
    return HW_OK;
}

int hw_profile_links(struct hw_profile_writer *p, uint64_t pid, uint64_t graph_boottime_ns,
                     const struct hw_dump_link *links, size_t n, const struct hw_callsites *cs,
                     uint64_t cs_key, struct hw_error *err)
{
    enum { LINKS_PER_PACKET = 8192 };
    int rc = source_get(p, cs_key, &p->source);
    size_t at = 0;
    p->cs = cs;
    p->timestamp_boottime_ns = graph_boottime_ns;
    do {
        struct hw_pb *pb = hw_trace_begin(p->trace, p->sequence, graph_boottime_ns);
        hw_pb_begin(pb, HW_F_TracePacket_managed_links);
        hw_pb_uint(pb, HW_F_ManagedLinks_pid, pid);
        for (size_t i = 0; rc == HW_OK && i < LINKS_PER_PACKET && at < n; i++)
            rc = put_link(p, pb, &links[at++]);
        hw_pb_end(pb);
        int ended = hw_trace_end(p->trace, err);
        if (rc < 0)
            return hw_fail(err, rc, 0, "links of pid %llu:", (unsigned long long)pid);
        rc = ended;
    } while (rc == HW_OK && at < n);
    p->cs = NULL;
    return rc == HW_OK ? flush_interned(p, err) : rc;
}
