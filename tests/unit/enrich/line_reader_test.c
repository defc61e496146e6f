/*
 * The process that reads debug info: this program plays its part, well and badly. How is told by an
 * environment variable, because the worker is started without arguments.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/helper.h"
#include "base/text/strbuf.h"
#include "elf/lines.h"
#include "enrich/lines/line_reader.h"
#include "enrich/lines/line_worker.h"

#define PART "LINE_READER_TEST_PART"

/* ---- as the worker ---- */

static void say(struct hw_strbuf *b, uint32_t word)
{
    hw_strbuf_add(b, &word, sizeof word);
}

/* "one" for the first address, then nothing more. */
static void say_one(struct hw_strbuf *b)
{
    say(b, HW_LINE_STRING);
    say(b, 3);
    hw_strbuf_adds(b, "one");
    say(b, HW_LINE_CHAIN);
    say(b, 0);
    say(b, 1);
    say(b, 1);
    say(b, 0);
    say(b, 0);
}

static int play(const char *part)
{
    struct hw_line_request q;
    struct hw_strbuf b = {0};
    if (strcmp(part, "well") == 0)
        return hw_line_worker_main();
    if (strcmp(part, "deaf") == 0)
        return 5;
    if (recv(STDIN_FILENO, &q, sizeof q, 0) != sizeof q)
        return 1;
    say_one(&b);
    if (strcmp(part, "babbles") == 0)
        hw_strbuf_adds(&b, "something else than an answer");
    if (send(STDIN_FILENO, b.p, b.n, MSG_NOSIGNAL) < 0)
        return 1;
    hw_strbuf_done(&b);
    if (strcmp(part, "crashes") == 0)
        (void)raise(SIGKILL); /* others are caught by sanitizers */
    if (strcmp(part, "crashes") != 0)
        (void)pause();
    return 1;
}

/* ---- as the reader ---- */

struct seen {
    size_t n, stop_at;
    char text[65536];
    size_t used;
};

static int see(void *ctx, size_t index, const struct hw_line *chain, size_t n, bool folded)
{
    struct seen *s = ctx;
    assert_int_equal(index, s->n);
    s->n++;
    for (size_t i = 0; i < n && s->used < sizeof s->text; i++)
        s->used +=
            (size_t)snprintf(s->text + s->used, sizeof s->text - s->used, "%zu %s %s:%u %d\n",
                             index, chain[i].function ? chain[i].function : "-",
                             chain[i].file ? chain[i].file : "-", chain[i].line, folded);
    return s->n == s->stop_at ? 7 : 0;
}

static int see_directly(void *ctx, size_t index, const struct hw_line *chain, size_t n)
{
    return see(ctx, index, chain, n, false);
}

extern const char __executable_start[]; /* the linker's: address 0 of a position-independent file */

static uint64_t va_of(const void *code)
{
    return (uint64_t)((uintptr_t)code - (uintptr_t)__executable_start);
}

