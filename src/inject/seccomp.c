/* seccomp.c - see seccomp.h */
#include "inject/seccomp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MAX_FILTERS   64u
#define MAX_CODE      4096u /* BPF_MAXINSNS */
#define CAP_ADMIN_BIT 21

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

/* ---- a filter's code ---- */

static uint32_t alu(uint16_t op, uint32_t a, uint32_t b)
{
    switch (op) {
    case BPF_ADD:
        return a + b;
    case BPF_SUB:
        return a - b;
    case BPF_MUL:
        return a * b;
    case BPF_DIV:
        return b ? a / b : 0;
    case BPF_MOD:
        return b ? a % b : 0;
    case BPF_OR:
        return a | b;
    case BPF_AND:
        return a & b;
    case BPF_XOR:
        return a ^ b;
    case BPF_LSH:
        return b < 32 ? a << b : 0;
    case BPF_RSH:
        return b < 32 ? a >> b : 0;
    default:
        return -a; /* BPF_NEG */
    }
}

static bool jumps(uint16_t op, uint32_t a, uint32_t b)
{
    switch (op) {
    case BPF_JEQ:
        return a == b;
    case BPF_JGT:
        return a > b;
    case BPF_JGE:
        return a >= b;
    default:
        return (a & b) != 0; /* BPF_JSET */
    }
}

