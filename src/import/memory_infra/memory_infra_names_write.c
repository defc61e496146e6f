/*
 * The writing half. An event with names is parsed, its maps are replaced, and it is written again;
 * all bytes between such events are copied.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/source.h"
#include "import/memory_infra/memory_infra_names.h"
#include "import/memory_infra/memory_infra_names_data.h"

#include "base/banned.h"

enum { COPY_BYTES = 256 * 1024 };
static const uint64_t new_id_bit = (uint64_t)1 << 62; /* marks ids that are not in the file */

struct out {
    struct hw_infra_names *x;
    struct hw_names_process *p;   /* of the current event */
    struct hw_map64 sid_of;       /* version 2: name → id of its string */
    struct hw_map64 type_of;      /* frames as types: name → id of the type */
    struct hw_map64 type_of_node; /* frames as types: id of the node → id of its new type */
    hw_infra_sink sink;
    void *ctx;
};

static const hw_str_id *names_of(const struct hw_infra_names *x, uint32_t address, size_t *n)
{
    const struct hw_names_range *a = &x->ranges.v[address];
    *n = a->n;
    return hw_vec_from(&x->names, a->first);
}

static json_t *text(const struct hw_infra_names *x, hw_str_id id)
{
    struct hw_bytes b = hw_strings_get(x->strings, id);
    return json_stringn((const char *)b.p, b.n);
}

static int append(json_t *list, json_t *row) /* takes row */
{
    return row && json_array_append_new(list, row) == 0 ? HW_OK : HW_ENOMEM;
}

/* ---- strings of version 2 ---- */

/* Names that stay keep their ids; an address's first name takes over its id. */
static int index_strings(struct out *o)
{
    int rc = HW_OK;
    hw_map64_done(&o->sid_of);
    for (size_t i = 0; rc == HW_OK && i < o->p->strings.n; i++) {
        uint64_t *at;
        bool fresh;
        rc = hw_map64_at(&o->sid_of, o->p->strings.v[i].text.v, &at, &fresh);
        if (rc == HW_OK && fresh)
            *at = o->p->strings.v[i].id;
    }
    return rc;
}

static int sid_for(struct out *o, hw_str_id name, uint64_t old_sid, json_t *strings, uint64_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&o->sid_of, name.v, &at, &fresh);
    if (rc < 0 || !fresh) {
        *out = rc < 0 ? 0 : *at;
        return rc;
    }
    const uint64_t *old =
        old_sid == HW_INFRA_NO_ID ? NULL : hw_map64_find(&o->p->string_at, old_sid);
    if (old && !o->p->strings.v[*old].is_reused) {
        o->p->strings.v[*old].is_reused = true;
        *at = old_sid;
    } else {
        *at = ++o->x->last_id;
    }
    *out = *at;
    return append(strings, json_pack("{sIso}", "id", (json_int_t)*at, "string", text(o->x, name)));
}

static int put_kept_strings(struct out *o, json_t *strings)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < o->p->strings.n; i++) {
        const struct hw_names_string *s = &o->p->strings.v[i];
        if (!s->is_reused)
            rc = append(strings, json_pack("{sIso}", "id", (json_int_t)s->id, "string",
                                           text(o->x, s->text)));
    }
    return rc;
}

/* ---- frames of both versions ---- */

/* Writes one frame; parent HW_INFRA_NO_ID: none. */
typedef int (*put_frame)(struct out *o, json_t *to, uint64_t id, hw_str_id name, uint64_t parent,
                         const struct hw_names_node *of);

/* An inlined function becomes a child of the function it was inlined into; what a frame calls, a
 * child of the frame's innermost function. */
static int put_frames(struct out *o, json_t *to, put_frame put)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < o->p->nodes.n; i++) {
        const struct hw_names_node *node = &o->p->nodes.v[i];
        uint64_t parent = node->parent;
        const hw_str_id *names = &node->name;
        size_t n = 1;
        if (node->address != HW_ID_NONE)
            names = names_of(o->x, node->address, &n);
        for (; rc == HW_OK && n > 1; n--) {
            uint64_t id = new_id_bit | ++o->x->last_id;
            rc = put(o, to, id, names[n - 1], parent, node);
            parent = id;
        }
        if (rc == HW_OK)
            rc = put(o, to, node->id, names[0], parent, node);
    }
    return rc;
}

static hw_str_id innermost(const struct hw_infra_names *x, uint32_t address, hw_str_id name)
{
    size_t n = 0;
    const hw_str_id *names = address == HW_ID_NONE ? NULL : names_of(x, address, &n);
    return n ? names[0] : name;
}

