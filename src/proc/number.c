#include "proc/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

#define SMALL_FILE  (64u * 1024)
#define PROC_IS_OUR (-1)

/* The n-th number of the line NSpid, from 0; 0 = there are fewer. Their count in *count. */
static int32_t nspid(const char *status, int n, int *count)
{
    const char *p = strstr(status, "\nNSpid:");
    int32_t found = 0;
    *count = 0;
    for (p = p ? p + 7 : NULL; p && *p && *p != '\n'; (*count)++) {
        char *end;
        while (*p == '\t' || *p == ' ')
            p++;
        long v = strtol(p, &end, 10);
        if (end == p)
            break;
        if (*count == n)
            found = (int32_t)v;
        p = end;
    }
    return found;
}

/* How far below that of /proc our namespace is. */
static int level(void)
{
    static _Atomic int known;
    int l = atomic_load(&known);
    if (l)
        return l;
    char self[32] = {0};
    hw_autofree char *status = NULL;
    size_t n;
    ssize_t len = readlink("/proc/self", self, sizeof self - 1);
    l = PROC_IS_OUR;
    if (len > 0 && strtol(self, NULL, 10) != (long)getpid() &&
        hw_file_read(AT_FDCWD, "/proc/self/status", SMALL_FILE, &status, &n, NULL) == 0) {
        int count;
        (void)nspid(status, 0, &count);
        l = count > 1 ? count - 1 : PROC_IS_OUR;
    }
    atomic_store(&known, l);
    return l;
}

int32_t hw_proc_number_of(int pidfd, int32_t known)
{
    char path[64];
    hw_autofree char *text = NULL;
    size_t n;
    if (level() == PROC_IS_OUR)
        return known;
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (hw_file_read(AT_FDCWD, path, SMALL_FILE, &text, &n, NULL) < 0)
        return 0;
    const char *line = strstr(text, "\nPid:");
    long v = line ? strtol(line + 5, NULL, 10) : 0;
    return v > 0 ? (int32_t)v : 0;
}

int32_t hw_proc_tid_of(int32_t number)
{
    char path[64];
    hw_autofree char *text = NULL;
    size_t n;
    int count, l = level();
    if (l == PROC_IS_OUR || number <= 0)
        return number;
    (void)snprintf(path, sizeof path, "/proc/%d/status", number);
    if (hw_file_read(AT_FDCWD, path, SMALL_FILE, &text, &n, NULL) < 0)
        return 0;
    return nspid(text, l, &count);
}

/* The answer is asked back: a process of another branch has such a number, too. */
int32_t hw_proc_pid_of(int32_t number)
{
    if (level() == PROC_IS_OUR || number <= 0)
        return number;
    int32_t pid = hw_proc_tid_of(number);
    hw_autofd int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    return pidfd >= 0 && hw_proc_number_of(pidfd, pid) == number ? pid : 0;
}

int hw_proc_open_dir(int32_t pid)
{
    char path[32];
    int32_t number = pid;
    if (level() != PROC_IS_OUR) {
        hw_autofd int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        number = pidfd < 0 ? 0 : hw_proc_number_of(pidfd, pid);
    }
    if (number <= 0) {
        errno = ENOENT;
        return -1;
    }
    (void)snprintf(path, sizeof path, "/proc/%d", number);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}
