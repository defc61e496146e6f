/*
 * command_connection.c - messages of commands (wire/control.h)
 *
 * A connection starts at most one session and owns it: when it ends, the session is stopped and its
 * dumps are written (a command that died must not leave targets slowed for ever).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/log.h"
#include "daemon/clients/activation.h"
#include "daemon/clients/blocking_fd.h"
#include "daemon/clients/listen.h"
#include "daemon/core.h"
#include "daemon/hello.h"
#include "daemon/policy/permission.h"

#include "base/banned.h"

#define MAX_CONTROLS  256u
#define MAX_OF_USER   64u /* root excepted */
#define KEPT_FOR_ROOT 16u
#define MAX_A_ROUND   16 /* messages of one command, then the others have their turn */

static void close_conn(struct hw_control_conn *c)
{
    if (c->closed)
        return;
    hw_watch_remove(c->rec, &c->watch);
    hw_blocking_fd_close(c->watch.fd); /* the peer is gone or broke the rules */
    c->watch.fd = -1;
    c->closed = true;
    hw_pid_done(&c->root);
    hw_dumps_forget(c);
    hw_control_drop_unsent(c);
    if (c->controller)
        c->rec->controller_gone = true;
    if (c->session) {
        c->session->control = NULL;
        hw_session_stop(c->session, "the requesting command has ended");
        c->session = NULL;
    }
}

/* ---- requests ---- */

