/*
 * exec_file_readers.c - finder ──file, or root──> a reader ──what is there──> finder
 *
 * A reader has one question at a time. The finder never waits: it asks, and looks again with the
 * next turn of its loop, until the answerer's time for this start is over. A reader that is late may
 * come back (a cold disk), and then works on; a user has at most two that are at work, so one who
 * holds locks of his own does not use up those of others.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/files/fd_send.h"
#include "base/memory/map64.h"
#include "daemon/execwatch/exec_files.h"
#include "daemon/execwatch/exec_reader.h"
#include "proc/rights/userns.h"
#include "proc/root_path.h"

#include "base/banned.h"

#define MS            UINT64_C(1000000)
#define LATE_NS       (50 * MS)
#define SIGHT_NS      (2000 * MS) /* what a root shows is looked up again then */
#define SIGHT_MORE_NS (500 * MS)  /* from an exec's question to its end */
#define MOST_OF       2u          /* readers of one user */
#define HEAD_BYTES    4096u
#define READ_END      3 /* in a reader */
#define MOST_SCRIPTS  5 /* interpreters that are scripts, as in the kernel */

struct question {
    uint32_t is_root, pad;
    struct hw_exec_file_id id;
    struct hw_exec_root root;
    char socket[112];
    char interpreter[HW_EXEC_LINE]; /* to be looked at in that root, too; "" = none */
};

struct answer {
    struct question q;
    struct hw_exec_file file;
    uint32_t sight;
};

/* ---- in a reader ---- */

static void examine(int fd, const struct question *q, struct hw_exec_file *out)
{
    _Alignas(8) char head[HEAD_BYTES];
    *out = (struct hw_exec_file){.id = q->id, .start = {HW_START_UNREADABLE, 1}};
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return;
    out->kind = hw_exec_file_kind_of(head, (size_t)n, out->interpreter);
    if (out->kind != HW_EXEC_FILE_SCRIPT)
        hw_start_examine(fd, &out->start);
}

/* Its id is 0 where it cannot be read: when the program stands, it is another file than any here. */
static void examine_interpreter(int root, const char *path, struct hw_exec_file *out)
{
    char next[HW_EXEC_LINE];
    (void)snprintf(next, sizeof next, "%s", path);
    for (int i = 0; i < MOST_SCRIPTS; i++) {
        struct question q = {.is_root = 0};
        struct stat st;
        hw_autofd int found = hw_root_find(root, next, HW_ROOT_LINKS);
        hw_autofd int fd = found < 0 ? -1 : hw_root_read(found, &st);
        *out = (struct hw_exec_file){.id = {0}};
        if (fd < 0 || hw_exec_file_id_of(fd, "", &q.id) < 0)
            return;
        examine(fd, &q, out);
        if (out->kind != HW_EXEC_FILE_SCRIPT)
            return;
        (void)snprintf(next, sizeof next, "%s", out->interpreter);
    }
}

_Noreturn static void read_files(const char *library, int socket)
{
    static struct answer a;
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_NAME, "heapprofd-read");
    if (socket != READ_END && dup3(socket, READ_END, O_CLOEXEC) < 0)
        _exit(1);
    (void)close_range(READ_END + 1, ~0u, 0); /* nobody is to wait for our end of his sockets */
    for (;;) {
        hw_autofd int fd = -1;
        if (hw_fd_receive(READ_END, &a.q, sizeof a.q, &fd, 1, 0) != sizeof a.q || fd < 0)
            _exit(0);
        if (a.q.is_root)
            a.sight = hw_start_check(fd, a.q.root.uid, library, a.q.socket);
        if (a.q.is_root && a.q.interpreter[0])
            examine_interpreter(fd, a.q.interpreter, &a.file);
        else if (!a.q.is_root)
            examine(fd, &a.q, &a.file);
        if (send(READ_END, &a, sizeof a, MSG_NOSIGNAL) != sizeof a)
            _exit(0);
    }
}

/* ---- in the finder ---- */

void hw_exec_file_readers_init(struct hw_exec_file_readers *r, const char *library)
{
    r->library = library;
    for (size_t i = 0; i < HW_EXEC_FILE_READERS; i++)
        r->v[i].fd = -1;
}

