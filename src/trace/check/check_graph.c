/*
 * Types, names and objects may follow the references to them, so all are checked at a graph's end.
 * Kept are the objects' ids, with the packet that mentioned each first, and for objects whose types
 * name their fields, the distinct pairs (type, number of references).
 */
#include "trace/check/check_graph.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/check/check_ids.h"
#include "trace/check/checker.h"
#include "trace/reader.h"

#include "base/banned.h"

#define F_GRAPH(name) HW_F_HeapGraph_##name
#define OBJ(name)     HW_F_HeapGraphObject_##name
#define TYPE(name)    HW_F_HeapGraphType_##name
#define KIND(name)    HW_V_HeapGraphType_Kind_KIND_##name

enum { DESCRIBED = 1, ROOT = 2, REFERRED = 4, MENTION_BITS = 3 }; /* of an object's value */
enum type_id { TYPE_SUPERCLASS, TYPE_KIND, TYPE_N_FIELDS, TYPE_CHAIN, TYPE_COUNT };
enum type_mark { NOT_SEEN, ON_PATH, SUMMED };

struct shape {
    uint64_t type, n_refs;
    struct hw_check_pos at;
};

struct hw_check_graph {
    bool open;
    int64_t pid;
    uint64_t ts, next_index, last_id;
    struct hw_check_pos open_at;
    HW_VEC(struct hw_check_pos) packets;
    struct hw_map64 objects; /* id -> first mention: packet << MENTION_BITS | what it was */
    struct hw_check_table types, fields, locations;
    struct hw_map64 shape_by_key;
    HW_VEC(struct shape) shapes;
};

static void clear(struct hw_check_graph *g)
{
    hw_vec_done(&g->packets);
    hw_map64_done(&g->objects);
    hw_check_table_done(&g->types);
    hw_check_table_done(&g->fields);
    hw_check_table_done(&g->locations);
    hw_map64_done(&g->shape_by_key);
    hw_vec_done(&g->shapes);
    *g = (struct hw_check_graph){0};
}

void hw_check_graph_free(struct hw_check_graph *g)
{
    if (!g)
        return;
    clear(g);
    free(g);
}

/* ---- objects ---- */

