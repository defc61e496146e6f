/*
 * Bytes come in any pieces: what is left of an op at a piece's end waits in `rest`. An op is at
 * most OP_MAX bytes, so whenever that many are there, one can be read without asking for each byte.
 */
#include "java/graph.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "java/classes.h"
#include "java/jvm_abi.h"
#include "java/native.h"
#include "java/protocol.h"

#include "base/banned.h"

enum {
    OP_MAX = 128,
    MAX_VALUES = 64,
    OBJECT_BYTES = 48, /* in the vector and the map, which double: these are usual, not the most */
    REF_BYTES = 2 * sizeof(struct hw_java_ref),
    ROOT_BYTES = 16, /* at the sink's, likewise */
    DESCRIBED = 1u << 31,
    CLASS_OBJECT = 1u << 30,
    CLASS_BITS = CLASS_OBJECT - 1
};

struct object {
    uint32_t of_class; /* and two bits */
    uint32_t words;    /* bytes / 8; a class object: place in class_objects */
};

struct class_object {
    uint32_t stands_for, words;
};

struct hw_java_graph {
    struct hw_java_classes *classes; /* borrowed */
    struct hw_java_sink sink;
    struct hw_map64 ids;           /* the walk's → ours */
    HW_VEC(struct object) objects; /* [id - 1] */
    HW_VEC(struct class_object) class_objects;
    HW_VEC(struct hw_java_ref) refs; /* of the owner */
    HW_VEC(struct hw_java_value) values;
    uint64_t owner_id; /* the walk's */
    uint64_t owner;    /* ours; 0 = none yet */
    uint8_t rest[2 * OP_MAX];
    size_t n_rest;
    bool ended;
    uint64_t n_stale, n_roots, max_bytes;
    uint32_t object_number; /* of the class java.lang.Object; 0 = it has none */
    uint64_t object_class;  /* that class's object; 0 = not met */
};

int hw_java_graph_new(struct hw_java_classes *classes, const struct hw_java_sink *sink,
                      uint64_t max_bytes, struct hw_java_graph **out)
{
    struct hw_java_graph *g = calloc(1, sizeof *g);
    if (!g)
        return HW_ENOMEM;
    g->classes = classes;
    g->max_bytes = max_bytes;
    g->object_number = hw_java_class_find(classes, "java.lang.Object");
    g->sink = *sink;
    *out = g;
    return HW_OK;
}

void hw_java_graph_free(struct hw_java_graph *g)
{
    if (!g)
        return;
    hw_map64_done(&g->ids);
    hw_vec_done(&g->objects);
    hw_vec_done(&g->class_objects);
    hw_vec_done(&g->refs);
    hw_vec_done(&g->values);
    free(g);
}

uint32_t hw_java_graph_class_of(const struct hw_java_graph *g, uint64_t id)
{
    return id && id <= g->objects.n ? g->objects.v[id - 1].of_class & CLASS_BITS : 0;
}

bool hw_java_graph_is_class_object(const struct hw_java_graph *g, uint64_t id)
{
    return id && id <= g->objects.n && (g->objects.v[id - 1].of_class & CLASS_OBJECT);
}

uint64_t hw_java_graph_objects(const struct hw_java_graph *g)
{
    return g->objects.n;
}

uint64_t hw_java_graph_stale(const struct hw_java_graph *g)
{
    return g->n_stale;
}

/* ---- objects ---- */

/*
 * Fields come as numbers, by a rule that JVMs have got wrong before. Each object checks it: what a
 * field refers to must be of the field's type. If not, names of that class are left out.
 */
static void verify(struct hw_java_graph *g, uint32_t class)
{
    bool good = !hw_java_class_is_doubtful(g->classes, class);
    for (size_t i = 0; i < g->refs.n && good; i++)
        good = !g->refs.v[i].field ||
               hw_java_class_fits(g->classes, g->refs.v[i].field,
                                  g->objects.v[g->refs.v[i].id - 1].of_class & CLASS_BITS);
    if (good)
        return;
    hw_java_class_doubt(g->classes, class);
    for (size_t i = 0; i < g->refs.n; i++) {
        g->refs.v[i].field = NULL;
        if (g->refs.v[i].kind == HW_REF_FIELD)
            g->refs.v[i].slot = HW_JAVA_NO_SLOT;
    }
}

