/*
 * blocking_fd.c - main thread ──socket──> a thread with its own table ──file that will do──> main thread
 *
 * close(): the socket's last descriptor is that thread's, and goes with it. While a thread ends,
 *          the kernel lets no socket linger (PF_EXITING).
 * take():  the message is looked at first (MSG_PEEK), so that nothing is dropped while it is read.
 *          What a file system makes us wait for, it makes that thread wait for.
 */
#include "daemon/clients/blocking_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/detached.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/files/fd_send.h"
#include "base/log.h"

#include "base/banned.h"

#define WAIT_NS      UINT64_C(500000000)
#define STRIKE_NS    UINT64_C(60000000000)
#define MAX_STRIKES  3u
#define MAX_OF_USER  4u
#define MAX_LEFT     32u
#define MAX_MESSAGES 64 /* messages that are read before a socket is closed */

struct aside {
    atomic_int users; /* the last one frees it */
    sem_t there, go, done;
    bool apart; /* it has its own table */
    int socket; /* whose table it has when the thread starts */

    /* take */
    int back;
    uint32_t uid;
    uint8_t *message;
    size_t max;
    ssize_t n;
    int rc;
    struct hw_error err;
};

struct struck {
    uint32_t uid;
    uint64_t at_ns;
};

/* Users who have kept us waiting: kept for strikes, and while a thread is stuck. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct struck struck[64];
static size_t next_struck;
static uint32_t left[MAX_LEFT];
static size_t n_left;

static void drop(struct aside *a)
{
    if (atomic_fetch_sub(&a->users, 1) != 1)
        return;
    (void)sem_destroy(&a->there); /* nobody waits for these */
    (void)sem_destroy(&a->go);
    (void)sem_destroy(&a->done);
    free(a->message);
    free(a);
}

static void wait_for(sem_t *s)
{
    while (sem_wait(s) < 0 && errno == EINTR)
        ;
}

static struct aside *aside_new(int socket)
{
    struct aside *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    atomic_init(&a->users, 2);
    a->socket = socket;
    a->back = -1;
    a->n = -1;
    (void)sem_init(&a->there, 0, 0); /* these cannot fail */
    (void)sem_init(&a->go, 0, 0);
    (void)sem_init(&a->done, 0, 0);
    return a;
}

/* In the thread. */
static void go_apart(struct aside *a)
{
    a->apart = unshare(CLONE_FILES) == 0;
    (void)sem_post(&a->there);
}

static void keep_only(int x, int y)
{
    unsigned lo = (unsigned)(x < y ? x : y), hi = (unsigned)(x < y ? y : x);
    if (lo > 0)
        (void)syscall(SYS_close_range, 0, lo - 1, 0); /* else they go when we end */
    if (hi - lo > 1)
        (void)syscall(SYS_close_range, lo + 1, hi - 1, 0);
    (void)syscall(SYS_close_range, hi + 1, ~0u, 0);
}

/* ---- closing ---- */

/* Those whose threads have just started. */
static struct aside *closing[64];
static size_t n_closing;

static void *run_close(void *arg)
{
    struct aside *a = arg;
    go_apart(a);
    wait_for(&a->go); /* the main thread's is closed */
    if (a->apart)
        keep_only(a->socket, a->socket);
    else
        (void)close(a->socket); /* we wait instead of the main thread */
    drop(a);
    return NULL;
}

/* The thread has its own table. */
static void let_go(struct aside *a)
{
    if (a->apart)
        (void)close(a->socket); /* not the last one: nothing happens */
    (void)sem_post(&a->go);
    drop(a);
}

void hw_blocking_fd_tick(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_closing; i++)
        if (sem_trywait(&closing[i]->there) == 0)
            let_go(closing[i]);
        else
            closing[kept++] = closing[i];
    n_closing = kept;
}

static void close_apart(int socket)
{
    struct aside *a = aside_new(socket);
    if (!a || !hw_detached_run(run_close, a, HW_DETACHED_SMALL)) {
        hw_log(WARN, "a socket stays open: no thread could be started to close it");
        free(a);
        return;
    }
    hw_blocking_fd_tick();
    if (n_closing == HW_ARRAY_LEN(closing)) {
        wait_for(&closing[0]->there);
        let_go(closing[0]);
        closing[0] = closing[--n_closing];
    }
    closing[n_closing++] = a;
}

