/*
 * The way in: a socket with a name nobody can guess is bound in the JVM's /tmp (through
 * /proc/PID/root, so mount and network namespaces do not matter), the library is loaded with that
 * name as its option, connects, and both files are removed again. Whoever else connects is not
 * that process and is turned away.
 */
#include "java/jvm_link.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "java/classes.h"
#include "java/graph.h"
#include "java/holders.h"
#include "java/lobby.h"
#include "proc/limits.h"
#include "proc/pid.h"

#include "base/banned.h"

#define LIBRARY "libheapwise_java.so"

enum {
    CONNECT_MS = 10000,
    SILENCE_MS = 120000, /* a safepoint may be long in coming */
    DEFAULT_STALL_MS = 2000,
    LOBBY_STEP_MS = 20,
    CLIENT_MS = 1000,
    LIBRARY_MS = 3000,
    MAX_TABLE = 256 << 20,
    MAX_MOMENT = 1 << 20,
    MOST_MOMENTS = 16,
    CHUNK = 1 << 18
};

struct hw_java_link {
    const struct hw_jvm *jvm; /* borrowed */
    int socket;
    struct hw_java_classes *classes; /* owned */
    struct hw_java_graph *graph;     /* owned */
    struct hw_java_holders *holders; /* owned */
    uint8_t *chunk;                  /* owned */
    struct {                         /* moments that were told in the middle of something else */
        bool is_told;
        int fd; /* owned; -1 = none */
    } moments[HW_JAVA_EVENT_COUNT];
};

/* ---- the library's file ---- */

int hw_java_find_library(char **out, struct hw_error *err)
{
    static const char *const beside[] = {"/../" HW_LIBDIR_NAME "/", "/../lib/", "/../lib/heapwise/",
                                         "/../java/", "/"};
    char self[PATH_MAX], path[2 * PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
    for (size_t i = 0; slash && i < HW_ARRAY_LEN(beside); i++) {
        (void)snprintf(path, sizeof path, "%.*s%s" LIBRARY, (int)(slash - self), self, beside[i]);
        if ((*out = realpath(path, NULL)))
            return 0;
    }
    if ((*out = realpath(HW_LIBDIR "/" LIBRARY, NULL)))
        return 0;
    return hw_fail(err, HW_ENOTFOUND, 0, "no " LIBRARY " beside this program nor in " HW_LIBDIR);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool copy_file(const char *from, const char *to)
{
    hw_autofd int in = open(from, O_RDONLY | O_CLOEXEC);
    hw_autofd int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755);
    struct stat st;
    if (in < 0 || out < 0 || fstat(in, &st) < 0)
        return false;
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        if (n <= 0)
            return false;
        left -= n;
    }
    return fchmod(out, 0755) == 0;
}

/* ---- coming in ---- */

struct names {
    char inner[64];               /* socket, as the JVM sees it */
    char socket[HW_JVM_PATH_MAX]; /* and from here */
    char copy_inner[64];
    char copy[HW_JVM_PATH_MAX]; /* "" = none was made */
};

static int name_them(const struct hw_jvm *jvm, struct names *n, struct hw_error *err)
{
    uint64_t r[2];
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
        return hw_java_fail(err, HW_JAVA_FAILED, "getrandom: %s", strerror(errno));
    (void)snprintf(n->inner, sizeof n->inner, "/tmp/.heapwise-%016" PRIx64 "%016" PRIx64, r[0],
                   r[1]);
    (void)snprintf(n->copy_inner, sizeof n->copy_inner, "%.56s.so", n->inner);
    return hw_jvm_path(jvm, n->inner, n->socket, err);
}

static int listen_at(const struct hw_jvm *jvm, const char *path, int *out, struct hw_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, path, strlen(path) + 1);
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
        return hw_java_fail(err, HW_JAVA_NO_ROOM, "%s: %s", path, strerror(errno));
    if (chmod(path, 0600) < 0 ||
        (geteuid() == 0 && jvm->uid != 0 && chown(path, jvm->uid, jvm->gid) < 0) ||
        listen(fd, 1) < 0) {
        int e = errno;
        (void)unlink(path);
        return hw_java_fail(err, HW_JAVA_NO_ROOM, "%s: %s", path, strerror(e));
    }
    *out = hw_fd_take(&fd);
    return 0;
}

