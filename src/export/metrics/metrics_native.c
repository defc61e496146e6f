/* Metrics about native heap profiles and memory maps. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "export/metrics/metric_list.h"
#include "schema/fields.h"
#include "views/flame/native_tree.h"

#include "base/banned.h"

/* ---- unsymbolized_frames ---- */

struct candidate {
    hw_str_id path, build_id;
    uint64_t rel_pc;
    uint32_t frame;
};

typedef HW_VEC(struct candidate) candidate_list;

static int by_address(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    if (a->path.v != b->path.v)
        return a->path.v < b->path.v ? -1 : 1;
    if (a->build_id.v != b->build_id.v)
        return a->build_id.v < b->build_id.v ? -1 : 1;
    if (a->rel_pc != b->rel_pc)
        return a->rel_pc < b->rel_pc ? -1 : 1;
    return (a->frame > b->frame) - (a->frame < b->frame);
}

static int by_frame(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    return (a->frame > b->frame) - (a->frame < b->frame);
}

/* Marks the frames of a callstack from the leaf up, to the first callsite seen before. */
static void mark_path(const struct hw_callsites *cs, hw_callsite_id at, bool *passed, bool *frames)
{
    while (at.v != HW_ID_NONE && !passed[at.v]) {
        const struct hw_callsite *c = hw_callsites_get(cs, at);
        passed[at.v] = true;
        frames[c->frame.v] = true;
        at = c->parent;
    }
}

static int find_sampled(const struct hw_profile *p, bool *frames)
{
    hw_autofree bool *passed = calloc(hw_callsites_count(p->callsites) + 1, sizeof *passed);
    if (!passed)
        return HW_ENOMEM;
    for (size_t i = 0; i < p->allocs.n; i++)
        mark_path(p->callsites, (hw_callsite_id){p->allocs.callsite[i]}, passed, frames);
    for (size_t i = 0; i < p->cpu.samples.n; i++)
        mark_path(p->callsites, p->cpu.samples.v[i].callsite, passed, frames);
    return HW_OK;
}

/* Keeps each (file, address) once, in the order of the frames. */
static void drop_repeated(candidate_list *list)
{
    size_t n = 0;
    if (list->n == 0)
        return;
    qsort(list->v, list->n, sizeof *list->v, by_address);
    for (size_t i = 0; i < list->n; i++) {
        const struct candidate *a = &list->v[i], *b = &list->v[n ? n - 1 : 0];
        if (n && a->path.v == b->path.v && a->build_id.v == b->build_id.v && a->rel_pc == b->rel_pc)
            continue;
        list->v[n++] = list->v[i];
    }
    list->n = n;
    qsort(list->v, list->n, sizeof *list->v, by_frame);
}

/* Frames of samples that lack symbols and have a file to find them in. */
static int find_candidates(const struct hw_profile *p, candidate_list *out)
{
    const struct hw_callsites *cs = p->callsites;
    const struct hw_symbol_sets *symbols = hw_callsites_get_symbol_sets(cs);
    hw_autofree bool *sampled = calloc(hw_callsites_n_frames(cs) + 1, sizeof *sampled);
    int rc = sampled ? find_sampled(p, sampled) : HW_ENOMEM;
    for (uint32_t i = 0; rc == HW_OK && i < hw_callsites_n_frames(cs); i++) {
        const struct hw_frame *f = hw_callsites_get_frame(cs, (hw_frame_id){i});
        const struct hw_symbol_line *lines;
        if (!sampled[i] || f->mapping.v == HW_ID_NONE ||
            hw_symbol_sets_get(symbols, (hw_frame_id){i}, &lines))
            continue;
        const struct hw_mapping *m = hw_callsites_get_mapping(cs, f->mapping);
        if (m->build_id.v &&
            hw_vec_push(out, ((struct candidate){m->path, m->build_id, f->rel_pc, i})) < 0)
            rc = HW_ENOMEM;
    }
    drop_repeated(out);
    return rc;
}

static void put_candidate(const struct hw_profile *p, const struct candidate *c, struct hw_pb *out)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_strbuf hex = {0}, id = {0};
    hw_build_id_add(&hex, hw_strings_get(strings, c->build_id));
    struct hw_bytes text = hw_bytes_of(hex.p, hex.n);
    if (hw_breakpad_module_add(&id, hw_strings_get(strings, c->path), text))
        text = hw_bytes_of(id.p, id.n);
    hw_pb_begin(out, HW_F_UnsymbolizedFrames_frames);
    hw_metric_put_str(out, HW_F_UnsymbolizedFrames_Frame_module, p, c->path);
    hw_pb_bytes(out, HW_F_UnsymbolizedFrames_Frame_build_id, hex.p, hex.n);
    hw_pb_uint(out, HW_F_UnsymbolizedFrames_Frame_address, c->rel_pc);
    hw_pb_bytes(out, HW_F_UnsymbolizedFrames_Frame_google_lookup_id, text.p, text.n);
    hw_pb_end(out);
    hw_strbuf_done(&hex);
    hw_strbuf_done(&id);
}

