/*
 * clients.c - connections from targets, from connect to "wanted by a session" or "wait"
 *
 * A connection says hello once. Afterwards nothing is read from it: only its end matters, and with
 * the end of a waiting client its control page goes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fd_send.h"
#include "base/log.h"
#include "daemon/activation.h"
#include "daemon/core.h"
#include "proc/number.h"

#include "base/banned.h"

#define HELLO_NS        UINT64_C(5000000000) /* a client that says nothing is dropped */
#define ACCEPT_PAUSE_NS UINT64_C(500000000)
#define MAX_CONNS       16384u
#define MAX_CONNS_USER  4096u /* root excepted, and an embedded recorder's */
#define FILTERS_EVERY   UINT64_C(1000000000)
#define MAX_TASKS       256
#define MAX_A_ROUND     256 /* new clients, then the others have their turn */
#define PAGE_SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- the control page ---- */

int hw_page_init(struct hw_page *p, const char *socket_path)
{
    *p = (struct hw_page){.fd = memfd_create("hw-control", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (p->fd < 0 || ftruncate(p->fd, HW_CONTROL_BYTES) < 0)
        goto fail;
    p->map = mmap(NULL, HW_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (p->map == MAP_FAILED) {
        p->map = NULL;
        goto fail;
    }
    p->map->magic = HW_CONTROL_MAGIC;
    p->map->version = HW_WIRE_VERSION;
    atomic_store(&p->map->heartbeat_ns, hw_now_monotonic_coarse_ns());
    (void)snprintf(p->map->socket_path, sizeof p->map->socket_path, "%s", socket_path);
    if (fcntl(p->fd, F_ADD_SEALS, PAGE_SEALS) < 0)
        goto fail;
    return HW_OK;
fail:
    hw_page_done(p);
    return HW_ESYS;
}

void hw_page_done(struct hw_page *p)
{
    if (p->map)
        (void)munmap(p->map, HW_CONTROL_BYTES); /* cannot fail on a mapping of ours */
    if (p->fd >= 0)
        (void)close(p->fd); /* memory only */
    *p = (struct hw_page){.fd = -1};
}

/* ---- what the target's kernel lets us do there ---- */

struct hw_filters hw_filters_of(int proc_dir, bool all_threads)
{
    struct hw_proc_status st;
    struct hw_filters f = {0};
    if (hw_proc_status(proc_dir, &st) == HW_OK)
        f = (struct hw_filters){st.seccomp, st.seccomp_filters};
    if (!all_threads)
        return f;
    hw_autofd int tasks = openat(proc_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = tasks < 0 ? NULL : fdopendir(dup(tasks));
    const struct dirent *e;
    for (int n = 0; d && n < MAX_TASKS && (e = readdir(d)); n++) {
        hw_autofd int task =
            e->d_name[0] == '.' ? -1 : openat(tasks, e->d_name, O_PATH | O_CLOEXEC);
        if (task < 0 || hw_proc_status(task, &st) < 0)
            continue;
        if (st.seccomp == 1 || st.seccomp_filters > f.n || (f.seccomp == 0 && st.seccomp != 0))
            f = (struct hw_filters){st.seccomp, st.seccomp_filters};
    }
    if (d)
        (void)closedir(d); /* it was only read */
    return f;
}

bool hw_page_look(struct hw_page *p, int proc_dir, const struct hw_filters *before,
                  bool all_threads)
{
    struct hw_filters now = hw_filters_of(proc_dir, all_threads);
    if (now.seccomp == before->seccomp && now.n <= before->n)
        return false;
    if (p->map)
        atomic_store(&p->map->sandbox, now.seccomp == 1 ? HW_SANDBOX_STRICT : HW_SANDBOX_FILTER);
    return true;
}

/* ---- answers that are not "profile" ---- */

static bool answer(int fd, enum hw_welcome_status status, int page_fd, bool strip)
{
    struct hw_welcome w = {.magic = HW_WELCOME_MAGIC, .version = HW_WIRE_VERSION, .status = status};
    w.config.flags = strip ? HW_CC_STRIP_ENV : 0;
    return hw_fd_send(fd, &w, sizeof w, &page_fd, page_fd >= 0, MSG_DONTWAIT) == HW_OK;
}

static void conn_close(struct hw_conn *c)
{
    if (c->closed)
        return;
    hw_watch_remove(c->rec, &c->watch);
    if (c->watch.fd >= 0)
        (void)close(c->watch.fd); /* nothing is pending on it */
    c->watch.fd = -1;
    hw_page_done(&c->page);
    c->closed = true; /* freed by the next tick: events of this round may still name it */
}

/* The session's descriptor moves on; the connection's object ends. */
static void conn_release(struct hw_conn *c)
{
    hw_watch_remove(c->rec, &c->watch);
    c->watch.fd = -1;
    conn_close(c);
}

/*
 * Who is below a program that is no starter is not meant, nor is anybody below that: such a process
 * may take our variables out of its environment. Not so the ones we only failed to profile.
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
    bool later = !c->rec->embedded || hw_start_awaits(c->rec, c->pid);
    if (!later || hw_page_init(&c->page, hw_door_name(c->rec, c->door)) < 0) {
        (void)answer(c->watch.fd, HW_WELCOME_NO, -1,
                     nobody_below(c->rec)); /* closing says "no" too */
        conn_close(c);
        return;
    }
    if (!answer(c->watch.fd, HW_WELCOME_WAIT, c->page.fd, /* strip = */ false)) {
        conn_close(c);
        return;
    }
    c->waiting = true;
}

/* Ours, or the 32-bit one beside it. */
static bool arch_is_good(uint32_t arch)
{
    return arch == HW_ARCH_HERE || (HW_ARCH_HERE == HW_ARCH_X86_64 && arch == HW_ARCH_X86);
}

static bool hello_is_good(const struct hw_hello *h, ssize_t n)
{
    return n == sizeof *h && h->magic == HW_HELLO_MAGIC && h->version == HW_WIRE_VERSION &&
           arch_is_good(h->arch);
}

static void decide(struct hw_conn *c)
{
    struct hw_pid pid;
    struct hw_proc_status st;
    struct hw_session *s;
    uint32_t source;
    struct hw_error err = {0};
    if (hw_pid_open_peer(c->watch.fd, c->pid, &pid, &err) < 0) {
        conn_close(c);
        return;
    }
    c->filters = hw_filters_of(pid.dir, /* all_threads = */ true);
    bool wanted =
        hw_proc_status(pid.dir, &st) == HW_OK && hw_sessions_match(c->rec, c, &pid, &s, &source);
    hw_pid_done(&pid);
    if (!wanted) {
        keep_waiting(c);
        return;
    }
    struct hw_target *t;
    if (hw_target_new(s, source, c, &t, &err) < 0) {
        hw_session_warn(s, "pid %d is not profiled: %s", c->pid, err.text);
        (void)answer(c->watch.fd, HW_WELCOME_NO, -1,
                     /* strip = */ false); /* closing says the same */
        conn_close(c);
        return;
    }
    conn_release(c);
}

static void on_conn(struct hw_watch *w, uint32_t events)
{
    struct hw_conn *c = HW_OWNER_OF(w, struct hw_conn, watch);
    if (c->closed)
        return;
    if (!c->heard && (events & EPOLLIN)) {
        ssize_t n = recv(w->fd, &c->hello, sizeof c->hello, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        c->heard = true;
        /* One that did not wait for us gets nothing: what a target needs takes longer to make than
         * it takes the next try of the same process to arrive. */
        if (!hello_is_good(&c->hello, n) || (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))) {
            conn_close(c);
            return;
        }
        /* From here on only the end is of interest. */
        struct epoll_event e = {.events = EPOLLRDHUP, .data.ptr = w};
        (void)epoll_ctl(c->rec->epoll_fd, EPOLL_CTL_MOD, w->fd, &e); /* it is in the set */
        decide(c);
        return;
    }
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        conn_close(c);
}

/* The listening sockets would wake us for ever: they are looked at again by the tick. */
static void no_descriptors(struct hw_recorder *r)
{
    if (!r->accept_paused)
        for (size_t i = 0; i < r->sessions.n; i++)
            hw_session_warn(r->sessions.v[i],
                            "no more descriptors: further processes are not profiled (%zu are); "
                            "raise the limit (ulimit -n)",
                            r->targets.n);
    r->accept_paused = true;
    r->accept_again_ns = hw_now_monotonic_ns() + ACCEPT_PAUSE_NS;
    hw_watch_remove(r, &r->producers);
    hw_watch_remove(r, &r->consumers);
    hw_doors_rest(r);
}

int hw_accept(struct hw_recorder *r, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        no_descriptors(r);
    return fd;
}

/* One user's connections leave room for the others'. */
static bool user_has_enough(const struct hw_recorder *r, uint32_t uid)
{
    if (r->embedded || uid == 0 || r->conns.n < MAX_CONNS_USER)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < r->conns.n; i++)
        n += r->conns.v[i]->uid == uid && !r->conns.v[i]->closed;
    return n >= MAX_CONNS_USER;
}

void hw_clients_accept(struct hw_recorder *r, int listener, const struct hw_door *door)
{
    for (int k = 0; k < MAX_A_ROUND; k++) {
        hw_autofd int fd = hw_accept(r, listener);
        if (fd < 0)
            return;
        struct ucred cred;
        socklen_t n = sizeof cred;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0 || r->conns.n >= MAX_CONNS ||
            user_has_enough(r, cred.uid))
            continue;
        struct hw_conn *c = calloc(1, sizeof *c);
        if (!c)
            continue;
        *c = (struct hw_conn){.rec = r,
                              .door = door,
                              .uid = cred.uid,
                              .pid = cred.pid,
                              .since_ns = hw_now_monotonic_ns(),
                              .page = {.fd = -1}};
        c->watch = (struct hw_watch){hw_fd_take(&fd), on_conn};
        if (hw_vec_push(&r->conns, c) < 0 || hw_watch_add(r, &c->watch, EPOLLIN | EPOLLRDHUP) < 0)
            conn_close(c);
    }
}

