/*
 * calls.c - see calls.h
 *
 * The kernel answers a stopped thread's call with one of
 *
 *   -ERESTARTSYS, -ERESTARTNOINTR, -ERESTARTNOHAND   restarted when no handler runs
 *   -ERESTART_RESTARTBLOCK                           goes on as restart_syscall
 *   -EINTR                                           the program sees it
 *   a count                                          the program sees less than it asked for
 *
 * poll and sleeps still end at the original time. pselect6, select and ppoll write the remaining
 * time to the program's memory; where that is read-only, they give EINTR. Sockets with SO_RCVTIMEO
 * or SO_SNDTIMEO give EINTR; their time-out restarts, as it cannot be changed for a single call.
 */
#include "inject/remote/calls.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/pid.h"

#include "base/banned.h"

#define SURELY_WHOLE 4096u /* PIPE_BUF */
#define TEXT_BYTES   256
/* io_uring_enter's flags: with a struct that holds a relative time-out, neither absolute nor
 * registered */
#define RING_LONG  UINT64_C(8)
#define RING_TIMED (RING_LONG | 32 | 64)

#if defined(__x86_64__)

#define N_(x) #x, SYS_##x
/* clang-format off */
static const struct hw_call calls[] = {
    /* sleeps */
    {N_(nanosleep), HW_CALL_BY_BLOCK, HW_CALL_SPEC, 0, 0, 0, 0, 0},
    {N_(clock_nanosleep), HW_CALL_BY_BLOCK, HW_CALL_SPEC, 2, 0, 0, 0, 0},
    {N_(pause), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(rt_sigsuspend), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(rt_sigtimedwait), HW_CALL_BY_US, HW_CALL_SPEC, 2, 0, 0, 0, 0},
    /* readiness */
    {N_(poll), HW_CALL_BY_BLOCK, HW_CALL_MS, 2, 0, 0, 0, 0},
    {N_(ppoll), HW_CALL_BY_US, HW_CALL_SPEC, 2, 0, 0, 0, 0},
    {N_(select), HW_CALL_BY_US, HW_CALL_VAL, 4, 0, 0, 0, 0},
    {N_(pselect6), HW_CALL_BY_US, HW_CALL_SPEC, 4, 0, 0, 0, 0},
    {N_(epoll_wait), HW_CALL_BY_US, HW_CALL_MS, 3, 0, 0, 0, 0},
    {N_(epoll_pwait), HW_CALL_BY_US, HW_CALL_MS, 3, 0, 0, 0, 0},
    {N_(epoll_pwait2), HW_CALL_BY_US, HW_CALL_SPEC, 3, 0, 0, 0, 0},
    /* other threads and processes */
    {N_(futex), HW_CALL_BY_BLOCK, HW_CALL_SPEC, 3, 0, 0, 0, 0},
#ifdef SYS_futex_waitv
    {N_(futex_waitv), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
#endif
    {N_(wait4), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(waitid), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(semop), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0},
    {N_(semtimedop), HW_CALL_BY_US, HW_CALL_SPEC, 3, 0, 0, 0, 0},
    {N_(msgsnd), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(msgrcv), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0}, /* EINTR before Linux 3.x only */
    {N_(mq_timedsend), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(mq_timedreceive), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(flock), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0}, /* EINTR from some network file systems */
    {N_(fcntl), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0}, /* F_SETLKW; the same */
    /* asynchronous */
    {N_(io_getevents), HW_CALL_BY_US, HW_CALL_SPEC, 4, 0, 0, 0, 0},
    {N_(io_pgetevents), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(io_uring_enter), HW_CALL_BY_US, HW_CALL_RING, 4, 0, 0, 0, 0},
    /* reading */
    {N_(read), HW_CALL_BY_US, 0, 0, 0, 0, HW_CALL_BYTES, 2},
    {N_(readv), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0},
    {N_(pread64), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0},
    {N_(preadv), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0},
    {N_(preadv2), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0},
    {N_(recvfrom), HW_CALL_BY_US, 0, 0, HW_CALL_WAIT_ALL, 3, HW_CALL_BYTES, 2},
    {N_(recvmsg), HW_CALL_BY_US, 0, 0, HW_CALL_WAIT_ALL, 2, 0, 0},
    {N_(recvmmsg), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 3, HW_CALL_MESSAGES, 2}, /* and the next call gets the error */
    {N_(accept), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0},
    {N_(accept4), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0},
    {N_(getrandom), HW_CALL_BY_KERNEL, 0, 0, 0, 0, HW_CALL_BYTES, 1},
    /* writing */
    {N_(connect), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0}, /* waits for the connection that has begun */
    {N_(write), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, HW_CALL_BYTES, 2},
    {N_(writev), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, HW_CALL_VECTOR, 2},
    {N_(pwrite64), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, 0, 0},
    {N_(pwritev), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, 0, 0},
    {N_(pwritev2), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, 0, 0},
    {N_(sendto), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 3, HW_CALL_BYTES, 2},
    {N_(sendmsg), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 2, HW_CALL_MESSAGE, 1},
    {N_(sendmmsg), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 3, HW_CALL_MESSAGES, 2},
    {N_(sendfile), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, HW_CALL_LENGTH, 3},
    {N_(splice), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, HW_CALL_LENGTH, 4},
    {N_(vmsplice), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, HW_CALL_VECTOR, 2},
    {N_(tee), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, 0, 0},
    {N_(copy_file_range), HW_CALL_BY_US, 0, 0, HW_CALL_PARTS, 0, 0, 0},
    {N_(fallocate), HW_CALL_BY_US, 0, 0, 0, 0, 0, 0}, /* of memory files: undone before EINTR */
    /* files */
    {N_(open), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0}, /* of FIFOs */
    {N_(openat), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(ioctl), HW_CALL_BY_KERNEL, 0, 0, 0, 0, 0, 0},
    {N_(close), HW_CALL_NEVER, 0, 0, HW_CALL_PARTS, 0, 0, 0}, /* SO_LINGER; the descriptor is gone */
};
/* clang-format on */

const struct hw_call *hw_call_find(int64_t number)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

enum hw_call_time hw_call_time(const struct hw_call *c, const uint64_t args[6])
{
    switch (c->number) {
    case SYS_futex: /* all other operations take an absolute time */
        return (args[1] & (uint64_t)FUTEX_CMD_MASK) == FUTEX_WAIT && args[3] ? HW_CALL_SPEC
                                                                             : HW_CALL_NO_TIME;
    case SYS_clock_nanosleep:
        return args[1] & TIMER_ABSTIME ? HW_CALL_NO_TIME : HW_CALL_SPEC;
    case SYS_io_uring_enter:
        return (args[3] & RING_TIMED) == RING_LONG ? HW_CALL_RING : HW_CALL_NO_TIME;
    default:
        if (c->time == HW_CALL_MS)
            return (int32_t)args[c->time_arg] > 0 ? HW_CALL_MS : HW_CALL_NO_TIME;
        return args[c->time_arg] ? (enum hw_call_time)c->time : HW_CALL_NO_TIME;
    }
}

int hw_call_left_arg(const struct hw_call *c, const uint64_t args[6])
{
    int left = c->number == SYS_nanosleep ? 1 : c->number == SYS_clock_nanosleep ? 3 : -1;
    return left >= 0 && args[left] ? left : -1;
}

/* The descriptor that a call with parts writes to; sendfile's is its first argument, too. */
static uint64_t out_arg(int64_t number)
{
    return number == SYS_splice || number == SYS_copy_file_range ? 2 : number == SYS_tee ? 1 : 0;
}

static bool parts(const struct hw_call *c, const uint64_t args[6])
{
    return c->parts == HW_CALL_PARTS ||
           (c->parts == HW_CALL_WAIT_ALL && (args[c->flags_arg] & MSG_WAITALL));
}

bool hw_call_may_be_cut(const struct hw_pid *pid, const struct hw_call_now *now)
{
    const struct hw_call *c = hw_call_find(now->number);
    char name[48];
    struct statx st;
    if (!c || !parts(c, now->args))
        return false;
    (void)snprintf(name, sizeof name, "fd/%d", (int)now->args[out_arg(now->number)]);
    /* Only its type is read, and the target's file system is not asked: it might not answer. */
    if (statx(pid->dir, name, AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 || S_ISREG(st.stx_mode))
        return false;
    return now->number != SYS_write || !S_ISFIFO(st.stx_mode) || now->args[2] > SURELY_WHOLE;
}

/* Memory devices: a signal cuts a long read of one short. */
static bool is_endless(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && major(st->st_rdev) == 1 &&
           (minor(st->st_rdev) == 5 || minor(st->st_rdev) == 8 || minor(st->st_rdev) == 9);
}

/* Bytes in order, held by the kernel, and the program blocks on them. */
static bool is_stream(int fd, const struct stat *st, const struct hw_call *c)
{
    int type = 0;
    socklen_t n = sizeof type;
    if (fcntl(fd, F_GETFL) & O_NONBLOCK)
        return false;
    if (S_ISSOCK(st->st_mode))
        return c->rest == HW_CALL_MESSAGES ||
               (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM);
    return S_ISFIFO(st->st_mode) || S_ISCHR(st->st_mode);
}

bool hw_call_was_cut(const struct hw_pid *pid, const struct hw_call_now *now)
{
    const struct hw_call *c = hw_call_find(now->number);
    struct stat st;
    if (!c || c->rest == HW_CALL_NO_REST)
        return false;
    if (now->number == SYS_getrandom)
        return true;
    if (now->number != SYS_read && !parts(c, now->args))
        return false;
    if (c->flags_arg && (now->args[c->flags_arg] & (MSG_DONTWAIT | MSG_WAITFORONE | MSG_PEEK)))
        return false;
    hw_autofd int fd =
        (int)syscall(SYS_pidfd_getfd, pid->pidfd, (int)now->args[out_arg(now->number)], 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return false;
    return now->number == SYS_read ? is_endless(&st) : is_stream(fd, &st, c);
}

#else

bool hw_call_was_cut(const struct hw_pid *pid, const struct hw_call_now *now)
{
    (void)pid, (void)now;
    return false;
}

const struct hw_call *hw_call_find(int64_t number)
{
    (void)number;
    return NULL;
}

enum hw_call_time hw_call_time(const struct hw_call *c, const uint64_t args[6])
{
    (void)c, (void)args;
    return HW_CALL_NO_TIME;
}

int hw_call_left_arg(const struct hw_call *c, const uint64_t args[6])
{
    (void)c, (void)args;
    return -1;
}

bool hw_call_may_be_cut(const struct hw_pid *pid, const struct hw_call_now *now)
{
    (void)pid, (void)now;
    return false;
}

#endif

/* "number arguments... stack pointer, instruction pointer", or "running". */
void hw_call_inspect(const struct hw_pid *pid, int32_t number, struct hw_call_now *out)
{
    char name[48], text[TEXT_BYTES];
    *out = (struct hw_call_now){.number = -1};
    (void)snprintf(name, sizeof name, "task/%d/syscall", number);
    hw_autofd int fd = openat(pid->dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0 || text[0] < '0' || text[0] > '9')
        return;
    text[n] = '\0';
    char *p = text;
    out->number = strtoll(p, &p, 10);
    for (int i = 0; i < 6; i++)
        out->args[i] = strtoull(p, &p, 16);
}
