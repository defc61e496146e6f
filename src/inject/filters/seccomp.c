/* seccomp.c - see seccomp.h */
#include "inject/filters/seccomp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/stat.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "inject/filters/bpf_code.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MAX_FILTERS   64u
#define MAX_CODE      4096u /* BPF_MAXINSNS */
#define CAP_ADMIN_BIT 21

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#endif
#if defined(__aarch64__)
#define HERE AUDIT_ARCH_AARCH64
#else
#define HERE AUDIT_ARCH_X86_64
#endif

/* ---- the calls ---- */

enum {
    HELD = 1u << HW_SECCOMP_HELD,
    DLOPEN = 1u << HW_SECCOMP_DLOPEN,
    RAW = 1u << HW_SECCOMP_RAW,
    ALWAYS = HELD | DLOPEN | RAW,
    MAY_FAIL = 1u << HW_SECCOMP_WAYS
};

#define RW    (PROT_READ | PROT_WRITE)
#define RX    (PROT_READ | PROT_EXEC)
#define ALONE (MAP_PRIVATE | MAP_ANONYMOUS)
#define OVER  (MAP_PRIVATE | MAP_FIXED)
/* For an argument: its known value, and the mask of known bits. */
#define B(value, bits)                                                                             \
    {                                                                                              \
        (uint64_t)(value) & (uint64_t)(bits), (uint64_t)(bits)                                     \
    }
#define V(value) B(value, UINT64_MAX)
#define I(value) B(value, UINT32_MAX)
#define ANY      B(0, 0)

static const struct need {
    const char *name;
    int number;
    unsigned when;
    struct {
        uint64_t value, known;
    } args[6];
} needs[] = {
#define NEED(when, name, ...) {#name, SYS_##name, when, {__VA_ARGS__}},
#include "inject/filters/needed_calls.def"
#undef NEED
};

/* From an instruction whose address is just as unknown. */
static struct hw_bpf_call call_of(const struct need *w)
{
    struct hw_bpf_call call = {.data = {.nr = w->number, .arch = HERE}};
    call.known.nr = -1;
    call.known.arch = UINT32_MAX;
    for (size_t i = 0; i < 6; i++) {
        call.data.args[i] = w->args[i].value;
        call.known.args[i] = w->args[i].known;
    }
    return call;
}

bool hw_seccomp_need(enum hw_seccomp_way way, size_t i, struct hw_bpf_call *out)
{
    for (size_t k = 0; k < HW_ARRAY_LEN(needs); k++)
        if ((needs[k].when & 1u << way) && i-- == 0) {
            *out = call_of(&needs[k]);
            return true;
        }
    return false;
}

/* ---- one thread ---- */

static const char *action_text(uint32_t action)
{
    switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
        return NULL;
    case SECCOMP_RET_ERRNO:
        return "gives an error for a call";
    case SECCOMP_RET_TRAP:
        return "sends SIGSYS for a call";
    case SECCOMP_RET_TRACE:
    case SECCOMP_RET_USER_NOTIF:
        return "lets another process decide about a call";
    default:
        return "ends it for a call";
    }
}

/* The kernel follows the strictest answer of all filters. */
static int check_one(const struct hw_pid *pid, const struct sock_filter *code, size_t n,
                     enum hw_seccomp_way way, struct hw_error *err)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(needs); i++) {
        const struct need *w = &needs[i];
        if (!(w->when & 1u << way))
            continue;
        struct hw_bpf_call call = call_of(w);
        uint32_t action = hw_bpf_answer(code, n, &call);
        const char *text = action_text(action);
        if (!text ||
            ((w->when & MAY_FAIL) && (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO))
            continue;
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       way == HW_SECCOMP_HELD
                           ? "process %d restricts its system calls (seccomp): its filter %s of "
                             "%s, which recording from its start needs"
                           : "process %d restricts its system calls (seccomp): its filter %s of "
                             "%s, which attaching needs; nothing was changed. Start it with "
                             "'heapwise record --'",
                       pid->pid, text, w->name);
    }
    return HW_OK;
}

/* The kernel shows filters only to a process with CAP_SYS_ADMIN that has no filter itself. */
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

/* The instructions of the thread's i-th filter; 0 = there is no i-th one; -1 with errno. */
static long filter_of(int32_t tid, uintptr_t i, struct sock_filter *code)
{
    long n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)i, NULL);
    if (n > 0 && n <= (long)MAX_CODE)
        n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)i, code);
    if (n < 0)
        return errno == ENOENT ? 0 : -1;
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
    struct hw_bpf_call all = {.data = *call};
    struct sock_filter *code = calloc(MAX_CODE, sizeof *code);
    memset(&all.known, 0xff, sizeof all.known);
    for (uintptr_t i = 0; code && !forbids && i < MAX_FILTERS; i++) {
        n = filter_of(tid, i, code);
        if (n <= 0)
            break;
        forbids = action_text(hw_bpf_answer(code, (size_t)n, &all)) != NULL;
    }
    free(code);
    return n < 0 ? unknown : forbids;
}

/* A kernel that does not keep the filters' code (without CONFIG_CHECKPOINT_RESTORE) gives
 * EINVAL, as for a thread without filters. So the number of filters is compared with what /proc
 * says. */
int hw_seccomp_check(const struct hw_pid *pid, int32_t tid, const struct hw_proc_status *status,
                     enum hw_seccomp_way way, struct hw_error *err)
{
    struct sock_filter *code = calloc(MAX_CODE, sizeof *code);
    int rc = code ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "process %d", pid->pid);
    uint64_t n_read = 0, n_least = status->seccomp_filters ? status->seccomp_filters : 1;
    while (rc == HW_OK && n_read <= MAX_FILTERS) {
        errno = EFBIG;
        long n = n_read < MAX_FILTERS ? filter_of(tid, n_read, code) : -1;
        if (n == 0)
            break;
        rc = n < 0 ? cannot_read(pid, err) : check_one(pid, code, (size_t)n, way, err);
        n_read++;
    }
    free(code);
    errno = ENOENT;
    if (rc == HW_OK && n_read < n_least)
        rc = cannot_read(pid, err);
    return rc;
}

/* Each thread has its own filters: a thread whose number of filters differs was not checked. */
int hw_seccomp_check_others(const struct hw_pid *pid, struct hw_error *err)
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
