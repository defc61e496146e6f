/*
 * The embedded recorder is this program executed again, not just forked: it has a clean address
 * space without the command's buffers, and `ps` and `killall` see it as heapprofd. It has its own
 * process group, so that Ctrl-C reaches the program and the command, not the recorder.
 */
#include "record/controller.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "daemon/recorder.h"
#include "wire/handshake.h"

#include "base/banned.h"

enum { CONNECT_S = 2 };

struct hw_controller {
    int fd;
    pid_t child; /* 0 = a service */
    char socket[108];
    bool abandoned;
    int received; /* a descriptor that came with the last message; -1 */
    uint8_t message[sizeof(struct hw_control_head) + HW_CONTROL_MAX_BYTES];
};

static int controller_new(int fd, struct hw_controller **out, struct hw_error *err)
{
    int room = HW_CONTROL_MAX_BYTES; /* the default is too small for a large configuration */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    struct hw_controller *c = calloc(1, sizeof *c);
    if (!c)
        return hw_fail(err, HW_ENOMEM, 0, "connection to the recorder");
    c->fd = fd;
    c->received = -1;
    *out = c;
    return HW_OK;
}

/*
 * Readers of the command's output must not have to wait for its recorder, and a hangup must not
 * reach it.
 */
static bool leave_terminal(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setsid(); /* a new child leads no group, so this cannot fail */
    return null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 &&
           chdir("/") == 0;
}

/* In the child: only exec follows, so nothing here may allocate or lock. */
static void child_exec(int fd, char *const argv[], bool apart)
{
    sigset_t none;
    sigemptyset(&none);
    if (!apart)
        (void)setpgid(0, 0);
    if (apart && !leave_terminal())
        _exit(127);
    (void)signal(SIGTTOU, SIG_IGN); /* it may write although it is in the background */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (fcntl(fd, F_SETFD, 0) == 0)
        (void)execv("/proc/self/exe", argv);
    _exit(127);
}

/* An unguessable abstract name, which vanishes with the recorder. */
static void choose_socket(char *out, size_t n)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint64_t)getpid();
    (void)snprintf(out, n, "@heapwise-%d-%016llx", (int)getpid(), (unsigned long long)random);
}

static int spawn(const char *socket, const char *policy, bool apart, struct hw_controller **out,
                 struct hw_error *err)
{
    hw_autofree char *policy_copy = policy ? strdup(policy) : NULL;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return hw_fail_sys(err, "socketpair");
    struct hw_controller *c = NULL;
    int rc = controller_new(pair[0], &c, err);
    if (rc < 0)
        goto fail;
    if (socket)
        (void)snprintf(c->socket, sizeof c->socket, "%s",
                       socket); /* too long: the recorder says so */
    else
        choose_socket(c->socket, sizeof c->socket);
    char fd_text[16], fd_option[] = "--embedded", socket_option[] = "--producer-socket";
    char name[] = "heapprofd";
    (void)snprintf(fd_text, sizeof fd_text, "%d", pair[1]); /* a descriptor's number fits */
    char policy_option[] = "--policy";
    char *argv[] = {name, fd_option, fd_text, socket_option, c->socket, NULL, NULL, NULL};
    if (policy_copy) {
        argv[5] = policy_option;
        argv[6] = policy_copy;
    }
    c->child = fork();
    if (c->child < 0) {
        rc = hw_fail_sys(err, "fork");
        goto fail;
    }
    if (c->child == 0)
        child_exec(pair[1], argv, apart);
    (void)close(pair[1]);
    *out = c;
    return HW_OK;
fail:
    free(c);
    (void)close(pair[0]);
    (void)close(pair[1]);
    return rc;
}

int hw_controller_spawn(const char *socket, struct hw_controller **out, struct hw_error *err)
{
    return spawn(socket, NULL, /* apart = */ false, out, err);
}

int hw_controller_spawn_with(const char *socket, const char *policy, struct hw_controller **out,
                             struct hw_error *err)
{
    return spawn(socket, policy, /* apart = */ false, out, err);
}

int hw_controller_spawn_apart(struct hw_controller **out, struct hw_error *err)
{
    return spawn(NULL, NULL, /* apart = */ true, out, err);
}

