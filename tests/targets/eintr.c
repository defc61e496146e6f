/*
 * eintr.c MODE MS [refuse|limit] - one blocking call in a loop, for MS milliseconds
 *
 * Ends with 1 and a line when the call gives EINTR without a handler having run, a time-out ends
 * early, or bytes are missing, there twice, or counted wrongly. Prints its best time of a call in
 * microseconds, and stays until its standard input ends. "limit": under a filter that ends the
 * process at restart_syscall; "refuse": the filter also answers geteuid with an error, so that
 * nobody can attach. "list": the modes.
 */
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

#define WAIT_MS 100
#define PACE_MS 15 /* of who feeds */
#define BIG     (1u << 20)

static const struct timespec a_wait = {0, WAIT_MS * 1000000};
static __thread int fds[2];
static __thread uint32_t sequence;
static __thread uint8_t *big;
static char folder[] = "/tmp/eintr.XXXXXX";
static volatile sig_atomic_t n_handled;
static int a_status; /* of a thread */

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static struct timespec later(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += a_wait.tv_nsec;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void pace(void)
{
    struct timespec t = {0, PACE_MS * 1000000};
    nanosleep(&t, NULL);
}

static void handle(int s)
{
    (void)s;
    n_handled++;
}

/* A child that does this for ever. */
static void feeder(void (*feed)(void))
{
    pid_t parent = getpid(), child = fork();
    if (child)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        feed();
    _exit(0);
}

static int wants(long rc, long want)
{
    return rc == want ? 0 : -1;
}

static int times_out(long rc, int error)
{
    return rc < 0 && errno == error ? 0 : -1;
}

/* ---- time ---- */

static int nanosleep_(void)
{
    return wants(syscall(SYS_nanosleep, &a_wait, NULL), 0);
}

static int nanosleep_rem(void)
{
    struct timespec rem = {0};
    return wants(syscall(SYS_nanosleep, &a_wait, &rem), 0);
}

static int nanosleep_same(void)
{
    struct timespec t = a_wait;
    return wants(syscall(SYS_nanosleep, &t, &t), 0);
}

static int clock_nanosleep_(void)
{
    return wants(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &a_wait, NULL), 0);
}

static int clock_nanosleep_abs(void)
{
    struct timespec t = later(CLOCK_MONOTONIC);
    return wants(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), 0);
}

static int poll_(void)
{
    return wants(poll(NULL, 0, WAIT_MS), 0);
}

static int ppoll_(void)
{
    struct timespec t = a_wait;
    return wants(syscall(SYS_ppoll, NULL, 0, &t, NULL, 8), 0);
}

/* The kernel cannot write down what is left. */
static int ppoll_constant(void)
{
    return wants(syscall(SYS_ppoll, NULL, 0, &a_wait, NULL, 8), 0);
}

static int select_(void)
{
    struct timeval t = {0, WAIT_MS * 1000};
    return wants(syscall(SYS_select, 0, NULL, NULL, NULL, &t), 0);
}

static int pselect_(void)
{
    struct timespec t = a_wait;
    return wants(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &t, NULL), 0);
}

static void epoll_begin(void)
{
    fds[0] = epoll_create1(EPOLL_CLOEXEC);
}

static int epoll_wait_(void)
{
    struct epoll_event e;
    return wants(syscall(SYS_epoll_wait, fds[0], &e, 1, WAIT_MS), 0);
}

static int epoll_pwait_(void)
{
    struct epoll_event e;
    uint64_t mask = 1u << (SIGUSR2 - 1);
    return wants(syscall(SYS_epoll_pwait, fds[0], &e, 1, WAIT_MS, &mask, sizeof mask), 0);
}

static int epoll_pwait2_(void)
{
    struct epoll_event e;
    return wants(syscall(SYS_epoll_pwait2, fds[0], &e, 1, &a_wait, NULL, 8), 0);
}

static int futex_wait(void)
{
    uint32_t word = 0;
    return times_out(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &a_wait, NULL, 0), ETIMEDOUT);
}

static int futex_bitset(void)
{
    uint32_t word = 0;
    struct timespec t = later(CLOCK_MONOTONIC);
    return times_out(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &t, NULL, ~0u), ETIMEDOUT);
}

static uint32_t *locked;

