#include "model/append_profile.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

struct append {
    struct hw_callsites *into;
    const struct hw_callsites *from;
    const struct hw_strings *strings; /* of from */
    hw_mapping_id *mapping;           /* by from's */
    hw_frame_id *frame;
};

static int string_of(struct append *a, hw_str_id id, hw_str_id *out)
{
    return hw_strings_intern(hw_callsites_strings(a->into), hw_strings_get(a->strings, id), out);
}

static bool is_same_file(const struct hw_mapping *a, const struct hw_mapping *b)
{
    return a->build_id.v == b->build_id.v && a->path.v == b->path.v &&
           a->exact_offset == b->exact_offset && a->start_offset == b->start_offset;
}

/* Another process may have the same file at another address. Without a build id it may be a
 * different file, and a mapping without a file only has its address. */
static bool find_mapping(const struct append *a, const struct hw_mapping *m, hw_mapping_id *out)
{
    if (hw_strings_get(hw_callsites_strings(a->into), m->build_id).n == 0)
        return false;
    for (uint32_t i = 0; i < hw_callsites_n_mappings(a->into); i++)
        if (is_same_file(hw_callsites_get_mapping(a->into, (hw_mapping_id){i}), m)) {
            *out = (hw_mapping_id){i};
            return true;
        }
    return false;
}

static int add_mapping(struct append *a, uint32_t i)
{
    struct hw_mapping m = *hw_callsites_get_mapping(a->from, (hw_mapping_id){i});
    int rc = string_of(a, m.build_id, &m.build_id);
    if (rc == 0)
        rc = string_of(a, m.path, &m.path);
    if (rc < 0 || find_mapping(a, &m, &a->mapping[i]))
        return rc;
    return hw_callsites_mapping(a->into, &m, &a->mapping[i]);
}

static int add_symbols(struct append *a, hw_frame_id from, hw_frame_id to)
{
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(a->from);
    const struct hw_symbol_line *lines;
    size_t n = hw_symbol_sets_get(sets, from, &lines);
    struct hw_symbol_line *copy = calloc(n + 1, sizeof *copy);
    int rc = copy ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        copy[i] = lines[i];
        rc = string_of(a, lines[i].function, &copy[i].function);
        if (rc == 0)
            rc = string_of(a, lines[i].file, &copy[i].file);
    }
    if (rc == 0 && n)
        rc = hw_symbol_sets_put_managed(hw_callsites_symbol_sets(a->into), to, copy, n);
    free(copy);
    hw_str_id kind = hw_symbol_sets_get_kind(sets, from);
    if (rc == 0 && kind.v)
        rc = string_of(a, kind, &kind);
    if (rc == 0 && kind.v)
        rc = hw_symbol_sets_put_kind(hw_callsites_symbol_sets(a->into), to, kind);
    hw_str_id clear = hw_symbol_sets_get_deobfuscated(sets, from);
    if (rc == 0 && clear.v)
        rc = string_of(a, clear, &clear);
    if (rc == 0 && clear.v)
        rc = hw_symbol_sets_put_deobfuscated(hw_callsites_symbol_sets(a->into), to, clear);
    return rc;
}

static int add_frame(struct append *a, uint32_t i)
{
    struct hw_frame f = *hw_callsites_get_frame(a->from, (hw_frame_id){i});
    int rc = string_of(a, f.name, &f.name);
    if (f.mapping.v != HW_ID_NONE)
        f.mapping = a->mapping[f.mapping.v];
    if (rc == 0)
        rc = hw_callsites_frame(a->into, &f, &a->frame[i]);
    return rc < 0 ? rc : add_symbols(a, (hw_frame_id){i}, a->frame[i]);
}

int hw_callsites_append(struct hw_callsites *into, const struct hw_callsites *from,
                        hw_callsite_id *out)
{
    struct append a = {.into = into, .from = from};
    /* The accessor hands out the table for interning too; here it is only read. */
    a.strings = hw_callsites_strings((struct hw_callsites *)(uintptr_t)from);
    a.mapping = calloc(hw_callsites_n_mappings(from) + 1, sizeof *a.mapping);
    a.frame = calloc(hw_callsites_n_frames(from) + 1, sizeof *a.frame);
    int rc = a.mapping && a.frame ? HW_OK : HW_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < hw_callsites_n_mappings(from); i++)
        rc = add_mapping(&a, i);
    for (uint32_t i = 0; rc == 0 && i < hw_callsites_n_frames(from); i++)
        rc = add_frame(&a, i);
    for (uint32_t i = 0; rc == 0 && i < hw_callsites_count(from); i++) {
        const struct hw_callsite *c = hw_callsites_get(from, (hw_callsite_id){i});
        hw_callsite_id parent = c->parent;
        if (parent.v != HW_ID_NONE)
            parent = out[parent.v]; /* parents come before their children */
        rc = hw_callsites_child(into, parent, a.frame[c->frame.v], &out[i]);
    }
    free(a.mapping);
    free(a.frame);
    return rc;
}