static int begin(struct hw_exec_file_readers *r, struct hw_exec_file_reader *x)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return HW_ESYS;
    pid_t self = getpid();
    x->pid = fork();
    if (x->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail with these arguments */
        if (getppid() != self)
            _exit(0);
        read_files(r->library, pair[1]);
    }
    (void)close(pair[1]);
    if (x->pid < 0) {
        (void)close(pair[0]);
        return HW_ESYS;
    }
    x->fd = pair[0];
    return HW_OK;
}

/* The first start waits 20 ms in all: not for a fork as well. */
void hw_exec_file_readers_begin(struct hw_exec_file_readers *r)
{
    (void)begin(r, &r->v[0]); /* else with the first question */
}

/* NULL: none is to be had for this user now. */
static struct hw_exec_file_reader *find_free(struct hw_exec_file_readers *r, uint32_t uid)
{
    struct hw_exec_file_reader *idle = NULL, *none = NULL;
    uint32_t n_of = 0;
    for (size_t i = 0; i < HW_EXEC_FILE_READERS; i++) {
        struct hw_exec_file_reader *x = &r->v[i];
        if (x->fd < 0)
            none = none ? none : x;
        else if (x->since_ns == 0)
            idle = x;
        else
            n_of += x->uid == uid;
    }
    if (n_of >= MOST_OF)
        return NULL;
    return idle ? idle : none && begin(r, none) == HW_OK ? none : NULL;
}

static bool is_late(const struct hw_exec_file_reader *x)
{
    return hw_now_monotonic_ns() - x->since_ns > LATE_NS;
}

/* Whoever waits for a place behind readers that are late would wait in vain. */
static bool all_are_late(const struct hw_exec_file_readers *r, uint32_t uid)
{
    uint32_t n = 0, n_of = 0;
    for (size_t i = 0; i < HW_EXEC_FILE_READERS; i++)
        if (r->v[i].fd >= 0 && r->v[i].since_ns && is_late(&r->v[i])) {
            n++;
            n_of += r->v[i].uid == uid;
        }
    return n_of >= MOST_OF || n == HW_EXEC_FILE_READERS;
}

static int send_question(struct hw_exec_file_readers *r, int32_t tid, const struct question *q,
                         int fd)
{
    uint64_t key = hw_hash_bytes(q, sizeof *q);
    for (size_t i = 0; i < HW_EXEC_FILE_READERS; i++)
        if (r->v[i].fd >= 0 && r->v[i].since_ns && r->v[i].key == key)
            return is_late(&r->v[i]) ? HW_ETIMEOUT : HW_EBUSY;
    uint32_t uid = hw_exec_user_of(tid);
    struct hw_exec_file_reader *x = find_free(r, uid);
    if (!x)
        return all_are_late(r, uid) ? HW_ETIMEOUT : HW_EBUSY;
    if (hw_fd_send(x->fd, q, sizeof *q, &fd, 1, MSG_DONTWAIT) < 0)
        return HW_EBUSY; /* it has ended, which its socket tells */
    x->tid = tid;
    x->uid = uid;
    x->key = key;
    x->id = q->id;
    x->since_ns = hw_now_monotonic_ns();
    return HW_EBUSY;
}

int hw_exec_file_get(struct hw_exec_file_readers *r, struct hw_exec_files *f, int32_t tid, int fd,
                     struct hw_exec_file *out)
{
    struct question q = {.is_root = 0};
    if (hw_exec_file_id_of(fd, "", &q.id) < 0)
        return HW_ETIMEOUT;
    return hw_exec_file_find(f, &q.id, out) ? HW_OK : send_question(r, tid, &q, fd);
}

static int root_of(int dir, uint32_t uid, struct hw_exec_root *out, int *root)
{
    struct hw_exec_file_id id;
    *root = hw_root_open(dir);
    if (*root < 0 || hw_exec_file_id_of(*root, "", &id) < 0)
        return HW_EGONE;
    *out = (struct hw_exec_root){hw_ns_inode(dir, "ns/mnt"), id.dev, id.ino, 0, uid, 0};
    return HW_OK;
}