/* HotSpot leaves the link to a superclass out where that is Object. */
static int add_superclass(struct hw_java_graph *g, uint32_t class)
{
    if (!g->object_class || hw_java_class_super(g->classes, class) != g->object_number)
        return HW_OK;
    for (size_t i = 0; i < g->refs.n; i++)
        if (g->refs.v[i].kind == HW_REF_SUPERCLASS)
            return HW_OK;
    struct hw_java_ref r = {
        .id = g->object_class, .kind = HW_REF_SUPERCLASS, .slot = HW_JAVA_NO_SLOT};
    return hw_vec_push(&g->refs, r) < 0 ? HW_ENOMEM : HW_OK;
}

/* Gives one object with the references collected. */
static int give(struct hw_java_graph *g, uint64_t id)
{
    struct object *o = &g->objects.v[id - 1];
    bool of_class = o->of_class & CLASS_OBJECT;
    const struct class_object *k = of_class ? &g->class_objects.v[o->words] : NULL;
    verify(g, k ? k->stands_for : o->of_class & CLASS_BITS);
    int rc = k ? add_superclass(g, k->stands_for) : HW_OK;
    struct hw_java_object out = {.id = id,
                                 .of_class = o->of_class & CLASS_BITS,
                                 .stands_for = k ? k->stands_for : 0,
                                 .bytes = (uint64_t)(k ? k->words : o->words) << 3,
                                 .refs = g->refs.v,
                                 .n_refs = g->refs.n,
                                 .values = g->values.v,
                                 .n_values = g->values.n};
    o->of_class |= DESCRIBED;
    if (rc == 0)
        rc = g->sink.object(g->sink.ctx, &out);
    hw_vec_clear(&g->refs);
    hw_vec_clear(&g->values);
    return rc;
}

static int finish_owner(struct hw_java_graph *g)
{
    int rc = g->owner ? give(g, g->owner) : HW_OK;
    g->owner = 0;
    return rc;
}

static bool has_room(const struct hw_java_graph *g)
{
    return g->objects.n < UINT32_MAX &&
           g->objects.n * OBJECT_BYTES + g->refs.n * REF_BYTES + g->n_roots * ROOT_BYTES <
               g->max_bytes;
}

