/*
 * Strings are numbered over the whole sequence: their iid is their id in `strings`, so that iid 0
 * is "" as readers expect, and bit k of sent[id] is set if it was written as a string of kind k.
 * Mappings, frames and callstacks get iids from 1 when first used; each target has vectors id ->
 * iid.
 */
#include "trace/profile_tables.h"

#include "base/error.h"
#include "schema/fields.h"

#include "base/banned.h"

enum string_kind { BUILD_ID, MAPPING_PATH, FUNCTION_NAME, SOURCE_PATH, STRING_KIND_COUNT };

static const uint32_t string_field[STRING_KIND_COUNT] = {
    [BUILD_ID] = HW_F_InternedData_build_ids,
    [MAPPING_PATH] = HW_F_InternedData_mapping_paths,
    [FUNCTION_NAME] = HW_F_InternedData_function_names,
    [SOURCE_PATH] = HW_F_InternedData_source_paths,
};

/* "" is iid 0 of every kind, so that a frame without a name resolves. */
static int send_empty_strings(struct hw_profile_tables *t)
{
    for (int k = 0; k < STRING_KIND_COUNT; k++) {
        hw_pb_begin(&t->interned, string_field[k]);
        hw_pb_uint(&t->interned, HW_F_InternedString_iid, 0);
        hw_pb_bytes(&t->interned, HW_F_InternedString_str, "", 0);
        hw_pb_end(&t->interned);
    }
    return hw_vec_push(&t->sent, (uint8_t)((1 << STRING_KIND_COUNT) - 1)) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_profile_tables_init(struct hw_profile_tables *t)
{
    *t = (struct hw_profile_tables){0};
    int rc = hw_strings_new(&t->strings);
    return rc == HW_OK ? send_empty_strings(t) : rc;
}

void hw_profile_tables_done(struct hw_profile_tables *t)
{
    hw_strings_free(t->strings);
    hw_vec_done(&t->sent);
    hw_vec_done(&t->path);
    hw_pb_done(&t->interned);
}

void hw_profile_iids_done(struct hw_profile_iids *x)
{
    hw_vec_done(&x->mappings);
    hw_vec_done(&x->frames);
    hw_vec_done(&x->sites);
    hw_map64_done(&x->identities);
}

/* One target's callsites, and the iids written for them. */
struct run {
    struct hw_profile_tables *t;
    struct hw_profile_iids *x;
    const struct hw_callsites *cs;
};

static int string_iid(const struct run *r, hw_str_id id, enum string_kind kind, uint64_t *out)
{
    /* The target's table is only read; the accessor takes a non-const pointer. */
    const struct hw_strings *from = hw_callsites_strings((struct hw_callsites *)(uintptr_t)r->cs);
    struct hw_bytes text = hw_strings_get(from, id);
    hw_str_id mine;
    int rc = hw_strings_intern(r->t->strings, text, &mine);
    if (rc < 0)
        return rc;
    while (r->t->sent.n <= mine.v)
        if (hw_vec_push(&r->t->sent, 0) < 0)
            return HW_ENOMEM;
    *out = mine.v;
    if (r->t->sent.v[mine.v] & 1u << kind)
        return HW_OK;
    hw_pb_begin(&r->t->interned, string_field[kind]);
    hw_pb_uint(&r->t->interned, HW_F_InternedString_iid, mine.v);
    hw_pb_bytes(&r->t->interned, HW_F_InternedString_str, text.p, text.n);
    hw_pb_end(&r->t->interned);
    r->t->sent.v[mine.v] = (uint8_t)(r->t->sent.v[mine.v] | 1u << kind);
    return HW_OK;
}

static int slot_of(struct hw_iids *v, size_t id, uint64_t **out)
{
    while (v->n <= id)
        if (hw_vec_push(v, 0) < 0)
            return HW_ENOMEM;
    *out = &v->v[id];
    return HW_OK;
}

static int mapping_iid(const struct run *r, hw_mapping_id id, uint64_t *out)
{
    uint64_t *slot, build_id = 0, path = 0;
    if (id.v == HW_ID_NONE) {
        *out = 0;
        return HW_OK;
    }
    int rc = slot_of(&r->x->mappings, id.v, &slot);
    if (rc < 0 || (*out = *slot))
        return rc;
    const struct hw_mapping *m = hw_callsites_get_mapping(r->cs, id);
    rc = string_iid(r, m->build_id, BUILD_ID, &build_id);
    if (rc == HW_OK)
        rc = string_iid(r, m->path, MAPPING_PATH, &path);
    if (rc < 0)
        return rc;
    struct hw_pb *pb = &r->t->interned;
    *out = *slot = ++r->t->last_mapping;
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

/*
 * Readers identify frames of a mapping by address and name, and those without a mapping by name,
 * file and line. If two frames are the same to them, so are two callstacks, whose values they then
 * reject. So code with an address but no mapping is put into an unnamed mapping.
 */
static int mapping_of_frame(const struct run *r, const struct hw_frame *f, uint64_t *out)
{
    if (f->mapping.v != HW_ID_NONE || f->rel_pc == 0)
        return mapping_iid(r, f->mapping, out);
    if (r->t->unnamed == 0) {
        r->t->unnamed = ++r->t->last_mapping;
        hw_pb_begin(&r->t->interned, HW_F_InternedData_mappings);
        hw_pb_uint(&r->t->interned, HW_F_Mapping_iid, r->t->unnamed);
        hw_pb_end(&r->t->interned);
    }
    *out = r->t->unnamed;
    return HW_OK;
}

/* The address of a function without one is made of its file and line, the same in every trace; if
 * another frame has that address, another one is made. */
static int address_of(const struct run *r, const struct hw_frame *f, uint64_t mapping,
                      uint64_t name, uint64_t *out)
{
    const struct hw_strings *from = hw_callsites_strings((struct hw_callsites *)(uintptr_t)r->cs);
    struct hw_bytes file = hw_strings_get(from, f->file);
    uint64_t of_file = file.n ? hw_hash_bytes(file.p, file.n) : 0, *whole;
    uint64_t mine = hw_hash_mix(hw_hash_mix(of_file, f->line), f->rel_pc);
    bool fresh;
    *out = f->rel_pc ? f->rel_pc : (of_file >> 33) << 20 | (f->line & 0xfffff);
    if (mapping == 0) {
        *out = 0; /* readers identify these by file and line */
        return HW_OK;
    }
    for (;;) {
        uint64_t key = hw_hash_mix(hw_hash_mix(mapping, name), *out);
        if (hw_map64_at(&r->x->identities, key, &whole, &fresh) < 0)
            return HW_ENOMEM;
        if (fresh)
            *whole = mine;
        if (*whole == mine)
            return HW_OK;
        *out = (hw_hash_mix(*out, mine) >> 12) | UINT64_C(1) << 51;
    }
}

static int frame_iid(const struct run *r, hw_frame_id id, uint64_t *out)
{
    uint64_t *slot, name = 0, mapping = 0, path = 0, address = 0;
    int rc = slot_of(&r->x->frames, id.v, &slot);
    if (rc < 0 || (*out = *slot))
        return rc;
    const struct hw_frame *f = hw_callsites_get_frame(r->cs, id);
    rc = string_iid(r, f->name, FUNCTION_NAME, &name);
    if (rc == HW_OK)
        rc = mapping_of_frame(r, f, &mapping);
    if (rc == HW_OK)
        rc = address_of(r, f, mapping, name, &address);
    if (rc == HW_OK && f->file.v)
        rc = string_iid(r, f->file, SOURCE_PATH, &path);
    if (rc < 0)
        return rc;
    struct hw_pb *pb = &r->t->interned;
    *out = *slot = ++r->t->last_frame;
    hw_pb_begin(pb, HW_F_InternedData_frames);
    hw_pb_uint(pb, HW_F_Frame_iid, *out);
    hw_pb_uint(pb, HW_F_Frame_function_name_id, name);
    hw_pb_uint(pb, HW_F_Frame_mapping_id, mapping);
    hw_pb_uint(pb, HW_F_Frame_rel_pc, address);
    if (path)
        hw_pb_uint(pb, HW_F_Frame_source_path_iid, path);
    if (f->line)
        hw_pb_uint(pb, HW_F_Frame_line_number, f->line);
    hw_pb_end(pb);
    return HW_OK;
}

int hw_profile_tables_site(struct hw_profile_tables *t, struct hw_profile_iids *x,
                           const struct hw_callsites *cs, hw_callsite_id id, uint64_t *out)
{
    const struct run run = {t, x, cs}, *r = &run;
    uint64_t *slot, iid;
    int rc = slot_of(&r->x->sites, id.v, &slot);
    if (rc < 0 || (*out = *slot))
        return rc;
    size_t depth = (size_t)hw_callsites_get(r->cs, id)->depth + 1;
    if (hw_vec_reserve(&r->t->path, depth) < 0)
        return HW_ENOMEM;
    (void)hw_callsites_path(r->cs, id, r->t->path.v, depth); /* depth is its full length */
    for (size_t i = 0; i < depth; i++) {
        rc = frame_iid(r, r->t->path.v[i], &iid);
        if (rc < 0)
            return rc;
    }
    struct hw_pb *pb = &r->t->interned;
    *out = *slot = ++r->t->last_site;
    hw_pb_begin(pb, HW_F_InternedData_callstacks);
    hw_pb_uint(pb, HW_F_Callstack_iid, *out);
    for (size_t i = 0; i < depth; i++)
        hw_pb_uint(pb, HW_F_Callstack_frame_ids, r->x->frames.v[r->t->path.v[i].v]);
    hw_pb_end(pb);
    return HW_OK;
}