struct v2_lists {
    json_t *strings, *nodes, *types;
};

static int put_node(struct out *o, json_t *to, uint64_t id, hw_str_id name, uint64_t parent,
                    const struct hw_names_node *of)
{
    const uint64_t *known = hw_map64_find(&o->sid_of, name.v);
    json_t *row = json_pack("{sIsI}", "id", (json_int_t)(id & ~new_id_bit), "name_sid",
                            (json_int_t)(of->address == HW_ID_NONE ? of->name_sid
                                         : known                   ? *known
                                                                   : 0));
    if (row && parent != HW_INFRA_NO_ID &&
        json_object_set_new(row, "parent", json_integer((json_int_t)(parent & ~new_id_bit))) < 0) {
        json_decref(row);
        row = NULL;
    }
    return append(to, row);
}

static int name_frames(struct out *o, json_t *strings)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < o->p->nodes.n; i++) {
        const struct hw_names_node *node = &o->p->nodes.v[i];
        size_t n = 0;
        const hw_str_id *names =
            node->address == HW_ID_NONE ? NULL : names_of(o->x, node->address, &n);
        for (size_t k = 0; rc == HW_OK && k < n; k++) {
            uint64_t sid;
            rc = sid_for(o, names[k], node->name_sid, strings, &sid);
        }
    }
    return rc;
}

static int put_types(struct out *o, const struct v2_lists *l)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < o->p->types.n; i++) {
        const struct hw_names_type *t = &o->p->types.v[i];
        uint64_t sid = t->name_sid;
        if (t->address != HW_ID_NONE)
            rc = sid_for(o, innermost(o->x, t->address, t->name), t->name_sid, l->strings, &sid);
        if (rc == HW_OK)
            rc = append(l->types,
                        json_pack("{sIsI}", "id", (json_int_t)t->id, "name_sid", (json_int_t)sid));
    }
    return rc;
}

/* ---- callers as types ---- */

static const struct hw_names_node *caller(const struct hw_names_process *p,
                                          const struct hw_names_node *n)
{
    const uint64_t *at =
        n && n->parent != HW_INFRA_NO_ID ? hw_map64_find(&p->node_at, n->parent) : NULL;
    return at ? &p->nodes.v[*at] : NULL;
}

static int put_callers_as_types(struct out *o, const struct v2_lists *l)
{
    int rc = HW_OK;
    hw_map64_done(&o->type_of);
    for (size_t i = 0; rc == HW_OK && i < o->p->nodes.n; i++) {
        const struct hw_names_node *type = caller(o->p, caller(o->p, &o->p->nodes.v[i]));
        uint64_t *at, sid;
        bool fresh;
        if (!type)
            continue;
        hw_str_id name = innermost(o->x, type->address, type->name);
        rc = hw_map64_at(&o->type_of, name.v, &at, &fresh);
        if (rc == HW_OK && fresh) {
            *at = ++o->x->last_id;
            rc = sid_for(o, name, HW_INFRA_NO_ID, l->strings, &sid);
            if (rc == HW_OK)
                rc = append(l->types, json_pack("{sIsI}", "id", (json_int_t)*at, "name_sid",
                                                (json_int_t)sid));
        }
        /* Nodes of all processes have different ids. */
        if (rc == HW_OK)
            rc = hw_map64_put(&o->type_of_node, o->p->nodes.v[i].id, *at);
    }
    return rc;
}

static double number_at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

