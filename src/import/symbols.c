#include "import/symbols.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

/* ---- which frames there are ---- */

static int compare_places(const void *a, const void *b)
{
    const struct hw_frame_place *x = a, *y = b;
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
    uint64_t first = HW_ID_NONE;
    (void)hw_map64_get(&ix->by_name, f->name.v, &first); /* absent: the first of its name */
    if (hw_vec_push(&ix->next_of_name, (uint32_t)first) < 0 ||
        hw_map64_put(&ix->by_name, f->name.v, i) < 0)
        return HW_ENOMEM;
    if (f->mapping.v == HW_ID_NONE)
        return HW_OK;
    struct hw_frame_place p = {.rel_pc = f->rel_pc, .frame = i};
    int rc = module_of(ix, f->mapping, &p.module);
    if (rc == HW_OK && hw_vec_push(&ix->places, p) < 0)
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
    else if (ix->places.n)
        qsort(ix->places.v, ix->places.n, sizeof *ix->places.v, compare_places);
    return rc;
}

void hw_frame_index_done(struct hw_frame_index *ix)
{
    hw_vec_done(&ix->places);
    hw_vec_done(&ix->next_of_name);
    hw_map64_done(&ix->module_by_key);
    hw_map64_done(&ix->by_name);
}

static size_t first_place(const struct hw_frame_index *ix, uint32_t module, uint64_t rel_pc)
{
    const struct hw_frame_place want = {.module = module, .rel_pc = rel_pc};
    size_t lo = 0, hi = ix->places.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare_places(&ix->places.v[mid], &want) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
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

/* Looked up before the lines are read: most addresses of a shared symbol file may be of others. */
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
    size_t at = first_place(ix, module, address);
    const struct hw_frame_place *p = &ix->places.v[at];
    if (at == ix->places.n || p->module != module || p->rel_pc != address)
        return HW_OK;
    hw_vec_clear(lines);
    r = hw_pb_read(message);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_AddressSymbols_lines && f.wire == HW_PB_BYTES)
            rc = read_line(ix, f.bytes, lines);
    if (rc == HW_OK && lines->n > HW_MAX_SYMBOL_LINES)
        return count_damage(ix);
    struct hw_symbol_sets *sets = hw_callsites_symbol_sets(ix->profile->callsites);
    for (; rc == HW_OK && lines->n && at < ix->places.n; at++) {
        p = &ix->places.v[at];
        if (p->module != module || p->rel_pc != address)
            break;
        rc = hw_symbol_sets_put(sets, (hw_frame_id){p->frame}, lines->v, lines->n);
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
                                   1); /* symbols of what nobody sampled */
    line_list lines = {0};
    r = hw_pb_read(message);
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) == 1)
        if (f.number == HW_F_ModuleSymbols_address_symbols && f.wire == HW_PB_BYTES)
            rc = read_address(ix, (uint32_t)module, f.bytes, &lines);
    hw_vec_done(&lines);
    return rc;
}

/* ---- DeobfuscationMapping ---- */

struct deobfuscation {
    struct hw_frame_index *ix;
    struct hw_bytes package;
    bool runs; /* a process of the package is in the trace: its JIT code is the package's */
    struct hw_strbuf obfuscated, original;
};

static struct hw_bytes text_of(const struct hw_frame_index *ix, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(ix->profile->callsites), id);
}

/* Is the package a whole part of an installation path: "/pkg/" or "/pkg-"? */
static bool names_package(struct hw_bytes path, struct hw_bytes package)
{
    const uint8_t *p = path.p, *end = path.p + path.n;
    while (package.n && path.n && (size_t)(end - p) > package.n) {
        p = memmem(p, (size_t)(end - p), package.p, package.n);
        if (!p || p + package.n >= end)
            return false;
        if (p > path.p && p[-1] == '/' && (p[package.n] == '/' || p[package.n] == '-'))
            return true;
        p++;
    }
    return false;
}

static bool is_jit(struct hw_bytes path)
{
    return path.n == 0 || memmem(path.p, path.n, "memfd:", 6) ||
           memmem(path.p, path.n, "[anon", 5) || memmem(path.p, path.n, "jit-cache", 9);
}

