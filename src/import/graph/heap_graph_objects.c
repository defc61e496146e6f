#include "import/graph/heap_graph_objects.h"

#include "base/error.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_GRAPH(name)  HW_F_HeapGraph_##name
#define F_OBJECT(name) HW_F_HeapGraphObject_##name

void hw_graph_batch_done(struct hw_graph_batch *b)
{
    hw_vec_done(&b->objects);
    hw_vec_done(&b->targets);
    hw_vec_done(&b->others);
}

static void read_head_field(const struct hw_pb_field *f, struct hw_graph_head *out)
{
    if (f->number == F_GRAPH(pid)) {
        out->pid = (int32_t)f->value < 0 ? 0 : (int32_t)f->value;
    } else if (f->number == F_GRAPH(index)) {
        out->index = f->value;
    } else if (f->number == F_GRAPH(continued)) {
        out->continued = f->value != 0;
    } else if (f->number == F_GRAPH(made_up_from)) {
        out->made_up_from = f->value;
    } else if (f->number == F_GRAPH(heap_bytes_allocated)) {
        out->heap_size = (int64_t)f->value;
        out->has_heap_size = true;
    }
}

void hw_graph_head_read(struct hw_bytes message, struct hw_graph_head *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    *out = (struct hw_graph_head){0};
    while (hw_pb_next(&r, &f) == 1)
        read_head_field(&f, out);
}

void hw_graph_head_of_batch(const struct hw_graph_batch *b, struct hw_graph_head *out)
{
    *out = (struct hw_graph_head){0};
    for (size_t i = 0; i < b->others.n; i++)
        read_head_field(&b->others.v[i].field, out);
}

/* Appends the object's references to the targets. HW_ENOMEM; other errors: not plain, or broken. */
static int read_refs(struct hw_bytes refs, const struct hw_pb_reader *body,
                     struct hw_graph_batch *b, struct hw_graph_plain *o)
{
    size_t n = 0;
    if (hw_vec_reserve(&b->targets, b->targets.n + refs.n) < 0)
        return HW_ENOMEM;
    int rc = hw_pb_packed_in(refs, body, b->targets.v + b->targets.n, &n);
    o->n_refs = (uint32_t)n;
    return rc;
}

/*
 * Most objects have only these fields, each at most once, and bytes follow the object, so that a
 * number can be loaded whole. 1 = read, 0 = it must be read field by field, HW_ENOMEM.
 */
static int read_plain(struct hw_bytes message, const struct hw_pb_reader *body,
                      struct hw_graph_batch *b)
{
    enum { MAX_FIELD = 1 + 8 /* a tag, and a number in hw_pb_varint8() */ };
#define TAG(name, wire) (F_OBJECT(name) << 3 | HW_PB_##wire)
    const uint8_t *p = message.p, *end = hw_bytes_end(message);
    struct hw_bytes refs = {NULL, 0};
    struct hw_graph_plain o = {0};
    if (body->readable - end < MAX_FIELD || message.n > UINT32_MAX)
        return 0;
    while (p < end) {
        unsigned n, tag = *p;
        uint64_t v = hw_pb_varint8(p + 1, &n);
        p += 1 + n;
        if (n == 0 || p > end)
            return 0;
        switch (tag) {
        case TAG(id, VARINT):
            o.id = v;
            o.id_kind = HW_GRAPH_ID;
            break;
        case TAG(id_delta, VARINT):
            o.id = v;
            o.id_kind = HW_GRAPH_ID_DELTA;
            break;
        case TAG(type_id, VARINT):
            o.class_id = v;
            break;
        case TAG(self_size, VARINT):
            o.self_size = v;
            break;
        case TAG(reference_field_id_base, VARINT):
            o.base = v;
            break;
        case TAG(reference_object_id, BYTES):
            if (refs.n || v > (size_t)(end - p))
                return 0;
            refs = hw_bytes_of(p, (size_t)v);
            p += v;
            break;
        default:
            return 0;
        }
    }
#undef TAG
    int rc = refs.n ? read_refs(refs, body, b, &o) : HW_OK;
    if (rc < 0)
        return rc == HW_ENOMEM ? rc : 0;
    if (hw_vec_push(&b->objects, o) < 0)
        return HW_ENOMEM;
    b->targets.n += o.n_refs;
    return 1;
}

int hw_graph_batch_read(struct hw_pb_reader *body, size_t max, struct hw_graph_batch *out)
{
    struct hw_pb_field f;
    hw_vec_clear(&out->objects);
    hw_vec_clear(&out->targets);
    hw_vec_clear(&out->others);
    while (out->objects.n + out->others.n < max) {
        int rc = hw_pb_next(body, &f);
        if (rc <= 0)
            return rc;
        rc = f.number == F_GRAPH(objects) && f.wire == HW_PB_BYTES ? read_plain(f.bytes, body, out)
                                                                   : 0;
        struct hw_graph_other other = {f, out->objects.n};
        if (rc == 0 && hw_vec_push(&out->others, other) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return 1;
}
