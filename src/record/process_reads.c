#include "record/process_reads.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/blocking_reader.h"

#include "base/banned.h"

/* One per process: it remembers unresponsive targets, and how many threads it left behind. */
static struct {
    pthread_mutex_t lock;
    struct hw_blocking_reader *blocking_reader;
} reads = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Locked until hw_unlock; NULL: out of memory, not locked. */
static struct hw_blocking_reader *lock(void)
{
    pthread_mutex_lock(&reads.lock);
    if (!reads.blocking_reader && hw_blocking_reader_new(&reads.blocking_reader) < 0)
        reads.blocking_reader = NULL;
    if (!reads.blocking_reader)
        pthread_mutex_unlock(&reads.lock);
    return reads.blocking_reader;
}

static void unlock(void)
{
    pthread_mutex_unlock(&reads.lock);
}

static struct hw_reading_who who_is(const struct hw_pid *p)
{
    struct hw_proc_status st;
    return hw_reading_at(p, hw_proc_status(p->dir, &st) == HW_OK ? st.uid : 0);
}

void hw_read_argv0(const struct hw_pid *p, char *out, size_t max)
{
    struct hw_blocking_reader *l = lock();
    out[0] = '\0';
    if (!l)
        return;
    hw_reading_argv0(l, who_is(p), out, max);
    unlock();
}

int hw_read_cmdline(const struct hw_pid *p, char **out, size_t *n)
{
    struct hw_blocking_reader *l = lock();
    if (!l)
        return HW_ENOMEM;
    int rc = hw_reading_cmdline(l, who_is(p), out, n);
    unlock();
    return rc;
}

int hw_read_environ(const struct hw_pid *p, char **out, size_t *n)
{
    struct hw_blocking_reader *l = lock();
    if (!l)
        return HW_ENOMEM;
    int rc = hw_reading_environ(l, who_is(p), out, n);
    unlock();
    return rc;
}

int hw_read_maps(const struct hw_pid *p, struct hw_maps *out)
{
    struct hw_reading_image image;
    struct hw_blocking_reader *l = lock();
    if (!l)
        return HW_ENOMEM;
    int rc = hw_reading_image(l, who_is(p), HW_READING_NO_FILES, NULL, NULL, 0, &image);
    unlock();
    if (rc < 0)
        return rc;
    *out = image.maps;
    image.maps = (struct hw_maps){0};
    hw_reading_image_done(&image);
    return HW_OK;
}

/* ---- by a process ---- */

#define STEP_MS  200
#define MOST_NS  UINT64_C(5000000000)
#define MAX_LEFT 8u

struct request {
    int32_t pid;
    uint64_t start_ticks;
};

static struct {
    pthread_mutex_t lock;
    int fd; /* -1 = none */
    pid_t pid;
    struct {
        pid_t reader;
        struct request of;
    } left[MAX_LEFT];
    size_t n_left;
} files = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

_Noreturn static void serve(int fd, void (*run)(const struct hw_pid *p, void *out), size_t n)
{
    _Alignas(16) char out[HW_READ_FILES_BYTES];
    struct request q;
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_NAME, "heapwise-read");
    if (dup2(fd, 0) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, 1, ~0u, 0); /* who reads from our command waits for its end */
    while (recv(0, &q, sizeof q, 0) == sizeof q) {
        struct hw_pid p;
        memset(out, 0, sizeof out);
        if (hw_pid_open(q.pid, &p, NULL) == HW_OK) {
            if (p.start_ticks == q.start_ticks)
                run(&p, out);
            hw_pid_done(&p);
        }
        if (send(0, out, n, MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

static int begin(void (*run)(const struct hw_pid *p, void *out), size_t n)
{
    int pair[2];
    if (files.fd >= 0)
        return HW_OK;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return HW_ESYS;
    files.pid = fork();
    if (files.pid == 0)
        serve(pair[1], run, n);
    (void)close(pair[1]); /* its end */
    if (files.pid < 0) {
        (void)close(pair[0]);
        return HW_ESYS;
    }
    files.fd = pair[0];
    return HW_OK;
}

static bool is_left(const struct hw_pid *p)
{
    bool found = false;
    for (size_t i = 0; i < files.n_left;) {
        if (waitpid(files.left[i].reader, NULL, WNOHANG) != 0) { /* it has come back, and ended */
            files.left[i] = files.left[--files.n_left];
            continue;
        }
        found |= files.left[i].of.pid == p->pid && files.left[i].of.start_ticks == p->start_ticks;
        i++;
    }
    return found || files.n_left == MAX_LEFT;
}

static bool is_at_work(pid_t pid)
{
    char path[32];
    hw_autofree char *text = NULL;
    size_t n;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (hw_file_read(AT_FDCWD, path, 4096, &text, &n, NULL) < 0)
        return false;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'R';
}

static void give_up(const struct request *q)
{
    (void)close(files.fd); /* a socket between the two of us */
    files.fd = -1;
    (void)kill(files.pid, SIGKILL); /* ours, and not yet waited for */
    files.left[files.n_left].reader = files.pid;
    files.left[files.n_left++].of = *q; /* is_left keeps a place free */
}

static int ask(const struct request *q, void *out, size_t n)
{
    uint64_t until = hw_now_monotonic_ns() + MOST_NS;
    if (send(files.fd, q, sizeof *q, MSG_NOSIGNAL) < 0)
        return HW_ESYS;
    for (;;) {
        struct pollfd p = {.fd = files.fd, .events = POLLIN};
        int rc = poll(&p, 1, STEP_MS);
        if (rc > 0)
            return recv(files.fd, out, n, MSG_DONTWAIT) == (ssize_t)n ? HW_OK : HW_ESYS;
        if ((rc < 0 && errno != EINTR) || hw_now_monotonic_ns() > until ||
            (rc == 0 && !is_at_work(files.pid)))
            return HW_ETIMEOUT;
    }
}

int hw_read_files(const struct hw_pid *p, void (*run)(const struct hw_pid *p, void *out), void *out,
                  size_t n)
{
    const struct request q = {p->pid, p->start_ticks};
    char answer[HW_READ_FILES_BYTES];
    pthread_mutex_lock(&files.lock);
    int rc = n > sizeof answer ? HW_EINVAL : is_left(p) ? HW_ETIMEOUT : begin(run, n);
    if (rc == HW_OK) {
        rc = ask(&q, answer, n);
        if (rc < 0)
            give_up(&q);
    }
    pthread_mutex_unlock(&files.lock);
    if (rc == HW_OK)
        memcpy(out, answer, n);
    return rc;
}
