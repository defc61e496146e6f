/*
 * pid.c - the order of opening matters: pidfd first, then the directory, then "is the pidfd still
 * of a living process?": if so, both name the same process.
 */
#include "proc/pid.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "proc/number.h"

#include "base/banned.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define SMALL_FILE  (64u * 1024)
#define PIECE       4096u
#define MAX_CMDLINE (4u * 1024 * 1024)
#define MAX_TASKS   65536 /* looked at of one process */

bool hw_pid_alive(const struct hw_pid *p)
{
    struct pollfd f = {.fd = p->pidfd, .events = POLLIN};
    return p->pidfd >= 0 && poll(&f, 1, 0) == 0;
}

/* Why nothing could be read of it: it lives on when only our own descriptors ran out. */
static int fail_open(const struct hw_pid *p, struct hw_error *err)
{
    if (hw_pid_alive(p)) {
        hw_autofd int spare = fcntl(p->pidfd, F_DUPFD_CLOEXEC, 0);
        if (spare < 0)
            return hw_fail_sys(err, "process %d cannot be inspected", p->pid);
    }
    return hw_fail(err, HW_EGONE, 0, "process %d has ended", p->pid);
}

/* Takes over pidfd. */
static int open_rest(int32_t pid, int pidfd, struct hw_pid *out, struct hw_error *err)
{
    struct hw_pid p = {.pid = pid, .pidfd = pidfd, .dir = -1};
    char path[32];
    int32_t number = hw_proc_number_of(pidfd, pid);
    (void)snprintf(path, sizeof path, "/proc/%d", number);
    p.dir = number > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    struct hw_proc_stat st;
    if (p.dir < 0 || hw_proc_stat(p.dir, &st) < 0 || !hw_pid_alive(&p)) {
        int rc = fail_open(&p, err);
        hw_pid_done(&p);
        return rc;
    }
    p.start_ticks = st.start_ticks;
    *out = p;
    return HW_OK;
}

int hw_pid_open(int32_t pid, struct hw_pid *out, struct hw_error *err)
{
    if (pid <= 0)
        return hw_fail(err, HW_EINVAL, 0, "pid %d", pid);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 && errno == ESRCH)
        return hw_fail(err, HW_EGONE, 0, "no process %d", pid);
    if (pidfd < 0)
        return hw_fail_sys(err, "pid %d", pid);
    return open_rest(pid, pidfd, out, err);
}

int hw_pid_open_peer(int socket, int32_t pid, struct hw_pid *out, struct hw_error *err)
{
    int pidfd = -1;
    socklen_t n = sizeof pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0)
        return open_rest(pid, pidfd, out, err);
    if (errno == ENOPROTOOPT) /* an older kernel */
        return hw_pid_open(pid, out, err);
    if (errno == EMFILE || errno == ENFILE)
        return hw_fail_sys(err, "process %d cannot be inspected", pid);
    return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid);
}

void hw_pid_done(struct hw_pid *p)
{
    if (p->pidfd >= 0)
        (void)close(p->pidfd); /* a descriptor without pending writes */
    if (p->dir >= 0)
        (void)close(p->dir); /* the same */
    p->pidfd = p->dir = -1;
}

/* A file that the kernel generates in one piece: a read that leaves room has all of it. NULL =
 * it cannot be read; *large is the caller's. */
static const char *read_whole(int dir, const char *name, char piece[PIECE], char **large)
{
    size_t n;
    hw_autofd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, piece, PIECE - 1);
    if (got < 0)
        return NULL;
    if ((size_t)got == PIECE - 1)
        return hw_file_read(dir, name, SMALL_FILE, large, &n, NULL) < 0 ? NULL : *large;
    piece[got] = '\0';
    return piece;
}