static void on_listen(struct hw_watch *w, uint32_t events)
{
    (void)events;
    hw_clients_accept(HW_OWNER_OF(w, struct hw_recorder, producers), w->fd, /* door = */ NULL);
}

int hw_listen(const char *name, struct hw_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len == 0 || len >= sizeof a.sun_path)
        return hw_fail(err, HW_EINVAL, 0, "socket name '%s' is empty or too long", name);
    memcpy(a.sun_path, name, len);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
    bool abstract = name[0] == '@';
    if (abstract) {
        a.sun_path[0] = '\0';
        size--;
    }
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return hw_fail_sys(err, "socket");
    if (bind(fd, (struct sockaddr *)&a, size) < 0) {
        if (errno != EADDRINUSE || abstract)
            return hw_fail_sys(err, "cannot listen on '%s'", name);
        struct stat st;
        if (lstat(name, &st) == 0 && !S_ISSOCK(st.st_mode))
            return hw_fail(err, HW_EINVAL, 0, "'%s' exists and is no socket", name);
        /* EAGAIN: somebody listens and does not accept; waiting for him could last for ever. */
        hw_autofd int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (probe >= 0 && (connect(probe, (struct sockaddr *)&a, size) == 0 || errno == EAGAIN))
            return hw_fail(err, HW_EBUSY, 0, "'%s' is in use by a running service", name);
        if (unlink(name) < 0 || bind(fd, (struct sockaddr *)&a, size) < 0)
            return hw_fail_sys(err, "cannot listen on '%s'", name);
    }
    if (!abstract)
        (void)chmod(name, 0666); /* who may do what is decided by peer credentials */
    if (listen(fd, 1024) < 0)
        return hw_fail_sys(err, "cannot listen on '%s'", name);
    return hw_fd_take(&fd);
}

