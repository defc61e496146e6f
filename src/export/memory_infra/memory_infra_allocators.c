/*
 * Each heap has an allocator root node of its name; without one the viewer cannot show it. If the
 * profile has a memory dump of that moment, its nodes are written unchanged; else the roots are
 * made from malloc's own statistics and the heaps' live bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/memory/map64.h"
#include "base/text/strings.h"
#include "base/text/text_parts.h"
#include "export/memory_infra/memory_infra_job.h"
#include "views/time/process_view.h"

#include "base/banned.h"

/* What the functions below read from and write to. */
struct job {
    const struct hw_profile *p;
    struct hw_json *j;
    uint64_t dump;
    bool own_moment; /* use only counters read at the dump's time */
};

static struct hw_bytes str(const struct job *w, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(w->p->callsites), id);
}

static void put_str(const struct job *w, const char *key, struct hw_bytes text)
{
    hw_json_key(w->j, key);
    hw_json_strn(w->j, text.p, text.n);
}

static void put_scalar(struct hw_json *j, const char *name, const char *units, uint64_t v)
{
    hw_json_key(j, name);
    hw_json_begin_object(j);
    hw_json_kv_str(j, "type", "scalar");
    hw_json_kv_str(j, "units", units);
    hw_json_kv_hex(j, "value", v);
    hw_json_end_object(j);
}

static const int64_t same_moment_ns = 50 * 1000 * 1000;

static int64_t distance(int64_t a, int64_t b)
{
    return a < b ? hw_sat_sub(b, a) : hw_sat_sub(a, b);
}

static bool counter(const struct job *w, hw_upid upid, const char *name, int64_t ts, uint64_t *out)
{
    double v;
    int64_t at;
    if (!hw_process_counter(w->p, upid, name, ts, &v, &at) || !(v >= 0) || v > 9.3e18)
        return false;
    if (w->own_moment && distance(at, ts) > same_moment_ns)
        return false;
    *out = v < 0x1p63 ? (uint64_t)v : INT64_MAX;
    return true;
}

/* ---- totals ---- */

/* The peak is written only if it was read together with the resident bytes. */
static bool read_together(const struct job *w, hw_upid upid, int64_t ts)
{
    int64_t rss_ns, peak_ns;
    double v;
    return hw_process_counter(w->p, upid, "mem.rss", ts, &v, &rss_ns) &&
           hw_process_counter(w->p, upid, "mem.rss.watermark", ts, &v, &peak_ns) &&
           distance(rss_ns, peak_ns) <= same_moment_ns;
}

static const char total_prefix[] = "mem.";
enum { TOTAL_PREFIX = sizeof total_prefix - 1 };

/* A "mem." counter of that moment without a field of its own among the totals. */
static bool is_other_total(const struct job *w, const struct hw_counter_row *c, int64_t ts)
{
    static const char *const known[] = {"mem.rss",
                                        "mem.rss.watermark",
                                        "mem.rss.watermark_is_since_last_dump",
                                        "mem.private_footprint",
                                        "mem.rss.anon",
                                        "mem.swap"};
    if (c->ts_ns != ts || !(c->value >= 0 && c->value < 9e18))
        return false;
    struct hw_bytes name = str(w, c->name);
    for (size_t k = 0; k < HW_ARRAY_LEN(known); k++)
        if (hw_bytes_equal(name, hw_bytes_str(known[k])))
            return false;
    return name.n > TOTAL_PREFIX && memcmp(name.p, total_prefix, TOTAL_PREFIX) == 0;
}

static bool has_other_totals(const struct job *w, hw_upid upid, int64_t ts)
{
    const struct hw_process_rows rows = hw_by_process_of(&w->p->counters_of, upid);
    for (size_t i = 0; i < rows.n; i++)
        if (is_other_total(w, &w->p->counters.v[rows.v[i]], ts))
            return true;
    return false;
}

static void put_other_totals(const struct job *w, hw_upid upid, int64_t ts)
{
    const struct hw_process_rows rows = hw_by_process_of(&w->p->counters_of, upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &w->p->counters.v[rows.v[i]];
        char value[17];
        if (!is_other_total(w, c, ts))
            continue;
        struct hw_bytes name = str(w, c->name);
        (void)snprintf(value, sizeof value, "%llx", (unsigned long long)c->value);
        hw_json_keyn(w->j, name.p + TOTAL_PREFIX, name.n - TOTAL_PREFIX);
        hw_json_str(w->j, value);
    }
}

static void put_resident(const struct job *w, hw_upid upid, int64_t ts, uint64_t rss)
{
    uint64_t peak, reset = 0;
    hw_json_kv_hex(w->j, "resident_set_bytes", rss);
    if (read_together(w, upid, ts) && counter(w, upid, "mem.rss.watermark", ts, &peak)) {
        (void)counter(w, upid, "mem.rss.watermark_is_since_last_dump", ts, &reset);
        hw_json_kv_hex(w->j, "peak_resident_set_bytes", peak);
        hw_json_kv_bool(w->j, "is_peak_rss_resetable", reset != 0);
    }
}