int hw_proc_stat(int proc_dir, struct hw_proc_stat *out)
{
    char piece[PIECE];
    hw_autofree char *large = NULL;
    const char *text = read_whole(proc_dir, "stat", piece, &large);
    if (!text)
        return HW_EGONE;
    /* The name in brackets may hold anything, also ") R 1": the last bracket counts. */
    const char *p = strrchr(text, ')');
    if (!p)
        return HW_EFORMAT;
    struct hw_proc_stat s = {0};
    unsigned long long utime, stime, start;
    if (sscanf(p + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
               &s.state, &s.ppid, &utime, &stime, &start) != 5)
        return HW_EFORMAT;
    /* the last of its words, and that of what runs is 0 */
    const char *last = strrchr(p, ' ');
    if (s.state == 'Z' && last)
        s.exit_code = (int32_t)strtol(last, NULL, 10);
    s.utime_ticks = utime;
    s.stime_ticks = stime;
    s.start_ticks = start;
    s.ppid = hw_proc_pid_of(s.ppid);
    *out = s;
    return HW_OK;
}

/* linux/pidfd.h of Linux 6.15 */
struct pidfd_info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_INFO_HAS_EXIT 8u
#define PIDFD_GET_INFO_CALL _IOWR(0xFF, 11, struct pidfd_info)

static bool exit_of_reaped(const struct hw_pid *p, uint32_t *out)
{
    struct pidfd_info i = {.mask = PIDFD_INFO_HAS_EXIT};
    if (p->pidfd < 0 || ioctl(p->pidfd, PIDFD_GET_INFO_CALL, &i) < 0 ||
        !(i.mask & PIDFD_INFO_HAS_EXIT))
        return false;
    *out = (uint32_t)i.exit_code;
    return true;
}

int hw_pid_exit_status(const struct hw_pid *p, uint32_t *out)
{
    struct hw_proc_stat st;
    if (hw_proc_stat(p->dir, &st) == HW_OK && st.state == 'Z') {
        *out = (uint32_t)st.exit_code;
        return HW_OK;
    }
    return exit_of_reaped(p, out) ? HW_OK : HW_EGONE;
}

uint64_t hw_pid_start(const struct hw_pid *p)
{
    struct hw_proc_stat st = {0};
    if (p->start_ticks == 0)
        (void)hw_proc_stat(p->dir, &st); /* 0 then */
    return p->start_ticks ? p->start_ticks : st.start_ticks;
}

/* The kernel's order of lines is that of the queries below: each is searched after the previous
 * one, and only then from the beginning. */
struct status_text {
    const char *all, *at;
};

/* Keys begin with a newline, so that a name (escaped there) cannot imitate one. Gives what
 * follows it; NULL = not there. */
static const char *status_line(struct status_text *t, const char *key)
{
    const char *p = strstr(t->at, key);
    if (!p && t->at != t->all)
        p = strstr(t->all, key);
    if (p)
        t->at = p;
    return p ? p + strlen(key) : NULL;
}

static uint64_t status_number(struct status_text *t, const char *key)
{
    const char *p = status_line(t, key);
    return p ? strtoull(p, NULL, 10) : 0;
}

static uint64_t status_hex(struct status_text *t, const char *key)
{
    const char *p = status_line(t, key);
    return p ? strtoull(p, NULL, 16) : 0;
}

/* Real, effective, saved, of the file system. */
static void four_ids(struct status_text *t, const char *key, uint32_t *const out[4])
{
    const char *p = status_line(t, key);
    char *end = (char *)(uintptr_t)p;
    for (int i = 0; i < 4 && p; i++)
        *out[i] = (uint32_t)strtoul(end, &end, 10);
}

/* The last number of the line. */
static int32_t innermost(struct status_text *t)
{
    const char *p = status_line(t, "\nNSpid:"), *eol = p ? strchr(p, '\n') : NULL;
    int32_t last = 0;
    while (p && *p && p != eol) {
        char *end;
        long v = strtol(p, &end, 10);
        if (end == p || (eol && end > eol))
            break;
        last = (int32_t)v;
        p = end;
    }
    return last;
}

