/*
 * References are kept in the order of the walk, as differences: for each owner a varint of its id
 * minus the previous one's, the number of references, and each target's id minus the owner's. The
 * walk numbers objects as it discovers them, so most references lead forwards, and a few passes
 * over the list mark all that the roots reach.
 */
#include "daemon/java/java_reach.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "java/jvm_abi.h"

#include "base/banned.h"

enum { MAX_PASSES = 64 }; /* what is not marked by then counts as not reached: it is alive anyway */

struct hw_java_reach {
    HW_VEC(uint8_t) refs;
    HW_VEC(uint64_t) roots, class_objects;
    uint64_t owner; /* the last one */
    uint64_t max_bytes;
};

int hw_java_reach_new(uint64_t max_bytes, struct hw_java_reach **out)
{
    struct hw_java_reach *r = calloc(1, sizeof *r);
    if (!r)
        return HW_ENOMEM;
    r->max_bytes = max_bytes;
    *out = r;
    return HW_OK;
}

void hw_java_reach_free(struct hw_java_reach *r)
{
    if (!r)
        return;
    hw_vec_done(&r->refs);
    hw_vec_done(&r->roots);
    hw_vec_done(&r->class_objects);
    free(r);
}

static int put(struct hw_java_reach *r, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        if (hw_vec_push(&r->refs, (uint8_t)(v | 0x80)) < 0)
            return HW_ENOMEM;
    return hw_vec_push(&r->refs, (uint8_t)v) < 0 ? HW_ENOMEM : HW_OK;
}

/* From `from` to `to`, with the sign in the lowest bit. */
static int put_difference(struct hw_java_reach *r, uint64_t from, uint64_t to)
{
    return put(r, to >= from ? (to - from) << 1 : (from - to) << 1 | 1);
}

/* As readers of the trace see it: by kind and name. */
static bool is_weak(const struct hw_java_classes *classes, const struct hw_java_object *o,
                    const struct hw_java_ref *ref)
{
    enum hw_java_kind kind = hw_java_class_kind(classes, o->of_class);
    return (kind == HW_JAVA_KIND_WEAK || kind == HW_JAVA_KIND_FINALIZER ||
            kind == HW_JAVA_KIND_PHANTOM) &&
           ref->field && hw_bytes_equal(ref->field->name, hw_bytes_str("referent")) &&
           hw_bytes_equal(hw_bytes_str(hw_java_class_name(classes, ref->field->of)),
                          hw_bytes_str("java.lang.ref.Reference"));
}

int hw_java_reach_object(struct hw_java_reach *r, const struct hw_java_classes *classes,
                         const struct hw_java_object *o)
{
    size_t n = 0;
    if (o->stands_for && hw_vec_push(&r->class_objects, o->id) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < o->n_refs; i++)
        n += !is_weak(classes, o, &o->refs[i]);
    if (n == 0)
        return HW_OK;
    int rc = put_difference(r, r->owner, o->id);
    rc = rc < 0 ? rc : put(r, n);
    for (size_t i = 0; rc == HW_OK && i < o->n_refs; i++)
        if (!is_weak(classes, o, &o->refs[i]))
            rc = put_difference(r, o->id, o->refs[i].id);
    r->owner = o->id;
    return rc < 0 ? rc : r->refs.n > r->max_bytes ? HW_ELIMIT : HW_OK;
}

int hw_java_reach_root(struct hw_java_reach *r, uint64_t id)
{
    return hw_vec_push(&r->roots, id) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- the passes ---- */

static bool has_bit(const uint64_t *bits, uint64_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *bits, uint64_t i)
{
    bits[i / 64] |= 1ull << (i % 64);
}

static uint64_t get(const uint8_t **p)
{
    uint64_t v = 0;
    unsigned shift = 0;
    for (; **p & 0x80; shift += 7)
        v |= (uint64_t)(*(*p)++ & 0x7f) << shift;
    return v | (uint64_t) * (*p)++ << shift;
}

static uint64_t get_difference(const uint8_t **p, uint64_t from)
{
    uint64_t v = get(p);
    return v & 1 ? from - (v >> 1) : from + (v >> 1);
}

/* One pass; gives whether any mark was set, which may be of an object that was passed before. */
static bool pass(const struct hw_java_reach *r, uint64_t n_objects, uint64_t *reached)
{
    const uint8_t *p = r->refs.v, *end = p + r->refs.n;
    uint64_t owner = 0;
    bool again = false;
    while (p < end) {
        owner = get_difference(&p, owner);
        bool is_reached = has_bit(reached, owner);
        for (uint64_t n = get(&p); n > 0; n--) {
            uint64_t to = get_difference(&p, owner);
            if (!is_reached || to > n_objects || has_bit(reached, to))
                continue;
            set_bit(reached, to);
            again = true;
        }
    }
    return again;
}

static bool all_reached(const struct hw_java_reach *r, const uint64_t *reached)
{
    for (size_t i = 0; i < r->class_objects.n; i++)
        if (!has_bit(reached, r->class_objects.v[i]))
            return false;
    return true;
}

int hw_java_reach_end(struct hw_java_reach *r, uint64_t n_objects,
                      int (*give)(void *ctx, uint64_t class_object), void *ctx)
{
    hw_autofree uint64_t *reached = calloc(n_objects / 64 + 1, sizeof *reached);
    int rc = reached ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < r->roots.n; i++)
        set_bit(reached, r->roots.v[i]);
    for (int i = 0; rc == HW_OK && i < MAX_PASSES && !all_reached(r, reached); i++)
        if (!pass(r, n_objects, reached))
            break;
    for (size_t i = 0; rc == HW_OK && i < r->class_objects.n; i++)
        if (!has_bit(reached, r->class_objects.v[i]))
            rc = give(ctx, r->class_objects.v[i]);
    return rc;
}
