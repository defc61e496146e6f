/*
 * Heap dumps, both versions, as they stand in the file: maps and rows.
 *
 * Ids belong to a process; of two definitions the first one counts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/memory_infra_heaps_data.h"

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
        hw_vec_done(&h->dumps.v[i].rows);
    hw_vec_done(&h->processes);
    hw_vec_done(&h->nodes);
    hw_vec_done(&h->dumps);
    hw_vec_done(&h->held);
    hw_map64_done(&h->held_at);
    hw_vec_done(&h->entries);
    hw_map64_done(&h->entry_at);
    hw_vec_done(&h->path);
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

/* A number or a text as a key; what is neither is HW_INFRA_NO_KEY. */
static int key_of(struct hw_infra *in, const json_t *id, uint64_t *out)
{
    hw_str_id text;
    *out = HW_INFRA_NO_KEY;
    if (json_is_integer(id) && json_integer_value(id) >= 0)
        *out = (uint64_t)json_integer_value(id);
    else if (json_is_real(id) && json_real_value(id) >= 0 && json_real_value(id) < 9e15)
        *out = (uint64_t)json_real_value(id);
    if (!json_is_string(id))
        return HW_OK;
    int rc = hw_infra_str(in, id, &text);
    *out = HW_INFRA_TEXT_KEY | text.v;
    return rc;
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
    if (rc < 0 || !fresh)
        return rc;
    *at = in->heaps->nodes.n;
    in->heaps->nodes.v[in->heaps->nodes.n++] = n;
    return HW_OK;
}

/* ---- version 2 ---- */

