/*
 * The worker's output is treated as hostile: a damaged file may have made the worker write
 * anything. Numbers are checked against what came before, strings are copied and have an end, sums
 * have limits.
 */
#include "enrich/lines/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_send.h"
#include "base/files/helper.h"
#include "base/files/machine_memory.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "enrich/lines/line_worker.h"

#include "base/banned.h"

enum { READ_BYTES = 128 << 10, MAX_STRING = 1 << 20 };
#define MAX_STRINGS_BYTES (UINT64_C(1) << 30)

/* Debug packages are unpacked at 100 MiB/s and addresses resolved at 200,000/s; a busy machine
 * and a slow disk get ten times that. */
#define FILE_BYTES_PER_MS 10000u
#define ADDRESSES_PER_MS  20u

/* Sections are held unpacked, five times as large at most in practice. */
#define MEMORY_BASE     (UINT64_C(2) << 30)
#define MEMORY_PER_BYTE 8u
#define MEMORY_LEAST    (UINT64_C(256) << 20) /* the program itself takes a part of that */

struct parser {
    struct hw_strbuf in; /* not yet taken: from `taken` on */
    size_t taken;
    struct hw_arena text;
    HW_VEC(const char *) strings;
    uint64_t string_bytes;
    size_t n, answered; /* addresses */
    bool has_facts, has_debug_info, ended;
    int status; /* when ended */
    struct hw_line chain[HW_MAX_INLINE_DEPTH];
    hw_line_answer_fn answer;
    void *ctx;
    int stopped; /* what answer returned */
};

struct hw_line_reader {
    pid_t pid; /* -1 = none */
    int sock;
    unsigned base_ms;
    uint64_t limit_ns; /* of the request: waiting in all */
    uint64_t waited_ns;
    uint64_t deadline_ns;
    bool (*stopped)(void *ctx); /* may be NULL */
    void *stopped_ctx;
};

/* ---- answers ---- */

static void parser_done(struct parser *p)
{
    hw_strbuf_done(&p->in);
    hw_arena_done(&p->text);
    hw_vec_done(&p->strings);
}

/* The word at that place of what is not yet taken. */
static bool word_at(const struct parser *p, size_t index, uint32_t *out)
{
    size_t at = p->taken + index * sizeof *out;
    if (at + sizeof *out > p->in.n)
        return false;
    memcpy(out, p->in.p + at, sizeof *out);
    return true;
}

static int take_string(struct parser *p)
{
    uint32_t n;
    if (!word_at(p, 1, &n))
        return HW_ETRUNCATED;
    if (n > MAX_STRING || p->string_bytes + n > MAX_STRINGS_BYTES)
        return HW_EFORMAT;
    size_t at = p->taken + 2 * sizeof n;
    if (p->in.n - at < n)
        return HW_ETRUNCATED;
    if (memchr(p->in.p + at, 0, n))
        return HW_EFORMAT;
    const char *copy = hw_arena_copy(&p->text, p->in.p + at, n);
    if (!copy || hw_vec_push(&p->strings, copy) < 0)
        return HW_ENOMEM;
    p->string_bytes += n + 1;
    p->taken = at + n;
    return HW_OK;
}

static bool string_of(const struct parser *p, uint32_t number, const char **out)
{
    *out = number && number <= p->strings.n ? p->strings.v[number - 1] : NULL;
    return number == 0 || *out;
}

static int take_chain(struct parser *p)
{
    uint32_t folded, n, function, file;
    if (!word_at(p, 1, &folded) || !word_at(p, 2, &n))
        return HW_ETRUNCATED;
    if (folded > 1 || n > HW_MAX_INLINE_DEPTH || p->answered >= p->n)
        return HW_EFORMAT;
    for (uint32_t i = 0; i < n; i++) {
        struct hw_line *line = &p->chain[i];
        if (!word_at(p, 3 + 3 * i, &function) || !word_at(p, 4 + 3 * i, &file) ||
            !word_at(p, 5 + 3 * i, &line->line))
            return HW_ETRUNCATED;
        if (!string_of(p, function, &line->function) || !string_of(p, file, &line->file) ||
            (line->line && !line->file))
            return HW_EFORMAT;
    }
    p->taken += (3 + 3 * (size_t)n) * sizeof n;
    p->stopped = p->answer(p->ctx, p->answered++, p->chain, n, folded);
    return HW_OK;
}