void hw_proc_status_parse(const char *text, struct hw_proc_status *out)
{
    struct status_text t = {text, text};
    *out = (struct hw_proc_status){0};
    if (strncmp(text, "Name:\t", 6) == 0) {
        size_t n = strcspn(text + 6, "\n");
        if (n >= sizeof out->name)
            n = sizeof out->name - 1;
        memcpy(out->name, text + 6, n);
    }
    out->tgid = (int32_t)status_number(&t, "\nTgid:");
    out->ppid = (int32_t)status_number(&t, "\nPPid:");
    out->tracer_pid = (int32_t)status_number(&t, "\nTracerPid:");
    four_ids(&t, "\nUid:", (uint32_t *[]){&out->uid, &out->euid, &out->suid, &out->fsuid});
    four_ids(&t, "\nGid:", (uint32_t *[]){&out->gid, &out->egid, &out->sgid, &out->fsgid});
    out->nspid = innermost(&t);
    out->vm_size_kb = status_number(&t, "\nVmSize:");
    out->vm_locked_kb = status_number(&t, "\nVmLck:");
    out->vm_hwm_kb = status_number(&t, "\nVmHWM:");
    out->vm_rss_kb = status_number(&t, "\nVmRSS:");
    out->rss_anon_kb = status_number(&t, "\nRssAnon:");
    out->rss_file_kb = status_number(&t, "\nRssFile:");
    out->rss_shmem_kb = status_number(&t, "\nRssShmem:");
    out->vm_pte_kb = status_number(&t, "\nVmPTE:");
    out->vm_swap_kb = status_number(&t, "\nVmSwap:");
    out->threads = (uint32_t)status_number(&t, "\nThreads:");
    out->signals_caught = status_hex(&t, "\nSigCgt:");
    out->cap_permitted = status_hex(&t, "\nCapPrm:");
    out->cap_effective = status_hex(&t, "\nCapEff:");
    out->seccomp = (int32_t)status_number(&t, "\nSeccomp:");
    out->seccomp_filters = status_number(&t, "\nSeccomp_filters:");
}

static int read_status(int dir, const char *name, struct hw_proc_status *out)
{
    char piece[PIECE];
    hw_autofree char *large = NULL;
    errno = 0;
    const char *text = read_whole(dir, name, piece, &large);
    if (!text)
        return errno == EMFILE || errno == ENFILE ? HW_ESYS : HW_EGONE;
    hw_proc_status_parse(text, out);
    out->ppid = hw_proc_pid_of(out->ppid);
    out->tracer_pid = hw_proc_pid_of(out->tracer_pid);
    return HW_OK;
}

int hw_proc_status(int proc_dir, struct hw_proc_status *out)
{
    return read_status(proc_dir, "status", out);
}

uint64_t hw_proc_rss_bytes(int32_t pid)
{
    struct hw_pid p;
    struct hw_proc_status s = {0};
    if (hw_pid_open(pid, &p, NULL) < 0)
        return 0;
    if (hw_proc_status(p.dir, &s) < 0)
        s.vm_rss_kb = 0;
    hw_pid_done(&p);
    return s.vm_rss_kb * 1024;
}

int hw_proc_own_status(struct hw_proc_status *out)
{
    return read_status(AT_FDCWD, "/proc/self/status", out);
}

int32_t hw_proc_own_tracer(void)
{
    static pid_t of;
    static int fd;
    char piece[PIECE];
    if (of != getpid()) /* what was open before a fork is the parent's */
        fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    of = fd < 0 ? 0 : getpid();
    ssize_t n = fd < 0 ? -1 : pread(fd, piece, sizeof piece - 1, 0);
    piece[n > 0 ? n : 0] = '\0';
    struct status_text t = {piece, piece};
    return hw_proc_pid_of((int32_t)status_number(&t, "\nTracerPid:"));
}

int hw_proc_oom_score_adj(int proc_dir, int64_t *out)
{
    hw_autofree char *text = NULL;
    size_t n;
    if (hw_file_read(proc_dir, "oom_score_adj", 64, &text, &n, NULL) < 0)
        return HW_EGONE;
    *out = strtoll(text, NULL, 10);
    return HW_OK;
}

