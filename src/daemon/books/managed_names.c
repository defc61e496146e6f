#include "daemon/books/managed_names.h"

#include <string.h>

#include "base/error.h"

#include "base/banned.h"

/* ---- drain thread ---- */

void hw_managed_names_done(struct hw_managed_names *m)
{
    hw_map64_done(&m->ids);
    hw_vec_done(&m->names);
}

int hw_managed_seen(struct hw_managed_names *m, uint64_t id)
{
    uint64_t *named;
    bool fresh;
    if (id == HW_MAP64_NO_KEY) /* no client sends this: its frame stays without a name */
        return HW_OK;
    int rc = hw_map64_at(&m->ids, id, &named, &fresh);
    if (rc < 0 || !fresh)
        return rc;
    *named = false;
    m->n_unnamed++;
    return HW_OK;
}

static bool keep(struct hw_managed_names *m, struct hw_arena *arena, const struct hw_rec_name *r,
                 const uint8_t *text, size_t n)
{
    uint64_t *named;
    bool fresh;
    if (m->names.n >= HW_MAX_MANAGED_NAMES || r->id == HW_MAP64_NO_KEY)
        return false;
    struct hw_managed_name *name = hw_arena_alloc(arena, sizeof *name + n);
    if (!name || hw_vec_push(&m->names, name) < 0)
        return false;
    *name = (struct hw_managed_name){r->id, r->line, r->n_function, r->n_file, r->n_module};
    memcpy(name->text, text, n);
    if (hw_map64_at(&m->ids, r->id, &named, &fresh) < 0) {
        m->names.n--;
        return false;
    }
    m->n_unnamed -= !fresh;
    *named = true;
    return true;
}

bool hw_managed_name_record(struct hw_managed_names *m, struct hw_arena *arena, const uint8_t *rec,
                            uint32_t size)
{
    struct hw_rec_name r;
    uint64_t named;
    if (size < sizeof r)
        return false;
    memcpy(&r, rec, sizeof r);
    size_t n = (size_t)r.n_function + r.n_file + r.n_module;
    if (r.n_function > HW_NAME_MAX_BYTES || r.n_file > HW_NAME_MAX_BYTES ||
        r.n_module > HW_NAME_MAX_BYTES || size < sizeof r + n)
        return false;
    if (hw_map64_get(&m->ids, r.id, &named) && named)
        return true; /* reported again */
    if (!keep(m, arena, &r, rec + sizeof r, n))
        m->n_lost++;
    return true;
}

size_t hw_managed_names_bytes(const struct hw_managed_names *m)
{
    return hw_map64_bytes(&m->ids) + m->names.cap * sizeof *m->names.v;
}

/* ---- main thread ---- */

static const char *const kind_name[HW_MANAGED_KIND_COUNT] = {
    [HW_MANAGED_NONE] = "[managed]",      [HW_MANAGED_JAVA] = "[java]",
    [HW_MANAGED_PYTHON] = "[python]",     [HW_MANAGED_SCOPE] = "[trace events]",
    [HW_MANAGED_TYPE] = HW_TYPES_MAPPING, [HW_MANAGED_SLICE] = "[trace events]",
    [HW_MANAGED_THREAD] = "[threads]",    [HW_MANAGED_RUBY] = "[ruby]",
    [HW_MANAGED_PHP] = "[php]",
};

static uint32_t kind_of(uint64_t id)
{
    uint32_t kind = hw_managed_kind_of(id);
    return kind < HW_MANAGED_KIND_COUNT ? kind : HW_MANAGED_NONE;
}

void hw_managed_frames_init(struct hw_managed_frames *m)
{
    *m = (struct hw_managed_frames){0};
    for (size_t i = 0; i < HW_MANAGED_KIND_COUNT; i++) {
        m->mappings[i].v = HW_ID_NONE;
        m->unnamed[i].v = HW_ID_NONE;
    }
}

void hw_managed_frames_done(struct hw_managed_frames *m)
{
    hw_map64_done(&m->frames);
}

static int mapping_named(struct hw_callsites *cs, struct hw_bytes name, hw_mapping_id *out)
{
    struct hw_mapping row = {0};
    int rc = hw_strings_intern(hw_callsites_strings(cs), name, &row.path);
    return rc < 0 ? rc : hw_callsites_mapping(cs, &row, out);
}

static int mapping_of_kind(struct hw_managed_frames *m, struct hw_callsites *cs, uint32_t kind,
                           hw_mapping_id *out)
{
    int rc = HW_OK;
    if (m->mappings[kind].v == HW_ID_NONE)
        rc = mapping_named(cs, hw_bytes_str(kind_name[kind]), &m->mappings[kind]);
    *out = m->mappings[kind];
    return rc;
}

int hw_managed_frames_name(struct hw_managed_frames *m, struct hw_callsites *cs,
                           const struct hw_managed_name *n)
{
    struct hw_frame row = {.line = n->line};
    struct hw_strings *s = hw_callsites_strings(cs);
    const char *file = n->text + n->n_function;
    hw_frame_id frame;
    int rc = hw_strings_intern(s, hw_bytes_of(n->text, n->n_function), &row.name);
    if (rc == HW_OK)
        rc = hw_strings_intern(s, hw_bytes_of(file, n->n_file), &row.file);
    if (rc == HW_OK && n->n_module)
        rc = mapping_named(cs, hw_bytes_of(file + n->n_file, n->n_module), &row.mapping);
    else if (rc == HW_OK)
        rc = mapping_of_kind(m, cs, kind_of(n->id), &row.mapping);
    if (rc == HW_OK)
        rc = hw_callsites_frame(cs, &row, &frame);
    return rc < 0 ? rc : hw_map64_put(&m->frames, n->id, frame.v);
}

bool hw_managed_frames_has(const struct hw_managed_frames *m, uint64_t id)
{
    uint64_t frame;
    return hw_map64_get(&m->frames, id, &frame);
}

int hw_managed_frames_get(struct hw_managed_frames *m, struct hw_callsites *cs, uint64_t id,
                          hw_frame_id *out)
{
    uint64_t frame;
    if (hw_map64_get(&m->frames, id, &frame)) {
        out->v = (uint32_t)frame;
        return HW_OK;
    }
    uint32_t kind = kind_of(id);
    struct hw_frame row = {0};
    int rc = HW_OK;
    if (m->unnamed[kind].v == HW_ID_NONE) {
        rc = mapping_of_kind(m, cs, kind, &row.mapping);
        if (rc == HW_OK)
            rc = hw_strings_intern(hw_callsites_strings(cs), hw_bytes_str("[unnamed function]"),
                                   &row.name);
        if (rc == HW_OK)
            rc = hw_callsites_frame(cs, &row, &m->unnamed[kind]);
    }
    *out = m->unnamed[kind];
    return rc;
}
