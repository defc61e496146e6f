/* Which class objects no root reaches, in random graphs, against a search that repeats until nothing changes. */
#include <string.h>

#include "test.h"

#include "base/bytes.h"
#include "base/error.h"
#include "daemon/java/java_reach.h"
#include "java/protocol.h"

enum {
    N_GRAPHS = 3000,
    MAX_OBJECTS = 40,
    MAX_REFS = 4,
    OBJECT = 1,
    REFERENCE,
    WEAK,
    N_CLASSES = WEAK
};
static const uint32_t referent = 0, queue = 1;

static uint64_t state = 88172645463325252u;

static uint32_t pick(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

/* ---- Object, Reference { Object referent, queue; }, WeakReference ---- */

struct bytes {
    uint8_t v[256];
    size_t n;
};

static void put_text(struct bytes *b, const char *text)
{
    b->v[b->n++] = (uint8_t)strlen(text);
    memcpy(b->v + b->n, text, strlen(text));
    b->n += strlen(text);
}

static void put_class(struct bytes *b, uint8_t super, const char *signature, uint8_t n_fields)
{
    b->v[b->n++] = HW_JAVA_CLASS_PREPARED;
    b->v[b->n++] = super;
    put_text(b, signature);
    b->v[b->n++] = 0; /* interfaces */
    b->v[b->n++] = n_fields;
}

static void put_field(struct bytes *b, const char *name)
{
    b->v[b->n++] = 0; /* not static */
    put_text(b, name);
    put_text(b, "Ljava/lang/Object;");
}

static struct hw_java_classes *make_classes(void)
{
    struct bytes b = {.v = {N_CLASSES}, .n = 1};
    struct hw_java_classes *c = NULL;
    put_class(&b, 0, "Ljava/lang/Object;", 0);
    put_class(&b, OBJECT, "Ljava/lang/ref/Reference;", 2);
    put_field(&b, "referent");
    put_field(&b, "queue");
    put_class(&b, REFERENCE, "Ljava/lang/ref/WeakReference;", 0);
    assert_int_equal(hw_java_classes_parse(hw_bytes_of(b.v, b.n), &c, NULL), 0);
    return c;
}

/* ---- graphs ---- */

struct object {
    bool is_class, is_root, is_weak;
    uint32_t n_refs, to[MAX_REFS];
    bool is_referent[MAX_REFS]; /* by reference */
};

static struct object objects[MAX_OBJECTS + 1]; /* [id] */

static void make_objects(uint32_t n)
{
    memset(objects, 0, sizeof objects);
    for (uint32_t o = 1; o <= n; o++) {
        struct object *x = &objects[o];
        x->is_class = pick(3) == 0;
        x->is_root = pick(12) == 0;
        x->is_weak = !x->is_class && pick(3) == 0;
        x->n_refs = pick(MAX_REFS + 1);
        for (uint32_t i = 0; i < x->n_refs; i++) {
            x->to[i] = 1 + pick(n);
            x->is_referent[i] = x->is_weak && pick(2);
        }
    }
}

static void add_object(struct hw_java_reach *r, struct hw_java_classes *classes, uint32_t o)
{
    struct object *x = &objects[o];
    struct hw_java_ref refs[MAX_REFS] = {0};
    uint32_t slot;
    for (uint32_t i = 0; i < x->n_refs; i++) {
        refs[i].id = x->to[i];
        if (x->is_weak)
            refs[i].field =
                hw_java_class_field(classes, WEAK, x->is_referent[i] ? referent : queue, &slot);
        assert_true(!x->is_weak || refs[i].field);
    }
    struct hw_java_object given = {.id = o,
                                   .of_class = x->is_weak ? WEAK : OBJECT,
                                   .stands_for = x->is_class ? OBJECT : 0,
                                   .refs = refs,
                                   .n_refs = x->n_refs};
    assert_int_equal(hw_java_reach_object(r, classes, &given), 0);
}

static void search(uint32_t n, bool *reached)
{
    for (uint32_t o = 1; o <= n; o++)
        reached[o] = objects[o].is_root;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t o = 1; o <= n; o++)
            for (uint32_t i = 0; reached[o] && i < objects[o].n_refs; i++)
                if (!objects[o].is_referent[i] && !reached[objects[o].to[i]])
                    again = reached[objects[o].to[i]] = true;
    }
}

static int take(void *ctx, uint64_t id)
{
    bool *given = ctx;
    assert_false(given[id]);
    given[id] = true;
    return 0;
}

/* Objects are described in any order, as a walk in depth does. */
static void random_graphs(void **unused)
{
    (void)unused;
    struct hw_java_classes *classes = make_classes();
    uint32_t n_given = 0, n_kept = 0;
    for (int k = 0; k < N_GRAPHS; k++) {
        struct hw_java_reach *r;
        uint32_t n = 1 + pick(MAX_OBJECTS), order[MAX_OBJECTS];
        bool given[MAX_OBJECTS + 1] = {false}, reached[MAX_OBJECTS + 1] = {false};
        make_objects(n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = pick(i + 1);
            order[i] = order[at];
            order[at] = i + 1;
        }
        assert_int_equal(hw_java_reach_new(1 << 20, &r), 0);
        for (uint32_t i = 0; i < n; i++) {
            if (objects[order[i]].is_root)
                assert_int_equal(hw_java_reach_root(r, order[i]), 0);
            add_object(r, classes, order[i]);
        }
        search(n, reached);
        assert_int_equal(hw_java_reach_end(r, n, take, given), 0);
        for (uint32_t o = 1; o <= n; o++) {
            assert_int_equal(given[o], objects[o].is_class && !reached[o]);
            n_given += given[o];
            n_kept += objects[o].is_class && reached[o];
        }
        hw_java_reach_free(r);
    }
    assert_true(n_given > 5000 && n_kept > 1000);
    hw_java_classes_free(classes);
}

static void limited(void **unused)
{
    (void)unused;
    struct hw_java_classes *classes = make_classes();
    struct hw_java_reach *r;
    const struct hw_java_ref refs[4] = {{.id = 1}, {.id = 1}, {.id = 1}, {.id = 1}};
    const struct hw_java_object o = {.id = 1, .of_class = OBJECT, .refs = refs, .n_refs = 4};
    assert_int_equal(hw_java_reach_new(5, &r), 0);
    assert_int_equal(hw_java_reach_object(r, classes, &o), HW_ELIMIT);
    hw_java_reach_free(r);
    hw_java_classes_free(classes);
}

HW_TEST_MAIN(cmocka_unit_test(random_graphs), cmocka_unit_test(limited))
