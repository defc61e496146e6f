/*
 * launched_by.c - which processes below a started command are meant
 *
 * `record -- ./run.sh` or `env A=1 nice prog`: the program that the user wants is below a chain of
 * programs that only start others. A process is meant when it is the root, or when every process
 * between the root and it (the root included) is such a starter; with follow-fork, any descendant.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"

#include "base/banned.h"

#define MAX_DEPTH 64

/* gcc, x86_64-linux-gnu-g++-12: the work is done by cc1, as and ld below. clang compiles itself. */
static bool is_compiler_driver(const char *exe)
{
    static const char *const drivers[] = {"gcc", "g++", "cc", "c++", "gfortran", "gdc", "collect2"};
    size_t n = strlen(exe);
    while (n && (exe[n - 1] == '.' || (exe[n - 1] >= '0' && exe[n - 1] <= '9')))
        n--;
    n = n && exe[n - 1] == '-' ? n - 1 : strlen(exe);
    const char *dash = memrchr(exe, '-', n);
    const char *word = dash ? dash + 1 : exe;
    size_t length = (size_t)(exe + n - word);
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (strlen(drivers[i]) == length && strncmp(word, drivers[i], length) == 0)
            return true;
    return false;
}

bool hw_launch_is_launcher(const char *exe)
{
    static const char *const names[] = {
        "sh",      "bash",    "dash",      "zsh",      "ksh",     "mksh",    "fish",    "busybox",
        "env",     "nice",    "ionice",    "nohup",    "timeout", "setsid",  "stdbuf",  "chrt",
        "taskset", "time",    "xargs",     "sudo",     "su",      "setpriv", "unshare", "nsenter",
        "chroot",  "prlimit", "numactl",   "script",   "runuser", "strace",  "ltrace",  "make",
        "ninja",   "ccache",  "catchsegv", "unbuffer", "faketime"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(exe, names[i]) == 0)
            return true;
    return is_compiler_driver(exe);
}

/* The parent, pinned; false = none. The process with that number when it is opened is the parent
 * if the child still says so. */
static bool parent_of(const struct hw_pid *p, struct hw_pid *out)
{
    struct hw_proc_stat before, after;
    if (hw_proc_stat(p->dir, &before) < 0 || before.ppid <= 1 ||
        hw_pid_open(before.ppid, out, NULL) < 0)
        return false;
    if (hw_proc_stat(p->dir, &after) == 0 && after.ppid == before.ppid &&
        out->start_ticks <= hw_pid_start(p))
        return true;
    hw_pid_done(out);
    return false;
}

static bool is_root(const struct hw_pid *p, const struct hw_relative *root)
{
    return root->pid > 0 && p->pid == root->pid && hw_pid_start(p) == root->start_ticks;
}

static bool is_starter(const struct hw_pid *p)
{
    char exe[256];
    hw_proc_exe_name(p->dir, exe, sizeof exe);
    return hw_launch_is_launcher(exe);
}

/* by_starters: all processes between the two, the root included, are programs that only start
 * others. */
static bool is_below(const struct hw_pid *p, const struct hw_relative *root, bool by_starters)
{
    struct hw_pid at = HW_PID_NONE, up;
    const struct hw_pid *from = p;
    bool found = is_root(p, root);
    for (int depth = 0; !found && root->pid > 0 && depth < MAX_DEPTH; depth++) {
        if (!parent_of(from, &up))
            break;
        hw_pid_done(&at);
        at = up;
        from = &at;
        if (by_starters && !is_starter(&at))
            break;
        found = is_root(&at, root);
    }
    hw_pid_done(&at);
    return found;
}

bool hw_launch_is_below(const struct hw_pid *p, const struct hw_relative *root)
{
    return is_below(p, root, /* by_starters = */ false);
}

bool hw_launch_matches(const struct hw_session *s, const struct hw_pid *p)
{
    bool follow = s->start.flags & HW_START_FOLLOW_FORK;
    if (s->asking.root.pid <= 0)
        return false;
    if (is_root(p, &s->asking.root))
        return true;
    if (follow && s->rec->embedded)
        return true; /* only what inherited our environment knows this socket */
    return is_below(p, &s->asking.root, /* by_starters = */ !follow);
}

int hw_launch_check(const struct hw_pid *command, const struct hw_pid *root, struct hw_error *err)
{
    struct stat its, ours;
    struct hw_proc_stat st;
    bool held = hw_proc_stat(root->dir, &st) == 0 && st.ppid == command->pid &&
                root->start_ticks >= command->start_ticks && hw_pid_alive(command) &&
                fstatat(root->dir, "exe", &its, 0) == 0 &&
                fstatat(command->dir, "exe", &ours, 0) == 0 && its.st_dev == ours.st_dev &&
                its.st_ino == ours.st_ino;
    return held ? HW_OK
                : hw_fail(err, HW_EPERM, 0, "process %d is none that this command has just started",
                          root->pid);
}
