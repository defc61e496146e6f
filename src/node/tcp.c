/*
 * tcp.c - a line of /proc/net/tcp:
 *
 *      sl  local_address rem_address   st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
 *       0: 0100007F:240D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 41943
 *
 * Addresses are words of 32 bits in this machine's order. A connection is checked at its other end:
 * the accepted socket's row has our address as its own other end, and its inode is among the
 * process's descriptors. Who took over the port in between cannot forge that.
 */
#include "node/tcp.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/files/fd_send.h"
#include "proc/pid.h"
#include "proc/rights/userns.h"

#include "base/banned.h"

enum { ESTABLISHED = 1, LISTENS = 10 };
enum {
    ACCEPT_MS = 5000,
    INSTALL_MS = 500,
    STEP_MS = 5,
    CHILD_S = 2,
    MAX_FDS = 1 << 20,
    MAX_LINE = 256
};
#define MAX_TABLE (64u << 20)

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

/* ---- the table ---- */

static bool read_address(const char *hex, unsigned port, struct hw_tcp_address *out)
{
    size_t n = strlen(hex), at = n == 8 ? sizeof mapped : 0;
    if ((n != 8 && n != 32) || port > UINT16_MAX)
        return false;
    memcpy(out->bytes, mapped, sizeof mapped);
    out->port = (uint16_t)port;
    for (size_t i = 0; i < n; i += 8, at += 4) {
        char word[9] = {0};
        memcpy(word, hex + i, 8);
        uint32_t v = (uint32_t)strtoul(word, NULL, 16);
        memcpy(out->bytes + at, &v, sizeof v);
    }
    return true;
}

static bool read_line(const char *line, struct hw_tcp_row *out)
{
    char here[33], there[33];
    unsigned here_port, there_port, state;
    *out = (struct hw_tcp_row){0};
    if (sscanf(line,
               " %*u: %32[0-9A-Fa-f]:%4x %32[0-9A-Fa-f]:%4x %2x %*17s %*11s %*8s %*u %*u %" SCNu64,
               here, &here_port, there, &there_port, &state, &out->inode) != 6)
        return false;
    out->listens = state == LISTENS;
    return (out->listens || state == ESTABLISHED) && read_address(here, here_port, &out->here) &&
           read_address(there, there_port, &out->there);
}

