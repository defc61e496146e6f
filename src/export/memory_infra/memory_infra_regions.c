/*
 * For frames without a name, symbolizers need the address and the file as a mapping with its build
 * id. Both are written if the profile knows where the file was mapped.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "base/text/strings.h"
#include "export/memory_infra/memory_infra_job.h"

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
        /* Once per mapping. Callsite ids never use the top bit: it marks the keys of mappings. */
        rc = hw_map64_at(seen, (uint64_t)upid.v << 32 | 1u << 31 | m.v, &at, &fresh);
        if (rc == HW_OK && fresh && row->end > row->start &&
            hw_vec_push(&w->v, (struct hw_infra_region){upid, row->start, row->end, m}) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* Drops overlaps: the first of two overlapping regions stays. */
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

/* The first region of the process that ends after the address. */
static size_t region_from(const struct hw_infra_regions *w, hw_upid upid, uint64_t address)
{
    const struct hw_infra_region *r = w->v.v;
    return HW_LOWER_BOUND(i, 0, w->v.n,
                          r[i].upid.v < upid.v || (r[i].upid.v == upid.v && r[i].end <= address));
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

/* What symbolizers need to know of a file mapped at `start`. */
static void put_file(const struct hw_infra_regions *w, struct hw_json *j,
                     const struct hw_infra_region *r, uint64_t start)
{
    const struct hw_strings *strings = hw_callsites_strings(w->p->callsites);
    const struct hw_mapping *m = hw_callsites_get_mapping(w->p->callsites, r->mapping);
    struct hw_bytes build_id = hw_strings_get(strings, m->build_id);
    uint64_t before = r->start - start;
    if (before > m->exact_offset)
        return; /* the range includes pages of another file */
    hw_json_kv_hex(j, "fo", m->exact_offset + m->load_bias - before); /* in the ELF's own space */
    if (build_id.n)
        put_build_id(j, build_id);
    hw_json_kv_hex(j, "off", m->exact_offset - before);
}

static void put_code(const struct hw_infra_regions *w, struct hw_json *j,
                     const struct hw_infra_region *r)
{
    const struct hw_mapping *m = hw_callsites_get_mapping(w->p->callsites, r->mapping);
    struct hw_bytes path = hw_strings_get(hw_callsites_strings(w->p->callsites), m->path);
    hw_json_begin_object(j);
    hw_json_kv_hex(j, "sa", r->start);
    hw_json_kv_hex(j, "sz", r->end - r->start);
    hw_json_kv_uint(j, "pf", 5); /* code is readable and executable */
    hw_json_key(j, "mf");
    hw_json_strn(j, path.p, path.n);
    put_file(w, j, r, r->start);
    hw_json_end_object(j);
}

static void put_stats(struct hw_json *j, const struct hw_smaps_row *s)
{
    const struct {
        const char *name;
        uint64_t kb;
    } stats[] = {{"pss", s->pss_kb},          {"pd", s->private_dirty_kb},
                 {"pc", s->private_clean_kb}, {"sd", s->shared_dirty_kb},
                 {"sc", s->shared_clean_kb},  {"sw", s->swap_kb}};
    hw_json_key(j, "bs");
    hw_json_begin_object(j);
    for (size_t i = 0; i < HW_ARRAY_LEN(stats); i++)
        if (stats[i].kb < HW_SMAPS_UNKNOWN / 1024)
            hw_json_kv_hex(j, stats[i].name, stats[i].kb * 1024);
    hw_json_end_object(j);
}

/* code: the region of a file within the mapping, or NULL. */
static void put_mapping(const struct hw_infra_regions *w, struct hw_json *j,
                        const struct hw_smaps_row *s, const struct hw_infra_region *code)
{
    const struct hw_strings *strings = hw_callsites_strings(w->p->callsites);
    struct hw_bytes path = hw_strings_get(strings, s->path);
    hw_json_begin_object(j);
    hw_json_kv_hex(j, "sa", s->start_address);
    hw_json_kv_hex(j, "sz", s->size_kb * 1024);
    if (s->protection_flags != HW_SMAPS_UNKNOWN)
        hw_json_kv_uint(j, "pf", hw_smaps_flags(s->protection_flags));
    hw_json_key(j, "mf");
    hw_json_strn(j, path.p, path.n);
    struct hw_bytes id = hw_strings_get(strings, s->module_debugid);
    if (s->elf_address != HW_SMAPS_UNKNOWN)
        hw_json_kv_hex(j, "fo", s->elf_address);
    else if (code)
        put_file(w, j, code, s->start_address);
    if (s->elf_address != HW_SMAPS_UNKNOWN && id.n) {
        hw_json_key(j, "id");
        hw_json_strn(j, id.p, id.n);
    }
    if (s->pss_kb || s->private_dirty_kb || s->swap_kb || s->private_clean_kb != HW_SMAPS_UNKNOWN)
        put_stats(j, s);
    hw_json_end_object(j);
}

typedef HW_VEC(const struct hw_smaps_row *) mapping_list;

static int by_address(const void *pa, const void *pb)
{
    const struct hw_smaps_row *a = *(const struct hw_smaps_row *const *)pa,
                              *b = *(const struct hw_smaps_row *const *)pb;
    return (a->start_address > b->start_address) - (a->start_address < b->start_address);
}

static bool has_address(const struct hw_smaps_row *s)
{
    return s->start_address != HW_SMAPS_UNKNOWN && s->size_kb && s->size_kb < UINT64_C(1) << 53;
}

static uint64_t end_of(const struct hw_smaps_row *s)
{
    return s->start_address > UINT64_MAX - s->size_kb * 1024 ? UINT64_MAX
                                                             : s->start_address + s->size_kb * 1024;
}

/* The mappings read nearest to ts_ns, if close enough; sorted, without overlaps. */
static int list_mappings(const struct hw_profile *p, hw_upid upid, int64_t ts_ns, mapping_list *out)
{
    static const int64_t same_moment_ns = 50 * 1000 * 1000;
    int64_t best = same_moment_ns + 1, at = 0;
    size_t kept = 0;
    const struct hw_process_rows rows = hw_by_process_of(&p->smaps_of, upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_smaps_row *s = &p->smaps.v[rows.v[i]];
        int64_t away = hw_sat_sub(s->ts_ns, ts_ns);
        away = away < 0 ? -away : away;
        if (has_address(s) && away < best) {
            best = away;
            at = s->ts_ns;
        }
    }
    for (size_t i = 0; best <= same_moment_ns && i < rows.n; i++) {
        const struct hw_smaps_row *s = &p->smaps.v[rows.v[i]];
        if (s->ts_ns == at && has_address(s) && hw_vec_push(out, s) < 0)
            return HW_ENOMEM;
    }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_address);
    for (size_t i = 0; i < out->n; i++)
        if (kept == 0 || out->v[i]->start_address >= end_of(out->v[kept - 1]))
            out->v[kept++] = out->v[i];
    out->n = kept;
    return HW_OK;
}

int hw_infra_regions_put(const struct hw_infra_regions *w, struct hw_json *j, hw_upid upid,
                         int64_t ts_ns)
{
    mapping_list mappings = {0};
    size_t i = region_from(w, upid, 0), k = 0;
    int rc = list_mappings(w->p, upid, ts_ns, &mappings);
    bool any = mappings.n || (i < w->v.n && w->v.v[i].upid.v == upid.v);
    if (rc < 0 || !any) {
        hw_vec_done(&mappings);
        return rc;
    }
    hw_json_key(j, "process_mmaps");
    hw_json_begin_object(j);
    hw_json_key(j, "vm_regions");
    hw_json_begin_array(j);
    for (;;) {
        const struct hw_infra_region *code =
            i < w->v.n && w->v.v[i].upid.v == upid.v ? &w->v.v[i] : NULL;
        const struct hw_smaps_row *s = k < mappings.n ? mappings.v[k] : NULL;
        if (!code && !s)
            break;
        if (code && (!s || code->end <= s->start_address)) {
            put_code(w, j, code);
            i++;
        } else if (code && code->start < end_of(s)) { /* where they overlap, the mapping wins */
            bool inside = code->start >= s->start_address;
            put_mapping(w, j, s, inside ? code : NULL);
            for (k++; i < w->v.n && w->v.v[i].upid.v == upid.v && w->v.v[i].start < end_of(s);)
                i++;
        } else {
            put_mapping(w, j, s, NULL);
            k++;
        }
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_vec_done(&mappings);
    return HW_OK;
}

void hw_infra_regions_done(struct hw_infra_regions *w)
{
    hw_vec_done(&w->v);
}