static int socket_address(const char *name, struct sockaddr_un *a, socklen_t *len,
                          struct hw_error *err)
{
    size_t n = strlen(name);
    if (n == 0 || n >= sizeof a->sun_path)
        return hw_fail(err, HW_EINVAL, 0, "socket name '%s' is too long", name);
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(a->sun_path, name, n);
    if (name[0] == '@')
        a->sun_path[0] = 0;
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (name[0] != '@'));
    return HW_OK;
}

/* The socket may be in /tmp, where anybody can create it first: trust only root or our own uid. */
static int check_peer(int fd, const char *path, struct hw_error *err)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return hw_fail_sys(err, "credentials of '%s'", path);
    if (peer.uid != 0 && peer.uid != geteuid())
        return hw_fail(err, HW_EPERM, 0,
                       "the service at '%s' belongs to user %u, neither root nor you", path,
                       (unsigned)peer.uid);
    return HW_OK;
}

static int connect_to(const char *path, struct hw_controller **out, struct hw_error *err)
{
    struct sockaddr_un address;
    socklen_t length = 0;
    int rc = socket_address(path, &address, &length, err);
    if (rc < 0)
        return rc;
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return hw_fail_sys(err, "socket");
    /* A stopped recorder accepts no connections: with a full queue this would block for ever. */
    struct timeval patience = {.tv_sec = CONNECT_S}, endless = {0};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int connected = connect(fd, (const struct sockaddr *)&address, length);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &endless, sizeof endless);
    if (connected < 0) {
        bool none = errno == ENOENT || errno == ECONNREFUSED;
        if (none)
            return hw_fail(err, HW_ENOTFOUND, 0, "no service listens on '%s'", path);
        struct stat st;
        if (errno == EACCES && stat(path, &st) == 0 && !(st.st_mode & S_IWOTH)) {
            const struct group *g = getgrgid(st.st_gid);
            return hw_fail(err, HW_EPERM, 0,
                           "the service at '%s' is for root and members of group '%s'; `heapwise "
                           "record --` and `heapwise attach` need none",
                           path, g ? g->gr_name : "?");
        }
        return hw_fail_sys(err, "cannot connect to '%s'", path);
    }
    rc = check_peer(fd, path, err);
    if (rc == 0)
        rc = controller_new(fd, out, err);
    if (rc < 0)
        return rc;
    (void)hw_fd_take(&fd);
    (void)snprintf((*out)->socket, sizeof(*out)->socket, "%s", hw_default_producer_socket());
    return HW_OK;
}

/* Root's service listens in /run, a user's own in /tmp if /run is not writable. */
int hw_controller_connect(const char *path, struct hw_controller **out, struct hw_error *err)
{
    static const char root_service[] = "/run/perfetto/traced-consumer.sock";
    if (path)
        return connect_to(path, out, err);
    const char *usual = hw_default_consumer_socket();
    const char *named = secure_getenv("PERFETTO_CONSUMER_SOCK_NAME");
    if (!(named && named[0]) && strcmp(usual, root_service) != 0 &&
        connect_to(root_service, out, NULL) == 0)
        return HW_OK;
    return connect_to(usual, out, err);
}

void hw_controller_abandon(struct hw_controller *c)
{
    c->abandoned = true;
}

void hw_controller_kill(struct hw_controller *c)
{
    if (c->child > 0)
        (void)kill(c->child, SIGKILL); /* not reaped yet, so it is that process */
}