static void lock_and_wait(void)
{
    if (!*locked)
        syscall(SYS_futex, locked, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    pace();
}

static void lock_pi_begin(void)
{
    locked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    feeder(lock_and_wait);
    while (!*(volatile uint32_t *)locked)
        pace();
}

static int lock_pi(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    return times_out(syscall(SYS_futex, locked, FUTEX_LOCK_PI, 0, &t, NULL, 0), ETIMEDOUT);
}

static int waitv(void)
{
    uint32_t word = 0;
    struct {
        uint64_t value, at;
        uint32_t flags, pad;
    } w = {0, (uintptr_t)&word, 2, 0};
    struct timespec t = later(CLOCK_MONOTONIC);
    long rc = syscall(449 /* futex_waitv */, &w, 1, 0, &t, CLOCK_MONOTONIC);
    if (rc < 0 && errno == ENOSYS)
        pace();
    return rc < 0 && errno == ENOSYS ? 0 : times_out(rc, ETIMEDOUT);
}

static int sigtimedwait_(void)
{
    uint64_t set = 1u << (SIGUSR2 - 1);
    return times_out(syscall(SYS_rt_sigtimedwait, &set, NULL, &a_wait, sizeof set), EAGAIN);
}

static void sem_begin(void)
{
    fds[0] = semget(IPC_PRIVATE, 1, 0600);
}

static void sem_end(void)
{
    semctl(fds[0], 0, IPC_RMID);
}

static int semtimedop_(void)
{
    struct sembuf b = {0, -1, 0};
    return times_out(syscall(SYS_semtimedop, fds[0], &b, 1, &a_wait), EAGAIN);
}

static aio_context_t aio;

static void aio_begin(void)
{
    syscall(SYS_io_setup, 1, &aio);
}

static int getevents(void)
{
    struct io_event e;
    struct timespec t = a_wait;
    return wants(syscall(SYS_io_getevents, aio, 1, 1, &e, &t), 0);
}

static void uring_begin(void)
{
    uint32_t parameters[30] = {0};
    fds[0] = (int)syscall(425 /* io_uring_setup */, 4, parameters);
}

static int uring(void)
{
    struct {
        uint64_t mask;
        uint32_t mask_bytes, pad;
        uint64_t at;
    } more = {0, 8, 0, (uintptr_t)&a_wait};
    if (fds[0] < 0)
        return pace(), 0; /* not here */
    return times_out(syscall(426 /* io_uring_enter */, fds[0], 0, 1, 1 | 8, &more, sizeof more),
                     ETIME);
}

static void mq_begin(void)
{
    char name[32];
    struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 8};
    snprintf(name, sizeof name, "/eintr%d.%d", (int)getpid(), (int)syscall(SYS_gettid));
    fds[0] = mq_open(name, O_RDWR | O_CREAT, 0600, &a);
    mq_unlink(name);
}

static int mq_receive_(void)
{
    char text[8];
    struct timespec t = later(CLOCK_REALTIME);
    return times_out(mq_timedreceive(fds[0], text, sizeof text, NULL, &t), ETIMEDOUT);
}

static int mq_send_(void)
{
    struct timespec t = {0, 0};
    (void)mq_timedsend(fds[0], "x", 1, 0, &t); /* the first fills it */
    t = later(CLOCK_REALTIME);
    return times_out(mq_timedsend(fds[0], "x", 1, 0, &t), ETIMEDOUT);
}