/* The path by which the JVM can open our library: the same, or that of a copy. */
static int place(const struct hw_jvm *jvm, const char *library, struct names *n, const char **out,
                 struct hw_error *err)
{
    char seen[PATH_MAX + 32];
    (void)snprintf(seen, sizeof seen, "/proc/%d/root%s", jvm->pid->pid, library);
    *out = library;
    if (same_file(library, seen))
        return 0;
    int reason = hw_jvm_path(jvm, n->copy_inner, n->copy, err);
    if (reason)
        return reason;
    *out = n->copy_inner;
    return copy_file(library, n->copy)
               ? 0
               : hw_java_fail(err, HW_JAVA_NO_ROOM, "%s: %s", n->copy, strerror(errno));
}

static int accept_it(const struct hw_jvm *jvm, int listener, int *out, struct hw_error *err)
{
    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        int n = poll(&p, 1, CONNECT_MS);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return hw_java_fail(err, HW_JAVA_ATTACH_TIMEOUT, "our library did not answer");
        hw_autofd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct ucred who = {0};
        socklen_t len = sizeof who;
        if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
            who.uid != jvm->uid || (who.pid && who.pid != jvm->pid->pid))
            continue;
        *out = hw_fd_take(&fd);
        return 0;
    }
}

/* The library is there already, brought by the client. */
static int visit_lobby(const struct hw_jvm *jvm, int *out)
{
    struct sockaddr_un at;
    struct stat st;
    struct ucred who = {0};
    socklen_t len = sizeof who;
    if (fstatat(jvm->pid->dir, "ns/pid", &st, 0) < 0)
        return HW_ENOTFOUND;
    socklen_t n = hw_java_lobby(st.st_ino, jvm->inner, &at);
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, n) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.uid != jvm->uid ||
        (who.pid && who.pid != jvm->pid->pid))
        return HW_ENOTFOUND;
    *out = hw_fd_take(&fd);
    return HW_OK;
}

/* Where the client is at work it brings the library in within a moment of the JVM's start, and the
 * library waits for the JVM. A client that nobody asks to looks the same from here. */
static bool await_lobby(const struct hw_jvm *jvm, int *out)
{
    struct hw_jvm now = *jvm;
    struct timespec step = {0, LOBBY_STEP_MS * 1000000};
    for (unsigned ms = 0;; ms += LOBBY_STEP_MS) {
        if (visit_lobby(jvm, out) == HW_OK)
            return true;
        if (!now.has_client || ms >= (now.has_library ? LIBRARY_MS : CLIENT_MS))
            return false;
        (void)nanosleep(&step, NULL);
        if (hw_jvm_look(jvm->pid, &now, NULL))
            return false; /* it has ended */
    }
}

static int load_it(const struct hw_jvm *jvm, const char *library, int *out, struct hw_error *err)
{
    struct names n = {0};
    const char *path;
    hw_autofd int listener = -1;
    int reason = name_them(jvm, &n, err);
    if (!reason)
        reason = listen_at(jvm, n.socket, &listener, err);
    if (reason)
        return reason;
    reason = place(jvm, library, &n, &path, err);
    if (!reason)
        reason = hw_jvm_load(jvm, path, n.inner, err);
    if (!reason)
        reason = accept_it(jvm, listener, out, err);
    (void)unlink(n.socket);
    if (n.copy[0])
        (void)unlink(n.copy);
    return reason;
}

int hw_java_link_open(const struct hw_jvm *jvm, const char *library, bool only_by_client,
                      struct hw_java_link **out, struct hw_error *err)
{
    struct hw_java_link *l = calloc(1, sizeof *l);
    if (!l || !(l->chunk = malloc(CHUNK))) {
        free(l);
        return hw_java_fail(err, HW_JAVA_FAILED, "out of memory");
    }
    l->jvm = jvm;
    l->socket = -1;
    for (size_t i = 0; i < HW_ARRAY_LEN(l->moments); i++)
        l->moments[i].fd = -1;
    int reason = 0;
    if (!await_lobby(jvm, &l->socket))
        reason = only_by_client ? hw_java_fail(err, HW_JAVA_NOT_READY, "pid %d", jvm->pid->pid)
                                : load_it(jvm, library, &l->socket, err);
    if (reason) {
        hw_java_link_free(l);
        return reason;
    }
    *out = l;
    return 0;
}

