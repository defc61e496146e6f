/*
 * What the library says is trusted as little as any input: each message and each descriptor has
 * its place in an answer, descriptors are memory files or pipes (nothing else is ever read: it
 * could block, or be served by the target), and a peer that says nothing useful for too long is dropped.
 */
#include "java/jvm/jvm_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_close.h"
#include "base/files/fd_receive.h"
#include "java/classes.h"
#include "java/graph.h"
#include "java/holders.h"
#include "proc/memory_limits.h"
#include "proc/pid.h"

#include "base/banned.h"

enum {
    DEFAULT_STALL_MS = 2000,
    MAX_MESSAGES = 64, /* of one answer: the ladder has four steps, of three tries each */
    MAX_TABLE = 256 << 20,
    MAX_MOMENT = 1 << 20,
    MOST_MOMENTS = 16,
    CHUNK = 1 << 18,
    PATIENCE = 5,      /* silences, for one answer; and then */
    NS_A_BYTE = 95,    /* of a graph: 10 MiB/s are slow for the largest heap */
    STREAM_FACTOR = 16 /* a graph's bytes to a heap's; nothing but references would take 5 */
};

#define STREAM_ALWAYS (UINT64_C(64) << 20)

struct hw_java_link {
    const struct hw_jvm *jvm; /* borrowed */
    int socket;
    struct hw_java_classes *classes; /* owned */
    struct hw_java_graph *graph;     /* owned */
    struct hw_java_holders *holders; /* owned */
    uint8_t *chunk;                  /* owned */
    uint64_t patience_ns;            /* left for this answer */
    unsigned n_messages;             /* of it */
    struct {                         /* moments that were told in the middle of something else */
        bool is_told;
        int fd; /* owned; -1 = none */
    } moments[HW_JAVA_EVENT_COUNT];
};

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
    int reason = hw_jvm_enter(jvm, library, only_by_client, &l->socket, err);
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

/* The connection has ended, or what came is no message. */
static int gone(const struct hw_java_link *l, struct hw_error *err)
{
    if (hw_pid_alive(l->jvm->pid))
        return hw_java_fail(err, HW_JAVA_TALKS, "pid %d ended the connection or sent no message",
                            l->jvm->pid->pid);
    return hw_java_fail(err, HW_JAVA_GONE, "pid %d", l->jvm->pid->pid);
}

static void begin_waiting(struct hw_java_link *l)
{
    l->patience_ns = l->jvm->silence_ms * UINT64_C(1000000) * PATIENCE;
    l->n_messages = 0;
}

/* Whether something is there to be read. Neither a single wait nor all of them together last for
 * ever, in however small pieces it comes. */
static bool wait_for(struct hw_java_link *l, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint64_t begun = hw_now_monotonic_ns(), most = l->jvm->silence_ms * UINT64_C(1000000), took = 0;
    most = most < l->patience_ns ? most : l->patience_ns;
    int ready;
    do {
        ready = poll(&p, 1, (int)((most - took) / 1000000) + 1);
        took = hw_now_monotonic_ns() - begun;
    } while (ready < 0 && errno == EINTR && took < most);
    l->patience_ns -= took < l->patience_ns ? took : l->patience_ns;
    return ready > 0;
}

/* No file system is asked. */
static bool is_memory(int fd)
{
    return fcntl(fd, F_GET_SEALS) >= 0;
}

static bool is_pipe(int fd)
{
    return fcntl(fd, F_GETPIPE_SZ) >= 0;
}