/* It is empty, or has only messages without descriptors. */
static bool is_harmless(int socket)
{
    static const int yes = 1;
    char byte;
    bool carries;
    for (int i = 0; i < MAX_MESSAGES; i++) {
        ssize_t n = hw_fd_peek(socket, &byte, sizeof byte, &carries);
        if (n < 0 || carries)
            return !carries;
        if (n > 0)
            (void)recv(socket, &byte, sizeof byte, MSG_DONTWAIT); /* else it is met again */
        if (n > 0)
            continue;
        /* The end, or a message without a byte: only that one has a sender. */
        (void)setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
        return hw_fd_peek(socket, &byte, sizeof byte, &carries) == 0 && !carries;
    }
    return false;
}

void hw_blocking_fd_close(int socket)
{
    (void)shutdown(socket, SHUT_RD); /* no more comes */
    if (is_harmless(socket))
        (void)close(socket); /* there is nothing in it */
    else
        close_apart(socket);
}

/* ---- taking ---- */

/* A file on another file system may be one of FUSE after all, unless it was mounted where only
 * root can. */
static bool is_mounted_by_root(int fd)
{
    char path[64], line[512];
    unsigned long id = 0, one;
    (void)snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", fd);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "mnt_id: %lu", &id);
    if (f)
        (void)fclose(f); /* it was only read */
    f = id ? fopen("/proc/1/mountinfo", "re") : NULL;
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%lu ", &one) == 1 && one == id;
    if (f)
        (void)fclose(f); /* the same */
    return found;
}

/* Not FUSE: neither reading its status nor closing it blocks. */
static bool is_quick(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type != FUSE_SUPER_MAGIC &&
           (fs.f_type != OVERLAYFS_SUPER_MAGIC || is_mounted_by_root(fd));
}

/* Regular files by type, but a write to them is a command to the kernel, which checks some of
 * them by the writer: that would be us. */
static bool is_the_kernels(int fd)
{
    static const unsigned long kinds[] = {
        PROC_SUPER_MAGIC, SYSFS_MAGIC,      CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,  DEBUGFS_MAGIC,
        TRACEFS_MAGIC,    SECURITYFS_MAGIC, SELINUX_MAGIC,      SMACK_MAGIC,          BPF_FS_MAGIC,
        EFIVARFS_MAGIC,   PSTOREFS_MAGIC,   BINFMTFS_MAGIC,     RDTGROUP_SUPER_MAGIC,
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < HW_ARRAY_LEN(kinds); i++)
        if ((unsigned long)fs.f_type == kinds[i])
            return true;
    return false;
}

static int check(int fd, bool *quick, struct hw_error *err)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY)
        return hw_fail(err, HW_EPERM, 0, "the output file is not open for writing");
    if (!(*quick = is_quick(fd)))
        return hw_fail(err, HW_EPERM, 0,
                       "the output is on a file system that a process serves (FUSE), or could "
                       "serve, which could stop the recorder of all users; write it elsewhere");
    if (is_the_kernels(fd))
        return hw_fail(
            err, HW_EPERM, 0,
            "the output is in a file system of the kernel's own (/proc, /sys); write it to a disk");
    if (fstat(fd, &st) < 0 ||
        (!S_ISREG(st.st_mode) && !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))))
        return hw_fail(err, HW_EPERM, 0, "the output is not a regular file");
    return HW_OK;
}

static int receive(struct aside *a, int *fd)
{
    ssize_t n = hw_fd_receive(a->socket, a->message, a->max, fd, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0 || *fd < 0)
        return hw_fail(&a->err, HW_EINVAL, 0,
                       "the request must bring exactly one descriptor, that of the output file");
    a->n = recv(a->socket, a->message, a->max, MSG_DONTWAIT); /* what it carried is ours, too */
    return HW_OK;
}

void hw_blocking_fd_leave(uint32_t uid)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_left; i++)
        if (left[i] == uid) {
            left[i] = left[--n_left];
            break;
        }
    pthread_mutex_unlock(&lock);
}

static void strike(uint32_t uid)
{
    struct struck *s = &struck[next_struck++ % HW_ARRAY_LEN(struck)];
    *s = (struct struck){uid, hw_now_monotonic_ns()};
}

void hw_blocking_fd_stuck(uint32_t uid)
{
    pthread_mutex_lock(&lock);
    strike(uid);
    if (n_left < MAX_LEFT)
        left[n_left++] = uid;
    pthread_mutex_unlock(&lock);
}

