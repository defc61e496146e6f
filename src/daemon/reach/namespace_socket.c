/*
 * namespace_socket.c - inspects a process's namespaces, and the child that enters them
 *
 *      recorder ── fork ──> child: user namespace, network namespace, the target's user there
 *          ^                  │    socket, bind, listen
 *          └── SCM_RIGHTS ────┘    _exit
 *
 * Where those may not be entered, the child makes a file in /tmp of the process's root instead, and
 * listens as the process's user: paths know no network namespace.
 *
 * Forked from a process with threads, the child makes system calls only. While it is in the other
 * user namespace it is not dumpable, so nobody there may look into its memory, which is ours.
 */
#include "daemon/reach/namespace_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/files/fd_send.h"
#include "base/log.h"
#include "daemon/clients/listen.h"
#include "daemon/core.h"
#include "proc/rights/as_user.h"
#include "proc/root_path.h"
#include "wire/handshake.h"

#include "base/banned.h"

#define MAX_DOORS    256u
#define CHILD_MS     2000
#define UNUSED_NS    UINT64_C(30000000000)
#define LOOK_NS      UINT64_C(5000000000)
#define STATUS_BYTES 4096

/* Which namespaces; of the recorder itself, or of a process. */
struct where {
    ino_t mount, net, user;
    uint32_t uid; /* effective, as the recorder sees it */
    bool same_root;
};

struct hw_namespace_socket {
    struct hw_watch watch;
    struct hw_recorder *rec;
    struct where to; /* mount and root do not count */
    uint64_t used_ns;
    bool is_file; /* for any process that knows it, until the end */
    int dir;      /* of a file in another root: its directory; -1 */
    char name[108];
};

/* ---- which processes can be reached how ---- */

static ino_t ns_inode(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, 0) == 0 ? st.st_ino : 0;
}

static int look_at(int dir, struct where *out)
{
    struct hw_proc_status st;
    if (hw_proc_status(dir, &st) < 0)
        return HW_EGONE;
    *out = (struct where){.mount = ns_inode(dir, "ns/mnt"),
                          .net = ns_inode(dir, "ns/net"),
                          .user = ns_inode(dir, "ns/user"),
                          .uid = st.euid,
                          .same_root = hw_root_is_ours(dir)};
    return HW_OK;
}

/* Paths of the service manager's sockets are in its mount namespace, not in one that it has made
 * for us (ProtectSystem=). */
static int look_at_self(const struct hw_recorder *r, struct where *out)
{
    hw_autofd int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = self < 0 ? HW_ESYS : look_at(self, out);
    if (rc == HW_OK && r->activated)
        out->mount = ns_inode(AT_FDCWD, "/proc/1/ns/mnt");
    return rc;
}

/* Unreadable ones count as ours: the client finds out. */
static bool is_same(ino_t a, ino_t b)
{
    return a == b || a == 0 || b == 0;
}

static bool is_reached(const struct hw_recorder *r, const struct where *we, const struct where *to)
{
    if (!is_same(we->user, to->user))
        return false;
    if (r->producer_name[0] == '@')
        return is_same(we->net, to->net);
    return is_same(we->mount, to->mount) && to->same_root;
}

/* ---- in the child ---- */

struct order {
    int user_ns, net_ns; /* -1 = ours will do */
    int status;          /* the target's, opened when we are inside */
    int tmp;             /* the target's; -1 = not to be used */
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

/* A child that may not become the target's user works as the recorder, where everybody may. */
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
    /* The file gets the socket's mode: its name could mean another file by now, put there by the
     * directory's owner. Peer credentials decide who may do what. */
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

static void child(const struct order *o)
{
    struct reply r = {0};
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)alarm(2 * CHILD_MS / 1000); /* as somebody else it is out of the recorder's reach */
    int fd = enter(o, &r);
    if (fd < 0 && r.error == EPERM && (fd = listen_at_file(o)) >= 0)
        r = (struct reply){0, AT_FILE};
    (void)hw_fd_send(o->answer, &r, sizeof r, &fd, fd >= 0, 0); /* silence is an answer, too */
    _exit(0);
}

/* ---- waiting for it ---- */

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

