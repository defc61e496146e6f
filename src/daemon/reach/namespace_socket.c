/*
 * namespace_socket.c - looking at a process's namespaces, and the sockets that were made there
 *
 * Only names of /proc are looked at here, which wait for nobody: what is below a process's root is
 * its own, and so are the locks of its directories (namespace_entry.c).
 */
#include "daemon/reach/namespace_socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "daemon/clients/listen.h"
#include "daemon/code/blocking_reader.h"
#include "daemon/core.h"
#include "daemon/reach/namespace_entry.h"
#include "proc/root_path.h"
#include "wire/handshake.h"

#include "base/banned.h"

#define MAX_DOORS 256u
#define UNUSED_NS UINT64_C(30000000000)
#define LOOK_NS   UINT64_C(5000000000)

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
    bool is_file;              /* for any process that knows it, until the end */
    int dir;                   /* of a file in another root: its directory; -1 */
    struct hw_reading_who who; /* the same: whose root; without a directory of its own */
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

/* ---- sockets ---- */

static void on_ns_socket(struct hw_watch *w, uint32_t events)
{
    struct hw_namespace_socket *d = HW_OWNER_OF(w, struct hw_namespace_socket, watch);
    (void)events; /* the rest waits for the next turn */
    (void)d->rec->accept_at(d->rec, w->fd, d);
}

static void ns_socket_free(struct hw_namespace_socket *d)
{
    hw_watch_remove(d->rec, &d->watch);
    if (d->watch.fd >= 0)
        (void)close(d->watch.fd); /* a listening socket */
    if (d->is_file)
        (void)unlink(d->name); /* gone already is fine */
    if (d->dir >= 0) {
        d->who.dir = d->dir;
        hw_namespace_remove(d->rec->blocking_reader, d->who, strrchr(d->name, '/') + 1);
        (void)close(d->dir); /* a directory */
    }
    free(d);
}

/* Takes over fd. */
static int ns_socket_add(struct hw_recorder *r, struct hw_namespace_socket *d, int fd)
{
    d->rec = r;
    d->used_ns = hw_now_monotonic_ns();
    d->watch = (struct hw_watch){fd, on_ns_socket};
    if (hw_vec_push(&r->namespace_sockets, d) < 0 || hw_watch_add(r, &d->watch, EPOLLIN) < 0) {
        if (r->namespace_sockets.n && r->namespace_sockets.v[r->namespace_sockets.n - 1] == d)
            r->namespace_sockets.n--;
        ns_socket_free(d);
        return HW_ENOMEM;
    }
    return HW_OK;
}

static void choose_name(struct hw_namespace_socket *d)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number = hw_now_monotonic_ns();
    (void)snprintf(d->name, sizeof d->name, "@heapwise-ns_socket-%016llx",
                   (unsigned long long)number);
}

static int ns_socket_new(struct hw_recorder *r, const struct hw_pid *pid, const struct where *we,
                         const struct where *to, struct hw_namespace_socket **out,
                         struct hw_error *err)
{
    struct hw_namespace_entry e = {.pid = pid,
                                   .uid = to->uid,
                                   .user = !is_same(we->user, to->user),
                                   .net = !is_same(we->net, to->net),
                                   .fd = -1,
                                   .dir = -1};
    if (r->namespace_sockets.n >= MAX_DOORS)
        return hw_fail(err, HW_ELIMIT, 0,
                       "the processes of a recording are in more than %u network namespaces, which "
                       "is the limit",
                       MAX_DOORS);
    struct hw_namespace_socket *d = calloc(1, sizeof *d);
    if (!d)
        return hw_fail(err, HW_ENOMEM, 0, "process %d", pid->pid);
    d->to = *to;
    d->who = hw_reading_at(pid, to->uid);
    d->rec = r;
    choose_name(d);
    e.name = d->name + 1;
    int rc = hw_namespace_enter(r->blocking_reader, &e, err);
    if (rc < 0) {
        free(d);
        return rc;
    }
    d->dir = e.dir;
    if (d->dir >= 0) { /* the same name */
        char file[sizeof d->name];
        (void)snprintf(file, sizeof file, "/tmp/%.90s", e.name);
        memcpy(d->name, file, sizeof file);
    }
    if (ns_socket_add(r, d, e.fd) < 0)
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
    for (size_t i = 0; i < r->namespace_sockets.n; i++) {
        struct hw_namespace_socket *d = r->namespace_sockets.v[i];
        if (!d->is_file && d->dir < 0 && d->to.net == to.net && d->to.user == to.user &&
            d->to.uid == to.uid) {
            d->used_ns = hw_now_monotonic_ns();
            *out = d;
            return HW_OK;
        }
    }
    return ns_socket_new(r, pid, &we, &to, out, err);
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
    for (size_t i = 0; i < r->namespace_sockets.n; i++)
        if (strncmp(name, r->namespace_sockets.v[i]->name,
                    sizeof r->namespace_sockets.v[i]->name) == 0)
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
        (void)ns_socket_add(r, d, fd); /* freed when it could not be */
}

bool hw_namespace_sockets_accept(struct hw_recorder *r)
{
    bool more = false;
    for (size_t i = 0; i < r->namespace_sockets.n; i++)
        more |= r->accept_at(r, r->namespace_sockets.v[i]->watch.fd, r->namespace_sockets.v[i]);
    return more;
}

void hw_namespace_sockets_rest(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->namespace_sockets.n; i++)
        hw_watch_remove(r, &r->namespace_sockets.v[i]->watch);
}

void hw_namespace_sockets_go_on(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->namespace_sockets.n; i++)
        (void)hw_watch_add(r, &r->namespace_sockets.v[i]->watch,
                           EPOLLIN); /* in the set already is fine */
}

static bool is_used(const struct hw_recorder *r, const struct hw_namespace_socket *d)
{
    for (size_t i = 0; i < r->conns.n; i++)
        if (r->conns.v[i]->ns_socket == d)
            return true;
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->ns_socket == d)
            return true;
    return d->is_file;
}

void hw_namespace_sockets_tick(struct hw_recorder *r, uint64_t now)
{
    if (r->namespace_sockets.n == 0 || now < r->next_namespace_sockets_ns)
        return;
    r->next_namespace_sockets_ns = now + LOOK_NS;
    for (size_t i = 0; i < r->namespace_sockets.n;) {
        struct hw_namespace_socket *d = r->namespace_sockets.v[i];
        if (is_used(r, d))
            d->used_ns = now;
        if (now < d->used_ns + UNUSED_NS) { /* it may be younger than this round */
            i++;
            continue;
        }
        ns_socket_free(d);
        r->namespace_sockets.v[i] = r->namespace_sockets.v[--r->namespace_sockets.n];
    }
}

void hw_namespace_sockets_done(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->namespace_sockets.n; i++)
        ns_socket_free(r->namespace_sockets.v[i]);
    hw_vec_done(&r->namespace_sockets);
}