void hw_infra_put_totals(const struct hw_profile *p, struct hw_json *j, hw_upid upid, int64_t ts,
                         bool own_moment)
{
    const struct job *w = &(struct job){.p = p, .j = j, .own_moment = own_moment};
    uint64_t rss = 0, anon, swap = 0, footprint = 0;
    bool has_rss = counter(w, upid, "mem.rss", ts, &rss);
    bool has_footprint = counter(w, upid, "mem.private_footprint", ts, &footprint);
    if (!has_footprint && counter(w, upid, "mem.rss.anon", ts, &anon)) {
        (void)counter(w, upid, "mem.swap", ts, &swap);
        footprint = anon + swap;
        has_footprint = true;
    }
    if (!has_rss && !has_footprint && !has_other_totals(w, upid, ts))
        return;
    hw_json_key(j, "process_totals");
    hw_json_begin_object(j);
    if (has_rss)
        put_resident(w, upid, ts, rss);
    if (has_footprint)
        hw_json_kv_hex(j, "private_footprint_bytes", footprint);
    put_other_totals(w, upid, ts);
    hw_json_end_object(j);
}

/* ---- allocators ---- */

static uint64_t guid(const struct job *w, hw_upid upid, struct hw_bytes name)
{
    uint64_t h = hw_hash_mix(hw_hash_mix(w->dump, upid.v), hw_hash_bytes(name.p, name.n));
    return h ? h : 1;
}

static void begin_node(const struct job *w, hw_upid upid, const char *root, size_t n,
                       const char *rest)
{
    struct hw_strbuf path = {0};
    hw_strbuf_add(&path, root, n);
    hw_strbuf_adds(&path, rest);
    hw_json_keyn(w->j, path.p, path.n);
    hw_json_begin_object(w->j);
    hw_json_kv_hex(w->j, "guid", guid(w, upid, hw_bytes_of(path.p, path.n)));
    hw_json_key(w->j, "attrs");
    hw_json_begin_object(w->j);
    hw_strbuf_done(&path);
}

static void end_node(const struct job *w)
{
    hw_json_end_object(w->j);
    hw_json_end_object(w->j);
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

/* The time between the dump and malloc's statistics, if they are from another moment. */
static void put_distance(const struct job *w, hw_upid upid, int64_t ts)
{
    int64_t at;
    double v;
    if (!hw_process_counter(w->p, upid, "malloc_info.in_use", ts, &v, &at))
        return;
    if (distance(at, ts) > same_moment_ns)
        put_scalar(w->j, at < ts ? "older_by" : "newer_by", "ms",
                   (uint64_t)distance(at, ts) / 1000000);
}

/* The bytes that the allocator reports (glibc's malloc), else the heap's live bytes. */
static void put_root(const struct job *w, hw_upid upid, int64_t ts, const struct hw_infra_heap *h)
{
    struct hw_json *j = w->j;
    const char *name = (const char *)h->name.p;
    size_t n = h->name.n;
    uint64_t held = (uint64_t)sum_sizes(h), count = (uint64_t)sum_counts(h);
    uint64_t arena = 0, mmap = 0, in_use = held, spare = 0;
    bool has_malloc_info = hw_bytes_equal(h->name, hw_bytes_str("malloc")) &&
                           counter(w, upid, "malloc_info.in_use", ts, &in_use);
    if (has_malloc_info) {
        (void)counter(w, upid, "malloc_info.arena", ts, &arena);
        (void)counter(w, upid, "malloc_info.mmap", ts, &mmap);
        (void)counter(w, upid, "malloc_info.free", ts, &spare);
        in_use += mmap;
    }
    begin_node(w, upid, name, n, "");
    put_scalar(j, "size", "bytes", in_use + spare);
    if (has_malloc_info) {
        put_scalar(j, "virtual_size", "bytes", arena + mmap);
        put_distance(w, upid, ts);
    }
    end_node(w);
    begin_node(w, upid, name, n, "/allocated_objects");
    put_scalar(j, "size", "bytes", in_use);
    if (!has_malloc_info)
        put_scalar(j, "object_count", "objects", count);
    put_scalar(j, "shim_allocated_objects_size", "bytes", held);
    put_scalar(j, "shim_allocated_objects_count", "objects", count);
    end_node(w);
    if (has_malloc_info) {
        begin_node(w, upid, name, n, "/metadata_fragmentation_caches");
        put_scalar(j, "size", "bytes", spare);
        end_node(w);
    }
}

static const char *const folded_attrs[] = {"other_size", "other_rows"};

/* An attribute of an earlier folding, which ours replaces. */
static bool is_folded_attr(struct hw_bytes key)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(folded_attrs); i++) {
        size_t n = strlen(folded_attrs[i]);
        if (key.n == n + 6 && memcmp(key.p, folded_attrs[i], n) == 0)
            return true;
    }
    return false;
}

