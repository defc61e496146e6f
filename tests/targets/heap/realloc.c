/* realloc.c - a storm of realloc: growing, shrinking, from NULL, to nothing, and failing */
#include <errno.h>

#include "target.h"

static struct site s = {.name = "fn_realloc"};

/* One realloc is a free of the old block and an allocation of the new one. */
NOIPA static void *fn_realloc(void *old, size_t old_n, size_t n)
{
    void *p = realloc(old, n);
    if (old)
        site_sub(&s, old_n);
    return site_add(&s, p, n);
}

int main(void)
{
    void *p[64] = {NULL};
    size_t n[64] = {0};
    unsigned x = 12345;
    for (int i = 0; i < 20000; i++) {
        x = x * 1103515245 + 12345;
        unsigned k = (x >> 16) % 64;
        size_t want = 1 + (x >> 8) % (k == 0 ? 300000u : 3000u);
        p[k] = fn_realloc(p[k], n[k], want);
        n[k] = want;
        ((char *)p[k])[want - 1] = (char)i;
    }
    errno = 0;
    void *volatile none = realloc(p[1], SIZE_MAX / 2 - 1); /* fails: the old block lives on */
    printf("impossible: %s, errno %s\n", none ? "given" : "refused",
           errno == ENOMEM ? "ENOMEM" : "other");
    for (int k = 32; k < 64; k++) {
        if (!p[k])
            continue;
        none = realloc(p[k], 0); /* glibc frees */
        site_sub(&s, n[k]);
        if (none)
            printf("realloc(p, 0) gave a block\n");
    }
    expect(&s, NULL);
    return 0;
}
