/*
 * An object says in few bytes what it shares with the one before: its id as a difference, its heap
 * only when it changes, its references' names not at all when they are those of its type. Types,
 * names and roots may come in any packet up to the last, so they are kept until then and given to
 * the builder at the end; objects and references go straight into it.
 */
#include "import/perfetto/heap_graphs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "codec/pb.h"
#include "import/perfetto/heap_graph_blocks.h"
#include "import/perfetto/heap_graph_holders.h"
#include "import/perfetto/heap_graph_natives.h"
#include "import/perfetto/heap_graph_values.h"
#include "model/graph/heap_graph_build.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_GRAPH(name)  HW_F_HeapGraph_##name
#define F_OBJECT(name) HW_F_HeapGraphObject_##name
#define F_TYPE(name)   HW_F_HeapGraphType_##name
#define F_ART(name)    HW_F_ArtProcessMetadata_##name

enum { MAX_STACK = 1024 };

struct type {
    uint64_t id, location;
    struct hw_graph_class class;
    size_t first_field; /* of type_fields */
};

struct hw_graph_state {
    struct hw_graph_builder *builder; /* owned; NULL: between graphs */
    int64_t pid, ts_ns;
    uint64_t next_index, last_id;
    enum hw_heap_type heap_type;
    bool truncated;
    int64_t heap_size;
    struct hw_map64 field_by_iid, location_by_iid; /* -> field; -> string */
    HW_VEC(uint8_t) field_is_named;                /* by field */
    uint32_t runtime_field;                        /* 0 = not met yet */
    HW_VEC(struct type) types;
    HW_VEC(uint32_t) type_fields;
    hw_sized_ids natives;
    hw_told_blocks blocks;
    struct hw_told_holders holders;
    uint64_t made_up_from;          /* objects from this number on are left out; 0 = none */
    HW_VEC(uint64_t) made_up_types; /* that only such have */
    hw_field_values values;
    HW_VEC(uint64_t) targets, names; /* of the object being read */
};

void hw_heap_graphs_init(struct hw_heap_graphs *d, struct hw_profile *profile)
{
    *d = (struct hw_heap_graphs){.profile = profile};
}

static void state_clear(struct hw_graph_state *s)
{
    hw_graph_builder_free(s->builder);
    hw_map64_done(&s->field_by_iid);
    hw_map64_done(&s->location_by_iid);
    hw_vec_done(&s->field_is_named);
    hw_vec_done(&s->types);
    hw_vec_done(&s->type_fields);
    hw_vec_done(&s->natives);
    hw_vec_done(&s->blocks);
    hw_told_holders_done(&s->holders);
    hw_vec_done(&s->made_up_types);
    hw_vec_done(&s->values);
    hw_vec_done(&s->targets);
    hw_vec_done(&s->names);
    *s = (struct hw_graph_state){0};
}

void hw_heap_graphs_done(struct hw_heap_graphs *d)
{
    for (size_t i = 0; i < d->states.n; i++) {
        state_clear(d->states.v[i]);
        free(d->states.v[i]);
    }
    hw_vec_done(&d->states);
    hw_vec_done(&d->oomes);
    hw_told_links_done(&d->links);
    hw_map64_done(&d->by_sequence);
}

static int count_error(struct hw_heap_graphs *d, const char *stat, const struct hw_graph_state *s,
                       uint64_t n)
{
    int64_t value = n > INT64_MAX ? INT64_MAX : (int64_t)n;
    return n ? hw_profile_stat_add(d->profile, stat, s->pid, HW_STAT_ERROR, value) : HW_OK;
}

/* Of all processes together: front ends read the one row, whatever its key. */
static int count_unfinished(struct hw_heap_graphs *d, uint64_t n)
{
    int64_t value = n > INT64_MAX ? INT64_MAX : (int64_t)n;
    return n ? hw_profile_stat_add(d->profile, "heap_graph_non_finalized_graph", -1,
                                   HW_STAT_DATA_LOSS, value)
             : HW_OK;
}

