/*
 * target.h - what the little profiled programs share: allocation sites that count themselves
 *
 * Why:    a target knows exactly what it allocated where; its last lines on stdout say so:
 *         "EXPECT fn alloc_bytes allocs live_bytes live_objects". tests/e2e compares them with the
 *         profile recorded at interval 1. Output is the same on every run, so that it can be
 *         compared byte for byte with a run without us.
 * Usage:  SITE(fn_a) makes `void *fn_a(size_t)`; FREE_OF(fn_a, p, n) gives one back.
 * Errors: a failed allocation aborts: the numbers would be wrong.
 */
#ifndef HW_TESTS_TARGET_H
#define HW_TESTS_TARGET_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* noipa: the symbol keeps its name, nothing is inlined, cloned or merged. */
#define NOIPA __attribute__((noipa))

struct site {
    const char *name;
    _Atomic uint64_t alloc, objs, freed, freed_objs;
};

static inline void *site_add(struct site *s, void *p, size_t n)
{
    if (!p)
        abort();
    s->alloc += n;
    s->objs++;
    return p;
}

static inline void site_sub(struct site *s, size_t n)
{
    s->freed += n;
    s->freed_objs++;
}

#define SITE(fn)                                                                                   \
    static struct site site_##fn = {.name = #fn};                                                  \
    NOIPA static void *fn(size_t n)                                                                \
    {                                                                                              \
        void *p = malloc(n);                                                                       \
        return site_add(&site_##fn, p, n); /* after the call: no tail call */                      \
    }

#define FREE_OF(fn, p, n) (site_sub(&site_##fn, (n)), free(p))

static inline void expect_one(const struct site *s)
{
    printf("EXPECT %s %llu %llu %llu %llu\n", s->name, (unsigned long long)s->alloc,
           (unsigned long long)s->objs, (unsigned long long)(s->alloc - s->freed),
           (unsigned long long)(s->objs - s->freed_objs));
}

/* expect(&site_fn_a, &site_fn_b, NULL) */
static inline void expect(const struct site *s, ...)
{
    va_list ap;
    va_start(ap, s);
    for (; s; s = va_arg(ap, const struct site *))
        expect_one(s);
    va_end(ap);
    fflush(stdout);
}

#endif
