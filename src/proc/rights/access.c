/*
 * access.c - how /proc shows what the kernel knows
 *
 * Not dumpable: its files of /proc belong to root instead of its effective user (proc(5)). For a
 * process of root's that cannot be seen that way: root without CAP_SYS_PTRACE gets the kernel's own
 * answer to a recorder with no more rights than that, and none from another recorder.
 */
#include "proc/rights/access.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/pid.h"
#include "proc/rights/userns.h"

#include "base/banned.h"

#define MAX_AUXV  1024u
#define PTRACE    (UINT64_C(1) << CAP_SYS_PTRACE)
#define MAX_TYPES 512u /* of the vector's entries; a 32-bit one read as 64 bits has larger ones */

/* ---- who asks ---- */

void hw_requester_self(struct hw_requester *out)
{
    struct hw_proc_status st = {0};
    hw_autofd int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self >= 0)
        (void)hw_proc_status(self, &st); /* without it: no capability */
    *out = (struct hw_requester){geteuid(), getegid(), geteuid() == 0 ? st.cap_effective : 0,
                                 self >= 0 ? hw_userns_inode(self) : 0};
}

static bool we_have_ptrace(void)
{
    struct hw_proc_status st = {0};
    return hw_proc_own_status(&st) < 0 || (st.cap_effective & PTRACE);
}

/*
 * Capabilities are the present ones, of a process that may have executed another program since it
 * connected: only root's are believed, as root would get as many by executing anything.
 */
int hw_requester_peer(int socket, struct hw_requester *out, int32_t *pid)
{
    struct ucred cred;
    socklen_t n = sizeof cred;
    struct hw_pid p;
    struct hw_proc_status st;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
        return HW_ESYS;
    *out = (struct hw_requester){.uid = cred.uid, .gid = cred.gid};
    *pid = cred.pid;
    if (hw_pid_open_peer(socket, cred.pid, &p, NULL) < 0)
        return HW_OK; /* it has ended: nothing is permitted */
    out->user_ns = hw_userns_inode(p.dir);
    if (cred.uid == 0 && hw_proc_status(p.dir, &st) == HW_OK && st.euid == 0)
        out->capabilities = st.cap_effective;
    hw_pid_done(&p);
    if (out->user_ns == 0 && !we_have_ptrace()) { /* a more powerful process: we lend it nothing */
        struct hw_requester self;
        hw_requester_self(&self);
        out->user_ns = self.user_ns;
    }
    return HW_OK;
}

/* ---- the kernel's checks ---- */

static bool all_are(uint32_t id, const uint32_t ids[4])
{
    return ids[0] == id && ids[1] == id && ids[2] == id && ids[3] == id;
}

/* CAP_SYS_PTRACE over everything that belongs to the process's user namespace. */
static bool is_over(const struct hw_requester *who, int dir)
{
    if ((who->capabilities & PTRACE) && hw_userns_is_below(dir, who->user_ns))
        return true;
    return hw_userns_is_of(dir, who->uid, who->user_ns);
}

/* Its files belong to who runs it. */
static bool is_dumpable(int dir, const struct hw_proc_status *st)
{
    struct stat file;
    return fstatat(dir, "status", &file, 0) == 0 && file.st_uid == st->euid &&
           file.st_gid == st->egid;
}

/* The kernel lets us read its mappings, and not because of more rights than the asker's. */
static bool kernel_permits(int dir)
{
    hw_autofd int maps = we_have_ptrace() ? -1 : openat(dir, "maps", O_RDONLY | O_CLOEXEC);
    return maps >= 0;
}

/* The vector has words of the process's size. -1 = cannot be found out. */
static int secure_in(const uint8_t *p, size_t n, size_t word)
{
    for (size_t at = 0; at + 2 * word <= n; at += 2 * word) {
        uint64_t type = 0, value = 0;
        memcpy(&type, p + at, word); /* little endian, as all that we run on */
        memcpy(&value, p + at + word, word);
        if (type == AT_SECURE)
            return value != 0;
        if (type == AT_NULL || type > MAX_TYPES)
            return -1;
    }
    return -1;
}