static int state_get(struct hw_heap_graphs *d, uint64_t sequence, struct hw_graph_state **out)
{
    uint64_t *at;
    bool fresh;
    uint64_t key = sequence == HW_MAP64_NO_KEY ? sequence - 1 : sequence;
    int rc = hw_map64_at(&d->by_sequence, key, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        struct hw_graph_state *s = calloc(1, sizeof *s);
        if (!s || hw_vec_push(&d->states, s) < 0) {
            free(s);
            (void)hw_map64_take(&d->by_sequence, key, NULL); /* it was put there just now */
            return HW_ENOMEM;
        }
        *at = d->states.n - 1;
    }
    *out = d->states.v[*at];
    return HW_OK;
}

/* ---- names ---- */

static uint64_t map_key(uint64_t iid)
{
    return iid == HW_MAP64_NO_KEY ? iid - 1 : iid;
}

/* The field with this iid, perhaps not named yet. */
static int field_of(struct hw_graph_state *s, uint64_t iid, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&s->field_by_iid, map_key(iid), &at, &fresh);
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
static int read_field_name(struct hw_heap_graphs *d, struct hw_graph_state *s,
                           struct hw_bytes message)
{
    uint64_t iid;
    uint32_t field;
    struct hw_bytes name, type = {0};
    hw_str_id name_id, type_id = {0};
    if (read_interned(message, &iid, &name) < 0)
        return count_error(d, "heap_graph_malformed_packet", s, 1);
    const uint8_t *space = name.n ? memchr(name.p, ' ', name.n) : NULL;
    if (space) {
        type = hw_bytes_of(name.p, (size_t)(space - name.p));
        name = hw_bytes_of(space + 1, name.n - type.n - 1);
    }
    int rc = field_of(s, iid, &field);
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

static int read_location(struct hw_heap_graphs *d, struct hw_graph_state *s,
                         struct hw_bytes message)
{
    uint64_t iid;
    struct hw_bytes text;
    hw_str_id id;
    if (read_interned(message, &iid, &text) < 0)
        return count_error(d, "heap_graph_malformed_packet", s, 1);
    int rc = hw_profile_str(d->profile, text, &id);
    return rc < 0 ? rc : hw_map64_put(&s->location_by_iid, map_key(iid), id.v);
}

/* ---- types, roots ---- */

/* Every value of a repeated number, packed or not. */
static int each_number(const struct hw_pb_field *f, int (*take)(void *ctx, uint64_t v), void *ctx)
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
    int rc = field_of(s, iid, &field);
    if (rc == HW_OK && hw_vec_push(&s->type_fields, field) < 0)
        rc = HW_ENOMEM;
    return rc;
}

static int read_type(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
{
    struct type t = {.first_field = s->type_fields.n};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK, next;
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) != 0) {
        if (next < 0)
            return count_error(d, "heap_graph_malformed_packet", s, 1);
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
            rc = each_number(&f, add_type_field, s);
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
            return count_error(d, "heap_graph_malformed_packet", s, 1);
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

static int read_root(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
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
                rc = each_number(&f, add_root, &sink);
    }
    if (rc == HW_ETRUNCATED || rc == HW_EFORMAT)
        return count_error(d, "heap_graph_malformed_packet", s, 1);
    return rc;
}

/* ---- objects ---- */

static int push_target(void *ctx, uint64_t v)
{
    struct hw_graph_state *s = ctx;
    return hw_vec_push(&s->targets, v) < 0 ? HW_ENOMEM : HW_OK;
}

static int push_name(void *ctx, uint64_t v)
{
    struct hw_graph_state *s = ctx;
    return hw_vec_push(&s->names, v) < 0 ? HW_ENOMEM : HW_OK;
}

struct object {
    struct hw_graph_object o;
    uint64_t base, native_size;
    struct hw_bytes internal; /* packed */
    size_t n_internal;        /* those that are not packed, at the end of `names` */
    bool has_id, has_native;
    uint32_t n_values; /* of single fields, see heap_graph_values.h */
};

/* References of the runtime itself, behind the others. */
static int add_internal(void *ctx, uint64_t id)
{
    struct hw_graph_state *s = ctx;
    return hw_graph_ref(s->builder, id, s->runtime_field);
}

static int make_runtime_field(struct hw_heap_graphs *d, struct hw_graph_state *s)
{
    hw_str_id name;
    if (s->runtime_field)
        return HW_OK;
    int rc = hw_profile_str(d->profile, hw_bytes_str("runtimeInternalObjects"), &name);
    if (rc == HW_OK)
        rc = hw_graph_field(s->builder, name, (hw_str_id){0}, &s->runtime_field);
    while (rc == HW_OK && s->field_is_named.n <= s->runtime_field)
        if (hw_vec_push(&s->field_is_named, 1) < 0)
            rc = HW_ENOMEM;
    return rc;
}

