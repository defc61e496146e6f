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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#include "base/banned.h"

#define SHEBANG    256
#define PAGE_BYTES 4096u

bool hw_starts_is_skipped(const struct hw_starts_shared *s, int32_t pid)
{
    uint32_t n = s->n_skip < HW_STARTS_SKIP ? s->n_skip : HW_STARTS_SKIP;
    for (uint32_t i = 0; i < n; i++)
        if (s->skip[i] == pid)
            return true;
    return false;
}

/* "59 0x7ffc... 0x55d4... 0x55d4... ...": the number and its arguments; "running" for others. */
static bool find_argv(int32_t tid, uint64_t *argv)
{
    char path[40], text[256], *p = text;
    uint64_t words[4];
    (void)snprintf(path, sizeof path, "/proc/%d/syscall", tid);
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0 || text[0] < '0' || text[0] > '9')
        return false;
    text[n] = '\0';
    for (size_t i = 0; i < 4; i++)
        words[i] = strtoull(p, &p, 0); /* 0 when it ends */
    *argv = words[0] == SYS_execve ? words[2] : words[0] == SYS_execveat ? words[3] : 0;
    return *argv != 0;
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

bool hw_starts_read_argv0(const struct hw_starts_shared *shared, _Atomic int32_t *reading,
                          int32_t tid, char *out, size_t max)
{
    uint64_t argv, at = 0;
    if (hw_starts_is_skipped(shared, tid) || !find_argv(tid, &argv))
        return false;
    atomic_store_explicit(reading, tid, memory_order_relaxed); /* for the guard, after our end */
    bool good = read_there(tid, argv, &at, sizeof at) && at && read_text(tid, at, out, max);
    atomic_store_explicit(reading, 0, memory_order_relaxed);
    return good;
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