static void put_folded(const struct job *w, const struct hw_infra_folded *folded)
{
    put_scalar(w->j, folded_attrs[0], "bytes", (uint64_t)folded->size);
    put_scalar(w->j, folded_attrs[1], "objects", folded->rows);
}

/* Attributes are rows NAME.value, some followed by a NAME.unit. */
static void put_args(const struct job *w, uint32_t set, const struct hw_infra_folded *folded)
{
    const struct hw_arg_row *rows = w->p->args.rows.v;
    size_t n = w->p->args.rows.n;
    for (size_t i = HW_LOWER_BOUND(k, 0, n, rows[k].set < set); i < n && rows[i].set == set; i++) {
        struct hw_bytes key = str(w, rows[i].key);
        if (!hw_bytes_end_with(key, ".value") || (folded && is_folded_attr(key)))
            continue;
        bool text = rows[i].type == HW_ARG_STRING;
        hw_json_keyn(w->j, key.p, key.n - 6);
        hw_json_begin_object(w->j);
        hw_json_kv_str(w->j, "type", text ? "string" : "scalar");
        const char *units = text ? "" : "objects";
        if (!text && i + 1 < n && rows[i + 1].set == set &&
            hw_bytes_end_with(str(w, rows[i + 1].key), ".unit"))
            units = hw_strings_cstr(hw_callsites_strings(w->p->callsites), rows[i + 1].text);
        hw_json_kv_str(w->j, "units", units);
        if (text)
            put_str(w, "value", str(w, rows[i].text));
        else
            hw_json_kv_hex(w->j, "value", (uint64_t)rows[i].number);
        hw_json_end_object(w->j);
    }
}

/* The nodes of the recorded dump, without those derived by our model: readers derive theirs. */
static void put_nodes(const struct job *w, uint32_t process, const struct hw_infra_folded *folded)
{
    const struct hw_memory_dumps *m = &w->p->memory;
    for (size_t i = 0; i < m->nodes.n; i++) {
        const struct hw_memory_node *n = &m->nodes.v[i];
        struct hw_bytes path = str(w, n->path);
        if (n->process != process || n->guid == 0 || n->unspecified)
            continue;
        hw_json_keyn(w->j, path.p, path.n);
        hw_json_begin_object(w->j);
        hw_json_kv_hex(w->j, "guid", n->guid);
        if (n->weak)
            hw_json_kv_uint(w->j, "flags", 1);
        hw_json_key(w->j, "attrs");
        hw_json_begin_object(w->j);
        if (n->told_size) /* sums of children are not shared with owners */
            put_scalar(w->j, "size", "bytes", n->size);
        bool tracing = folded->rows && hw_bytes_equal(path, hw_bytes_str("tracing"));
        if (n->arg_set != HW_ID_NONE)
            put_args(w, n->arg_set, tracing ? folded : NULL);
        if (tracing)
            put_folded(w, folded);
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

static void put_edges(const struct job *w, uint32_t process)
{
    const struct hw_memory_dumps *m = &w->p->memory;
    for (size_t i = 0; i < m->edges.n; i++) {
        const struct hw_memory_edge *e = &m->edges.v[i];
        if (!e->source_guid || !e->target_guid || m->nodes.v[e->source].process != process)
            continue;
        hw_json_begin_object(w->j);
        hw_json_kv_hex(w->j, "source", e->source_guid);
        hw_json_kv_hex(w->j, "target", e->target_guid);
        hw_json_kv_uint(w->j, "importance", e->importance);
        hw_json_kv_str(w->j, "type", "ownership");
        hw_json_end_object(w->j);
    }
}

void hw_infra_put_allocators(const struct hw_profile *p, struct hw_json *j,
                             const struct hw_infra_moment *m)
{
    static const char tracing[] = "tracing";
    const struct job *w = &(struct job){.p = p, .j = j, .dump = m->dump};
    bool dumped = m->process != HW_ID_NONE;
    hw_json_key(j, "allocators");
    hw_json_begin_object(j);
    if (dumped)
        put_nodes(w, m->process, &m->folded);
    if (m->global_process != HW_ID_NONE)
        put_nodes(w, m->global_process, &m->folded);
    for (size_t i = 0; i < m->n_heaps; i++)
        if (!dumped || !has_root(w, m->process, m->heaps[i].name))
            put_root(w, m->upid, m->ts_ns, &m->heaps[i]);
    if (m->folded.rows && (!dumped || !has_root(w, m->process, hw_bytes_str(tracing)))) {
        begin_node(w, m->upid, tracing, sizeof tracing - 1, "");
        put_folded(w, &m->folded);
        end_node(w);
    }
    hw_json_end_object(j);
    if (!dumped)
        return;
    hw_json_key(j, "allocators_graph");
    hw_json_begin_array(j);
    put_edges(w, m->process);
    if (m->global_process != HW_ID_NONE)
        put_edges(w, m->global_process); /* global nodes may own each other */
    hw_json_end_array(j);
}