/* A read that leaves room has all of it, too, as the kernel continues across the ends of pages. */
int hw_proc_cmdline(int proc_dir, char **out, size_t *n)
{
    char piece[PIECE];
    hw_autofd int fd = openat(proc_dir, "cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, piece, sizeof piece);
    if (got == (ssize_t)sizeof piece)
        return hw_file_read(proc_dir, "cmdline", MAX_CMDLINE, out, n, NULL) < 0 ? HW_EGONE : HW_OK;
    char *text = got < 0 ? NULL : malloc((size_t)got + 1);
    if (!text)
        return HW_EGONE;
    memcpy(text, piece, (size_t)got);
    text[got] = '\0';
    *out = text;
    *n = (size_t)got;
    return HW_OK;
}

const char *hw_proc_shown_name(const char *argv0)
{
    if (argv0[0] == '[') /* a kernel thread: [kworker/0:0] */
        return argv0;
    const char *title = strstr(argv0, ": ");
    size_t n = title ? (size_t)(title - argv0) : strlen(argv0), first = strcspn(argv0, " ");
    if (argv0[0] != '/' && argv0[0] != '.' && first < n) /* "puma 6 (tcp://0.0.0.0:80) [ruby]" */
        n = first;
    const char *slash = memrchr(argv0, '/', n);
    return slash ? slash + 1 : argv0;
}

void hw_proc_exe_name(int proc_dir, char *out, size_t max)
{
    char path[4096];
    ssize_t n = readlinkat(proc_dir, "exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    char *deleted = n > 0 ? strstr(path, " (deleted)") : NULL;
    if (deleted && deleted[10] == '\0')
        *deleted = '\0';
    (void)snprintf(out, max, "%s", hw_base_name(path));
}

int hw_proc_list(hw_pid_list *out)
{
    DIR *d = opendir("/proc");
    if (!d)
        return HW_ESYS;
    int rc = HW_OK;
    for (struct dirent *e; rc == HW_OK && (e = readdir(d));) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        int32_t pid = hw_proc_pid_of((int32_t)strtol(e->d_name, NULL, 10));
        if (pid > 0 && hw_vec_push(out, pid) < 0)
            rc = HW_ENOMEM;
    }
    (void)closedir(d); /* read only */
    return rc;
}

static ino_t pid_namespace(int32_t pid)
{
    struct stat st;
    hw_autofd int dir = hw_proc_open_dir(pid);
    return dir >= 0 && fstatat(dir, "ns/pid", &st, 0) == 0 ? st.st_ino : 0;
}

int hw_proc_inside(int32_t inner, int32_t of, hw_pid_list *out)
{
    hw_pid_list all = {0};
    ino_t ours = pid_namespace(getpid()), wanted = of ? pid_namespace(of) : 0;
    int rc = of && !wanted ? HW_EPERM : hw_proc_list(&all);
    for (size_t i = 0; rc == HW_OK && i < all.n; i++) {
        struct hw_proc_status st;
        hw_autofd int dir = hw_proc_open_dir(all.v[i]);
        if (dir < 0 || hw_proc_status(dir, &st) < 0 || st.nspid != inner)
            continue;
        ino_t its = pid_namespace(all.v[i]);
        if (its != 0 && (of ? its == wanted : its != ours) && hw_vec_push(out, all.v[i]) < 0)
            rc = HW_ENOMEM;
    }
    hw_vec_done(&all);
    return rc;
}

/* The first thread of a process stays in the list when it has ended before the others. */
static bool is_thread(int tasks, const char *name, int32_t inner)
{
    hw_autofd int dir = openat(tasks, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct hw_proc_status st;
    struct hw_proc_stat now;
    return dir >= 0 && hw_proc_status(dir, &st) == HW_OK && st.nspid == inner &&
           hw_proc_stat(dir, &now) == HW_OK && now.state != 'Z' && now.state != 'X';
}

int hw_proc_has_thread(int proc_dir, int32_t inner)
{
    hw_autofd int tasks = openat(proc_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[16];
    if (tasks < 0)
        return HW_EGONE;
    (void)snprintf(name, sizeof name, "%d", inner); /* where the namespace is ours, too */
    if (is_thread(tasks, name, inner))
        return 1;
    DIR *d = fdopendir(dup(tasks));
    if (!d)
        return HW_EGONE;
    int n = 0, rc = 0;
    const struct dirent *e;
    while (rc == 0 && n++ < MAX_TASKS && (e = readdir(d)))
        rc = e->d_name[0] != '.' && is_thread(tasks, e->d_name, inner);
    (void)closedir(d); /* it was only read */
    return n > MAX_TASKS ? HW_ELIMIT : rc;
}
