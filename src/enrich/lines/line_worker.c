/*
 * The file of a request is kept open until one with another number comes: a file is inspected first
 * and queried next, and its sections should be unpacked once. Strings are told apart by their
 * addresses, which stay as long as the file is open.
 *
 * libdw opens further files by names that it finds in the first one. Such a name may lead to a
 * FIFO, whose open() waits for ever; a timer's signal interrupts it, and libdw does without.
 */
#include "enrich/lines/line_worker.h"

#include <errno.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "elf/lines.h"
#include "elf/new_types.h"

#include "base/banned.h"

/* What is not sent yet is lost with the process: so little at a time. */
enum { FLUSH_BYTES = 8192 };

#define TICK_US 250000

struct worker {
    struct hw_lines *lines; /* of file, or NULL */
    uint32_t file;
    int fd; /* its */
    struct hw_strbuf out;
    struct hw_map64 strings; /* address of the text -> its number */
    uint32_t n_strings;
    const uint64_t *addresses; /* of the request */
};

static int flush(struct worker *w)
{
    size_t done = 0;
    while (done < w->out.n) {
        ssize_t n = send(STDIN_FILENO, w->out.p + done, w->out.n - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return HW_EGONE;
        done += n > 0 ? (size_t)n : 0;
    }
    hw_strbuf_clear(&w->out);
    return HW_OK;
}

static void put(struct worker *w, uint32_t word)
{
    hw_strbuf_add(&w->out, &word, sizeof word);
}

static int number_of(struct worker *w, const char *text, uint32_t *out)
{
    uint64_t found = 0;
    *out = 0;
    if (!text)
        return HW_OK;
    if (!hw_map64_get(&w->strings, (uintptr_t)text, &found)) {
        size_t n = strnlen(text, UINT32_MAX);
        found = w->n_strings++;
        if (hw_map64_put(&w->strings, (uintptr_t)text, found) < 0)
            return HW_ENOMEM;
        put(w, HW_LINE_STRING);
        put(w, (uint32_t)n);
        hw_strbuf_add(&w->out, text, n);
    }
    *out = (uint32_t)found + 1;
    return HW_OK;
}

static int on_chain(void *ctx, size_t index, const struct hw_line *chain, size_t n)
{
    struct worker *w = ctx;
    uint32_t function[HW_MAX_INLINE_DEPTH], file[HW_MAX_INLINE_DEPTH];
    int rc = HW_OK;
    for (size_t i = 0; i < n && rc == HW_OK; i++) {
        rc = number_of(w, chain[i].function, &function[i]);
        if (rc == HW_OK)
            rc = number_of(w, chain[i].file, &file[i]);
    }
    if (rc < 0)
        return rc;
    put(w, HW_LINE_CHAIN);
    put(w, n && hw_lines_is_folded(w->lines, w->addresses[index]));
    put(w, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        put(w, function[i]);
        put(w, file[i]);
        put(w, chain[i].line);
    }
    if (w->out.failed)
        return HW_ENOMEM;
    return w->out.n >= FLUSH_BYTES ? flush(w) : HW_OK;
}

/* ---- requests ---- */

static void limit_memory(uint64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    (void)bytes; /* its shadow alone is larger */
#else
    struct rlimit l;
    if (bytes == 0 || getrlimit(RLIMIT_AS, &l) < 0)
        return;
    l.rlim_cur = bytes < l.rlim_max ? bytes : l.rlim_max;
    (void)setrlimit(RLIMIT_AS, &l); /* a worker with one limit fewer is still a worker */
#endif
}

static void close_file(struct worker *w)
{
    hw_lines_close(w->lines);
    w->lines = NULL;
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
}

/* Takes fd. */
static int open_file(struct worker *w, const struct hw_line_request *q, int fd)
{
    if (w->lines && w->file == q->file) {
        (void)close(fd);
        return HW_OK;
    }
    close_file(w);
    w->fd = fd;
    w->file = q->file;
    return hw_lines_open(fd, &w->lines, NULL);
}

static int resolve(struct worker *w, enum hw_line_request_type type, size_t n, int addresses_fd)
{
    hw_autofree uint64_t *va = NULL;
    if (n > SIZE_MAX / sizeof *va)
        return HW_ELIMIT;
    va = malloc(n ? n * sizeof *va : 1);
    if (!va)
        return HW_ENOMEM;
    if (hw_fd_pread_all(addresses_fd, va, n * sizeof *va, 0) < 0)
        return HW_ESYS;
    w->addresses = va;
    int rc = type == HW_LINE_NEW_TYPES ? hw_lines_new_types(w->lines, va, n, on_chain, w)
                                       : hw_lines_resolve(w->lines, va, n, on_chain, w);
    w->addresses = NULL;
    return rc;
}

/* < 0: nobody is there to answer. */
static int answer(struct worker *w, const struct hw_line_request *q, int fd, int addresses_fd)
{
    limit_memory(q->memory_bytes);
    hw_strbuf_clear(&w->out);
    hw_map64_done(&w->strings);
    w->n_strings = 0;
    int rc = open_file(w, q, fd);
    if (rc == HW_OK && q->type == HW_LINE_LOOK) {
        put(w, HW_LINE_FACTS);
        put(w, hw_lines_has_debug_info(w->lines));
    } else if (rc == HW_OK) {
        rc = resolve(w, (enum hw_line_request_type)q->type, (size_t)q->n, addresses_fd);
    }
    put(w, HW_LINE_END);
    put(w, (uint32_t)-rc);
    return w->out.failed ? HW_ENOMEM : flush(w);
}

static void tick(int number)
{
    (void)number;
}

/* No SA_RESTART: whatever waits must end with EINTR. */
static void start_ticking(void)
{
    struct sigaction act = {.sa_handler = tick}, ignore = {.sa_handler = SIG_IGN};
    const struct itimerval every = {{0, TICK_US}, {0, TICK_US}};
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigaction(SIGALRM, &act, NULL);
    (void)sigaction(SIGINT, &ignore, NULL); /* of the terminal: meant for who started us */
    (void)sigaction(SIGQUIT, &ignore, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setitimer(ITIMER_REAL, &every, NULL); /* fails for no valid argument */
}

int hw_line_worker_main(void)
{
    struct worker w = {.fd = -1};
    struct hw_line_request q;
    const struct rlimit no_core = {0, 0};
    int fds[2];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody waits any more */
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0); /* does not concern us */
    start_ticking();
    while (hw_fd_receive(STDIN_FILENO, &q, sizeof q, fds, HW_ARRAY_LEN(fds), MSG_WAITALL) ==
           (ssize_t)sizeof q) {
        int rc = fds[0] < 0 ? HW_EFORMAT : answer(&w, &q, fds[0], fds[1]);
        if (fds[1] >= 0)
            (void)close(fds[1]);
        if (rc < 0)
            break;
    }
    close_file(&w);
    hw_strbuf_done(&w.out);
    hw_map64_done(&w.strings);
    return 0;
}
