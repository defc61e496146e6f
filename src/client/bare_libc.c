/*
 * bare_libc.c - what the client takes from libc, made of system calls
 *
 * Under libc's names, so that the same sources serve both builds; none of them is visible outside.
 * errno is a word of the thread's own in our table: the program's is never touched. Threads that
 * found no place there share one, but those make no calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "wire/attach.h"

extern struct hw_bare_block heapwise_bare_block;

char __libc_single_threaded = 0; /* we cannot know */
void *__libc_stack_end;

int *__errno_location(void)
{
    return (int *)(void *)&hw_here.pad;
}

static long raw(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}

static long checked(long rc)
{
    if (rc >= -4095 && rc < 0) {
        errno = (int)-rc;
        return -1;
    }
    return rc;
}

long syscall(long n, ...)
{
    va_list l;
    long a[6];
    va_start(l, n);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(l, long);
    va_end(l);
    return checked(raw(n, a[0], a[1], a[2], a[3], a[4], a[5]));
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int (*kernels)(clockid_t, struct timespec *);
    *(void **)&kernels = (void *)(uintptr_t)heapwise_bare_block.clock;
    return kernels ? kernels(id, t) : (int)syscall(SYS_clock_gettime, id, t);
}

/* ---- memory ---- */

void *memmove(void *to, const void *from, size_t n)
{
    char *t = to;
    const char *f = from;
    if ((uintptr_t)t <= (uintptr_t)f)
        return memcpy(to, from, n);
    while (n--)
        t[n] = f[n];
    return to;
}

void *memcpy(void *to, const void *from, size_t n)
{
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}

void *memset(void *to, int c, size_t n)
{
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(c) : "memory");
    return to;
}

int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
    while (n && *a && *a == *b)
        a++, b++, n--;
    return n ? (unsigned char)*a - (unsigned char)*b : 0;
}

size_t strnlen(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i])
        i++;
    return i;
}

size_t strlen(const char *s)
{
    return strnlen(s, SIZE_MAX);
}

/* ---- system calls under their names ---- */

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
}

int munmap(void *at, size_t n)
{
    return (int)syscall(SYS_munmap, at, n);
}

int madvise(void *at, size_t n, int how)
{
    return (int)syscall(SYS_madvise, at, n, how);
}

int socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}

int getsockopt(int fd, int level, int name, void *restrict v, socklen_t *restrict n)
{
    return (int)syscall(SYS_getsockopt, fd, level, name, v, n);
}

int fcntl(int fd, int op, ...)
{
    va_list l;
    va_start(l, op);
    long arg = va_arg(l, long);
    va_end(l);
    return (int)syscall(SYS_fcntl, fd, op, arg);
}

int fstat(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}

int getrlimit(__rlimit_resource_t what, struct rlimit *l)
{
    return (int)syscall(SYS_prlimit64, 0, what, NULL, l);
}

int sigaltstack(const stack_t *restrict now, stack_t *restrict old)
{
    return (int)syscall(SYS_sigaltstack, now, old);
}

ssize_t getrandom(void *p, size_t n, unsigned flags)
{
    return syscall(SYS_getrandom, p, n, flags);
}

pid_t getpid(void)
{
    return (pid_t)syscall(SYS_getpid);
}

uid_t geteuid(void)
{
    return (uid_t)syscall(SYS_geteuid);
}

long sysconf(int what)
{
    return what == _SC_PAGESIZE ? 4096 : -1;
}

/* ---- the mapping around an address ---- */

static bool number(const char **p, const char *end, uint64_t *out)
{
    const char *s = *p;
    for (*out = 0; s < end; s++) {
        int c = *s, v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (v < 0)
            break;
        *out = *out << 4 | (uint64_t)v;
    }
    bool some = s != *p && s < end;
    *p = s;
    return some;
}

bool hw_bare_mapping(uint64_t at, uint64_t *lo, uint64_t *hi)
{
    char text[1024];
    size_t n = 0;
    bool found = false;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found) {
        long got = syscall(SYS_read, fd, text + n, sizeof text - n);
        if (got <= 0)
            break;
        n += (size_t)got;
        size_t line = 0;
        for (size_t i = 0; i < n && !found; i++) {
            if (text[i] != '\n')
                continue;
            const char *p = text + line, *end = text + i;
            found =
                number(&p, end, lo) && *p++ == '-' && number(&p, end, hi) && at >= *lo && at < *hi;
            line = i + 1;
        }
        if (line == 0) /* a name longer than that is not a stack's */
            line = n;
        for (size_t i = line; i < n; i++)
            text[i - line] = text[i];
        n -= line;
    }
    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    return found;
}