/* as: DESCRIBED, ROOT or REFERRED; *before: those already set. */
static int mention(struct hw_check_graph *g, uint64_t id, uint64_t as, uint64_t *before)
{
    uint64_t *v;
    bool fresh;
    if (hw_map64_at(&g->objects, id, &v, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh)
        *v = (g->packets.n - 1) << MENTION_BITS;
    *before = *v;
    *v |= as;
    return HW_OK;
}

struct object {
    uint64_t id, delta, type, base;
    uint64_t n_names, n_refs;
    bool has_id, has_delta;
};

static uint64_t count_of(const struct hw_pb_field *f)
{
    struct hw_bytes rest = f->bytes;
    uint64_t n = 0, v;
    if (f->wire != HW_PB_BYTES)
        return 1;
    while (hw_pb_next_packed(&rest, &v) == 1)
        n++;
    return n;
}

static struct object read_object(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct object o = {0};
    while (hw_pb_next(&r, &f) == 1)
        switch (f.number) {
        case OBJ(id):
            o.id = f.value;
            o.has_id = true;
            break;
        case OBJ(id_delta):
            o.delta = f.value;
            o.has_delta = true;
            break;
        case OBJ(type_id):
            o.type = f.value;
            break;
        case OBJ(reference_field_id_base):
            o.base = f.value;
            break;
        case OBJ(reference_field_id):
            o.n_names += count_of(&f);
            break;
        case OBJ(reference_object_id):
            o.n_refs += count_of(&f);
            break;
        default:
            break;
        }
    return o;
}

static int refer_one(struct hw_checker *c, struct hw_check_graph *g, uint32_t field, uint64_t base,
                     uint64_t v)
{
    uint64_t before;
    if (v == 0)
        return HW_OK;
    if (field == OBJ(reference_field_id))
        return hw_check_refer(c, &g->fields, v);
    return mention(g, field == OBJ(reference_object_id) ? base + v : v, REFERRED, &before);
}

static int refer_all(struct hw_checker *c, struct hw_check_graph *g, const struct hw_pb_field *f,
                     uint64_t base)
{
    struct hw_bytes rest = f->bytes;
    uint64_t v;
    int rc = HW_OK;
    if (f->wire != HW_PB_BYTES)
        return refer_one(c, g, f->number, base, f->value);
    while (rc == HW_OK && hw_pb_next_packed(&rest, &v) == 1)
        rc = refer_one(c, g, f->number, base, v);
    return rc;
}

/* Stores each pair once, for check_shapes. */
static int add_shape(struct hw_checker *c, struct hw_check_graph *g, const struct object *o)
{
    uint64_t *at;
    bool fresh;
    if (hw_map64_at(&g->shape_by_key, hw_hash_mix(o->type, o->n_refs), &at, &fresh) < 0 ||
        (fresh && hw_vec_push(&g->shapes, (struct shape){o->type, o->n_refs, c->at}) < 0))
        return HW_ENOMEM;
    return HW_OK;
}

static void check_id(struct hw_checker *c, struct hw_check_graph *g, struct object *o)
{
    uint64_t sum;
    if (o->has_id == o->has_delta) {
        hw_check_found(c, HW_CHECK_OBJECT_ID, "an object behind %llu has %s id",
                       (unsigned long long)g->last_id, o->has_id ? "more than one" : "no");
    } else if (o->has_delta && __builtin_add_overflow(g->last_id, o->delta, &sum)) {
        hw_check_found(c, HW_CHECK_OBJECT_ID, "%llu is added to the id %llu",
                       (unsigned long long)o->delta, (unsigned long long)g->last_id);
    }
    if (!o->has_id)
        o->id = g->last_id + o->delta;
    g->last_id = o->id;
}

static int check_object(struct hw_checker *c, struct hw_check_graph *g, struct hw_bytes message)
{
    struct object o = read_object(message);
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t before;
    check_id(c, g, &o);
    int rc = mention(g, o.id, DESCRIBED, &before);
    if (rc == HW_OK && before & DESCRIBED)
        hw_check_found(c, HW_CHECK_OBJECT_TWICE, "object %llu", (unsigned long long)o.id);
    if (rc == HW_OK)
        rc = hw_check_refer(c, &g->types, o.type);
    if (rc == HW_OK && o.n_names && o.n_names != o.n_refs)
        hw_check_found(c, HW_CHECK_REFERENCE_COUNT,
                       "object %llu has %llu references by %llu fields", (unsigned long long)o.id,
                       (unsigned long long)o.n_refs, (unsigned long long)o.n_names);
    if (rc == HW_OK && o.n_names == 0)
        rc = add_shape(c, g, &o);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == OBJ(reference_field_id) || f.number == OBJ(reference_object_id) ||
            f.number == OBJ(runtime_internal_object_id))
            rc = refer_all(c, g, &f, o.base);
    return rc;
}

static int read_root(struct hw_check_graph *g, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t before, id;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_HeapGraphRoot_object_ids)
            continue;
        if (f.wire != HW_PB_BYTES)
            rc = mention(g, f.value, ROOT, &before);
        while (rc == HW_OK && f.wire == HW_PB_BYTES && hw_pb_next_packed(&f.bytes, &id) == 1)
            rc = mention(g, id, ROOT, &before);
    }
    return rc;
}

/* ---- types and names ---- */

static int read_type(struct hw_checker *c, struct hw_check_graph *g, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_check_entry *e;
    uint64_t id, v[TYPE_COUNT] = {0}, location = 0;
    uint64_t hash = hw_check_entry_hash(message, &id);
    int rc = hw_check_define(c, &g->types, "type", id, hash, &e);
    if (rc < 0 || !e)
        return rc;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == TYPE(superclass_id))
            v[TYPE_SUPERCLASS] = f.value;
        else if (f.number == TYPE(kind))
            v[TYPE_KIND] = f.value;
        else if (f.number == TYPE(location_id))
            location = f.value;
        else if (f.number == TYPE(reference_field_id)) {
            struct hw_pb_field names = f;
            v[TYPE_N_FIELDS] += count_of(&f);
            names.number = OBJ(reference_field_id);
            rc = refer_all(c, g, &names, /* base = */ 0);
        }
    }
    for (size_t i = 0; rc == HW_OK && i < TYPE_COUNT; i++)
        rc = hw_check_entry_id(&g->types, e, v[i]);
    return rc == HW_OK && location ? hw_check_refer(c, &g->locations, location) : rc;
}

static int read_name(struct hw_checker *c, struct hw_check_table *t, const char *what,
                     struct hw_bytes message)
{
    struct hw_check_entry *e;
    uint64_t id, hash = hw_check_entry_hash(message, &id);
    return hw_check_define(c, t, what, id, hash, &e);
}