int hw_clients_listen(struct hw_recorder *r, const char *name, struct hw_error *err)
{
    int fd = r->embedded
                 ? -1
                 : hw_activation_take("producer", r->producer_name, sizeof r->producer_name);
    r->activated = fd >= 0;
    if (!r->activated) {
        fd = hw_listen(name, err);
        if (fd < 0)
            return fd;
        (void)snprintf(r->producer_name, sizeof r->producer_name, "%s", name);
    }
    r->producers = (struct hw_watch){fd, on_listen};
    return hw_watch_add(r, &r->producers, EPOLLIN);
}

/* A session has begun that may mean it: it shakes hands at its next allocation. */
static bool is_called(const struct hw_conn *c)
{
    return atomic_load_explicit(&c->page.map->generation, memory_order_relaxed) != 0;
}

/* A handshake would now be the end of it. */
static bool is_closed_in(struct hw_conn *c, bool all_threads)
{
    hw_autofd int dir = hw_proc_open_dir(c->pid);
    return dir < 0 || hw_page_look(&c->page, dir, &c->filters, all_threads);
}

void hw_clients_tick(struct hw_recorder *r, uint64_t now)
{
    if (r->accept_paused && now >= r->accept_again_ns) {
        r->accept_again_ns = now + ACCEPT_PAUSE_NS;
        /* Paused again when nothing changed; already in the set is fine. */
        (void)hw_watch_add(r, &r->producers, EPOLLIN);
        if (r->consumers.fd >= 0)
            (void)hw_watch_add(r, &r->consumers, EPOLLIN);
        hw_doors_go_on(r);
    }
    for (size_t i = 0; i < r->conns.n;) {
        struct hw_conn *c = r->conns.v[i];
        if (!c->closed && !c->heard && now - c->since_ns > HELLO_NS)
            conn_close(c);
        if (c->closed) {
            free(c);
            r->conns.v[i] = r->conns.v[--r->conns.n];
            continue;
        }
        if (c->waiting &&
            now - c->filters_ns > (is_called(c) ? FILTERS_EVERY / 4 : FILTERS_EVERY)) {
            c->filters_ns = now;
            (void)is_closed_in(c, /* all_threads = */ false); /* then its page says so */
        }
        if (c->waiting)
            atomic_store_explicit(&c->page.map->heartbeat_ns, hw_now_monotonic_coarse_ns(),
                                  memory_order_relaxed);
        i++;
    }
}