static int explain(const struct hw_pid *pid, const struct reply *r, struct hw_error *err)
{
    const char *which = r->at == AT_USER ? "user" : "network";
    if (r->at == AT_SOCKET)
        return hw_fail(err, HW_ESYS, 0, "process %d: no socket in its network namespace: %s",
                       pid->pid, strerror(r->error));
    return hw_fail(err, HW_EPERM, 0,
                   "process %d is in another %s namespace, which this recorder may not enter (%s); "
                   "record as root, or from inside: nsenter --all -t %d heapwise ...",
                   pid->pid, which, strerror(r->error), pid->pid);
}

/* Gives the listening socket, and whether it is a file. */
static int listen_there(const struct hw_pid *pid, struct order *o, int *out, bool *is_file,
                        struct hw_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return hw_fail_sys(err, "socketpair");
    hw_autofd int here = pair[0], there = pair[1];
    o->answer = there;
    pid_t c = fork();
    if (c < 0)
        return hw_fail_sys(err, "fork");
    if (c == 0)
        child(o);
    struct reply r;
    int rc = receive(here, &r, out);
    if (rc < 0)
        (void)kill(c, SIGKILL); /* ours, and not yet waited for */
    while (waitpid(c, NULL, 0) < 0 && errno == EINTR)
        ;
    if (rc < 0)
        return hw_fail(err, rc, 0, "process %d: its namespaces could not be entered in time",
                       pid->pid);
    *is_file = r.at == AT_FILE;
    return *out >= 0 ? HW_OK : explain(pid, &r, err);
}

/* ---- sockets ---- */

static void on_door(struct hw_watch *w, uint32_t events)
{
    struct hw_namespace_socket *d = HW_OWNER_OF(w, struct hw_namespace_socket, watch);
    (void)events; /* the rest waits for the next turn */
    (void)d->rec->accept_at(d->rec, w->fd, d);
}

static void door_free(struct hw_namespace_socket *d)
{
    hw_watch_remove(d->rec, &d->watch);
    if (d->watch.fd >= 0)
        (void)close(d->watch.fd); /* a listening socket */
    if (d->is_file)
        (void)unlink(d->name); /* gone already is fine */
    if (d->dir >= 0) {
        (void)unlinkat(d->dir, strrchr(d->name, '/') + 1, 0); /* the same */
        (void)close(d->dir);                                  /* a directory */
    }
    free(d);
}

/* Takes over fd. */
static int door_add(struct hw_recorder *r, struct hw_namespace_socket *d, int fd)
{
    d->rec = r;
    d->used_ns = hw_now_monotonic_ns();
    d->watch = (struct hw_watch){fd, on_door};
    if (hw_vec_push(&r->doors, d) < 0 || hw_watch_add(r, &d->watch, EPOLLIN) < 0) {
        if (r->doors.n && r->doors.v[r->doors.n - 1] == d)
            r->doors.n--;
        door_free(d);
        return HW_ENOMEM;
    }
    return HW_OK;
}

static void choose_name(struct hw_namespace_socket *d, struct order *o)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number = hw_now_monotonic_ns();
    (void)snprintf(d->name, sizeof d->name, "@heapwise-door-%016llx", (unsigned long long)number);
    size_t n = strlen(d->name);
    o->name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(o->name.sun_path, d->name, n);
    o->name.sun_path[0] = '\0';
    o->name_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static int door_new(struct hw_recorder *r, const struct hw_pid *pid, const struct where *we,
                    const struct where *to, struct hw_namespace_socket **out, struct hw_error *err)
{
    struct order o = {.user_ns = -1, .net_ns = -1, .status = pid->dir, .tmp = -1};
    hw_autofd int user = -1, net = -1, tmp = hw_root_tmp(pid->dir, to->uid);
    int fd = -1;
    bool is_file = false;
    if (r->doors.n >= MAX_DOORS)
        return hw_fail(err, HW_ELIMIT, 0,
                       "the processes of a recording are in more than %u network namespaces, which "
                       "is the limit",
                       MAX_DOORS);
    if (!is_same(we->user, to->user) &&
        (o.user_ns = user = openat(pid->dir, "ns/user", O_RDONLY | O_CLOEXEC)) < 0)
        return hw_fail_sys(err, "user namespace of process %d", pid->pid);
    if (!is_same(we->net, to->net) &&
        (o.net_ns = net = openat(pid->dir, "ns/net", O_RDONLY | O_CLOEXEC)) < 0)
        return hw_fail_sys(err, "network namespace of process %d", pid->pid);
    o.tmp = tmp;
    struct hw_namespace_socket *d = calloc(1, sizeof *d);
    if (!d)
        return hw_fail(err, HW_ENOMEM, 0, "process %d", pid->pid);
    d->to = *to;
    d->watch.fd = d->dir = -1;
    d->rec = r;
    choose_name(d, &o);
    int rc = listen_there(pid, &o, &fd, &is_file, err);
    if (rc < 0) {
        free(d);
        return rc;
    }
    if (is_file) { /* the same name */
        d->dir = hw_fd_take(&tmp);
        (void)snprintf(d->name, sizeof d->name, "/tmp/%s", o.name.sun_path + 1);
    }
    if (door_add(r, d, fd) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "process %d", pid->pid);
    hw_log(INFO, "process %d is in other namespaces: it comes in by %s", pid->pid, d->name);
    *out = d;
    return HW_OK;
}