int hw_metric_unsymbolized_frames(const struct hw_profile *p, struct hw_pb *out)
{
    candidate_list list = {0};
    int rc = find_candidates(p, &list);
    for (size_t i = 0; rc == HW_OK && i < list.n; i++)
        put_candidate(p, &list.v[i], out);
    hw_vec_done(&list);
    return rc;
}

/* ---- heap_profile_callsites ---- */

/* A path is identified by its function names, whatever the addresses are. */
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
    put_counters(out, F_CALLSITE(child_allocs), &n->cumulative); /* includes its own */
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
    struct hw_bytes text;
    uint64_t size_kb, private_dirty_kb, swap_kb;
};

typedef HW_VEC(struct path_sum) path_sums;

/* A row of one reading of a process's memory map. Its rows need not be contiguous. */
struct snapshot {
    int64_t ts_ns;
    hw_upid upid;
    uint32_t row;
};

static int by_time(const void *pa, const void *pb)
{
    const struct snapshot *a = pa, *b = pb;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static int by_size(const void *pa, const void *pb)
{
    const struct path_sum *a = pa, *b = pb;
    if (a->size_kb != b->size_kb)
        return a->size_kb > b->size_kb ? -1 : 1;
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int order = n ? memcmp(a->text.p, b->text.p, n) : 0;
    return order ? order : (a->text.n > b->text.n) - (a->text.n < b->text.n);
}

/* Sums the mappings by path, largest first. */
static int sum_paths(const struct hw_profile *p, const struct snapshot *rows, size_t n,
                     path_sums *out)
{
    struct hw_map64 at = {0};
    int rc = HW_OK;
    hw_vec_clear(out);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        const struct hw_smaps_row *r = &p->smaps.v[rows[i].row];
        uint64_t *slot;
        bool fresh;
        rc = hw_map64_at(&at, r->path.v, &slot, &fresh);
        if (rc == HW_OK && fresh) {
            struct hw_bytes text = hw_strings_get(hw_callsites_strings(p->callsites), r->path);
            *slot = out->n;
            if (hw_vec_push(out, ((struct path_sum){.path = r->path, .text = text})) < 0)
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
        qsort(out->v, out->n, sizeof *out->v, by_size);
    return rc;
}

#define F_MAPPING(name) HW_F_ProfilerSmaps_Mapping_##name

static void put_snapshot(const struct hw_profile *p, hw_upid upid, const path_sums *sums,
                         struct hw_pb *out)
{
    hw_pb_begin(out, HW_F_ProfilerSmaps_instance);
    hw_metric_put_process(out, HW_F_ProfilerSmaps_Instance_process, p, upid);
    for (size_t i = 0; i < sums->n; i++) {
        hw_pb_begin(out, HW_F_ProfilerSmaps_Instance_mappings);
        hw_metric_put_str(out, F_MAPPING(path), p, sums->v[i].path);
        hw_pb_uint(out, F_MAPPING(size_kb), sums->v[i].size_kb);
        hw_pb_uint(out, F_MAPPING(private_dirty_kb), sums->v[i].private_dirty_kb);
        hw_pb_uint(out, F_MAPPING(swap_kb), sums->v[i].swap_kb);
        hw_pb_end(out);
    }
    hw_pb_end(out);
}

int hw_metric_profiler_smaps(const struct hw_profile *p, struct hw_pb *out)
{
    path_sums sums = {0};
    size_t n = p->smaps.n, end;
    hw_autofree struct snapshot *rows = calloc(n + 1, sizeof *rows);
    int rc = rows ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rows[i] = (struct snapshot){p->smaps.v[i].ts_ns, p->smaps.v[i].upid, (uint32_t)i};
    if (rc == HW_OK && n)
        qsort(rows, n, sizeof *rows, by_time);
    for (size_t i = 0; rc == HW_OK && i < n; i = end) {
        for (end = i;
             end < n && rows[end].ts_ns == rows[i].ts_ns && rows[end].upid.v == rows[i].upid.v;)
            end++;
        rc = sum_paths(p, rows + i, end - i, &sums);
        if (rc == HW_OK)
            put_snapshot(p, rows[i].upid, &sums, out);
    }
    hw_vec_done(&sums);
    return rc;
}
