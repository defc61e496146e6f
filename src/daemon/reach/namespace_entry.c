/*
 * namespace_entry.c - the child that enters a process's namespaces, and who waits for it
 *
 *      reading thread ── fork ──> child: user namespace, network namespace, the target's user there
 *          ^                        │    socket, bind, listen
 *          └────── SCM_RIGHTS ──────┘    _exit
 *
 * Where those may not be entered, another child makes a file in /tmp of the process's root, and
 * listens as the process's user: paths know no network namespace.
 *
 * Forked from a process with threads, the child makes system calls only. While it is in the other
 * user namespace it is not dumpable, so nobody there may look into its memory, which is ours.
 */
#include "daemon/reach/namespace_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/files/fd_send.h"
#include "daemon/code/blocking_reader_job.h"
#include "proc/pid.h"
#include "proc/rights/as_user.h"
#include "proc/root_path.h"

#include "base/banned.h"

#define CHILD_MS     2000
#define STATUS_BYTES 4096

/* ---- in the child ---- */

struct order {
    int user_ns, net_ns; /* -1 = ours will do */
    int status;          /* the target's, opened when we are inside */
    int tmp;             /* the target's; -1 = none was looked for */
    int answer;
    struct sockaddr_un name;
    socklen_t name_bytes;
};

struct reply {
    int error;
    enum { AT_USER = 1, AT_NET, AT_SOCKET, AT_FILE /* not an error: it is one */ } at;
};

/* The effective user as this namespace calls it; UINT32_MAX = not known. */
static uint32_t uid_here(int dir)
{
    char text[STATUS_BYTES];
    int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strstr(text, "\nUid:");
    char *end;
    if (!p)
        return UINT32_MAX;
    (void)strtoul(p + 5, &end, 10); /* the real one */
    return (uint32_t)strtoul(end, NULL, 10);
}

static void become(int status)
{
    uint32_t uid = uid_here(status);
    if (uid != UINT32_MAX && uid != geteuid())
        (void)syscall(SYS_setresuid, uid, uid, uid); /* this thread; else root's name must do */
}

/* Whoever may not be made the target's user works as the recorder, where everybody may. */
static int bind_as(uint32_t uid, int fd, int tmp, const struct sockaddr_un *a)
{
    struct hw_as_user user = {0};
    struct stat st;
    if (hw_as_user_begin(&user, uid, getegid()) < 0 &&
        (fstat(tmp, &st) < 0 || !(st.st_mode & S_IWOTH)))
        return -1;
    int rc = bind(fd, (const struct sockaddr *)a, sizeof *a);
    hw_as_user_end(&user);
    return rc;
}

static int listen_at_file(const struct order *o)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (o->tmp < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    hw_root_name(o->tmp, o->name.sun_path + 1, a.sun_path);
    /* The file gets the socket's mode: by its name it could be another one by now, put there by who
     * owns the directory. Who may do what is decided by peer credentials. */
    (void)umask(0);
    uint32_t uid = uid_here(o->status);
    if (fd < 0 || fchmod(fd, 0666) < 0 ||
        bind_as(uid == UINT32_MAX ? geteuid() : uid, fd, o->tmp, &a) < 0)
        return -1;
    become(o->status);
    return listen(fd, 1024) < 0 ? -1 : fd;
}

static int enter(const struct order *o, struct reply *r)
{
    if (o->user_ns >= 0 && setns(o->user_ns, CLONE_NEWUSER) < 0) {
        *r = (struct reply){errno, AT_USER};
        return -1;
    }
    if (o->net_ns >= 0 && setns(o->net_ns, CLONE_NEWNET) < 0) {
        *r = (struct reply){errno, AT_NET};
        return -1;
    }
    become(o->status);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&o->name, o->name_bytes) < 0 ||
        listen(fd, 1024) < 0) {
        *r = (struct reply){errno, AT_SOCKET};
        return -1;
    }
    return fd;
}