int hw_namespace_socket_for(struct hw_recorder *r, const struct hw_pid *pid,
                            struct hw_namespace_socket **out, struct hw_error *err)
{
    struct where we, to;
    if (look_at_self(r, &we) < 0 || look_at(pid->dir, &to) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    *out = NULL;
    if (is_reached(r, &we, &to))
        return HW_OK;
    for (size_t i = 0; i < r->doors.n; i++) {
        struct hw_namespace_socket *d = r->doors.v[i];
        if (!d->is_file && d->dir < 0 && d->to.net == to.net && d->to.user == to.user &&
            d->to.uid == to.uid) {
            d->used_ns = hw_now_monotonic_ns();
            *out = d;
            return HW_OK;
        }
    }
    return door_new(r, pid, &we, &to, out, err);
}

const char *hw_namespace_socket_name(const struct hw_recorder *r,
                                     const struct hw_namespace_socket *d)
{
    return d ? d->name : r->producer_name;
}

bool hw_namespace_socket_is_ours(const struct hw_recorder *r, const char *name)
{
    if (strncmp(name, r->producer_name, sizeof r->producer_name) == 0)
        return true;
    for (size_t i = 0; i < r->doors.n; i++)
        if (strncmp(name, r->doors.v[i]->name, sizeof r->doors.v[i]->name) == 0)
            return true;
    return false;
}

void hw_namespace_socket_open_file(struct hw_recorder *r)
{
    struct hw_error err;
    struct hw_namespace_socket *d = r->producer_name[0] == '@' ? calloc(1, sizeof *d) : NULL;
    if (!d)
        return;
    *d = (struct hw_namespace_socket){.is_file = true, .rec = r, .watch.fd = -1, .dir = -1};
    int n = snprintf(d->name, sizeof d->name, HW_SOCKET_FILES "%s", r->producer_name + 1);
    int fd = n < 0 || (size_t)n >= sizeof d->name ? -1 : hw_listen(d->name, &err);
    if (fd < 0)
        free(d);
    else
        (void)door_add(r, d, fd); /* freed when it could not be */
}

bool hw_namespace_sockets_accept(struct hw_recorder *r)
{
    bool more = false;
    for (size_t i = 0; i < r->doors.n; i++)
        more |= r->accept_at(r, r->doors.v[i]->watch.fd, r->doors.v[i]);
    return more;
}

void hw_namespace_sockets_rest(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->doors.n; i++)
        hw_watch_remove(r, &r->doors.v[i]->watch);
}

void hw_namespace_sockets_go_on(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->doors.n; i++)
        (void)hw_watch_add(r, &r->doors.v[i]->watch, EPOLLIN); /* in the set already is fine */
}

static bool is_used(const struct hw_recorder *r, const struct hw_namespace_socket *d)
{
    for (size_t i = 0; i < r->conns.n; i++)
        if (r->conns.v[i]->door == d)
            return true;
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->door == d)
            return true;
    return d->is_file;
}

void hw_namespace_sockets_tick(struct hw_recorder *r, uint64_t now)
{
    if (r->doors.n == 0 || now < r->next_doors_ns)
        return;
    r->next_doors_ns = now + LOOK_NS;
    for (size_t i = 0; i < r->doors.n;) {
        struct hw_namespace_socket *d = r->doors.v[i];
        if (is_used(r, d))
            d->used_ns = now;
        if (now < d->used_ns + UNUSED_NS) { /* it may be younger than this round */
            i++;
            continue;
        }
        door_free(d);
        r->doors.v[i] = r->doors.v[--r->doors.n];
    }
}

void hw_namespace_sockets_done(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->doors.n; i++)
        door_free(r->doors.v[i]);
    hw_vec_done(&r->doors);
}
