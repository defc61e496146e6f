/*
 * When a walk begins, the names of classes say which class plays which part, and the names of
 * fields which field does. The classes of the objects that an object refers to are known already,
 * so only edges that can matter are kept: 16 bytes for each buffer, stream, arena.
 */
#include "daemon/java/java_native.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "java/classes.h"
#include "java/graph.h"
#include "java/jvm_abi.h"

#include "base/banned.h"

enum {
    DEFLATE_BYTES = (1 << 17) + (1 << 17) + (6 << 10), /* 15 bits of window, level 8 of memory */
    INFLATE_BYTES = 7 << 10,
    WINDOW_BYTES = 1 << 15
};

enum part {
    NO_PART,
    WEAK,   /* a Cleaner or the like */
    STREAM, /* Deflater, Inflater */
    FOREIGN /* the JDK's arenas */
};

struct thing {
    uint64_t id;
    enum hw_java_native kind;
    uint64_t address, bytes, inner[HW_NATIVE_ADDRESSES - 1];
    uint32_t n_inner;
};

struct edge {
    uint64_t owner, thing;
    bool unpacks; /* the owner is an Inflater */
};

struct hw_java_natives {
    const struct hw_java_classes *classes; /* borrowed, as is graph */
    const struct hw_java_graph *graph;
    size_t n_classes;
    uint8_t *part, *kind; /* by class; owned */
    HW_VEC(struct thing) things;
    struct hw_map64 thing_of;   /* object → place in things + 1; 0 = taken */
    HW_VEC(struct edge) owners; /* object, helper */
    HW_VEC(struct edge) heads;  /* session or list, what it refers to */
    struct hw_map64 follower;   /* of a list's parts */
    hw_native_blocks blocks;
};

int hw_java_natives_new(struct hw_java_natives **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? HW_OK : HW_ENOMEM;
}

static void forget(struct hw_java_natives *n)
{
    free(n->part);
    free(n->kind);
    n->part = n->kind = NULL;
    hw_map64_done(&n->thing_of);
    hw_map64_done(&n->follower);
    n->thing_of = n->follower = (struct hw_map64){0};
    hw_vec_clear(&n->things);
    hw_vec_clear(&n->owners);
    hw_vec_clear(&n->heads);
    hw_vec_clear(&n->blocks);
}

void hw_java_natives_free(struct hw_java_natives *n)
{
    if (!n)
        return;
    forget(n);
    hw_vec_done(&n->things);
    hw_vec_done(&n->owners);
    hw_vec_done(&n->heads);
    hw_vec_done(&n->blocks);
    free(n);
}

const hw_native_blocks *hw_java_natives_blocks(const struct hw_java_natives *n)
{
    return &n->blocks;
}

/* ---- classes ---- */

/* "Ljava/nio/DirectByteBuffer$Deallocator;" is "java.nio.DirectByteBuffer$Deallocator" */
static bool is_signature_of(const char *signature, const char *name)
{
    size_t n = strlen(name);
    if (strlen(signature) != n + 2)
        return false;
    for (size_t i = 0; i < n; i++)
        if (signature[i + 1] != (name[i] == '.' ? '/' : name[i]))
            return false;
    return true;
}

static enum hw_java_native kind_of_name(const char *name)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(hw_java_natives); i++)
        if (is_signature_of(hw_java_natives[i].signature, name))
            return hw_java_natives[i].kind;
    return HW_JAVA_NATIVE_NONE;
}

static enum hw_java_native kind_of_class(const struct hw_java_classes *c, uint32_t class)
{
    enum hw_java_native kind = HW_JAVA_NATIVE_NONE;
    for (int depth = 0; depth < 8 && class && !kind; depth++) {
        kind = kind_of_name(hw_java_class_name(c, class));
        class = hw_java_class_super(c, class);
    }
    return kind;
}