static bool find_sight(const struct hw_exec_file_readers *r, const struct hw_exec_root *root,
                       uint64_t now, enum hw_start_sight *out)
{
    for (size_t i = 0; i < HW_EXEC_SIGHTS; i++)
        if (now < r->sights[i].until_ns && memcmp(&r->sights[i].root, root, sizeof *root) == 0) {
            *out = r->sights[i].sight;
            return true;
        }
    return false;
}

int hw_exec_sight_find(const struct hw_exec_file_readers *r, int dir, uint32_t uid,
                       enum hw_start_sight *out)
{
    struct hw_exec_root root;
    hw_autofd int fd = -1;
    int rc = root_of(dir, uid, &root, &fd);
    if (rc < 0)
        return rc;
    return find_sight(r, &root, hw_now_monotonic_ns(), out) ? HW_OK : HW_EBUSY;
}

/* It has to be known when the program stands, too. */
int hw_exec_sight_get(struct hw_exec_file_readers *r, int32_t tid, int dir, uint32_t uid,
                      const char *socket, const char *interpreter, enum hw_start_sight *out)
{
    struct question q = {.is_root = 1};
    hw_autofd int fd = -1;
    int rc = root_of(dir, uid, &q.root, &fd);
    if (rc < 0)
        return HW_ETIMEOUT;
    (void)snprintf(q.socket, sizeof q.socket, "%s", socket); /* as long as ours */
    (void)snprintf(q.interpreter, sizeof q.interpreter, "%s", interpreter);
    if (interpreter[0])
        q.root.interpreter = hw_hash_bytes(interpreter, strlen(interpreter));
    return find_sight(r, &q.root, hw_now_monotonic_ns() + SIGHT_MORE_NS, out)
               ? HW_OK
               : send_question(r, tid, &q, fd);
}

/* The oldest makes room. */
static void keep_sight(struct hw_exec_file_readers *r, const struct hw_exec_root *root,
                       enum hw_start_sight sight)
{
    struct hw_exec_sight *s = r->sights;
    for (size_t i = 0; i < HW_EXEC_SIGHTS; i++) {
        if (memcmp(&r->sights[i].root, root, sizeof *root) == 0) {
            s = &r->sights[i];
            break;
        }
        if (r->sights[i].until_ns < s->until_ns)
            s = &r->sights[i];
    }
    *s = (struct hw_exec_sight){*root, sight, hw_now_monotonic_ns() + SIGHT_NS};
}

static void keep_root(struct hw_exec_file_readers *r, struct hw_exec_files *f, struct answer *a)
{
    enum hw_start_sight sight = (enum hw_start_sight)a->sight;
    keep_sight(r, &a->q.root, sight);
    if (a->q.interpreter[0] == '\0')
        return;
    a->q.root.interpreter = 0;
    keep_sight(r, &a->q.root, sight);
    if (a->file.id.ino)
        hw_exec_file_keep(f, &a->file);
}

/* False: nothing more now. */
static bool hear(struct hw_exec_file_readers *r, struct hw_exec_files *f,
                 struct hw_exec_file_reader *x)
{
    static struct answer a;
    ssize_t n = recv(x->fd, &a, sizeof a, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n == sizeof a && a.q.is_root)
        keep_root(r, f, &a);
    else if (n == sizeof a)
        hw_exec_file_keep(f, &a.file);
    if (n == sizeof a) {
        x->since_ns = 0;
        return true;
    }
    if (x->since_ns && x->id.ino) /* a file that its reader did not survive */
        hw_exec_file_keep(f,
                          &(struct hw_exec_file){.id = x->id, .start = {HW_START_UNREADABLE, 1}});
    (void)close(x->fd);
    x->fd = -1;
    x->since_ns = 0;
    return false;
}

void hw_exec_file_readers_poll(const struct hw_exec_file_readers *r, struct pollfd *p)
{
    for (size_t i = 0; i < HW_EXEC_FILE_READERS; i++)
        p[i] = (struct pollfd){.fd = r->v[i].fd, .events = POLLIN};
}

void hw_exec_file_readers_read(struct hw_exec_file_readers *r, struct hw_exec_files *f)
{
    for (size_t i = 0; i < HW_EXEC_FILE_READERS; i++)
        while (r->v[i].fd >= 0 && hear(r, f, &r->v[i]))
            ;
}
