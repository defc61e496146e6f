/* Metrics about native heap profiles and memory maps. */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "export/metrics/metric_list.h"
#include "schema/fields.h"
#include "views/flame/native_tree.h"

#include "base/banned.h"

/* ---- unsymbolized_frames ---- */

/*
 * Breakpad's form of a build id, by which symbol servers know it: its first 16 bytes as a GUID
 * (three little-endian numbers, then bytes), upper case, and an age of 0.
 */
static void put_lookup_id(struct hw_pb *out, struct hw_bytes id)
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char text[33];
    if (hw_build_id_is_text(id)) {
        hw_pb_bytes(out, HW_F_UnsymbolizedFrames_Frame_google_lookup_id, id.p, id.n);
        return;
    }
    for (size_t i = 0; i < sizeof order; i++) {
        uint8_t byte = order[i] < id.n ? id.p[order[i]] : 0;
        text[2 * i] = "0123456789ABCDEF"[byte >> 4];
        text[2 * i + 1] = "0123456789ABCDEF"[byte & 15];
    }
    text[32] = '0';
    hw_pb_bytes(out, HW_F_UnsymbolizedFrames_Frame_google_lookup_id, text, sizeof text);
}

static void put_build_id(struct hw_pb *out, struct hw_bytes id)
{
    struct hw_strbuf text = {0};
    hw_build_id_add(&text, id);
    hw_pb_bytes(out, HW_F_UnsymbolizedFrames_Frame_build_id, text.p ? text.p : "", text.n);
    hw_strbuf_done(&text);
}

int hw_metric_unsymbolized_frames(const struct hw_profile *p, struct hw_pb *out)
{
    const struct hw_callsites *cs = p->callsites;
    const struct hw_symbol_sets *symbols = hw_callsites_get_symbol_sets(cs);
    for (uint32_t i = 0; i < hw_callsites_n_frames(cs); i++) {
        const struct hw_frame *f = hw_callsites_get_frame(cs, (hw_frame_id){i});
        const struct hw_symbol_line *lines;
        if (f->mapping.v == HW_ID_NONE || hw_symbol_sets_get(symbols, (hw_frame_id){i}, &lines))
            continue;
        const struct hw_mapping *m = hw_callsites_get_mapping(cs, f->mapping);
        struct hw_bytes id = hw_strings_get(hw_callsites_strings(p->callsites), m->build_id);
        if (id.n == 0) /* nothing to find symbols by */
            continue;
        hw_pb_begin(out, HW_F_UnsymbolizedFrames_frames);
        hw_metric_put_str(out, HW_F_UnsymbolizedFrames_Frame_module, p, m->path);
        put_build_id(out, id);
        hw_pb_uint(out, HW_F_UnsymbolizedFrames_Frame_address, f->rel_pc);
        put_lookup_id(out, id);
        hw_pb_end(out);
    }
    return HW_OK;
}

/* ---- heap_profile_callsites ---- */

/* A path is known by the names on it, whatever the addresses were. */
static int64_t *path_hashes(const struct hw_profile *p, const hw_native_tree *t)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    int64_t *hashes = calloc(t->n + 1, sizeof *hashes);
    for (size_t i = 0; hashes && i < t->n; i++) {
        const struct hw_native_node *n = &t->v[i];
        struct hw_bytes name = hw_strings_get(strings, n->name);
        struct hw_bytes module = hw_strings_get(strings, n->module);
        uint64_t above = n->parent == HW_ID_NONE ? 0 : (uint64_t)hashes[n->parent];
        uint64_t h = hw_hash_mix(hw_hash_bytes(name.p, name.n), hw_hash_bytes(module.p, module.n));
        hashes[i] = (int64_t)hw_hash_mix(above, h);
    }
    return hashes;
}

static void put_counters(struct hw_pb *out, uint32_t field, const struct hw_native_value *v)
{
    hw_pb_begin(out, field);
    hw_pb_sint64(out, HW_F_HeapProfileCallsites_Counters_total_count, v->alloc_count);
    hw_pb_sint64(out, HW_F_HeapProfileCallsites_Counters_total_bytes, v->alloc_size);
    hw_pb_sint64(out, HW_F_HeapProfileCallsites_Counters_delta_count, v->count);
    hw_pb_sint64(out, HW_F_HeapProfileCallsites_Counters_delta_bytes, v->size);
    hw_pb_end(out);
}

#define F_CALLSITE(name) HW_F_HeapProfileCallsites_Callsite_##name

static void put_callsite(struct hw_pb *out, const struct hw_profile *p, const hw_native_tree *t,
                         const int64_t *hashes, size_t i)
{
    const struct hw_native_node *n = &t->v[i];
    hw_pb_begin(out, HW_F_HeapProfileCallsites_InstanceStats_callsites);
    hw_pb_sint64(out, F_CALLSITE(hash), hashes[i]);
    if (n->parent != HW_ID_NONE)
        hw_pb_sint64(out, F_CALLSITE(parent_hash), hashes[n->parent]);
    hw_pb_begin(out, F_CALLSITE(frame));
    hw_metric_put_str(out, HW_F_HeapProfileCallsites_Frame_name, p, n->name);
    hw_metric_put_str(out, HW_F_HeapProfileCallsites_Frame_mapping_name, p, n->module);
    hw_pb_end(out);
    if (n->self.alloc_count || n->self.alloc_size)
        put_counters(out, F_CALLSITE(self_allocs), &n->self);
    put_counters(out, F_CALLSITE(child_allocs), &n->cumulative); /* with its own */
    hw_pb_end(out);
}

