/*
 * What becomes of a walk: a table of classes and a stream, made here byte by byte.
 *
 *      1 java.lang.Object        4 B extends A  { I any; }
 *      2 java.lang.Class         5 I (interface) { static Object ONE; }
 *      3 A { A next; B[] all; Object any; }      6 B[]    7 int[]
 */
#include <stdio.h>
#include <string.h>

#include "test.h"

#include "base/bytes.h"
#include "base/error.h"
#include "java/classes.h"
#include "java/graph.h"
#include "java/jvm_abi.h"
#include "java/protocol.h"

enum { OBJECT = 1, CLASS, A, B, I, B_ARRAY, INT_ARRAY, N_CLASSES = INT_ARRAY };

struct bytes {
    uint8_t v[1024];
    size_t n;
};

static void put(struct bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        b->v[b->n++] = (uint8_t)(v | 0x80);
    b->v[b->n++] = (uint8_t)v;
}

static void put_signed(struct bytes *b, int64_t v)
{
    put(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_text(struct bytes *b, const char *text)
{
    put(b, strlen(text));
    memcpy(b->v + b->n, text, strlen(text));
    b->n += strlen(text);
}

static void put_class(struct bytes *b, uint32_t bits, uint32_t super, const char *signature,
                      uint32_t interface)
{
    put(b, bits);
    put(b, super);
    put_text(b, signature);
    put(b, interface != 0);
    if (interface)
        put(b, interface);
}

static void put_field(struct bytes *b, bool is_static, const char *name, const char *signature)
{
    put(b, is_static);
    put_text(b, name);
    put_text(b, signature);
}

static struct hw_java_classes *table(void)
{
    struct bytes b = {.n = 0};
    struct hw_java_classes *c = NULL;
    put(&b, N_CLASSES);
    put_class(&b, HW_JAVA_CLASS_PREPARED, 0, "Ljava/lang/Object;", 0);
    put(&b, 0);
    put_class(&b, HW_JAVA_CLASS_PREPARED, OBJECT, "Ljava/lang/Class;", 0);
    put(&b, 0);
    put_class(&b, HW_JAVA_CLASS_PREPARED, OBJECT, "LA;", 0);
    put(&b, 3);
    put_field(&b, false, "next", "LA;");
    put_field(&b, false, "all", "[LB;");
    put_field(&b, false, "any", "Ljava/lang/Object;");
    put_class(&b, HW_JAVA_CLASS_PREPARED, A, "LB;", I);
    put(&b, 1);
    put_field(&b, false, "any", "LI;");
    put_class(&b, HW_JAVA_CLASS_PREPARED | HW_JAVA_CLASS_INTERFACE, 0, "LI;", 0);
    put(&b, 1);
    put_field(&b, true, "ONE", "Ljava/lang/Object;");
    put_class(&b, HW_JAVA_CLASS_ARRAY, OBJECT, "[LB;", 0);
    put(&b, 0);
    put_class(&b, HW_JAVA_CLASS_ARRAY, OBJECT, "[I", 0);
    put(&b, 0);
    assert_int_equal(hw_java_classes_parse(hw_bytes_of(b.v, b.n), &c, NULL), 0);
    return c;
}

/* ---- the walk ---- */

struct stream {
    struct bytes b;
    uint64_t owner;
    uint32_t seen; /* bits of things */
};

/* Things are numbered 1, 2, …; of_class counts the first time. */
static void refer(struct stream *s, uint32_t kind, uint32_t index, uint64_t to, uint32_t of_class,
                  uint32_t stands_for)
{
    bool fresh = !(s->seen >> to & 1);
    s->seen |= 1u << to;
    put(&s->b, kind | (fresh ? HW_JAVA_OP_FRESH : 0u) |
                   (fresh && stands_for ? HW_JAVA_OP_CLASS_OBJECT : 0u));
    if (kind == HW_REF_FIELD || kind == HW_REF_STATIC)
        put(&s->b, index);
    if (hw_jvm_has_holder(kind))
        put(&s->b, 3); /* a thread */
    for (uint32_t i = 0; hw_jvm_is_on_stack(kind) && i < 4; i++)
        put(&s->b, index + i); /* its number in Java, place, frame, slot */
    put_signed(&s->b, (int64_t)(to - s->owner));
    if (!fresh)
        return;
    put(&s->b, of_class);
    put(&s->b, 2);
    if (stands_for)
        put(&s->b, stands_for);
}

static void own(struct stream *s, uint64_t id)
{
    put(&s->b, HW_JAVA_OP_OWNER);
    put_signed(&s->b, (int64_t)(id - s->owner));
    s->owner = id;
}

struct seen {
    char text[2048]; /* "id(class): name>id …; " */
    char roots[256]; /* "kind>id: thread number depth frame slot; " */
    const struct hw_java_classes *classes;
};

static int on_object(void *ctx, const struct hw_java_object *o)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);
    n += (size_t)snprintf(s->text + n, sizeof s->text - n, "%d(%s):", (int)o->id,
                          hw_java_class_name(s->classes, o->of_class));
    for (size_t i = 0; i < o->n_refs; i++) {
        const struct hw_java_ref *r = &o->refs[i];
        if (r->kind == HW_REF_SUPERCLASS)
            n += (size_t)snprintf(s->text + n, sizeof s->text - n, " super>%d", (int)r->id);
        else if (r->field)
            n += (size_t)snprintf(s->text + n, sizeof s->text - n, " %.*s>%d",
                                  (int)r->field->name.n, r->field->name.p, (int)r->id);
        else
            n += (size_t)snprintf(s->text + n, sizeof s->text - n, " #%u>%d", r->index, (int)r->id);
    }
    (void)snprintf(s->text + n, sizeof s->text - n, "; ");
    return 0;
}

