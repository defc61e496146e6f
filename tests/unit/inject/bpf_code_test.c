/*
 * bpf_code_test.c - what a filter answers: held against the kernel where all of a call is known,
 * and against each single call where it is not
 */
#include "test.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "inject/filters/bpf_code.h"

#define MAX   64
#define ROUND 60 /* programs; calls of each */
#if defined(__aarch64__)
#define HERE AUDIT_ARCH_AARCH64
#else
#define HERE AUDIT_ARCH_X86_64
#endif

static uint64_t state = 88172645463325252u;

static uint32_t any(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 20) % below;
}

static uint32_t some_number(void)
{
    static const uint32_t often[] = {0, 1, 2, 3, 4, 7, 8, 0x22, 0x1000, 0xffffffff, 0x80000000};
    return any(4) ? often[any(HW_ARRAY_LEN(often))] : any(UINT32_MAX);
}

static struct sock_filter statement(uint32_t code, uint32_t k)
{
    return (struct sock_filter)BPF_STMT((uint16_t)code, k);
}

/* Answers are errors with a number of its own each, or one of actions. */
static struct sock_filter end(const uint32_t *actions, size_t n)
{
    return statement(BPF_RET | BPF_K,
                     n ? actions[any((uint32_t)n)] : SECCOMP_RET_ERRNO | (1 + any(4000)));
}

/* What the kernel takes: forwards, divisions by a number, shifts below 32, memory that was set. */
static struct sock_filter instruction(size_t left)
{
    static const uint16_t ops[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_OR,  BPF_AND,
                                   BPF_XOR, BPF_LSH, BPF_RSH, BPF_DIV, BPF_AND};
    static const uint16_t conditions[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
    uint32_t source = any(4) ? BPF_K : BPF_X;
    uint16_t op = ops[any(HW_ARRAY_LEN(ops))];
    switch (any(8)) {
    case 0:
    case 1:
        return statement(BPF_LD | BPF_W | BPF_ABS, 4 * any(16));
    case 2:
        return statement(BPF_LD | BPF_W | BPF_MEM, any(3));
    case 3:
        return statement(any(2) ? BPF_ST : BPF_STX, any(3));
    case 4:
        return statement(BPF_MISC | (any(2) ? BPF_TAX : BPF_TXA), 0);
    case 5:
        if (op == BPF_LSH || op == BPF_RSH || op == BPF_DIV)
            return statement((uint32_t)(BPF_ALU | op | BPF_K), 1 + any(31));
        return statement(BPF_ALU | op | source, some_number());
    default:
        return (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | conditions[any(4)] | source),
                                            some_number(),
                                            (uint8_t)any(1 + (uint32_t)(left < 20 ? left : 20)),
                                            (uint8_t)any(1 + (uint32_t)(left < 20 ? left : 20)));
    }
}

/* For getppid; all other calls are let through. */
static size_t make(struct sock_filter *code, const uint32_t *actions, size_t n_actions)
{
    size_t n = 0, last = 12 + any(MAX - 12);
    code[n++] = statement(BPF_LD | BPF_W | BPF_ABS, 0);
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0);
    code[n++] = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (uint32_t i = 0; i < 3; i++)
        code[n++] = statement(BPF_ST, i);
    for (; n < last - 3; n++)
        code[n] = any(9) ? instruction(last - 4 - n) : end(actions, n_actions);
    code[n++] = statement(BPF_ALU | BPF_AND | BPF_K, 0x7ff);
    code[n++] = statement(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO | 0x800);
    code[n++] = n_actions ? end(actions, n_actions) : statement(BPF_RET | BPF_A, 0);
    return n;
}

static void some_call(struct hw_bpf_call *c)
{
    memset(&c->known, 0xff, sizeof c->known);
    c->data = (struct seccomp_data){.nr = SYS_getppid, .arch = HERE};
    for (size_t i = 0; i < 6; i++)
        c->data.args[i] = (uint64_t)(any(3) ? 0 : some_number()) << 32 | some_number();
}

/* Where the instruction stands is not foreseen here: programs that look there are left out. */
static bool looks_there(const struct sock_filter *code, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (code[i].code == (BPF_LD | BPF_W | BPF_ABS) && (code[i].k == 8 || code[i].k == 12))
            return true;
    return false;
}

