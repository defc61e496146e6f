/*
 * Heap dumps, both versions.
 *
 * Rows are kept as they stand (ids of the file) until everything has been read, then turned into
 * callsites and types, dump after dump of one heap, and into what changed since the dump before:
 * that is what the model holds.
 *
 * Version 1 gives totals: an entry counts what its stack and type hold with everything below. Self
 * values are what is left of a total after the totals of the nearest entries below, of the same
 * type or of all types. What an entry of all types has beyond its types' is of type `<other>`;
 * where types have more (the parts below, where they were too small to be told, are in it) they
 * give the excess back, so that the sum stays that of the stacks. What stands at a stack with
 * stacks below it was its own or was too small to be told: the frame `<other>`.
 *
 * Ids belong to a process; of two definitions the first one counts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/memory_infra_parts.h"

#include "base/banned.h"

static const uint64_t no_key = UINT64_MAX;   /* of an id that is not there */
static const uint64_t text_key = 1ull << 63; /* ids that are strings */
enum { IS_V1 = 1, IS_OLD = 2 };              /* an old dialect of version 1: self values */
enum { NEW = UINT32_MAX - 1, BUSY = UINT32_MAX - 2 };

struct node {
    uint64_t name, parent; /* ids; no_key */
    uint32_t callsite;     /* NEW: not resolved yet; BUSY: being resolved */
    bool named;            /* name is a string of the model */
};

struct process_ids {
    struct hw_map64 strings, types, nodes; /* version 2: id → hw_str_id, id of string, node */
    struct hw_map64 v1_types, v1_nodes;    /* id → hw_str_id, node */
    struct hw_map64 shown_types[2]; /* [is version 1]: id → name as shown, once looked up */
};

struct raw_row {
    uint64_t node, type;
    int64_t size, count;
};

struct heap_dump {
    uint32_t dump; /* of in->dumps */
    hw_upid upid;
    hw_str_id heap;
    unsigned flags;
    uint64_t offset;
    int64_t ts_ns;
    size_t order;
    HW_VEC(struct raw_row) rows;
};

/* What a (callstack, type) held at the dump before, and at this one. */
struct held {
    uint32_t callsite, type;
    int64_t size, count, new_size, new_count;
};

/* An entry of version 1. */
struct entry {
    uint32_t callsite, type; /* HW_ID_NONE: the whole heap; 0: all types */
    int64_t size, count, self_size, self_count;
    bool has_below;
};

struct hw_infra_heaps {
    HW_VEC(struct process_ids) processes; /* by upid */
    HW_VEC(struct node) nodes;
    HW_VEC(struct heap_dump) dumps;
    HW_VEC(struct held) held;
    struct hw_map64 held_at; /* callsite << 32 | type */
    HW_VEC(struct entry) entries;
    struct hw_map64 entry_at; /* (callsite + 1) << 32 | type */
    HW_VEC(uint32_t) path;
    hw_str_id other, no_stack;
};

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
        struct process_ids *ids = &h->processes.v[i];
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

static int ids_of(struct hw_infra *in, hw_upid upid, struct process_ids **out)
{
    struct hw_infra_heaps *h = in->heaps;
    while (h->processes.n <= upid.v)
        if (hw_vec_push(&h->processes, (struct process_ids){0}) < 0)
            return HW_ENOMEM;
    *out = &h->processes.v[upid.v];
    return HW_OK;
}

/* A number or a text as a key; what is neither is no_key. */
static int key_of(struct hw_infra *in, const json_t *id, uint64_t *out)
{
    hw_str_id text;
    *out = no_key;
    if (json_is_integer(id) && json_integer_value(id) >= 0)
        *out = (uint64_t)json_integer_value(id);
    else if (json_is_real(id) && json_real_value(id) >= 0 && json_real_value(id) < 9e15)
        *out = (uint64_t)json_real_value(id);
    if (!json_is_string(id))
        return HW_OK;
    int rc = hw_infra_str(in, id, &text);
    *out = text_key | text.v;
    return rc;
}

/* The first definition stays. */
static int define(struct hw_map64 *map, uint64_t key, uint64_t value)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(map, key, &at, &fresh);
    if (rc == HW_OK && fresh)
        *at = value;
    return rc;
}