/* Reads an object's fields; its references into targets and names. */
static int read_object_fields(struct hw_graph_state *s, struct hw_bytes message, struct object *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK, next;
    *out = (struct object){0};
    hw_vec_clear(&s->targets);
    hw_vec_clear(&s->names);
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) != 0) {
        if (next < 0)
            return next;
        switch (f.number) {
        case F_OBJECT(id):
            out->o.id = f.value;
            out->has_id = true;
            break;
        case F_OBJECT(id_delta):
            out->o.id = s->last_id + f.value;
            out->has_id = true;
            break;
        case F_OBJECT(type_id):
            out->o.class_id = f.value;
            break;
        case F_OBJECT(self_size):
            out->o.self_size = f.value;
            break;
        case F_OBJECT(reference_field_id):
            rc = each_number(&f, push_name, s);
            break;
        case F_OBJECT(reference_object_id):
            rc = each_number(&f, push_target, s);
            break;
        case F_OBJECT(reference_field_id_base):
            out->base = f.value;
            break;
        case F_OBJECT(native_allocation_registry_size_field):
            out->native_size = f.value;
            out->has_native = true;
            break;
        case F_OBJECT(heap_type_delta):
            s->heap_type =
                f.value < HW_HEAP_TYPE_COUNT ? (enum hw_heap_type)f.value : HW_HEAP_TYPE_UNKNOWN;
            break;
        case F_OBJECT(runtime_internal_object_id):
            out->n_internal++;
            break;
        default:
            out->n_values += hw_heap_graph_is_value(f.number);
            break;
        }
    }
    return rc;
}

