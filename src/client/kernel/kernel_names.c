/*
 * kernel_names.c - system calls under libc's names
 *
 * Sources shared with the recorder (wire/ring_map.c) and both kinds of client thus need no names of
 * their own. The linker binds every call in the library to these.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/kernel.h"

/* ---- calls that 32-bit kernels have under a second number ---- */

#if defined(__i386__)
#define FSTAT         SYS_fstat64
#define FCNTL         SYS_fcntl64
#define GETEUID       SYS_geteuid32
#define MMAP          SYS_mmap2
#define MMAP_OFF(off) ((off) >> 12)
_Static_assert(sizeof(struct stat) == 96, "the kernel's struct stat64");
#else
#define FSTAT         SYS_fstat
#define FCNTL         SYS_fcntl
#define GETEUID       SYS_geteuid
#define MMAP          SYS_mmap
#define MMAP_OFF(off) (off)
#endif
_Static_assert(sizeof(off_t) == 8 && sizeof(struct rlimit) == 16, "what the kernel fills in");

void *hw_kernel_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    void *p = (void *)hw_kernel(MMAP, at, n, prot, flags, fd, MMAP_OFF(off));
    if (hw_unlikely(hw_memlock_undo) && p != MAP_FAILED && !hw_sandbox())
        (void)hw_kernel(SYS_munlock, p, n); /* it counts against the program's limit */
    return p;
}

int hw_kernel_munmap(void *at, size_t n)
{
    return (int)hw_kernel(SYS_munmap, at, n);
}

int mprotect(void *at, size_t n, int prot)
{
    return (int)hw_kernel(SYS_mprotect, at, n, prot);
}

int madvise(void *at, size_t n, int how)
{
    return (int)hw_kernel(SYS_madvise, at, n, how);
}

int socket(int domain, int type, int protocol)
{
    return (int)hw_kernel(SYS_socket, domain, type, protocol);
}

int getsockopt(int fd, int level, int name, void *restrict v, socklen_t *restrict n)
{
    return (int)hw_kernel(SYS_getsockopt, fd, level, name, v, n);
}

int fcntl(int fd, int op, ...)
{
    va_list l;
    va_start(l, op);
    long arg = va_arg(l, long);
    va_end(l);
    return (int)hw_kernel(FCNTL, fd, op, arg);
}

int fstat(int fd, struct stat *st)
{
    return (int)hw_kernel(FSTAT, fd, st);
}

int getrlimit(__rlimit_resource_t what, struct rlimit *l)
{
    return (int)hw_kernel(SYS_prlimit64, 0, what, NULL, l);
}

int sigaltstack(const stack_t *restrict now, stack_t *restrict old)
{
    return (int)hw_kernel(SYS_sigaltstack, now, old);
}

ssize_t getrandom(void *p, size_t n, unsigned flags)
{
    return hw_kernel(SYS_getrandom, p, n, flags);
}

pid_t getpid(void)
{
    return (pid_t)hw_kernel(SYS_getpid);
}

uid_t geteuid(void)
{
    return (uid_t)hw_kernel(GETEUID);
}

/* ---- the one thing that sysconf is asked for ---- */

#if defined(__aarch64__)
static long page_bytes = 4096;

void hw_kernel_init(void)
{
    page_bytes = (long)getauxval(AT_PAGESZ);
}
#else
enum { page_bytes = 4096 };

void hw_kernel_init(void)
{
}
#endif

long sysconf(int what)
{
    return what == _SC_PAGESIZE ? page_bytes : -1;
}