uint32_t hw_seccomp_run(const struct sock_filter *code, size_t n, const struct seccomp_data *call)
{
    uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = {0};
    for (size_t i = 0; i < n; i++) {
        const struct sock_filter *f = &code[i];
        uint32_t k = f->k, b = BPF_SRC(f->code) == BPF_X ? x : k;
        switch (BPF_CLASS(f->code)) {
        case BPF_LD:
            if (BPF_MODE(f->code) == BPF_ABS) {
                if (k > sizeof *call - sizeof a)
                    return SECCOMP_RET_KILL_PROCESS;
                memcpy(&a, (const char *)call + k, sizeof a);
            } else if (BPF_MODE(f->code) == BPF_MEM) {
                a = mem[k % BPF_MEMWORDS];
            } else {
                a = BPF_MODE(f->code) == BPF_LEN ? (uint32_t)sizeof *call : k;
            }
            break;
        case BPF_LDX:
            x = BPF_MODE(f->code) == BPF_MEM   ? mem[k % BPF_MEMWORDS]
                : BPF_MODE(f->code) == BPF_LEN ? (uint32_t)sizeof *call
                                               : k;
            break;
        case BPF_ST:
            mem[k % BPF_MEMWORDS] = a;
            break;
        case BPF_STX:
            mem[k % BPF_MEMWORDS] = x;
            break;
        case BPF_ALU:
            a = alu(BPF_OP(f->code), a, b);
            break;
        case BPF_JMP: /* forwards only, so that it ends */
            i += BPF_OP(f->code) == BPF_JA ? k : jumps(BPF_OP(f->code), a, b) ? f->jt : f->jf;
            break;
        case BPF_RET:
            return BPF_RVAL(f->code) == BPF_A ? a : k;
        default: /* BPF_MISC */
            if (BPF_MISCOP(f->code) == BPF_TAX)
                x = a;
            else
                a = x;
            break;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

/* ---- the calls ---- */

enum when {
    BOTH,
    LOADER,
    RAW,
    MAY_FAIL = 4 /* the client goes on without it */
};

#define RW_       (PROT_READ | PROT_WRITE)
#define RX_       (PROT_READ | PROT_EXEC)
#define OF_NOBODY (MAP_PRIVATE | MAP_ANONYMOUS)
#define A_SOCKET  (SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)
#define WIPE_FORK 18
#define NO_FILE   UINT32_MAX
#define GET_SEALS 1034

static const struct need {
    const char *name;
    int number;
    unsigned when;
    uint64_t args[6];
} needs[] = {
    {"mmap", SYS_mmap, BOTH, {0, 4096, RW_, OF_NOBODY, NO_FILE, 0}},
    {"mmap", SYS_mmap, BOTH, {0, 4096, RX_, OF_NOBODY, NO_FILE, 0}},
    {"mmap", SYS_mmap, BOTH, {4096, 4096, RX_, MAP_PRIVATE | MAP_FIXED, 3, 0}},
    {"mmap", SYS_mmap, BOTH, {0, 4096, RW_, MAP_SHARED | MAP_FIXED, 3, 0}},
    {"munmap", SYS_munmap, BOTH, {4096, 4096}},
    {"memfd_create", SYS_memfd_create, BOTH, {4096, MFD_CLOEXEC}},
    {"close", SYS_close, BOTH, {3}},
    {"ppoll", SYS_ppoll, BOTH, {4096, 1, 4096}},
    {"rt_sigreturn", SYS_rt_sigreturn, BOTH, {0}},
    {"socket", SYS_socket, BOTH, {AF_UNIX, A_SOCKET, 0}},
    {"connect", SYS_connect, BOTH, {3, 4096, 110}},
    {"getsockopt", SYS_getsockopt, BOTH, {3, SOL_SOCKET, SO_PEERCRED, 4096, 4096}},
    {"sendto", SYS_sendto, BOTH, {3, 4096, 64, MSG_NOSIGNAL}},
    {"recvmsg", SYS_recvmsg, BOTH, {3, 4096, MSG_CMSG_CLOEXEC}},
    {"fcntl", SYS_fcntl, BOTH, {3, F_DUPFD_CLOEXEC, 1000}},
    {"fcntl", SYS_fcntl, BOTH, {3, GET_SEALS}},
    {"getpid", SYS_getpid, BOTH, {0}},
    {"geteuid", SYS_geteuid, BOTH, {0}},
    {"fstat", SYS_fstat, RAW, {3, 4096}},
    {"newfstatat", SYS_newfstatat, LOADER, {3, 4096, 4096, 0x1000}},
    {"openat", SYS_openat, LOADER, {UINT32_MAX - 99, 4096, O_RDONLY | O_CLOEXEC}},
    {"read", SYS_read, LOADER, {3, 4096, 832}},
    {"mprotect", SYS_mprotect, LOADER, {4096, 4096, RW_}},
    {"mprotect", SYS_mprotect, LOADER, {4096, 4096, PROT_READ}},
    {"pread64", SYS_pread64, LOADER | MAY_FAIL, {3, 4096, 784, 64}},
    {"openat", SYS_openat, RAW | MAY_FAIL, {UINT32_MAX - 99, 4096, O_RDONLY | O_CLOEXEC}},
    {"madvise", SYS_madvise, BOTH | MAY_FAIL, {4096, 4096, WIPE_FORK}},
    {"madvise", SYS_madvise, BOTH | MAY_FAIL, {4096, 4096, MADV_DONTNEED}},
    {"prlimit64", SYS_prlimit64, BOTH | MAY_FAIL, {0, 9, 0, 4096}},
    {"membarrier", SYS_membarrier, BOTH | MAY_FAIL, {8}},
    {"membarrier", SYS_membarrier, BOTH | MAY_FAIL, {16}},
    {"getrandom", SYS_getrandom, BOTH | MAY_FAIL, {4096, 8, 1}},
    {"sigaltstack", SYS_sigaltstack, BOTH | MAY_FAIL, {0, 4096}},
    {"rt_sigprocmask", SYS_rt_sigprocmask, BOTH | MAY_FAIL, {UINT64_MAX, 4096, 0, 8}},
};

/* ---- one thread ---- */

static const char *action_text(uint32_t action)
{
    switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
        return NULL;
    case SECCOMP_RET_ERRNO:
        return "answers with an error";
    case SECCOMP_RET_TRAP:
        return "answers with SIGSYS";
    case SECCOMP_RET_TRACE:
    case SECCOMP_RET_USER_NOTIF:
        return "leaves to another process";
    default:
        return "answers by ending it";
    }
}

/* The kernel takes the strictest of all filters' answers. */
static int check_one(const struct hw_pid *pid, const struct sock_filter *code, size_t n, bool raw,
                     struct hw_error *err)
{
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const struct need *w = &needs[i];
        unsigned way = w->when & 3;
        if (way != BOTH && (way == RAW) != raw)
            continue;
        struct seccomp_data call = {.nr = w->number, .arch = AUDIT_ARCH_X86_64};
        memcpy(call.args, w->args, sizeof call.args);
        uint32_t action = hw_seccomp_run(code, n, &call);
        const char *text = action_text(action);
        if (!text ||
            ((w->when & MAY_FAIL) && (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO))
            continue;
        return hw_fail(
            err, HW_EUNSUPPORTED, 0,
            "process %d restricts its system calls (seccomp): its filter %s to %s, which "
            "attaching needs; nothing was changed. Start it with 'heapwise record --'",
            pid->pid, text, w->name);
    }
    return HW_OK;
}

/* Filters are a thread's own: those of a thread that has others were not looked at. */
static int check_others(const struct hw_pid *pid, struct hw_error *err)
{
    struct hw_proc_status all = {0}, one;
    hw_autofd int fd = openat(pid->dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(dup(fd));
    const struct dirent *e;
    bool first = true, same = true;
    while (d && same && (e = readdir(d))) {
        hw_autofd int dir =
            e->d_name[0] == '.' ? -1 : openat(fd, e->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || hw_proc_status(dir, &one) < 0)
            continue; /* it has ended */
        if (first)
            all = one;
        first = false;
        same = one.seccomp == all.seccomp && one.seccomp_filters == all.seccomp_filters;
    }
    if (d)
        (void)closedir(d); /* it was only read */
    return same ? HW_OK
                : hw_fail(err, HW_EUNSUPPORTED, 0,
                          "process %d: its threads restrict their system calls (seccomp) in "
                          "different ways; start it with 'heapwise record --'",
                          pid->pid);
}

/* The kernel shows filters to CAP_SYS_ADMIN, and only to who has none himself. */
static int cannot_read(const struct hw_pid *pid, struct hw_error *err)
{
    const char *why = strerror(errno);
    const char *remedy =
        prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0
            ? "run as root"
            : "the recorder itself runs under seccomp filters: take SystemCallFilter= and the "
              "settings that imply it out of its unit, or start it without them";
    return hw_fail(err, HW_EPERM, 0,
                   "process %d restricts its system calls (seccomp), and its filters cannot be "
                   "read (%s); %s",
                   pid->pid, why, remedy);
}

/* The instructions of its i-th filter; 0 = there is none; -1 with errno. */
static long filter_of(int32_t tid, uintptr_t i, struct sock_filter *code)
{
    long n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)i, NULL);
    if (n > 0 && n <= (long)MAX_CODE)
        n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)i, code);
    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : -1; /* behind the last; no filters */
    errno = EFBIG;
    return n > 0 && n <= (long)MAX_CODE ? n : -1;
}

