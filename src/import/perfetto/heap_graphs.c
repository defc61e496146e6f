/*
 * Objects are delta-encoded: an id is a difference to the previous one, the heap is written only
 * when it changes, and names of references are omitted if they are those of the type. Types, names
 * and roots may come in any packet up to the last, so they are kept and added to the builder at the
 * end; objects and references go straight into it.
 */
#include "import/perfetto/heap_graphs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "codec/pb.h"
#include "import/perfetto/heap_graph_state.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_GRAPH(name)  HW_F_HeapGraph_##name
#define F_OBJECT(name) HW_F_HeapGraphObject_##name

void hw_heap_graphs_init(struct hw_heap_graphs *d, struct hw_profile *profile,
                         struct hw_art_processes *art)
{
    *d = (struct hw_heap_graphs){.profile = profile, .art = art};
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
    hw_raw_holders_done(&s->holders);
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
    hw_graph_ahead_free(d->ahead);
    hw_graph_batch_done(&d->batch);
    hw_raw_links_done(&d->links);
    hw_map64_done(&d->by_sequence);
}

int hw_graph_count_error(struct hw_heap_graphs *d, const char *stat, const struct hw_graph_state *s,
                         uint64_t n)
{
    int64_t value = n > INT64_MAX ? INT64_MAX : (int64_t)n;
    return n ? hw_profile_stat_add(d->profile, stat, s->upid.v, HW_STAT_ERROR, value) : HW_OK;
}

/* Counted for all processes together: front ends read only one row, whatever its key. */
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
    int rc = hw_map64_at(&d->by_sequence, sequence, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        struct hw_graph_state *s = calloc(1, sizeof *s);
        if (!s || hw_vec_push(&d->states, s) < 0) {
            free(s);
            (void)hw_map64_take(&d->by_sequence, sequence, NULL); /* added just now */
            return HW_ENOMEM;
        }
        *at = d->states.n - 1;
    }
    *out = d->states.v[*at];
    return HW_OK;
}

/* ---- objects ---- */

/* Appends the values of a repeated number. */
static int add_numbers(const struct hw_pb_field *f, const struct hw_pb_reader *in,
                       hw_graph_numbers *to)
{
    size_t max = f->wire == HW_PB_BYTES ? f->bytes.n : 1, n = 1;
    int rc = HW_OK;
    if (hw_vec_reserve(to, to->n + max) < 0)
        return HW_ENOMEM;
    if (f->wire != HW_PB_BYTES)
        to->v[to->n] = f->value;
    else if (max)
        rc = hw_pb_packed_in(f->bytes, in, to->v + to->n, &n);
    else
        n = 0;
    to->n += n;
    return rc;
}

struct object {
    struct hw_graph_object o;
    uint64_t base, native_size;
    size_t n_internal; /* fields with references of the runtime */
    bool has_id, has_native;
    uint32_t n_values; /* of single fields, see heap_graph_values.h */
};