static int take_facts(struct parser *p)
{
    uint32_t v;
    if (!word_at(p, 1, &v))
        return HW_ETRUNCATED;
    if (v > 1)
        return HW_EFORMAT;
    p->has_facts = true;
    p->has_debug_info = v;
    p->taken += 2 * sizeof v;
    return HW_OK;
}

/* A reported error is one of ours, or nonsense like any other. */
static int take_end(struct parser *p)
{
    uint32_t v;
    if (!word_at(p, 1, &v))
        return HW_ETRUNCATED;
    if (v > 255 || (v == 0 && p->answered < p->n))
        return HW_EFORMAT;
    p->ended = true;
    p->status = -(int)v;
    p->taken += 2 * sizeof v;
    return p->taken == p->in.n ? HW_OK : HW_EFORMAT;
}

/* All whole records there are: HW_ETRUNCATED is "more has to come". */
static int take_records(struct parser *p)
{
    uint32_t type;
    int rc = HW_OK;
    while (rc == HW_OK && !p->ended && !p->stopped) {
        if (!word_at(p, 0, &type))
            return HW_ETRUNCATED;
        switch (type) {
        case HW_LINE_FACTS:
            rc = take_facts(p);
            break;
        case HW_LINE_STRING:
            rc = take_string(p);
            break;
        case HW_LINE_CHAIN:
            rc = take_chain(p);
            break;
        case HW_LINE_END:
            rc = take_end(p);
            break;
        default:
            rc = HW_EFORMAT;
        }
    }
    return rc;
}

static int nonsense(int rc, struct hw_error *err)
{
    return hw_fail(err, rc, 0,
                   rc == HW_EFORMAT
                       ? "the process that read its debug info gave a meaningless answer"
                       : "no memory for its debug info");
}

int hw_line_reader_parse(struct hw_bytes answers, size_t n, hw_line_answer_fn answer, void *ctx,
                         struct hw_error *err)
{
    struct parser p = {.n = n, .answer = answer, .ctx = ctx};
    hw_strbuf_add(&p.in, answers.p, answers.n);
    int rc = p.in.failed ? HW_ENOMEM : take_records(&p);
    int result = p.stopped ? p.stopped : p.status;
    parser_done(&p);
    return rc < 0 ? nonsense(rc, err) : result;
}

/* ---- the process ---- */

/* How it ended, or was ended, as the rest of a sentence. */
static void stop(struct hw_line_reader *r, int *status)
{
    int s = 0;
    if (r->sock >= 0)
        (void)close(r->sock);
    r->sock = -1;
    if (r->pid > 0) {
        (void)kill(r->pid, SIGKILL); /* one that is dead already keeps its own reason */
        while (waitpid(r->pid, &s, 0) < 0 && errno == EINTR)
            ;
    }
    r->pid = -1;
    if (status)
        *status = s;
}

int hw_line_reader_new(unsigned base_ms, struct hw_line_reader **out)
{
    struct hw_line_reader *r = calloc(1, sizeof *r);
    if (!r)
        return HW_ENOMEM;
    r->pid = -1;
    r->sock = -1;
    r->base_ms = base_ms ? base_ms : HW_LINE_READER_MS;
    *out = r;
    return HW_OK;
}

void hw_line_reader_stop_when(struct hw_line_reader *r, bool (*stopped)(void *ctx), void *ctx)
{
    r->stopped = stopped;
    r->stopped_ctx = ctx;
}

void hw_line_reader_free(struct hw_line_reader *r)
{
    if (!r)
        return;
    stop(r, NULL);
    free(r);
}

extern char **environ;

