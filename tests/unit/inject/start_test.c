/*
 * start_test.c - variables put onto a new program's stack: read back as a program would read them
 */
#include "test.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "inject/inject_at_exec.h"

#define TOP   UINT64_C(0x7ffdeadbf000)
#define BYTES 65536u
#define MAX   64

struct stack {
    uint8_t bytes[BYTES]; /* ends at TOP */
    uint64_t sp;
};

static uint8_t *at(struct stack *s, uint64_t va)
{
    assert_true(va >= TOP - BYTES && va < TOP);
    return s->bytes + (va - (TOP - BYTES));
}

static uint64_t word(struct stack *s, uint64_t va)
{
    uint64_t w;
    memcpy(&w, at(s, va), sizeof w);
    return w;
}

/* As the kernel lays it out: strings at the top, then auxv, env, argv, argc. */
static void make(struct stack *s, const char *const *argv, const char *const *env)
{
    uint64_t p = TOP, args[MAX], envs[MAX];
    size_t n_args = 0, n_env = 0;
    memset(s->bytes, 0xee, sizeof s->bytes);
    for (; env[n_env]; n_env++) {
        p -= strlen(env[n_env]) + 1;
        memcpy(at(s, p), env[n_env], strlen(env[n_env]) + 1);
        envs[n_env] = p;
    }
    for (; argv[n_args]; n_args++) {
        p -= strlen(argv[n_args]) + 1;
        memcpy(at(s, p), argv[n_args], strlen(argv[n_args]) + 1);
        args[n_args] = p;
    }
    const uint64_t auxv[] = {AT_PAGESZ, 4096, AT_ENTRY, 0x1234, AT_SECURE, 0, AT_NULL, 0};
    size_t words = 1 + n_args + 1 + n_env + 1 + HW_ARRAY_LEN(auxv);
    p = (p - words * 8) & ~UINT64_C(15);
    s->sp = p;
    uint64_t argc = n_args, null = 0;
    memcpy(at(s, p), &argc, 8), p += 8;
    memcpy(at(s, p), args, n_args * 8), p += n_args * 8;
    memcpy(at(s, p), &null, 8), p += 8;
    memcpy(at(s, p), envs, n_env * 8), p += n_env * 8;
    memcpy(at(s, p), &null, 8), p += 8;
    memcpy(at(s, p), auxv, sizeof auxv);
}

static int rewrite(struct stack *s, const char *const *vars, size_t n)
{
    struct hw_strbuf out = {0};
    uint64_t to;
    int rc = hw_start_rewrite(at(s, s->sp), TOP - s->sp, s->sp, vars, n, &out, &to);
    if (rc == HW_OK) {
        assert_int_equal(to % 16, 0);
        assert_true(to < s->sp && to + out.n <= TOP);
        memcpy(at(s, to), out.p, out.n);
        s->sp = to;
    }
    hw_strbuf_done(&out);
    return rc;
}

static void check(struct stack *s, const char *const *argv, const char *const *env)
{
    uint64_t p = s->sp;
    uint64_t argc = word(s, p);
    for (uint64_t i = 0; i < argc; i++) {
        assert_non_null(argv[i]);
        assert_string_equal((char *)at(s, word(s, p + 8 + i * 8)), argv[i]);
    }
    assert_null(argv[argc]);
    p += 8 + argc * 8;
    assert_int_equal(word(s, p), 0);
    p += 8;
    for (; word(s, p); p += 8, env++) {
        assert_non_null(*env);
        assert_string_equal((char *)at(s, word(s, p)), *env);
    }
    assert_null(*env);
    p += 8;
    const uint64_t auxv[] = {AT_PAGESZ, 4096, AT_ENTRY, 0x1234, AT_SECURE, 0, AT_NULL, 0};
    assert_memory_equal(at(s, p), auxv, sizeof auxv);
}

static const char *const three[] = {"LD_PRELOAD=/l.so", "HEAPWISE_SOCKET=@s", "HEAPWISE_HELD=1"};

static void test_added(void **state)
{
    (void)state;
    struct stack *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int extra = 0; extra < 3; extra++) { /* both parities of the number of words */
        const char *argv[] = {"/bin/x", extra > 0 ? "a" : NULL, extra > 1 ? "" : NULL, NULL};
        const char *env[] = {"A=1", "LD_PRELOADS=x", NULL};
        const char *want[] = {"A=1", "LD_PRELOADS=x", three[0], three[1], three[2], NULL};
        make(s, argv, env);
        assert_int_equal(rewrite(s, three, 3), HW_OK);
        check(s, argv, want);
    }
    const char *none[] = {NULL}; /* execve(x, NULL, NULL) of old kernels */
    make(s, none, none);
    assert_int_equal(rewrite(s, three, 3), HW_OK);
    check(s, none, (const char *[]){three[0], three[1], three[2], NULL});
    free(s);
}

static void test_replaced(void **state)
{
    (void)state;
    struct stack *s = malloc(sizeof *s);
    assert_non_null(s);
    const char *argv[] = {"x", NULL};
    const char *env[] = {"HEAPWISE_SOCKET=old", "LD_PRELOAD=b.so c.so", "Z=", NULL};
    const char *want[] = {three[1], "LD_PRELOAD=/l.so:b.so c.so", "Z=", three[2], NULL};
    make(s, argv, env);
    assert_int_equal(rewrite(s, three, 3), HW_OK);
    check(s, argv, want);
    const char *empty[] = {"LD_PRELOAD=", NULL};
    make(s, argv, empty);
    assert_int_equal(rewrite(s, three, 1), HW_OK);
    check(s, argv, (const char *[]){"LD_PRELOAD=/l.so", NULL});
    free(s);
}

/* Another process may have written there: nothing outside is read, whatever stands in it. */
static void test_hostile(void **state)
{
    (void)state;
    const char *argv[] = {"x", "y", NULL};
    const char *env[] = {"A=1", "LD_PRELOAD=q", NULL};
    struct stack *s = malloc(sizeof *s);
    assert_non_null(s);
    srand(7);
    for (int i = 0; i < 20000; i++) {
        struct hw_strbuf out = {0};
        uint64_t to;
        make(s, argv, env);
        size_t n = (size_t)rand() % (TOP - s->sp + 1);
        uint8_t *copy = malloc(n + 1); /* its end is watched by the sanitizer */
        assert_non_null(copy);
        memcpy(copy, at(s, s->sp), n);
        for (int k = rand() % 4; k > 0 && n >= 8; k--) {
            uint64_t w = rand() % 2 ? (uint64_t)rand() << 20 : s->sp + (uint64_t)rand() % BYTES;
            memcpy(copy + (size_t)rand() % (n / 8) * 8, &w, 8);
        }
        (void)hw_start_rewrite(copy, n, s->sp, three, 3, &out, &to);
        hw_strbuf_done(&out);
        free(copy);
    }
    free(s);
}

HW_TEST_MAIN(cmocka_unit_test(test_added), cmocka_unit_test(test_replaced),
             cmocka_unit_test(test_hostile))
