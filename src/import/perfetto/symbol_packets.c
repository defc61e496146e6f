#include "import/perfetto/symbol_packets.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

/* ---- index of frames ---- */

static int compare_frames(const void *a, const void *b)
{
    const struct hw_indexed_frame *x = a, *y = b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    if (x->rel_pc != y->rel_pc)
        return x->rel_pc < y->rel_pc ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int module_of(struct hw_frame_index *ix, hw_mapping_id mapping, uint32_t *out)
{
    const struct hw_mapping *m = hw_callsites_get_mapping(ix->profile->callsites, mapping);
    uint64_t key = (uint64_t)m->path.v << 32 | m->build_id.v, found;
    if (!hw_map64_get(&ix->module_by_key, key, &found)) {
        found = mapping.v;
        if (hw_map64_put(&ix->module_by_key, key, found) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)found;
    return HW_OK;
}

static int index_frame(struct hw_frame_index *ix, uint32_t i)
{
    const struct hw_frame *f = hw_callsites_get_frame(ix->profile->callsites, (hw_frame_id){i});
    if (f->mapping.v == HW_ID_NONE)
        return HW_OK;
    struct hw_indexed_frame p = {.rel_pc = f->rel_pc, .frame = i};
    int rc = module_of(ix, f->mapping, &p.module);
    if (rc == HW_OK && hw_vec_push(&ix->frames, p) < 0)
        rc = HW_ENOMEM;
    return rc;
}

int hw_frame_index_init(struct hw_frame_index *ix, struct hw_profile *profile)
{
    *ix = (struct hw_frame_index){.profile = profile};
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < hw_callsites_n_frames(profile->callsites); i++)
        rc = index_frame(ix, i);
    if (rc < 0)
        hw_frame_index_done(ix);
    else if (ix->frames.n)
        qsort(ix->frames.v, ix->frames.n, sizeof *ix->frames.v, compare_frames);
    return rc;
}

void hw_frame_index_done(struct hw_frame_index *ix)
{
    hw_vec_done(&ix->frames);
    hw_map64_done(&ix->module_by_key);
}

static size_t first_frame(const struct hw_frame_index *ix, uint32_t module, uint64_t rel_pc)
{
    const struct hw_indexed_frame want = {.module = module, .rel_pc = rel_pc};
    return HW_LOWER_BOUND(mid, 0, ix->frames.n, compare_frames(&ix->frames.v[mid], &want) < 0);
}

/* ---- ModuleSymbols ---- */

typedef HW_VEC(struct hw_symbol_line) line_list;

static int count_damage(struct hw_frame_index *ix)
{
    return hw_profile_stat_add(ix->profile, "stackprofile_parser_error", -1, HW_STAT_ERROR, 1);
}

static int read_line(struct hw_frame_index *ix, struct hw_bytes message, line_list *lines)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_symbol_line line = {0};
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_Line_function_name)
            rc = hw_profile_str(ix->profile, f.bytes, &line.function);
        else if (f.number == HW_F_Line_source_file_name)
            rc = hw_profile_str(ix->profile, f.bytes, &line.file);
        else if (f.number == HW_F_Line_line_number)
            line.line = (uint32_t)f.value;
    }
    if (rc == HW_OK && hw_vec_push(lines, line) < 0)
        rc = HW_ENOMEM;
    return rc;
}

/* Looks the address up before reading its lines: a shared symbol file may have mostly others. */
static int read_address(struct hw_frame_index *ix, uint32_t module, struct hw_bytes message,
                        line_list *lines)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t address = 0;
    int rc = HW_OK;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_AddressSymbols_address && f.wire == HW_PB_VARINT)
            address = f.value;
    size_t at = first_frame(ix, module, address);
    const struct hw_indexed_frame *p = &ix->frames.v[at];
    if (at == ix->frames.n || p->module != module || p->rel_pc != address)
        return HW_OK;
    hw_str_id type = {0};
    hw_vec_clear(lines);
    r = hw_pb_read(message);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_AddressSymbols_lines && f.wire == HW_PB_BYTES)
            rc = read_line(ix, f.bytes, lines);
        else if (f.number == HW_F_AddressSymbols_new_type && f.wire == HW_PB_BYTES)
            rc = hw_profile_str(ix->profile, f.bytes, &type);
    if (rc == HW_OK && lines->n > HW_MAX_SYMBOL_LINES)
        return count_damage(ix);
    struct hw_symbol_sets *sets = hw_callsites_symbol_sets(ix->profile->callsites);
    for (; rc == HW_OK && (lines->n || type.v) && at < ix->frames.n; at++) {
        p = &ix->frames.v[at];
        if (p->module != module || p->rel_pc != address)
            break;
        if (lines->n)
            rc = hw_symbol_sets_put(sets, (hw_frame_id){p->frame}, lines->v, lines->n);
        if (rc == HW_OK && type.v)
            rc = hw_map64_put(&ix->profile->new_types, p->frame, type.v);
    }
    return rc;
}

int hw_import_module_symbols(struct hw_frame_index *ix, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    hw_str_id path = {0}, build_id = {0};
    uint64_t module;
    int rc = HW_OK, next;
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) == 1) {
        if (f.number == HW_F_ModuleSymbols_path)
            rc = hw_profile_str(ix->profile, f.bytes, &path);
        else if (f.number == HW_F_ModuleSymbols_build_id)
            rc = hw_profile_str(ix->profile, f.bytes, &build_id);
    }
    if (rc < 0)
        return rc;
    if (!hw_map64_get(&ix->module_by_key, (uint64_t)path.v << 32 | build_id.v, &module))
        return hw_profile_stat_add(ix->profile, "module_symbols_without_frames", -1, HW_STAT_INFO,
                                   1); /* symbols of a module without samples */
    line_list lines = {0};
    r = hw_pb_read(message);
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) == 1)
        if (f.number == HW_F_ModuleSymbols_address_symbols && f.wire == HW_PB_BYTES)
            rc = read_address(ix, (uint32_t)module, f.bytes, &lines);
    hw_vec_done(&lines);
    return rc;
}

int hw_import_check_mappings(struct hw_profile *p)
{
    static const char tmp[] = "/data/local/tmp/";
    const struct hw_callsites *cs = p->callsites;
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    int64_t n = 0;
    for (uint32_t i = 0; i < hw_callsites_n_mappings(cs); i++) {
        const struct hw_mapping *m = hw_callsites_get_mapping(cs, (hw_mapping_id){i});
        struct hw_bytes path = hw_strings_get(strings, m->path);
        n += path.n > sizeof tmp - 1 && memcmp(path.p, tmp, sizeof tmp - 1) == 0 &&
             hw_strings_get(strings, m->build_id).n == 0;
    }
    return n ? hw_profile_stat_set(p, "symbolization_tmp_build_id_not_found", -1, HW_STAT_ERROR, n)
             : HW_OK;
}
