/*
 * custom.c - an allocator of its own that reports through the heap API; runs without us too
 *
 * With an argument only a forked child of it does so, which never calls malloc.
 */
#include <heapwise/heap_profile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

/* Weak: without the preload library there is nobody to report to. */
#pragma weak AHeapInfo_create
#pragma weak AHeapInfo_setEnabledCallback
#pragma weak AHeapProfile_registerHeap
#pragma weak AHeapProfile_reportAllocation
#pragma weak AHeapProfile_reportFree

static struct site pool = {.name = "fn_pool"}, other = {.name = "fn_other"};
static char memory[1 << 20];
static size_t used;

NOIPA static void *fn_pool(uint32_t heap, size_t n)
{
    void *p = memory + used;
    used += n;
    if (heap)
        AHeapProfile_reportAllocation(heap, (uint64_t)(uintptr_t)p, n);
    return site_add(&pool, p, n);
}

NOIPA static void *fn_other(uint32_t heap, uint64_t id, size_t n)
{
    if (heap)
        AHeapProfile_reportAllocation(heap, id, n);
    return site_add(&other, &other, n);
}

int main(int argc, char **argv)
{
    uint32_t a = 0, b = 0;
    if (AHeapInfo_create) {
        a = AHeapProfile_registerHeap(AHeapInfo_create("test.pool"));
        b = AHeapProfile_registerHeap(AHeapInfo_create("test.other"));
    }
    (void)argv;
    if (argc > 1 && fork())
        return wait(NULL) < 0;
    for (int i = 0; i < 200; i++) {
        void *p = fn_pool(a, 40 + (size_t)(i % 3));
        if (i % 2) {
            if (a)
                AHeapProfile_reportFree(a, (uint64_t)(uintptr_t)p);
            site_sub(&pool, 40 + (size_t)(i % 3));
        }
        (void)fn_other(b, (uint64_t)i, 1000);
    }
    for (uint64_t i = 0; i < 300; i++) { /* a hundred of these ids are unknown */
        if (b)
            AHeapProfile_reportFree(b, i);
        if (i < 200)
            site_sub(&other, 1000);
    }
    expect(&pool, &other, NULL);
    return 0;
}