static int spawn(struct hw_line_reader *r, int sock)
{
    char *const argv[] = {"heapwise", HW_LINE_WORKER_VERB, NULL};
    const struct hw_helper h = {.program = "/proc/self/exe",
                                .argv = argv,
                                .env = environ,
                                .in = sock,
                                .out = -1,
                                .more = -1};
    int rc = hw_helper_start(&h, &r->pid);
    if (rc)
        r->pid = -1;
    return rc;
}

static int start(struct hw_line_reader *r, struct hw_error *err)
{
    int s[2];
    if (r->pid > 0)
        return HW_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0)
        return hw_fail_sys(err, "no process to read its debug info");
    r->sock = s[0];
    errno = spawn(r, s[1]);
    int rc = errno ? hw_fail_sys(err, "no process to read its debug info") : HW_OK;
    (void)close(s[1]);
    if (rc < 0)
        stop(r, NULL);
    return rc;
}

/* Ends the process and says why there is no more from it. */
static int give_up(struct hw_line_reader *r, int rc, struct hw_error *err)
{
    int status;
    stop(r, &status);
    if (rc == HW_ETIMEOUT)
        return hw_fail(err, rc, 0, "its debug info takes longer than %llu s",
                       (unsigned long long)(r->waited_ns / 1000000000));
    if (rc != HW_EGONE)
        return nonsense(rc, err);
    if (WIFSIGNALED(status))
        return hw_fail(err, rc, 0, "the process that read its debug info died (%s)",
                       strsignal(WTERMSIG(status)));
    return hw_fail(err, rc, 0, "the process that read its debug info ended with status %d",
                   WEXITSTATUS(status));
}

/* How long to wait, at most: 0 = no more. */
static int wait_ms(const struct hw_line_reader *r, uint64_t now)
{
    uint64_t left = r->limit_ns > r->waited_ns ? r->limit_ns - r->waited_ns : 0;
    if (r->deadline_ns && (now >= r->deadline_ns || r->deadline_ns - now < left))
        left = now >= r->deadline_ns ? 0 : r->deadline_ns - now;
    left = (left + 999999) / 1000000;
    return left > 1000000 ? 1000000 : (int)left;
}

static int receive_some(struct hw_line_reader *r, struct parser *p)
{
    uint64_t before = hw_now_monotonic_ns();
    struct pollfd wait = {.fd = r->sock, .events = POLLIN};
    int n = poll(&wait, 1, wait_ms(r, before));
    r->waited_ns += hw_now_monotonic_ns() - before;
    if (n < 0 && errno != EINTR)
        return HW_ESYS;
    if (n < 0)
        return r->stopped && r->stopped(r->stopped_ctx) ? HW_ETIMEOUT : HW_OK;
    if (n == 0)
        return wait_ms(r, hw_now_monotonic_ns()) ? HW_OK : HW_ETIMEOUT;
    if (p->taken) {
        memmove(p->in.p, p->in.p + p->taken, p->in.n - p->taken);
        p->in.n -= p->taken;
        p->taken = 0;
    }
    if (hw_strbuf_reserve(&p->in, READ_BYTES) < 0)
        return HW_ENOMEM;
    ssize_t got = recv(r->sock, p->in.p + p->in.n, READ_BYTES, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return HW_OK;
    if (got <= 0)
        return HW_EGONE;
    p->in.n += (size_t)got;
    return HW_OK;
}

static int addresses_file(const uint64_t *addresses, size_t n, struct hw_error *err)
{
    int fd = memfd_create("addresses", MFD_CLOEXEC);
    if (fd >= 0 && hw_fd_write_all(fd, addresses, n * sizeof *addresses) == HW_OK)
        return fd;
    (void)hw_fail_sys(err, "no room for its addresses");
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* One request and its whole answer. An error that the process reports is no reason to end it. */
static int ask(struct hw_line_reader *r, const struct hw_line_request *q, int fd,
               const uint64_t *addresses, struct parser *p, struct hw_error *err)
{
    hw_autofd int list = -1;
    if (q->type != HW_LINE_LOOK && (list = addresses_file(addresses, (size_t)q->n, err)) < 0)
        return HW_ESYS;
    const int fds[2] = {fd, list};
    int rc = start(r, err);
    if (rc < 0)
        return rc;
    if (hw_fd_send(r->sock, q, sizeof *q, fds, list < 0 ? 1 : 2, 0) < 0)
        return give_up(r, HW_EGONE, err);
    do {
        rc = receive_some(r, p);
        if (rc == HW_OK)
            rc = take_records(p);
    } while (rc == HW_ETRUNCATED);
    if (rc < 0)
        return give_up(r, rc, err);
    if (p->stopped) {
        stop(r, NULL); /* answers that nobody waits for are on their way */
        return p->stopped;
    }
    return p->status < 0 ? hw_fail(err, p->status, 0, "%s", hw_errc_text(p->status)) : HW_OK;
}

/* Its size on disk: a hole of a terabyte does not get more time and memory. */
static uint64_t size_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size <= 0)
        return 0;
    uint64_t size = (uint64_t)st.st_size, there = (uint64_t)st.st_blocks * 512;
    return there && there < size ? there : size; /* some file systems do not tell: 0 */
}