/* Adds a reference of the runtime itself, after the object's own. */
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
static int read_object_fields(struct hw_graph_state *s, struct hw_pb_reader r, struct object *out)
{
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
            rc = add_numbers(&f, &r, &s->names);
            break;
        case F_OBJECT(reference_object_id):
            rc = add_numbers(&f, &r, &s->targets);
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
    if (s->names.n && s->names.n != n) /* then they cannot be paired */
        return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
    if (!s->names.n)
        return hw_graph_refs(s->builder, s->targets.v, n, o->base);
    for (size_t i = 0; i < n; i++) {
        uint32_t field;
        uint64_t target = s->targets.v[i];
        int rc = hw_graph_field_of(s, s->names.v[i], &field);
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
            rc = hw_graph_each_number(&f, add_internal, s);
    if (rc == HW_ETRUNCATED || rc == HW_EFORMAT)
        return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
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

/* Leaves out an object that is in no heap, and its type. */
static int leave_out(struct hw_graph_state *s, const struct object *o)
{
    enum { MAX_TYPES = 8 };
    for (size_t i = 0; i < s->made_up_types.n; i++)
        if (s->made_up_types.v[i] == o->o.class_id)
            return HW_OK;
    if (s->made_up_types.n >= MAX_TYPES)
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

/* Adds an object without its references: 1 = added, 0 = it is broken or left out. */
static int start_object(struct hw_heap_graphs *d, struct hw_graph_state *s, bool is_whole,
                        struct object *o)
{
    if (!is_whole || !o->has_id || !o->o.id)
        return hw_graph_count_error(d, "heap_graph_malformed_packet", s, 1);
    s->last_id = o->o.id;
    if (s->made_up_from && o->o.id >= s->made_up_from)
        return leave_out(s, o);
    o->o.heap_type = s->heap_type;
    int rc = hw_graph_object(s->builder, &o->o);
    return rc < 0 ? rc : 1;
}

static int read_object(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
{
    struct object o;
    int rc = read_object_fields(s, hw_pb_read(message), &o);
    if (rc < 0 && rc != HW_ETRUNCATED && rc != HW_EFORMAT)
        return rc;
    rc = start_object(d, s, rc == HW_OK, &o);
    if (rc <= 0)
        return rc;
    rc = add_refs(d, s, &o);
    if (rc == HW_OK && o.n_internal)
        rc = add_internals(d, s, message);
    if (rc == HW_OK && o.has_native &&
        hw_vec_push(&s->natives, (struct hw_sized_id){o.o.id, (int64_t)o.native_size}) < 0)
        rc = HW_ENOMEM;
    return rc == HW_OK && o.n_values ? add_values(s, message, o.o.id) : rc;
}

static int add_plain(struct hw_heap_graphs *d, struct hw_graph_state *s,
                     const struct hw_graph_plain *p, const uint64_t *targets)
{
    struct object o = {
        .o = {.id = p->id_kind == HW_GRAPH_ID_DELTA ? s->last_id + p->id : p->id,
              .class_id = p->class_id,
              .self_size = p->self_size},
        .has_id = p->id_kind != HW_GRAPH_NO_ID,
    };
    int rc = start_object(d, s, /* is_whole = */ true, &o);
    return rc <= 0 ? rc : hw_graph_refs(s->builder, targets, p->n_refs, p->base);
}

/* ---- the end of a graph ---- */

static int by_id(const void *pa, const void *pb)
{
    const struct hw_graph_type *a = pa, *b = pb;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->first_field > b->first_field) - (a->first_field < b->first_field);
}

/* In order of ids, which numbers types without objects. */
static int add_types(struct hw_heap_graphs *d, struct hw_graph_state *s)
{
    int rc = HW_OK;
    if (s->types.n)
        qsort(s->types.v, s->types.n, sizeof *s->types.v, by_id);
    for (size_t i = 0; rc == HW_OK && i < s->types.n; i++) {
        struct hw_graph_type *t = &s->types.v[i];
        uint64_t location = 0;
        if (is_left_out(s, t->id))
            continue;
        if (t->location && !hw_map64_get(&s->location_by_iid, t->location, &location))
            rc = hw_graph_count_error(d, "heap_graph_invalid_string_id", s, 1);
        t->class.location = (hw_str_id){(uint32_t)location};
        t->class.fields = hw_vec_from(&s->type_fields, t->first_field);
        if (rc == HW_OK)
            rc = hw_graph_class(s->builder, t->id, &t->class);
    }
    uint64_t unnamed = 0;
    for (size_t f = 1; f < s->field_is_named.n; f++)
        unnamed += !s->field_is_named.v[f];
    return rc < 0 ? rc : hw_graph_count_error(d, "heap_graph_invalid_string_id", s, unnamed);
}

static int complete(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_heap_graph *g)
{
    g->ts_ns = s->ts_ns;
    g->truncated = s->truncated;
    g->heap_size = s->heap_size;
    uint64_t lost = 0, unheld = 0;
    g->upid = s->upid;
    int rc = HW_OK;
    if (s->blocks.n)
        rc = hw_heap_graph_add_blocks(s->builder, &s->blocks, g, &lost);
    if (rc == HW_OK)
        rc = hw_raw_holders_add(&s->holders, d->profile, s->builder, g, &unheld);
    if (rc == HW_OK)
        rc = hw_graph_count_error(d, "heap_graph_malformed_packet", s, lost + unheld);
    if (rc == HW_OK)
        rc = hw_heap_graph_add_natives(hw_callsites_strings(d->profile->callsites), s->builder,
                                       &s->natives, g);
    if (rc == HW_OK)
        rc = hw_heap_graph_add_values(d->profile, s->builder, &s->values, g);
    return rc < 0 ? rc : hw_art_processes_join(d->art, g);
}

static int finish_graph(struct hw_heap_graphs *d, struct hw_graph_state *s)
{
    struct hw_heap_graph *g = NULL;
    struct hw_graph_faults faults;
    int rc = add_types(d, s);
    if (rc == HW_OK)
        rc = hw_graph_finish(s->builder, &g, &faults);
    if (rc == HW_OK)
        rc = hw_graph_count_error(d, "heap_graph_malformed_packet", s,
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

static int begin(struct hw_heap_graphs *d, struct hw_graph_state *s, const struct hw_graph_head *h,
                 int64_t ts_ns)
{
    if (s->builder)
        return HW_OK;
    s->pid = h->pid;
    s->ts_ns = ts_ns;
    s->heap_size = -1;
    int rc = hw_profile_traced_process(d->profile, s->pid, &s->upid);
    if (rc == HW_OK)
        rc = hw_graph_builder_new(hw_callsites_strings(d->profile->callsites), &s->builder);
    if (rc == HW_OK)
        hw_graph_number_by_mention(s->builder);
    return rc;
}

static int read_block(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message)
{
    int rc = hw_heap_graph_read_block(message, &s->blocks);
    return rc < 0 ? rc : hw_graph_count_error(d, "heap_graph_malformed_packet", s, rc == 0);
}

static int read_holder(struct hw_heap_graphs *d, struct hw_graph_state *s,
                       const struct hw_pb_field *f)
{
    int rc = f->number == F_GRAPH(managed_threads)
                 ? hw_raw_thread_read(d->profile, f->bytes, &s->holders)
             : f->number == F_GRAPH(managed_frames)
                 ? hw_raw_frame_read(d->profile, f->bytes, &s->holders)
                 : hw_raw_holder_read(f->bytes, &s->holders);
    size_t n = s->holders.holders.n;
    if (rc == 1 && f->number == F_GRAPH(managed_roots) &&
        s->holders.holders.v[n - 1].root_type == HW_ROOT_COMPILED_CODE &&
        hw_graph_root(s->builder, s->holders.holders.v[n - 1].object, HW_ROOT_COMPILED_CODE) < 0)
        return HW_ENOMEM;
    return rc < 0 ? rc : hw_graph_count_error(d, "heap_graph_malformed_packet", s, rc == 0);
}

static int read_field(struct hw_heap_graphs *d, struct hw_graph_state *s,
                      const struct hw_pb_field *f)
{
    switch (f->number) {
    case F_GRAPH(objects):
        return read_object(d, s, f->bytes);
    case F_GRAPH(types):
        return hw_graph_read_type(d, s, f->bytes);
    case F_GRAPH(field_names):
        return hw_graph_read_field_name(d, s, f->bytes);
    case F_GRAPH(location_names):
        return hw_graph_read_location(d, s, f->bytes);
    case F_GRAPH(roots):
        return hw_graph_read_root(d, s, f->bytes);
    case F_GRAPH(native_blocks):
        return read_block(d, s, f->bytes);
    case F_GRAPH(managed_threads):
    case F_GRAPH(managed_frames):
    case F_GRAPH(managed_roots):
        return read_holder(d, s, f);
    default:
        return HW_OK;
    }
}

/* Objects of another graph are only counted. */
static int add_batch(struct hw_heap_graphs *d, struct hw_graph_state *s,
                     const struct hw_graph_batch *b, bool is_same_graph, uint64_t *strays)
{
    const uint64_t *targets = b->targets.v;
    int rc = HW_OK;
    for (size_t i = 0, o = 0; rc == HW_OK && i <= b->others.n; i++) {
        size_t end = i < b->others.n ? b->others.v[i].n_before : b->objects.n;
        for (; rc == HW_OK && is_same_graph && o < end; o++) {
            rc = add_plain(d, s, &b->objects.v[o], targets);
            targets += b->objects.v[o].n_refs;
        }
        *strays += end - o;
        o = end;
        if (rc < 0 || i == b->others.n || b->others.v[i].field.wire != HW_PB_BYTES)
            continue;
        if (b->others.v[i].field.number == F_GRAPH(objects) && !is_same_graph)
            ++*strays;
        else
            rc = read_field(d, s, &b->others.v[i].field);
    }
    return rc;
}

/* A packet being added to a graph. */
struct packet_job {
    struct hw_heap_graphs *d;
    struct hw_graph_state *s;
    struct hw_graph_head head;
    int64_t ts_ns;
    uint64_t strays;
};

static int begin_packet(struct packet_job *t, uint64_t sequence)
{
    struct hw_heap_graphs *d = t->d;
    const struct hw_graph_head *h = &t->head;
    int rc = state_get(d, sequence, &t->s);
    struct hw_graph_state *s = t->s;
    if (rc == HW_OK)
        rc = begin(d, s, h, t->ts_ns);
    if (rc < 0)
        return rc;
    if (h->index != s->next_index) {
        s->truncated = true;
        rc = hw_graph_count_error(d, "heap_graph_missing_packet", s, 1);
    }
    s->next_index = h->index + 1;
    if (h->has_heap_size)
        s->heap_size = h->heap_size;
    if (h->made_up_from)
        s->made_up_from = h->made_up_from;
    return rc;
}

/* read: the result of hw_graph_batch_read. */
static int add_part(struct packet_job *t, const struct hw_graph_batch *b, int read)
{
    struct hw_graph_state *s = t->s;
    bool is_same_graph = t->head.pid == s->pid && t->ts_ns == s->ts_ns;
    int rc = read == HW_ENOMEM ? read : add_batch(t->d, s, b, is_same_graph, &t->strays);
    if (rc < 0 || read == 1)
        return rc;
    rc = read < 0 ? hw_graph_count_error(t->d, "heap_graph_malformed_packet", s, 1)
                  : count_unfinished(t->d, t->strays);
    return rc == HW_OK && !t->head.continued ? finish_graph(t->d, s) : rc;
}

static int read_directly(struct hw_heap_graphs *d, const struct hw_packet *p, int64_t ts_ns)
{
    enum { WHOLE = 1 << 19 /* bytes; more, decoded at once, might not stay in the cache */ };
    size_t max = p->data.n <= WHOLE ? SIZE_MAX : WHOLE / sizeof(struct hw_graph_plain);
    struct packet_job t = {.d = d, .ts_ns = ts_ns};
    struct hw_pb_reader body = hw_pb_read(p->data);
    int read = hw_graph_batch_read(&body, max, &d->batch);
    if (read == 1)
        hw_graph_head_read(p->data, &t.head);
    else
        hw_graph_head_of_batch(&d->batch, &t.head);
    int rc = begin_packet(&t, p->sequence);
    while (rc == HW_OK && (rc = add_part(&t, &d->batch, read)) == HW_OK && read == 1)
        read = hw_graph_batch_read(&body, max, &d->batch);
    return rc;
}

/* ---- packets read ahead ---- */

static int add_first(struct hw_heap_graphs *d)
{
    const struct hw_graph_packet *p = hw_graph_ahead_first(d->ahead);
    struct packet_job t = {.d = d, .ts_ns = p->ts_ns, .head = p->head};
    int rc = begin_packet(&t, p->sequence);
    if (rc == HW_OK)
        rc = add_part(&t, &p->batch, p->rc);
    if (rc < 0) {
        d->has_failed = true;
        d->failed_at = p->offset;
    }
    hw_graph_ahead_drop(d->ahead);
    return rc;
}

int hw_heap_graphs_flush(struct hw_heap_graphs *d)
{
    int rc = HW_OK;
    while (rc == HW_OK && hw_graph_ahead_count(d->ahead))
        rc = add_first(d);
    return rc;
}

static bool can_read_ahead(struct hw_heap_graphs *d)
{
    if (!d->ahead && !d->has_no_thread) {
        d->ahead = hw_graph_ahead_new();
        d->has_no_thread = !d->ahead;
    }
    return !d->has_no_thread;
}

int hw_heap_graphs_packet(struct hw_heap_graphs *d, const struct hw_packet *p, int64_t ts_ns)
{
    if (hw_graph_ahead_is_worth(p) && can_read_ahead(d)) {
        int rc = hw_graph_ahead_put(d->ahead, p, ts_ns);
        return rc == HW_OK && hw_graph_ahead_count(d->ahead) == HW_GRAPH_AHEAD_PACKETS
                   ? add_first(d)
                   : rc;
    }
    int rc = hw_heap_graphs_flush(d);
    return rc < 0 ? rc : read_directly(d, p, ts_ns);
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
    return rc < 0 ? rc : hw_raw_links_finish(&d->links, d->profile);
}