/* Line by line: sscanf measures the whole text that it is given, and a busy machine has megabytes. */
int hw_tcp_parse(const char *text, hw_tcp_rows *out)
{
    for (const char *end; *text; text = end + (*end == '\n')) {
        char line[MAX_LINE];
        struct hw_tcp_row row;
        end = strchrnul(text, '\n');
        size_t n = (size_t)(end - text);
        if (n >= sizeof line)
            continue;
        memcpy(line, text, n);
        line[n] = '\0';
        if (read_line(line, &row) && hw_vec_push(out, row) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_tcp_read(const struct hw_pid *pid, hw_tcp_rows *out, struct hw_error *err)
{
    static const char *const names[] = {"net/tcp", "net/tcp6"};
    hw_vec_clear(out);
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++) {
        hw_autofree char *text = NULL;
        size_t n;
        struct hw_error why = {0};
        int rc = hw_file_read(pid->dir, names[i], MAX_TABLE, &text, &n, &why);
        if (rc < 0 && i == 1 && why.sys_errno == ENOENT)
            break; /* no IPv6 */
        if (rc < 0 && !hw_pid_alive(pid))
            return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
        if (rc < 0) {
            if (err)
                *err = why;
            hw_error_prefix(err, "sockets of process %d", pid->pid);
            return rc;
        }
        if (hw_tcp_parse(text, out) < 0)
            return hw_fail(err, HW_ENOMEM, 0, "sockets of process %d", pid->pid);
    }
    return HW_OK;
}

bool hw_tcp_is_of(const struct hw_pid *pid, uint64_t inode)
{
    char want[40], link[40];
    bool found = false;
    int fd = inode == 0 ? -1 : openat(pid->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        hw_autofd_close(&fd);
        return false;
    }
    int n = snprintf(want, sizeof want, "socket:[%" PRIu64 "]", inode);
    struct dirent *e;
    for (size_t i = 0; i < MAX_FDS && !found && (e = readdir(d)); i++)
        found = readlinkat(dirfd(d), e->d_name, link, sizeof link) == n &&
                memcmp(link, want, (size_t)n) == 0;
    (void)closedir(d);
    return found;
}

/* ---- a connection ---- */

static bool is_v4(const struct hw_tcp_address *a)
{
    return memcmp(a->bytes, mapped, sizeof mapped) == 0;
}

static bool is_any(const struct hw_tcp_address *a)
{
    static const uint8_t none[16];
    return memcmp(a->bytes + (is_v4(a) ? 12 : 0), none, is_v4(a) ? 4 : 16) == 0;
}

bool hw_tcp_is_local(const struct hw_tcp_address *a)
{
    return is_any(a) || (is_v4(a) && a->bytes[12] == 127 && a->bytes[15] == 1);
}

static socklen_t to_sockaddr(const struct hw_tcp_address *a, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (is_v4(a)) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(a->port);
        memcpy(&v4->sin_addr, a->bytes + 12, 4);
        if (is_any(a))
            v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof *v4;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(a->port);
    memcpy(&v6->sin6_addr, a->bytes, 16);
    if (is_any(a))
        v6->sin6_addr = in6addr_loopback;
    return sizeof *v6;
}

static bool from_sockaddr(const struct sockaddr_storage *a, struct hw_tcp_address *out)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    memcpy(out->bytes, mapped, sizeof mapped);
    if (a->ss_family == AF_INET) {
        memcpy(out->bytes + 12, &v4->sin_addr, 4);
        out->port = ntohs(v4->sin_port);
    } else {
        memcpy(out->bytes, &v6->sin6_addr, 16);
        out->port = ntohs(v6->sin6_port);
    }
    return a->ss_family == AF_INET || a->ss_family == AF_INET6;
}

static bool is_same(const struct hw_tcp_address *a, const struct hw_tcp_address *b)
{
    return a->port == b->port && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

_Noreturn static void make_inside(int answer, int user, int net, int family)
{
    int error = 0, fd = -1;
    (void)prctl(PR_SET_DUMPABLE, 0); /* nobody there may look into us */
    if (setns(net, CLONE_NEWNET) < 0 &&
        (user < 0 || setns(user, CLONE_NEWUSER) < 0 || setns(net, CLONE_NEWNET) < 0))
        error = errno;
    else if ((fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        error = errno;
    (void)hw_fd_send(answer, &error, sizeof error, &fd, fd >= 0, 0); /* silence is an answer, too */
    _exit(0);
}

/* Forked from a process with threads, the child makes system calls only. */
static int ask_child(int user, int net, int family, int *out)
{
    int pair[2], error = ETIMEDOUT;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return errno;
    const struct timeval limit = {.tv_sec = CHILD_S};
    (void)setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    pid_t child = fork();
    if (child == 0)
        make_inside(pair[1], user, net, family);
    (void)close(pair[1]); /* its end */
    if (child < 0)
        error = errno;
    else if (hw_fd_receive(pair[0], &error, sizeof error, out, 1, 0) != sizeof error)
        error = ETIMEDOUT;
    (void)close(pair[0]);
    if (child > 0) {
        (void)kill(child, SIGKILL); /* ours, and not yet waited for */
        (void)waitpid(child, NULL, 0);
    }
    return error;
}

static int make_socket(const struct hw_pid *pid, int family, int *out, struct hw_error *err)
{
    uint64_t there = hw_ns_inode(pid->dir, "ns/net");
    uint64_t here = hw_ns_inode(AT_FDCWD, "/proc/self/ns/net");
    if (there == here && here) {
        *out = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        return *out < 0 ? hw_fail_sys(err, "socket") : HW_OK;
    }
    hw_autofd int net = openat(pid->dir, "ns/net", O_RDONLY | O_CLOEXEC);
    hw_autofd int user = openat(pid->dir, "ns/user", O_RDONLY | O_CLOEXEC);
    int fd = -1, error = net < 0 ? errno : ask_child(user, net, family, &fd);
    if (error)
        return hw_fail(err, HW_EPERM, 0,
                       "process %d is in a network namespace of its own (a container), which may "
                       "not be entered: %s; run the command as root, or inside",
                       pid->pid, strerror(error));
    *out = fd;
    return HW_OK;
}

static int connect_now(int fd, const struct hw_tcp_row *listener, struct hw_error *err)
{
    struct sockaddr_storage a;
    socklen_t n = to_sockaddr(&listener->here, &a);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(fd, (struct sockaddr *)&a, n) == 0)
        return HW_OK;
    if (errno != EINPROGRESS)
        error = errno;
    else if (poll(&p, 1, ACCEPT_MS) <= 0)
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    errno = error;
    return error ? hw_fail_sys(err, "cannot connect to port %u", listener->here.port) : HW_OK;
}

/* The inode of the socket at the other end; 0 = none accepted it yet. */
static int find_other_end(const struct hw_pid *pid, int fd, uint64_t *out, struct hw_error *err)
{
    struct sockaddr_storage name = {0}, peer = {0};
    socklen_t n = sizeof name, n_peer = sizeof peer;
    struct hw_tcp_address here, there;
    hw_tcp_rows rows = {0};
    *out = 0;
    if (getsockname(fd, (struct sockaddr *)&name, &n) < 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &n_peer) < 0)
        return hw_fail_sys(err, "process %d closed the connection", pid->pid);
    if (!from_sockaddr(&name, &here) || !from_sockaddr(&peer, &there))
        return hw_fail(err, HW_EFORMAT, 0, "address of a connection");
    int rc = hw_tcp_read(pid, &rows, err);
    for (size_t i = 0; i < rows.n && rc == HW_OK; i++)
        if (!rows.v[i].listens && is_same(&rows.v[i].here, &there) &&
            is_same(&rows.v[i].there, &here))
            *out = rows.v[i].inode;
    hw_vec_done(&rows);
    return rc;
}

/* A socket that was accepted is in the table a moment before its descriptor is. */
static int await_accept(const struct hw_pid *pid, int fd, unsigned port, struct hw_error *err)
{
    const struct timespec step = {0, STEP_MS * 1000000};
    uint64_t begun = hw_now_monotonic_ns(), strange = 0;
    for (;;) {
        uint64_t inode, now = hw_now_monotonic_ns();
        int rc = find_other_end(pid, fd, &inode, err);
        if (rc < 0 || hw_tcp_is_of(pid, inode))
            return rc;
        if (inode && !strange)
            strange = now;
        if (inode && now - strange > INSTALL_MS * UINT64_C(1000000))
            return hw_fail(err, HW_EPERM, 0,
                           "who answers at port %u is not process %d; nothing was sent", port,
                           pid->pid);
        if (now - begun > ACCEPT_MS * UINT64_C(1000000))
            return hw_fail(err, HW_ETIMEOUT, 0,
                           "process %d does not accept a connection to its port %u", pid->pid,
                           port);
        (void)nanosleep(&step, NULL);
    }
}

int hw_tcp_connect(const struct hw_pid *pid, const struct hw_tcp_row *listener, int *out,
                   struct hw_error *err)
{
    hw_autofd int fd = -1;
    int rc = make_socket(pid, is_v4(&listener->here) ? AF_INET : AF_INET6, &fd, err);
    if (rc == HW_OK)
        rc = connect_now(fd, listener, err);
    if (rc == HW_OK)
        rc = await_accept(pid, fd, listener->here.port, err);
    if (rc == HW_OK)
        *out = hw_fd_take(&fd);
    return rc;
}