static int add_refs(struct hw_heap_graphs *d, struct hw_graph_state *s, const struct object *o)
{
    size_t n = s->targets.n;
    if (s->names.n && s->names.n != n) /* then nobody knows which is which */
        return count_error(d, "heap_graph_malformed_packet", s, 1);
    for (size_t i = 0; i < n; i++) {
        uint32_t field = HW_FIELD_OF_LIST;
        uint64_t target = s->targets.v[i];
        int rc = s->names.n ? field_of(s, s->names.v[i], &field) : HW_OK;
        if (rc == HW_OK)
            rc = hw_graph_ref(s->builder, target ? target + o->base : 0, field);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int add_internals(struct hw_heap_graphs *d, struct hw_graph_state *s,
                         struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = make_runtime_field(d, s);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == F_OBJECT(runtime_internal_object_id))
            rc = each_number(&f, add_internal, s);
    if (rc == HW_ETRUNCATED || rc == HW_EFORMAT)
        return count_error(d, "heap_graph_malformed_packet", s, 1);
    return rc;
}

static int add_values(struct hw_graph_state *s, struct hw_bytes message, uint64_t id)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        struct hw_field_value v = {id, f.number, (int64_t)f.value};
        if (f.wire == HW_PB_VARINT && hw_heap_graph_is_value(f.number) &&
            hw_vec_push(&s->values, v) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* An object that stands in no heap; its type neither. */
static int leave_out(struct hw_graph_state *s, const struct object *o)
{
    enum { MOST = 8 };
    for (size_t i = 0; i < s->made_up_types.n; i++)
        if (s->made_up_types.v[i] == o->o.class_id)
            return HW_OK;
    if (s->made_up_types.n >= MOST)
        return HW_OK;
    return hw_vec_push(&s->made_up_types, o->o.class_id) < 0 ? HW_ENOMEM : HW_OK;
}

static bool is_left_out(const struct hw_graph_state *s, uint64_t type)
{
    for (size_t i = 0; i < s->made_up_types.n; i++)
        if (s->made_up_types.v[i] == type)
            return true;
    return false;
}

static int read_object(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
{
    struct object o;
    int rc = read_object_fields(s, message, &o);
    if (rc == HW_ETRUNCATED || rc == HW_EFORMAT || (rc == HW_OK && (!o.has_id || !o.o.id)))
        return count_error(d, "heap_graph_malformed_packet", s, 1);
    if (rc < 0)
        return rc;
    s->last_id = o.o.id;
    if (s->made_up_from && o.o.id >= s->made_up_from)
        return leave_out(s, &o);
    o.o.heap_type = s->heap_type;
    rc = hw_graph_object(s->builder, &o.o);
    if (rc == HW_OK)
        rc = add_refs(d, s, &o);
    if (rc == HW_OK && o.n_internal)
        rc = add_internals(d, s, message);
    if (rc == HW_OK && o.has_native &&
        hw_vec_push(&s->natives, (struct hw_sized_id){o.o.id, (int64_t)o.native_size}) < 0)
        rc = HW_ENOMEM;
    return rc == HW_OK && o.n_values ? add_values(s, message, o.o.id) : rc;
}

/* ---- the end of a graph ---- */

static int give_types(struct hw_heap_graphs *d, struct hw_graph_state *s)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < s->types.n; i++) {
        struct type *t = &s->types.v[i];
        uint64_t location = 0;
        if (is_left_out(s, t->id))
            continue;
        if (t->location && !hw_map64_get(&s->location_by_iid, map_key(t->location), &location))
            rc = count_error(d, "heap_graph_invalid_string_id", s, 1);
        t->class.location = (hw_str_id){(uint32_t)location};
        t->class.fields = hw_vec_from(&s->type_fields, t->first_field);
        if (rc == HW_OK)
            rc = hw_graph_class(s->builder, t->id, &t->class);
    }
    uint64_t unnamed = 0;
    for (size_t f = 1; f < s->field_is_named.n; f++)
        unnamed += !s->field_is_named.v[f];
    return rc < 0 ? rc : count_error(d, "heap_graph_invalid_string_id", s, unnamed);
}

static int add_oome(struct hw_heap_graphs *d, struct hw_heap_graph *g, int64_t pid)
{
    for (size_t i = d->oomes.n; i-- > 0;) {
        const struct hw_oome *o = &d->oomes.v[i];
        if (o->pid != pid)
            continue;
        g->is_oome = true;
        g->oome_allocation_size = o->allocation_size;
        g->oome_total_free = o->total_free;
        g->oome_free_until = o->free_until;
        g->oome_message = o->message;
        struct hw_heap_thread t = {.callsite = o->callsite, .object = HW_ID_NONE};
        if (o->callsite.v != HW_ID_NONE && hw_vec_push(&g->threads, t) < 0)
            return HW_ENOMEM;
        d->oomes.v[i] = d->oomes.v[--d->oomes.n];
        return hw_profile_str(d->profile, hw_bytes_str("OOME"), &g->dump_reason);
    }
    return HW_OK;
}

static int complete(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_heap_graph *g)
{
    g->ts_ns = s->ts_ns;
    g->truncated = s->truncated;
    g->heap_size = s->heap_size;
    uint64_t lost = 0, unheld = 0;
    int rc = hw_profile_process(d->profile, s->pid, &g->upid);
    if (rc == HW_OK && s->blocks.n)
        rc = hw_heap_graph_add_blocks(s->builder, &s->blocks, g, &lost);
    if (rc == HW_OK)
        rc = hw_told_holders_give(&s->holders, d->profile, s->builder, g, &unheld);
    if (rc == HW_OK)
        rc = count_error(d, "heap_graph_malformed_packet", s, lost + unheld);
    if (rc == HW_OK)
        rc = hw_heap_graph_add_natives(hw_callsites_strings(d->profile->callsites), s->builder,
                                       &s->natives, g);
    if (rc == HW_OK)
        rc = hw_heap_graph_add_values(d->profile, s->builder, &s->values, g);
    return rc < 0 ? rc : add_oome(d, g, s->pid);
}

static int finish_graph(struct hw_heap_graphs *d, struct hw_graph_state *s)
{
    struct hw_heap_graph *g = NULL;
    struct hw_graph_faults faults;
    int rc = give_types(d, s);
    if (rc == HW_OK)
        rc = hw_graph_finish(s->builder, &g, &faults);
    if (rc == HW_OK)
        rc = count_error(d, "heap_graph_malformed_packet", s,
                         faults.duplicate_objects + faults.undescribed_classes +
                             faults.wrong_field_lists);
    if (rc == HW_OK)
        rc = complete(d, s, g);
    if (rc == HW_OK)
        rc = hw_profile_add_graph(d->profile, g);
    else
        hw_heap_graph_free(g);
    state_clear(s);
    return rc;
}

/* ---- packets ---- */

struct head {
    int64_t pid;
    uint64_t index;
    bool continued, has_heap_size;
    int64_t heap_size;
    uint64_t made_up_from;
};

static int read_head(struct hw_bytes message, struct head *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    *out = (struct head){0};
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == F_GRAPH(pid)) {
            out->pid = (int32_t)f.value;
        } else if (f.number == F_GRAPH(index)) {
            out->index = f.value;
        } else if (f.number == F_GRAPH(continued)) {
            out->continued = f.value != 0;
        } else if (f.number == F_GRAPH(made_up_from)) {
            out->made_up_from = f.value;
        } else if (f.number == F_GRAPH(heap_bytes_allocated)) {
            out->heap_size = (int64_t)f.value;
            out->has_heap_size = true;
        }
    }
    if (out->pid < 0)
        out->pid = 0;
    return rc;
}