static bool is_or_extends(const struct hw_java_classes *c, uint32_t class, const char *name)
{
    for (int depth = 0; depth < 8 && class; depth++) {
        if (strcmp(hw_java_class_name(c, class), name) == 0)
            return true;
        class = hw_java_class_super(c, class);
    }
    return false;
}

static enum part part_of(const struct hw_java_classes *c, uint32_t class)
{
    static const char foreign[] = "jdk.internal.foreign.";
    if (hw_java_class_kind(c, class) == HW_JAVA_KIND_PHANTOM)
        return WEAK;
    if (is_or_extends(c, class, "java.util.zip.Deflater") ||
        is_or_extends(c, class, "java.util.zip.Inflater"))
        return STREAM;
    return hw_starts_with(hw_java_class_name(c, class), foreign) ? FOREIGN : NO_PART;
}

int hw_java_natives_begin(struct hw_java_natives *n, const struct hw_java_classes *classes,
                          const struct hw_java_graph *graph)
{
    forget(n);
    n->classes = classes;
    n->graph = graph;
    n->n_classes = hw_java_classes_count(classes);
    n->part = calloc(n->n_classes + 1, 1);
    n->kind = calloc(n->n_classes + 1, 1);
    if (!n->part || !n->kind)
        return HW_ENOMEM;
    for (uint32_t i = 1; i <= n->n_classes; i++) {
        n->kind[i] = (uint8_t)kind_of_class(classes, i);
        n->part[i] = (uint8_t)part_of(classes, i);
    }
    return HW_OK;
}

/* ---- objects ---- */

static bool is_called(const struct hw_java_field *f, const char *name)
{
    return f && hw_bytes_equal(f->name, hw_bytes_str(name));
}

static int add_thing(struct hw_java_natives *n, const struct hw_java_object *o)
{
    struct thing t = {.id = o->id, .kind = (enum hw_java_native)n->kind[o->of_class]};
    for (size_t i = 0; i < o->n_values; i++) {
        const struct hw_java_value *v = &o->values[i];
        uint32_t role = v->role;
        for (size_t k = 0; v->field && k < HW_ARRAY_LEN(hw_java_natives); k++) {
            if (is_called(v->field, hw_java_natives[k].address))
                role = HW_JAVA_VALUE_ADDRESS;
            else if (hw_java_natives[k].bytes && is_called(v->field, hw_java_natives[k].bytes))
                role = HW_JAVA_VALUE_BYTES;
        }
        if (role == HW_JAVA_VALUE_ADDRESS)
            t.address = v->value;
        else if (role == HW_JAVA_VALUE_BYTES)
            t.bytes = v->value;
        else if (role == HW_JAVA_VALUE_INNER && t.n_inner < HW_ARRAY_LEN(t.inner))
            t.inner[t.n_inner++] = v->value;
    }
    if (t.address == 0) /* freed, or never allocated */
        return HW_OK;
    if (hw_vec_push(&n->things, t) < 0)
        return HW_ENOMEM;
    return hw_map64_put(&n->thing_of, o->id, n->things.n);
}

static bool is_thing(const struct hw_java_natives *n, uint64_t id)
{
    return !hw_java_graph_is_class_object(n->graph, id) &&
           n->kind[hw_java_graph_class_of(n->graph, id)] != HW_JAVA_NATIVE_NONE;
}