static uint64_t memory_for(uint64_t size)
{
    uint64_t most = hw_machine_memory() / 2, want;
    if (most < MEMORY_LEAST)
        most = MEMORY_LEAST;
    if (__builtin_mul_overflow(size, MEMORY_PER_BYTE, &want) ||
        __builtin_add_overflow(want, MEMORY_BASE, &want) || want > most)
        return most;
    return want;
}

static struct hw_line_request request(struct hw_line_reader *r, enum hw_line_request_type type,
                                      uint32_t file, int fd, size_t n)
{
    uint64_t size = size_of(fd);
    r->waited_ns = 0;
    r->limit_ns =
        (r->base_ms + size / FILE_BYTES_PER_MS + n / ADDRESSES_PER_MS) * UINT64_C(1000000);
    return (struct hw_line_request){
        .type = type, .file = file, .n = n, .memory_bytes = memory_for(size)};
}

int hw_line_reader_check_file(struct hw_line_reader *r, uint32_t file, int fd, uint64_t deadline_ns,
                              bool *has_debug_info, struct hw_error *err)
{
    struct parser p = {0};
    const struct hw_line_request q = request(r, HW_LINE_LOOK, file, fd, 0);
    r->deadline_ns = deadline_ns;
    int rc = ask(r, &q, fd, NULL, &p, err);
    if (rc == HW_OK && !p.has_facts)
        rc = give_up(r, HW_EFORMAT, err);
    if (rc == HW_OK)
        *has_debug_info = p.has_debug_info;
    parser_done(&p);
    return rc;
}

static int ask_all(struct hw_line_reader *r, const struct hw_line_request *q, int fd,
                   const uint64_t *ascending, uint64_t deadline_ns, hw_line_answer_fn answer,
                   void *ctx, struct hw_error *err)
{
    struct parser p = {.n = (size_t)q->n, .answer = answer, .ctx = ctx};
    r->deadline_ns = deadline_ns;
    int rc = ask(r, q, fd, ascending, &p, err);
    parser_done(&p);
    return rc;
}

int hw_line_reader_resolve(struct hw_line_reader *r, uint32_t file, int fd,
                           const uint64_t *ascending, size_t n, uint64_t deadline_ns,
                           hw_line_answer_fn answer, void *ctx, struct hw_error *err)
{
    const struct hw_line_request q = request(r, HW_LINE_RESOLVE, file, fd, n);
    return ask_all(r, &q, fd, ascending, deadline_ns, answer, ctx, err);
}

int hw_line_reader_new_types(struct hw_line_reader *r, uint32_t file, int fd,
                             const uint64_t *ascending, size_t n, uint64_t deadline_ns,
                             hw_line_answer_fn answer, void *ctx, struct hw_error *err)
{
    const struct hw_line_request q = request(r, HW_LINE_NEW_TYPES, file, fd, n);
    return ask_all(r, &q, fd, ascending, deadline_ns, answer, ctx, err);
}
