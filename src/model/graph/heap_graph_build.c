/*
 * Objects are stored in rows: id, class, size, heap, first reference, 20 bytes in all. Targets of
 * references stay ids until all objects are known; then one pass turns them into numbers, names
 * them by the classes' field lists and drops invalid ones. Ids without an object become objects
 * after the others.
 *
 * Nothing here recurses on the input: loops walk class chains and end at a cycle. A class has a
 * link to the next superclass that declares fields, so naming an object's references is linear in
 * their number.
 */
#include "model/graph/heap_graph_build.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/side_thread.h"
#include "model/graph/heap_graph_columns.h"

#include "base/banned.h"

#define MAX_ROWS    (UINT32_MAX - 1)
#define MAX_CLASSES ((1u << HW_GRAPH_HEAP_SHIFT) - 1)

int hw_graph_builder_new(struct hw_strings *strings, struct hw_graph_builder **out)
{
    struct hw_graph_builder *b = calloc(1, sizeof *b);
    if (!b)
        return HW_ENOMEM;
    b->strings = strings;
    if (hw_vec_push(&b->fields, (struct hw_heap_field){0}) < 0) {
        free(b);
        return HW_ENOMEM;
    }
    *out = b;
    return HW_OK;
}

void hw_graph_builder_free(struct hw_graph_builder *b)
{
    if (!b)
        return;
    hw_vec_done(&b->fields);
    hw_vec_done(&b->classes);
    hw_map64_done(&b->class_by_id);
    hw_vec_done(&b->field_lists);
    hw_vec_done(&b->roots);
    free(b->rows.ids);
    free(b->rows.types);
    free(b->rows.sizes);
    free(b->rows.first);
    hw_vec_done(&b->large);
    hw_vec_done(&b->targets);
    hw_vec_done(&b->ref_field);
    hw_id_index_done(&b->index);
    hw_map64_done(&b->missing);
    hw_vec_done(&b->number);
    free(b);
}

void hw_graph_number_by_mention(struct hw_graph_builder *b)
{
    b->by_mention = true;
}

/* ---- input ---- */

int hw_graph_field(struct hw_graph_builder *b, hw_str_id name, hw_str_id type_name, uint32_t *out)
{
    if (b->fields.n >= MAX_ROWS)
        return HW_ELIMIT;
    *out = (uint32_t)b->fields.n;
    struct hw_heap_field f = {.name = name, .type_name = type_name};
    return hw_vec_push(&b->fields, f) < 0 ? HW_ENOMEM : HW_OK;
}

void hw_graph_field_set(struct hw_graph_builder *b, uint32_t field, hw_str_id name,
                        hw_str_id type_name)
{
    b->fields.v[field].name = name;
    b->fields.v[field].type_name = type_name;
}

