/*
 * Two buffers grow side by side while samples come in: the ProfilePacket being filled, and the
 * interned data that its callstacks need for the first time on this sequence. Either is written
 * out when it passes SPLIT_BYTES; readers take interned data from anywhere in the generation.
 *
 *     packet  {profile_packet {index 7, continued, process_dumps {head, samples…}}}
 *     packet  {profile_packet {index 8, continued, process_dumps {head, samples…}}}
 *     packet  {interned_data {strings, mappings, frames, callstacks}}
 *     packet  {profile_packet {index 9}}                               ends the dump
 *
 * Strings are numbered over the whole sequence: their iid is their id in `strings`, so that iid 0
 * is "" as readers expect, and bit k of sent[id] says that it went out as a string of kind k.
 * Mappings, frames and callstacks get iids from 1 when first used; each source (one target's
 * callsites) keeps the vector id -> iid.
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
#include "trace/writer.h"

#include "base/banned.h"

enum { SPLIT_BYTES = 400000 };

#define F_SAMPLE(name)  HW_F_ProfilePacket_HeapSample_##name
#define F_PROCESS(name) HW_F_ProfilePacket_ProcessHeapSamples_##name

enum string_kind { BUILD_ID, MAPPING_PATH, FUNCTION_NAME, SOURCE_PATH, STRING_KIND_COUNT };

static const uint32_t string_field[STRING_KIND_COUNT] = {
    [BUILD_ID] = HW_F_InternedData_build_ids,
    [MAPPING_PATH] = HW_F_InternedData_mapping_paths,
    [FUNCTION_NAME] = HW_F_InternedData_function_names,
    [SOURCE_PATH] = HW_F_InternedData_source_paths,
};

/* What one heap's callsites looked like when last written: a hash of the four values. */
struct heap_state {
    char *name; /* owned */
    struct hw_map64 last;
};

struct iids {
    uint64_t *v;
    size_t n, cap;
};

/* One target's callsites. Vectors by id of that target's tables; 0 = not sent yet. */
struct source {
    struct iids mappings, frames, sites;
    HW_VEC(struct heap_state) heaps;
};

struct hw_profile_writer {
    struct hw_trace_writer *trace; /* borrowed */
    uint32_t sequence;
    uint64_t next_index;
    struct hw_strings *strings;
    HW_VEC(uint8_t) sent;
    uint64_t last_mapping, last_frame, last_site; /* iids given so far */
    struct hw_map64 sources;                      /* cs_key -> struct source *, owned */

    /* The dump being written. */
    const struct hw_callsites *cs; /* borrowed */
    struct source *source;
    size_t heap; /* in source->heaps */
    bool full;   /* list unchanged callstacks too */
    bool at_max; /* samples carry max values */
    bool all_variances;
    uint64_t timestamp_boottime_ns;
    struct hw_strbuf head; /* the fields of ProcessHeapSamples, repeated in every packet */
    struct hw_pb samples;  /* ProcessHeapSamples */
    struct hw_pb interned; /* InternedData */
    HW_VEC(hw_frame_id) path;
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
    hw_vec_done(&s->mappings);
    hw_vec_done(&s->frames);
    hw_vec_done(&s->sites);
    free(s);
}