static int define_node(struct hw_infra *in, struct hw_map64 *map, uint64_t key, struct node n)
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

static int add_strings(struct hw_infra *in, struct process_ids *ids, const json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        const json_t *text = json_object_get(row, "string");
        uint64_t key;
        hw_str_id s = {0};
        int rc = key_of(in, json_object_get(row, "id"), &key);
        if (rc == HW_OK && (key == no_key || !json_is_string(text)))
            rc = hw_infra_bad(in, "memory_infra_bad_map");
        else if (rc == HW_OK && (rc = hw_infra_str(in, text, &s)) == HW_OK)
            rc = define(&ids->strings, key, s.v);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int add_types(struct hw_infra *in, struct process_ids *ids, const json_t *list)
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
            rc = key == no_key || name == no_key ? hw_infra_bad(in, "memory_infra_bad_map")
                                                 : define(&ids->types, key, name);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int add_nodes(struct hw_infra *in, struct process_ids *ids, const json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        struct node n = {.callsite = NEW};
        uint64_t key;
        int rc = key_of(in, json_object_get(row, "id"), &key);
        if (rc == HW_OK)
            rc = key_of(in, json_object_get(row, "name_sid"), &n.name);
        if (rc == HW_OK)
            rc = key_of(in, json_object_get(row, "parent"), &n.parent);
        if (rc == HW_OK)
            rc = key == no_key || n.name == no_key ? hw_infra_bad(in, "memory_infra_bad_map")
                                                   : define_node(in, &ids->nodes, key, n);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int add_heap(struct hw_infra *in, uint32_t dump, hw_upid upid, const char *name,
                    unsigned flags, struct heap_dump **out)
{
    struct hw_infra_heaps *h = in->heaps;
    struct heap_dump d = {
        .dump = dump, .upid = upid, .flags = flags, .offset = in->offset, .order = h->dumps.n};
    int rc = hw_profile_str(in->p, hw_bytes_str(name), &d.heap);
    if (rc == HW_OK && hw_vec_push(&h->dumps, d) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        *out = &h->dumps.v[h->dumps.n - 1];
    return rc;
}

static int add_rows(struct hw_infra *in, struct heap_dump *d, const json_t *heap)
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
        struct raw_row row;
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
    struct process_ids *ids;
    if (json_number_value(json_object_get(heaps, "version")) != 1)
        return hw_infra_bad(in, "memory_infra_unknown_version");
    int rc = ids_of(in, upid, &ids);
    if (rc == HW_OK)
        rc = add_strings(in, ids, json_object_get(maps, "strings"));
    if (rc == HW_OK)
        rc = add_types(in, ids, json_object_get(maps, "types"));
    if (rc == HW_OK)
        rc = add_nodes(in, ids, json_object_get(maps, "nodes"));
    json_object_foreach(json_object_get(heaps, "allocators"), name, heap)
    {
        struct heap_dump *d;
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
    struct process_ids *ids;
    int rc = ids_of(in, upid, &ids);
    json_object_foreach((json_t *)(uintptr_t)frames, id, frame)
    {
        const json_t *name = json_object_get(frame, "name");
        struct node n = {.callsite = NEW, .named = true};
        hw_str_id key, text;
        if (rc == HW_OK)
            rc = hw_profile_str(in->p, hw_bytes_str(id), &key);
        if (rc == HW_OK)
            rc = hw_infra_str(in, name, &text);
        if (rc == HW_OK)
            rc = key_of(in, json_object_get(frame, "parent"), &n.parent);
        n.name = rc == HW_OK ? text.v : 0;
        if (rc == HW_OK)
            rc = json_is_string(name) ? define_node(in, &ids->v1_nodes, text_key | key.v, n)
                                      : hw_infra_bad(in, "memory_infra_bad_map");
    }
    return rc;
}

int hw_infra_type_names(struct hw_infra *in, hw_upid upid, const json_t *types)
{
    const char *id;
    json_t *name;
    struct process_ids *ids;
    int rc = ids_of(in, upid, &ids);
    json_object_foreach((json_t *)(uintptr_t)types, id, name)
    {
        hw_str_id key, text;
        if (rc == HW_OK)
            rc = hw_profile_str(in->p, hw_bytes_str(id), &key);
        if (rc == HW_OK)
            rc = hw_infra_str(in, name, &text);
        if (rc == HW_OK)
            rc = json_is_string(name) ? define(&ids->v1_types, text_key | key.v, text.v)
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

static int add_entry(struct hw_infra *in, struct heap_dump *d, const json_t *entry)
{
    const json_t *bt = json_object_get(entry, "bt"), *type = json_object_get(entry, "type");
    struct raw_row row = {no_key, no_key, 0, 0};
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
        struct heap_dump *d = NULL;
        size_t i;
        json_t *entry;
        if (rc < 0)
            break;
        if (json_array_size(entries) == 0) {
            rc = hw_infra_bad(in, "memory_infra_empty_heap");
            continue;
        }
        bool old = !json_object_get(json_array_get(entries, 0), "bt");
        rc = add_heap(in, dump, upid, name, IS_V1 | (old ? IS_OLD : 0), &d);
        json_array_foreach(entries, i, entry)
        {
            if (rc == HW_OK)
                rc = add_entry(in, d, entry);
        }
    }
    return rc;
}

/* ---- names ---- */

/* Chrome's type names are those of a function that has the type as its parameter. */
static struct hw_bytes bare_type(struct hw_bytes name)
{
    static const char *const begins[] = {"getStringWithTypeName() [with T = ",
                                         "getStringWithTypeName() [T = ", "getStringWithTypeName<"};
    static const char *const ends[] = {"]", "]", ">(void)"};
    for (size_t i = 0; i < HW_ARRAY_LEN(begins); i++) {
        size_t n = strlen(begins[i]), m = strlen(ends[i]);
        const uint8_t *at = name.n ? memmem(name.p, name.n, begins[i], n) : NULL;
        if (!at)
            continue;
        struct hw_bytes rest = hw_bytes_of(at + n, (size_t)(name.p + name.n - at) - n);
        if (rest.n > m && memcmp(rest.p + rest.n - m, ends[i], m) == 0)
            return hw_bytes_of(rest.p, rest.n - m);
    }
    return name;
}

static int clean_type(struct hw_infra *in, hw_str_id raw, uint32_t *out)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(in->p->callsites), raw);
    struct hw_bytes bare = bare_type(name);
    hw_str_id id = raw;
    int rc = bare.n == name.n ? HW_OK : hw_profile_str(in->p, bare, &id);
    *out = id.v;
    return rc;
}

/* 0 = none, also when it is defined nowhere. Rows are many, types few: each is cleaned once. */
static int type_of(struct hw_infra *in, const struct heap_dump *d, uint64_t id, uint32_t *out)
{
    struct process_ids *ids = &in->heaps->processes.v[d->upid.v];
    struct hw_map64 *shown = &ids->shown_types[d->flags & IS_V1];
    uint64_t name = 0;
    const uint64_t *known = hw_map64_find(shown, id);
    *out = known ? (uint32_t)*known : 0;
    if (known)
        return HW_OK;
    bool found = d->flags & IS_V1 ? hw_map64_get(&ids->v1_types, id, &name)
                                  : hw_map64_get(&ids->types, id, &name) &&
                                        hw_map64_get(&ids->strings, name, &name);
    if (!found)
        return hw_infra_bad(in, "memory_infra_undefined_id");
    int rc = clean_type(in, (hw_str_id){(uint32_t)name}, out);
    return rc < 0 ? rc : hw_map64_put(shown, id, *out);
}

static int child_named(struct hw_infra *in, uint32_t parent, hw_str_id name, uint32_t *out)
{
    struct hw_frame f = {.mapping = {HW_ID_NONE}, .name = name};
    hw_frame_id frame;
    hw_callsite_id c;
    int rc = hw_callsites_frame(in->p->callsites, &f, &frame);
    if (rc == HW_OK)
        rc = hw_callsites_child(in->p->callsites, (hw_callsite_id){parent}, frame, &c);
    if (rc == HW_OK)
        *out = c.v;
    return rc;
}

static int node_name(struct hw_infra *in, const struct process_ids *ids, const struct node *n,
                     hw_str_id *out)
{
    uint64_t text = 0;
    bool found = n->named || hw_map64_get(&ids->strings, n->name, &text);
    out->v = n->named ? (uint32_t)n->name : (uint32_t)text;
    return found ? HW_OK : hw_infra_bad(in, "memory_infra_undefined_id");
}

/* Up to what is known, then down again; rings of parents are cut where they close. */
static int resolve_node(struct hw_infra *in, const struct process_ids *ids,
                        const struct hw_map64 *map, uint64_t index, uint32_t *out)
{
    struct hw_infra_heaps *h = in->heaps;
    uint32_t parent = HW_ID_NONE;
    int rc = HW_OK;
    hw_vec_clear(&h->path);
    for (;;) {
        struct node *n = &h->nodes.v[index];
        if (n->callsite == BUSY) {
            rc = hw_infra_bad(in, "memory_infra_ring_of_nodes");
            break;
        }
        if (n->callsite != NEW) {
            parent = n->callsite;
            break;
        }
        if (hw_vec_push(&h->path, (uint32_t)index) < 0)
            return HW_ENOMEM;
        n->callsite = BUSY;
        /* A parent of 0 is how some writers say none. */
        if (n->parent == no_key || (n->parent == 0 && !hw_map64_find(map, 0)))
            break;
        if (!hw_map64_get(map, n->parent, &index)) {
            rc = hw_infra_bad(in, "memory_infra_undefined_id");
            break;
        }
    }
    while (rc == HW_OK && h->path.n) {
        struct node *n = &h->nodes.v[h->path.v[--h->path.n]];
        hw_str_id name;
        rc = node_name(in, ids, n, &name);
        if (rc == HW_OK)
            rc = child_named(in, parent, name, &n->callsite);
        if (rc == HW_ELIMIT || rc == HW_EINVAL) { /* too deep: the rest is as its caller */
            n->callsite = parent;
            rc = hw_infra_bad(in, "memory_infra_too_deep");
        }
        parent = n->callsite;
    }
    *out = parent;
    return rc;
}

/* HW_ID_NONE when it is defined nowhere. */
static int callsite_of(struct hw_infra *in, const struct heap_dump *d, uint64_t id, uint32_t *out)
{
    const struct process_ids *ids = &in->heaps->processes.v[d->upid.v];
    const struct hw_map64 *map = d->flags & IS_V1 ? &ids->v1_nodes : &ids->nodes;
    uint64_t index;
    *out = HW_ID_NONE;
    if (!hw_map64_get(map, id, &index))
        return hw_infra_bad(in, "memory_infra_undefined_id");
    return resolve_node(in, ids, map, index, out);
}

/* ---- rows ---- */

static int hold(struct hw_infra *in, uint32_t callsite, uint32_t type, int64_t size, int64_t count)
{
    struct hw_infra_heaps *h = in->heaps;
    uint64_t *at;
    bool fresh;
    int rc = HW_OK;
    if (callsite == HW_ID_NONE)
        rc = child_named(in, HW_ID_NONE, h->no_stack, &callsite);
    if (rc == HW_OK && hw_vec_reserve(&h->held, h->held.n + 1) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_map64_at(&h->held_at, (uint64_t)callsite << 32 | type, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = h->held.n;
        h->held.v[h->held.n++] = (struct held){.callsite = callsite, .type = type};
    }
    struct held *x = &h->held.v[*at];
    if (__builtin_add_overflow(x->new_size, size, &x->new_size))
        x->new_size = INT64_MAX / 2;
    if (__builtin_add_overflow(x->new_count, count, &x->new_count))
        x->new_count = INT64_MAX / 2;
    return HW_OK;
}

static int hold_self_values(struct hw_infra *in, const struct heap_dump *d)
{
    for (size_t i = 0; i < d->rows.n; i++) {
        const struct raw_row *r = &d->rows.v[i];
        uint32_t callsite = HW_ID_NONE, type = 0;
        int rc = HW_OK;
        if (r->node != no_key)
            rc = callsite_of(in, d, r->node, &callsite);
        if (rc == HW_OK && r->type != no_key)
            rc = type_of(in, d, r->type, &type);
        if (rc == HW_OK)
            rc = hold(in, callsite, type, r->size, r->count);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* ---- version 1: from totals to self values ---- */

static uint64_t entry_key(uint32_t callsite, uint32_t type)
{
    return (uint64_t)(callsite + 1) << 32 | type; /* HW_ID_NONE: 0 */
}

static struct entry *find_entry(struct hw_infra_heaps *h, uint32_t callsite, uint32_t type)
{
    const uint64_t *at = hw_map64_find(&h->entry_at, entry_key(callsite, type));
    return at ? &h->entries.v[*at] : NULL;
}

/* Entries whose frame or type is defined nowhere are left out, as the first viewer does. */
static int collect_entries(struct hw_infra *in, const struct heap_dump *d)
{
    struct hw_infra_heaps *h = in->heaps;
    hw_vec_clear(&h->entries);
    hw_map64_done(&h->entry_at);
    for (size_t i = 0; i < d->rows.n; i++) {
        const struct raw_row *r = &d->rows.v[i];
        struct entry e = {.callsite = HW_ID_NONE,
                          .size = r->size,
                          .count = r->count,
                          .self_size = r->size,
                          .self_count = r->count};
        int rc = HW_OK;
        if (r->node != no_key)
            rc = callsite_of(in, d, r->node, &e.callsite);
        if (rc == HW_OK && r->type != no_key)
            rc = type_of(in, d, r->type, &e.type);
        if (rc < 0)
            return rc;
        if ((r->node != no_key && e.callsite == HW_ID_NONE) || (r->type != no_key && !e.type) ||
            find_entry(h, e.callsite, e.type))
            continue;
        rc = define(&h->entry_at, entry_key(e.callsite, e.type), h->entries.n);
        if (rc == HW_OK && hw_vec_push(&h->entries, e) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* The nearest entry above with the same type. */
static struct entry *entry_above(struct hw_infra *in, const struct entry *e)
{
    uint32_t c = e->callsite;
    while (c != HW_ID_NONE) {
        c = hw_callsites_get(in->p->callsites, (hw_callsite_id){c})->parent.v;
        struct entry *above = find_entry(in->heaps, c, e->type);
        if (above)
            return above;
    }
    return NULL;
}

static void take_from_above(struct hw_infra *in)
{
    struct hw_infra_heaps *h = in->heaps;
    for (size_t i = 0; i < h->entries.n; i++) {
        const struct entry *e = &h->entries.v[i];
        struct entry *above = entry_above(in, e);
        if (!above)
            continue;
        above->self_size -= e->size < above->self_size ? e->size : above->self_size;
        above->self_count -= e->count < above->self_count ? e->count : above->self_count;
        above->has_below = true;
        struct entry *all = find_entry(h, above->callsite, 0);
        if (all)
            all->has_below = true;
    }
}

static void give_back(int64_t *excess, int64_t *self)
{
    int64_t part = *excess < *self ? *excess : *self;
    *excess -= part;
    *self -= part;
}

static int compare_entries(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    if (a->callsite != b->callsite)
        return a->callsite < b->callsite ? -1 : 1;
    return a->type < b->type ? -1 : a->type > b->type;
}

/* The entries of one callstack, the one of all types (if any) first. */
static int hold_callstack(struct hw_infra *in, struct entry *e, size_t n, bool has_types)
{
    struct hw_infra_heaps *h = in->heaps;
    bool below = false;
    uint32_t at = e->callsite;
    int rc = HW_OK;
    if (e->type == 0) {
        int64_t size = -e->self_size, count = -e->self_count; /* what types have too much */
        for (size_t i = 1; i < n; i++) {
            size += e[i].self_size;
            count += e[i].self_count;
        }
        e->self_size = size < 0 ? -size : 0;
        e->self_count = count < 0 ? -count : 0;
        for (size_t i = 1; i < n; i++) {
            if (size > 0)
                give_back(&size, &e[i].self_size);
            if (count > 0)
                give_back(&count, &e[i].self_count);
        }
    }
    for (size_t i = 0; i < n; i++)
        below |= e[i].has_below;
    if (below)
        rc = child_named(in, at, h->other, &at);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (e[i].self_size || e[i].self_count)
            rc = hold(in, at,
                      e[i].type   ? e[i].type
                      : has_types ? h->other.v
                                  : 0,
                      e[i].self_size, e[i].self_count);
    return rc;
}

static int hold_totals(struct hw_infra *in, const struct heap_dump *d)
{
    struct hw_infra_heaps *h = in->heaps;
    bool has_types = false;
    int rc = collect_entries(in, d);
    if (rc < 0)
        return rc;
    take_from_above(in);
    for (size_t i = 0; i < h->entries.n; i++)
        has_types |= h->entries.v[i].type != 0;
    if (h->entries.n)
        qsort(h->entries.v, h->entries.n, sizeof *h->entries.v, compare_entries);
    for (size_t i = 0, end; rc == HW_OK && i < h->entries.n; i = end) {
        for (end = i + 1; end < h->entries.n; end++)
            if (h->entries.v[end].callsite != h->entries.v[i].callsite)
                break;
        rc = hold_callstack(in, &h->entries.v[i], end - i, has_types);
    }
    return rc;
}

/* ---- finish ---- */

static int push_change(struct hw_infra *in, uint32_t dump, const struct held *x, int64_t size,
                       int64_t count)
{
    struct hw_alloc_row row = {.dump = dump,
                               .callsite = {x->callsite},
                               .type = {x->type},
                               .samples = count,
                               .count = count,
                               .size = size};
    return hw_alloc_rows_push(&in->p->allocs, &row);
}

/* One row, or two where bytes and objects went different ways: rows have one direction. */
static int add_changes(struct hw_infra *in, uint32_t dump)
{
    struct hw_infra_heaps *h = in->heaps;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < h->held.n; i++) {
        struct held *x = &h->held.v[i];
        int64_t size = x->new_size - x->size, count = x->new_count - x->count;
        if ((size < 0 && count > 0) || (size > 0 && count < 0)) {
            rc = push_change(in, dump, x, size, 0);
            size = 0;
        }
        if (rc == HW_OK && (size || count))
            rc = push_change(in, dump, x, size, count);
        x->size = x->new_size;
        x->count = x->new_count;
        x->new_size = x->new_count = 0;
    }
    return rc;
}

static int add_dump(struct hw_infra *in, const struct heap_dump *d)
{
    struct hw_profile *p = in->p;
    struct hw_heap_dump row = {.upid = d->upid, .heap_name = d->heap, .ts_ns = d->ts_ns};
    struct process_ids *ids;
    in->offset = d->offset;
    int rc = ids_of(in, d->upid, &ids);
    if (rc == HW_OK)
        rc = d->flags == IS_V1 ? hold_totals(in, d) : hold_self_values(in, d);
    if (rc == HW_OK && hw_vec_push(&p->dumps, row) < 0)
        rc = HW_ENOMEM;
    return rc < 0 ? rc : add_changes(in, (uint32_t)p->dumps.n - 1);
}

static int compare_dumps(const void *pa, const void *pb)
{
    const struct heap_dump *a = pa, *b = pb;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    if (a->heap.v != b->heap.v)
        return a->heap.v < b->heap.v ? -1 : 1;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

int hw_infra_heaps_finish(struct hw_infra *in)
{
    struct hw_infra_heaps *h = in->heaps;
    int rc = HW_OK;
    for (size_t i = 0; i < h->dumps.n; i++) /* known only now */
        h->dumps.v[i].ts_ns = in->dumps.v[h->dumps.v[i].dump].ts_ns;
    if (h->dumps.n)
        qsort(h->dumps.v, h->dumps.n, sizeof *h->dumps.v, compare_dumps);
    for (size_t i = 0; rc == HW_OK && i < h->dumps.n; i++) {
        const struct heap_dump *d = &h->dumps.v[i];
        if (i == 0 || d[-1].upid.v != d->upid.v || d[-1].heap.v != d->heap.v) {
            hw_vec_clear(&h->held);
            hw_map64_done(&h->held_at);
        }
        rc = add_dump(in, d);
        hw_vec_done(&h->dumps.v[i].rows);
    }
    return rc;
}
