/*
 * Three tables and their indexes. Mappings and frames are found by a hash of their content. There
 * are far more callsites than either (10^7 in a large trace), and most have one child: a node has
 * its first child, only the others are in an index. The index holds row numbers, 4 bytes each at a
 * load of at most 1/2, and compares the rows themselves. So a new callstack takes one lookup in the
 * index, where it branches off a known one, and rows written sequentially from there on. A frame
 * keeps the name with which it was interned beside the shown one: hw_callsites_set_frame_name must
 * not change its key, else the same code address would get a second row.
 */
#include "model/callsites.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

struct frame_row {
    struct hw_frame shown;
    hw_str_id key_name;
    uint32_t next; /* row with the same hash, HW_ID_NONE = none */
};

struct mapping_row {
    struct hw_mapping m;
    uint32_t next;
};

struct site_row {
    struct hw_callsite c;
    uint32_t first_child; /* HW_ID_NONE = none yet */
};

struct hw_callsites {
    struct hw_strings *strings;
    HW_VEC(struct mapping_row) mappings;
    HW_VEC(struct frame_row) frames;
    HW_VEC(struct site_row) sites;
    struct hw_map64 mapping_by_hash, frame_by_hash; /* hash -> newest row of the chain */
    uint32_t *site_slots; /* roots and later children: site + 1, 0 = free; owned */
    size_t site_mask;     /* number of slots - 1 */
    size_t n_indexed;     /* slots in use */
    hw_str_id types_path; /* of HW_TYPES_MAPPING; 0: no such mapping */
    struct hw_symbol_sets symbol_sets;
};

int hw_callsites_new(struct hw_callsites **out)
{
    struct hw_callsites *cs = calloc(1, sizeof *cs);
    if (!cs)
        return HW_ENOMEM;
    int rc = hw_strings_new(&cs->strings);
    if (rc < 0) {
        free(cs);
        return rc;
    }
    *out = cs;
    return HW_OK;
}

void hw_callsites_free(struct hw_callsites *cs)
{
    if (!cs)
        return;
    hw_strings_free(cs->strings);
    hw_vec_done(&cs->mappings);
    hw_vec_done(&cs->frames);
    hw_vec_done(&cs->sites);
    hw_map64_done(&cs->mapping_by_hash);
    hw_map64_done(&cs->frame_by_hash);
    hw_symbol_sets_done(&cs->symbol_sets);
    free(cs->site_slots);
    free(cs);
}

struct hw_strings *hw_callsites_strings(struct hw_callsites *cs)
{
    return cs->strings;
}

/* Avoids the one value that is no key of map64. */
static uint64_t as_key(uint64_t hash)
{
    return hash == HW_MAP64_NO_KEY ? 0 : hash;
}

static bool same_mapping(const struct hw_mapping *a, const struct hw_mapping *b)
{
    return a->build_id.v == b->build_id.v && a->path.v == b->path.v && a->start == b->start &&
           a->end == b->end && a->exact_offset == b->exact_offset &&
           a->start_offset == b->start_offset && a->load_bias == b->load_bias;
}

int hw_callsites_mapping(struct hw_callsites *cs, const struct hw_mapping *m, hw_mapping_id *out)
{
    uint64_t h = hw_hash_mix(hw_hash_mix(hw_hash_seed(), m->start), m->end);
    h = hw_hash_mix(h, (uint64_t)m->build_id.v << 32 | m->path.v);
    h = hw_hash_mix(h, m->exact_offset);
    h = as_key(hw_hash_mix(h, m->start_offset ^ m->load_bias));
    uint64_t first = HW_ID_NONE;
    (void)hw_map64_get(&cs->mapping_by_hash, h, &first); /* absent: an empty chain */
    for (uint32_t i = (uint32_t)first; i != HW_ID_NONE; i = cs->mappings.v[i].next)
        if (same_mapping(&cs->mappings.v[i].m, m)) {
            out->v = i;
            return HW_OK;
        }
    if (cs->mappings.n >= HW_ID_NONE)
        return HW_ELIMIT;
    if (hw_vec_reserve(&cs->mappings, cs->mappings.n + 1) < 0 ||
        hw_map64_put(&cs->mapping_by_hash, h, cs->mappings.n) < 0)
        return HW_ENOMEM;
    out->v = (uint32_t)cs->mappings.n;
    cs->mappings.v[cs->mappings.n++] = (struct mapping_row){*m, (uint32_t)first};
    struct hw_bytes path = hw_strings_get(cs->strings, m->path);
    if (path.n && path.p[0] == '/') /* as in traces' paths */
        path = hw_bytes_of(path.p + 1, path.n - 1);
    if (path.n == sizeof HW_TYPES_MAPPING - 1 && memcmp(path.p, HW_TYPES_MAPPING, path.n) == 0)
        cs->types_path = m->path;
    return HW_OK;
}

