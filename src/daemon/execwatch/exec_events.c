/*
 * exec_events.c - the process connector: the kernel reports execs and new names
 *
 * Linux 6.6 takes a mask after the operation, and then lets everybody listen; before, one gets all
 * events, with CAP_NET_ADMIN. To see whether it works we give ourselves a name. Numbers are those
 * of the first pid namespace: in others the kernel refuses, silently.
 */
#include "daemon/execwatch/exec_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <poll.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

#define LISTEN_MS  20
#define ROOM_BYTES (4 << 20)

int hw_exec_next_event(int fd, struct proc_event *out)
{
    struct {
        _Alignas(NLMSG_ALIGNTO) struct nlmsghdr head;
        struct cn_msg message;
        uint8_t data[256];
    } m;
    struct sockaddr_nl from;
    socklen_t len = sizeof from;
    ssize_t n = recvfrom(fd, &m, sizeof m, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
    if (n < 0)
        return errno == EINTR ? HW_EBUSY : errno == ENOBUFS ? HW_ELIMIT : HW_EGONE;
    if (from.nl_pid != 0 || n < (ssize_t)(sizeof m.head + sizeof m.message) ||
        m.message.id.idx != CN_IDX_PROC || m.message.id.val != CN_VAL_PROC)
        return HW_EBUSY;
    size_t bytes = (size_t)n - sizeof m.head - sizeof m.message;
    *out = (struct proc_event){0};
    memcpy(out, m.data, bytes < sizeof *out ? bytes : sizeof *out);
    return HW_OK;
}

static bool ask_for_events(int fd, const uint32_t *words, size_t n)
{
    struct {
        _Alignas(NLMSG_ALIGNTO) struct nlmsghdr head;
        struct cn_msg message;
        uint32_t words[2];
    } m = {.head = {.nlmsg_type = NLMSG_DONE, .nlmsg_pid = (uint32_t)getpid()},
           .message = {.id = {CN_IDX_PROC, CN_VAL_PROC}, .len = (uint16_t)(n * sizeof *words)}};
    memcpy(m.words, words, n * sizeof *words);
    m.head.nlmsg_len = (uint32_t)(sizeof m.head + sizeof m.message + n * sizeof *words);
    if (send(fd, &m, m.head.nlmsg_len, MSG_NOSIGNAL) < 0)
        return false;
    uint64_t end = hw_now_monotonic_ns() + LISTEN_MS * UINT64_C(1000000);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char name[16];
    (void)prctl(PR_GET_NAME, name); /* cannot fail, as the next */
    (void)prctl(PR_SET_NAME, name); /* of which we must be notified */
    while (hw_now_monotonic_ns() < end && poll(&p, 1, LISTEN_MS) > 0) {
        struct proc_event e;
        int rc;
        while ((rc = hw_exec_next_event(fd, &e)) == HW_OK || rc == HW_EBUSY)
            if (rc == HW_OK && (int)e.what == PROC_EVENT_COMM &&
                e.event_data.comm.process_pid == getpid())
                return true;
    }
    return false;
}

int hw_exec_listen(bool execs)
{
    const uint32_t some[] = {PROC_CN_MCAST_LISTEN,
                             (uint32_t)PROC_EVENT_COMM | (execs ? (uint32_t)PROC_EVENT_EXEC : 0)};
    struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
    hw_autofd int fd = socket(PF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_CONNECTOR);
    int room = ROOM_BYTES;
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    /* Without the mask every fork and exit is reported, too: too much for names alone. */
    bool on = ask_for_events(fd, some, 2) || (execs && ask_for_events(fd, some, 1));
    return on ? hw_fd_take(&fd) : -1;
}

bool hw_exec_can_hold(void)
{
    hw_autofd int fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, 0);
    return fd >= 0 && /* nobody executes a directory */
           fanotify_mark(fd, FAN_MARK_ADD, HW_FAN_OPEN_EXEC_PERM, AT_FDCWD, "/") == 0;
}