/* It exits by itself once its controller is gone; a stopped one must not block us. */
static void wait_child(pid_t child)
{
    enum { PATIENCE_MS = 20000 };
    hw_autofd int pidfd = pidfd_open(child, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int n = 0;
    if (pidfd >= 0)
        do
            n = poll(&p, 1, PATIENCE_MS);
        while (n < 0 && errno == EINTR);
    (void)waitpid(child, NULL, WNOHANG); /* still running: init takes it over */
}

/* Removes what a killed recorder left behind; daemon/reach/namespace_socket.h. */
static void remove_file(const struct hw_controller *c)
{
    char path[sizeof c->socket + sizeof HW_SOCKET_FILES];
    if (c->socket[0] != '@')
        return;
    (void)snprintf(path, sizeof path, HW_SOCKET_FILES "%s", c->socket + 1);
    (void)unlink(path); /* usually gone already */
}

void hw_controller_free(struct hw_controller *c)
{
    if (!c)
        return;
    (void)close(c->fd);
    if (c->received >= 0)
        (void)close(c->received);
    if (c->child > 0 && !c->abandoned) {
        wait_child(c->child);
        remove_file(c);
    }
    free(c);
}

const char *hw_controller_socket(const struct hw_controller *c)
{
    return c->socket;
}

int hw_controller_pid(const struct hw_controller *c)
{
    return (int)c->child;
}

int hw_controller_fd(const struct hw_controller *c)
{
    return c->fd;
}

/* ---- messages ---- */

struct part {
    const void *p;
    size_t n;
};

/* Head, two parts of the body, at most one descriptor: one packet. */
static int send_message(struct hw_controller *c, enum hw_control_type type, uint64_t session,
                        struct part one, struct part two, int fd, struct hw_error *err)
{
    struct hw_control_head head = {.version = HW_CONTROL_VERSION,
                                   .type = type,
                                   .length = (uint32_t)(one.n + two.n),
                                   .session = session};
    if (one.n + two.n > HW_CONTROL_MAX_BYTES)
        return hw_fail(err, HW_ELIMIT, 0, "a message of %zu bytes to the recorder is too large",
                       one.n + two.n);
    struct iovec iov[] = {
        {&head, sizeof head}, {(void *)(uintptr_t)one.p, one.n}, {(void *)(uintptr_t)two.p, two.n}};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 3};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control.space;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(h), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        return hw_fail(err, HW_EGONE, 0,
                       "the recorder is gone; its last message or the kernel's log says why");
    return n < 0 ? hw_fail_sys(err, "cannot speak to the recorder") : HW_OK;
}

static const struct part nothing = {NULL, 0};

int hw_controller_target(struct hw_controller *c, int pid, struct hw_error *err)
{
    struct hw_control_target t = {.pid = pid};
    return send_message(c, HW_CTL_TARGET, 0, (struct part){&t, sizeof t}, nothing, -1, err);
}

int hw_controller_start(struct hw_controller *c, const struct hw_control_start *start,
                        struct hw_bytes config, int fd, struct hw_error *err)
{
    struct hw_control_start s = *start;
    s.config_bytes = (uint32_t)config.n; /* send_message refuses what does not fit */
    return send_message(c, HW_CTL_START, 0, (struct part){&s, sizeof s},
                        (struct part){config.p, config.n}, fd, err);
}

int hw_controller_stop(struct hw_controller *c, uint64_t session, struct hw_error *err)
{
    return send_message(c, HW_CTL_STOP, session, nothing, nothing, -1, err);
}

int hw_controller_dump(struct hw_controller *c, const int32_t *pids, size_t n, struct hw_error *err)
{
    return send_message(c, HW_CTL_DUMP, 0, (struct part){pids, n * sizeof *pids}, nothing, -1, err);
}

int hw_controller_detach(struct hw_controller *c, const char *key, struct hw_error *err)
{
    return send_message(c, HW_CTL_DETACH, 0, (struct part){key, strlen(key)}, nothing, -1, err);
}

int hw_controller_attach(struct hw_controller *c, const char *key, struct hw_error *err)
{
    return send_message(c, HW_CTL_ATTACH, 0, (struct part){key, strlen(key)}, nothing, -1, err);
}

int hw_controller_clone(struct hw_controller *c, uint64_t id, const char *name,
                        struct hw_error *err)
{
    struct part part = {name, name ? strlen(name) : 0};
    return send_message(c, HW_CTL_CLONE, id, part, nothing, -1, err);
}

int hw_controller_request_live(struct hw_controller *c, const struct hw_control_live_request *look,
                               struct hw_error *err)
{
    return send_message(c, HW_CTL_LIVE, 0, (struct part){look, sizeof *look}, nothing, -1, err);
}

int hw_controller_live(struct hw_controller *c, int32_t pid, struct hw_error *err)
{
    return hw_controller_request_live(c, &(struct hw_control_live_request){.pid = pid}, err);
}

