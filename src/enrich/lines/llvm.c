/*
 * Standard input of the child is one end of a socket pair, because a send can be told not to raise
 * SIGPIPE; its standard output is a pipe. Both are read and written without waiting, from one poll,
 * so neither side can block the other however much it has to say.
 */
#include "enrich/lines/llvm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/helper.h"
#include "base/text/strbuf.h"

#include <jansson.h>

#include "base/banned.h"

enum { MAX_ANSWER = 16 << 20, QUESTIONS = 4096, MAX_CHAIN = HW_MAX_INLINE_DEPTH };

struct hw_llvm {
    pid_t pid; /* -1 = none */
    int to, from;
    unsigned limit_ms;
    bool broken;
    struct hw_strbuf out; /* questions not yet sent, from sent on */
    size_t sent;
    struct hw_strbuf in; /* answers not yet read, from taken on */
    size_t taken;
    struct hw_line chain[MAX_CHAIN];
    char *paths[MAX_CHAIN]; /* owned: the chain's simplified file names */
};

extern char **environ;

static void end_child(struct hw_llvm *l)
{
    if (l->to >= 0)
        (void)close(l->to);
    if (l->from >= 0)
        (void)close(l->from);
    l->to = l->from = -1;
    if (l->pid > 0) {
        (void)kill(l->pid, SIGKILL);
        while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    l->pid = -1;
}

static int spawn(struct hw_llvm *l, const char *program, int in, int out)
{
    char *const argv[] = {(char *)(uintptr_t)program, "--output-style=JSON", "--no-demangle",
                          "--inlines", NULL};
    const struct hw_helper h = {
        .program = program, .argv = argv, .env = environ, .in = in, .out = out, .more = -1};
    int rc = hw_helper_start(&h, &l->pid);
    if (rc)
        l->pid = -1;
    return rc;
}

int hw_llvm_start(const char *program, unsigned limit_ms, struct hw_llvm **out,
                  struct hw_error *err)
{
    int in[2], from[2] = {-1, -1};
    struct hw_llvm *l = calloc(1, sizeof *l);
    if (!l)
        return hw_fail(err, HW_ENOMEM, 0, "'%s'", program);
    l->pid = -1;
    l->to = l->from = -1;
    l->limit_ms = limit_ms;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) < 0) {
        free(l);
        return hw_fail_sys(err, "cannot talk to '%s'", program);
    }
    l->to = in[0];
    int rc = pipe2(from, O_CLOEXEC) < 0 ? errno : 0;
    if (rc == 0) {
        l->from = from[0];
        rc = spawn(l, program, in[1], from[1]);
    }
    (void)close(in[1]);
    if (from[1] >= 0)
        (void)close(from[1]);
    if (rc == 0 &&
        (fcntl(l->to, F_SETFL, O_NONBLOCK) < 0 || fcntl(l->from, F_SETFL, O_NONBLOCK) < 0))
        rc = errno;
    if (rc) {
        hw_llvm_stop(l);
        errno = rc;
        return hw_fail_sys(err, "cannot start '%s'", program);
    }
    *out = l;
    return HW_OK;
}

static void free_paths(struct hw_llvm *l)
{
    for (size_t i = 0; i < MAX_CHAIN && l->paths[i]; i++) {
        free(l->paths[i]);
        l->paths[i] = NULL;
    }
}

void hw_llvm_stop(struct hw_llvm *l)
{
    if (!l)
        return;
    end_child(l);
    free_paths(l);
    hw_strbuf_done(&l->out);
    hw_strbuf_done(&l->in);
    free(l);
}

bool hw_llvm_is_broken(const struct hw_llvm *l)
{
    return l->broken;
}

/* ---- one answer ---- */

static const char *text_of(json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s && s[0] && strcmp(s, "??") != 0 ? s : NULL;
}

static size_t read_chain(struct hw_llvm *l, json_t *symbols)
{
    size_t n = 0, n_paths = 0, i;
    json_t *line;
    free_paths(l);
    json_array_foreach(symbols, i, line)
    {
        if (n == MAX_CHAIN)
            break;
        struct hw_line *out = &l->chain[n++];
        *out = (struct hw_line){.function = text_of(line, "FunctionName"),
                                .file = text_of(line, "FileName")};
        json_int_t number = json_integer_value(json_object_get(line, "Line"));
        if (out->file && number > 0 && number <= UINT32_MAX)
            out->line = (uint32_t)number;
        if (out->file && (out->file[0] != '/' || strstr(out->file, "/."))) {
            char *copy = strdup(out->file);
            if (!copy)
                continue; /* the name as it came will do */
            hw_simplify_path(copy);
            out->file = l->paths[n_paths++] = copy;
        }
    }
    return n;
}

