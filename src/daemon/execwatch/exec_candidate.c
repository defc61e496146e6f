/* exec_candidate.c - what is known about a program that runs, or is about to. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "daemon/execwatch/exec_rules.h"
#include "proc/file.h"
#include "proc/number.h"

#include "base/banned.h"

enum { MAX_CGROUP = 65536, MAX_ENVIRON = 2 << 20 };

void hw_exec_candidate_done(struct hw_exec_candidate *p)
{
    free(p->cmdline);
    free(p->groups);
}

int hw_exec_candidate_groups(struct hw_exec_candidate *p)
{
    size_t n;
    if (p->groups)
        return HW_OK;
    int rc = hw_file_read(p->dir, "cgroup", MAX_CGROUP, &p->groups, &n, NULL);
    if (rc == HW_OK)
        hw_memlog_cgroup(p->groups, p->cgroup, sizeof p->cgroup);
    return rc;
}

/* What only some rules need. */
static void read_group(const struct hw_exec_rules *r, struct hw_exec_candidate *p)
{
    if (hw_exec_rules_need(r, HW_MEMLOG_CGROUP))
        (void)hw_exec_candidate_groups(p); /* then it is in none */
}

static void read_start(const struct hw_exec_rules *r, struct hw_exec_candidate *p)
{
    const struct hw_pid pid = {p->status.tgid, -1, p->dir, p->start_ticks};
    if (hw_exec_rules_need_chance(r))
        p->start_ticks = hw_pid_start(&pid); /* for one that has ended the draw is another */
}

static void read_rest(const struct hw_exec_rules *r, struct hw_exec_candidate *p)
{
    hw_autofree char *environment = NULL;
    size_t n = 0;
    read_start(r, p);
    read_group(r, p);
    if (!hw_exec_rules_need(r, HW_MEMLOG_ROLE))
        return;
    if (hw_file_read(p->dir, "environ", MAX_ENVIRON, &environment, &n, NULL) < 0)
        n = 0;
    hw_memlog_role(hw_bytes_of(environment, n), hw_bytes_of(p->cmdline, p->n),
                   getsid(p->status.tgid) == p->status.tgid, p->role);
}

bool hw_exec_candidate_read(const struct hw_exec_rules *r, struct hw_exec_watch_shared *shared,
                            const struct hw_pid *pid, struct hw_exec_candidate *p)
{
    struct hw_exec_reading reading;
    *p = (struct hw_exec_candidate){.dir = pid->dir, .start_ticks = pid->start_ticks};
    if (hw_exec_is_skipped(shared, &shared->finder, pid->pid))
        return false;
    hw_exec_reading_begin(&shared->finder, pid->pid, &reading);
    bool good = p->dir >= 0 && hw_proc_cmdline(p->dir, &p->cmdline, &p->n) == HW_OK && p->n > 0 &&
                hw_proc_status(p->dir, &p->status) == HW_OK;
    if (good) {
        hw_proc_exe_name(p->dir, p->exe, sizeof p->exe);
        read_rest(r, p);
    }
    hw_exec_reading_end(&shared->finder, &reading);
    if (!good)
        hw_exec_candidate_done(p);
    return good;
}

/* The interpreter of a script is opened by the same call. */
static bool is_known_script(struct hw_exec_scripts *all, int32_t tid, uint64_t key, bool is_script)
{
    struct hw_exec_script *s = &all->v[(uint32_t)tid % HW_EXEC_SCRIPTS];
    if (is_script)
        *s = (struct hw_exec_script){tid, key};
    return !is_script && s->tid == tid && s->key == key;
}

static void learn_of_start(const struct hw_exec_rules *r, struct hw_exec_watch_shared *shared,
                           const struct hw_exec_request *q, const struct hw_exec_call *e,
                           struct hw_exec_candidate *p)
{
    read_start(r, p);
    read_group(r, p);
    if (hw_exec_rules_need(r, HW_MEMLOG_ROLE))
        hw_exec_read_role(&shared->finder, q->tid, e, p->role);
}

int hw_exec_candidate_of(const struct hw_exec_rules *r, struct hw_exec_watch_shared *shared,
                         struct hw_exec_scripts *scripts, const struct hw_exec_request *q, int fd,
                         struct hw_exec_candidate *p)
{
    struct hw_exec_call e = q->exec;
    char interpreter[HW_EXEC_LINE], link[40], path[4096];
    int rc = q->has_exec ? 1
                         : hw_exec_read_exec(shared, &shared->finder, q->tid,
                                             /* until_ns = */ 0, &e);
    if (rc != 1)
        return rc;
    rc = hw_exec_read_interpreter(shared, fd, interpreter);
    if (rc < 0) {
        p->unread = true;
        return rc;
    }
    bool script = rc == 1;
    if (is_known_script(scripts, q->tid, e.key, script) || hw_proc_status(p->dir, &p->status) < 0)
        return HW_EPERM; /* the script was the question, or nobody is there */
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = script ? 0 : readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    (void)snprintf(p->exe, sizeof p->exe, "%.255s", hw_base_name(script ? interpreter : path));
    (void)snprintf(p->status.name, sizeof p->status.name, "%.15s",
                   hw_base_name(e.path)); /* as the kernel cuts it */
    p->starts = true;
    p->is_script = script;
    p->cmdline = strdup(script ? interpreter : e.argv0);
    p->n = p->cmdline ? strlen(p->cmdline) + 1 : 0;
    learn_of_start(r, shared, q, &e, p);
    return p->n != 0;
}
