/*
 * Questions and answers are memory files, so that neither side waits for the other. Answers are
 * lines: 0xADDRESS, then a function and a FILE:LINE for each function of the inlined chain,
 * innermost first. GNU's and LLVM's differ in how they write the address, so it is read as a
 * number; what begins with 0x is never a function.
 */
#include "enrich/lines/addr2line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/helper.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

static const size_t max_answers = (size_t)1 << 30;

extern char **environ;

static int run(const char *program, const char *path, int in, int out, struct hw_error *err)
{
    char *const argv[] = {(char *)(uintptr_t)program, "-a", "-f", "-i", "-e",
                          (char *)(uintptr_t)path,    NULL};
    const struct hw_helper h = {
        .program = program, .argv = argv, .env = environ, .in = in, .out = out, .more = -1};
    pid_t pid;
    int status = 0, rc = hw_helper_start(&h, &pid);
    if (rc) {
        errno = rc;
        return hw_fail_sys(err, "cannot start '%s'", program);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return hw_fail_sys(err, "'%s'", program);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return hw_fail(err, HW_EGONE, 0, "'%s' failed on '%s'", program, path);
    return HW_OK;
}

static int put_questions(int fd, const uint64_t *addresses, size_t n)
{
    struct hw_strbuf b = {0};
    for (size_t i = 0; i < n; i++)
        hw_strbuf_addf(&b, "0x%llx\n", (unsigned long long)addresses[i]);
    int rc = b.failed ? HW_ENOMEM : n ? hw_fd_write_all(fd, b.p, b.n) : HW_OK;
    hw_strbuf_done(&b);
    return rc < 0 ? rc : lseek(fd, 0, SEEK_SET) == 0 ? HW_OK : HW_ESYS;
}

static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = 0;
    *at = end + 1;
    return line;
}

static int take_answers(char *text, const uint64_t *addresses, size_t n, hw_lines_fn answer,
                        void *ctx)
{
    struct hw_line chain[HW_MAX_INLINE_DEPTH];
    char *line = next_line(&text);
    for (size_t i = 0; i < n; i++) {
        size_t depth = 0;
        if (!line || strncmp(line, "0x", 2) != 0 || strtoull(line, NULL, 16) != addresses[i])
            return HW_EFORMAT;
        while ((line = next_line(&text)) && strncmp(line, "0x", 2) != 0) {
            const char *function = line;
            if (!function[0])
                continue; /* LLVM's ends an answer so */
            if (!next_line(&text))
                return HW_EFORMAT;
            if (depth < HW_MAX_INLINE_DEPTH)
                chain[depth++] =
                    (struct hw_line){.function = strcmp(function, "??") != 0 ? function : NULL};
        }
        bool known = depth && chain[depth - 1].function;
        int rc = answer(ctx, i, chain, known ? depth : 0);
        if (rc)
            return rc;
    }
    return HW_OK;
}

int hw_addr2line(const char *program, const char *path, const uint64_t *addresses, size_t n,
                 hw_lines_fn answer, void *ctx, struct hw_error *err)
{
    hw_autofree char *text = NULL;
    size_t size;
    hw_autofd int in = memfd_create("addresses", MFD_CLOEXEC);
    hw_autofd int out = memfd_create("answers", MFD_CLOEXEC);
    if (in < 0 || out < 0 || put_questions(in, addresses, n) < 0)
        return hw_fail_sys(err, "cannot ask '%s'", program);
    int rc = run(program, path, in, out, err);
    if (rc == HW_OK && lseek(out, 0, SEEK_SET) < 0)
        rc = hw_fail_sys(err, "cannot read what '%s' answers", program);
    if (rc == HW_OK)
        rc = hw_fd_read_file(out, max_answers, &text, &size, err);
    if (rc < 0)
        return rc;
    rc = take_answers(text, addresses, n, answer, ctx);
    if (rc == HW_EFORMAT)
        return hw_fail(err, rc, 0, "'%s' does not answer like addr2line", program);
    return rc;
}
