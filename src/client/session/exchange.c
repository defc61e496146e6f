/* The one exchange with a recorder: connect, hello, welcome; each step until the deadline. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arch.h"
#include "client/boot.h"
#include "client/client.h"
#include "client/kernel/process_limits.h"
#include "client/kernel/sys.h"
#include "client/sample/armed.h"
#include "client/session/exchange.h"

extern void *__libc_stack_end; /* of the loader */

#define TABLES_SHARE      16
#define TABLES_LEAST      (1024ull * 1024)
#define TABLES_OF_LOCKED  (8ull * 1024 * 1024)
#define TABLES_OF_32_BITS (64ull * 1024 * 1024)

/*
 * Address space that tables may use: as much as possible, or a small part if the program may use
 * little (RLIMIT_AS, 32 bits, locked memory). The recorder fills that much with what every sample
 * needs, and itself walks the stacks that lead through the rest.
 */
static uint64_t tables_room(void)
{
    uint64_t room = sizeof(void *) < 8 ? TABLES_OF_32_BITS : HW_TABLES_BYTES;
    if (hw_locks_future_maps())
        room = TABLES_OF_LOCKED;
    else if (hw_fits_address_limit(UINT64_MAX, 1))
        return room;
    while (room > TABLES_LEAST && !hw_fits_address_limit(room, TABLES_SHARE))
        room /= 2;
    for (; room > TABLES_LEAST; room /= 2) {
        void *p =
            mmap(NULL, (size_t)room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            continue;
        (void)munmap(p, (size_t)room);
        break;
    }
    return room;
}

static bool wait_for(const struct hw_exchange *x, short events)
{
    for (;;) {
        int64_t left = (int64_t)(x->deadline_ns - hw_local_ns());
        struct pollfd p = {.fd = x->fd, .events = events};
        int n = hw_sys_poll(&p, left > 0 ? left : 0);
        if (n > 0)
            return true;
        if (left <= 0 || (n < 0 && errno != EINTR))
            return false;
    }
}

static bool peer_trusted(const struct hw_exchange *x)
{
    struct ucred c;
    socklen_t n = sizeof c;
    if (getsockopt(x->fd, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0)
        return false;
    return c.uid == 0 || (!x->root_only && c.uid == geteuid());
}

bool hw_exchange_connect(struct hw_exchange *x, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strnlen(path, sizeof a.sun_path);
    if (n == 0 || n >= sizeof a.sun_path)
        return false;
    memcpy(a.sun_path, path, n);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (path[0] == '@')
        a.sun_path[0] = '\0';
    else
        len++;
    x->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (x->fd < 0)
        return false;
    while (hw_sys_connect(x->fd, &a, len) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return false;
        if (hw_local_ns() >= x->deadline_ns) /* EAGAIN: its queue is full */
            return false;
        hw_sys_sleep_ns(1000000);
    }
    return peer_trusted(x);
}

bool hw_exchange_reconnect(struct hw_exchange *x, const char *path)
{
    if (x->fd >= 0)
        (void)hw_sys_close(x->fd);
    x->fd = -1;
    return hw_exchange_connect(x, path);
}

uint64_t hw_forked_token;

bool hw_exchange_send_hello(struct hw_exchange *x, uint32_t flags)
{
    x->tables_bytes = tables_room();
#ifdef HW_BARE
    flags |= HW_HELLO_BARE;
#endif
    struct hw_hello h = {.magic = HW_HELLO_MAGIC,
                         .version = HW_WIRE_VERSION,
                         .arch = HW_ARCH_HERE,
                         .flags = flags,
                         .page_size = (uint32_t)sysconf(_SC_PAGESIZE),
                         .pid_inside = (int32_t)getpid(),
                         .tables_kib = (uint32_t)(x->tables_bytes / 1024),
                         .main_stack_hi = (uint64_t)(uintptr_t)__libc_stack_end,
                         .allocator_base = hw_boot_allocator_base(),
                         .oldest = HW_WIRE_CLIENT_OLDEST,
                         .forked_token = flags & HW_HELLO_FORKED ? hw_forked_token : 0};
    hw_armed_fill_hello(&h);
    long n;
    x->asked_ns = hw_local_ns();
    while ((n = hw_sys_send(x->fd, &h, sizeof h)) < 0)
        if (errno != EINTR && !(errno == EAGAIN && wait_for(x, POLLOUT)))
            return false;
    return n == (long)sizeof h;
}

static void take_fds(struct hw_exchange *x, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (x->n_fds < HW_WELCOME_FDS)
                x->fds[x->n_fds++] = fd;
            else
                (void)hw_sys_close(fd);
        }
    }
}

bool hw_exchange_receive_welcome(struct hw_exchange *x)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
    } control;
    struct iovec iov = {&x->welcome, sizeof x->welcome};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    long n;
    do {
        x->silent = !wait_for(x, POLLIN);
        if (x->silent)
            return false;
        n = hw_sys_recvmsg(x->fd, &m, MSG_CMSG_CLOEXEC);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n < 0)
        return false;
    x->answered_ns = hw_local_ns();
    take_fds(x, &m);
    const struct hw_welcome *w = &x->welcome;
    return n >= (long)sizeof w->magic + (long)sizeof w->version && (m.msg_flags & MSG_TRUNC) == 0 &&
           w->magic == HW_WELCOME_MAGIC && hw_wire_is_supported(w->version) &&
           n == (long)hw_welcome_bytes(w->version) && w->status < HW_WELCOME_STATUS_COUNT &&
           w->config.n_heaps <= HW_MAX_HEAP_CHOICES;
}