/* 1: a message, with the memory file or pipe that came along (-1 = none); 0: none is there. */
static int receive(struct hw_java_link *l, struct hw_java_message *m, int *fd)
{
    ssize_t n = hw_fd_receive(l->socket, m, sizeof *m, fd, 1, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (*fd >= 0 && !is_memory(*fd) && !is_pipe(*fd))
        hw_fd_close_slow(hw_fd_take(fd)); /* nothing of ours, and its close could wait */
    if (n != (ssize_t)sizeof *m) {
        hw_autofd_close(fd);
        *fd = -1;
        return HW_EGONE;
    }
    if (m->reason < 0 || m->reason >= HW_JAVA_REASON_COUNT)
        m->reason = HW_JAVA_FAILED;
    return 1;
}

static void note_moment(struct hw_java_link *l, const struct hw_java_message *m, int *fd)
{
    if (m->n >= HW_JAVA_EVENT_COUNT || l->moments[m->n].is_told)
        return;
    l->moments[m->n].is_told = true;
    l->moments[m->n].fd = hw_fd_take(fd);
}

/* The next message that belongs to an answer. */
static int next_answer(struct hw_java_link *l, struct hw_java_message *m, int *fd,
                       struct hw_error *err)
{
    for (;;) {
        if (!wait_for(l, l->socket))
            return hw_java_fail(err, HW_JAVA_ATTACH_TIMEOUT,
                                "heapwise's library in the JVM does not answer");
        int rc = receive(l, m, fd);
        if (rc < 0)
            return gone(l, err);
        if (rc == 0)
            continue;
        if (++l->n_messages > MAX_MESSAGES) {
            hw_autofd_close(fd);
            *fd = -1;
            return hw_java_fail(err, HW_JAVA_TALKS, "its answer does not end");
        }
        if (m->type != HW_JAVA_EVENT)
            return 0;
        note_moment(l, m, fd);
        if (*fd >= 0)
            (void)close(*fd); /* told twice: it does not do that */
        *fd = -1;
    }
}

/* Memory only: reading any other file could wait for who serves it. */
static bool is_memory_file(int fd)
{
    return fd >= 0 && is_memory(fd) && lseek(fd, 0, SEEK_SET) == 0;
}

/* A description of our own of that pipe: nobody else decides what blocks and what does not. */
static int own_pipe(int fd)
{
    char self[64];
    if (fd < 0 || !is_pipe(fd))
        return -1;
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static int take_classes(struct hw_java_link *l, int fd, struct hw_error *err)
{
    hw_autofree char *text = NULL;
    size_t n = 0;
    hw_java_classes_free(l->classes);
    l->classes = NULL;
    if (!is_memory_file(fd))
        return hw_java_fail(err, HW_JAVA_FAILED, "no class table was sent");
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
    if (!is_memory_file(fd) || hw_fd_read_file(fd, MAX_TABLE, &text, &n, NULL) < 0)
        return 0;
    return hw_java_holders_parse(text, n, &l->holders, NULL) == HW_ENOMEM ? HW_ENOMEM : 0;
}

/* The next piece of a walk; 0: its end; < 0: no end in sight. */
static ssize_t next_piece(struct hw_java_link *l, struct hw_java_taking *t, int pipe)
{
    for (;;) {
        if (!wait_for(l, pipe))
            return HW_ETIMEOUT;
        ssize_t n = read(pipe, l->chunk, CHUNK);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return 0;
        t->stream_bytes += (uint64_t)n;
        l->patience_ns += (uint64_t)n * NS_A_BYTE;
        return t->stream_bytes > STREAM_ALWAYS + l->jvm->held_kb * 1024 * STREAM_FACTOR ? HW_ELIMIT
                                                                                        : n;
    }
}

static int endless(ssize_t why, struct hw_error *err)
{
    return hw_java_fail(err, HW_JAVA_TALKS,
                        why == HW_ELIMIT ? "the graph is larger than a heap of its size makes"
                                         : "the graph arrived too slowly");
}

/* Reads a walk to the pipe's end. What is wrong with it is in *broken; the end of the walk decides
 * with it. Else no use to go on: < 0 the sink or memory, > 0 a reason. */
static int take_graph(struct hw_java_link *l, struct hw_java_taking *t, int fd,
                      struct hw_error *broken, struct hw_error *err)
{
    hw_java_graph_free(l->graph);
    l->graph = NULL;
    hw_autofd int pipe = own_pipe(fd);
    if (!l->classes || pipe < 0)
        return hw_java_fail(err, HW_JAVA_FAILED, "a walk without a table of classes, or a pipe");
    int rc = t->begin(t->ctx, l->classes, &l->graph);
    t->stream_bytes = 0;
    while (rc == 0) {
        ssize_t n = next_piece(l, t, pipe);
        if (n < 0)
            return endless(n, err);
        if (n == 0)
            break;
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

/* On our clock, whatever the JVM's says. */
static uint64_t ago(uint64_t age_ns)
{
    uint64_t now = hw_now_boottime_ns();
    return age_ns < now ? now - age_ns : 0;
}

int hw_java_link_dump(struct hw_java_link *l, struct hw_java_taking *t, struct hw_error *err)
{
    struct hw_java_request q = {.version = HW_JAVA_PROTOCOL,
                                .ask = HW_JAVA_COMMAND_DUMP,
                                .modes = t->modes,
                                .fail = t->fail,
                                .stall_ms = t->stall_ms ? t->stall_ms : DEFAULT_STALL_MS,
                                .min_heap_bytes = t->min_heap_bytes};
    struct hw_error broken = {0};
    bool whole = false;
    hw_java_holders_free(l->holders);
    l->holders = NULL;
    t->n_steps = 0;
    begin_waiting(l);
    if (send(l->socket, &q, sizeof q, MSG_NOSIGNAL) != (ssize_t)sizeof q)
        return gone(l, err);
    for (;;) {
        struct hw_java_message m;
        hw_autofd int fd = -1;
        int rc = next_answer(l, &m, &fd, err);
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
            t->started_ns = ago(m.age_ns);
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
    struct hw_java_message m;
    begin_waiting(l);
    if (send(l->socket, q, sizeof *q, MSG_NOSIGNAL) != (ssize_t)sizeof *q)
        return gone(l, err);
    for (;;) {
        hw_autofd int fd = -1;
        int rc = next_answer(l, &m, &fd, err);
        if (rc)
            return rc;
        if (m.type == HW_JAVA_DONE)
            return m.reason ? hw_java_fail(err, m.reason, "events are not reported") : 0;
    }
}

int hw_java_link_watch(struct hw_java_link *l, uint32_t events, uint32_t hold_ms,
                       struct hw_error *err)
{
    struct hw_java_request q = {.version = HW_JAVA_PROTOCOL,
                                .ask = HW_JAVA_COMMAND_WATCH,
                                .events = events,
                                .hold_ms = hold_ms};
    return ask(l, &q, err);
}

int hw_java_link_release(struct hw_java_link *l, enum hw_java_event event)
{
    struct hw_java_request q = {
        .version = HW_JAVA_PROTOCOL, .ask = HW_JAVA_COMMAND_RELEASE, .events = 1u << event};
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
    if (!is_memory_file(fd) || hw_fd_read_file(fd, MAX_MOMENT, &out->text, &n, NULL) < 0)
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
    struct hw_java_message m;
    int rc;
    int room = MOST_MOMENTS;
    do {
        hw_autofd int fd = -1;
        rc = receive(l, &m, &fd);
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

/* ---- permitted ways of a walk ---- */

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
