/*
 * All processes and dumps of a profile as one JSON trace of memory dumps.
 *
 * A global dump takes in what was dumped within a twentieth of a second, each heap once; global
 * dumps do not overlap in time. Each heap has an allocator root of its own name, without which the
 * viewer offers no way to it. Where the profile has a memory dump of that moment, its nodes are
 * told as they are; else the roots are made of what the profile knows: malloc's own figures, and
 * what the heaps hold.
 *
 * Frames without a name are told by their address, and their file as a mapping with build id,
 * where the profile says where the file was: symbolizers take it from there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/gzip.h"
#include "export/export.h"
#include "export/memory_infra_heaps.h"
#include "views/global_dumps.h"
#include "views/process.h"

#include "base/banned.h"

struct region {
    hw_upid upid;
    uint64_t start, end;
    hw_mapping_id mapping;
};

struct job {
    const struct hw_export_input *in;
    const struct hw_profile *p;
    bool v1;
    struct hw_json j;
    struct hw_series_list list;
    HW_VEC(struct hw_typed_sum) sums; /* by series */
    hw_global_items items;
    HW_VEC(struct region) regions;
    struct hw_infra_out *heaps;
    uint64_t guid_seed, n_dumps;
    struct hw_error *err;
    FILE *out;
    struct hw_gzip_writer *gzip;
};

static struct hw_bytes str(const struct job *w, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(w->p->callsites), id);
}

static int by_process(const void *pa, const void *pb)
{
    const struct hw_global_item *a = pa, *b = pb;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return a->dump < b->dump ? -1 : a->dump > b->dump;
}

/* ---- mappings ---- */

static int compare_regions(const void *pa, const void *pb)
{
    const struct region *a = pa, *b = pb;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->mapping.v < b->mapping.v ? -1 : a->mapping.v > b->mapping.v;
}

