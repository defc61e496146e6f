/*
 * starts_judge.c - what is known of a program while its execve waits
 *
 * The process is still the old program. /proc/TID/syscall has the call's arguments; the strings
 * they point to are in the old program's memory, which can keep a reader waiting (userfaultfd, a
 * mapped file of FUSE): whoever reads has a time limit, and is replaced by one that skips this
 * process.
 */
#include "daemon/starts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#include "base/banned.h"

#define SHEBANG    256
#define PAGE_BYTES 4096u
#define YIELDS     2
#define MOMENT_NS  100000

bool hw_starts_is_skipped(const struct hw_starts_shared *s, int32_t pid)
{
    uint32_t n = s->n_skip < HW_STARTS_SKIP ? s->n_skip : HW_STARTS_SKIP;
    for (uint32_t i = 0; i < n; i++)
        if (s->skip[i] == pid)
            return true;
    return false;
}

/* "/proc/TID/syscall": by hand, since this is done for every exec of the machine. */
static int open_call(int32_t tid)
{
    char path[] = "/proc/2147483647/syscall", *p = path + sizeof "/proc/2147483647" - 1;
    if (tid <= 0)
        return -1;
    for (; tid > 0; tid /= 10)
        *--p = (char)('0' + tid % 10);
    p -= sizeof "/proc/" - 1; /* in place of the digits that are not needed */
    memcpy(p, "/proc/", sizeof "/proc/" - 1);
    return open(p, O_RDONLY | O_CLOEXEC);
}

static uint64_t next_hex(const char **p)
{
    uint64_t v = 0;
    for (*p += strspn(*p, " "); **p && **p != ' ' && **p != '\n'; ++*p) {
        char c = **p;
        if (c != 'x') /* of 0x */
            v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return v;
}

struct call {
    uint64_t path, argv;
};

/*
 * "59 0x7ffc... 0x55d4... 0x55d4... ...": the number and its arguments. "running": it has put its
 * question, but does not wait for the answer yet, because we have taken its processor: up to
 * half of the execs on a busy machine. 1, 0 = no execve, HW_EBUSY = still running.
 */
static int find_call(int32_t tid, uint64_t until_ns, struct call *out)
{
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    char text[256], *end;
    hw_autofd int fd = open_call(tid);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    for (int i = 0; n > 0 && text[0] == 'r' && hw_now_monotonic_ns() < until_ns; i++) {
        if (i < YIELDS)
            (void)sched_yield(); /* never fails */
        else
            (void)nanosleep(&moment, NULL); /* shorter is fine */
        n = pread(fd, text, sizeof text - 1, 0);
    }
    if (n > 0 && text[0] == 'r')
        return HW_EBUSY;
    if (n <= 0 || text[0] < '0' || text[0] > '9')
        return 0;
    text[n] = '\0';
    long number = strtol(text, &end, 10);
    const char *p = end;
    if (number == SYS_execveat)
        (void)next_hex(&p); /* the directory */
    else if (number != SYS_execve)
        return 0;
    out->path = next_hex(&p);
    out->argv = next_hex(&p);
    return out->argv != 0;
}

static bool read_there(int32_t tid, uint64_t at, void *out, size_t n)
{
    struct iovec to = {out, n}, from = {(void *)(uintptr_t)at, n};
    return process_vm_readv(tid, &to, 1, &from, 1, 0) == (ssize_t)n;
}

/* Up to its NUL, a page at a time: the next one may not be there. */
static bool read_text(int32_t tid, uint64_t at, char *out, size_t max)
{
    size_t have = 0;
    while (have + 1 < max) {
        size_t step = PAGE_BYTES - (size_t)((at + have) % PAGE_BYTES);
        step = step < max - 1 - have ? step : max - 1 - have;
        if (!read_there(tid, at + have, out + have, step))
            return false;
        size_t len = strnlen(out + have, step);
        have += len;
        if (len < step)
            break;
    }
    out[have] = '\0';
    return true;
}

/*
 * Most programs are started with their path as argv[0], often the very same string: so that is read
 * together with argv[0]'s address, one call instead of two.
 */
static bool read_argv0(int32_t tid, const struct call *c, char *out, size_t max)
{
    uint64_t at = 0;
    size_t step = PAGE_BYTES - (size_t)(c->path % PAGE_BYTES);
    step = step < max - 1 ? step : max - 1;
    struct iovec to[] = {{&at, sizeof at}, {out, step}};
    struct iovec from[] = {{(void *)(uintptr_t)c->argv, sizeof at},
                           {(void *)(uintptr_t)c->path, step}};
    ssize_t n = process_vm_readv(tid, to, 2, from, 2, 0);
    if (n < (ssize_t)sizeof at || !at)
        return false;
    if (at == c->path && memchr(out, 0, (size_t)n - sizeof at))
        return true;
    return read_text(tid, at, out, max);
}

int hw_starts_read_argv0(const struct hw_starts_shared *shared, _Atomic int32_t *reading,
                         int32_t tid, uint64_t until_ns, char *out, size_t max)
{
    struct call c;
    int rc = hw_starts_is_skipped(shared, tid) ? 0 : find_call(tid, until_ns, &c);
    if (rc != 1)
        return rc;
    atomic_store_explicit(reading, tid, memory_order_relaxed); /* for the guard, after our end */
    rc = read_argv0(tid, &c, out, max);
    atomic_store_explicit(reading, 0, memory_order_relaxed);
    return rc;
}

int hw_starts_read_interpreter(int fd, char *out, size_t max)
{
    char line[SHEBANG];
    struct iovec to = {line, sizeof line - 1};
    ssize_t n = preadv2(fd, &to, 1, 0, RWF_NOWAIT);
    if (n < 0)
        return errno == EAGAIN ? HW_EBUSY : 0;
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return 0;
    line[n] = '\0';
    char *p = line + 2 + strspn(line + 2, " \t");
    p[strcspn(p, " \t\r\n")] = '\0';
    (void)snprintf(out, max, "%s", p); /* lines are shorter than max */
    return 1;
}

bool hw_starts_is_loader(int fd)
{
    char link[40], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    const char *base = strrchr(path, '/');
    return base && (strncmp(base, "/ld-linux", 9) == 0 || strncmp(base, "/ld-2.", 6) == 0 ||
                    strncmp(base, "/ld-musl", 8) == 0);
}