static int class_at(struct hw_graph_builder *b, uint64_t id, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    /* A cache: consecutive ids never collide, addresses rarely. */
    struct hw_graph_known_class *known =
        &b->known[(id ^ id >> 12 ^ id >> 24) % HW_GRAPH_KNOWN_CLASSES];
    if (hw_likely(known->id == id && known->is_known)) {
        *out = known->row;
        return HW_OK;
    }
    int rc = hw_map64_at(&b->class_by_id, id, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        struct hw_graph_class_row c = {
            .row = {.superclass = HW_ID_NONE, .classloader = HW_ID_NONE, .held = HW_ID_NONE}};
        if (b->classes.n >= MAX_CLASSES)
            return HW_ELIMIT;
        *at = b->classes.n;
        if (hw_vec_push(&b->classes, c) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    *known = (struct hw_graph_known_class){id, *out, true};
    return HW_OK;
}

int hw_graph_class(struct hw_graph_builder *b, uint64_t id, const struct hw_graph_class *in)
{
    uint32_t at;
    if (in->n_fields > MAX_ROWS)
        return HW_ELIMIT;
    int rc = class_at(b, id, &at);
    if (rc < 0 || hw_vec_reserve(&b->field_lists, b->field_lists.n + in->n_fields) < 0)
        return rc < 0 ? rc : HW_ENOMEM;
    struct hw_graph_class_row *c = &b->classes.v[at];
    c->row.name = in->name;
    c->row.location = in->location;
    c->row.kind = (uint8_t)in->kind;
    c->object_size = in->object_size;
    c->superclass_id = in->superclass;
    c->has_superclass = in->has_superclass;
    c->classloader_id = in->classloader;
    c->held_id = in->held;
    c->first_field = b->field_lists.n;
    c->n_fields = (uint32_t)in->n_fields;
    c->described = true;
    if (in->n_fields)
        memcpy(&b->field_lists.v[b->field_lists.n], in->fields, in->n_fields * sizeof *in->fields);
    b->field_lists.n += in->n_fields;
    return HW_OK;
}

static int more_rows(struct hw_graph_rows *r)
{
    size_t cap = r->cap ? 2 * r->cap : 1024;
    void *ids = realloc(r->ids, cap * sizeof *r->ids);
    r->ids = ids ? ids : r->ids;
    void *types = realloc(r->types, cap * sizeof *r->types);
    r->types = types ? types : r->types;
    void *sizes = realloc(r->sizes, cap * sizeof *r->sizes);
    r->sizes = sizes ? sizes : r->sizes;
    void *first = realloc(r->first, cap * sizeof *r->first);
    r->first = first ? first : r->first;
    if (!ids || !types || !sizes || !first)
        return HW_ENOMEM;
    r->cap = cap;
    return HW_OK;
}

int hw_graph_object(struct hw_graph_builder *b, const struct hw_graph_object *o)
{
    uint32_t type, size = (uint32_t)o->self_size;
    struct hw_graph_rows *r = &b->rows;
    size_t n = r->n;
    if (n >= MAX_ROWS / 2) /* the other half is for objects that are never described */
        return HW_ELIMIT;
    int rc = class_at(b, o->class_id, &type);
    if (rc == HW_OK && n == r->cap)
        rc = more_rows(r);
    if (rc < 0)
        return rc;
    if (hw_unlikely(o->self_size >= HW_SIZE_LARGE)) {
        int64_t bytes = o->self_size > INT64_MAX ? INT64_MAX : (int64_t)o->self_size;
        if (hw_vec_push(&b->large, (struct hw_heap_large){(uint32_t)n, bytes}) < 0)
            return HW_ENOMEM;
        size = HW_SIZE_LARGE;
    }
    r->ids[n] = o->id;
    r->types[n] = type | (uint32_t)o->heap_type << HW_GRAPH_HEAP_SHIFT;
    r->sizes[n] = size;
    r->first[n] = (uint32_t)b->targets.n;
    r->n = n + 1;
    return HW_OK;
}

/* From here on each reference has a field; earlier ones get HW_FIELD_OF_LIST. */
static int begin_fields(struct hw_graph_builder *b)
{
    size_t n = b->targets.n;
    if (hw_vec_reserve(&b->ref_field, n + 1) < 0)
        return HW_ENOMEM;
    for (size_t i = b->ref_field.n; i < n; i++)
        b->ref_field.v[i] = HW_FIELD_OF_LIST;
    b->ref_field.n = n;
    return HW_OK;
}

int hw_graph_ref(struct hw_graph_builder *b, uint64_t target, uint32_t field)
{
    if (field == HW_FIELD_OF_LIST && !b->ref_field.n)
        return hw_graph_refs(b, &target, 1, 0);
    if (b->targets.n >= MAX_ROWS / 2)
        return HW_ELIMIT;
    if (b->ref_field.n < b->targets.n && begin_fields(b) < 0)
        return HW_ENOMEM;
    if (hw_vec_push(&b->ref_field, field) < 0)
        return HW_ENOMEM;
    if (hw_vec_push(&b->targets, target) == 0)
        return HW_OK;
    b->ref_field.n--;
    return HW_ENOMEM;
}

int hw_graph_refs(struct hw_graph_builder *b, const uint64_t *targets, size_t n, uint64_t base)
{
    size_t at = b->targets.n;
    if (n > MAX_ROWS / 2 - at)
        return HW_ELIMIT;
    if (hw_vec_reserve(&b->targets, at + n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        b->targets.v[at + i] = targets[i] ? targets[i] + base : 0;
    b->targets.n = at + n;
    return b->ref_field.n ? begin_fields(b) : HW_OK;
}

int hw_graph_root(struct hw_graph_builder *b, uint64_t object, enum hw_root_type type)
{
    return hw_vec_push(&b->roots, (struct hw_graph_root){object, type}) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- classes ---- */

static uint32_t superclass_of(const struct hw_graph_builder *b, const struct hw_graph_class_row *c)
{
    uint64_t at;
    if (!c->has_superclass || !hw_map64_get(&b->class_by_id, c->superclass_id, &at))
        return HW_ID_NONE;
    return (uint32_t)at;
}

/* Links each class to its superclass and counts the fields of the whole chain. `path` has room for
 * all classes. A cycle of superclasses ends the chain. */
static void link_class(struct hw_graph_builder *b, uint32_t start, uint32_t *path, uint8_t *on_path)
{
    size_t n = 0;
    for (uint32_t at = start; at != HW_ID_NONE;) {
        struct hw_graph_class_row *c = &b->classes.v[at];
        if (c->linked)
            break;
        path[n++] = at;
        on_path[at] = 1;
        at = superclass_of(b, c);
        if (at != HW_ID_NONE && on_path[at])
            break;
    }
    while (n-- > 0) {
        struct hw_graph_class_row *c = &b->classes.v[path[n]];
        uint32_t super = superclass_of(b, c);
        if (super != HW_ID_NONE && b->classes.v[super].linked) {
            const struct hw_graph_class_row *s = &b->classes.v[super];
            c->row.superclass = super;
            c->n_listed = s->n_listed;
            c->declares = s->declares;
        } else {
            c->declares = HW_ID_NONE;
        }
        if (c->n_fields)
            c->declares = path[n];
        if (__builtin_add_overflow(c->n_listed, c->n_fields, &c->n_listed))
            c->n_listed = UINT32_MAX;
        c->linked = true;
        on_path[path[n]] = 0;
    }
}

static int link_classes(struct hw_graph_builder *b)
{
    hw_autofree uint32_t *path = calloc(b->classes.n + 1, sizeof *path);
    hw_autofree uint8_t *on_path = calloc(b->classes.n + 1, 1);
    if (!path || !on_path)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < b->classes.n; i++)
        link_class(b, i, path, on_path);
    return HW_OK;
}

/* ---- objects ---- */

bool hw_graph_find(const struct hw_graph_builder *b, uint64_t id, uint32_t *out)
{
    uint64_t at;
    if (!hw_id_index_find(&b->index, id, out)) {
        if (!hw_map64_get(&b->missing, id, &at))
            return false;
        *out = (uint32_t)at;
    }
    if (b->number.n)
        *out = b->number.v[*out];
    return true;
}

/* Removes objects that were already described; ids keep their order. */
static int drop_duplicates(struct hw_graph_builder *b, struct hw_graph_faults *faults)
{
    struct hw_graph_rows *rows = &b->rows;
    size_t n = rows->n, n_refs = b->targets.n, o_to = 0, r_to = 0, large = 0, large_to = 0;
    faults->duplicate_objects = b->index.n_duplicates;
    if (b->index.n_duplicates == 0)
        return HW_OK;
    for (size_t o = 0; o < n; o++) {
        size_t r = rows->first[o], end = o + 1 < n ? rows->first[o + 1] : n_refs;
        uint32_t row;
        bool is_large = large < b->large.n && b->large.v[large].object == o;
        large += is_large;
        if (!hw_id_index_find(&b->index, rows->ids[o], &row) || row != o)
            continue;
        if (is_large)
            b->large.v[large_to++] =
                (struct hw_heap_large){(uint32_t)o_to, b->large.v[large - 1].size};
        rows->types[o_to] = rows->types[o];
        rows->sizes[o_to] = rows->sizes[o];
        rows->first[o_to] = (uint32_t)r_to;
        rows->ids[o_to++] = rows->ids[o]; /* the index has a copy, as ascending ids are unique */
        for (; r < end; r++, r_to++) {
            b->targets.v[r_to] = b->targets.v[r];
            if (b->ref_field.n)
                b->ref_field.v[r_to] = b->ref_field.v[r];
        }
    }
    rows->n = o_to;
    b->large.n = large_to;
    b->targets.n = r_to;
    if (b->ref_field.n)
        b->ref_field.n = r_to;
    hw_id_index_done(&b->index);
    return hw_id_index_init(&b->index, rows->ids, rows->n);
}

/* ---- finishing a graph ---- */

static int take_classes(struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    g->n_classes = (uint32_t)b->classes.n;
    g->classes = calloc(b->classes.n + 1, sizeof *g->classes);
    if (!g->classes)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < g->n_classes; i++) {
        const struct hw_graph_class_row *c = &b->classes.v[i];
        g->classes[i] = c->row;
        g->classes[i].is_weak = hw_graph_kind_is_weak(c->row.kind);
        if (c->classloader_id)
            (void)hw_graph_find(b, c->classloader_id,
                                &g->classes[i].classloader); /* else HW_ID_NONE */
        if (c->held_id && hw_graph_find(b, c->held_id, &g->classes[i].held))
            g->holds_classes = true;
    }
    return HW_OK;
}

static void take_fields(struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    g->n_fields = (uint32_t)b->fields.n;
    g->fields = b->fields.v;
    b->fields.v = NULL;
    hw_vec_done(&b->fields);
    for (uint32_t f = 0; f < g->n_fields; f++)
        g->fields[f].is_referent = hw_bytes_equal(hw_strings_get(b->strings, g->fields[f].name),
                                                  hw_bytes_str("java.lang.ref.Reference.referent"));
}

/* Work that marking reachable objects does not depend on. */
static int complete(void *ctx)
{
    struct hw_graph_columns *m = ctx;
    hw_graph_name_others(m);
    int rc = hw_graph_find_owners(m->g);
    return rc < 0 ? rc : hw_graph_imply_superclasses(m->b, m->g);
}

static int mark_and_complete(struct hw_graph_columns *m)
{
    struct hw_side_thread beside;
    if (m->g->n_objects < HW_WORTH_TWO) {
        int rc = complete(m);
        return rc < 0 ? rc : hw_graph_mark_reachable(m->g);
    }
    hw_side_thread_begin(&beside, complete, m);
    int rc = hw_graph_mark_reachable(m->g);
    int completed = hw_side_thread_end(&beside);
    return completed < 0 ? completed : rc;
}

static int make_graph(struct hw_graph_columns *m, struct hw_graph_faults *faults)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    int rc = hw_graph_make_columns(m, faults);
    if (rc == HW_OK)
        rc = take_classes(b, g);
    if (rc < 0)
        return rc;
    take_fields(b, g);
    hw_graph_make_roots(b, g);
    rc = mark_and_complete(m);
    return rc < 0 ? rc : hw_graph_mark_named_by_code(b, g);
}

static int build(struct hw_graph_builder *b, struct hw_heap_graph *g,
                 struct hw_graph_faults *faults)
{
    struct hw_graph_columns m = {.b = b, .g = g};
    int rc = hw_id_index_init(&b->index, b->rows.ids, b->rows.n);
    if (rc == HW_OK)
        rc = drop_duplicates(b, faults);
    for (size_t c = 0; c < b->classes.n; c++)
        faults->undescribed_classes += !b->classes.v[c].described;
    if (rc == HW_OK)
        rc = link_classes(b);
    if (rc == HW_OK)
        rc = make_graph(&m, faults);
    hw_graph_columns_done(&m);
    return rc;
}

int hw_graph_finish(struct hw_graph_builder *b, struct hw_heap_graph **out,
                    struct hw_graph_faults *faults)
{
    struct hw_heap_graph *g;
    struct hw_graph_faults counted = {0};
    int rc = hw_heap_graph_new(&g);
    if (rc < 0)
        return rc;
    rc = build(b, g, &counted);
    if (rc < 0) {
        hw_heap_graph_free(g);
        return rc;
    }
    if (faults)
        *faults = counted;
    *out = g;
    return HW_OK;
}