static int mark_callstack(struct job *w, struct hw_map64 *seen, hw_upid upid, hw_callsite_id c)
{
    const struct hw_callsites *cs = w->p->callsites;
    for (; c.v != HW_ID_NONE; c = hw_callsites_get(cs, c)->parent) {
        uint64_t *at;
        bool fresh;
        int rc = hw_map64_at(seen, (uint64_t)upid.v << 32 | c.v, &at, &fresh);
        if (rc < 0 || !fresh)
            return rc;
        hw_mapping_id m = hw_callsites_get_frame(cs, hw_callsites_get(cs, c)->frame)->mapping;
        if (m.v == HW_ID_NONE)
            continue;
        const struct hw_mapping *row = hw_callsites_get_mapping(cs, m);
        /* Once per mapping: callsite numbers have their top bit free. */
        rc = hw_map64_at(seen, (uint64_t)upid.v << 32 | 1u << 31 | m.v, &at, &fresh);
        if (rc == HW_OK && fresh && row->end > row->start &&
            hw_vec_push(&w->regions, (struct region){upid, row->start, row->end, m}) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* Where files were, each address once: of two that overlap the first one stays. */
static int find_regions(struct job *w)
{
    struct hw_map64 seen = {0};
    size_t kept = 0;
    int rc = HW_OK;
    for (uint32_t d = 0; d < w->p->dumps.n; d++) {
        size_t first, n;
        hw_profile_dump_rows(w->p, d, &first, &n);
        for (size_t i = first; rc == HW_OK && i < first + n; i++)
            rc = mark_callstack(w, &seen, w->p->dumps.v[d].upid,
                                (hw_callsite_id){w->p->allocs.callsite[i]});
    }
    hw_map64_done(&seen);
    if (rc < 0 || w->regions.n == 0)
        return rc;
    qsort(w->regions.v, w->regions.n, sizeof *w->regions.v, compare_regions);
    for (size_t i = 0; i < w->regions.n; i++) {
        const struct region *last = kept ? &w->regions.v[kept - 1] : NULL;
        if (!last || last->upid.v != w->regions.v[i].upid.v || w->regions.v[i].start >= last->end)
            w->regions.v[kept++] = w->regions.v[i];
    }
    w->regions.n = kept;
    return HW_OK;
}

/* The first region of the process that ends behind the address. */
static size_t region_from(const struct job *w, hw_upid upid, uint64_t address)
{
    size_t lo = 0, hi = w->regions.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct region *r = &w->regions.v[mid];
        if (r->upid.v < upid.v || (r->upid.v == upid.v && r->end <= address))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t pc_of(void *ctx, hw_upid upid, const struct hw_frame *f)
{
    const struct job *w = ctx;
    if (f->mapping.v == HW_ID_NONE)
        return 0;
    const struct hw_mapping *m = hw_callsites_get_mapping(w->p->callsites, f->mapping);
    uint64_t pc = f->rel_pc - m->load_bias - m->exact_offset + m->start;
    size_t i = region_from(w, upid, pc);
    if (i >= w->regions.n || w->regions.v[i].upid.v != upid.v ||
        w->regions.v[i].mapping.v != f->mapping.v || pc < m->start)
        return 0;
    return pc;
}

/* ---- small values ---- */

static void put_hex(struct hw_json *j, const char *key, uint64_t v)
{
    char text[20];
    (void)snprintf(text, sizeof text, "%llx", (unsigned long long)v);
    hw_json_kv_str(j, key, text);
}

static void put_str(struct job *w, const char *key, struct hw_bytes text)
{
    hw_json_key(&w->j, key);
    hw_json_strn(&w->j, text.p, text.n);
}

static void put_scalar(struct hw_json *j, const char *name, const char *units, uint64_t v)
{
    hw_json_key(j, name);
    hw_json_begin_object(j);
    hw_json_kv_str(j, "type", "scalar");
    hw_json_kv_str(j, "units", units);
    put_hex(j, "value", v);
    hw_json_end_object(j);
}

static bool counter(const struct job *w, hw_upid upid, const char *name, int64_t ts, uint64_t *out)
{
    double v;
    if (!hw_process_counter(w->p, upid, name, ts, &v, NULL) || !(v >= 0) || v > 9e18)
        return false;
    *out = (uint64_t)v;
    return true;
}

/* ---- totals and mappings ---- */

static const int64_t together_ns = 50 * 1000 * 1000;

/* A peak that was told at another moment than the resident bytes is that moment's. */
static bool told_together(const struct job *w, hw_upid upid, int64_t ts)
{
    int64_t rss_ns, peak_ns;
    double v;
    return hw_process_counter(w->p, upid, "mem.rss", ts, &v, &rss_ns) &&
           hw_process_counter(w->p, upid, "mem.rss.watermark", ts, &v, &peak_ns) &&
           hw_sat_sub(rss_ns, peak_ns) <= together_ns && hw_sat_sub(peak_ns, rss_ns) <= together_ns;
}

static void put_totals(struct job *w, hw_upid upid, int64_t ts)
{
    struct hw_json *j = &w->j;
    uint64_t rss, peak, reset = 0, anon, swap = 0, footprint;
    if (!counter(w, upid, "mem.rss", ts, &rss))
        return;
    hw_json_key(j, "process_totals");
    hw_json_begin_object(j);
    put_hex(j, "resident_set_bytes", rss);
    if (told_together(w, upid, ts) && counter(w, upid, "mem.rss.watermark", ts, &peak)) {
        (void)counter(w, upid, "mem.rss.watermark_is_since_last_dump", ts, &reset);
        put_hex(j, "peak_resident_set_bytes", peak);
        hw_json_kv_bool(j, "is_peak_rss_resetable", reset != 0);
    }
    (void)counter(w, upid, "mem.swap", ts, &swap);
    if (counter(w, upid, "mem.private_footprint", ts, &footprint))
        put_hex(j, "private_footprint_bytes", footprint);
    else if (counter(w, upid, "mem.rss.anon", ts, &anon))
        put_hex(j, "private_footprint_bytes", anon + swap);
    hw_json_end_object(j);
}

static void put_build_id(struct job *w, struct hw_bytes id)
{
    static const char digits[] = "0123456789abcdef";
    char text[129];
    size_t n = id.n < 64 ? id.n : 64;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[id.p[i] >> 4];
        text[2 * i + 1] = digits[id.p[i] & 15];
    }
    hw_json_key(&w->j, "id");
    hw_json_strn(&w->j, text, 2 * n);
}

static void put_regions(struct job *w, hw_upid upid)
{
    struct hw_json *j = &w->j;
    size_t i = region_from(w, upid, 0);
    if (i >= w->regions.n || w->regions.v[i].upid.v != upid.v)
        return;
    hw_json_key(j, "process_mmaps");
    hw_json_begin_object(j);
    hw_json_key(j, "vm_regions");
    hw_json_begin_array(j);
    for (; i < w->regions.n && w->regions.v[i].upid.v == upid.v; i++) {
        const struct region *r = &w->regions.v[i];
        const struct hw_mapping *m = hw_callsites_get_mapping(w->p->callsites, r->mapping);
        struct hw_bytes build_id = str(w, m->build_id);
        hw_json_begin_object(j);
        put_hex(j, "sa", r->start);
        put_hex(j, "sz", r->end - r->start);
        hw_json_kv_uint(j, "pf", 5); /* what has code is read and run */
        put_str(w, "mf", str(w, m->path));
        put_hex(j, "fo", m->exact_offset + m->load_bias); /* of the first byte, as the ELF says */
        if (build_id.n)
            put_build_id(w, build_id);
        put_hex(j, "off", m->exact_offset);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

/* ---- allocators ---- */

static uint64_t guid(const struct job *w, hw_upid upid, struct hw_bytes name)
{
    uint64_t h =
        hw_hash_mix(hw_hash_mix(w->guid_seed + w->n_dumps, upid.v), hw_hash_bytes(name.p, name.n));
    return h ? h : 1;
}

static void begin_node(struct job *w, hw_upid upid, const char *root, size_t n, const char *rest)
{
    struct hw_strbuf path = {0};
    hw_strbuf_add(&path, root, n);
    hw_strbuf_adds(&path, rest);
    hw_json_keyn(&w->j, path.p, path.n);
    hw_json_begin_object(&w->j);
    put_hex(&w->j, "guid", guid(w, upid, hw_bytes_of(path.p, path.n)));
    hw_json_key(&w->j, "attrs");
    hw_json_begin_object(&w->j);
    hw_strbuf_done(&path);
}

static void end_node(struct job *w)
{
    hw_json_end_object(&w->j);
    hw_json_end_object(&w->j);
}

static int64_t sum_sizes(const struct hw_infra_heap *h)
{
    int64_t sum = 0;
    for (size_t i = 0; i < h->values.n; i++)
        sum = hw_sat_add(sum, h->values.v[i].size);
    return sum;
}

static int64_t sum_counts(const struct hw_infra_heap *h)
{
    int64_t sum = 0;
    for (size_t i = 0; i < h->values.n; i++)
        sum = hw_sat_add(sum, h->values.v[i].count);
    return sum;
}

/* What the allocator holds, where it told (glibc's malloc), else what its heap does. */
static void put_root(struct job *w, hw_upid upid, int64_t ts, const struct hw_infra_heap *h)
{
    struct hw_json *j = &w->j;
    const char *name = (const char *)h->name.p;
    size_t n = h->name.n;
    uint64_t held = (uint64_t)sum_sizes(h), count = (uint64_t)sum_counts(h);
    uint64_t arena = 0, mmap = 0, in_use = held, spare = 0;
    bool told = hw_bytes_equal(h->name, hw_bytes_str("malloc")) &&
                counter(w, upid, "malloc_info.in_use", ts, &in_use);
    if (told) {
        (void)counter(w, upid, "malloc_info.arena", ts, &arena);
        (void)counter(w, upid, "malloc_info.mmap", ts, &mmap);
        (void)counter(w, upid, "malloc_info.free", ts, &spare);
        in_use += mmap;
    }
    begin_node(w, upid, name, n, "");
    put_scalar(j, "size", "bytes", in_use + spare);
    if (told)
        put_scalar(j, "virtual_size", "bytes", arena + mmap);
    end_node(w);
    begin_node(w, upid, name, n, "/allocated_objects");
    put_scalar(j, "size", "bytes", in_use);
    if (!told)
        put_scalar(j, "object_count", "objects", count);
    put_scalar(j, "shim_allocated_objects_size", "bytes", held);
    put_scalar(j, "shim_allocated_objects_count", "objects", count);
    end_node(w);
    if (told) {
        begin_node(w, upid, name, n, "/metadata_fragmentation_caches");
        put_scalar(j, "size", "bytes", spare);
        end_node(w);
    }
}

static bool ends_with(struct hw_bytes b, const char *end)
{
    size_t n = strlen(end);
    return b.n >= n && memcmp(b.p + b.n - n, end, n) == 0;
}

/* Attributes are rows NAME.value, some with a NAME.unit behind. */
static void put_args(struct job *w, uint32_t set)
{
    const struct hw_arg_row *rows = w->p->args.rows.v;
    size_t n = w->p->args.rows.n, lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rows[mid].set < set)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (size_t i = lo; i < n && rows[i].set == set; i++) {
        struct hw_bytes key = str(w, rows[i].key);
        if (!ends_with(key, ".value"))
            continue;
        bool text = rows[i].type == HW_ARG_STRING;
        hw_json_keyn(&w->j, key.p, key.n - 6);
        hw_json_begin_object(&w->j);
        hw_json_kv_str(&w->j, "type", text ? "string" : "scalar");
        const char *units = text ? "" : "objects";
        if (!text && i + 1 < n && rows[i + 1].set == set &&
            ends_with(str(w, rows[i + 1].key), ".unit"))
            units = hw_strings_cstr(hw_callsites_strings(w->p->callsites), rows[i + 1].text);
        hw_json_kv_str(&w->j, "units", units);
        if (text)
            put_str(w, "value", str(w, rows[i].text));
        else
            put_hex(&w->j, "value", (uint64_t)rows[i].number);
        hw_json_end_object(&w->j);
    }
}

/* The nodes that somebody dumped; those that the model made are made again by the reader. */
static void put_nodes(struct job *w, uint32_t process)
{
    const struct hw_memory_dumps *m = &w->p->memory;
    for (size_t i = 0; i < m->nodes.n; i++) {
        const struct hw_memory_node *n = &m->nodes.v[i];
        struct hw_bytes path = str(w, n->path);
        if (n->process != process || n->guid == 0 || n->unspecified)
            continue;
        hw_json_keyn(&w->j, path.p, path.n);
        hw_json_begin_object(&w->j);
        put_hex(&w->j, "guid", n->guid);
        if (n->weak)
            hw_json_kv_uint(&w->j, "flags", 1);
        hw_json_key(&w->j, "attrs");
        hw_json_begin_object(&w->j);
        if (n->has_size)
            put_scalar(&w->j, "size", "bytes", n->size);
        if (n->arg_set != HW_ID_NONE)
            put_args(w, n->arg_set);
        end_node(w);
    }
}

static bool has_root(const struct job *w, uint32_t process, struct hw_bytes name)
{
    const struct hw_memory_dumps *m = &w->p->memory;
    for (size_t i = 0; i < m->nodes.n; i++)
        if (m->nodes.v[i].process == process && m->nodes.v[i].guid &&
            hw_bytes_equal(str(w, m->nodes.v[i].path), name))
            return true;
    return false;
}

static void put_edges(struct job *w, uint32_t process)
{
    const struct hw_memory_dumps *m = &w->p->memory;
    hw_json_key(&w->j, "allocators_graph");
    hw_json_begin_array(&w->j);
    for (size_t i = 0; i < m->edges.n; i++) {
        const struct hw_memory_edge *e = &m->edges.v[i];
        if (!e->source_guid || !e->target_guid || m->nodes.v[e->source].process != process)
            continue;
        hw_json_begin_object(&w->j);
        put_hex(&w->j, "source", e->source_guid);
        put_hex(&w->j, "target", e->target_guid);
        hw_json_kv_uint(&w->j, "importance", e->importance);
        hw_json_kv_str(&w->j, "type", "ownership");
        hw_json_end_object(&w->j);
    }
    hw_json_end_array(&w->j);
}

static void put_allocators(struct job *w, hw_upid upid, int64_t ts, uint32_t process,
                           bool first_process, const struct hw_infra_heap *heaps, size_t n,
                           const struct hw_infra_folded *folded)
{
    static const char tracing[] = "tracing";
    hw_json_key(&w->j, "allocators");
    hw_json_begin_object(&w->j);
    if (process != HW_ID_NONE) {
        put_nodes(w, process);
        if (first_process && hw_global_process(w->p, process) != HW_ID_NONE)
            put_nodes(w, hw_global_process(w->p, process));
    }
    for (size_t i = 0; i < n; i++)
        if (process == HW_ID_NONE || !has_root(w, process, heaps[i].name))
            put_root(w, upid, ts, &heaps[i]);
    if (folded->rows && (process == HW_ID_NONE || !has_root(w, process, hw_bytes_str(tracing)))) {
        begin_node(w, upid, tracing, sizeof tracing - 1, "");
        put_scalar(&w->j, "other_size", "bytes", (uint64_t)folded->size);
        put_scalar(&w->j, "other_rows", "objects", folded->rows);
        end_node(w);
    }
    hw_json_end_object(&w->j);
    if (process != HW_ID_NONE)
        put_edges(w, process);
}

/* ---- events ---- */

static void begin_event(struct job *w, const char *phase, hw_upid upid, const char *name)
{
    struct hw_json *j = &w->j;
    bool meta = phase[0] == 'M';
    hw_json_begin_object(j);
    hw_json_kv_str(j, "ph", phase);
    hw_json_kv_str(j, "cat", meta ? "__metadata" : "disabled-by-default-memory-infra");
    hw_json_kv_str(j, "name", name);
    hw_json_kv_int(j, "pid", w->p->processes.v[upid.v].pid);
    hw_json_kv_int(j, "tid", meta ? 0 : -1);
}

static void put_metadata(struct job *w, hw_upid upid, const char *name, const char *key,
                         struct hw_bytes text)
{
    if (text.n == 0)
        return;
    begin_event(w, "M", upid, name);
    hw_json_kv_int(&w->j, "ts", 0);
    hw_json_key(&w->j, "args");
    hw_json_begin_object(&w->j);
    put_str(w, key, text);
    hw_json_end_object(&w->j);
    hw_json_end_object(&w->j);
}

static void put_processes(struct job *w)
{
    for (uint32_t i = 0; i < w->p->processes.n; i++) {
        const struct hw_process *x = &w->p->processes.v[i];
        put_metadata(w, (hw_upid){i}, "process_name", "name", str(w, x->name));
        put_metadata(w, (hw_upid){i}, "process_labels", "labels", str(w, x->labels));
    }
    for (size_t i = 0; i < w->p->threads.rows.n; i++) {
        const struct hw_thread *t = &w->p->threads.rows.v[i];
        if (!t->name.v)
            continue;
        hw_json_begin_object(&w->j);
        hw_json_kv_str(&w->j, "ph", "M");
        hw_json_kv_str(&w->j, "cat", "__metadata");
        hw_json_kv_str(&w->j, "name", "thread_name");
        hw_json_kv_int(&w->j, "pid", w->p->processes.v[t->upid.v].pid);
        hw_json_kv_int(&w->j, "tid", t->tid);
        hw_json_kv_int(&w->j, "ts", 0);
        hw_json_key(&w->j, "args");
        hw_json_begin_object(&w->j);
        put_str(w, "name", str(w, t->name));
        hw_json_end_object(&w->j);
        hw_json_end_object(&w->j);
    }
}

/* The viewer's name of a heap: an allocator's root, so no '/' in it. */
static int heap_name(const struct job *w, hw_str_id id, struct hw_strbuf *out)
{
    struct hw_bytes name = str(w, id);
    if (hw_bytes_equal(name, hw_bytes_str("libc.malloc")))
        name = hw_bytes_str("malloc");
    if (name.n == 0)
        name = hw_bytes_str("heap");
    hw_strbuf_clear(out);
    hw_strbuf_add(out, name.p, name.n);
    for (size_t i = 0; !out->failed && i < out->n; i++)
        if (out->p[i] == '/')
            out->p[i] = '_';
    return out->failed ? HW_ENOMEM : HW_OK;
}

struct process_dump {
    HW_VEC(struct hw_infra_heap) heaps;
    HW_VEC(char *) names; /* owned: of the heaps */
    uint32_t process;     /* of the model's memory dumps */
};

static void process_dump_done(struct process_dump *d)
{
    for (size_t i = 0; i < d->heaps.n; i++)
        hw_vec_done(&d->heaps.v[i].values);
    for (size_t i = 0; i < d->names.n; i++)
        free(d->names.v[i]);
    hw_vec_done(&d->heaps);
    hw_vec_done(&d->names);
}

static int add_heap(struct job *w, const struct hw_global_item *x, struct process_dump *d)
{
    struct hw_infra_heap heap = {0};
    struct hw_strbuf name = {0};
    const struct hw_series *s = &w->list.v.v[x->series];
    int rc = heap_name(w, s->heap_name, &name);
    heap.name.n = name.n;
    char *text = hw_strbuf_take(&name);
    heap.name.p = (const uint8_t *)text;
    if (rc == HW_OK)
        rc = hw_typed_sum_at(&w->sums.v[x->series], w->p, s, x->dump, &heap.values);
    if (rc == HW_OK && hw_vec_push(&d->names, text) < 0)
        rc = HW_ENOMEM;
    else if (rc == HW_OK)
        text = NULL;
    if (rc == HW_OK && hw_vec_push(&d->heaps, heap) < 0)
        rc = HW_ENOMEM;
    if (rc < 0)
        hw_vec_done(&heap.values);
    free(text);
    return rc;
}

static bool has_rows(const struct process_dump *d)
{
    for (size_t i = 0; i < d->heaps.n; i++)
        if (d->heaps.v[i].values.n)
            return true;
    return false;
}

static int put_process_dump(struct job *w, const struct hw_global_item *x,
                            const struct process_dump *d, const char *level, bool first_process)
{
    static const char *const types[] = {"periodic_interval", "explicitly_triggered"};
    struct hw_json *j = &w->j;
    struct hw_infra_folded folded = {0};
    bool asked = x->dump != HW_ID_NONE && w->p->dumps.v[x->dump].trigger.v;
    int rc = HW_OK;
    begin_event(w, "v", x->upid, types[asked]);
    hw_json_kv_double(j, "ts", (double)x->ts_ns / 1000);
    char id[24];
    (void)snprintf(id, sizeof id, "0x%llx",
                   (unsigned long long)(w->guid_seed + w->n_dumps) & 0xffffffffffffu);
    hw_json_kv_str(j, "id", id);
    hw_json_key(j, "args");
    hw_json_begin_object(j);
    hw_json_key(j, "dumps");
    hw_json_begin_object(j);
    hw_json_kv_str(j, "level_of_detail", level);
    put_totals(w, x->upid, x->ts_ns);
    if (level[0] == 'd')
        put_regions(w, x->upid);
    if (has_rows(d)) {
        hw_json_key(j, w->v1 ? "heaps" : "heaps_v2");
        rc = w->v1 ? hw_infra_out_v1(w->heaps, j, x->upid, d->heaps.v, d->heaps.n)
                   : hw_infra_out_v2(w->heaps, j, x->upid, d->heaps.v, d->heaps.n, &folded);
    }
    put_allocators(w, x->upid, x->ts_ns, d->process, first_process, d->heaps.v, d->heaps.n,
                   &folded);
    hw_json_end_object(j);
    hw_json_end_object(j);
    hw_json_end_object(j);
    return rc;
}

/* One global dump: what happened at one moment, process by process. */
static int put_group(struct job *w, struct hw_global_item *v, size_t n)
{
    static const char *const words[] = {"detailed", "light", "background"};
    const char *level = words[hw_global_detail(w->p, v, n)];
    int rc = HW_OK;
    w->n_dumps++;
    qsort(v, n, sizeof *v, by_process);
    for (size_t i = 0, end; rc == HW_OK && i < n; i = end) {
        struct process_dump d = {.process = HW_ID_NONE};
        struct hw_global_item head = v[i];
        for (end = i; rc == HW_OK && end < n && v[end].upid.v == v[i].upid.v; end++) {
            if (v[end].process != HW_ID_NONE)
                d.process = v[end].process;
            else if ((rc = add_heap(w, &v[end], &d)) == HW_OK)
                head.dump = v[end].dump;
        }
        if (rc == HW_OK)
            rc = put_process_dump(w, &head, &d, level, /* first_process = */ i == 0);
        process_dump_done(&d);
    }
    return rc;
}

static void put_v1_maps(struct job *w)
{
    for (uint32_t i = 0; i < w->p->processes.n; i++) {
        hw_upid upid = {i};
        begin_event(w, "M", upid, "stackFrames");
        hw_json_kv_int(&w->j, "ts", 0);
        hw_json_key(&w->j, "args");
        hw_json_begin_object(&w->j);
        hw_json_key(&w->j, "stackFrames");
        hw_infra_out_stack_frames(w->heaps, &w->j, upid);
        hw_json_end_object(&w->j);
        hw_json_end_object(&w->j);
        begin_event(w, "M", upid, "typeNames");
        hw_json_kv_int(&w->j, "ts", 0);
        hw_json_key(&w->j, "args");
        hw_json_begin_object(&w->j);
        hw_json_key(&w->j, "typeNames");
        hw_infra_out_type_names(w->heaps, &w->j, upid);
        hw_json_end_object(&w->j);
        hw_json_end_object(&w->j);
    }
}

/* ---- the file ---- */

/* Symbolizers stop without these four. */
static void put_file_metadata(struct job *w)
{
    static const struct {
        const char *name, *by_default;
    } members[] = {{"product-version", "Heapwise/" HW_VERSION},
                   {"os-name", "Linux"},
                   {"os-arch", "x86_64"},
                   {"user-agent", ""},
                   {"clock-domain", "LINUX_CLOCK_MONOTONIC"}};
    hw_json_key(&w->j, "metadata");
    hw_json_begin_object(&w->j);
    for (size_t i = 0; i < HW_ARRAY_LEN(members); i++) {
        struct hw_bytes value = hw_bytes_str(members[i].by_default);
        for (size_t k = 0; k < w->p->metadata.n; k++)
            if (hw_bytes_equal(str(w, w->p->metadata.v[k].name), hw_bytes_str(members[i].name)))
                value = str(w, w->p->metadata.v[k].text);
        put_str(w, members[i].name, value);
    }
    hw_json_end_object(&w->j);
}

static int put_all(struct job *w)
{
    int rc = HW_OK;
    hw_json_begin_object(&w->j);
    hw_json_key(&w->j, "traceEvents");
    hw_json_begin_array(&w->j);
    put_processes(w);
    for (size_t i = 0, end; rc == HW_OK && i < w->items.n; i = end) {
        end = hw_global_end(&w->items, i);
        rc = put_group(w, &w->items.v[i], end - i);
    }
    if (w->v1)
        put_v1_maps(w);
    hw_json_end_array(&w->j);
    put_file_metadata(w);
    hw_json_end_object(&w->j);
    return rc < 0 ? rc : hw_json_finish(&w->j);
}

static int put_bytes(void *ctx, const void *p, size_t n)
{
    struct job *w = ctx;
    if (w->gzip)
        return hw_gzip_write(w->gzip, hw_bytes_of(p, n), w->err);
    (void)fwrite(p, 1, n, w->out); /* the stream remembers a failure */
    return HW_OK;
}

static int prepare(struct job *w)
{
    int rc = hw_series_list_init(&w->list, w->p);
    while (rc == HW_OK && w->sums.n < w->list.v.n)
        if (hw_vec_push(&w->sums, (struct hw_typed_sum){0}) < 0)
            rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_global_items_init(w->p, &w->list, &w->items);
    if (rc == HW_OK)
        rc = find_regions(w);
    return rc < 0 ? rc : hw_infra_out_new(w->in, pc_of, w, &w->heaps);
}

static void done(struct job *w)
{
    for (size_t i = 0; i < w->sums.n; i++)
        hw_typed_sum_done(&w->sums.v[i]);
    hw_vec_done(&w->sums);
    hw_vec_done(&w->items);
    hw_vec_done(&w->regions);
    hw_series_list_done(&w->list);
    hw_infra_out_free(w->heaps);
    hw_json_done(&w->j);
    hw_gzip_writer_free(w->gzip);
}

static int write_trace(const struct hw_export_input *in, bool v1, FILE *out, struct hw_error *err)
{
    struct job w = {.in = in, .p = in->profile, .v1 = v1, .out = out, .err = err};
    int rc = HW_OK;
    hw_json_init(&w.j, put_bytes, &w, /* pretty = */ false);
    w.guid_seed = hw_hash_u64((uint64_t)w.p->first_ns + 1) & 0xffffffffff00u;
    if (in->gzip && fflush(out) == 0)
        rc = hw_gzip_writer_new(fileno(out), &w.gzip, err);
    if (rc == HW_OK && (rc = prepare(&w)) == HW_OK)
        rc = put_all(&w);
    if (rc == HW_OK && w.gzip)
        rc = hw_gzip_writer_end(w.gzip, err);
    done(&w);
    if (rc < 0)
        return err && err->code ? rc : hw_fail(err, rc, 0, "memory-infra trace");
    return hw_export_finish(out, err);
}

static int write_v2(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return write_trace(in, /* v1 = */ false, out, err);
}

static int write_v1(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return write_trace(in, /* v1 = */ true, out, err);
}

const struct hw_exporter hw_export_memory_infra = {
    .name = "memory-infra",
    .summary =
        "JSON trace with memory and heap dumps, for Chrome's trace viewer; all processes and dumps",
    .extension = ".memory-infra.json",
    .whole = true,
    .write = write_v2,
};

const struct hw_exporter hw_export_memory_infra_v1 = {
    .name = "memory-infra-v1",
    .summary = "the same with heap dumps in their first version",
    .extension = ".memory-infra-v1.json",
    .whole = true,
    .write = write_v1,
};