void hw_clients_wake(struct hw_recorder *r)
{
    uint32_t generation = ++r->next_generation;
    for (size_t i = 0; i < r->conns.n; i++) {
        struct hw_conn *c = r->conns.v[i];
        if (c->waiting && !c->closed && !is_closed_in(c, /* all_threads = */ true))
            atomic_store_explicit(&c->page.map->generation, generation, memory_order_release);
    }
}

bool hw_clients_wake_one(struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->conns.n; i++) {
        struct hw_conn *c = r->conns.v[i];
        if (c->pid != pid || !c->waiting || c->closed)
            continue;
        if (!is_closed_in(c, /* all_threads = */ true))
            atomic_store_explicit(&c->page.map->generation, ++r->next_generation,
                                  memory_order_release);
        return true;
    }
    return false;
}

void hw_clients_take_back(struct hw_target *t)
{
    struct hw_recorder *r = t->rec;
    /* One that was never welcomed does not know this page. */
    bool alive = t->welcomed && t->watch.fd >= 0 && t->page.map && t->end != HW_END_EXITED &&
                 t->end != HW_END_EXECED && hw_pid_alive(&t->pid);
    if (r->embedded || r->stopping || !alive || t->socket_closed || r->conns.n >= MAX_CONNS)
        return;
    struct hw_conn *c = calloc(1, sizeof *c);
    if (!c)
        return; /* it stays silent from now on */
    *c = (struct hw_conn){.rec = r,
                          .door = t->door,
                          .uid = t->uid,
                          .pid = t->pid.pid,
                          .since_ns = hw_now_monotonic_ns(),
                          .heard = true,
                          .waiting = true,
                          .hello = t->hello,
                          .page = t->page,
                          .filters = t->filters};
    if (hw_vec_push(&r->conns, c) < 0) {
        free(c);
        return;
    }
    hw_watch_remove(r, &t->watch);
    c->watch = (struct hw_watch){t->watch.fd, on_conn};
    t->watch.fd = -1;
    t->page = (struct hw_page){.fd = -1};
    (void)hw_watch_add(r, &c->watch, EPOLLRDHUP); /* without: its end is not noticed */
}

void hw_clients_done(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->conns.n; i++) {
        struct hw_conn *c = r->conns.v[i];
        if (c->waiting && c->page.map)
            atomic_store(&c->page.map->ended, 1);
        conn_close(c);
        free(c);
    }
    hw_vec_done(&r->conns);
    if (r->producers.fd >= 0) {
        (void)close(r->producers.fd); /* no more clients */
        if (!r->activated && r->producer_name[0] != '@' && r->producer_name[0] != '\0')
            (void)unlink(r->producer_name); /* the next start removes it too */
    }
}
