/*
 * launch.c - which processes below a started command are meant
 *
 * `record -- ./run.sh` or `env A=1 nice prog`: the program one wants is below a chain of programs
 * that only start others. A process is meant when it is the root, or when every process between the
 * root and it (the root included) is such a starter; with follow-fork, whoever descends.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fcntl.h>

#include "base/fd.h"
#include "daemon/core.h"
#include "proc/number.h"

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

static int32_t parent_of(int32_t pid, char *exe, size_t max)
{
    hw_autofd int dir = hw_proc_open_dir(pid);
    struct hw_proc_stat st;
    if (dir < 0 || hw_proc_stat(dir, &st) < 0)
        return 0;
    hw_proc_exe_name(dir, exe, max);
    return st.ppid;
}

bool hw_launch_matches(const struct hw_session *s, int32_t pid)
{
    char exe[256];
    bool follow = s->start.flags & HW_START_FOLLOW_FORK;
    if (s->root_pid <= 0)
        return false;
    if (pid == s->root_pid)
        return true;
    if (follow && s->rec->embedded)
        return true; /* only what inherited our environment knows this socket */
    int32_t at = parent_of(pid, exe, sizeof exe);
    for (int depth = 0; at > 1 && depth < MAX_DEPTH; depth++) {
        int32_t this = at;
        at = parent_of(this, exe, sizeof exe);
        if (!follow && !hw_launch_is_launcher(exe))
            return false;
        if (this == s->root_pid)
            return true;
    }
    return false;
}
