/* arrivals.c - calls that wait for bytes, signals, locks and children that come (see eintr.c) */
#include "eintr.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void give_byte(void)
{
    pace();
    if (write(fds[1], "x", 1) != 1)
        _exit(0);
}

static void pipe_begin(void)
{
    pipe2(fds, O_CLOEXEC);
    feeder(give_byte);
}

static int read_byte(void)
{
    char c;
    return wants(read(fds[0], &c, 1), 1);
}

static int readv_byte(void)
{
    char c;
    struct iovec v = {&c, 1};
    return wants(readv(fds[0], &v, 1), 1);
}

static void give_number(void)
{
    pace();
    eventfd_write(fds[0], 1);
}

static void event_begin(void)
{
    fds[0] = eventfd(0, EFD_CLOEXEC);
    feeder(give_number);
}

static int read_number(void)
{
    uint64_t n;
    return wants(read(fds[0], &n, sizeof n), sizeof n);
}

static void give_line(void)
{
    pace();
    if (write(fds[1], "x\n", 2) != 2)
        _exit(0);
}

static void tty_begin(void)
{
    fds[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    grantpt(fds[1]);
    unlockpt(fds[1]);
    fds[0] = open(ptsname(fds[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    feeder(give_line);
}

static int read_tty(void)
{
    char text[16];
    return wants(read(fds[0], text, sizeof text), 2);
}

static void give_signal(void)
{
    pace();
    kill(getppid(), SIGUSR1);
}

static void signalfd_begin(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fds[0] = signalfd(-1, &set, SFD_CLOEXEC);
    feeder(give_signal);
}

static int read_signal(void)
{
    struct signalfd_siginfo info;
    return wants(read(fds[0], &info, sizeof info), sizeof info);
}

static int sigwait_(void)
{
    uint64_t set = 1u << (SIGUSR1 - 1);
    return wants(syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, sizeof set), SIGUSR1);
}

/* EINTR is right: a handler has run. Nobody may return without it, and no signal be missed. */
static void handler_begin(void)
{
    struct sigaction a = {.sa_handler = handle};
    sigaction(SIGUSR1, &a, NULL);
    signalfd_begin();
}

static int suspend_until(long call)
{
    uint64_t none = 0;
    int before = n_handled;
    long rc = syscall(call, &none, sizeof none);
    return rc < 0 && errno == EINTR && n_handled == before + 1 ? 0 : -1;
}

static int sigsuspend_(void)
{
    return suspend_until(SYS_rt_sigsuspend);
}

static void touch(void)
{
    char name[64];
    pace();
    snprintf(name, sizeof name, "%s/touched", folder);
    close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static void inotify_begin(void)
{
    fds[0] = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(fds[0], folder, IN_CLOSE_WRITE);
    feeder(touch);
}

static int read_inotify(void)
{
    char text[4096];
    return read(fds[0], text, sizeof text) > 0 ? 0 : -1;
}

void set_time(int fd, int which)
{
    struct timeval t = {20, 0};
    setsockopt(fd, SOL_SOCKET, which, &t, sizeof t);
}

static void socket_begin(void)
{
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
    set_time(fds[0], SO_RCVTIMEO);
    feeder(give_byte);
}

static void datagram_begin(void)
{
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds);
    feeder(give_byte);
}

static int recv_(void)
{
    char c;
    return wants(recv(fds[0], &c, 1, 0), 1);
}

static int recvmsg_(void)
{
    char c;
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    return wants(recvmsg(fds[0], &m, 0), 1);
}

/* All of them, though they come one by one. */
static int recv_all(void)
{
    char text[6];
    return wants(recv(fds[0], text, sizeof text, MSG_WAITALL), sizeof text);
}

static int recvmmsg_(void)
{
    char text[4];
    struct iovec v[4];
    struct mmsghdr m[4] = {0};
    for (int i = 0; i < 4; i++) {
        v[i] = (struct iovec){&text[i], 1};
        m[i].msg_hdr = (struct msghdr){.msg_iov = &v[i], .msg_iovlen = 1};
    }
    return wants(recvmmsg(fds[0], m, 4, 0, NULL), 4);
}

static struct sockaddr_un name_of(socklen_t *n)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int k = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "eintr.%s", folder);
    *n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)k);
    return a;
}

