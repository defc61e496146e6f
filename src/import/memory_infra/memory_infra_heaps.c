/*
 * Heap dumps, both versions, as they are in the file: maps and rows.
 *
 * Ids belong to a process; the first of several definitions counts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/memory_infra/memory_infra_heaps_data.h"

#include "base/banned.h"

int hw_infra_heaps_new(struct hw_infra *in)
{
    in->heaps = calloc(1, sizeof *in->heaps);
    if (!in->heaps)
        return HW_ENOMEM;
    int rc = hw_profile_str(in->p, hw_bytes_str("<other>"), &in->heaps->other);
    return rc < 0 ? rc : hw_profile_str(in->p, hw_bytes_str("[no stack]"), &in->heaps->no_stack);
}

void hw_infra_heaps_free(struct hw_infra_heaps *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->processes.n; i++) {
        struct hw_infra_ids *ids = &h->processes.v[i];
        hw_map64_done(&ids->strings);
        hw_map64_done(&ids->types);
        hw_map64_done(&ids->nodes);
        hw_map64_done(&ids->v1_types);
        hw_map64_done(&ids->v1_nodes);
        hw_map64_done(&ids->shown_types[0]);
        hw_map64_done(&ids->shown_types[1]);
    }
    for (size_t i = 0; i < h->dumps.n; i++)
        hw_pb_done(&h->dumps.v[i].rows);
    hw_vec_done(&h->processes);
    hw_vec_done(&h->nodes);
    hw_vec_done(&h->dumps);
    hw_vec_done(&h->held);
    hw_map64_done(&h->held_at);
    hw_vec_done(&h->entries);
    hw_vec_done(&h->entries_of);
    hw_vec_done(&h->path);
    hw_strbuf_done(&h->scratch);
    free(h);
}

/* ---- ids ---- */

int hw_infra_ids_of(struct hw_infra *in, hw_upid upid, struct hw_infra_ids **out)
{
    struct hw_infra_heaps *h = in->heaps;
    while (h->processes.n <= upid.v)
        if (hw_vec_push(&h->processes, (struct hw_infra_ids){0}) < 0)
            return HW_ENOMEM;
    *out = &h->processes.v[upid.v];
    return HW_OK;
}

static int str_of(struct hw_infra *in, const struct hw_json_value *v, hw_str_id *out)
{
    return hw_profile_str(in->p, hw_json_value_string(v, &in->heaps->scratch), out);
}

/* The name of a member. */
static int name_str(struct hw_infra *in, uint32_t note, hw_str_id *out)
{
    struct hw_json_value v = {.type = HW_JSON_STRING, .text = hw_json_text_name(&in->text, note)};
    return str_of(in, &v, out);
}

/* A number or a text as a key; HW_INFRA_NO_KEY if it is neither. */
static int key_of(struct hw_infra *in, const struct hw_json_value *id, uint64_t *out)
{
    hw_str_id text;
    *out = HW_INFRA_NO_KEY;
    if (id->type == HW_JSON_INTEGER && id->integer >= 0) {
        *out = (uint64_t)id->integer;
    } else if (id->type == HW_JSON_REAL) {
        double v = hw_json_value_real(id);
        if (v >= 0 && v < 9e15)
            *out = (uint64_t)v;
    } else if (id->type == HW_JSON_STRING) {
        int rc = str_of(in, id, &text);
        *out = HW_INFRA_TEXT_KEY | text.v;
        return rc;
    }
    return HW_OK;
}

int hw_infra_define(struct hw_map64 *map, uint64_t key, uint64_t value)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(map, key, &at, &fresh);
    if (rc == HW_OK && fresh)
        *at = value;
    return rc;
}

/* The same definition again is no error: dumps may repeat their maps. */
static int define(struct hw_infra *in, struct hw_map64 *map, uint64_t key, uint64_t value)
{
    const uint64_t *have = hw_map64_find(map, key);
    if (have)
        return *have == value ? HW_OK : hw_infra_bad(in, "memory_infra_defined_again");
    return hw_infra_define(map, key, value);
}

static int define_node(struct hw_infra *in, struct hw_map64 *map, uint64_t key,
                       struct hw_infra_node n)
{
    uint64_t *at;
    bool fresh;
    if (in->heaps->nodes.n >= UINT32_MAX - 8)
        return HW_ELIMIT;
    if (hw_vec_reserve(&in->heaps->nodes, in->heaps->nodes.n + 1) < 0)
        return HW_ENOMEM;
    int rc = hw_map64_at(map, key, &at, &fresh);
    if (rc < 0)
        return rc;
    if (!fresh) {
        const struct hw_infra_node *have = &in->heaps->nodes.v[*at];
        return have->name == n.name && have->parent == n.parent
                   ? HW_OK
                   : hw_infra_bad(in, "memory_infra_defined_again");
    }
    *at = in->heaps->nodes.n;
    in->heaps->nodes.v[in->heaps->nodes.n++] = n;
    return HW_OK;
}