bool hw_callsites_has_types(const struct hw_callsites *cs)
{
    return cs->types_path.v != 0;
}

bool hw_callsites_is_type(const struct hw_callsites *cs, const struct hw_frame *f)
{
    return cs->types_path.v && f->mapping.v != HW_ID_NONE &&
           cs->mappings.v[f->mapping.v].m.path.v == cs->types_path.v;
}

int hw_callsites_frame(struct hw_callsites *cs, const struct hw_frame *f, hw_frame_id *out)
{
    uint64_t h = hw_hash_mix(hw_hash_seed(), (uint64_t)f->mapping.v << 32 | f->name.v);
    h = hw_hash_mix(h, f->rel_pc);
    if (f->line || f->file.v)
        h = hw_hash_mix(h, (uint64_t)f->file.v << 32 | f->line);
    h = as_key(h);
    uint64_t first = HW_ID_NONE;
    (void)hw_map64_get(&cs->frame_by_hash, h, &first); /* absent: an empty chain */
    for (uint32_t i = (uint32_t)first; i != HW_ID_NONE; i = cs->frames.v[i].next) {
        const struct frame_row *row = &cs->frames.v[i];
        if (row->shown.rel_pc == f->rel_pc && row->shown.mapping.v == f->mapping.v &&
            row->shown.line == f->line && row->shown.file.v == f->file.v &&
            row->key_name.v == f->name.v) {
            out->v = i;
            return HW_OK;
        }
    }
    if (cs->frames.n >= HW_ID_NONE)
        return HW_ELIMIT;
    if (hw_vec_reserve(&cs->frames, cs->frames.n + 1) < 0 ||
        hw_map64_put(&cs->frame_by_hash, h, cs->frames.n) < 0)
        return HW_ENOMEM;
    out->v = (uint32_t)cs->frames.n;
    cs->frames.v[cs->frames.n++] = (struct frame_row){*f, f->name, (uint32_t)first};
    return HW_OK;
}

int hw_callsites_frame_apart(struct hw_callsites *cs, const struct hw_frame *f, hw_frame_id *out)
{
    if (cs->frames.n >= HW_ID_NONE)
        return HW_ELIMIT;
    out->v = (uint32_t)cs->frames.n;
    return hw_vec_push(&cs->frames, ((struct frame_row){*f, f->name, HW_ID_NONE})) < 0 ? HW_ENOMEM
                                                                                       : HW_OK;
}

static size_t site_home(const struct hw_callsites *cs, hw_callsite_id parent, hw_frame_id frame)
{
    return (size_t)hw_hash_mix(hw_hash_seed(), (uint64_t)parent.v << 32 | frame.v) & cs->site_mask;
}

/* The slot of the child, or the free one where it belongs. */
static size_t site_slot(const struct hw_callsites *cs, hw_callsite_id parent, hw_frame_id frame)
{
    size_t at = site_home(cs, parent, frame);
    for (; cs->site_slots[at]; at = (at + 1) & cs->site_mask) {
        const struct hw_callsite *c = &cs->sites.v[cs->site_slots[at] - 1].c;
        if (c->parent.v == parent.v && c->frame.v == frame.v)
            break;
    }
    return at;
}

/* Fills the empty index with every row that is not its parent's first child. Batches of slots are
 * prefetched, so that their cache misses overlap. */