/* Merges rows whose types became the same. */
static int retype(struct out *o, json_t *heap)
{
    json_t *nodes = json_object_get(heap, "nodes"), *types = json_object_get(heap, "types");
    json_t *sizes = json_object_get(heap, "sizes"), *counts = json_object_get(heap, "counts");
    struct hw_map64 row_of = {0};
    size_t n = json_array_size(nodes), kept = 0;
    int rc = HW_OK;
    if (json_array_size(types) != n || json_array_size(sizes) != n || json_array_size(counts) != n)
        return HW_OK; /* the importer counts it */
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        uint64_t node = (uint64_t)json_integer_value(json_array_get(nodes, i)), type, *at;
        bool fresh = true;
        bool found = hw_map64_get(&o->type_of_node, node, &type);
        if (found)
            rc = hw_map64_at(&row_of, node, &at, &fresh);
        if (rc < 0)
            break;
        if (!fresh) {
            double size = number_at(sizes, *at) + number_at(sizes, i);
            double count = number_at(counts, *at) + number_at(counts, i);
            if (json_array_set_new(sizes, *at, json_integer((json_int_t)(size + 0.5))) < 0 ||
                json_array_set_new(counts, *at, json_integer((json_int_t)(count + 0.5))) < 0)
                rc = HW_ENOMEM;
            continue;
        }
        if (json_array_set(nodes, kept, json_array_get(nodes, i)) < 0 ||
            json_array_set(sizes, kept, json_array_get(sizes, i)) < 0 ||
            json_array_set(counts, kept, json_array_get(counts, i)) < 0 ||
            json_array_set(types, kept, json_array_get(types, i)) < 0 ||
            (found && json_array_set_new(types, kept, json_integer((json_int_t)type)) < 0))
            rc = HW_ENOMEM;
        if (found)
            *at = kept;
        kept++;
    }
    hw_map64_done(&row_of);
    for (; rc == HW_OK && n > kept; n--)
        if (json_array_remove(nodes, n - 1) < 0 || json_array_remove(types, n - 1) < 0 ||
            json_array_remove(sizes, n - 1) < 0 || json_array_remove(counts, n - 1) < 0)
            rc = HW_ENOMEM;
    return rc;
}

/* ---- events ---- */

/* Made once per process before writing, as the event that gets them may follow others of it. */
static int make_maps(struct out *o, const struct v2_lists *l)
{
    int rc = index_strings(o);
    if (rc == HW_OK)
        rc = name_frames(o, l->strings);
    if (rc == HW_OK)
        rc = put_frames(o, l->nodes, put_node);
    if (rc == HW_OK)
        rc = put_types(o, l);
    if (rc == HW_OK && o->x->frames_as_types)
        rc = put_callers_as_types(o, l);
    return rc < 0 ? rc : put_kept_strings(o, l->strings);
}

static int rewrite_v2(struct out *o, json_t *event, bool with_maps, json_t *maps_of_process)
{
    json_t *heaps =
        json_object_get(json_object_get(json_object_get(event, "args"), "dumps"), "heaps_v2");
    json_t *empty = json_pack("{s[]s[]s[]}", "strings", "nodes", "types");
    const char *name;
    json_t *heap;
    int rc = empty ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK && json_object_set(heaps, "maps", with_maps ? maps_of_process : empty) < 0)
        rc = HW_ENOMEM;
    json_decref(empty);
    json_object_foreach(json_object_get(heaps, "allocators"), name, heap)
    {
        if (rc == HW_OK && o->x->frames_as_types)
            rc = retype(o, heap);
    }
    return rc;
}

/* Ids of the file are interned texts, new ones are numbers. */
static void v1_key(const struct hw_infra_names *x, uint64_t id, char out[static 24],
                   const char **key)
{
    (void)snprintf(out, 24, "%llu", (unsigned long long)(id & ~new_id_bit));
    *key = id & new_id_bit ? out : hw_strings_cstr(x->strings, (hw_str_id){(uint32_t)id});
}

static int put_v1_frame(struct out *o, json_t *to, uint64_t id, hw_str_id name, uint64_t parent,
                        const struct hw_names_node *of)
{
    const struct hw_infra_names *x = o->x;
    char key_buf[24], above_buf[24];
    const char *key, *above;
    v1_key(x, id, key_buf, &key);
    v1_key(x, parent, above_buf, &above);
    json_t *frame = json_pack("{so}", "name", text(x, name));
    int rc = frame ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK && parent != HW_INFRA_NO_ID &&
        json_object_set_new(frame, "parent", json_string(above)) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK && of->category.v &&
        json_object_set_new(frame, "category", text(x, of->category)) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK && json_object_set(to, key, frame) < 0)
        rc = HW_ENOMEM;
    json_decref(frame);
    return rc;
}

static int rewrite_frames(struct out *o, json_t *event)
{
    json_t *frames = json_object();
    int rc = frames ? put_frames(o, frames, put_v1_frame) : HW_ENOMEM;
    if (rc == HW_OK && json_object_set(json_object_get(event, "args"), "stackFrames", frames) < 0)
        rc = HW_ENOMEM;
    json_decref(frames);
    return rc;
}

