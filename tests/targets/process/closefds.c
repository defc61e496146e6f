/* closefds.c - a daemon's habit: closes every descriptor from 3 up, opens its own, trusts them */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target.h"

SITE(fn_before)
SITE(fn_after)

int main(void)
{
    char path[] = "/tmp/closefds.XXXXXX";
    struct rlimit rl;
    for (int i = 0; i < 1000; i++)
        (void)!fn_before(100);
    getrlimit(RLIMIT_NOFILE, &rl);
    int top = rl.rlim_cur > 70000 ? 70000 : (int)rl.rlim_cur;
    for (int fd = 3; fd < top; fd++)
        close(fd);
#ifdef SYS_close_range
    syscall(SYS_close_range, 3u, ~0u, 0);
#endif
    int first = mkstemp(path);
    if (first < 0)
        return 1;
    printf("first descriptor %d\n", first);
    for (int fd = first + 1; fd < first + 50; fd++)
        if (dup2(first, fd) < 0)
            return 1;
    /* And at the top, where a careful guest would hide. */
    for (int fd = top - 8; fd < top; fd++)
        if (dup2(first, fd) < 0)
            return 1;
    for (int i = 0; i < 20000; i++) {
        void *p = fn_after(64);
        if (i % 2)
            FREE_OF(fn_after, p, 64);
        if (i % 1000 == 0 && write(first + i / 1000, "line\n", 5) != 5)
            return 1;
    }
    usleep(300000); /* long enough for anything periodic to write into what it thinks is its own */
    char buf[512] = "";
    ssize_t n = pread(first, buf, sizeof buf - 1, 0);
    long lines = 0;
    for (ssize_t i = 0; i + 5 <= n; i += 5)
        lines += memcmp(buf + i, "line\n", 5) == 0;
    printf("%zd bytes, %ld lines\n", n, lines);
    unlink(path);
    expect(&site_fn_before, &site_fn_after, NULL);
    return 0;
}