/* Of the process that asks, as of when it connected. */
static int may_record(const struct hw_control_conn *c, struct hw_error *err)
{
    uint32_t groups[256];
    socklen_t size = sizeof groups - sizeof groups[0];
    struct ucred cred;
    socklen_t cred_size = sizeof cred;
    if (c->controller)
        return HW_OK; /* the recorder is its own */
    if (getsockopt(c->watch.fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
        size = 0; /* more than that, or an old kernel: only the first one counts */
    size_t n = size / sizeof groups[0];
    if (getsockopt(c->watch.fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_size) == 0)
        groups[n++] = cred.gid;
    return hw_permission_record(&c->rec->policy, c->uid, groups, n, err);
}

static void on_start(struct hw_control_conn *c, struct hw_bytes body, int *fd)
{
    struct hw_control_start start;
    struct hw_error err = {0};
    if (body.n < sizeof start) {
        close_conn(c);
        return;
    }
    memcpy(&start, body.p, sizeof start);
    struct hw_bytes config = hw_bytes_of(body.p + sizeof start, body.n - sizeof start);
    if (config.n != start.config_bytes) {
        close_conn(c);
        return;
    }
    if (c->rec->embedded && !c->controller) {
        hw_control_fail(c, "this recorder takes orders only from the command that started it");
        return;
    }
    if (c->session || *fd < 0) {
        hw_control_fail(c, c->session ? "this connection already has a session"
                                      : "no output file was passed");
        return;
    }
    struct stat st;
    int flags = fcntl(*fd, F_GETFL);
    if (fstat(*fd, &st) < 0 || flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
        hw_control_fail(c, "the output file is not open for writing");
        return;
    }
    bool is_null = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3); /* only live views wanted */
    if (!S_ISREG(st.st_mode) && !is_null) { /* a full pipe would stop the recorder for everybody */
        hw_control_fail(c, "the output is not a regular file");
        return;
    }
    struct hw_session *s;
    if (may_record(c, &err) < 0) {
        hw_control_fail_as(c, &err);
        return;
    }
    if (hw_session_new(c->rec, &start, config, hw_fd_take(fd), c->uid, c, &s, &err) < 0) {
        hw_control_fail_as(c, &err);
        return;
    }
    c->session = s;
}

static void on_target(struct hw_control_conn *c, struct hw_bytes body)
{
    struct hw_control_target t;
    struct hw_pid command = HW_PID_NONE, root;
    struct hw_error err = {0};
    if (body.n != sizeof t || c->session) {
        close_conn(c);
        return;
    }
    memcpy(&t, body.p, sizeof t);
    int rc = hw_pid_open_peer(c->watch.fd, c->pid, &command, &err);
    if (rc == HW_OK && (rc = hw_pid_open(t.pid, &root, &err)) == HW_OK) {
        rc = hw_launch_check(&command, &root, &err);
        hw_pid_done(rc == HW_OK ? &c->root : &root);
        c->root = rc == HW_OK ? root : c->root;
    }
    if (rc < 0)
        hw_control_fail_as(c, &err);
    hw_pid_done(&command);
}

static void dispatch(struct hw_control_conn *c, const struct hw_control_head *h,
                     struct hw_bytes body, int *fd)
{
    struct hw_session *s;
    switch (h->type) {
    case HW_CTL_START:
        on_start(c, body, fd);
        break;
    case HW_CTL_STOP:
        s = hw_control_session(c, h->session);
        if (s && s->stopping)
            hw_session_hurry(s);
        else if (s)
            hw_session_stop(s, "stopped");
        else
            hw_control_fail(c, "no such session");
        break;
    case HW_CTL_DUMP:
        if (body.n % sizeof(int32_t))
            close_conn(c);
        else
            hw_handle_dump(c, h->session, body);
        break;
    case HW_CTL_STATUS:
        hw_control_status(c);
        break;
    case HW_CTL_TARGET:
        on_target(c, body);
        break;
    case HW_CTL_DETACH:
        hw_session_detach(c, body);
        break;
    case HW_CTL_ATTACH:
        hw_session_attach(c, body);
        break;
    case HW_CTL_CLONE:
        hw_session_clone(c, h->session, body);
        break;
    case HW_CTL_LIVE:
        hw_handle_live_view(c, body);
        break;
    case HW_CTL_LEAVE:
        hw_handle_exclude(c, h->session, body);
        break;
    case HW_CTL_RATE:
        hw_handle_rate(c, h->session, body);
        break;
    case HW_CTL_MARK:
        hw_handle_mark(c, h->session, body);
        break;
    case HW_CTL_FLUSH: /* every packet is written when it is complete: nothing is held back */
        break;
    default: /* a number from outside */
        close_conn(c);
        break;
    }
}

static void on_message(struct hw_control_conn *c, struct hw_bytes message, int *fd)
{
    struct hw_control_head h;
    if (message.n >= sizeof h)
        memcpy(&h, message.p, sizeof h);
    if (message.n < sizeof h || h.length != message.n - sizeof h) {
        close_conn(c);
        return;
    }
    if (h.version != HW_CONTROL_VERSION) {
        hw_control_fail(c, "the recorder is of another version of heapwise: restart the service, "
                           "or use its version's commands");
        close_conn(c);
        return;
    }
    dispatch(c, &h, hw_bytes_of(message.p + sizeof h, h.length), fd);
}

/* This thread must neither inspect nor close what strangers pass. */
static ssize_t receive(struct hw_control_conn *c, uint8_t *buffer, size_t max, int *fd)
{
    struct hw_control_head h = {0};
    struct hw_error err;
    bool carries = false, is_stranger = !c->controller && c->uid != geteuid();
    if (is_stranger)
        (void)hw_fd_peek(c->watch.fd, &h, sizeof h, &carries);
    if (!carries)
        return hw_fd_receive(c->watch.fd, buffer, max, fd, is_stranger ? 0 : 1, MSG_DONTWAIT);
    ssize_t n;
    if (h.type != HW_CTL_START)
        return 0; /* no other has one */
    if (hw_blocking_fd_take(c->watch.fd, c->uid, buffer, max, &n, fd, &err) < 0) {
        hw_control_fail_as(c, &err);
        return 0;
    }
    return n;
}

static void on_control(struct hw_watch *w, uint32_t events)
{
    struct hw_control_conn *c = HW_OWNER_OF(w, struct hw_control_conn, watch);
    static uint8_t buffer[HW_CONTROL_MAX_BYTES + sizeof(struct hw_control_head)]; /* one thread */
    if ((events & EPOLLOUT) && !c->closed)
        hw_control_flush(c);
    for (int k = 0; k < MAX_A_ROUND && !c->closed; k++) {
        hw_autofd int fd = -1; /* at most one is meant */
        ssize_t n = receive(c, buffer, sizeof buffer, &fd);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno == EMSGSIZE)
            hw_control_fail(c, "the message is too long, or the recorder has no more descriptors "
                               "for the file that came with it (ulimit -n, LimitNOFILE=)");
        if (n <= 0) { /* the end, or against the rules */
            close_conn(c);
            return;
        }
        on_message(c, hw_bytes_of(buffer, (size_t)n), &fd);
    }
}