static int begin(struct hw_heap_graphs *d, struct hw_graph_state *s, const struct head *h,
                 int64_t ts_ns)
{
    if (s->builder)
        return HW_OK;
    s->pid = h->pid;
    s->ts_ns = ts_ns;
    s->heap_size = -1;
    return hw_graph_builder_new(hw_callsites_strings(d->profile->callsites), &s->builder);
}

static int read_block(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
{
    int rc = hw_heap_graph_read_block(message, &s->blocks);
    return rc < 0 ? rc : count_error(d, "heap_graph_malformed_packet", s, rc == 0);
}

static int read_holder(struct hw_heap_graphs *d, struct hw_graph_state *s,
                       const struct hw_pb_field *f)
{
    int rc = f->number == F_GRAPH(managed_threads)
                 ? hw_told_thread_read(d->profile, f->bytes, &s->holders)
             : f->number == F_GRAPH(managed_frames)
                 ? hw_told_frame_read(d->profile, f->bytes, &s->holders)
                 : hw_told_holder_read(f->bytes, &s->holders);
    size_t n = s->holders.holders.n;
    if (rc == 1 && f->number == F_GRAPH(managed_roots) &&
        s->holders.holders.v[n - 1].root_type == HW_ROOT_COMPILED_CODE &&
        hw_graph_root(s->builder, s->holders.holders.v[n - 1].object, HW_ROOT_COMPILED_CODE) < 0)
        return HW_ENOMEM;
    return rc < 0 ? rc : count_error(d, "heap_graph_malformed_packet", s, rc == 0);
}

static int read_body(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message,
                     bool is_same_graph)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t strays = 0;
    int rc = HW_OK, next;
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) != 0) {
        if (next < 0)
            return count_error(d, "heap_graph_malformed_packet", s, 1);
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == F_GRAPH(objects) && is_same_graph)
            rc = read_object(d, s, f.bytes);
        else if (f.number == F_GRAPH(objects))
            strays++;
        else if (f.number == F_GRAPH(types))
            rc = read_type(d, s, f.bytes);
        else if (f.number == F_GRAPH(field_names))
            rc = read_field_name(d, s, f.bytes);
        else if (f.number == F_GRAPH(location_names))
            rc = read_location(d, s, f.bytes);
        else if (f.number == F_GRAPH(roots))
            rc = read_root(d, s, f.bytes);
        else if (f.number == F_GRAPH(native_blocks))
            rc = read_block(d, s, f.bytes);
        else if (f.number == F_GRAPH(managed_threads) || f.number == F_GRAPH(managed_frames) ||
                 f.number == F_GRAPH(managed_roots))
            rc = read_holder(d, s, &f);
    }
    return rc < 0 ? rc : count_unfinished(d, strays);
}

int hw_heap_graphs_packet(struct hw_heap_graphs *d, const struct hw_packet *p, int64_t ts_ns)
{
    struct hw_graph_state *s;
    struct head h;
    int rc = state_get(d, p->sequence, &s);
    if (rc < 0)
        return rc;
    (void)read_head(p->data, &h); /* damage is met again below */
    rc = begin(d, s, &h, ts_ns);
    if (rc == HW_OK && h.index != s->next_index) {
        s->truncated = true;
        rc = count_error(d, "heap_graph_missing_packet", s, 1);
    }
    s->next_index = h.index + 1;
    if (h.has_heap_size)
        s->heap_size = h.heap_size;
    if (h.made_up_from)
        s->made_up_from = h.made_up_from;
    if (rc == HW_OK)
        rc = read_body(d, s, p->data, h.pid == s->pid && ts_ns == s->ts_ns);
    return rc == HW_OK && !h.continued ? finish_graph(d, s) : rc;
}