void hw_java_link_free(struct hw_java_link *l)
{
    if (!l)
        return;
    if (l->socket >= 0)
        (void)close(l->socket);
    for (size_t i = 0; i < HW_ARRAY_LEN(l->moments); i++)
        if (l->moments[i].fd >= 0)
            (void)close(l->moments[i].fd);
    hw_java_graph_free(l->graph);
    hw_java_classes_free(l->classes);
    hw_java_holders_free(l->holders);
    free(l->chunk);
    free(l);
}

/* ---- messages ---- */

static int gone(const struct hw_java_link *l, struct hw_error *err)
{
    return hw_java_fail(err, HW_JAVA_GONE, "pid %d", l->jvm->pid->pid);
}

/* 1: a message, with the descriptor that came along (-1 = none); 0: none is there. */
static int receive(struct hw_java_link *l, struct hw_java_say *m, int *fd, int wait_ms)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec bytes = {m, sizeof *m};
    struct msghdr h = {.msg_iov = &bytes,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control.room};
    struct pollfd p = {.fd = l->socket, .events = POLLIN};
    *fd = -1;
    int ready;
    do
        ready = poll(&p, 1, wait_ms);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return 0;
    ssize_t n;
    do
        n = recvmsg(l->socket, &h, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof *fd))
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    if (m->reason < 0 || m->reason >= HW_JAVA_REASON_COUNT)
        m->reason = HW_JAVA_FAILED;
    return n == (ssize_t)sizeof *m ? 1 : HW_EGONE;
}

static void note_moment(struct hw_java_link *l, const struct hw_java_say *m, int *fd)
{
    if (m->n >= HW_JAVA_EVENT_COUNT || l->moments[m->n].is_told)
        return;
    l->moments[m->n].is_told = true;
    l->moments[m->n].fd = hw_fd_take(fd);
}

/* The next message that belongs to an answer. */
static int hear(struct hw_java_link *l, struct hw_java_say *m, int *fd, struct hw_error *err)
{
    for (;;) {
        int rc = receive(l, m, fd, SILENCE_MS);
        if (rc == 0)
            return hw_java_fail(err, HW_JAVA_ATTACH_TIMEOUT, "our library is silent");
        if (rc < 0)
            return gone(l, err);
        if (m->type != HW_JAVA_EVENT)
            return 0;
        note_moment(l, m, fd);
        if (*fd >= 0)
            (void)close(*fd); /* told twice: it does not do that */
    }
}

static int take_classes(struct hw_java_link *l, int fd, struct hw_error *err)
{
    hw_autofree char *text = NULL;
    size_t n = 0;
    hw_java_classes_free(l->classes);
    l->classes = NULL;
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return hw_java_fail(err, HW_JAVA_FAILED, "no table of classes came");
    int rc = hw_fd_read_file(fd, MAX_TABLE, &text, &n, err);
    return rc < 0 ? rc : hw_java_classes_parse(hw_bytes_of(text, n), &l->classes, err);
}

/* A table that is broken is none: the graph is whole without it. */
static int take_holders(struct hw_java_link *l, int fd)
{
    char *text = NULL;
    size_t n = 0;
    hw_java_holders_free(l->holders);
    l->holders = NULL;
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 || hw_fd_read_file(fd, MAX_TABLE, &text, &n, NULL) < 0)
        return 0;
    return hw_java_holders_parse(text, n, &l->holders, NULL) == HW_ENOMEM ? HW_ENOMEM : 0;
}

/* Reads a walk to the pipe's end. What is wrong with it is in *broken; the end of the walk decides
 * with it. < 0: the sink or memory, no use to go on. */
