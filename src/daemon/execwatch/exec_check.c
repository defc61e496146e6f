/* exec_check.c - whether a program that is about to run is to be held */
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/execwatch/exec_matcher_parts.h"
#include "daemon/execwatch/exec_rules.h"
#include "daemon/execwatch/exec_watch.h"
#include "proc/number.h"
#include "proc/pid.h"

#include "base/banned.h"

bool hw_exec_is_held(const struct hw_exec_finder *f, int32_t tid)
{
    for (size_t i = 0; i < f->held.n; i++)
        if (f->held.v[i].tid == tid)
            return true;
    return false;
}

/* With other rights than its starter's: never touched. */
static bool changes_rights(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 || (st.st_mode & (S_ISUID | S_ISGID)) ||
           fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

/* Its file and its root, as far as they are known; HW_EBUSY, HW_ETIMEOUT: see exec_files.h. */
static int check_files(struct hw_exec_finder *f, int32_t tid, int fd,
                       const struct hw_exec_candidate *p, struct hw_error *err)
{
    enum hw_start_sight sight;
    struct hw_exec_file file = {0};
    int rc = hw_exec_sight_get(&f->readers, tid, p->dir, p->status.euid, f->socket_path,
                               p->is_script ? p->cmdline : "", &sight);
    if (rc == HW_OK && !p->is_script)
        rc = hw_exec_file_get(&f->readers, &f->shared->files, tid, fd, &file);
    f->unread = rc < 0;
    if (rc < 0)
        return rc;
    const char *why = p->is_script ? NULL : hw_start_forbids(file.start.verdict);
    if (why)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d %s", p->status.tgid, why);
    return hw_start_sight_error(sight, p->status.tgid, f->setup->library, f->socket_path, err);
}

/* HW_OK = to be held; HW_EUNSUPPORTED = to be looked at when it runs, err says why; HW_EBUSY = not
 * known yet; HW_ETIMEOUT = nor will it be in time; else nobody asks for it. */
static int check_candidate(struct hw_exec_finder *f, int32_t tid, int fd,
                           const struct hw_exec_candidate *p, struct hw_error *err)
{
    struct hw_pid pid = {tid, -1, p->dir, p->start_ticks}; /* which its directory holds */
    bool is_thread = p->status.tgid != tid;
    if (!hw_exec_rules_mean(&f->rules, p) || changes_rights(fd) ||
        (is_thread && hw_pid_open(p->status.tgid, &pid, NULL) < 0))
        return HW_EPERM;
    int rc = hw_exec_rules_permit(&f->rules, p, &pid, /* starts = */ true, err);
    if (is_thread)
        hw_pid_done(&pid);
    f->meant_by = hw_exec_rules_first(&f->rules, p);
    return rc == HW_OK ? check_files(f, tid, fd, p, err) : rc;
}

/* The file of a script's interpreter, or of the loader, of one that is to be held already: it has
 * to be known when the program stands. */
static int check_next_file(struct hw_exec_finder *f, int32_t tid, int fd)
{
    struct hw_exec_file unused;
    int rc = hw_exec_file_get(&f->readers, &f->shared->files, tid, fd, &unused);
    return rc == HW_OK ? HW_EPERM : rc;
}

int hw_exec_check(struct hw_exec_finder *f, const struct hw_exec_request *q, int fd, int32_t *pid,
                  struct hw_error *err)
{
    struct hw_exec_file unused;
    if (hw_exec_is_held(f, q->tid))
        return check_next_file(f, q->tid, fd);
    hw_autofd int dir = hw_proc_open_dir(q->tid);
    struct hw_exec_candidate p = {.dir = dir};
    int rc = HW_EPERM;
    if (p.dir >= 0 && f->setup->library && hw_exec_rules_concern(&f->rules, p.dir) &&
        (!q->unnamed || hw_exec_rules_may_mean_unnamed(&f->rules, &p)))
        rc = hw_exec_candidate_of(&f->rules, f->shared, &f->scripts, q, fd, &p);
    if (rc == HW_EBUSY && p.unread) {
        rc = hw_exec_file_get(&f->readers, &f->shared->files, q->tid, fd, &unused);
        rc = rc == HW_OK ? HW_EBUSY : rc; /* it has come this moment */
        f->unread = true;
    }
    if (rc == 1)
        rc = check_candidate(f, q->tid, fd, &p, err);
    *pid = p.status.tgid ? p.status.tgid : q->tid;
    hw_exec_candidate_done(&p);
    return rc;
}
