/*
 * only.c - runs a program that may make no other system calls than its own and those that we say we
 * bring into it (src/inject/filters/needed_calls.def): any other is its end
 *
 *   t_only learn FILE CMD...   what CMD calls by itself goes to FILE
 *   t_only WAY FILE CMD...     WAY: held, dlopen, raw, or alone = none of ours
 *
 * Of its own calls those arguments count that all of ours with that number have a value for (of
 * mmap: protection and flags).
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/filters/bpf_code.h"
#include "inject/filters/seccomp.h"

#define MAX 512
#if defined(__aarch64__)
#define HERE AUDIT_ARCH_AARCH64
#else
#define HERE AUDIT_ARCH_X86_64
#endif

static struct hw_bpf_call calls[MAX];
static size_t n_calls;

static void add(const struct hw_bpf_call *c)
{
    for (size_t i = 0; i < n_calls; i++)
        if (memcmp(&calls[i], c, sizeof *c) == 0)
            return;
    if (n_calls == MAX)
        abort();
    calls[n_calls++] = *c;
}

static void add_ours(enum hw_seccomp_way way)
{
    struct hw_bpf_call c;
    for (size_t i = 0; hw_seccomp_need(way, i, &c); i++)
        add(&c);
}

/* ---- its own ---- */

static void add_own(int number, const uint64_t args[6])
{
    struct hw_bpf_call c = {.data.nr = number, .data.arch = HERE}, ours;
    bool also_ours = false;
    c.known.nr = -1;
    c.known.arch = UINT32_MAX;
    for (size_t a = 0; a < 6; a++)
        c.known.args[a] = UINT64_MAX;
    for (int way = 0; way < HW_SECCOMP_WAYS; way++)
        for (size_t i = 0; hw_seccomp_need((enum hw_seccomp_way)way, i, &ours); i++)
            for (size_t a = 0; ours.data.nr == number && a < 6; a++) {
                c.known.args[a] &= ours.known.args[a];
                also_ours = true;
            }
    for (size_t a = 0; a < 6; a++) {
        bool is_address = args[a] >> 32 != 0 && args[a] >> 48 == 0; /* another one each time */
        c.known.args[a] = also_ours && !is_address ? c.known.args[a] : 0;
        c.data.args[a] = args[a] & c.known.args[a];
    }
    add(&c);
}

static int learn(char **argv)
{
    int status;
    pid_t child = fork(), pid;
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[0], argv);
        _exit(127);
    }
    uint64_t none[6] = {0};
    add_own(SYS_execve, none);
    add_own(SYS_futex, none);
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, child, 0,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL) < 0)
        return 77;
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        struct __ptrace_syscall_info info;
        unsigned long sig = 0;
        if (!WIFSTOPPED(status)) {
            if (pid == child)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0 &&
                info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                uint64_t args[6];
                memcpy(args, info.entry.args, sizeof args);
                add_own((int)info.entry.nr, args);
            }
        } else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP) {
            sig = (unsigned long)WSTOPSIG(status);
        }
        ptrace(PTRACE_SYSCALL, pid, 0, sig);
    }
    return 1;
}

/* ---- the filter ---- */

static struct sock_filter code[BPF_MAXINSNS];
static size_t n_code;

static void put(uint16_t op, uint8_t jt, uint8_t jf, size_t k)
{
    if (n_code == BPF_MAXINSNS)
        abort();
    code[n_code++] = (struct sock_filter){op, jt, jf, (uint32_t)k};
}

/* The bits that count must be so; else on with the next call. */
static void put_call(const struct hw_bpf_call *c)
{
    size_t fail[12], n = 0;
    for (size_t half = 0; half < 12; half++) {
        uint32_t value, known;
        size_t at = offsetof(struct seccomp_data, args) + half * 4;
        memcpy(&value, (const char *)&c->data + at, 4);
        memcpy(&known, (const char *)&c->known + at, 4);
        if (known == 0)
            continue;
        put(BPF_LD | BPF_W | BPF_ABS, 0, 0, at);
        if (known != UINT32_MAX)
            put(BPF_ALU | BPF_AND | BPF_K, 0, 0, known);
        fail[n++] = n_code;
        put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, value);
    }
    put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    while (n-- != 0)
        code[fail[n]].jf = (uint8_t)(n_code - fail[n] - 1);
}

static int install(void)
{
    put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, HERE);
    put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < n_calls; i++) {
        bool done = false;
        for (size_t k = 0; k < i; k++)
            done |= calls[k].data.nr == calls[i].data.nr;
        if (done)
            continue;
        put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
        put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, (size_t)calls[i].data.nr);
        size_t other = n_code;
        put(BPF_JMP | BPF_JA, 0, 0, 0);
        for (size_t k = i; k < n_calls; k++)
            if (calls[k].data.nr == calls[i].data.nr)
                put_call(&calls[k]);
        put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
        code[other].k = (uint32_t)(n_code - other - 1);
    }
    put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog all = {(unsigned short)n_code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) < 0
               ? 77
               : 0;
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"held", "dlopen", "raw"};
    if (argc < 4)
        return 2;
    bool learns = strcmp(argv[1], "learn") == 0;
    FILE *f = fopen(argv[2], learns ? "wb" : "rb");
    if (!f)
        return 2;
    if (learns) {
        int rc = learn(argv + 3);
        if (fwrite(calls, sizeof *calls, n_calls, f) != n_calls || fclose(f) != 0)
            return 2;
        return rc;
    }
    n_calls = fread(calls, sizeof *calls, MAX, f);
    (void)fclose(f);
    for (int way = 0; way < HW_SECCOMP_WAYS; way++)
        if (strcmp(argv[1], ways[way]) == 0)
            add_ours((enum hw_seccomp_way)way);
    int rc = install();
    if (rc == 0)
        execv(argv[3], argv + 3);
    return rc ? rc : 2;
}