/* What is open in the recorder would stay open for as long as we do. */
static void keep_only(const struct order *o)
{
    int fds[] = {o->user_ns, o->net_ns, o->status, o->tmp, o->answer};
    unsigned from = 0;
    for (size_t i = 1; i < HW_ARRAY_LEN(fds); i++)
        for (size_t k = i; k > 0 && fds[k - 1] > fds[k]; k--) {
            int swap = fds[k];
            fds[k] = fds[k - 1];
            fds[k - 1] = swap;
        }
    for (size_t i = 0; i < HW_ARRAY_LEN(fds); i++) {
        if (fds[i] < 0)
            continue;
        if ((unsigned)fds[i] > from)
            (void)syscall(SYS_close_range, from, (unsigned)fds[i] - 1, 0); /* else they stay */
        from = (unsigned)fds[i] + 1;
    }
    (void)syscall(SYS_close_range, from, ~0u, 0);
}

static void child(const struct order *o)
{
    struct reply r = {0};
    keep_only(o);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)alarm(2 * CHILD_MS / 1000); /* as somebody else it is out of the recorder's reach */
    int fd = o->tmp < 0 ? enter(o, &r) : -1;
    if (o->tmp >= 0) {
        fd = listen_at_file(o);
        r = (struct reply){fd < 0 ? errno : 0, AT_FILE};
    }
    (void)hw_fd_send(o->answer, &r, sizeof r, &fd, fd >= 0, 0); /* silence is an answer, too */
    _exit(0);
}

/* ---- in the reading thread ---- */

struct entry_job {
    struct hw_reading_job job;
    uint32_t uid;
    bool user, net;
    char name[96];
    int fd, dir; /* what was made, the job's own */
    struct hw_error err;
};

static int receive(int from, struct reply *out, int *fd)
{
    struct pollfd p = {.fd = from, .events = POLLIN};
    uint64_t end = hw_now_monotonic_ns() + CHILD_MS * UINT64_C(1000000);
    int n;
    do
        n = poll(&p, 1, CHILD_MS);
    while (n < 0 && errno == EINTR && hw_now_monotonic_ns() < end);
    if (n <= 0 || hw_fd_receive(from, out, sizeof *out, fd, 1, MSG_DONTWAIT) != sizeof *out)
        return HW_ETIMEOUT;
    return HW_OK;
}

static int explain(int32_t pid, const struct reply *r, struct hw_error *err)
{
    const char *which = r->at == AT_USER ? "user" : "network";
    if (r->at == AT_SOCKET)
        return hw_fail(err, HW_ESYS, 0, "process %d: no socket in its network namespace: %s", pid,
                       strerror(r->error));
    return hw_fail(err, HW_EPERM, 0,
                   "process %d is in another %s namespace, which this recorder may not enter (%s); "
                   "record as root, or from inside: nsenter --all -t %d heapwise ...",
                   pid, which, strerror(r->error), pid);
}

/* This thread is left behind if the child does not end. */
static int ask_child(struct entry_job *e, struct order *o, struct reply *out)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return hw_fail_sys(&e->err, "socketpair");
    hw_autofd int here = pair[0], there = pair[1];
    o->answer = there;
    pid_t c = fork();
    if (c < 0)
        return hw_fail_sys(&e->err, "fork");
    if (c == 0)
        child(o);
    atomic_store_explicit(&e->job.helper, c, memory_order_relaxed); /* only looked at */
    int rc = receive(here, out, &e->fd);
    if (rc < 0)
        (void)kill(c, SIGKILL); /* ours, and not yet waited for */
    while (waitpid(c, NULL, 0) < 0 && errno == EINTR)
        ;
    atomic_store_explicit(&e->job.helper, 0, memory_order_relaxed);
    if (rc < 0)
        return hw_fail(&e->err, rc, 0, "process %d: its namespaces could not be entered in time",
                       e->job.who.pid);
    return HW_OK;
}

