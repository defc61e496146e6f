/* Several processes with two heaps each, for the pages: a parent, a child that grows and one that
 * does the same work once. Names of the heap and of the processes attack who shows them. */
#include <heapwise/heap_profile.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma weak AHeapInfo_create
#pragma weak AHeapProfile_registerHeap
#pragma weak AHeapProfile_reportAllocation

#define KEEP __attribute__((noinline, noclone))

static void *volatile kept[4096];
static size_t n_kept;

KEEP void keep_block(size_t n)
{
    kept[n_kept++ % 4096] = memset(malloc(n), 1, n);
}

KEEP void report(uint32_t heap, uint64_t id)
{
    if (heap)
        AHeapProfile_reportAllocation(heap, id, 50000);
    __asm__ volatile("");
}

static int work(int rounds)
{
    uint32_t heap = AHeapInfo_create
                        ? AHeapProfile_registerHeap(AHeapInfo_create("<b>heap</b>\xe2\x80\xae\x01"))
                        : 0;
    for (int i = 0; i < 8; i++) {
        for (int k = 0; i < rounds && k < 5; k++)
            keep_block(40000);
        report(heap, (uint64_t)i + 1);
        usleep(100000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"<img src=x onerror=alert(1)>", "once\xe2\x80\xaetxt"};
    if (argc > 1)
        return work(atoi(argv[1]));
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            execl("/proc/self/exe", names[i], i ? "1" : "8", (char *)NULL);
            _exit(1);
        }
    work(3);
    while (wait(NULL) > 0)
        continue;
    return 0;
}