/* ---- the end of a graph ---- */

static uint64_t *ids_of(struct hw_check_graph *g, const struct hw_check_entry *type)
{
    return &g->types.ids.v[type->first];
}

/*
 * Puts the number of fields of a type and its superclasses into TYPE_CHAIN of each type on the way.
 * Walks up to a type that is summed already, then down again: each type is visited twice in all.
 */
static int sum_chain(struct hw_checker *c, struct hw_check_graph *g, struct hw_check_entry *from)
{
    HW_VEC(struct hw_check_entry *) path = {0};
    struct hw_check_entry *e = from;
    uint64_t sum = 0;
    int rc = HW_OK;
    while (rc == HW_OK && e && e->defined && e->mark == NOT_SEEN) {
        e->mark = ON_PATH;
        uint64_t super = ids_of(g, e)[TYPE_SUPERCLASS];
        rc = hw_vec_push(&path, e) < 0 ? HW_ENOMEM : HW_OK;
        struct hw_check_entry *above = super ? hw_check_table_find(&g->types, super) : NULL;
        if (super && (!above || !above->defined))
            hw_check_found_at(c, HW_CHECK_SUPERCLASS_UNDESCRIBED, e->at,
                              "type %llu has the superclass %llu", (unsigned long long)e->id,
                              (unsigned long long)super);
        e = above;
    }
    if (e && e->mark == ON_PATH && path.n)
        hw_check_found_at(c, HW_CHECK_SUPERCLASS_CYCLE, e->at, "type %llu is above itself",
                          (unsigned long long)e->id);
    else if (e && e->mark == SUMMED)
        sum = ids_of(g, e)[TYPE_CHAIN];
    while (path.n) {
        struct hw_check_entry *t = path.v[--path.n];
        t->mark = SUMMED;
        sum += ids_of(g, t)[TYPE_N_FIELDS];
        ids_of(g, t)[TYPE_CHAIN] = sum;
    }
    hw_vec_done(&path);
    return rc;
}

static bool has_field_list(uint64_t kind)
{
    return kind != KIND(NOREFERENCES) && kind != KIND(ARRAY) && kind != KIND(STRING);
}

static void check_shapes(struct hw_checker *c, struct hw_check_graph *g)
{
    for (size_t i = 0; i < g->shapes.n; i++) {
        const struct shape *s = &g->shapes.v[i];
        const struct hw_check_entry *e = hw_check_table_find(&g->types, s->type);
        if (!e || !e->defined || s->n_refs == 0)
            continue;
        const uint64_t *ids = ids_of(g, e);
        if (has_field_list(ids[TYPE_KIND]) && ids[TYPE_CHAIN] && ids[TYPE_CHAIN] != s->n_refs)
            hw_check_found_at(c, HW_CHECK_REFERENCE_COUNT, s->at,
                              "an object of type %llu has %llu references, the type %llu fields",
                              (unsigned long long)s->type, (unsigned long long)s->n_refs,
                              (unsigned long long)ids[TYPE_CHAIN]);
    }
}

static int by_id(const void *pa, const void *pb)
{
    const struct hw_map64_slot *a = pa, *b = pb;
    return (a->key > b->key) - (a->key < b->key);
}

/* In order of ids; the map's order is random. */
static int check_objects(struct hw_checker *c, struct hw_check_graph *g)
{
    HW_VEC(struct hw_map64_slot) missing = {0};
    int rc = HW_OK;
    for (size_t i = 0; g->objects.slots && rc == HW_OK && i <= g->objects.mask; i++) {
        const struct hw_map64_slot *s = &g->objects.slots[i];
        if (s->key != HW_MAP64_NO_KEY && !(s->value & DESCRIBED))
            rc = hw_vec_push(&missing, *s) < 0 ? HW_ENOMEM : HW_OK;
    }
    if (rc == HW_OK && missing.n)
        qsort(missing.v, missing.n, sizeof *missing.v, by_id);
    for (size_t i = 0; rc == HW_OK && i < missing.n; i++) {
        struct hw_check_pos at = g->packets.v[missing.v[i].value >> MENTION_BITS];
        if (missing.v[i].value & ROOT)
            hw_check_found_at(c, HW_CHECK_ROOT_UNDESCRIBED, at, "object %llu",
                              (unsigned long long)missing.v[i].key);
        if (missing.v[i].value & REFERRED)
            hw_check_found_at(c, HW_CHECK_OBJECT_UNDESCRIBED, at, "object %llu",
                              (unsigned long long)missing.v[i].key);
    }
    hw_vec_done(&missing);
    return rc;
}