static int add_object(struct hw_java_graph *g, uint64_t id, uint64_t of_class, uint64_t words,
                      uint64_t stands_for)
{
    if (!has_room(g))
        return HW_ELIMIT;
    uint32_t size = words > UINT32_MAX ? UINT32_MAX : (uint32_t)words; /* 32 GiB */
    if (of_class == 0 || of_class > hw_java_classes_count(g->classes)) {
        of_class = 0;
        g->n_stale++;
    }
    struct object o = {(uint32_t)of_class, size};
    if (stands_for) {
        struct class_object k = {(uint32_t)stands_for, size};
        o.of_class |= CLASS_OBJECT;
        o.words = (uint32_t)g->class_objects.n;
        if (hw_vec_push(&g->class_objects, k) < 0)
            return HW_ENOMEM;
        if (stands_for == g->object_number)
            g->object_class = g->objects.n + 1;
    }
    if (hw_vec_push(&g->objects, o) < 0)
        return HW_ENOMEM;
    uint64_t *value;
    bool fresh;
    if (hw_map64_at(&g->ids, id, &value, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh)
        return HW_EFORMAT; /* announced twice */
    *value = g->objects.n;
    return HW_OK;
}

static int add_ref(struct hw_java_graph *g, uint32_t kind, uint32_t index, uint64_t id)
{
    struct hw_java_ref r = {.id = id, .kind = kind, .index = index, .slot = HW_JAVA_NO_SLOT};
    const struct object *o = &g->objects.v[g->owner - 1];
    if (!has_room(g))
        return HW_ELIMIT;
    if (kind == HW_REF_FIELD)
        r.field = hw_java_class_field(g->classes, o->of_class & CLASS_BITS, index, &r.slot);
    else if (kind == HW_REF_STATIC && (o->of_class & CLASS_OBJECT)) {
        uint32_t none;
        r.field =
            hw_java_class_field(g->classes, g->class_objects.v[o->words].stands_for, index, &none);
    }
    return hw_vec_push(&g->refs, r) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- ops ---- */

struct cursor {
    const uint8_t *p, *end;
    bool cut;
};

static uint64_t get(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (c->p == c->end) {
            c->cut = true;
            return 0;
        }
        uint8_t b = *c->p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            break;
    }
    return v;
}

static uint64_t get_signed(struct cursor *c)
{
    uint64_t v = get(c);
    return v >> 1 ^ (0 - (v & 1));
}

static int begin_owner(struct hw_java_graph *g, uint64_t delta)
{
    int rc = finish_owner(g);
    g->owner_id += delta;
    if (rc == 0 && (!hw_map64_get(&g->ids, g->owner_id, &g->owner) ||
                    (g->objects.v[g->owner - 1].of_class & DESCRIBED))) {
        g->owner = 0;
        rc = HW_EFORMAT;
    }
    return rc;
}

static uint32_t get_small(struct cursor *c)
{
    uint64_t v = get(c);
    return v <= INT32_MAX ? (uint32_t)v : 0;
}

static struct hw_java_holder get_holder(uint32_t kind, struct cursor *c)
{
    struct hw_java_holder by = {.thread = get_small(c), .depth = -1, .slot = -1};
    if (!hw_jvm_is_on_stack(kind))
        return by;
    by.thread_id = get(c);
    by.depth = (int32_t)get_small(c) - 1;
    by.frame = get_small(c);
    by.slot = (int32_t)get_small(c) - 1;
    return by;
}

static int take_reference(struct hw_java_graph *g, uint8_t head, struct cursor *c)
{
    uint32_t kind = head & HW_JAVA_OP_KIND;
    uint64_t ours = 0, of_class = 0, words = 0, stands_for = 0, index = 0;
    if (kind == HW_REF_FIELD || kind == HW_REF_STATIC)
        index = get(c);
    struct hw_java_holder by = {0};
    if (hw_jvm_has_holder(kind))
        by = get_holder(kind, c);
    uint64_t id = g->owner_id + get_signed(c);
    if (head & HW_JAVA_OP_FRESH) {
        of_class = get(c);
        words = get(c);
        if (head & HW_JAVA_OP_CLASS_OBJECT)
            stands_for = get(c);
    }
    if (c->cut)
        return HW_OK; /* again when there is more */
    if (stands_for > hw_java_classes_count(g->classes))
        return HW_EFORMAT;
    int rc = head & HW_JAVA_OP_FRESH ? add_object(g, id, of_class, words, stands_for) : HW_OK;
    if (rc < 0 || kind == HW_REF_CLASS)
        return rc;
    if (head & HW_JAVA_OP_FRESH)
        ours = g->objects.n;
    else if (!hw_map64_get(&g->ids, id, &ours))
        return HW_EFORMAT;
    if (kind >= HW_ROOT_JNI_GLOBAL && !has_room(g))
        return HW_ELIMIT;
    g->n_roots += kind >= HW_ROOT_JNI_GLOBAL;
    if (kind >= HW_ROOT_JNI_GLOBAL)
        return g->sink.root(g->sink.ctx, ours, kind, hw_jvm_has_holder(kind) ? &by : NULL);
    return g->owner ? add_ref(g, kind, (uint32_t)index, ours) : HW_EFORMAT;
}

static int take_value(struct hw_java_graph *g, struct cursor *c)
{
    struct hw_java_value v = {.role = (uint32_t)get(c), .value = get(c)};
    uint32_t slot;
    if (c->cut)
        return HW_OK;
    if (!g->owner || g->values.n >= MAX_VALUES)
        return HW_EFORMAT;
    if (v.role >= HW_JAVA_VALUE_INDEX)
        v.field = hw_java_class_field(g->classes, g->objects.v[g->owner - 1].of_class & CLASS_BITS,
                                      v.role - HW_JAVA_VALUE_INDEX, &slot);
    return hw_vec_push(&g->values, v) < 0 ? HW_ENOMEM : HW_OK;
}

/* One op; c->cut if it is not complete yet, and nothing was done. */
static int take(struct hw_java_graph *g, struct cursor *c)
{
    uint8_t head = *c->p++;
    switch (head & HW_JAVA_OP_KIND) {
    case HW_JAVA_OP_END:
        g->ended = true;
        return HW_OK;
    case HW_JAVA_OP_OWNER: {
        uint64_t delta = get_signed(c);
        return c->cut ? HW_OK : begin_owner(g, delta);
    }
    case HW_JAVA_OP_VALUE:
        return take_value(g, c);
    default:
        return take_reference(g, head, c);
    }
}

/* Gives how many bytes were used in *used. */
static int take_all(struct hw_java_graph *g, struct hw_bytes b, size_t *used)
{
    struct cursor c = {b.p, hw_bytes_end(b), false};
    *used = 0;
    while (c.p < c.end && !g->ended) {
        int rc = take(g, &c);
        if (rc < 0)
            return rc;
        if (c.cut)
            break;
        *used = (size_t)(c.p - b.p);
    }
    return HW_OK;
}

int hw_java_graph_feed(struct hw_java_graph *g, struct hw_bytes b, struct hw_error *err)
{
    size_t used;
    int rc = HW_OK;
    while (rc == 0 && g->n_rest && b.n && !g->ended) {
        size_t n = sizeof g->rest - g->n_rest;
        n = n < b.n ? n : b.n;
        memcpy(g->rest + g->n_rest, b.p, n);
        size_t had = g->n_rest;
        rc = take_all(g, hw_bytes_of(g->rest, had + n), &used);
        if (rc < 0 || used >= had) { /* the rest is used up: go on in b */
            size_t of_b = rc < 0 ? n : used - had;
            b = hw_bytes_of(b.p + of_b, b.n - of_b);
            g->n_rest = 0;
        } else if (n == b.n && had + n < OP_MAX) {
            g->n_rest += n;
            b.n = 0;
        } else {
            rc = HW_EFORMAT; /* longer than any op */
        }
    }
    if (rc == 0 && !g->ended && b.n) {
        rc = take_all(g, b, &used);
        if (rc == 0 && !g->ended && b.n - used > OP_MAX)
            rc = HW_EFORMAT;
        if (rc == 0 && !g->ended) {
            g->n_rest = b.n - used;
            memcpy(g->rest, b.p + used, g->n_rest);
        }
    }
    if (rc < 0 && err && err->code)
        return rc;
    if (rc == HW_ELIMIT)
        return hw_fail(err, rc, 0,
                       "the heap graph from the JVM has more than %zu objects; those, %llu roots, "
                       "and %zu references of the last object take the %llu MiB that a graph of "
                       "this process may use; more memory is needed here, or it is not a JVM",
                       g->objects.n, (unsigned long long)g->n_roots, g->refs.n,
                       (unsigned long long)(g->max_bytes >> 20));
    return rc < 0 ? hw_fail(err, rc, 0, "the heap graph from the JVM:") : rc;
}

int hw_java_graph_end(struct hw_java_graph *g, struct hw_error *err)
{
    int rc = finish_owner(g);
    uint64_t missing = 0;
    for (uint64_t id = 1; id <= g->objects.n && rc == 0; id++) {
        uint32_t k = g->objects.v[id - 1].of_class;
        if (k & DESCRIBED)
            continue;
        bool is_class =
            strcmp(hw_java_class_name(g->classes, k & CLASS_BITS), "java.lang.Class") == 0;
        missing += !is_class; /* nothing needs to be reported about a class object */
        rc = give(g, id);
    }
    if (rc < 0)
        return hw_fail(err, rc, 0, "the heap graph from the JVM:");
    if (missing || !g->ended)
        return hw_fail(err, HW_ETRUNCATED, 0, "the walk of the heap missed %llu of %zu objects",
                       (unsigned long long)missing, g->objects.n);
    return HW_OK;
}