static void index_sites(struct hw_callsites *cs)
{
    enum { TOGETHER = 16 };
    uint32_t site[TOGETHER];
    size_t home[TOGETHER], i = 0;
    cs->n_indexed = 0;
    while (i < cs->sites.n) {
        size_t n = 0;
        for (; n < TOGETHER && i < cs->sites.n; i++) {
            const struct hw_callsite *c = &cs->sites.v[i].c;
            if (c->parent.v != HW_ID_NONE && cs->sites.v[c->parent.v].first_child == i)
                continue;
            site[n] = (uint32_t)i;
            home[n] = site_home(cs, c->parent, c->frame);
            hw_prefetch_write(&cs->site_slots[home[n++]]);
        }
        for (size_t k = 0; k < n; k++) { /* all differ: take the first free slot */
            size_t at = home[k];
            while (cs->site_slots[at])
                at = (at + 1) & cs->site_mask;
            cs->site_slots[at] = site[k] + 1;
        }
        cs->n_indexed += n;
    }
}

static int grow_site_slots(struct hw_callsites *cs)
{
    size_t n = cs->site_slots ? (cs->site_mask + 1) * 2 : 1024;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return HW_ENOMEM;
    free(cs->site_slots);
    cs->site_slots = slots;
    cs->site_mask = n - 1;
    index_sites(cs);
    return HW_OK;
}

/* Adds a row; the caller adds it to the parent or the index. */
static int add_site(struct hw_callsites *cs, hw_callsite_id parent, hw_frame_id frame,
                    hw_callsite_id *out)
{
    if (cs->sites.n >= HW_ID_NONE - 1)
        return HW_ELIMIT;
    if (hw_vec_reserve(&cs->sites, cs->sites.n + 1) < 0)
        return HW_ENOMEM;
    uint32_t depth = parent.v == HW_ID_NONE ? 0 : cs->sites.v[parent.v].c.depth + 1;
    out->v = (uint32_t)cs->sites.n;
    cs->sites.v[cs->sites.n++] = (struct site_row){{parent, frame, depth}, HW_ID_NONE};
    return HW_OK;
}

static int later_child(struct hw_callsites *cs, hw_callsite_id parent, hw_frame_id frame,
                       hw_callsite_id *out)
{
    if ((cs->n_indexed + 1) * 2 > (cs->site_slots ? cs->site_mask + 1 : 0)) {
        int rc = grow_site_slots(cs);
        if (rc < 0)
            return rc;
    }
    size_t at = site_slot(cs, parent, frame);
    if (cs->site_slots[at]) {
        out->v = cs->site_slots[at] - 1;
        return HW_OK;
    }
    int rc = add_site(cs, parent, frame, out);
    if (rc < 0)
        return rc;
    cs->site_slots[at] = out->v + 1;
    cs->n_indexed++;
    return HW_OK;
}

int hw_callsites_child(struct hw_callsites *cs, hw_callsite_id parent, hw_frame_id frame,
                       hw_callsite_id *out)
{
    if (parent.v == HW_ID_NONE)
        return later_child(cs, parent, frame, out);
    uint32_t first = cs->sites.v[parent.v].first_child;
    if (first == HW_ID_NONE) {
        int rc = add_site(cs, parent, frame, out);
        if (rc == HW_OK)
            cs->sites.v[parent.v].first_child = out->v;
        return rc;
    }
    if (cs->sites.v[first].c.frame.v != frame.v)
        return later_child(cs, parent, frame, out);
    out->v = first;
    return HW_OK;
}

/* Removes the newest callsites, down to n. */
static void drop_sites(struct hw_callsites *cs, size_t n)
{
    if (cs->sites.n == n)
        return;
    while (cs->sites.n > n) {
        uint32_t parent = cs->sites.v[--cs->sites.n].c.parent.v;
        if (parent != HW_ID_NONE && cs->sites.v[parent].first_child == cs->sites.n)
            cs->sites.v[parent].first_child = HW_ID_NONE;
    }
    if (cs->site_slots) {
        memset(cs->site_slots, 0, (cs->site_mask + 1) * sizeof *cs->site_slots);
        index_sites(cs);
    }
}

int hw_callsites_intern(struct hw_callsites *cs, const hw_frame_id *root_first, size_t n,
                        hw_callsite_id *out)
{
    if (n == 0 || n > HW_MAX_CALLSITE_DEPTH)
        return HW_EINVAL;
    size_t before = cs->sites.n;
    hw_callsite_id at = {HW_ID_NONE};
    for (size_t i = 0; i < n; i++) {
        int rc = hw_callsites_child(cs, at, root_first[i], &at);
        if (rc < 0) {
            drop_sites(cs, before);
            return rc;
        }
    }
    *out = at;
    return HW_OK;
}