/* "" is iid 0 of every kind, so that a frame without a name resolves. */
static int send_empty_strings(struct hw_profile_writer *p)
{
    for (int k = 0; k < STRING_KIND_COUNT; k++) {
        hw_pb_begin(&p->interned, string_field[k]);
        hw_pb_uint(&p->interned, HW_F_InternedString_iid, 0);
        hw_pb_bytes(&p->interned, HW_F_InternedString_str, "", 0);
        hw_pb_end(&p->interned);
    }
    return hw_vec_push(&p->sent, (uint8_t)((1 << STRING_KIND_COUNT) - 1)) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_profile_writer_new(struct hw_trace_writer *w, struct hw_profile_writer **out)
{
    struct hw_profile_writer *p = calloc(1, sizeof *p);
    if (!p)
        return HW_ENOMEM;
    p->trace = w;
    p->sequence = hw_trace_writer_sequence(w);
    int rc = hw_strings_new(&p->strings);
    if (rc == HW_OK)
        rc = send_empty_strings(p);
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
    hw_strings_free(p->strings);
    hw_vec_done(&p->sent);
    hw_vec_done(&p->path);
    hw_strbuf_done(&p->head);
    hw_pb_done(&p->samples);
    hw_pb_done(&p->interned);
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
    struct hw_bytes b = hw_pb_view(&p->interned);
    if (hw_pb_failed(&p->interned))
        return hw_fail(err, HW_ENOMEM, 0, "interned data");
    if (!b.n)
        return HW_OK;
    struct hw_pb *pb = hw_trace_begin(p->trace, p->sequence, p->timestamp_boottime_ns);
    hw_pb_bytes(pb, HW_F_TracePacket_interned_data, b.p, b.n);
    int rc = hw_trace_end(p->trace, err);
    hw_pb_clear(&p->interned);
    return rc;
}

/* The samples so far, with the head before them; none: the packet that ends a dump. */
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

/* ---- interning ---- */

static int string_iid(struct hw_profile_writer *p, hw_str_id id, enum string_kind kind,
                      uint64_t *out)
{
    /* The table of the target is only read: const cast away for the accessor's sake. */
    const struct hw_strings *from = hw_callsites_strings((struct hw_callsites *)(uintptr_t)p->cs);
    struct hw_bytes text = hw_strings_get(from, id);
    hw_str_id mine;
    int rc = hw_strings_intern(p->strings, text, &mine);
    if (rc < 0)
        return rc;
    while (p->sent.n <= mine.v)
        if (hw_vec_push(&p->sent, 0) < 0)
            return HW_ENOMEM;
    *out = mine.v;
    if (p->sent.v[mine.v] & 1u << kind)
        return HW_OK;
    hw_pb_begin(&p->interned, string_field[kind]);
    hw_pb_uint(&p->interned, HW_F_InternedString_iid, mine.v);
    hw_pb_bytes(&p->interned, HW_F_InternedString_str, text.p, text.n);
    hw_pb_end(&p->interned);
    p->sent.v[mine.v] = (uint8_t)(p->sent.v[mine.v] | 1u << kind);
    return HW_OK;
}

static int slot_of(struct iids *v, size_t id, uint64_t **out)
{
    while (v->n <= id)
        if (hw_vec_push(v, 0) < 0)
            return HW_ENOMEM;
    *out = &v->v[id];
    return HW_OK;
}

static int mapping_iid(struct hw_profile_writer *p, hw_mapping_id id, uint64_t *out)
{
    uint64_t *slot, build_id = 0, path = 0;
    if (id.v == HW_ID_NONE) {
        *out = 0;
        return HW_OK;
    }
    int rc = slot_of(&p->source->mappings, id.v, &slot);
    if (rc < 0 || (*out = *slot))
        return rc;
    const struct hw_mapping *m = hw_callsites_get_mapping(p->cs, id);
    rc = string_iid(p, m->build_id, BUILD_ID, &build_id);
    if (rc == HW_OK)
        rc = string_iid(p, m->path, MAPPING_PATH, &path);
    if (rc < 0)
        return rc;
    struct hw_pb *pb = &p->interned;
    *out = *slot = ++p->last_mapping;
    hw_pb_begin(pb, HW_F_InternedData_mappings);
    hw_pb_uint(pb, HW_F_Mapping_iid, *out);
    hw_pb_uint(pb, HW_F_Mapping_build_id, build_id);
    hw_pb_uint(pb, HW_F_Mapping_exact_offset, m->exact_offset);
    hw_pb_uint(pb, HW_F_Mapping_start_offset, m->start_offset);
    hw_pb_uint(pb, HW_F_Mapping_start, m->start);
    hw_pb_uint(pb, HW_F_Mapping_end, m->end);
    hw_pb_uint(pb, HW_F_Mapping_load_bias, m->load_bias);
    hw_pb_uint(pb, HW_F_Mapping_path_string_ids, path);
    hw_pb_end(pb);
    return HW_OK;
}

static int frame_iid(struct hw_profile_writer *p, hw_frame_id id, uint64_t *out)
{
    uint64_t *slot, name = 0, mapping = 0, path = 0;
    int rc = slot_of(&p->source->frames, id.v, &slot);
    if (rc < 0 || (*out = *slot))
        return rc;
    const struct hw_frame *f = hw_callsites_get_frame(p->cs, id);
    rc = string_iid(p, f->name, FUNCTION_NAME, &name);
    if (rc == HW_OK)
        rc = mapping_iid(p, f->mapping, &mapping);
    if (rc == HW_OK && f->file.v)
        rc = string_iid(p, f->file, SOURCE_PATH, &path);
    if (rc < 0)
        return rc;
    struct hw_pb *pb = &p->interned;
    *out = *slot = ++p->last_frame;
    hw_pb_begin(pb, HW_F_InternedData_frames);
    hw_pb_uint(pb, HW_F_Frame_iid, *out);
    hw_pb_uint(pb, HW_F_Frame_function_name_id, name);
    hw_pb_uint(pb, HW_F_Frame_mapping_id, mapping);
    hw_pb_uint(pb, HW_F_Frame_rel_pc, f->rel_pc);
    if (path)
        hw_pb_uint(pb, HW_F_Frame_source_path_iid, path);
    if (f->line)
        hw_pb_uint(pb, HW_F_Frame_line_number, f->line);
    hw_pb_end(pb);
    return HW_OK;
}

static int site_iid(struct hw_profile_writer *p, hw_callsite_id id, uint64_t *out)
{
    uint64_t *slot, iid;
    int rc = slot_of(&p->source->sites, id.v, &slot);
    if (rc < 0 || (*out = *slot))
        return rc;
    size_t depth = (size_t)hw_callsites_get(p->cs, id)->depth + 1;
    if (hw_vec_reserve(&p->path, depth) < 0)
        return HW_ENOMEM;
    (void)hw_callsites_path(p->cs, id, p->path.v, depth); /* depth is its full length */
    for (size_t i = 0; i < depth; i++) {
        rc = frame_iid(p, p->path.v[i], &iid);
        if (rc < 0)
            return rc;
    }
    struct hw_pb *pb = &p->interned;
    *out = *slot = ++p->last_site;
    hw_pb_begin(pb, HW_F_InternedData_callstacks);
    hw_pb_uint(pb, HW_F_Callstack_iid, *out);
    for (size_t i = 0; i < depth; i++)
        hw_pb_uint(pb, HW_F_Callstack_frame_ids, p->source->frames.v[p->path.v[i].v]);
    hw_pb_end(pb);
    return HW_OK;
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

/* True when the callsite has to be listed; remembers what is written now. */
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

/* Most of what is rare was never freed: then two of them say nothing new. */
static void put_variances(struct hw_pb *pb, const struct hw_dump_sample *s)
{
    put_variance(pb, F_SAMPLE(variance_objects), s->variance_objects);
    if (s->variance_alloc_space > s->variance_bytes)
        put_variance(pb, F_SAMPLE(variance_alloc_space), s->variance_alloc_space);
    if (s->variance_alloc_objects > s->variance_objects)
        put_variance(pb, F_SAMPLE(variance_alloc_objects), s->variance_alloc_objects);
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
        rc = site_iid(p, s->callsite, &iid);
    if (rc < 0)
        return hw_fail(err, rc, 0, "heap sample:");
    if (!listed)
        return HW_OK;
    put_sample(p, &p->samples, s, iid);
    if (p->interned.buf.n > SPLIT_BYTES)
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
    hw_pb_uint(pb, F_PROCESS(rejected_concurrent), 1); /* what other readers know for "not had" */
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
    int rc = site_iid(p, link->callsite, &iid);
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
    enum { IN_A_PACKET = 8192 };
    int rc = source_get(p, cs_key, &p->source);
    size_t at = 0;
    p->cs = cs;
    p->timestamp_boottime_ns = graph_boottime_ns;
    do {
        struct hw_pb *pb = hw_trace_begin(p->trace, p->sequence, graph_boottime_ns);
        hw_pb_begin(pb, HW_F_TracePacket_managed_links);
        hw_pb_uint(pb, HW_F_ManagedLinks_pid, pid);
        for (size_t i = 0; rc == HW_OK && i < IN_A_PACKET && at < n; i++)
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