static int add_strings(struct hw_infra *in, struct hw_infra_ids *ids, const json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        const json_t *text = json_object_get(row, "string");
        uint64_t key;
        hw_str_id s = {0};
        int rc = key_of(in, json_object_get(row, "id"), &key);
        if (rc == HW_OK && (key == HW_INFRA_NO_KEY || !json_is_string(text)))
            rc = hw_infra_bad(in, "memory_infra_bad_map");
        else if (rc == HW_OK && (rc = hw_infra_str(in, text, &s)) == HW_OK)
            rc = hw_infra_define(&ids->strings, key, s.v);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int add_types(struct hw_infra *in, struct hw_infra_ids *ids, const json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        uint64_t key, name;
        int rc = key_of(in, json_object_get(row, "id"), &key);
        if (rc == HW_OK)
            rc = key_of(in, json_object_get(row, "name_sid"), &name);
        if (rc == HW_OK)
            rc = key == HW_INFRA_NO_KEY || name == HW_INFRA_NO_KEY
                     ? hw_infra_bad(in, "memory_infra_bad_map")
                     : hw_infra_define(&ids->types, key, name);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int add_nodes(struct hw_infra *in, struct hw_infra_ids *ids, const json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        struct hw_infra_node n = {.callsite = HW_INFRA_NEW};
        uint64_t key;
        int rc = key_of(in, json_object_get(row, "id"), &key);
        if (rc == HW_OK)
            rc = key_of(in, json_object_get(row, "name_sid"), &n.name);
        if (rc == HW_OK)
            rc = key_of(in, json_object_get(row, "parent"), &n.parent);
        if (rc == HW_OK)
            rc = key == HW_INFRA_NO_KEY || n.name == HW_INFRA_NO_KEY
                     ? hw_infra_bad(in, "memory_infra_bad_map")
                     : define_node(in, &ids->nodes, key, n);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int add_heap(struct hw_infra *in, uint32_t dump, hw_upid upid, const char *name,
                    unsigned flags, struct hw_infra_heap_dump **out)
{
    struct hw_infra_heaps *h = in->heaps;
    struct hw_infra_heap_dump d = {
        .dump = dump, .upid = upid, .flags = flags, .offset = in->offset, .order = h->dumps.n};
    int rc = hw_profile_str(in->p, hw_bytes_str(name), &d.heap);
    if (rc == HW_OK && hw_vec_push(&h->dumps, d) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        *out = &h->dumps.v[h->dumps.n - 1];
    return rc;
}

static int add_rows(struct hw_infra *in, struct hw_infra_heap_dump *d, const json_t *heap)
{
    const json_t *sizes = json_object_get(heap, "sizes"), *counts = json_object_get(heap, "counts"),
                 *types = json_object_get(heap, "types"), *nodes = json_object_get(heap, "nodes");
    size_t n = json_array_size(nodes);
    if (!json_is_array(nodes) || json_array_size(sizes) != n || json_array_size(counts) != n ||
        json_array_size(types) != n) {
        int rc = hw_infra_bad(in, "memory_infra_unequal_arrays");
        if (rc < 0)
            return rc;
    }
    const json_t *const all[] = {sizes, counts, types};
    for (size_t i = 0; i < HW_ARRAY_LEN(all); i++)
        if (json_array_size(all[i]) < n)
            n = json_array_size(all[i]);
    for (size_t i = 0; i < n; i++) {
        struct hw_infra_row row;
        int rc = key_of(in, json_array_get(nodes, i), &row.node);
        if (rc == HW_OK)
            rc = key_of(in, json_array_get(types, i), &row.type);
        if (rc == HW_OK && (!hw_infra_number(json_array_get(sizes, i), &row.size) ||
                            !hw_infra_number(json_array_get(counts, i), &row.count)))
            rc = hw_infra_bad(in, "memory_infra_bad_row");
        else if (rc == HW_OK && hw_vec_push(&d->rows, row) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

int hw_infra_heaps_v2(struct hw_infra *in, uint32_t dump, hw_upid upid, const json_t *heaps)
{
    const json_t *maps = json_object_get(heaps, "maps");
    const char *name;
    json_t *heap;
    struct hw_infra_ids *ids;
    if (json_number_value(json_object_get(heaps, "version")) != 1)
        return hw_infra_bad(in, "memory_infra_unknown_version");
    int rc = hw_infra_ids_of(in, upid, &ids);
    if (rc == HW_OK)
        rc = add_strings(in, ids, json_object_get(maps, "strings"));
    if (rc == HW_OK)
        rc = add_types(in, ids, json_object_get(maps, "types"));
    if (rc == HW_OK)
        rc = add_nodes(in, ids, json_object_get(maps, "nodes"));
    json_object_foreach(json_object_get(heaps, "allocators"), name, heap)
    {
        struct hw_infra_heap_dump *d;
        if (rc == HW_OK)
            rc = add_heap(in, dump, upid, name, 0, &d);
        if (rc == HW_OK)
            rc = add_rows(in, d, heap);
    }
    return rc;
}

/* ---- version 1 ---- */

int hw_infra_stack_frames(struct hw_infra *in, hw_upid upid, const json_t *frames)
{
    const char *id;
    json_t *frame;
    struct hw_infra_ids *ids;
    int rc = hw_infra_ids_of(in, upid, &ids);
    json_object_foreach((json_t *)(uintptr_t)frames, id, frame)
    {
        const json_t *name = json_object_get(frame, "name");
        struct hw_infra_node n = {.callsite = HW_INFRA_NEW, .named = true};
        hw_str_id key, text;
        if (rc == HW_OK)
            rc = hw_profile_str(in->p, hw_bytes_str(id), &key);
        if (rc == HW_OK)
            rc = hw_infra_str(in, name, &text);
        if (rc == HW_OK)
            rc = key_of(in, json_object_get(frame, "parent"), &n.parent);
        n.name = rc == HW_OK ? text.v : 0;
        if (rc == HW_OK)
            rc = json_is_string(name)
                     ? define_node(in, &ids->v1_nodes, HW_INFRA_TEXT_KEY | key.v, n)
                     : hw_infra_bad(in, "memory_infra_bad_map");
    }
    return rc;
}

int hw_infra_type_names(struct hw_infra *in, hw_upid upid, const json_t *types)
{
    const char *id;
    json_t *name;
    struct hw_infra_ids *ids;
    int rc = hw_infra_ids_of(in, upid, &ids);
    json_object_foreach((json_t *)(uintptr_t)types, id, name)
    {
        hw_str_id key, text;
        if (rc == HW_OK)
            rc = hw_profile_str(in->p, hw_bytes_str(id), &key);
        if (rc == HW_OK)
            rc = hw_infra_str(in, name, &text);
        if (rc == HW_OK)
            rc = json_is_string(name)
                     ? hw_infra_define(&ids->v1_types, HW_INFRA_TEXT_KEY | key.v, text.v)
                     : hw_infra_bad(in, "memory_infra_bad_map");
    }
    return rc;
}

static bool v1_value(const json_t *text, int64_t *out)
{
    uint64_t v;
    if (!hw_infra_hex(text, &v))
        return false;
    *out = v > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)v;
    return true;
}

static int add_entry(struct hw_infra *in, struct hw_infra_heap_dump *d, const json_t *entry)
{
    const json_t *bt = json_object_get(entry, "bt"), *type = json_object_get(entry, "type");
    struct hw_infra_row row = {HW_INFRA_NO_KEY, HW_INFRA_NO_KEY, 0, 0};
    int rc = HW_OK;
    if (json_string_length(bt))
        rc = key_of(in, bt, &row.node);
    if (rc == HW_OK && type)
        rc = key_of(in, type, &row.type);
    if (rc < 0)
        return rc;
    (void)v1_value(json_object_get(entry, "count"), &row.count); /* need not be there */
    if (!v1_value(json_object_get(entry, "size"), &row.size))
        return hw_infra_bad(in, "memory_infra_bad_row");
    return hw_vec_push(&d->rows, row) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_infra_heaps_v1(struct hw_infra *in, uint32_t dump, hw_upid upid, const json_t *heaps)
{
    const char *name;
    json_t *heap;
    int rc = HW_OK;
    json_object_foreach((json_t *)(uintptr_t)heaps, name, heap)
    {
        const json_t *entries = json_object_get(heap, "entries");
        struct hw_infra_heap_dump *d = NULL;
        size_t i;
        json_t *entry;
        if (rc < 0)
            break;
        if (json_array_size(entries) == 0) {
            rc = hw_infra_bad(in, "memory_infra_empty_heap");
            continue;
        }
        bool old = !json_object_get(json_array_get(entries, 0), "bt");
        rc = add_heap(in, dump, upid, name, HW_INFRA_V1 | (old ? HW_INFRA_OLD : 0), &d);
        json_array_foreach(entries, i, entry)
        {
            if (rc == HW_OK)
                rc = add_entry(in, d, entry);
        }
    }
    return rc;
}
