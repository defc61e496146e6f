/*
 * end_token.c - the one descriptor that stays open
 *
 * We compare its inode before we close it, since the program may have closed the number and reused
 * it for a file of its own.
 */
#include "client/session/end_token.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "client/kernel/sys.h"

static struct {
    int fd;
    dev_t dev;
    ino_t ino;
} token = {.fd = -1};

bool hw_token_is_ours(void)
{
    struct stat st;
    return token.fd >= 0 && fstat(token.fd, &st) == 0 && st.st_dev == token.dev &&
           st.st_ino == token.ino;
}

void hw_token_drop(void)
{
    if (hw_token_is_ours())
        (void)hw_sys_close(token.fd);
    token.fd = -1;
}

long hw_descriptor_limit(void)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < 1024 ? (long)lim.rlim_cur : 1024;
}

/* Programs use, count and close low numbers; we leave those to them. */
void hw_token_keep(int fd)
{
    struct stat st;
    long limit = hw_descriptor_limit();
    long from = limit >= 1024 ? 1000 : limit > HW_FEW_DESCRIPTORS ? limit - 24 : 3;
    int high = hw_sys_fcntl(fd, F_DUPFD_CLOEXEC, from);
    if (high >= 0) {
        (void)hw_sys_close(fd);
        fd = high;
    }
    hw_token_drop();
    if (fstat(fd, &st) != 0) {
        (void)hw_sys_close(fd);
        return;
    }
    token.fd = fd;
    token.dev = st.st_dev;
    token.ino = st.st_ino;
}

int hw_token_take(void)
{
    int fd = hw_token_is_ours() ? token.fd : -1;
    if (fd >= 0)
        token.fd = -1;
    return fd;
}