static void *run_take(void *arg)
{
    struct aside *a = arg;
    uint32_t uid = a->uid;
    int fd = -1;
    bool quick = true;
    go_apart(a);
    if (a->apart)
        keep_only(a->socket, a->back);
    int rc = receive(a, &fd);
    if (a->apart)
        (void)close(a->socket); /* not the last one */
    if (rc == HW_OK)
        rc = check(fd, &quick, &a->err);
    if (rc == HW_OK && hw_fd_send(a->back, "", 1, &fd, 1, 0) < 0)
        rc = hw_fail_sys(&a->err, "the output file");
    a->rc = rc;
    if (rc == HW_OK)
        hw_blocking_fd_leave(uid);
    if (!a->apart)
        (void)close(a->back); /* else with the table */
    (void)sem_post(&a->done);
    drop(a);
    if (fd >= 0 && !quick)
        (void)close(fd); /* here we may stay */
    if (rc < 0)
        hw_blocking_fd_leave(uid);
    return NULL;
}

static bool is_refused(uint32_t uid, uint64_t now)
{
    size_t of_user = 0, strikes = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_left; i++)
        of_user += left[i] == uid;
    for (size_t i = 0; i < HW_ARRAY_LEN(struck); i++)
        strikes += struck[i].at_ns && struck[i].uid == uid && now - struck[i].at_ns < STRIKE_NS;
    bool no = of_user >= MAX_OF_USER || strikes >= MAX_STRIKES || n_left == MAX_LEFT;
    if (!no)
        left[n_left++] = uid;
    pthread_mutex_unlock(&lock);
    return no;
}

static bool is_done(struct aside *a)
{
    uint64_t until = hw_now_monotonic_ns() + WAIT_NS;
    struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    int rc;
    while ((rc = sem_clockwait(&a->done, CLOCK_MONOTONIC, &ts)) < 0 && errno == EINTR)
        ;
    return rc == 0;
}

static int take(struct aside *a, int pair[2], void *message, ssize_t *n, int *fd,
                struct hw_error *err)
{
    char byte;
    if (!hw_detached_run(run_take, a, HW_DETACHED_SMALL)) {
        hw_blocking_fd_leave(a->uid);
        drop(a);
        return hw_fail(err, HW_ENOMEM, 0, "cannot start a thread to check the output file");
    }
    wait_for(&a->there);
    if (a->apart)
        (void)close(hw_fd_take(&pair[1])); /* it has one */
    else
        pair[1] = -1; /* it closes it */
    if (!is_done(a)) {
        pthread_mutex_lock(&lock);
        strike(a->uid);
        pthread_mutex_unlock(&lock);
        *n = 0;
        return hw_fail(err, HW_ETIMEOUT, 0,
                       "the output file's system does not respond (a network or FUSE mount?); "
                       "write it elsewhere");
    }
    *n = a->n;
    if (a->n > 0)
        memcpy(message, a->message, (size_t)a->n);
    if (a->rc < 0) {
        *err = a->err;
        return a->rc;
    }
    if (hw_fd_receive(pair[0], &byte, 1, fd, 1, MSG_DONTWAIT) != 1)
        return hw_fail(
            err, HW_ELIMIT, 0,
            "the recorder has no more descriptors: raise its limit (ulimit -n, LimitNOFILE=)");
    return HW_OK;
}

int hw_blocking_fd_take(int socket, uint32_t uid, void *message, size_t max, ssize_t *n, int *fd,
                        struct hw_error *err)
{
    int pair[2];
    *n = -1;
    *fd = -1;
    if (is_refused(uid, hw_now_monotonic_ns()))
        return hw_fail(err, HW_ETIMEOUT, 0,
                       "earlier output files of this user lie on file systems that do not respond; "
                       "try again in a minute");
    struct aside *a = aside_new(socket);
    uint8_t *own = a ? malloc(max) : NULL;
    if (!own || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        free(own);
        free(a);
        hw_blocking_fd_leave(uid);
        return hw_fail(err, HW_ELIMIT, 0,
                       "the recorder has no more descriptors (ulimit -n) or no memory to check the "
                       "output file");
    }
    hw_autofd int here = pair[0];
    a->back = pair[1];
    a->uid = uid;
    a->message = own;
    a->max = max;
    int rc = take(a, pair, message, n, fd, err);
    if (pair[1] >= 0)
        (void)close(pair[1]); /* no thread had it */
    drop(a);
    return rc;
}