/* ---- rows ---- */

/* Keys are written + 1, so that HW_INFRA_NO_KEY becomes 0. */
static int write_row(struct hw_infra_heap_dump *d, const struct hw_infra_row *row)
{
    hw_pb_raw_varint(&d->rows, row->node + 1);
    hw_pb_raw_varint(&d->rows, row->type + 1);
    hw_pb_raw_varint(&d->rows, (uint64_t)row->size);
    hw_pb_raw_varint(&d->rows, (uint64_t)row->count);
    return d->rows.buf.failed ? HW_ENOMEM : HW_OK;
}

bool hw_infra_next_row(struct hw_bytes *rows, struct hw_infra_row *out)
{
    uint64_t v[4];
    const uint8_t *p = rows->p, *end = hw_bytes_end(*rows);
    if (rows->n == 0)
        return false;
    for (size_t i = 0; i < HW_ARRAY_LEN(v); i++)
        if (hw_pb_varint(&p, end, &v[i]) < 0)
            return false;
    *rows = hw_bytes_of(p, (size_t)(end - p));
    *out = (struct hw_infra_row){v[0] - 1, v[1] - 1, (int64_t)v[2], (int64_t)v[3]};
    return true;
}

static int add_heap(struct hw_infra *in, uint32_t dump, hw_upid upid, hw_str_id name,
                    unsigned flags, struct hw_infra_heap_dump **out)
{
    struct hw_infra_heaps *h = in->heaps;
    struct hw_infra_heap_dump d = {.dump = dump,
                                   .upid = upid,
                                   .heap = name,
                                   .flags = flags,
                                   .offset = in->offset,
                                   .order = h->dumps.n};
    if (hw_vec_push(&h->dumps, d) < 0)
        return HW_ENOMEM;
    *out = &h->dumps.v[h->dumps.n - 1];
    return HW_OK;
}

/* ---- version 2 ---- */

static const char *const map_members[] = {"id", "name_sid", "parent", "string"};
enum { MAP_ID, MAP_NAME, MAP_PARENT, MAP_STRING, MAP_MEMBERS };

static int add_string(struct hw_infra *in, struct hw_infra_ids *ids, const struct hw_json_value *m)
{
    uint64_t key;
    hw_str_id s;
    int rc = key_of(in, &m[MAP_ID], &key);
    if (rc < 0)
        return rc;
    if (key == HW_INFRA_NO_KEY || m[MAP_STRING].type != HW_JSON_STRING)
        return hw_infra_bad(in, "memory_infra_bad_map");
    rc = str_of(in, &m[MAP_STRING], &s);
    return rc < 0 ? rc : define(in, &ids->strings, key, s.v);
}

static int add_type(struct hw_infra *in, struct hw_infra_ids *ids, const struct hw_json_value *m)
{
    uint64_t key, name;
    int rc = key_of(in, &m[MAP_ID], &key);
    if (rc == HW_OK)
        rc = key_of(in, &m[MAP_NAME], &name);
    if (rc < 0)
        return rc;
    return key == HW_INFRA_NO_KEY || name == HW_INFRA_NO_KEY
               ? hw_infra_bad(in, "memory_infra_bad_map")
               : define(in, &ids->types, key, name);
}

static int add_node(struct hw_infra *in, struct hw_infra_ids *ids, const struct hw_json_value *m)
{
    struct hw_infra_node n = {.callsite = HW_INFRA_NEW};
    uint64_t key;
    int rc = key_of(in, &m[MAP_ID], &key);
    if (rc == HW_OK)
        rc = key_of(in, &m[MAP_NAME], &n.name);
    if (rc == HW_OK)
        rc = key_of(in, &m[MAP_PARENT], &n.parent);
    if (rc < 0)
        return rc;
    return key == HW_INFRA_NO_KEY || n.name == HW_INFRA_NO_KEY
               ? hw_infra_bad(in, "memory_infra_bad_map")
               : define_node(in, &ids->nodes, key, n);
}