static int in_child(const struct sock_filter *code, size_t n, const struct hw_bpf_call *calls,
                    int *errors)
{
    struct sock_fprog program = {(unsigned short)n, (struct sock_filter *)(uintptr_t)code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return errno == EINVAL ? 2 : 77;
    for (size_t i = 0; i < ROUND; i++) {
        const __u64 *a = calls[i].data.args;
        errno = 0;
        (void)syscall(SYS_getppid, a[0], a[1], a[2], a[3], a[4], a[5]);
        errors[i] = errno;
    }
    return 0;
}

static void as_the_kernel(void **unused)
{
    (void)unused;
    struct hw_bpf_call calls[ROUND];
    struct sock_filter code[MAX];
    int *errors =
        mmap(NULL, sizeof(int) * ROUND, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t n_compared = 0;
    assert_ptr_not_equal(errors, MAP_FAILED);
    for (int round = 0; round < ROUND; round++) {
        int status;
        size_t n;
        do
            n = make(code, NULL, 0);
        while (looks_there(code, n));
        for (size_t i = 0; i < ROUND; i++)
            some_call(&calls[i]);
        pid_t child = fork();
        if (child == 0)
            _exit(in_child(code, n, calls, errors));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            skip();
        assert_int_equal(WEXITSTATUS(status), 0);
        for (size_t i = 0; i < ROUND; i++, n_compared++) {
            uint32_t answer = hw_bpf_answer(code, n, &calls[i]);
            assert_int_equal(answer & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
            assert_int_equal(answer & SECCOMP_RET_DATA, errors[i]);
        }
    }
    printf("%zu calls answered as by the kernel\n", n_compared);
    (void)munmap(errors, sizeof(int) * ROUND);
}

/* A few bits are not known: the answer is never laxer than that to any of the calls there can be.
 */
static void never_laxer(void **unused)
{
    (void)unused;
    static const uint32_t actions[] = {SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | 1,
                                       SECCOMP_RET_TRAP,  SECCOMP_RET_KILL_THREAD,
                                       SECCOMP_RET_LOG,   SECCOMP_RET_USER_NOTIF};
    size_t n_exact = 0, n_calls = 0;
    for (int round = 0; round < 3000; round++) {
        struct sock_filter code[MAX];
        struct hw_bpf_call c, one;
        unsigned arg[5], bit[5];
        size_t n = make(code, actions, HW_ARRAY_LEN(actions));
        uint32_t strictest = SECCOMP_RET_ALLOW;
        some_call(&c);
        for (size_t i = 0; i < HW_ARRAY_LEN(bit); i++) {
            arg[i] = any(6);
            bit[i] = any(2) ? any(3) : any(64);
            c.known.args[arg[i]] &= ~(UINT64_C(1) << bit[i]);
        }
        for (unsigned w = 0; w < 1u << HW_ARRAY_LEN(bit); w++) {
            one = c;
            memset(&one.known, 0xff, sizeof one.known);
            for (size_t i = 0; i < HW_ARRAY_LEN(bit); i++) {
                one.data.args[arg[i]] &= ~(UINT64_C(1) << bit[i]);
                one.data.args[arg[i]] |= (uint64_t)(w >> i & 1) << bit[i];
            }
            strictest = hw_bpf_stricter(strictest, hw_bpf_answer(code, n, &one));
        }
        uint32_t answer = hw_bpf_answer(code, n, &c);
        assert_int_equal(hw_bpf_stricter(strictest, answer) & SECCOMP_RET_ACTION_FULL,
                         answer & SECCOMP_RET_ACTION_FULL);
        n_calls++;
        n_exact += ((answer ^ strictest) & SECCOMP_RET_ACTION_FULL) == 0;
    }
    printf("%zu of %zu are exact\n", n_exact, n_calls);
    assert_true(n_exact > n_calls * 8 / 10);
}

static void strictness(void **unused)
{
    (void)unused;
    static const uint32_t order[] = {
        SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO,
        SECCOMP_RET_USER_NOTIF,   SECCOMP_RET_TRACE,       SECCOMP_RET_LOG,  SECCOMP_RET_ALLOW};
    for (size_t i = 0; i < HW_ARRAY_LEN(order); i++)
        for (size_t k = 0; k < HW_ARRAY_LEN(order); k++)
            assert_int_equal(hw_bpf_stricter(order[i], order[k]), order[i < k ? i : k]);
}

/* What the kernel would not take, or ends the thread for; and more ways than anybody means. */
static void hostile(void **unused)
{
    (void)unused;
    const struct sock_filter bad[][3] = {
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)},
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)},
        {BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)},
        {BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)},
        {BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_LD | BPF_IMM, 0),
         BPF_STMT(BPF_LD | BPF_IMM, 0)}};
    struct hw_bpf_call c;
    some_call(&c);
    for (size_t i = 0; i < HW_ARRAY_LEN(bad); i++)
        assert_int_equal(hw_bpf_answer(bad[i], HW_ARRAY_LEN(bad[i]), &c), SECCOMP_RET_KILL_PROCESS);
    struct sock_filter many[121];
    memset(&c.known, 0, sizeof c.known);
    for (size_t i = 0; i < 120; i += 2) {
        many[i] = statement(BPF_LD | BPF_W | BPF_ABS, 16);
        many[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)i, 0, 1);
    }
    many[119].jf = 0;
    many[120] = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    assert_int_equal(hw_bpf_answer(many, HW_ARRAY_LEN(many), &c), SECCOMP_RET_KILL_PROCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_kernel),
                                       cmocka_unit_test(never_laxer), cmocka_unit_test(strictness),
                                       cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