/* Half of what the kernel uses by default is less than one of our messages may have. */
static void make_room(int fd)
{
    int room = HW_CONTROL_MAX_BYTES;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room); /* else large ones are lost */
}

static bool user_has_enough(const struct hw_recorder *r, uint32_t uid)
{
    size_t n = 0;
    for (size_t i = 0; i < r->controls.n; i++)
        n += r->controls.v[i]->uid == uid && !r->controls.v[i]->closed;
    return uid != 0 && (n >= MAX_OF_USER || r->controls.n >= MAX_CONTROLS - KEPT_FOR_ROOT);
}

/* One that gets no connection of its own. */
static void refuse(int fd, const char *text)
{
    struct hw_control_head h = {
        .version = HW_CONTROL_VERSION, .type = HW_CTL_ERROR, .length = (uint32_t)strlen(text)};
    struct iovec iov[] = {{&h, sizeof h}, {(void *)(uintptr_t)text, h.length}};
    const struct msghdr m = {.msg_iov = iov, .msg_iovlen = HW_ARRAY_LEN(iov)};
    (void)sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT); /* the end says something, too */
    hw_blocking_fd_close(fd);
}

int hw_control_add(struct hw_recorder *r, int fd, bool controller)
{
    struct hw_requester who;
    int32_t pid;
    struct hw_control_conn *c = calloc(1, sizeof *c);
    if (!c || hw_requester_peer(fd, &who, &pid) < 0 || r->controls.n >= MAX_CONTROLS ||
        user_has_enough(r, who.uid) || hw_vec_push(&r->controls, c) < 0) {
        free(c);
        refuse(fd, "too many commands are connected to the recorder, or too many of yours");
        return HW_ELIMIT;
    }
    *c = (struct hw_control_conn){.rec = r,
                                  .who = who,
                                  .uid = who.uid,
                                  .pid = pid,
                                  .root = HW_PID_NONE,
                                  .controller = controller};
    c->watch = (struct hw_watch){fd, on_control};
    make_room(fd);
    return hw_watch_add(r, &c->watch, EPOLLIN);
}

/* Silence would look like a recorder that hangs: with the spare descriptor those that wait are
 * told, one after the other. */
static void refuse_all(struct hw_recorder *r, int listener)
{
    if (r->spare_fd < 0)
        return;
    (void)close(r->spare_fd); /* /dev/null */
    for (unsigned k = 0; k < MAX_CONTROLS; k++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        refuse(fd, "the recorder has no more descriptors: raise its limit (ulimit -n, "
                   "LimitNOFILE=)");
    }
    r->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_listen(struct hw_watch *w, uint32_t events)
{
    struct hw_recorder *r = HW_OWNER_OF(w, struct hw_recorder, consumers);
    (void)events;
    for (int k = 0; k < MAX_A_ROUND; k++) {
        int fd = hw_accept(r, w->fd);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            refuse_all(r, w->fd);
        if (fd < 0)
            return;
        (void)hw_control_add(r, fd, /* controller = */ false); /* refused: closed there */
    }
}

int hw_control_listen(struct hw_recorder *r, const char *name, struct hw_error *err)
{
    char path[108];
    int fd = r->embedded ? -1 : hw_activation_take("consumer", path, sizeof path);
    if (fd < 0)
        fd = hw_listen(name, err);
    if (fd < 0)
        return fd;
    r->consumers = (struct hw_watch){fd, on_listen};
    return hw_watch_add(r, &r->consumers, EPOLLIN);
}

void hw_control_done(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->controls.n; i++) {
        close_conn(r->controls.v[i]);
        free(r->controls.v[i]);
    }
    hw_vec_done(&r->controls);
    if (r->consumers.fd >= 0)
        (void)close(r->consumers.fd); /* no more commands */
}
