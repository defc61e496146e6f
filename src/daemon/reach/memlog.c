/*
 * Modes of memory internals: a session that means all processes may mean only those of a mode. A
 * process's role is read when it is needed, as it may change with an exec.
 */
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "daemon/core.h"
#include "proc/file.h"

#include "base/banned.h"

#define MAX_CGROUP 65536u

static struct hw_bytes text_of(const char *p, size_t n)
{
    return hw_bytes_of(p, p ? n : 0);
}

/* What cannot be read says nothing: the process has the role of one that says nothing. */
static void read_role(const struct hw_session *s, const struct hw_pid *pid, uint32_t uid,
                      char role[64])
{
    struct hw_reading_who who = hw_reading_at(pid, uid);
    hw_autofree char *environment = NULL, *cmdline = NULL;
    size_t n_environment = 0, n_cmdline = 0;
    if (hw_reading_environ(s->rec->blocking_reader, who, &environment, &n_environment) < 0)
        n_environment = 0;
    if (hw_reading_cmdline(s->rec->blocking_reader, who, &cmdline, &n_cmdline) < 0)
        n_cmdline = 0;
    hw_memlog_role(text_of(environment, n_environment), text_of(cmdline, n_cmdline),
                   getsid(pid->pid) == pid->pid, role);
}

static bool role_is_tracked(const struct hw_session *s, int32_t but, const char *role)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        char other[64];
        if (t->session != s || t->pid.pid == but || t->phase == HW_PHASE_DONE)
            continue;
        read_role(s, &t->pid, t->uid, other);
        if (strcmp(other, role) == 0)
            return true;
    }
    return false;
}

static void read_group(const struct hw_pid *pid, char *out, size_t max)
{
    hw_autofree char *groups = NULL;
    size_t n = 0;
    if (hw_file_read(pid->dir, "cgroup", MAX_CGROUP, &groups, &n, NULL) < 0)
        groups = NULL;
    hw_memlog_cgroup(groups ? groups : "", out, max);
}

/* Only what the rules need is read: the roles of all targets are two files of each, and a
 * machine may start a hundred programs a second. */
bool hw_memlog_wants(const struct hw_session *s, const struct hw_heapprofd_config *c,
                     const struct hw_pid *pid, const struct hw_proc_status *st)
{
    char role[64] = "", argv0[512] = "", cgroup[512] = "/";
    const struct hw_memlog *m = &c->memlog;
    if (m->rules.n == 0)
        return true;
    if (hw_memlog_needs(m, HW_MEMLOG_ROLE))
        read_role(s, pid, st->uid, role);
    if (hw_memlog_needs(m, HW_MEMLOG_NAME))
        hw_reading_argv0(s->rec->blocking_reader, hw_reading_at(pid, st->uid), argv0, sizeof argv0);
    if (hw_memlog_needs(m, HW_MEMLOG_CGROUP))
        read_group(pid, cgroup, sizeof cgroup);
    struct hw_memlog_process p = {
        .role = role,
        .argv0 = argv0,
        .cgroup = cgroup,
        .chance = hw_hash_mix(hw_hash_mix(s->generation, (uint64_t)pid->pid), pid->start_ticks),
        .others = hw_memlog_needs_others(m, role) && role_is_tracked(s, pid->pid, role),
    };
    return hw_memlog_means(m, &p);
}