static int connect_to_ours(void)
{
    socklen_t n;
    struct sockaddr_un a = name_of(&n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_time(fd, SO_SNDTIMEO);
    int rc = connect(fd, (struct sockaddr *)&a, n), error = errno;
    close(fd);
    errno = error;
    return rc;
}

static void connect_slowly(void)
{
    pace();
    connect_to_ours();
}

static void listen_begin(void)
{
    socklen_t n;
    struct sockaddr_un a = name_of(&n);
    fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_time(fds[0], SO_RCVTIMEO);
    bind(fds[0], (struct sockaddr *)&a, n);
    listen(fds[0], 0);
}

static void accept_begin(void)
{
    listen_begin();
    feeder(connect_slowly);
}

static int accept_(void)
{
    int fd = accept4(fds[0], NULL, NULL, SOCK_CLOEXEC);
    return fd < 0 ? -1 : close(fd);
}

static void accept_slowly(void)
{
    pace();
    (void)accept_();
}

static void connect_begin(void)
{
    listen_begin();
    feeder(accept_slowly);
}

struct message {
    long type;
    char text[1024];
};

static void give_message(void)
{
    struct message m = {.type = 1};
    pace();
    msgsnd(fds[0], &m, 1, 0);
}

static void take_message(void)
{
    struct message m;
    pace();
    msgrcv(fds[0], &m, sizeof m.text, 0, 0);
}

static void msg_begin(void)
{
    fds[0] = msgget(IPC_PRIVATE, 0600);
    feeder(give_message);
}

static void msg_end(void)
{
    msgctl(fds[0], IPC_RMID, NULL);
}

static int msgrcv_(void)
{
    struct message m;
    return wants(msgrcv(fds[0], &m, sizeof m.text, 0, 0), 1);
}

static void msg_full_begin(void)
{
    struct message m = {.type = 1};
    fds[0] = msgget(IPC_PRIVATE, 0600);
    while (msgsnd(fds[0], &m, sizeof m.text, IPC_NOWAIT) == 0)
        ;
    feeder(take_message);
}

static int msgsnd_(void)
{
    struct message m = {.type = 1};
    return wants(msgsnd(fds[0], &m, sizeof m.text, 0), 0);
}

static void raise_sem(void)
{
    struct sembuf b = {0, 1, 0};
    pace();
    semop(fds[0], &b, 1);
}

static void semop_begin(void)
{
    sem_begin();
    feeder(raise_sem);
}

static int semop_(void)
{
    struct sembuf b = {0, -1, 0};
    return wants(semop(fds[0], &b, 1), 0);
}

static int open_file(void)
{
    char name[64];
    snprintf(name, sizeof name, "%s/file", folder);
    return open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void let_others(void)
{
    struct timespec t = {0, 2000000};
    nanosleep(&t, NULL);
}

static void hold_flock(void)
{
    int fd = open_file();
    flock(fd, LOCK_EX);
    pace();
    close(fd);
    let_others();
}

static void flock_begin(void)
{
    fds[0] = open_file();
    feeder(hold_flock);
}

static int flock_(void)
{
    int rc = flock(fds[0], LOCK_EX), error = errno;
    flock(fds[0], LOCK_UN);
    let_others();
    errno = error;
    return rc;
}

static int lock_file(int fd, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLKW, &l);
}

static void hold_lock(void)
{
    int fd = open_file();
    lock_file(fd, F_WRLCK);
    pace();
    close(fd);
    let_others();
}

static void lock_begin(void)
{
    fds[0] = open_file();
    feeder(hold_lock);
}

static int setlkw(void)
{
    int rc = lock_file(fds[0], F_WRLCK), error = errno;
    lock_file(fds[0], F_UNLCK);
    let_others();
    errno = error;
    return rc;
}

/* SIGCHLD is not handled: nobody may notice it. */
static int wait_(void)
{
    pid_t child = fork();
    if (child == 0) {
        pace();
        _exit(7);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7 ? 0 : -1;
}

static int waitid_(void)
{
    pid_t child = fork();
    siginfo_t info;
    if (child == 0) {
        pace();
        _exit(7);
    }
    return waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_status == 7 ? 0 : -1;
}

/* A child that ends while we wait for something else. */
static int epoll_and_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        pace();
        _exit(7);
    }
    int rc = epoll_wait_(), error = errno;
    waitpid(child, NULL, 0);
    errno = error;
    return rc;
}

static void open_other_end(void)
{
    char name[64];
    pace();
    snprintf(name, sizeof name, "%s/fifo", folder);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    pace();
    close(fd);
}

static void fifo_begin(void)
{
    char name[64];
    snprintf(name, sizeof name, "%s/fifo", folder);
    mkfifo(name, 0600);
    feeder(open_other_end);
}

static int open_fifo(void)
{
    char name[64];
    snprintf(name, sizeof name, "%s/fifo", folder);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    char c;
    (void)read(fd, &c, 1); /* until it is closed */
    return close(fd);
}

const struct mode arrival_modes[] = {
    {"epoll-child", epoll_begin, epoll_and_child, NEVER_EARLY | NO_THREAD, NULL},
    {"read", pipe_begin, read_byte, NO_THREAD, NULL},
    {"readv", pipe_begin, readv_byte, NO_THREAD, NULL},
    {"eventfd", event_begin, read_number, NO_THREAD, NULL},
    {"tty", tty_begin, read_tty, NO_THREAD, NULL},
    {"signalfd", signalfd_begin, read_signal, NO_THREAD, NULL},
    {"sigwait", signalfd_begin, sigwait_, NO_THREAD, NULL},
    {"sigsuspend", handler_begin, sigsuspend_, NO_THREAD, NULL},
    {"inotify", inotify_begin, read_inotify, NO_THREAD, NULL},
    {"recv", socket_begin, recv_, NO_THREAD, NULL},
    {"read-socket", socket_begin, read_byte, NO_THREAD, NULL},
    {"recvmsg", socket_begin, recvmsg_, NO_THREAD, NULL},
    {"recv-all", socket_begin, recv_all, NO_THREAD, NULL},
    {"recvmmsg", datagram_begin, recvmmsg_, NO_THREAD, NULL},
    {"accept", accept_begin, accept_, NO_THREAD, NULL},
    {"connect", connect_begin, connect_to_ours, NO_THREAD, NULL},
    {"msgrcv", msg_begin, msgrcv_, NO_THREAD, msg_end},
    {"msgsnd", msg_full_begin, msgsnd_, NO_THREAD, msg_end},
    {"semop", semop_begin, semop_, NO_THREAD, sem_end},
    {"flock", flock_begin, flock_, NO_THREAD, NULL},
    {"setlkw", lock_begin, setlkw, NO_THREAD, NULL},
    {"wait4", NULL, wait_, NO_THREAD, NULL},
    {"waitid", NULL, waitid_, NO_THREAD, NULL},
    {"open-fifo", fifo_begin, open_fifo, NO_THREAD, NULL},
    {NULL, NULL, NULL, 0, NULL},
};