int hw_controller_leave(struct hw_controller *c, uint64_t session, int32_t pid,
                        struct hw_error *err)
{
    return send_message(c, HW_CTL_LEAVE, session, (struct part){&pid, sizeof pid}, nothing, -1,
                        err);
}

int hw_controller_rate(struct hw_controller *c, uint32_t doublings, struct hw_error *err)
{
    return send_message(c, HW_CTL_RATE, 0, (struct part){&doublings, sizeof doublings}, nothing, -1,
                        err);
}

int hw_controller_mark(struct hw_controller *c, uint64_t session, uint64_t boottime_ns,
                       const char *text, struct hw_error *err)
{
    struct hw_control_mark m = {.boottime_ns = boottime_ns};
    return send_message(c, HW_CTL_MARK, session, (struct part){&m, sizeof m},
                        (struct part){text, strlen(text)}, -1, err);
}

int hw_controller_take_fd(struct hw_controller *c)
{
    int fd = c->received;
    c->received = -1;
    return fd;
}

int hw_controller_request_status(struct hw_controller *c, struct hw_error *err)
{
    return send_message(c, HW_CTL_STATUS, 0, nothing, nothing, -1, err);
}

/* recv, with the descriptor that came along. */
static ssize_t receive(struct hw_controller *c)
{
    int fd;
    ssize_t n = hw_fd_receive(c->fd, c->message, sizeof c->message, &fd, 1, MSG_DONTWAIT);
    if (n > 0 && fd >= 0) {
        if (c->received >= 0)
            (void)close(c->received); /* nobody has taken it */
        c->received = fd;
    }
    return n;
}

int hw_controller_next(struct hw_controller *c, int timeout_ms, struct hw_controller_event *out,
                       struct hw_error *err)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    int ready = poll(&p, 1, timeout_ms);
    if (ready == 0 || (ready < 0 && errno == EINTR))
        return 0;
    if (ready < 0)
        return hw_fail_sys(err, "poll");
    ssize_t n = receive(c);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return hw_fail(err, HW_EGONE, 0,
                       "the recorder is gone; its last message or the kernel's log says why");
    if (n < 0)
        return hw_fail_sys(err, "cannot receive from the recorder");
    struct hw_control_head head;
    if ((size_t)n < sizeof head)
        return hw_fail(err, HW_EFORMAT, 0,
                       "the recorder sent a message of %zd bytes, which is too short", n);
    memcpy(&head, c->message, sizeof head);
    if (head.version != HW_CONTROL_VERSION)
        return hw_fail(err, HW_EVERSION, 0, "the service speaks version %u, this command %u",
                       head.version, HW_CONTROL_VERSION);
    if (head.length != (size_t)n - sizeof head)
        return hw_fail(err, HW_EFORMAT, 0, "the recorder sent a damaged message");
    *out = (struct hw_controller_event){(enum hw_control_type)head.type, head.session,
                                        hw_bytes_of(c->message + sizeof head, head.length)};
    return 1;
}

int hw_controller_refused(const struct hw_controller_event *e, struct hw_error *err)
{
    int code = e->session && e->session <= INT16_MAX ? -(int)e->session : HW_EINVAL;
    return hw_fail(err, code, 0, "%.*s", (int)e->body.n, (const char *)e->body.p);
}

int hw_controller_wait(struct hw_controller *c, enum hw_control_type type, int timeout_ms,
                       struct hw_controller_event *out, struct hw_error *err)
{
    uint64_t end = hw_now_monotonic_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        uint64_t now = hw_now_monotonic_ns();
        if (now >= end)
            return hw_fail(err, HW_ETIMEOUT, 0, "the recorder does not answer");
        int rc = hw_controller_next(c, (int)((end - now) / 1000000) + 1, out, err);
        if (rc < 0)
            return rc;
        if (rc > 0 && out->type == HW_CTL_ERROR)
            return hw_controller_refused(out, err);
        if (rc > 0 && out->type == type)
            return HW_OK;
    }
}

bool hw_controller_body(const struct hw_controller_event *e, void *out, size_t n)
{
    if (e->body.n < n)
        return false;
    memcpy(out, e->body.p, n);
    return true;
}
