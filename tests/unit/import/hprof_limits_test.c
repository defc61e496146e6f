/* Java heap dumps that say much in few bytes: what they cost stays near their size. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/strbuf.h"
#include "import/hprof/hprof_reader.h"
#include "model/profile.h"
#include "test.h"

enum { LONG_NAME = 60000, TEXT = 1, CLASS = 7, FIRST_FIELD = 1000 };

/* ---- a writer ---- */

static void put(struct hw_strbuf *b, uint64_t v, unsigned n_bytes)
{
    while (n_bytes-- > 0)
        hw_strbuf_addc(b, (char)(n_bytes < 8 ? v >> 8 * n_bytes : 0));
}

static void begin(struct hw_strbuf *b)
{
    hw_strbuf_add(b, "JAVA PROFILE 1.0.2", 19);
    put(b, 4, 4);
    put(b, 0, 8);
}

static void record(struct hw_strbuf *b, unsigned tag, uint64_t n)
{
    put(b, tag, 1);
    put(b, 0, 4);
    put(b, n, 4);
}

static void text(struct hw_strbuf *b, uint64_t id, const char *p, size_t n)
{
    record(b, 1, 4 + n);
    put(b, id, 4);
    hw_strbuf_add(b, p, n);
}

static void long_class(struct hw_strbuf *b)
{
    static char name[LONG_NAME];
    memset(name, 'x', sizeof name);
    text(b, TEXT, name, sizeof name);
    record(b, 2, 16); /* loaded */
    put(b, 1, 4);
    put(b, CLASS, 4);
    put(b, 0, 4);
    put(b, TEXT, 4);
}

/* Fields of one type. */
static void class_record(struct hw_strbuf *b, uint64_t id, uint64_t super, unsigned n,
                         unsigned type)
{
    put(b, 0x20, 1);
    put(b, id, 4);
    put(b, 0, 4);
    put(b, super, 4);
    for (int i = 0; i < 5; i++)
        put(b, 0, 4);
    put(b, 0, 4); /* size */
    put(b, 0, 2);
    put(b, 0, 2);
    put(b, n, 2);
    for (unsigned i = 0; i < n; i++) {
        put(b, FIRST_FIELD + i, 4);
        put(b, type, 1);
    }
}

static void instance(struct hw_strbuf *b, uint64_t id, uint64_t class)
{
    put(b, 0x21, 1);
    put(b, id, 4);
    put(b, 0, 4);
    put(b, class, 4);
    put(b, 0, 4);
}

/* ---- the reader ---- */

static int import(struct hw_strbuf *b, double *seconds, size_t *n_threads)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), HW_OK);
    uint64_t start = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID); /* whatever else runs here */
    int rc = hw_import_hprof.read(hw_bytes_of(b->p, b->n), p, NULL);
    *seconds = (double)(hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / 1e9;
    if (n_threads)
        *n_threads = p->graphs.n ? p->graphs.v[0]->threads.n : 0;
    hw_profile_free(p);
    hw_strbuf_done(b);
    return rc;
}

static void test_names(void **unused)
{
    struct hw_strbuf b = {0};
    double seconds;
    (void)unused;
    begin(&b);
    long_class(&b);
    for (unsigned i = 0; i < 4000; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "f%u", i);
        text(&b, FIRST_FIELD + i, name, (size_t)n);
    }
    record(&b, 0x0c, 0);
    class_record(&b, CLASS, 0, 4000, 10);
    assert_int_equal(import(&b, &seconds, NULL), HW_ELIMIT); /* 240 MB of names in 200 KB */
}

/* A class that is its own superclass, with instances of no bytes. */
static void test_slots(void **unused)
{
    static const unsigned types[] = {2, 10, 0 /* none of the format's */};
    (void)unused;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct hw_strbuf b = {0};
        double seconds;
        begin(&b);
        record(&b, 0x0c, 0);
        class_record(&b, CLASS, CLASS, 60000, types[t]);
        for (unsigned i = 0; i < 2000; i++)
            instance(&b, 100000 + i, CLASS);
        assert_int_equal(import(&b, &seconds, NULL), HW_OK);
        assert_true(seconds < 10);
    }
}

/* Many threads with one deep stack of long names. */
static void test_stacks(void **unused)
{
    struct hw_strbuf b = {0};
    double seconds;
    size_t n_threads;
    (void)unused;
    begin(&b);
    long_class(&b);
    for (unsigned i = 0; i < 1000; i++) {
        record(&b, 4, 24); /* a frame */
        put(&b, i, 4);
        put(&b, 0, 12);
        put(&b, 1, 4);
        put(&b, i, 4);
    }
    record(&b, 5, 12 + 4 * 1000); /* a trace */
    put(&b, 9, 4);
    put(&b, 1, 4);
    put(&b, 1000, 4);
    for (unsigned i = 0; i < 1000; i++)
        put(&b, i, 4);
    record(&b, 0x0c, 0);
    for (unsigned i = 0; i < 3000; i++) {
        put(&b, 0x08, 1);
        put(&b, i, 4);
        put(&b, i, 4);
        put(&b, 9, 4);
    }
    assert_int_equal(import(&b, &seconds, &n_threads), HW_OK);
    assert_int_equal(n_threads, 3000);
    assert_true(seconds < 10);
}

HW_TEST_MAIN(cmocka_unit_test(test_names), cmocka_unit_test(test_slots),
             cmocka_unit_test(test_stacks))