static int add_weak(struct hw_java_natives *n, const struct hw_java_object *o)
{
    uint64_t referent = 0, thing = 0;
    for (size_t i = 0; i < o->n_refs; i++) {
        const struct hw_java_ref *r = &o->refs[i];
        if (is_called(r->field, "referent"))
            referent = r->id;
        else if (is_called(r->field, "next") && r->id == o->id)
            return HW_OK; /* has run */
        else if (is_thing(n, r->id))
            thing = r->id;
    }
    struct edge e = {.owner = referent, .thing = thing};
    return referent && thing && hw_vec_push(&n->owners, e) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_stream(struct hw_java_natives *n, const struct hw_java_object *o)
{
    struct edge e = {.owner = o->id,
                     .unpacks = is_or_extends(n->classes, o->of_class, "java.util.zip.Inflater")};
    for (size_t i = 0; i < o->n_refs; i++)
        if (is_thing(n, o->refs[i].id))
            e.thing = o->refs[i].id;
    return e.thing && hw_vec_push(&n->owners, e) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_foreign(struct hw_java_natives *n, const struct hw_java_object *o)
{
    int rc = HW_OK;
    for (size_t i = 0; i < o->n_refs && rc == 0; i++) {
        const struct hw_java_ref *r = &o->refs[i];
        struct edge e = {.owner = o->id, .thing = r->id};
        if (is_called(r->field, "resourceList"))
            rc = hw_vec_push(&n->heads, e) < 0 ? HW_ENOMEM : HW_OK;
        else if (is_called(r->field, "fst") || is_called(r->field, "next"))
            rc = hw_map64_put(&n->follower, o->id, r->id);
    }
    return rc;
}

int hw_java_natives_object(struct hw_java_natives *n, const struct hw_java_object *o)
{
    int rc = HW_OK;
    if (o->stands_for)
        return HW_OK;
    if (n->kind[o->of_class] && o->n_values)
        rc = add_thing(n, o);
    switch ((enum part)n->part[o->of_class]) {
    case WEAK:
        return rc ? rc : add_weak(n, o);
    case STREAM:
        return rc ? rc : add_stream(n, o);
    case FOREIGN:
        return rc ? rc : add_foreign(n, o);
    case NO_PART:
        break;
    }
    return rc;
}

/* ---- sizes and list ---- */

static uint64_t stream_bytes(const struct thing *t, enum hw_java_native kind)
{
    if (kind == HW_JAVA_NATIVE_DEFLATER)
        return DEFLATE_BYTES;
    bool has_window = t->n_inner != 1; /* 0: not known, as most have one */
    return INFLATE_BYTES + (has_window ? WINDOW_BYTES : 0);
}

/* A thing has one owner: the first. */
static int give(struct hw_java_natives *n, const struct edge *e)
{
    uint64_t at;
    if (!hw_map64_take(&n->thing_of, e->thing, &at))
        return HW_OK;
    const struct thing *t = &n->things.v[at - 1];
    struct hw_native_block b = {.owner = e->owner,
                                .kind = t->kind,
                                .bytes = t->bytes,
                                .address = {t->address},
                                .n_addresses = 1 + t->n_inner};
    if (t->kind == HW_JAVA_NATIVE_DEFLATER || t->kind == HW_JAVA_NATIVE_INFLATER) {
        b.kind = e->unpacks ? HW_JAVA_NATIVE_INFLATER : t->kind;
        b.bytes = stream_bytes(t, b.kind);
    }
    memcpy(b.address + 1, t->inner, sizeof t->inner);
    if (b.bytes == 0 || b.bytes > INT64_MAX / 2)
        return HW_OK;
    return hw_vec_push(&n->blocks, b) < 0 ? HW_ENOMEM : HW_OK;
}

/* From the list's head to its end; each part once, whatever refers to it. */
static int give_list(struct hw_java_natives *n, const struct edge *head)
{
    struct edge e = *head;
    int rc = HW_OK;
    do
        rc = give(n, &e);
    while (rc == 0 && hw_map64_take(&n->follower, e.thing, &e.thing));
    return rc;
}

int hw_java_natives_end(struct hw_java_natives *n)
{
    int rc = HW_OK;
    for (size_t i = 0; i < n->owners.n && rc == 0; i++)
        rc = give(n, &n->owners.v[i]);
    for (size_t i = 0; i < n->heads.n && rc == 0; i++)
        rc = give_list(n, &n->heads.v[i]);
    return rc;
}