int hw_heap_graphs_finish(struct hw_heap_graphs *d)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < d->states.n; i++) {
        struct hw_graph_state *s = d->states.v[i];
        if (!s->builder)
            continue;
        rc = count_unfinished(d, 1);
        if (rc == HW_OK)
            rc = finish_graph(d, s);
    }
    return rc < 0 ? rc : hw_told_links_finish(&d->links, d->profile);
}

/* ---- memory that ran out ---- */

static int read_frame(struct hw_heap_graphs *d, struct hw_bytes message, hw_frame_id *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_frame frame = {.mapping = {HW_ID_NONE}};
    struct hw_symbol_line line = {0};
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == F_ART(JavaFrame_method_name))
            rc = hw_profile_str(d->profile, f.bytes, &frame.name);
        else if (f.number == F_ART(JavaFrame_source_file))
            rc = hw_profile_str(d->profile, f.bytes, &line.file);
        else if (f.number == F_ART(JavaFrame_line_number))
            line.line = (uint32_t)f.value;
    }
    line.function = frame.name;
    frame.rel_pc = line.line; /* lines of one method are different frames */
    if (rc == HW_OK)
        rc = hw_callsites_frame(d->profile->callsites, &frame, out);
    if (rc == HW_OK && line.file.v)
        rc = hw_symbol_sets_put(hw_callsites_symbol_sets(d->profile->callsites), *out, &line, 1);
    return rc;
}

/* Java's stacks have the innermost method first. */
static int read_stack(struct hw_heap_graphs *d, struct hw_bytes message, hw_callsite_id *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    hw_frame_id frames[MAX_STACK];
    size_t n = 0;
    int rc = HW_OK;
    while (rc == HW_OK && n < MAX_STACK && hw_pb_next(&r, &f) == 1)
        if (f.number == F_ART(JavaStack_frames) && f.wire == HW_PB_BYTES) {
            n++;
            rc = read_frame(d, f.bytes, &frames[MAX_STACK - n]);
        }
    if (rc < 0 || n == 0)
        return rc;
    return hw_callsites_intern(d->profile->callsites, frames + MAX_STACK - n, n, out);
}

int hw_heap_graphs_process(struct hw_heap_graphs *d, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_oome o = {
        .allocation_size = -1, .total_free = -1, .free_until = -1, .callsite = {HW_ID_NONE}};
    struct hw_bytes name = {0};
    int64_t uid = -1;
    hw_upid upid;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case F_ART(pid):
            o.pid = (int32_t)f.value;
            break;
        case F_ART(uid):
            uid = (int32_t)f.value;
            break;
        case F_ART(process_name):
            name = f.bytes;
            break;
        case F_ART(oom_allocation_size):
            o.allocation_size = f.value > INT64_MAX ? INT64_MAX : (int64_t)f.value;
            break;
        case F_ART(oom_total_bytes_free):
            o.total_free = f.value > INT64_MAX ? INT64_MAX : (int64_t)f.value;
            break;
        case F_ART(oom_free_bytes_until_oom):
            o.free_until = f.value > INT64_MAX ? INT64_MAX : (int64_t)f.value;
            break;
        case F_ART(oom_thread_java_stack):
            rc = read_stack(d, f.bytes, &o.callsite);
            break;
        case F_ART(oom_error_msg):
            rc = hw_profile_str(d->profile, f.bytes, &o.message);
            break;
        default:
            break;
        }
    }
    if (rc < 0 || o.pid < 0)
        return rc;
    rc = hw_profile_process(d->profile, o.pid, &upid);
    if (rc < 0)
        return rc;
    struct hw_process *process = &d->profile->processes.v[upid.v];
    if (uid >= 0 && process->uid < 0)
        process->uid = uid;
    if (name.n && process->name.v == 0)
        rc = hw_profile_str(d->profile, name, &process->name);
    if (rc == HW_OK && o.allocation_size >= 0 && hw_vec_push(&d->oomes, o) < 0)
        rc = HW_ENOMEM;
    return rc;
}