static int on_root(void *ctx, uint64_t id, uint32_t kind, const struct hw_java_holder *by)
{
    struct seen *s = ctx;
    size_t n = strlen(s->roots);
    if (by)
        (void)snprintf(s->roots + n, sizeof s->roots - n, "%u>%d: %u %llu %d %u %d; ", kind,
                       (int)id, by->thread, (unsigned long long)by->thread_id, by->depth, by->frame,
                       by->slot);
    return 0;
}

/* Gives how many classes are in doubt. */
static size_t feed(struct stream *s, struct seen *seen)
{
    struct hw_java_classes *classes = table();
    struct hw_java_graph *g;
    const struct hw_java_sink sink = {seen, on_object, on_root};
    *seen = (struct seen){.classes = classes};
    put(&s->b, HW_JAVA_OP_END);
    assert_int_equal(hw_java_graph_new(classes, &sink, 1 << 20, &g), 0);
    assert_int_equal(hw_java_graph_feed(g, hw_bytes_of(s->b.v, s->b.n), NULL), 0);
    assert_int_equal(hw_java_graph_end(g, NULL), 0);
    size_t doubtful = hw_java_classes_doubtful(classes);
    hw_java_graph_free(g);
    hw_java_classes_free(classes);
    return doubtful;
}

static void test_right_numbers(void **state)
{
    (void)state;
    struct stream s = {.b.n = 0};
    struct seen seen;
    refer(&s, HW_ROOT_THREAD, 0, 1, B, 0);
    own(&s, 1); /* B has an interface with one field: numbers begin at 1 */
    refer(&s, HW_REF_FIELD, 1, 2, A, 0);
    refer(&s, HW_REF_FIELD, 2, 3, B_ARRAY, 0);
    refer(&s, HW_REF_FIELD, 3, 4, INT_ARRAY, 0);
    refer(&s, HW_REF_FIELD, 4, 5, OBJECT, 0); /* an interface's type holds anything */
    own(&s, 2);
    refer(&s, HW_REF_FIELD, 0, 1, B, 0); /* a subclass fits */
    for (uint64_t id = 3; id <= 5; id++)
        own(&s, id);
    assert_int_equal(feed(&s, &seen), 0);
    assert_string_equal(seen.text, "1(B): next>2 all>3 any>4 any>5; 2(A): next>1; 3(B[]):; "
                                   "4(int[]):; 5(java.lang.Object):; ");
}

static void test_holders(void **state)
{
    (void)state;
    struct stream s = {.b.n = 0};
    struct seen seen;
    refer(&s, HW_ROOT_THREAD, 0, 1, INT_ARRAY, 0);
    refer(&s, HW_ROOT_STACK, 20, 1, INT_ARRAY, 0);
    refer(&s, HW_ROOT_JNI_LOCAL, 0, 2, INT_ARRAY, 0); /* 0: unknown, none */
    refer(&s, HW_ROOT_OTHER, 0, 2, INT_ARRAY, 0);
    own(&s, 1);
    own(&s, 2);
    assert_int_equal(feed(&s, &seen), 0);
    assert_string_equal(seen.roots, "26>1: 3 0 -1 0 -1; 24>1: 3 20 20 22 22; 25>2: 3 0 0 2 2; ");
}