#define F_INSTANCE(name) HW_F_HeapProfileCallsites_InstanceStats_##name

static int put_callsites(const struct hw_profile *p, hw_upid upid, struct hw_pb *out)
{
    hw_native_tree tree = {0};
    struct hw_native_value sum = {0};
    int rc = hw_native_tree_build(p, upid, INT64_MAX, NULL, &tree);
    if (rc < 0)
        return rc;
    hw_autofree int64_t *hashes = path_hashes(p, &tree);
    if (!hashes)
        rc = HW_ENOMEM;
    if (rc == HW_OK && tree.n) {
        hw_pb_begin(out, HW_F_HeapProfileCallsites_instance_stats);
        hw_pb_sint64(out, F_INSTANCE(pid), p->processes.v[upid.v].pid);
        hw_metric_put_str(out, F_INSTANCE(process_name), p, p->processes.v[upid.v].name);
        for (size_t i = 0; i < tree.n; i++) {
            put_callsite(out, p, &tree, hashes, i);
            if (tree.v[i].parent == HW_ID_NONE) {
                sum.size += tree.v[i].cumulative.size;
                sum.alloc_size += tree.v[i].cumulative.alloc_size;
            }
        }
        hw_pb_sint64(out, F_INSTANCE(profile_delta_bytes), sum.size);
        hw_pb_sint64(out, F_INSTANCE(profile_total_bytes), sum.alloc_size);
        hw_metric_put_process(out, F_INSTANCE(process), p, upid);
        hw_pb_end(out);
    }
    hw_vec_done(&tree);
    return rc;
}

int hw_metric_heap_profile_callsites(const struct hw_profile *p, struct hw_pb *out)
{
    hw_autofree uint8_t *profiled = calloc(p->processes.n + 1, 1);
    int rc = profiled ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < p->dumps.n; i++)
        profiled[p->dumps.v[i].upid.v] = 1;
    for (uint32_t u = 0; rc == HW_OK && u < p->processes.n; u++)
        if (profiled[u])
            rc = put_callsites(p, (hw_upid){u}, out);
    return rc;
}

/* ---- profiler_smaps ---- */

struct path_sum {
    hw_str_id path;
    uint64_t size_kb, private_dirty_kb, swap_kb;
};

typedef HW_VEC(struct path_sum) path_sums;

static int by_private_dirty(const void *pa, const void *pb)
{
    const struct path_sum *a = pa, *b = pb;
    if (a->private_dirty_kb != b->private_dirty_kb)
        return a->private_dirty_kb > b->private_dirty_kb ? -1 : 1;
    if (a->swap_kb != b->swap_kb)
        return a->swap_kb > b->swap_kb ? -1 : 1;
    return (a->path.v > b->path.v) - (a->path.v < b->path.v);
}

/* All mappings of one path of a process together, those with most private memory first. */
static int sum_paths(const struct hw_profile *p, hw_upid upid, path_sums *out)
{
    struct hw_map64 at = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->smaps.n; i++) {
        const struct hw_smaps_row *r = &p->smaps.v[i];
        uint64_t *slot;
        bool fresh;
        if (r->upid.v != upid.v)
            continue;
        rc = hw_map64_at(&at, r->path.v, &slot, &fresh);
        if (rc == HW_OK && fresh) {
            *slot = out->n;
            if (hw_vec_push(out, (struct path_sum){.path = r->path}) < 0)
                rc = HW_ENOMEM;
        }
        if (rc < 0)
            break;
        struct path_sum *s = &out->v[*slot];
        s->size_kb += r->size_kb;
        s->private_dirty_kb += r->private_dirty_kb;
        s->swap_kb += r->swap_kb;
    }
    hw_map64_done(&at);
    if (rc == HW_OK && out->n)
        qsort(out->v, out->n, sizeof *out->v, by_private_dirty);
    return rc;
}

#define F_MAPPING(name) HW_F_ProfilerSmaps_Mapping_##name

int hw_metric_profiler_smaps(const struct hw_profile *p, struct hw_pb *out)
{
    path_sums sums = {0};
    int rc = HW_OK;
    for (uint32_t u = 0; rc == HW_OK && u < p->processes.n; u++) {
        hw_vec_clear(&sums);
        rc = sum_paths(p, (hw_upid){u}, &sums);
        if (rc < 0 || sums.n == 0)
            continue;
        hw_pb_begin(out, HW_F_ProfilerSmaps_instance);
        hw_metric_put_process(out, HW_F_ProfilerSmaps_Instance_process, p, (hw_upid){u});
        for (size_t i = 0; i < sums.n; i++) {
            hw_pb_begin(out, HW_F_ProfilerSmaps_Instance_mappings);
            hw_metric_put_str(out, F_MAPPING(path), p, sums.v[i].path);
            hw_pb_uint(out, F_MAPPING(size_kb), sums.v[i].size_kb);
            hw_pb_uint(out, F_MAPPING(private_dirty_kb), sums.v[i].private_dirty_kb);
            hw_pb_uint(out, F_MAPPING(swap_kb), sums.v[i].swap_kb);
            hw_pb_end(out);
        }
        hw_pb_end(out);
    }
    hw_vec_done(&sums);
    return rc;
}
