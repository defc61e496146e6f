/* idle.c SECONDS - holds two large blocks, each a mapping of its own, and goes on using one */
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

enum { SIZE = 16 << 20, PAGE = 4096 };
SITE(fn_idle)
SITE(fn_busy)

/* The kernel joins mappings side by side unless they were advised differently. Without huge pages:
 * a huge one's translation would stay in the processor, and the kernel would see no use. */
static void set_apart(void *p, int advice)
{
    uintptr_t lo = (uintptr_t)p & ~(uintptr_t)(PAGE - 1);
    uintptr_t hi = ((uintptr_t)p + SIZE + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    (void)madvise((void *)lo, hi - lo, MADV_NOHUGEPAGE);
    (void)madvise((void *)lo, hi - lo, advice);
}

int main(int argc, char **argv)
{
    char *idle = fn_idle(SIZE);
    volatile char *busy = fn_busy(SIZE);
    set_apart(idle, MADV_DONTDUMP);
    set_apart((char *)(uintptr_t)busy, MADV_DONTFORK);
    memset(idle, 1, SIZE);
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
    while (time(NULL) < end) {
        for (size_t i = 0; i < SIZE; i += PAGE)
            busy[i]++;
        usleep(10000);
    }
    expect(&site_fn_idle, &site_fn_busy, NULL);
    return 0;
}
