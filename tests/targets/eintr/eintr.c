/*
 * eintr.c MODE MS [refuse|limit] - one blocking call in a loop, for MS milliseconds
 *
 * Ends with 1 and a line when the call gives EINTR without a handler having run, a time-out ends
 * early, or bytes are missing, there twice, or counted wrongly. Prints its best time of a call in
 * microseconds, and stays until its standard input ends. "limit": under a filter that ends the
 * process at restart_syscall; "refuse": the filter also answers geteuid with an error, so that
 * nobody can attach. "list": the modes, and whether each waits for its time.
 */
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

const struct timespec a_wait = {0, WAIT_MS * 1000000};
__thread int fds[2];
__thread uint32_t sequence;
__thread uint8_t *big;
char folder[18] = "/tmp/eintr.XXXXXX";
volatile sig_atomic_t n_handled;
int a_status; /* of a thread */

uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct timespec later(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += a_wait.tv_nsec;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

void pace(void)
{
    struct timespec t = {0, PACE_MS * 1000000};
    nanosleep(&t, NULL);
}

void handle(int s)
{
    (void)s;
    n_handled++;
}

/* A child that does this for ever. */
void feeder(void (*feed)(void))
{
    pid_t parent = getpid(), child = fork();
    if (child)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        feed();
    _exit(0);
}

int wants(long rc, long want)
{
    return rc == want ? 0 : -1;
}

int times_out(long rc, int error)
{
    return rc < 0 && errno == error ? 0 : -1;
}

/* ---- all of them ---- */

#define MAX_MODES 128

static void threads_begin(void);
static int threads(void);

static const struct mode threads_mode = {"threads", threads_begin, threads, NO_THREAD, NULL};
static struct mode modes[MAX_MODES];
static size_t n_modes;

static void add(const struct mode *table)
{
    for (; table->name; table++)
        modes[n_modes++] = *table;
}

static void gather(void)
{
    add(timeout_modes);
    add(arrival_modes);
    add(transfer_modes);
    modes[n_modes++] = threads_mode;
}

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

static pthread_t tids[MAX_MODES];

static void threads_begin(void)
{
    for (size_t i = 0; i < n_modes; i++)
        if (!(modes[i].flags & NO_THREAD) && pthread_create(&tids[i], NULL, thread, &modes[i]) != 0)
            abort();
}

static int threads(void)
{
    for (size_t i = 0; i < n_modes; i++)
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
    gather();
    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        for (size_t i = 0; i < n_modes; i++)
            printf("%s %d\n", modes[i].name, (modes[i].flags & NEVER_EARLY) != 0);
        return 0;
    }
    for (size_t i = 0; argc > 2 && i < n_modes; i++)
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