static bool is_secure(int dir)
{
    uint8_t bytes[MAX_AUXV];
    hw_autofd int fd = openat(dir, "auxv", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (n <= 0)
        return true;
    int is = secure_in(bytes, (size_t)n, sizeof(uint64_t));
    return (is < 0 ? secure_in(bytes, (size_t)n, sizeof(uint32_t)) : is) != 0;
}

/* ---- the answer ---- */

static int refuse_ids(const struct hw_requester *who, int32_t pid, const struct hw_proc_status *st,
                      struct hw_error *err)
{
    if (st->uid != who->uid || st->euid != who->uid)
        return hw_fail(err, HW_EPERM, 0,
                       "process %d belongs to user %u; only that user and root may profile it", pid,
                       st->uid != who->uid ? st->uid : st->euid);
    return hw_fail(err, HW_EPERM, 0,
                   "process %d runs with other user or group ids than you (group %u, you %u); only "
                   "root may profile it",
                   pid, st->egid, who->gid);
}

static int check_plain(const struct hw_requester *who, int32_t pid, int dir,
                       const struct hw_proc_status *st, struct hw_error *err)
{
    const uint32_t uids[] = {st->uid, st->euid, st->suid, st->fsuid},
                   gids[] = {st->gid, st->egid, st->sgid, st->fsgid};
    uint64_t ns = hw_userns_inode(dir);
    /* Many ids have this number in a namespace without numbers for them; root's files are
     * root's. */
    bool unclear = (who->uid == HW_USERNS_NOBODY && who->user_ns != HW_USERNS_FIRST) ||
                   who->uid == 0 || ns == 0;
    if (!all_are(who->uid, uids) || !all_are(who->gid, gids))
        return refuse_ids(who, pid, st, err);
    if (!is_dumpable(dir, st) || (unclear && !kernel_permits(dir)))
        return hw_fail(
            err, HW_EPERM, 0,
            "process %d is protected from other processes: it changed its rights, its file may not "
            "be read, or it asked for that (PR_SET_DUMPABLE); only root may profile it",
            pid);
    if (ns != who->user_ns || ns == 0)
        return hw_fail(err, HW_EPERM, 0, "process %d is in another user namespace than you", pid);
    if (st->cap_permitted & ~who->capabilities)
        return hw_fail(
            err, HW_EPERM, 0,
            "process %d has capabilities that you do not have (%#llx); only root may profile it",
            pid, (unsigned long long)st->cap_permitted);
    if (is_secure(dir))
        return hw_fail(err, HW_EPERM, 0,
                       "process %d was started with other rights than its starter's; only root may "
                       "profile it",
                       pid);
    return HW_OK;
}

/* A process that came from outside does not belong to the namespace: its memory may hold what
 * was there. */
static int check_inside(int32_t pid, int dir, const struct hw_proc_status *st, struct hw_error *err)
{
    const uint32_t uids[] = {st->uid, st->euid, st->suid, st->fsuid},
                   gids[] = {st->gid, st->egid, st->sgid, st->fsgid};
    bool maps = is_dumpable(dir, st);
    for (int i = 0; i < 4; i++)
        maps = maps && hw_userns_maps(dir, "uid_map", uids[i]) &&
               hw_userns_maps(dir, "gid_map", gids[i]);
    if (maps)
        return HW_OK;
    return hw_fail(err, HW_EPERM, 0,
                   "process %d is in a user namespace of yours, but came from outside; only root "
                   "may profile it",
                   pid);
}

int hw_access_check(const struct hw_requester *who, int32_t pid, int dir,
                    const struct hw_proc_status *st, struct hw_error *err)
{
    if (who->user_ns == 0)
        return hw_fail(err, HW_EPERM, 0, "process %d: the process that asked for it has ended",
                       pid);
    if (!is_over(who, dir))
        return check_plain(who, pid, dir, st, err);
    if ((who->capabilities & PTRACE) && who->user_ns == HW_USERNS_FIRST)
        return HW_OK;
    return check_inside(pid, dir, st, err);
}