static int take_graph(struct hw_java_link *l, struct hw_java_taking *t, int fd,
                      struct hw_error *broken, struct hw_error *err)
{
    hw_java_graph_free(l->graph);
    l->graph = NULL;
    if (!l->classes || fd < 0)
        return hw_java_fail(err, HW_JAVA_FAILED, "a walk without a table of classes");
    int rc = t->begin(t->ctx, l->classes, &l->graph);
    t->stream_bytes = 0;
    while (rc == 0) {
        ssize_t n = read(fd, l->chunk, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        t->stream_bytes += (uint64_t)n;
        rc = hw_java_graph_feed(l->graph, hw_bytes_of(l->chunk, (size_t)n), broken);
        if (rc == HW_EFORMAT)
            return 0; /* its pipe closes: the child ends */
    }
    if (rc == 0)
        rc = hw_java_graph_end(l->graph, broken);
    if (rc == HW_ETRUNCATED)
        return 0;
    return rc < 0 ? hw_fail(err, rc, 0, "%s", broken->text) : 0;
}

static void note(struct hw_java_taking *t, uint32_t mode, int reason, int detail)
{
    if (t->n_steps < HW_ARRAY_LEN(t->steps))
        t->steps[t->n_steps++] = (struct hw_java_step){mode, reason, detail};
}

int hw_java_link_dump(struct hw_java_link *l, struct hw_java_taking *t, struct hw_error *err)
{
    struct hw_java_request q = {.version = HW_JAVA_PROTOCOL,
                                .ask = HW_JAVA_ASK_DUMP,
                                .modes = t->modes,
                                .fail = t->fail,
                                .stall_ms = t->stall_ms ? t->stall_ms : DEFAULT_STALL_MS,
                                .min_heap_bytes = t->min_heap_bytes};
    struct hw_error broken = {0};
    bool whole = false;
    hw_java_holders_free(l->holders);
    l->holders = NULL;
    t->n_steps = 0;
    if (send(l->socket, &q, sizeof q, MSG_NOSIGNAL) != (ssize_t)sizeof q)
        return gone(l, err);
    for (;;) {
        struct hw_java_say m;
        hw_autofd int fd = -1;
        int rc = hear(l, &m, &fd, err);
        if (rc)
            return rc;
        switch (m.type) {
        case HW_JAVA_CLASSES:
            rc = take_classes(l, fd, err);
            break;
        case HW_JAVA_ATTEMPT:
            broken = (struct hw_error){0};
            rc = take_graph(l, t, fd, &broken, err);
            break;
        case HW_JAVA_ENDED:
            t->ended = m;
            whole = m.reason == 0 && l->graph && !broken.code;
            note(t, m.mode, m.reason ? m.reason : whole ? 0 : HW_JAVA_INCOMPLETE, m.detail);
            break;
        case HW_JAVA_HOLDERS:
            rc = take_holders(l, fd);
            break;
        case HW_JAVA_DONE:
            t->holders = l->holders;
            t->heap_bytes = m.heap_bytes;
            t->heap_left = m.heap_left;
            if (whole)
                return 0;
            return hw_java_fail(err, m.reason ? m.reason : HW_JAVA_INCOMPLETE, "%s",
                                m.reason == HW_JAVA_FORK_FAILED ? strerror(m.detail) : broken.text);
        default:
            break; /* HELLO, and what newer ones may say */
        }
        if (rc)
            return rc;
    }
}

/* ---- moments ---- */

/* A request with nothing to it but its end. */
static int ask(struct hw_java_link *l, const struct hw_java_request *q, struct hw_error *err)
{
    struct hw_java_say m;
    if (send(l->socket, q, sizeof *q, MSG_NOSIGNAL) != (ssize_t)sizeof *q)
        return gone(l, err);
    for (;;) {
        hw_autofd int fd = -1;
        int rc = hear(l, &m, &fd, err);
        if (rc)
            return rc;
        if (m.type == HW_JAVA_DONE)
            return m.reason ? hw_java_fail(err, m.reason, "moments are not told") : 0;
    }
}

int hw_java_link_watch(struct hw_java_link *l, uint32_t events, uint32_t hold_ms,
                       struct hw_error *err)
{
    struct hw_java_request q = {.version = HW_JAVA_PROTOCOL,
                                .ask = HW_JAVA_ASK_WATCH,
                                .events = events,
                                .hold_ms = hold_ms};
    return ask(l, &q, err);
}

int hw_java_link_release(struct hw_java_link *l, enum hw_java_event event)
{
    struct hw_java_request q = {
        .version = HW_JAVA_PROTOCOL, .ask = HW_JAVA_ASK_RELEASE, .events = 1u << event};
    return send(l->socket, &q, sizeof q, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof q
               ? HW_OK
               : HW_EGONE;
}

/* The next text of a moment; NULL: there is none. */
static const char *next_text(const char **p, const char *end)
{
    const char *text = *p, *nul = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    if (!nul)
        return NULL;
    *p = nul + 1;
    return text;
}

/* What is broken or too long is left out: the moment itself counts. */
static void read_moment(int fd, struct hw_java_moment *out)
{
    size_t n = 0;
    const char *method, *file, *line;
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        hw_fd_read_file(fd, MAX_MOMENT, &out->text, &n, NULL) < 0)
        return;
    const char *p = out->text, *end = p + n, *words = next_text(&p, end);
    out->words = words ? words : "";
    while (out->n_frames < HW_JAVA_MAX_STACK && (method = next_text(&p, end)) &&
           (file = next_text(&p, end)) && (line = next_text(&p, end))) {
        uint64_t number = 0;
        for (const char *c = line; *c >= '0' && *c <= '9' && number <= UINT32_MAX; c++)
            number = number * 10 + (uint64_t)(*c - '0');
        out->frames[out->n_frames++] =
            (struct hw_java_moment_frame){method, file, number > INT32_MAX ? 0 : (uint32_t)number};
    }
}

int hw_java_link_moment(struct hw_java_link *l, struct hw_java_moment *out)
{
    struct hw_java_say m;
    int rc;
    int room = MOST_MOMENTS;
    do {
        hw_autofd int fd = -1;
        rc = receive(l, &m, &fd, 0);
        if (rc > 0 && m.type == HW_JAVA_EVENT)
            note_moment(l, &m, &fd);
    } while (rc > 0 && --room > 0); /* it may talk without end */
    for (uint32_t i = 0; i < HW_JAVA_EVENT_COUNT; i++) {
        if (!l->moments[i].is_told)
            continue;
        hw_autofd int fd = hw_fd_take(&l->moments[i].fd);
        l->moments[i].is_told = false;
        *out = (struct hw_java_moment){.event = i, .words = ""};
        read_moment(fd, out);
        return 1;
    }
    return rc;
}

void hw_java_moment_done(struct hw_java_moment *m)
{
    free(m->text);
    *m = (struct hw_java_moment){.words = ""};
}

/* ---- what may be tried ---- */

/* The copy's pages count where the JVM's do: in its memory groups, and in the machine. */
static bool has_room(const struct hw_jvm *jvm)
{
    struct hw_limits l;
    hw_limits_init(&l, jvm->pid->dir, &hw_limits_usual);
    uint64_t room = hw_limits_room(&l, &hw_limits_usual, NULL);
    hw_limits_done(&l);
    return room / 1024 >= jvm->anon_kb;
}

uint32_t hw_java_modes(const struct hw_jvm *jvm, bool allow_pause, int *why)
{
    uint32_t modes = allow_pause ? 1u << HW_JAVA_PAUSED_ADDRESS | 1u << HW_JAVA_PAUSED_TAGS : 0;
    *why = jvm->zgc           ? HW_JAVA_UNSAFE_GC
           : jvm->shared_heap ? HW_JAVA_SHARED_HEAP
           : !has_room(jvm)   ? HW_JAVA_LOW_MEMORY
                              : HW_JAVA_OK;
    if (jvm->zgc)
        modes &= ~(1u << HW_JAVA_PAUSED_ADDRESS); /* ZGC's pointers are coloured */
    return *why ? modes : modes | 1u << HW_JAVA_FORK_ADDRESS | 1u << HW_JAVA_FORK_TAGS;
}