static int add_maps(struct hw_infra *in, hw_upid upid, uint32_t maps)
{
    static const struct {
        const char *name;
        int (*add)(struct hw_infra *in, struct hw_infra_ids *ids, const struct hw_json_value *m);
    } kinds[] = {{"strings", add_string}, {"types", add_type}, {"nodes", add_node}};
    struct hw_infra_ids *ids;
    int rc = hw_infra_ids_of(in, upid, &ids);
    for (size_t i = 0; rc == HW_OK && maps && i < HW_ARRAY_LEN(kinds); i++) {
        struct hw_json_value list = {0}, row, members[MAP_MEMBERS];
        uint32_t note = hw_json_text_find(&in->text, maps, kinds[i].name);
        if (note)
            list = hw_json_text_get(&in->text, note);
        if (list.type != HW_JSON_LIST)
            continue;
        struct hw_json_cursor c = hw_json_enter(&list);
        while (rc == HW_OK && hw_json_next(&c, &row)) {
            hw_json_members(&row, map_members, MAP_MEMBERS, members);
            rc = kinds[i].add(in, ids, members);
        }
    }
    return rc;
}

/* Four parallel lists; what is beyond the shortest one belongs to no row. */
static int add_rows(struct hw_infra *in, struct hw_infra_heap_dump *d, uint32_t heap)
{
    static const char *const names[] = {"nodes", "types", "sizes", "counts"};
    enum { NODE, TYPE, SIZE, COUNT, COLUMNS };
    struct hw_json_value list[COLUMNS] = {0}, v[COLUMNS];
    struct hw_json_cursor c[COLUMNS] = {0};
    unsigned n_more;
    for (size_t i = 0; i < COLUMNS; i++) {
        uint32_t note = hw_json_text_find(&in->text, heap, names[i]);
        if (note)
            list[i] = hw_json_text_get(&in->text, note);
        if (list[i].type == HW_JSON_LIST)
            c[i] = hw_json_enter(&list[i]);
    }
    for (;;) {
        struct hw_infra_row row;
        n_more = 0;
        for (size_t i = 0; i < COLUMNS; i++)
            n_more += hw_json_next(&c[i], &v[i]);
        if (n_more < COLUMNS)
            break;
        int rc = key_of(in, &v[NODE], &row.node);
        if (rc == HW_OK)
            rc = key_of(in, &v[TYPE], &row.type);
        if (rc == HW_OK &&
            (!hw_infra_number(&v[SIZE], &row.size) || !hw_infra_number(&v[COUNT], &row.count)))
            rc = hw_infra_bad(in, "memory_infra_bad_row");
        else if (rc == HW_OK)
            rc = write_row(d, &row);
        if (rc < 0)
            return rc;
    }
    return n_more || list[NODE].type != HW_JSON_LIST
               ? hw_infra_bad(in, "memory_infra_unequal_arrays")
               : HW_OK;
}

/* Adds each heap of an object; the first of several with one name counts. */
static int each_heap(struct hw_infra *in, uint32_t heaps,
                     int (*add)(struct hw_infra *in, uint32_t dump, hw_upid upid, hw_str_id name,
                                uint32_t heap),
                     uint32_t dump, hw_upid upid)
{
    struct hw_map64 seen = {0};
    int rc = HW_OK;
    for (uint32_t i = in->text.notes.v[heaps].first; rc == HW_OK && i;
         i = in->text.notes.v[i].next) {
        hw_str_id name;
        uint64_t *at;
        bool fresh = false;
        rc = name_str(in, i, &name);
        if (rc == HW_OK)
            rc = hw_map64_at(&seen, name.v, &at, &fresh);
        if (rc == HW_OK && fresh)
            rc = add(in, dump, upid, name, i);
    }
    hw_map64_done(&seen);
    return rc;
}

static int add_heap_v2(struct hw_infra *in, uint32_t dump, hw_upid upid, hw_str_id name,
                       uint32_t heap)
{
    struct hw_infra_heap_dump *d;
    int rc = add_heap(in, dump, upid, name, 0, &d);
    return rc < 0 ? rc : add_rows(in, d, heap);
}

int hw_infra_heaps_v2(struct hw_infra *in, uint32_t dump, hw_upid upid, uint32_t heaps)
{
    uint32_t version = hw_json_text_find(&in->text, heaps, "version");
    struct hw_json_value v = {0};
    if (version)
        v = hw_json_text_get(&in->text, version);
    if (hw_json_value_real(&v) != 1)
        return hw_infra_bad(in, "memory_infra_unknown_version");
    int rc = add_maps(in, upid, hw_json_text_find(&in->text, heaps, "maps"));
    uint32_t allocators = hw_json_text_find(&in->text, heaps, "allocators");
    return rc < 0 || !allocators ? rc : each_heap(in, allocators, add_heap_v2, dump, upid);
}

/* ---- version 1 ---- */