static void timer_begin(void)
{
    fds[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

static int read_timer(void)
{
    struct itimerspec t = {.it_value = a_wait};
    uint64_t n;
    timerfd_settime(fds[0], 0, &t, NULL);
    return wants(read(fds[0], &n, sizeof n), sizeof n);
}

/* ---- bytes that come ---- */

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

static void set_time(int fd, int which)
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

/* ---- bytes that go ---- */

/* Takes numbers that follow each other, slowly. */
static void take_numbers(void)
{
    static uint32_t want;
    static uint8_t bytes[16384];
    static size_t have;
    pace();
    for (int i = 0; i < 8; i++) {
        ssize_t n = read(fds[0], bytes + have, sizeof bytes - have);
        if (n <= 0)
            _exit(0);
        have += (size_t)n;
        size_t k = 0;
        for (; k + 4 <= have; k += 4, want++)
            if (memcmp(bytes + k, &want, 4) != 0) {
                static const char text[] = "bytes are missing, or there twice\n";
                (void)write(2, text, sizeof text - 1);
                _exit(1);
            }
        memmove(bytes, bytes + k, have - k);
        have -= k;
    }
}

static void fill(void)
{
    for (size_t i = 0; i < BIG; i += 4, sequence++)
        memcpy(big + i, &sequence, 4);
}

static void out_pipe_begin(void)
{
    big = malloc(BIG);
    pipe2(fds, O_CLOEXEC);
    feeder(take_numbers);
    close(fds[0]);
}

static int write_pipe(void)
{
    fill();
    return wants(write(fds[1], big, BIG), BIG);
}

static int writev_pipe(void)
{
    fill();
    struct iovec v[2] = {{big, BIG / 2}, {big + BIG / 2, BIG / 2}};
    return wants(writev(fds[1], v, 2), BIG);
}

static void out_socket_begin(void)
{
    big = malloc(BIG);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
    set_time(fds[1], SO_SNDTIMEO);
    feeder(take_numbers);
    close(fds[0]);
}

static int send_socket(void)
{
    fill();
    return wants(send(fds[1], big, BIG, MSG_NOSIGNAL), BIG);
}

static int sendmsg_socket(void)
{
    fill();
    struct iovec v[2] = {{big, BIG / 2}, {big + BIG / 2, BIG / 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    return wants(sendmsg(fds[1], &m, MSG_NOSIGNAL), BIG);
}

static int write_socket(void)
{
    fill();
    return wants(write(fds[1], big, BIG), BIG);
}

static int sendfile_socket(void)
{
    int file = memfd_create("eintr", MFD_CLOEXEC); /* its pages are sent, not copies */
    fill();
    if (pwrite(file, big, BIG, 0) != BIG)
        return -1;
    off_t at = 0;
    int rc = wants(sendfile(fds[1], file, &at, BIG), BIG), error = errno;
    close(file);
    errno = error;
    return rc;
}

static void zero_begin(void)
{
    big = malloc(16 * BIG);
    fds[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static int read_zero(void)
{
    return wants(read(fds[0], big, 16 * BIG), 16 * BIG);
}

static int getrandom_(void)
{
    return wants(getrandom(big, 4 * BIG, 0), 4 * BIG);
}

static void memory_begin(void)
{
    fds[0] = memfd_create("eintr", MFD_CLOEXEC);
}

static int fallocate_(void)
{
    int rc = fallocate(fds[0], 0, 0, 16 * BIG), error = errno;
    (void)ftruncate(fds[0], 0);
    errno = error;
    return rc;
}

/* ---- all of them ---- */

static void threads_begin(void);
static int threads(void);

#define NEVER_EARLY 1 /* takes WAIT_MS */
#define NO_THREAD   2 /* feeds by process, or is about signals */

static const struct mode {
    const char *name;
    void (*begin)(void);
    int (*once)(void);
    int flags;
    void (*end)(void);
} modes[] = {
    {"nanosleep", NULL, nanosleep_, NEVER_EARLY, NULL},
    {"nanosleep-rem", NULL, nanosleep_rem, NEVER_EARLY, NULL},
    {"nanosleep-same", NULL, nanosleep_same, NEVER_EARLY, NULL},
    {"clock-nanosleep", NULL, clock_nanosleep_, NEVER_EARLY, NULL},
    {"clock-nanosleep-abs", NULL, clock_nanosleep_abs, NEVER_EARLY, NULL},
    {"poll", NULL, poll_, NEVER_EARLY, NULL},
    {"ppoll", NULL, ppoll_, NEVER_EARLY, NULL},
    {"ppoll-constant", NULL, ppoll_constant, NEVER_EARLY, NULL},
    {"select", NULL, select_, NEVER_EARLY, NULL},
    {"pselect", NULL, pselect_, NEVER_EARLY, NULL},
    {"epoll-wait", epoll_begin, epoll_wait_, NEVER_EARLY, NULL},
    {"epoll-pwait", epoll_begin, epoll_pwait_, NEVER_EARLY, NULL},
    {"epoll-pwait2", epoll_begin, epoll_pwait2_, NEVER_EARLY, NULL},
    {"epoll-child", epoll_begin, epoll_and_child, NEVER_EARLY | NO_THREAD, NULL},
    {"futex-wait", NULL, futex_wait, NEVER_EARLY, NULL},
    {"futex-bitset", NULL, futex_bitset, NEVER_EARLY, NULL},
    {"futex-lock-pi", lock_pi_begin, lock_pi, NEVER_EARLY | NO_THREAD, NULL},
    {"futex-waitv", NULL, waitv, 0, NULL},
    {"sigtimedwait", NULL, sigtimedwait_, NEVER_EARLY, NULL},
    {"semtimedop", sem_begin, semtimedop_, NEVER_EARLY, sem_end},
    {"io-getevents", aio_begin, getevents, NEVER_EARLY | NO_THREAD, NULL},
    {"io-uring", uring_begin, uring, 0, NULL},
    {"mq-receive", mq_begin, mq_receive_, NEVER_EARLY, NULL},
    {"mq-send", mq_begin, mq_send_, NEVER_EARLY, NULL},
    {"timerfd", timer_begin, read_timer, NEVER_EARLY, NULL},
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
    {"write-pipe", out_pipe_begin, write_pipe, NO_THREAD, NULL},
    {"writev-pipe", out_pipe_begin, writev_pipe, NO_THREAD, NULL},
    {"send", out_socket_begin, send_socket, NO_THREAD, NULL},
    {"sendmsg", out_socket_begin, sendmsg_socket, NO_THREAD, NULL},
    {"write-socket", out_socket_begin, write_socket, NO_THREAD, NULL},
    {"sendfile", out_socket_begin, sendfile_socket, NO_THREAD, NULL},
    {"read-zero", zero_begin, read_zero, 0, NULL},
    {"getrandom", zero_begin, getrandom_, 0, NULL},
    {"fallocate", memory_begin, fallocate_, 0, NULL},
    {"threads", threads_begin, threads, NO_THREAD, NULL},
};
#define N_MODES (sizeof modes / sizeof modes[0])

static uint64_t end_us;

static int loop(const struct mode *m, uint64_t *best)
{
    *best = UINT64_MAX;
    while (now_us() < end_us) {
        uint64_t start = now_us();
        errno = 0;
        int rc = m->once();
        uint64_t took = now_us() - start;
        if (rc != 0) {
            fprintf(stderr, "%s: %s after %u us\n", m->name, strerror(errno), (unsigned)took);
            return 1;
        }
        if ((m->flags & NEVER_EARLY) && took < WAIT_MS * 1000) {
            fprintf(stderr, "%s: ended after %u us\n", m->name, (unsigned)took);
            return 1;
        }
        *best = took < *best ? took : *best;
    }
    return 0;
}

static void *thread(void *arg)
{
    const struct mode *m = arg;
    uint64_t best;
    if (m->begin)
        m->begin();
    if (loop(m, &best) != 0)
        __atomic_store_n(&a_status, -1, __ATOMIC_RELAXED);
    if (m->end)
        m->end();
    return NULL;
}

static pthread_t tids[N_MODES];

static void threads_begin(void)
{
    for (size_t i = 0; i < N_MODES; i++)
        if (!(modes[i].flags & NO_THREAD) &&
            pthread_create(&tids[i], NULL, thread, (void *)(uintptr_t)&modes[i]) != 0)
            abort();
}

static int threads(void)
{
    for (size_t i = 0; i < N_MODES; i++)
        if (tids[i])
            pthread_join(tids[i], NULL);
    return a_status;
}

#define ANSWER(nr, what)                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, (what))

static void limit(int refuse)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ANSWER(SYS_restart_syscall, SECCOMP_RET_KILL_PROCESS),
        ANSWER(refuse ? SYS_geteuid : SYS_reboot, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
        _exit(77);
}

int main(int argc, char **argv)
{
    const struct mode *m = NULL;
    uint64_t best;
    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        for (size_t i = 0; i < N_MODES; i++)
            puts(modes[i].name);
        return 0;
    }
    for (size_t i = 0; argc > 2 && i < N_MODES; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            m = &modes[i];
    if (!m || !mkdtemp(folder))
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    end_us = now_us() + strtoull(argv[2], NULL, 10) * 1000;
    if (argc > 3)
        limit(argv[3][0] == 'r');
    if (m->begin)
        m->begin();
    printf("ready\n");
    fflush(stdout);
    int rc = loop(m, &best);
    if (m->end)
        m->end();
    printf("%llu\n", (unsigned long long)best);
    fflush(stdout);
    (void)!read(0, folder + sizeof folder - 1, 1); /* until nobody works on it any more */
    folder[sizeof folder - 1] = '\0';
    char command[64];
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"file", "fifo", "touched"};
        snprintf(command, sizeof command, "%s/%s", folder, names[i]);
        unlink(command);
    }
    rmdir(folder);
    return rc;
}
