/*
 * hello.c - connections from targets, from connect to "wanted by a session" or "wait"
 *
 * A connection says hello once. Afterwards nothing is read from it: it is a target's, or waits
 * (clients/clients.c).
 */
#include "daemon/hello.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/files/fd_receive.h"
#include "base/files/fd_send.h"
#include "base/log.h"
#include "daemon/clients/activation.h"
#include "daemon/clients/blocking_fd.h"
#include "daemon/clients/listen.h"
#include "daemon/core.h"
#include "daemon/policy/connection_limit.h"
#include "daemon/policy/unrecorded.h"

#include "base/banned.h"

#define ACCEPT_PAUSE_NS UINT64_C(500000000)
#define SAY_AGAIN_NS    UINT64_C(10000000000)
#define MAX_CONNS       16384u
#define MIN_CONNS       16u
#define CONN_FILES      2u /* the connection and its page */
#define CONNS_SHARE     2u /* share of the limit that one of these may have */
#define USER_SHARE      4u /* of that; root excepted, the recorder's own user and an embedded one */
#define MAX_A_ROUND     256 /* new clients, then the others have their turn */

/* ---- answers that are not "profile" ---- */

static bool answer(const struct hw_conn *c, enum hw_welcome_status status, int page_fd, bool strip)
{
    uint32_t version = c->hello.version;
    struct hw_welcome w = {.magic = HW_WELCOME_MAGIC, .version = version, .status = status};
    w.config.flags = strip ? HW_CC_STRIP_ENV : 0;
    w.now_ns = hw_now_monotonic_ns();
    return hw_fd_send(c->watch.fd, &w, hw_welcome_bytes(version), &page_fd, page_fd >= 0,
                      MSG_DONTWAIT) == HW_OK;
}

/*
 * A process below a program that is no starter is not meant, nor is any process below that: such a
 * process may take our variables out of its environment. Not so the ones we only failed to profile.
 */
static bool nobody_below(const struct hw_recorder *r)
{
    bool strip = r->embedded && r->sessions.n != 0;
    for (size_t i = 0; i < r->sessions.n; i++)
        strip &= (r->sessions.v[i]->start.flags & HW_START_STRIP_ENV) != 0;
    return strip;
}

static void keep_waiting(struct hw_conn *c)
{
    bool later = !c->rec->embedded || hw_start_when_awaits(c->rec, c->pid);
    if (!later || hw_page_init(&c->page, c->hello.version,
                               hw_namespace_socket_name(c->rec, c->ns_socket), &c->filters) < 0) {
        (void)answer(c, HW_WELCOME_NO, -1, nobody_below(c->rec)); /* closing says "no" too */
        hw_conn_close(c);
        return;
    }
    if (!answer(c, HW_WELCOME_WAIT, c->page.fd, /* strip = */ false)) {
        hw_conn_close(c);
        return;
    }
    c->waiting = true;
}

/* Ours, or the 32-bit one beside it. */
static bool arch_is_good(uint32_t arch)
{
    return arch == HW_ARCH_HERE || (HW_ARCH_HERE == HW_ARCH_X86_64 && arch == HW_ARCH_X86);
}

/* A program that has been running since before an upgrade still has that library; its hello may
 * have another size, but the same beginning. Gives the version to speak with it; 0 = we have
 * none in common. */
static uint32_t agreed_version(const struct hw_hello *h)
{
    return hw_wire_agree(h->oldest ? h->oldest : h->version, h->version);
}

static bool hello_is_good(const struct hw_hello *h, ssize_t n)
{
    return n >= (ssize_t)HW_HELLO_LEAST_BYTES && h->magic == HW_HELLO_MAGIC &&
           arch_is_good(h->arch) && agreed_version(h) != 0;
}

static bool is_other_version(const struct hw_hello *h, ssize_t n)
{
    return n >= (ssize_t)(offsetof(struct hw_hello, version) + sizeof h->version) &&
           h->magic == HW_HELLO_MAGIC && agreed_version(h) == 0;
}