/* A file in its /tmp, where its namespaces may not be entered. */
static int make_file(struct entry_job *e, struct order *o, struct reply *r)
{
    struct reply file;
    hw_autofd int tmp = o->tmp = hw_root_tmp(e->job.who.dir, e->uid);
    int rc = tmp < 0 ? HW_OK : ask_child(e, o, &file);
    if (rc < 0)
        return rc;
    if (e->fd < 0)
        return explain(e->job.who.pid, r, &e->err);
    e->dir = hw_fd_take(&tmp);
    return HW_OK;
}

static void run_entry(struct hw_reading_job *j)
{
    struct entry_job *e = (struct entry_job *)(void *)j;
    struct order o = {.user_ns = -1, .net_ns = -1, .status = j->who.dir, .tmp = -1};
    struct reply r = {0};
    hw_autofd int user = -1, net = -1;
    j->rc = HW_OK;
    if (e->user && (o.user_ns = user = openat(j->who.dir, "ns/user", O_RDONLY | O_CLOEXEC)) < 0)
        j->rc = hw_fail_sys(&e->err, "user namespace of process %d", j->who.pid);
    else if (e->net && (o.net_ns = net = openat(j->who.dir, "ns/net", O_RDONLY | O_CLOEXEC)) < 0)
        j->rc = hw_fail_sys(&e->err, "network namespace of process %d", j->who.pid);
    size_t n = strlen(e->name);
    o.name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(o.name.sun_path + 1, e->name, n);
    o.name_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    if (j->rc == HW_OK)
        j->rc = ask_child(e, &o, &r);
    if (j->rc == HW_OK && e->fd < 0)
        j->rc = r.error == EPERM ? make_file(e, &o, &r) : explain(j->who.pid, &r, &e->err);
}

static void drop_entry(struct hw_reading_job *j)
{
    struct entry_job *e = (struct entry_job *)(void *)j;
    if (e->fd >= 0)
        (void)close(e->fd); /* it only listens */
    if (e->dir >= 0)
        (void)close(e->dir); /* a directory */
}

struct remove_job {
    struct hw_reading_job job;
    char name[96];
};

static void run_remove(struct hw_reading_job *j)
{
    (void)unlinkat(j->who.dir, ((struct remove_job *)(void *)j)->name, 0); /* gone is fine */
}

/* ---- in the main thread ---- */

int hw_namespace_enter(struct hw_blocking_reader *l, struct hw_namespace_entry *e,
                       struct hw_error *err)
{
    const struct hw_reading_who who = hw_reading_at(e->pid, e->uid);
    struct entry_job *j = hw_reading_job_new(sizeof *j, &who, run_entry, drop_entry);
    if (!j)
        return hw_fail(err, HW_ENOMEM, 0, "process %d", e->pid->pid);
    j->fd = j->dir = -1;
    j->uid = e->uid;
    j->user = e->user;
    j->net = e->net;
    (void)snprintf(j->name, sizeof j->name, "%s", e->name); /* ours, it fits */
    int rc = hw_reading_job_do(l, &j->job);
    if (rc < 0)
        return hw_fail(err, rc, 0,
                       "process %d: its namespaces or its /tmp could not be entered in time (it "
                       "may hold the locks of its directories)",
                       e->pid->pid);
    rc = j->job.rc;
    e->fd = hw_fd_take(&j->fd);
    e->dir = hw_fd_take(&j->dir);
    if (rc < 0)
        *err = j->err;
    hw_reading_job_free(&j->job);
    return rc;
}

void hw_namespace_remove(struct hw_blocking_reader *l, struct hw_reading_who who, const char *name)
{
    struct remove_job *j = hw_reading_job_new(sizeof *j, &who, run_remove, NULL);
    if (!j)
        return; /* a socket's file is left there */
    (void)snprintf(j->name, sizeof j->name, "%.95s", name);
    if (hw_reading_job_do(l, &j->job) == HW_OK)
        hw_reading_job_free(&j->job);
}