static bool concerns(const struct deobfuscation *d, const struct hw_frame *f)
{
    if (f->mapping.v == HW_ID_NONE)
        return d->runs;
    struct hw_bytes path =
        text_of(d->ix, hw_callsites_get_mapping(d->ix->profile->callsites, f->mapping)->path);
    return names_package(path, d->package) || (d->runs && is_jit(path));
}

static void see_processes(struct deobfuscation *d)
{
    const struct hw_profile *p = d->ix->profile;
    for (size_t i = 0; i < p->processes.n && d->package.n; i++) {
        struct hw_bytes name = text_of(d->ix, p->processes.v[i].name);
        if (name.n >= d->package.n && memcmp(name.p, d->package.p, d->package.n) == 0 &&
            (name.n == d->package.n || name.p[d->package.n] == ':'))
            d->runs = true;
    }
}

static int apply(struct deobfuscation *d)
{
    struct hw_callsites *cs = d->ix->profile->callsites;
    hw_str_id raw, shown;
    uint64_t frame;
    if (d->obfuscated.failed || d->original.failed)
        return HW_ENOMEM;
    int rc = hw_profile_str(d->ix->profile, hw_bytes_of(d->obfuscated.p, d->obfuscated.n), &raw);
    if (rc < 0 || !hw_map64_get(&d->ix->by_name, raw.v, &frame))
        return rc;
    rc = hw_profile_str(d->ix->profile, hw_bytes_of(d->original.p, d->original.n), &shown);
    for (; rc == HW_OK && frame != HW_ID_NONE; frame = d->ix->next_of_name.v[frame])
        if (concerns(d, hw_callsites_get_frame(cs, (hw_frame_id){(uint32_t)frame})))
            rc = hw_symbol_sets_put_deobfuscated(hw_callsites_symbol_sets(cs),
                                                 (hw_frame_id){(uint32_t)frame}, shown);
    return rc;
}

struct member {
    struct hw_bytes obfuscated, original;
};

static struct member read_member(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct member m = {0};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ObfuscatedMember_obfuscated_name)
            m.obfuscated = f.bytes;
        else if (f.number == HW_F_ObfuscatedMember_deobfuscated_name)
            m.original = f.bytes;
    }
    return m;
}

static int read_class(struct deobfuscation *d, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct member self = {0};
    int rc = HW_OK;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ObfuscatedClass_obfuscated_name)
            self.obfuscated = f.bytes;
        else if (f.number == HW_F_ObfuscatedClass_deobfuscated_name)
            self.original = f.bytes;
    }
    r = hw_pb_read(message);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_ObfuscatedClass_obfuscated_methods || f.wire != HW_PB_BYTES)
            continue;
        struct member m = read_member(f.bytes);
        hw_strbuf_clear(&d->obfuscated);
        hw_strbuf_add(&d->obfuscated, self.obfuscated.p, self.obfuscated.n);
        hw_strbuf_addc(&d->obfuscated, '.');
        hw_strbuf_add(&d->obfuscated, m.obfuscated.p, m.obfuscated.n);
        hw_strbuf_clear(&d->original);
        if (!memchr(m.original.p ? m.original.p : (const uint8_t *)"", '.', m.original.n)) {
            hw_strbuf_add(&d->original, self.original.p, self.original.n);
            hw_strbuf_addc(&d->original, '.');
        }
        hw_strbuf_add(&d->original, m.original.p, m.original.n);
        rc = apply(d);
    }
    return rc;
}

int hw_import_deobfuscation(struct hw_frame_index *ix, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct deobfuscation d = {.ix = ix};
    int rc = HW_OK;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_DeobfuscationMapping_package_name)
            d.package = f.bytes;
    see_processes(&d);
    r = hw_pb_read(message);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_DeobfuscationMapping_obfuscated_classes && f.wire == HW_PB_BYTES)
            rc = read_class(&d, f.bytes);
    hw_strbuf_done(&d.obfuscated);
    hw_strbuf_done(&d.original);
    return rc;
}