/* It cannot be answered; the session that selects it is told why, once. */
static void refuse_version(struct hw_conn *c)
{
    char why[200];
    struct hw_pid pid;
    struct hw_session *s;
    uint32_t source;
    if (hw_pid_open_peer(c->watch.fd, c->pid, &pid, NULL) < 0)
        return;
    (void)snprintf(why, sizeof why, /* two numbers: it fits */
                   "it has the client library of another version of heapwise (protocol %u, the "
                   "recorder speaks %u to %u); restart the program",
                   c->hello.version, HW_WIRE_OLDEST, HW_WIRE_VERSION);
    if (hw_sessions_match(c->rec, c, &pid, &s, &source) &&
        hw_session_refuse(s, source, pid.pid, why))
        hw_session_warn(s, "process %d is not profiled: %s", pid.pid, why);
    hw_pid_done(&pid);
}

/* The session for which the process was armed; NULL = it is over. */
static const struct hw_session *armed_for(const struct hw_conn *c)
{
    for (size_t i = 0; i < c->rec->sessions.n; i++) {
        const struct hw_session *s = c->rec->sessions.v[i];
        if ((c->hello.flags & HW_HELLO_ARMED) && s->has_rule && !s->stopping &&
            s->arm_token == (c->hello.armed_token & ~HW_TOKEN_SHARE_MASK))
            return s;
    }
    return NULL;
}

/* For other sessions it is a program that was already running: its draws are not theirs. */
static void disarm(struct hw_conn *c)
{
    if (c->hello.flags & HW_HELLO_ARMED)
        c->hello.flags &= ~(uint32_t)(HW_HELLO_ARMED | HW_HELLO_STARTUP | HW_HELLO_HELD);
}

static void say_no_descriptors(struct hw_recorder *r, uint64_t now)
{
    if (r->accept_said_ns && now < r->accept_said_ns + SAY_AGAIN_NS)
        return;
    r->accept_said_ns = now;
    hw_log(WARN,
           "no more descriptors (programs waiting: %zu, profiled: %zu; commands connected: %zu); "
           "raise the limit (ulimit -n, LimitNOFILE= of the service)",
           r->conns.n, r->targets.n, r->controls.n);
    for (size_t i = 0; i < r->sessions.n; i++)
        hw_session_warn(r->sessions.v[i],
                        "no more descriptors: no further process is profiled (so far: %zu); raise "
                        "the limit (ulimit -n)",
                        r->targets.n);
}