/* The oracle is the same reader in this process. */
static void answers_are_the_same(void **state)
{
    (void)state;
    enum { N = 400 };
    static struct seen near, far;
    struct hw_line_reader *r;
    struct hw_lines *l;
    struct hw_error err = {0};
    uint64_t va[N];
    bool debug = false;
    hw_autofd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    uint64_t first = va_of((const void *)(uintptr_t)play);
    for (size_t i = 0; i < N; i++)
        va[i] = first + 3 * i;
    assert_int_equal(setenv(PART, "well", 1), 0);
    assert_int_equal(hw_line_reader_new(0, &r), 0);
    assert_int_equal(hw_line_reader_check_file(r, 1, fd, 0, &debug, &err), 0);
    assert_int_equal(hw_line_reader_resolve(r, 1, fd, va, N, 0, see, &far, &err), 0);
    assert_int_equal(hw_lines_open(fd, &l, NULL), 0);
    assert_int_equal(debug, hw_lines_has_debug_info(l));
    assert_int_equal(hw_lines_resolve(l, va, N, see_directly, &near), 0);
    hw_lines_close(l);
    assert_int_equal(far.n, N);
    assert_string_equal(far.text, near.text);
    assert_non_null(strstr(far.text, "play"));

    memset(&far, 0, sizeof far);
    far.stop_at = 2; /* and after that a file that was not looked at */
    assert_int_equal(hw_line_reader_resolve(r, 1, fd, va, N, 0, see, &far, &err), 7);
    memset(&far, 0, sizeof far);
    assert_int_equal(hw_line_reader_resolve(r, 2, fd, va, N, 0, see, &far, &err), 0);
    assert_string_equal(far.text, near.text);
    hw_autofd int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(hw_line_reader_check_file(r, 3, none, 0, &debug, &err) < 0);
    assert_int_equal(hw_line_reader_check_file(r, 4, fd, 0, &debug, NULL), 0); /* and goes on */
    hw_line_reader_free(r);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void failures(void **state)
{
    (void)state;
    static const struct {
        const char *part, *text;
        int code;
        size_t n;
    } cases[] = {
        {"crashes", "died (Killed)", HW_EGONE, 1},
        {"deaf", "ended with status 5", HW_EGONE, 0},
        {"hangs", "takes longer than", HW_ETIMEOUT, 1},
        {"babbles", "gave a meaningless answer", HW_EFORMAT, 1},
    };
    const uint64_t va[3] = {16, 32, 48};
    hw_autofd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_line_reader *r;
        struct hw_error err = {0};
        struct seen s = {0};
        assert_int_equal(setenv(PART, cases[i].part, 1), 0);
        assert_int_equal(hw_line_reader_new(/* base_ms = */ 200, &r), 0);
        /* A deadline of the caller's instead of the reader's own, which grows with the file. */
        uint64_t deadline = cases[i].code == HW_ETIMEOUT ? hw_now_monotonic_ns() + 200000000 : 0;
        assert_int_equal(hw_line_reader_resolve(r, 1, fd, va, 3, deadline, see, &s, &err),
                         cases[i].code);
        assert_int_equal(s.n, cases[i].n);
        assert_non_null(strstr(err.text, cases[i].text));
        hw_line_reader_free(r);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
}

/* Bytes that no worker of ours sends. */
static void nonsense(void **state)
{
    (void)state;
    static const struct {
        uint32_t words[8];
        size_t n;
        int rc;
    } cases[] = {
        {{HW_LINE_CHAIN, 0, 0, HW_LINE_END, 0}, 5, HW_OK},
        {{HW_LINE_CHAIN, 0, 0, HW_LINE_END, 1}, 5, HW_ENOMEM},
        {{HW_LINE_CHAIN, 0, 0}, 3, HW_ETRUNCATED},
        {{HW_LINE_END, 0}, 2, HW_EFORMAT},                            /* no answer */
        {{HW_LINE_END, 256}, 2, HW_EFORMAT},                          /* no error of ours */
        {{HW_LINE_CHAIN, 0, 0, HW_LINE_CHAIN, 0, 0}, 6, HW_EFORMAT},  /* one too many */
        {{HW_LINE_CHAIN, 0, 1, 1, 0, 0}, 6, HW_EFORMAT},              /* no such string */
        {{HW_LINE_CHAIN, 0, 1, 0, UINT32_MAX, 0}, 6, HW_EFORMAT},     /* neither */
        {{HW_LINE_CHAIN, 0, 1, 0, 0, 9}, 6, HW_EFORMAT},              /* a line of nothing */
        {{HW_LINE_CHAIN, 2, 0}, 3, HW_EFORMAT},                       /* folded is yes or no */
        {{HW_LINE_CHAIN, 0, HW_MAX_INLINE_DEPTH + 1}, 3, HW_EFORMAT}, /* too deep */
        {{HW_LINE_STRING, UINT32_MAX}, 2, HW_EFORMAT},                /* too long */
        {{HW_LINE_STRING, 4, 0x00616161}, 3, HW_EFORMAT},             /* with an end inside */
        {{HW_LINE_CHAIN, 0, 0, HW_LINE_END, 0, 0}, 6, HW_EFORMAT},    /* more behind the end */
        {{0}, 1, HW_EFORMAT},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct seen s = {0};
        struct hw_bytes b = hw_bytes_of(cases[i].words, cases[i].n * sizeof(uint32_t));
        int rc = hw_line_reader_parse(b, 1, see, &s, NULL);
        if (rc != cases[i].rc)
            fail_msg("case %zu: %d, not %d", i, rc, cases[i].rc);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same),
        cmocka_unit_test(failures),
        cmocka_unit_test(nonsense),
    };
    if (argc > 1 && strcmp(argv[1], HW_LINE_WORKER_VERB) == 0)
        return play(getenv(PART));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
