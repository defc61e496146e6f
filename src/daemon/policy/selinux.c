#include "daemon/policy/selinux.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

#define RESTORE_TRIES 200
#define RESTORE_NS    5000000

static int open_enforce(const char *root, int flags)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/enforce", root);
    return open(path, flags | O_CLOEXEC);
}

enum hw_selinux hw_selinux_state(const char *root)
{
    char first = '\0';
    hw_autofd int fd = open_enforce(root, O_RDONLY);
    if (fd < 0 || read(fd, &first, 1) != 1)
        return HW_SELINUX_NONE;
    return first == '1' ? HW_SELINUX_ENFORCING : HW_SELINUX_PERMISSIVE;
}

/* In a child of the child, which belongs to no one: system calls only. */
static void wait_and_restore(int alive, int enforce)
{
    char c;
    ssize_t n;
    (void)setsid();
    for (int s = 1; s < 32; s++)
        (void)signal(s, SIG_IGN); /* what ends the command must not end this one */
    do
        n = read(alive, &c, 1);
    while (n > 0 || (n < 0 && errno == EINTR));
    (void)!pwrite(enforce, "1", 1, 0); /* nobody is left to be told */
    _exit(0);
}

int hw_selinux_disable(const char *root, int *guard, struct hw_error *err)
{
    int pipe_fds[2];
    *guard = -1;
    enum hw_selinux was = hw_selinux_state(root);
    if (was == HW_SELINUX_NONE)
        return hw_fail(err, HW_ENOTFOUND, 0, "this machine has no SELinux that could be disabled");
    if (was == HW_SELINUX_PERMISSIVE)
        return HW_OK;
    hw_autofd int enforce = open_enforce(root, O_RDWR);
    if (enforce < 0)
        return hw_fail(err, HW_EPERM, 0,
                       "SELinux stays enforcing: only root may disable it (setenforce 0)");
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return hw_fail_sys(err, "pipe");
    hw_autofd int alive = pipe_fds[0], ours = pipe_fds[1];
    pid_t child = fork();
    if (child < 0)
        return hw_fail_sys(err, "fork");
    if (child == 0) {
        (void)close(ours);
        if (fork() == 0)
            wait_and_restore(alive, enforce);
        _exit(0);
    }
    (void)!syscall(SYS_wait4, child, NULL, 0, NULL); /* at once */
    if (pwrite(enforce, "0", 1, 0) != 1)
        return hw_fail(err, HW_EPERM, 0,
                       "SELinux stays enforcing: its own rules forbid disabling it");
    *guard = hw_fd_take(&ours);
    return HW_OK;
}

void hw_selinux_restore(const char *root, int guard)
{
    if (guard < 0)
        return;
    (void)close(guard); /* a pipe without data */
    for (int i = 0; i < RESTORE_TRIES && hw_selinux_state(root) == HW_SELINUX_PERMISSIVE; i++) {
        struct timespec pause = {0, RESTORE_NS};
        (void)nanosleep(&pause, NULL); /* a signal only shortens it */
    }
}