static int read_answer(struct hw_llvm *l, struct hw_bytes text, uint64_t address, size_t index,
                       hw_lines_fn answer, void *ctx, struct hw_error *err)
{
    json_error_t where;
    json_t *root = json_loadb((const char *)text.p, text.n, JSON_ALLOW_NUL, &where);
    json_t *object = json_is_array(root) ? json_array_get(root, 0) : root;
    const char *at = json_string_value(json_object_get(object, "Address"));
    json_t *symbols = json_object_get(object, "Symbol");
    bool is_answer = at && strtoull(at, NULL, 0) == address &&
                     (json_is_array(symbols) || json_object_get(object, "Error"));
    int rc;
    if (is_answer) {
        rc = answer(ctx, index, l->chain, read_chain(l, symbols));
    } else {
        l->broken = true;
        rc = hw_fail(err, HW_EFORMAT, 0, "the answer to address %#llx is not one",
                     (unsigned long long)address);
    }
    json_decref(root);
    return rc;
}

/* ---- questions and answers ---- */

static int send_some(struct hw_llvm *l, struct hw_error *err)
{
    while (l->sent < l->out.n) {
        ssize_t n = send(l->to, l->out.p + l->sent, l->out.n - l->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HW_OK;
        if (n < 0)
            return hw_fail(err, HW_EGONE, 0, "it ended");
        l->sent += (size_t)n;
    }
    hw_strbuf_clear(&l->out);
    l->sent = 0;
    return HW_OK;
}

static int receive_some(struct hw_llvm *l, struct hw_error *err)
{
    if (l->taken) {
        memmove(l->in.p, l->in.p + l->taken, l->in.n - l->taken);
        l->in.n -= l->taken;
        l->taken = 0;
    }
    if (l->in.n > MAX_ANSWER)
        return hw_fail(err, HW_EFORMAT, 0, "an answer that does not end");
    if (hw_strbuf_reserve(&l->in, 65536) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "answers");
    ssize_t n = read(l->from, l->in.p + l->in.n, 65536);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return HW_OK;
    if (n <= 0)
        return hw_fail(err, HW_EGONE, 0, "it ended");
    l->in.n += (size_t)n;
    return HW_OK;
}

static int wait_for_answers(struct hw_llvm *l, struct hw_error *err)
{
    struct pollfd p[2] = {{.fd = l->from, .events = POLLIN},
                          {.fd = l->out.n ? l->to : -1, .events = POLLOUT}};
    int n = poll(p, 2, (int)l->limit_ms);
    if (n < 0 && errno != EINTR)
        return hw_fail_sys(err, "cannot wait");
    if (n == 0)
        return hw_fail(err, HW_ETIMEOUT, 0, "no answer for %u s", l->limit_ms / 1000);
    int rc = HW_OK;
    if (n > 0 && p[1].revents)
        rc = send_some(l, err);
    if (n > 0 && rc == HW_OK && p[0].revents)
        rc = receive_some(l, err);
    return rc;
}

static char quote_of(const char *path)
{
    if (strpbrk(path, "\n\r") || !path[0])
        return 0;
    return !strchr(path, '"') ? '"' : !strchr(path, '\'') ? '\'' : 0;
}

static int ask_all(struct hw_llvm *l, const char *path, const uint64_t *addresses, size_t n,
                   hw_lines_fn answer, void *ctx, struct hw_error *err)
{
    const char quote = quote_of(path);
    size_t asked = 0, answered = 0;
    if (!quote)
        return hw_fail(err, HW_EINVAL, 0,
                       "the file's name has characters its protocol cannot express");
    while (answered < n) {
        for (; asked < n && asked - answered < QUESTIONS; asked++)
            hw_strbuf_addf(&l->out, "%c%s%c 0x%llx\n", quote, path, quote,
                           (unsigned long long)addresses[asked]);
        if (l->out.failed)
            return hw_fail(err, HW_ENOMEM, 0, "questions");
        const char *end =
            l->in.n > l->taken ? memchr(l->in.p + l->taken, '\n', l->in.n - l->taken) : NULL;
        if (!end) {
            int rc = wait_for_answers(l, err);
            if (rc < 0) {
                l->broken = true;
                return rc;
            }
            continue;
        }
        struct hw_bytes line = hw_bytes_of(l->in.p + l->taken, (size_t)(end - l->in.p) - l->taken);
        l->taken += line.n + 1;
        if (line.n == 0)
            continue;
        int rc = read_answer(l, line, addresses[answered], answered, answer, ctx, err);
        if (rc)
            return rc;
        answered++;
    }
    return HW_OK;
}

int hw_llvm_resolve(struct hw_llvm *l, const char *path, const uint64_t *addresses, size_t n,
                    hw_lines_fn answer, void *ctx, struct hw_error *err)
{
    if (l->broken)
        return hw_fail(err, HW_EGONE, 0, "it ended");
    int rc = ask_all(l, path, addresses, n, answer, ctx, err);
    if (rc && rc != HW_EINVAL) /* answers to requests that nobody waits for may be on their way */
        l->broken = true;
    if (l->broken)
        end_child(l);
    return rc;
}