int hw_infra_stack_frames(struct hw_infra *in, hw_upid upid, uint32_t frames)
{
    static const char *const names[] = {"name", "parent"};
    struct hw_infra_ids *ids;
    int rc = hw_infra_ids_of(in, upid, &ids);
    for (uint32_t i = in->text.notes.v[frames].first; rc == HW_OK && i;
         i = in->text.notes.v[i].next) {
        struct hw_json_value frame = hw_json_text_get(&in->text, i), m[HW_ARRAY_LEN(names)];
        struct hw_infra_node n = {.callsite = HW_INFRA_NEW, .named = true};
        hw_str_id key, text;
        hw_json_members(&frame, names, HW_ARRAY_LEN(names), m);
        rc = name_str(in, i, &key);
        if (rc == HW_OK)
            rc = str_of(in, &m[0], &text);
        if (rc == HW_OK)
            rc = key_of(in, &m[1], &n.parent);
        if (rc < 0)
            break;
        n.name = text.v;
        rc = m[0].type == HW_JSON_STRING
                 ? define_node(in, &ids->v1_nodes, HW_INFRA_TEXT_KEY | key.v, n)
                 : hw_infra_bad(in, "memory_infra_bad_map");
    }
    return rc;
}

int hw_infra_type_names(struct hw_infra *in, hw_upid upid, uint32_t types)
{
    struct hw_infra_ids *ids;
    int rc = hw_infra_ids_of(in, upid, &ids);
    for (uint32_t i = in->text.notes.v[types].first; rc == HW_OK && i;
         i = in->text.notes.v[i].next) {
        struct hw_json_value name = hw_json_text_get(&in->text, i);
        hw_str_id key, text;
        rc = name_str(in, i, &key);
        if (rc == HW_OK)
            rc = str_of(in, &name, &text);
        if (rc == HW_OK)
            rc = name.type == HW_JSON_STRING
                     ? define(in, &ids->v1_types, HW_INFRA_TEXT_KEY | key.v, text.v)
                     : hw_infra_bad(in, "memory_infra_bad_map");
    }
    return rc;
}

static bool v1_value(struct hw_infra *in, const struct hw_json_value *text, int64_t *out)
{
    uint64_t v;
    if (text->type != HW_JSON_STRING ||
        !hw_infra_hex_digits(hw_json_value_string(text, &in->heaps->scratch), &v))
        return false;
    *out = v > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)v;
    return true;
}

static const char *const entry_members[] = {"bt", "type", "size", "count"};
enum { ENTRY_BT, ENTRY_TYPE, ENTRY_SIZE, ENTRY_COUNT, ENTRY_MEMBERS };

static int add_entry(struct hw_infra *in, struct hw_infra_heap_dump *d,
                     const struct hw_json_value *m)
{
    struct hw_infra_row row = {HW_INFRA_NO_KEY, HW_INFRA_NO_KEY, 0, 0};
    int rc = HW_OK;
    if (m[ENTRY_BT].type == HW_JSON_STRING && m[ENTRY_BT].text.n)
        rc = key_of(in, &m[ENTRY_BT], &row.node);
    if (rc == HW_OK && m[ENTRY_TYPE].type != HW_JSON_NONE)
        rc = key_of(in, &m[ENTRY_TYPE], &row.type);
    if (rc < 0)
        return rc;
    (void)v1_value(in, &m[ENTRY_COUNT], &row.count); /* optional */
    if (!v1_value(in, &m[ENTRY_SIZE], &row.size))
        return hw_infra_bad(in, "memory_infra_bad_row");
    return write_row(d, &row);
}

static int add_heap_v1(struct hw_infra *in, uint32_t dump, hw_upid upid, hw_str_id name,
                       uint32_t heap)
{
    uint32_t note = hw_json_text_find(&in->text, heap, "entries");
    struct hw_json_value list = {0}, entry, m[ENTRY_MEMBERS];
    struct hw_infra_heap_dump *d = NULL;
    int rc = HW_OK;
    if (note)
        list = hw_json_text_get(&in->text, note);
    if (list.type != HW_JSON_LIST)
        list = (struct hw_json_value){0};
    struct hw_json_cursor c = hw_json_enter(&list);
    while (rc == HW_OK && hw_json_next(&c, &entry)) {
        hw_json_members(&entry, entry_members, ENTRY_MEMBERS, m);
        bool old = m[ENTRY_BT].type == HW_JSON_NONE; /* the first entry shows the dialect */
        if (!d)
            rc = add_heap(in, dump, upid, name, HW_INFRA_V1 | (old ? HW_INFRA_OLD : 0), &d);
        if (rc == HW_OK)
            rc = add_entry(in, d, m);
    }
    return rc == HW_OK && !d ? hw_infra_bad(in, "memory_infra_empty_heap") : rc;
}

int hw_infra_heaps_v1(struct hw_infra *in, uint32_t dump, hw_upid upid, uint32_t heaps)
{
    return each_heap(in, heaps, add_heap_v1, dump, upid);
}