/* What could not be examined for lack of one does not match. */
static bool has_descriptors(int any)
{
    int fd = fcntl(any, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return errno != EMFILE && errno != ENFILE;
    (void)close(fd);
    return true;
}

static void decide(struct hw_conn *c)
{
    struct hw_pid pid;
    struct hw_session *s;
    uint32_t source;
    struct hw_error err = {0};
    if (hw_pid_open_peer(c->watch.fd, c->pid, &pid, &err) < 0) {
        if (err.sys_errno == EMFILE || err.sys_errno == ENFILE)
            say_no_descriptors(c->rec, hw_now_monotonic_ns());
        else
            hw_unrecorded_conn(c);
        hw_conn_close(c);
        return;
    }
    c->filters = hw_filters_of(pid.dir, /* all_threads = */ true);
    const struct hw_session *armed = armed_for(c);
    if (!armed)
        disarm(c);
    bool wanted = hw_sessions_match(c->rec, c, &pid, &s, &source);
    if (wanted && s != armed)
        disarm(c);
    if (!wanted) {
        bool ended = !hw_pid_alive(&pid);
        if (!has_descriptors(c->watch.fd))
            say_no_descriptors(c->rec, hw_now_monotonic_ns());
        hw_pid_done(&pid);
        if (ended) /* its image could no longer be inspected */
            hw_unrecorded_conn(c);
        keep_waiting(c);
        return;
    }
    c->share = hw_exec_watch_share(s, c->pid, c->hello.armed_token);
    struct hw_target *t;
    int rc = hw_target_new(s, source, c, &pid, &t, &err);
    hw_pid_done(&pid); /* in case it was not taken */
    if (rc < 0) {
        if (rc == HW_EGONE)
            hw_unrecorded_conn(c);
        else if (rc == HW_ENOMEM || rc == HW_ESYS) /* ours, not the process's */
            hw_session_fail(s, c->pid, err.text);
        else
            hw_session_warn(s, "process %d is not profiled: %s", c->pid, err.text);
        (void)answer(c, HW_WELCOME_NO, -1, /* strip = */ false); /* closing says the same */
        hw_conn_close(c);
        return;
    }
    hw_conn_release(c);
}

static void on_conn(struct hw_watch *w, uint32_t events)
{
    struct hw_conn *c = HW_OWNER_OF(w, struct hw_conn, watch);
    if (c->closed)
        return;
    if (!c->has_hello && (events & EPOLLIN)) {
        bool carries;
        ssize_t n = hw_fd_peek(w->fd, &c->hello, sizeof c->hello, &carries);
        if (n >= 0 && carries) { /* no client of ours sends any */
            hw_conn_close(c);
            return;
        }
        n = recv(w->fd, &c->hello, sizeof c->hello, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        c->has_hello = true;
        /* A process that did not wait for us gets nothing: what a target needs takes longer to
         * prepare than the next try of the same process takes to arrive. */
        bool good = hello_is_good(&c->hello, n);
        if (is_other_version(&c->hello, n))
            refuse_version(c);
        c->hello.version = agreed_version(&c->hello);
        if (!good || (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))) {
            if (good)
                hw_unrecorded_conn(c);
            hw_conn_close(c);
            return;
        }
        /* From here on only its end matters. */
        struct epoll_event e = {.events = EPOLLRDHUP, .data.ptr = w};
        (void)epoll_ctl(c->rec->epoll_fd, EPOLL_CTL_MOD, w->fd, &e); /* it is in the set */
        decide(c);
        return;
    }
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        hw_conn_close(c);
}

/* ---- listening sockets ---- */

/* The listening sockets would wake us for ever: the tick checks them again. */
static void rest_from_accepting(struct hw_recorder *r)
{
    r->accept_paused = true;
    r->accept_again_ns = hw_now_monotonic_ns() + ACCEPT_PAUSE_NS;
    hw_watch_remove(r, &r->producers);
    hw_watch_remove(r, &r->consumers);
    hw_namespace_sockets_rest(r);
}

int hw_accept(struct hw_recorder *r, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return fd;
    int e = errno;
    if (e == EMFILE || e == ENFILE)
        say_no_descriptors(r, hw_now_monotonic_ns());
    rest_from_accepting(r); /* also without memory: those that wait there still wait */
    errno = e;
    return -1;
}

void hw_hello_tick(struct hw_recorder *r, uint64_t now)
{
    if (!r->accept_paused || now < r->accept_again_ns)
        return;
    r->accept_paused = false; /* until nothing has changed */
    /* Already in the set is fine. */
    (void)hw_watch_add(r, &r->producers, EPOLLIN);
    if (r->consumers.fd >= 0)
        (void)hw_watch_add(r, &r->consumers, EPOLLIN);
    hw_namespace_sockets_go_on(r);
}

void hw_hello_limit(struct hw_recorder *r)
{
    struct rlimit l;
    uint64_t n =
        getrlimit(RLIMIT_NOFILE, &l) < 0 ? MAX_CONNS : l.rlim_cur / CONN_FILES / CONNS_SHARE;
    r->max_conns = n > MAX_CONNS ? MAX_CONNS : n < MIN_CONNS ? MIN_CONNS : (uint32_t)n;
    r->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* One user's connections leave room for the others'. */
static bool user_has_enough(const struct hw_recorder *r, uint32_t uid)
{
    size_t most = r->max_conns / USER_SHARE, n = 0;
    if (r->embedded || uid == 0 || uid == geteuid() || r->conns.n < most)
        return false;
    for (size_t i = 0; i < r->conns.n; i++)
        n += r->conns.v[i]->uid == uid && !r->conns.v[i]->closed;
    return n >= most;
}

bool hw_hello_accept(struct hw_recorder *r, int listener,
                     const struct hw_namespace_socket *ns_socket)
{
    for (int k = 0; k < MAX_A_ROUND; k++) {
        int fd = hw_accept(r, listener);
        if (fd < 0)
            return false;
        struct ucred cred;
        socklen_t n = sizeof cred;
        bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0;
        bool enough = known && user_has_enough(r, cred.uid);
        struct hw_conn *c = NULL;
        if (known && !enough && r->conns.n < r->max_conns)
            c = calloc(1, sizeof *c);
        if (!c) {
            if (enough)
                hw_connection_limit_refused(r, cred.uid);
            else if (r->conns.n >= r->max_conns)
                say_no_descriptors(r, hw_now_monotonic_ns());
            hw_blocking_fd_close(fd); /* refused */
            continue;
        }
        *c = (struct hw_conn){.rec = r,
                              .ns_socket = ns_socket,
                              .uid = cred.uid,
                              .pid = cred.pid,
                              .since_ns = hw_now_monotonic_ns(),
                              .page = {.fd = -1}};
        c->watch = (struct hw_watch){fd, on_conn};
        if (hw_vec_push(&r->conns, c) < 0 || hw_watch_add(r, &c->watch, EPOLLIN | EPOLLRDHUP) < 0)
            hw_conn_close(c);
    }
    return true;
}

bool hw_hello_read(struct hw_recorder *r)
{
    bool more = hw_hello_accept(r, r->producers.fd, /* ns_socket = */ NULL);
    more |= hw_namespace_sockets_accept(r);
    for (size_t i = 0; i < r->conns.n; i++) {
        struct hw_conn *c = r->conns.v[i];
        struct pollfd p = {.fd = c->watch.fd, .events = POLLIN | POLLRDHUP};
        if (!c->closed && !c->has_hello && poll(&p, 1, 0) > 0)
            on_conn(&c->watch, (uint32_t)p.revents); /* poll's bits are those of epoll */
    }
    return more;
}

static void on_listen(struct hw_watch *w, uint32_t events)
{
    (void)events; /* the rest waits for the next turn */
    (void)hw_hello_accept(HW_OWNER_OF(w, struct hw_recorder, producers), w->fd,
                          /* ns_socket = */ NULL);
}

/* Of two commands without a service one has the usual name. Running processes are told the name
 * where they find us, so the other one does not need a known name. */
static int listen_elsewhere(struct hw_recorder *r, const char *taken, struct hw_error *err)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = hw_now_monotonic_ns();
    (void)snprintf(r->taken_name, sizeof r->taken_name, "%s", taken);
    (void)snprintf(r->producer_name, sizeof r->producer_name, "@heapwise-%d-%016llx", (int)getpid(),
                   (unsigned long long)random);
    return hw_listen(r->producer_name, err);
}

int hw_hello_listen(struct hw_recorder *r, const char *name, struct hw_error *err)
{
    int fd = r->embedded
                 ? -1
                 : hw_activation_take("producer", r->producer_name, sizeof r->producer_name);
    r->activated = fd >= 0;
    if (!r->activated) {
        (void)snprintf(r->producer_name, sizeof r->producer_name, "%s", name);
        fd = r->embedded ? hw_listen_behind_another(name, err) : hw_listen(name, err);
        if (fd == HW_EBUSY && r->embedded)
            fd = listen_elsewhere(r, name, err);
        if (fd < 0) {
            r->producer_name[0] = '\0'; /* what is there now is not ours to remove */
            return fd;
        }
    }
    r->accept_at = hw_hello_accept;
    r->producers = (struct hw_watch){fd, on_listen};
    return hw_watch_add(r, &r->producers, EPOLLIN);
}