void hw_callsites_set_frame_name(struct hw_callsites *cs, hw_frame_id f, hw_str_id name)
{
    cs->frames.v[f.v].shown.name = name;
}

void hw_callsites_set_frame(struct hw_callsites *cs, hw_frame_id f, const struct hw_frame *shown)
{
    cs->frames.v[f.v].shown = *shown;
}

struct hw_symbol_sets *hw_callsites_symbol_sets(struct hw_callsites *cs)
{
    return &cs->symbol_sets;
}

const struct hw_symbol_sets *hw_callsites_get_symbol_sets(const struct hw_callsites *cs)
{
    return &cs->symbol_sets;
}

size_t hw_callsites_n_mappings(const struct hw_callsites *cs)
{
    return cs->mappings.n;
}

size_t hw_callsites_n_frames(const struct hw_callsites *cs)
{
    return cs->frames.n;
}

size_t hw_callsites_count(const struct hw_callsites *cs)
{
    return cs->sites.n;
}

const struct hw_mapping *hw_callsites_get_mapping(const struct hw_callsites *cs, hw_mapping_id id)
{
    return &cs->mappings.v[id.v].m;
}

const struct hw_frame *hw_callsites_get_frame(const struct hw_callsites *cs, hw_frame_id id)
{
    return &cs->frames.v[id.v].shown;
}

const struct hw_callsite *hw_callsites_get(const struct hw_callsites *cs, hw_callsite_id id)
{
    return &cs->sites.v[id.v].c;
}

size_t hw_callsites_path(const struct hw_callsites *cs, hw_callsite_id id, hw_frame_id *out,
                         size_t max)
{
    size_t n = (size_t)cs->sites.v[id.v].c.depth + 1;
    while (id.v != HW_ID_NONE) {
        const struct hw_callsite *c = &cs->sites.v[id.v].c;
        if (c->depth < max)
            out[c->depth] = c->frame;
        id = c->parent;
    }
    return n;
}

size_t hw_callsites_bytes(const struct hw_callsites *cs)
{
    return hw_strings_bytes(cs->strings) + cs->mappings.cap * sizeof *cs->mappings.v +
           cs->frames.cap * sizeof *cs->frames.v + cs->sites.cap * sizeof *cs->sites.v +
           hw_map64_bytes(&cs->mapping_by_hash) + hw_map64_bytes(&cs->frame_by_hash) +
           (cs->site_slots ? (cs->site_mask + 1) * sizeof *cs->site_slots : 0);
}

bool hw_build_id_is_text(struct hw_bytes raw)
{
    enum { CHROME_ID = 33 };
    if (raw.n != CHROME_ID)
        return false;
    for (size_t i = 0; i < raw.n; i++)
        if (!isxdigit(raw.p[i]))
            return false;
    return true;
}

void hw_build_id_add(struct hw_strbuf *out, struct hw_bytes raw)
{
    static const char digits[] = "0123456789abcdef";
    if (hw_build_id_is_text(raw)) {
        hw_strbuf_add(out, raw.p, raw.n);
        return;
    }
    for (size_t i = 0; i < raw.n; i++) {
        hw_strbuf_addc(out, digits[raw.p[i] >> 4]);
        hw_strbuf_addc(out, digits[raw.p[i] & 15]);
    }
}

bool hw_breakpad_module_add(struct hw_strbuf *out, struct hw_bytes path, struct hw_bytes hex)
{
    enum { WHOLE_ID = 40, KEPT_BYTES = 16 };
    static const char *const libraries[] = {"libmonochrome_64.so", "libchrome.so",
                                            "libmonochrome.so", "libwebviewchromium.so",
                                            "libchromium_android_linker.so"};
    /* A GUID: three little-endian numbers, then bytes. */
    static const uint8_t order[KEPT_BYTES] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    bool is_known = false;
    for (size_t i = 0; i < HW_ARRAY_LEN(libraries); i++)
        is_known |= hw_bytes_end_with(path, libraries[i]);
    if (!is_known || hex.n < WHOLE_ID)
        return false;
    for (size_t i = 0; i < HW_ARRAY_LEN(order); i++)
        hw_strbuf_add(out, hex.p + 2 * (size_t)order[i], 2);
    hw_strbuf_addc(out, '0'); /* its age */
    return true;
}