bool hw_seccomp_is_there(int32_t tid)
{
    return ptrace(PTRACE_SECCOMP_GET_FILTER, tid, NULL, NULL) > 0;
}

bool hw_seccomp_forbids(int32_t tid, const struct seccomp_data *call, bool unknown)
{
    long n = -1;
    bool forbids = false;
    struct sock_filter *code = calloc(MAX_CODE, sizeof *code);
    for (uintptr_t i = 0; code && !forbids && i < MAX_FILTERS; i++) {
        n = filter_of(tid, i, code);
        if (n <= 0)
            break;
        forbids = action_text(hw_seccomp_run(code, (size_t)n, call)) != NULL;
    }
    free(code);
    return n < 0 ? unknown : forbids;
}

int hw_seccomp_check(const struct hw_pid *pid, int32_t tid, bool raw, struct hw_error *err)
{
    struct sock_filter *code = calloc(MAX_CODE, sizeof *code);
    int rc = code ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "attach");
    for (uintptr_t i = 0; rc == HW_OK && i < MAX_FILTERS; i++) {
        long n = filter_of(tid, i, code);
        if (n == 0)
            break;
        rc = n < 0 ? cannot_read(pid, err) : check_one(pid, code, (size_t)n, raw, err);
    }
    free(code);
    return rc < 0 ? rc : check_others(pid, err);
}

int hw_seccomp_readable(const struct hw_pid *pid, struct hw_error *err)
{
    char text[4096];
    hw_autofd int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\nCapEff:");
    if (line && (strtoull(line + 8, NULL, 16) >> CAP_ADMIN_BIT & 1))
        return HW_OK;
    return hw_fail(
        err, HW_EPERM, 0,
        "process %d restricts its system calls (seccomp), and only root (CAP_SYS_ADMIN) "
        "may read what its filters allow; run as root, or start it with 'heapwise record "
        "--'",
        pid->pid);
}