/* Everything is one field off: found at the first object, and only that class is meant. */
static void test_other_numbers(void **state)
{
    (void)state;
    struct stream s = {.b.n = 0};
    struct seen seen;
    refer(&s, HW_ROOT_THREAD, 0, 1, B, 0);
    own(&s, 1);
    refer(&s, HW_REF_FIELD, 2, 2, A, 0);
    refer(&s, HW_REF_FIELD, 3, 3, B_ARRAY, 0);
    own(&s, 2);
    refer(&s, HW_REF_FIELD, 2, 4, B, 0);
    own(&s, 4);
    refer(&s, HW_REF_FIELD, 4, 1, B, 0);
    own(&s, 3);
    assert_int_equal(feed(&s, &seen), 1);
    assert_string_equal(seen.text, "1(B): #2>2 #3>3; 2(A): any>4; 4(B): #4>1; 3(B[]):; ");
}

static void test_arrays(void **state)
{
    (void)state;
    struct stream s = {.b.n = 0};
    struct seen seen;
    refer(&s, HW_ROOT_THREAD, 0, 1, A, 0);
    own(&s, 1);
    refer(&s, HW_REF_FIELD, 1, 2, INT_ARRAY, 0); /* no int[] is a B[] */
    own(&s, 2);
    assert_int_equal(feed(&s, &seen), 1);
    assert_string_equal(seen.text, "1(A): #1>2; 2(int[]):; ");
}

/* The JVM reports no link to a superclass that is Object. */
static void test_superclass(void **state)
{
    (void)state;
    struct stream s = {.b.n = 0};
    struct seen seen;
    refer(&s, HW_ROOT_SYSTEM_CLASS, 0, 1, CLASS, OBJECT);
    refer(&s, HW_ROOT_SYSTEM_CLASS, 0, 2, CLASS, A);
    refer(&s, HW_ROOT_SYSTEM_CLASS, 0, 3, CLASS, B);
    refer(&s, HW_ROOT_SYSTEM_CLASS, 0, 4, CLASS, I);
    own(&s, 3);
    refer(&s, HW_REF_SUPERCLASS, 0, 2, CLASS, A);
    assert_int_equal(feed(&s, &seen), 0);
    assert_string_equal(seen.text, "3(java.lang.Class): super>2; 1(java.lang.Class):; "
                                   "2(java.lang.Class): super>1; 4(java.lang.Class):; ");
}

/* What is announced costs a few bytes there, and much more here. */
static void test_more_than_fits(void **state)
{
    (void)state;
    enum { ROOM = 4800, MOST = 100 };
    struct hw_java_classes *classes = table();
    struct hw_java_graph *g;
    struct seen seen = {.classes = classes};
    const struct hw_java_sink sink = {&seen, on_object, on_root};
    struct hw_error err = {0};
    assert_int_equal(hw_java_graph_new(classes, &sink, ROOM, &g), 0);
    int rc = 0;
    for (uint64_t id = 1; id <= 1000 && rc == 0; id++) {
        struct bytes b = {.n = 0};
        put(&b, HW_ROOT_OTHER | HW_JAVA_OP_FRESH);
        put_signed(&b, (int64_t)id);
        put(&b, INT_ARRAY);
        put(&b, 2);
        rc = hw_java_graph_feed(g, hw_bytes_of(b.v, b.n), &err);
    }
    assert_int_equal(rc, HW_ELIMIT);
    assert_in_range(hw_java_graph_objects(g), MOST / 2, MOST);
    assert_non_null(strstr(err.text, "more memory is needed here"));
    hw_java_graph_free(g);
    hw_java_classes_free(classes);
}

/* So do the references of one object. */
static void test_more_references_than_fit(void **state)
{
    (void)state;
    enum { ROOM = 100000 };
    struct hw_java_classes *classes = table();
    struct hw_java_graph *g;
    struct seen seen = {.classes = classes};
    const struct hw_java_sink sink = {&seen, on_object, on_root};
    struct stream s = {.b.n = 0};
    assert_int_equal(hw_java_graph_new(classes, &sink, ROOM, &g), 0);
    refer(&s, HW_ROOT_OTHER, 0, 1, B_ARRAY, 0);
    own(&s, 1);
    int rc = hw_java_graph_feed(g, hw_bytes_of(s.b.v, s.b.n), NULL);
    for (int i = 0; i < ROOM && rc == 0; i++) {
        s.b.n = 0;
        refer(&s, HW_REF_ELEMENT, 0, 1, B_ARRAY, 0);
        rc = hw_java_graph_feed(g, hw_bytes_of(s.b.v, s.b.n), NULL);
    }
    assert_int_equal(rc, HW_ELIMIT);
    hw_java_graph_free(g);
    hw_java_classes_free(classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right_numbers),
                                       cmocka_unit_test(test_holders),
                                       cmocka_unit_test(test_other_numbers),
                                       cmocka_unit_test(test_arrays),
                                       cmocka_unit_test(test_superclass),
                                       cmocka_unit_test(test_more_than_fits),
                                       cmocka_unit_test(test_more_references_than_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
