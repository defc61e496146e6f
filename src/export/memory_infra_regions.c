/*
 * Frames without a name are told by their address, and their file as a mapping with build id, where
 * the profile says where the file was: symbolizers take it from there.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/map64.h"
#include "base/strings.h"
#include "export/memory_infra_parts.h"

#include "base/banned.h"

static int compare_regions(const void *pa, const void *pb)
{
    const struct hw_infra_region *a = pa, *b = pb;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->mapping.v < b->mapping.v ? -1 : a->mapping.v > b->mapping.v;
}

static int mark_callstack(struct hw_infra_regions *w, struct hw_map64 *seen, hw_upid upid,
                          hw_callsite_id c)
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
            hw_vec_push(&w->v, (struct hw_infra_region){upid, row->start, row->end, m}) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* Each address once: of two that overlap the first one stays. */
int hw_infra_regions_find(struct hw_infra_regions *w, const struct hw_profile *p)
{
    struct hw_map64 seen = {0};
    size_t kept = 0;
    int rc = HW_OK;
    w->p = p;
    for (uint32_t d = 0; d < w->p->dumps.n; d++) {
        size_t first, n;
        hw_profile_dump_rows(w->p, d, &first, &n);
        for (size_t i = first; rc == HW_OK && i < first + n; i++)
            rc = mark_callstack(w, &seen, w->p->dumps.v[d].upid,
                                (hw_callsite_id){w->p->allocs.callsite[i]});
    }
    hw_map64_done(&seen);
    if (rc < 0 || w->v.n == 0)
        return rc;
    qsort(w->v.v, w->v.n, sizeof *w->v.v, compare_regions);
    for (size_t i = 0; i < w->v.n; i++) {
        const struct hw_infra_region *last = kept ? &w->v.v[kept - 1] : NULL;
        if (!last || last->upid.v != w->v.v[i].upid.v || w->v.v[i].start >= last->end)
            w->v.v[kept++] = w->v.v[i];
    }
    w->v.n = kept;
    return HW_OK;
}

/* The first region of the process that ends behind the address. */
static size_t region_from(const struct hw_infra_regions *w, hw_upid upid, uint64_t address)
{
    size_t lo = 0, hi = w->v.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct hw_infra_region *r = &w->v.v[mid];
        if (r->upid.v < upid.v || (r->upid.v == upid.v && r->end <= address))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint64_t hw_infra_regions_pc(void *regions, hw_upid upid, const struct hw_frame *f)
{
    const struct hw_infra_regions *w = regions;
    if (f->mapping.v == HW_ID_NONE)
        return 0;
    const struct hw_mapping *m = hw_callsites_get_mapping(w->p->callsites, f->mapping);
    uint64_t pc = f->rel_pc - m->load_bias - m->exact_offset + m->start;
    size_t i = region_from(w, upid, pc);
    if (i >= w->v.n || w->v.v[i].upid.v != upid.v || w->v.v[i].mapping.v != f->mapping.v ||
        pc < m->start)
        return 0;
    return pc;
}

static void put_build_id(struct hw_json *j, struct hw_bytes id)
{
    static const char digits[] = "0123456789abcdef";
    char text[129];
    size_t n = id.n < 64 ? id.n : 64;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[id.p[i] >> 4];
        text[2 * i + 1] = digits[id.p[i] & 15];
    }
    hw_json_key(j, "id");
    hw_json_strn(j, text, 2 * n);
}

void hw_infra_regions_put(const struct hw_infra_regions *w, struct hw_json *j, hw_upid upid)
{
    const struct hw_strings *strings = hw_callsites_strings(w->p->callsites);
    size_t i = region_from(w, upid, 0);
    if (i >= w->v.n || w->v.v[i].upid.v != upid.v)
        return;
    hw_json_key(j, "process_mmaps");
    hw_json_begin_object(j);
    hw_json_key(j, "vm_regions");
    hw_json_begin_array(j);
    for (; i < w->v.n && w->v.v[i].upid.v == upid.v; i++) {
        const struct hw_infra_region *r = &w->v.v[i];
        const struct hw_mapping *m = hw_callsites_get_mapping(w->p->callsites, r->mapping);
        struct hw_bytes build_id = hw_strings_get(strings, m->build_id);
        struct hw_bytes path = hw_strings_get(strings, m->path);
        hw_json_begin_object(j);
        hw_json_kv_hex(j, "sa", r->start);
        hw_json_kv_hex(j, "sz", r->end - r->start);
        hw_json_kv_uint(j, "pf", 5); /* what has code is read and run */
        hw_json_key(j, "mf");
        hw_json_strn(j, path.p, path.n);
        hw_json_kv_hex(j, "fo",
                       m->exact_offset + m->load_bias); /* of the first byte, as the ELF says */
        if (build_id.n)
            put_build_id(j, build_id);
        hw_json_kv_hex(j, "off", m->exact_offset);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

void hw_infra_regions_done(struct hw_infra_regions *w)
{
    hw_vec_done(&w->v);
}
