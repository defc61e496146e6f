/*
 * memlock.c [LIMIT_KIB [UID]] - locks its memory as its standard input says, a letter a step
 *
 * '.' allocates 400 blocks and keeps every fourth, 'j' none; 'c' mlockall of what is mapped, 'f' of
 * what will be, 'b' of both, 'o' and 'O' as 'c' and 'b' but only of what is touched; 'C' as 'c', by
 * the call's number; 'm' maps 1 MiB and locks that alone, 'u' unlocks all, 'q' ends. Each step
 * tells whether it could be done. LIMIT_KIB is a limit that it sets itself (RLIMIT_MEMLOCK), UID
 * who it becomes: root has no limit.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target.h"

SITE(fn_block)

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

static int lock_some(void)
{
    size_t n = 1 << 20;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? -1 : mlock(p, n);
}

static int step(char c)
{
    switch (c) {
    case 'c':
        return mlockall(MCL_CURRENT);
    case 'f':
        return mlockall(MCL_FUTURE);
    case 'b':
        return mlockall(MCL_CURRENT | MCL_FUTURE);
    case 'o':
        return mlockall(MCL_CURRENT | MCL_ONFAULT);
    case 'O':
        return mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
    case 'C':
        return (int)syscall(SYS_mlockall, MCL_CURRENT);
    case 'm':
        return lock_some();
    case 'u':
        return munlockall();
    default:
        for (int i = 0; i < 400; i++) {
            void *p = fn_block(200);
            if (i % 4 || c == 'j')
                FREE_OF(fn_block, p, 200);
        }
        return 0;
    }
}

int main(int argc, char **argv)
{
    char c;
    rlim_t limit = argc > 1 ? (rlim_t)atoll(argv[1]) * 1024 : 0;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (limit && setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){limit, limit}) < 0)
        return 77;
    if (argc > 2 && setresuid((uid_t)atoi(argv[2]), (uid_t)atoi(argv[2]), (uid_t)atoi(argv[2])) < 0)
        return 77;
    free(malloc(1000));
    printf("ready 1\n");
    while (read(0, &c, 1) == 1 && c != 'q') {
        errno = 0;
        int rc = step(c);
        printf("ok %d %d\n", rc, errno);
    }
    expect(&site_fn_block, NULL);
    return 0;
}