static int rewrite_types(struct out *o, json_t *event)
{
    json_t *names = json_object_get(json_object_get(event, "args"), "typeNames");
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < o->p->types.n; i++) {
        const struct hw_names_type *t = &o->p->types.v[i];
        const char *key = hw_strings_cstr(o->x->strings, (hw_str_id){(uint32_t)t->id});
        if (t->address != HW_ID_NONE &&
            json_object_set_new(names, key, text(o->x, innermost(o->x, t->address, t->name))) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int rewrite(struct out *o, json_t **maps, size_t edit, struct hw_bytes bytes,
                   struct hw_error *err)
{
    const struct hw_names_edit *e = &o->x->edits.v[edit];
    json_t *event = json_loadb((const char *)bytes.p, bytes.n, JSON_ALLOW_NUL, NULL);
    char *written = NULL;
    int rc = event ? HW_OK
                   : hw_fail(err, HW_EFORMAT, e->offset, "the file was changed while it was read");
    o->p = &o->x->processes.v[e->process];
    if (rc == HW_OK && e->kind == HW_NAMES_V2)
        rc = rewrite_v2(o, event, o->p->maps_edit == edit, maps[e->process]);
    else if (rc == HW_OK && e->kind == HW_NAMES_FRAMES)
        rc = rewrite_frames(o, event);
    else if (rc == HW_OK)
        rc = rewrite_types(o, event);
    if (rc == HW_OK && !(written = json_dumps(event, JSON_COMPACT)))
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = o->sink(o->ctx, hw_bytes_str(written), err);
    free(written);
    json_decref(event);
    return rc;
}

/* ---- the file ---- */

static int read_exactly(struct hw_source *s, uint8_t *to, size_t n, struct hw_error *err)
{
    size_t have = 0;
    while (have < n) {
        int64_t got = s->read(s->ctx, to + have, n - have, err);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return hw_fail(err, HW_ETRUNCATED, 0, "the file became shorter while it was read");
        have += (size_t)got;
    }
    return HW_OK;
}

static int copy_until(struct out *o, struct hw_source *s, uint64_t *at, uint64_t end, uint8_t *buf,
                      struct hw_error *err)
{
    while (*at < end) {
        size_t n = end - *at < COPY_BYTES ? (size_t)(end - *at) : COPY_BYTES;
        int64_t got = s->read(s->ctx, buf, n, err);
        if (got <= 0)
            return (int)got; /* 0 = the end, where the last copy stops */
        int rc = o->sink(o->ctx, hw_bytes_of(buf, (size_t)got), err);
        if (rc < 0)
            return rc;
        *at += (uint64_t)got;
    }
    return HW_OK;
}

static int write_events(struct out *o, json_t **maps, struct hw_source *source,
                        struct hw_error *err)
{
    uint64_t at = 0;
    uint8_t *buf = malloc(COPY_BYTES);
    int rc = buf ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < o->x->edits.n; i++) {
        const struct hw_names_edit *e = &o->x->edits.v[i];
        rc = copy_until(o, source, &at, e->offset, buf, err);
        uint8_t *event = rc == HW_OK ? malloc(e->n ? e->n : 1) : NULL;
        if (rc == HW_OK)
            rc = event ? read_exactly(source, event, e->n, err) : HW_ENOMEM;
        if (rc == HW_OK)
            rc = rewrite(o, maps, i, hw_bytes_of(event, e->n), err);
        at += e->n;
        free(event);
    }
    if (rc == HW_OK)
        rc = copy_until(o, source, &at, UINT64_MAX, buf, err);
    free(buf);
    return rc;
}

static int make_all_maps(struct out *o, json_t **maps)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < o->x->processes.n; i++) {
        o->p = &o->x->processes.v[i];
        if (o->p->maps_edit == HW_ID_NONE)
            continue;
        maps[i] = json_pack("{s[]s[]s[]}", "strings", "nodes", "types");
        struct v2_lists l = {json_object_get(maps[i], "strings"), json_object_get(maps[i], "nodes"),
                             json_object_get(maps[i], "types")};
        rc = maps[i] ? make_maps(o, &l) : HW_ENOMEM;
    }
    return rc;
}

int hw_infra_names_write(struct hw_infra_names *x, struct hw_source *source, hw_infra_sink sink,
                         void *ctx, struct hw_error *err)
{
    struct out o = {.x = x, .sink = sink, .ctx = ctx};
    json_t **maps = calloc(x->processes.n + 1, sizeof(json_t *));
    int rc = maps ? make_all_maps(&o, maps) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = write_events(&o, maps, source, err);
    for (size_t i = 0; maps && i < x->processes.n; i++)
        json_decref(maps[i]);
    free(maps);
    hw_map64_done(&o.sid_of);
    hw_map64_done(&o.type_of);
    hw_map64_done(&o.type_of_node);
    if (rc < 0 && (!err || !err->code))
        return hw_fail(err, rc, 0, "names of frames:");
    return rc;
}
