/* entries.c - every entry point of the allocator once or more, with sizes of its own */
#include <malloc.h>

#include "target.h"

static struct site calloc_ = {.name = "fn_calloc"}, array = {.name = "fn_reallocarray"},
                   posix = {.name = "fn_posix_memalign"}, aligned = {.name = "fn_aligned_alloc"},
                   mem = {.name = "fn_memalign"}, val = {.name = "fn_valloc"},
                   pval = {.name = "fn_pvalloc"}, dup = {.name = "fn_strdup"},
                   zero = {.name = "fn_zero"};

#define ENTRY(fn, site, size, expr)                                                                \
    NOIPA static void *fn(void)                                                                    \
    {                                                                                              \
        void *p = expr;                                                                            \
        return site_add(&site, p, size);                                                           \
    }
static void *posix_memalign_(size_t align, size_t n)
{
    void *p = NULL;
    return posix_memalign(&p, align, n) == 0 ? p : NULL;
}
static const char *volatile text = "nineteen characters";
static volatile size_t one = 1, three = 3;
ENTRY(fn_calloc, calloc_, 3 * 111, calloc(three, 111))
ENTRY(fn_reallocarray, array, 3 * 55, reallocarray(NULL, three, 55))
ENTRY(fn_posix_memalign, posix, 1000, posix_memalign_(256, one * 1000))
ENTRY(fn_aligned_alloc, aligned, 640, aligned_alloc(64, one * 640))
ENTRY(fn_memalign, mem, 77, memalign(32, one * 77))
ENTRY(fn_valloc, val, 5000, valloc(one * 5000))
ENTRY(fn_pvalloc, pval, 5000, pvalloc(one * 5000))
ENTRY(fn_strdup, dup, 20, strdup(text))
ENTRY(fn_zero, zero, 0, malloc(one - 1))

int main(void)
{
    void *(*const entry[])(void) = {fn_calloc,        fn_reallocarray, fn_posix_memalign,
                                    fn_aligned_alloc, fn_memalign,     fn_valloc,
                                    fn_pvalloc,       fn_strdup,       fn_zero};
    struct site *const site[] = {&calloc_, &array, &posix, &aligned, &mem,
                                 &val,     &pval,  &dup,   &zero};
    for (size_t i = 0; i < sizeof entry / sizeof entry[0]; i++)
        for (int k = 0; k < 5; k++) {
            size_t before = site[i]->alloc;
            void *p = entry[i]();
            if (k % 2) {
                site_sub(site[i], site[i]->alloc - before);
                free(p);
            }
        }
    void *p = entry[0]();
    printf("usable %d\n", malloc_usable_size(p) >= 333);
    printf("bad alignment: %d\n", posix_memalign(&p, three, 10));
    for (size_t i = 0; i < sizeof site / sizeof site[0]; i++)
        expect_one(site[i]);
    return 0;
}
