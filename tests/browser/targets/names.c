/* A program each of whose names is an attacker's: names.mjs puts a mark that turns the reading
 * direction round where QQQ stands. */
#include <heapwise/heap_profile.h>
#include <heapwise/marks.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#pragma weak AHeapInfo_create
#pragma weak AHeapProfile_registerHeap
#pragma weak AHeapProfile_reportAllocation

#define KEEP __attribute__((noinline, noclone))

static void *volatile kept[65536];
static size_t n_kept;

KEEP void fn_QQQ_leaf(size_t n)
{
    HEAPWISE_TYPE_SCOPE("type_QQQ<img src=x onerror=alert(1)>");
    kept[n_kept++ % 65536] = memset(malloc(n), 1, n);
}

KEEP void fn_QQQ_caller(size_t n)
{
    HEAPWISE_TRACE_EVENT("cat_QQQ<b>", "scope_QQQ<script>alert(1)</script>");
    fn_QQQ_leaf(n);
    __asm__ volatile("");
}

static void *work(void *heap)
{
    prctl(PR_SET_NAME, "thr_QQQ<b>");
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 20; k++)
            fn_QQQ_caller((size_t)(3000 + 1000 * k));
        if (heap)
            AHeapProfile_reportAllocation(*(uint32_t *)heap, (uint64_t)i + 1, 50000);
        usleep(150000);
    }
    return NULL;
}

int main(void)
{
    uint32_t heap =
        AHeapInfo_create ? AHeapProfile_registerHeap(AHeapInfo_create("heap_QQQ<b>")) : 0;
    pthread_t t;
    if (pthread_create(&t, NULL, work, heap ? &heap : NULL) != 0)
        return 1;
    work(NULL);
    return pthread_join(t, NULL);
}
