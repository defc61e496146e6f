/* Names, types and roots: they may come in any packet of a graph. */
#include <string.h>

#include "base/error.h"
#include "codec/pb.h"
#include "import/perfetto/heap_graph_state.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_TYPE(name) HW_F_HeapGraphType_##name

/* ---- names ---- */

int hw_graph_field_of(struct hw_graph_state *s, uint64_t iid, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&s->field_by_iid, iid, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        rc = hw_graph_field(s->builder, (hw_str_id){0}, (hw_str_id){0}, out);
        if (rc < 0)
            return rc;
        *at = *out;
        while (s->field_is_named.n <= *out)
            if (hw_vec_push(&s->field_is_named, 0) < 0)
                return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int read_interned(struct hw_bytes message, uint64_t *iid, struct hw_bytes *text)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    *iid = 0;
    *text = (struct hw_bytes){0};
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == HW_F_InternedString_iid)
            *iid = f.value;
        else if (f.number == HW_F_InternedString_str)
            *text = f.bytes;
    }
    return rc;
}

/* "<type> <name>" */
int hw_graph_read_field_name(struct hw_heap_graphs *d, struct hw_graph_state *s,
                             struct hw_bytes message)
{
    uint64_t iid;
    uint32_t field;
    struct hw_bytes name, type = {0};
    hw_str_id name_id, type_id = {0};
    if (read_interned(message, &iid, &name) < 0)
        return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
    const uint8_t *space = name.n ? memchr(name.p, ' ', name.n) : NULL;
    if (space) {
        type = hw_bytes_of(name.p, (size_t)(space - name.p));
        name = hw_bytes_of(space + 1, name.n - type.n - 1);
    }
    int rc = hw_graph_field_of(s, iid, &field);
    if (rc == HW_OK)
        rc = hw_profile_str(d->profile, name, &name_id);
    if (rc == HW_OK && type.n)
        rc = hw_profile_str(d->profile, type, &type_id);
    if (rc < 0)
        return rc;
    hw_graph_field_set(s->builder, field, name_id, type_id);
    s->field_is_named.v[field] = 1;
    return HW_OK;
}

int hw_graph_read_location(struct hw_heap_graphs *d, struct hw_graph_state *s,
                           struct hw_bytes message)
{
    uint64_t iid;
    struct hw_bytes text;
    hw_str_id id;
    if (read_interned(message, &iid, &text) < 0)
        return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
    int rc = hw_profile_str(d->profile, text, &id);
    return rc < 0 ? rc : hw_map64_put(&s->location_by_iid, iid, id.v);
}

/* ---- types, roots ---- */

int hw_graph_each_number(const struct hw_pb_field *f, int (*take)(void *ctx, uint64_t v), void *ctx)
{
    struct hw_bytes rest = f->bytes;
    uint64_t v;
    int rc;
    if (f->wire != HW_PB_BYTES)
        return take(ctx, f->value);
    while ((rc = hw_pb_next_packed(&rest, &v)) == 1) {
        rc = take(ctx, v);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int add_type_field(void *ctx, uint64_t iid)
{
    struct hw_graph_state *s = ctx;
    uint32_t field;
    int rc = hw_graph_field_of(s, iid, &field);
    if (rc == HW_OK && hw_vec_push(&s->type_fields, field) < 0)
        rc = HW_ENOMEM;
    return rc;
}

int hw_graph_read_type(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
{
    struct hw_graph_type t = {.first_field = s->type_fields.n};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK, next;
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) != 0) {
        if (next < 0)
            return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
        switch (f.number) {
        case F_TYPE(id):
            t.id = f.value;
            break;
        case F_TYPE(location_id):
            t.location = f.value;
            break;
        case F_TYPE(class_name):
            rc = hw_profile_str(d->profile, f.bytes, &t.class.name);
            break;
        case F_TYPE(object_size):
            t.class.object_size = f.value;
            break;
        case F_TYPE(superclass_id):
            t.class.superclass = f.value;
            t.class.has_superclass = f.value != 0;
            break;
        case F_TYPE(reference_field_id):
            rc = hw_graph_each_number(&f, add_type_field, s);
            break;
        case F_TYPE(kind):
            t.class.kind = f.value < HW_KIND_COUNT ? (enum hw_class_kind)f.value : HW_KIND_UNKNOWN;
            break;
        case F_TYPE(classloader_id):
            t.class.classloader = f.value;
            break;
        default:
            break;
        }
        if (rc == HW_ETRUNCATED || rc == HW_EFORMAT)
            return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
    }
    t.class.n_fields = s->type_fields.n - t.first_field;
    return rc < 0 || hw_vec_push(&s->types, t) == 0 ? rc : HW_ENOMEM;
}

struct root_sink {
    struct hw_graph_builder *builder;
    enum hw_root_type type;
};

static int add_root(void *ctx, uint64_t id)
{
    const struct root_sink *sink = ctx;
    return hw_graph_root(sink->builder, id, sink->type);
}

int hw_graph_read_root(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
{
    struct root_sink sink = {s->builder, HW_ROOT_UNKNOWN};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1)
        if (f.number == HW_F_HeapGraphRoot_root_type && f.value < HW_ROOT_COMPILED_CODE)
            sink.type = (enum hw_root_type)f.value;
    if (rc == 0) {
        r = hw_pb_read(message);
        while (rc == 0 && hw_pb_next(&r, &f) == 1)
            if (f.number == HW_F_HeapGraphRoot_object_ids)
                rc = hw_graph_each_number(&f, add_root, &sink);
    }
    if (rc == HW_ETRUNCATED || rc == HW_EFORMAT)
        return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
    return rc;
}
