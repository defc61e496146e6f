/*
 * The identity of a file's process: read when its recording starts, as a short one is gone later.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/program_name.h"
#include "proc/pid.h"
#include "record/web/continuous_file.h"
#include "record/web/control_group.h"

#include "base/banned.h"

enum { MAX_CGROUP = 64 << 10, MAX_EXE = 256 };

/* The unit and the container, as the control group's path names them. */
static void read_cgroup(struct hw_continuous_process *p, int dir)
{
    hw_autofree char *text = NULL;
    size_t n;
    if (hw_file_read(dir, "cgroup", MAX_CGROUP, &text, &n, NULL) < 0)
        return; /* it has ended */
    p->unit = hw_control_group_unit(text, /* one_user = */ geteuid() != 0);
    p->container = hw_control_group_container(text); /* out of memory: the file says less */
}

static char *read_program(int dir, struct hw_bytes title)
{
    hw_autofree char *cmdline = NULL;
    char exe[MAX_EXE] = "";
    size_t n;
    if (dir >= 0 && hw_proc_cmdline(dir, &cmdline, &n) == HW_OK && n > 0)
        title = hw_bytes_of(cmdline, strnlen(cmdline, n));
    if (dir >= 0)
        hw_proc_exe_name(dir, exe, sizeof exe);
    struct hw_bytes name = hw_program_name(title, hw_bytes_str(exe));
    return strndup((const char *)name.p, name.n);
}

int hw_continuous_process_init(struct hw_continuous_process *p, int32_t pid, struct hw_bytes title)
{
    struct hw_pid open;
    struct hw_proc_stat stat = {0};
    bool is_there = hw_pid_open(pid, &open, NULL) == HW_OK;
    uint64_t now = hw_now_boottime_ns();
    *p = (struct hw_continuous_process){.pid = pid, .began_ns = now, .since_ns = now};
    if (is_there && hw_proc_stat(open.dir, &stat) == HW_OK)
        p->start_ticks = stat.start_ticks;
    p->name = read_program(is_there ? open.dir : -1, title);
    if (is_there) {
        read_cgroup(p, open.dir);
        hw_pid_done(&open);
    }
    return p->name ? HW_OK : HW_ENOMEM;
}

void hw_continuous_process_done(struct hw_continuous_process *p)
{
    free(p->name);
    free(p->unit);
    free(p->container);
    p->name = p->unit = p->container = NULL;
}