static int end_graph(struct hw_checker *c, struct hw_check_sequence *s)
{
    struct hw_check_graph *g = s->graph;
    int rc = check_objects(c, g);
    hw_check_table_end(c, &g->types, HW_CHECK_TYPE_UNDESCRIBED, "type", s->id);
    hw_check_table_end(c, &g->fields, HW_CHECK_FIELD_UNDESCRIBED, "field name", s->id);
    hw_check_table_end(c, &g->locations, HW_CHECK_LOCATION_UNDESCRIBED, "location", s->id);
    for (size_t i = 0; rc == HW_OK && i < g->types.v.n; i++)
        rc = sum_chain(c, g, &g->types.v.v[i]);
    if (rc == HW_OK)
        check_shapes(c, g);
    clear(g);
    return rc;
}

int hw_check_graph_end(struct hw_checker *c, struct hw_check_sequence *s)
{
    if (!s->graph || !s->graph->open)
        return HW_OK;
    hw_check_found_at(c, HW_CHECK_GRAPH_UNFINISHED, s->graph->open_at,
                      "the heap graph of pid %lld that begins here never ends",
                      (long long)s->graph->pid);
    return end_graph(c, s);
}

/* ---- a packet ---- */

struct graph_packet {
    int64_t pid;
    uint64_t index;
    bool continued;
};

static struct graph_packet read_packet(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct graph_packet p = {0};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == F_GRAPH(pid))
            p.pid = (int32_t)f.value;
        else if (f.number == F_GRAPH(index))
            p.index = f.value;
        else if (f.number == F_GRAPH(continued))
            p.continued = f.value != 0;
    }
    return p;
}

static int read_fields(struct hw_checker *c, struct hw_check_graph *g, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == F_GRAPH(objects))
            rc = check_object(c, g, f.bytes);
        else if (f.number == F_GRAPH(roots))
            rc = read_root(g, f.bytes);
        else if (f.number == F_GRAPH(types))
            rc = read_type(c, g, f.bytes);
        else if (f.number == F_GRAPH(field_names))
            rc = read_name(c, &g->fields, "field name", f.bytes);
        else if (f.number == F_GRAPH(location_names))
            rc = read_name(c, &g->locations, "location", f.bytes);
    }
    return rc;
}

/* A graph has one process and one time, and its packets are numbered. */
static int begin_or_continue(struct hw_checker *c, struct hw_check_sequence *s,
                             const struct graph_packet *gp, uint64_t ts)
{
    struct hw_check_graph *g = s->graph;
    int rc = HW_OK;
    if (g->open && (gp->pid != g->pid || ts != g->ts)) {
        hw_check_found(c, HW_CHECK_GRAPH_CHANGED,
                       "pid %lld at %llu, in the middle of a graph of pid %lld at %llu",
                       (long long)gp->pid, (unsigned long long)ts, (long long)g->pid,
                       (unsigned long long)g->ts);
        rc = end_graph(c, s);
    }
    if (!g->open) {
        g->open_at = c->at;
        g->pid = gp->pid;
        g->ts = ts;
    }
    g->open = true;
    if (gp->index != g->next_index)
        hw_check_found(c, HW_CHECK_GRAPH_INDEX, "index %llu of pid %lld, %llu is next",
                       (unsigned long long)gp->index, (long long)gp->pid,
                       (unsigned long long)g->next_index);
    g->next_index = gp->index + 1;
    return rc;
}

int hw_check_graph_packet(struct hw_checker *c, struct hw_check_sequence *s,
                          const struct hw_packet *p)
{
    struct graph_packet gp = read_packet(p->data);
    if (!s->graph && !(s->graph = calloc(1, sizeof *s->graph)))
        return HW_ENOMEM;
    int rc = begin_or_continue(c, s, &gp, p->timestamp);
    if (rc == HW_OK && hw_vec_push(&s->graph->packets, c->at) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_check_pid_used(c, gp.pid);
    if (rc == HW_OK)
        rc = read_fields(c, s->graph, p->data);
    return rc == HW_OK && !gp.continued ? end_graph(c, s) : rc;
}
