/*
 * worker.c - recorder ──socket── parent of workers ──fork── one child a job
 *
 * The parent holds no descriptor but its socket and no privilege; it parses nothing. A child
 * answers for itself when it succeeds; when it dies the parent answers for it. When the socket is
 * closed the parent ends, and its children die with it.
 */
#include "daemon/code/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_receive.h"
#include "base/files/fd_send.h"
#include "base/files/machine_memory.h"
#include "base/text/strbuf.h"
#include "cfi/cfi.h"
#include "daemon/policy/privilege.h"
#include "elf/elf.h"
#include "elf/php_symbols.h"
#include "elf/python_symbols.h"
#include "elf/ruby_symbols.h"
#include "wire/control_page.h"

#include "base/banned.h"

#define NOBODY         65534
#define MAX_CHILDREN   4  /* at work */
#define MAX_LEFT       28 /* that do not come back */
#define STUCK_NS       UINT64_C(5000000000)
#define MEMORY_BYTES   (UINT64_C(6) << 30) /* and at most half of the memory that exists */
#define MEMORY_LEAST   (UINT64_C(256) << 20)
#define TABLE_CPU_SECS 10
#define NAMES_CPU_SECS 30
#define WALL_SECS      60
#define MAX_NAME_BYTES 65536u
#define MAX_NAME_PCS   (1u << 22)

struct job {
    uint64_t job;
    uint32_t type;
    uint32_t reserved;
    uint64_t n;
};

/* ---- the child ---- */

static void limit(int what, uint64_t value)
{
    struct rlimit l = {value, value};
    (void)setrlimit((__rlimit_resource_t)what, &l); /* with one limit fewer it still is a worker */
}

/* What reading two descriptors and computing needs; everything else fails with EPERM. */
static const uint16_t allowed_calls[] = {
    SYS_read,       SYS_write,        SYS_pread64,        SYS_pwrite64,     SYS_fstat,
    SYS_newfstatat, SYS_lseek,        SYS_mmap,           SYS_munmap,       SYS_mprotect,
    SYS_mremap,     SYS_brk,          SYS_madvise,        SYS_futex,        SYS_exit,
    SYS_exit_group, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_clock_gettime,
    SYS_getrandom,  SYS_sendmsg,      SYS_sendto,         SYS_close,        SYS_dup,
    SYS_fcntl,      SYS_ftruncate,    SYS_getpid,         SYS_gettid,       SYS_tgkill,
    SYS_sysinfo,    SYS_sched_yield,  SYS_restart_syscall};
#define N_CALLS (sizeof allowed_calls / sizeof *allowed_calls)

static void restrict_calls(void)
{
    struct sock_filter f[N_CALLS + 6];
    size_t n = 0;
#if defined(__x86_64__)
    uint32_t arch = AUDIT_ARCH_X86_64;
#else
    uint32_t arch = AUDIT_ARCH_AARCH64;
#endif
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 0, N_CALLS + 1);
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < N_CALLS; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed_calls[i],
                                              (uint8_t)(N_CALLS - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog p = {(unsigned short)n, f};
    (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p); /* without it the other limits remain */
}

static int do_table(int elf_fd, int memfd, uint64_t *n_bytes, struct hw_error *err)
{
    void *table = NULL;
    size_t n = 0;
    int rc = hw_cfi_compile(elf_fd, -1, &table, &n, NULL, err);
    if (rc == HW_OK && hw_fd_write_all(memfd, table, n) < 0)
        rc = hw_fail_sys(err, "write the table");
    free(table);
    *n_bytes = n;
    return rc;
}

static int do_names(int elf_fd, int memfd, uint64_t n, uint64_t *n_bytes, struct hw_error *err)
{
    if (n > MAX_NAME_PCS)
        return hw_fail(err, HW_ELIMIT, 0, "too many addresses");
    hw_autofree uint64_t *pcs = malloc(n * sizeof *pcs + 1);
    struct hw_strbuf out = {0};
    struct hw_elf *e = NULL;
    int rc = !pcs ? hw_fail(err, HW_ENOMEM, 0, "addresses")
                  : hw_fd_pread_all(memfd, pcs, n * sizeof *pcs, 0);
    if (rc == HW_OK)
        rc = hw_elf_open(elf_fd, &e, err);
    for (uint64_t i = 0; rc == HW_OK && i < n; i++) {
        const char *name = hw_elf_function_at(e, pcs[i], NULL);
        size_t len = name ? strnlen(name, MAX_NAME_BYTES) : 0;
        uint32_t len32 = (uint32_t)len;
        hw_strbuf_add(&out, &len32, sizeof len32);
        hw_strbuf_add(&out, name ? name : "", len);
        if (out.n > HW_JOB_MAX_OUT)
            rc = hw_fail(err, HW_ELIMIT, 0, "too many names");
    }
    if (rc == HW_OK && out.failed)
        rc = hw_fail(err, HW_ENOMEM, 0, "names");
    if (rc == HW_OK && (lseek(memfd, 0, SEEK_SET) != 0 || hw_fd_write_all(memfd, out.p, out.n) < 0))
        rc = hw_fail_sys(err, "write the names");
    *n_bytes = out.n;
    hw_elf_close(e);
    hw_strbuf_done(&out);
    return rc;
}

static int do_info(int elf_fd, int memfd, uint64_t *n_bytes, struct hw_error *err)
{
    struct hw_elf *e;
    struct hw_elf_info info;
    int rc = hw_elf_open(elf_fd, &e, err);
    if (rc < 0)
        return rc;
    rc = hw_elf_get_info(e, &info, err);
    hw_elf_close(e);
    if (rc == HW_OK && hw_fd_write_all(memfd, &info, sizeof info) < 0)
        rc = hw_fail_sys(err, "write");
    *n_bytes = sizeof info;
    return rc;
}

static int do_control(int elf_fd, int memfd, uint64_t *n_bytes, struct hw_error *err)
{
    struct hw_elf *e;
    uint64_t va = 0;
    int rc = hw_elf_open(elf_fd, &e, err);
    if (rc < 0)
        return rc;
    if (!hw_elf_find_symbol(e, HW_CONTROL_SYMBOL, &va))
        va = 0;
    hw_elf_close(e);
    if (hw_fd_write_all(memfd, &va, sizeof va) < 0)
        rc = hw_fail_sys(err, "write");
    *n_bytes = sizeof va;
    return rc;
}

static int do_interpreters(int elf_fd, int memfd, uint64_t *n_bytes, struct hw_error *err)
{
    struct hw_interpreters all = {0};
    struct hw_elf *e;
    int rc = hw_elf_open(elf_fd, &e, err);
    if (rc < 0)
        return rc;
    hw_python_symbols_find(e, elf_fd, &all.python);
    if (all.python.eval == 0)
        hw_ruby_symbols_find(e, elf_fd, &all.ruby);
    if (all.python.eval == 0 && all.ruby.exec == 0)
        hw_php_symbols_find(elf_fd, &all.php);
    hw_elf_close(e);
    if (hw_fd_write_all(memfd, &all, sizeof all) < 0)
        rc = hw_fail_sys(err, "write");
    *n_bytes = sizeof all;
    return rc;
}

static void send_answer(int sock, struct hw_job_answer *a)
{
    (void)send(sock, a, sizeof *a, MSG_NOSIGNAL); /* the recorder is gone: so shall we be soon */
}

static uint64_t memory_of_a_job(void)
{
    uint64_t most = hw_machine_memory() / 2;
    return most > MEMORY_BYTES ? MEMORY_BYTES : most < MEMORY_LEAST ? MEMORY_LEAST : most;
}

_Noreturn static void run_job(int sock, const struct job *j, int elf_fd, int memfd, uint64_t memory)
{
    struct hw_job_answer a = {.job = j->job, .type = j->type};
    struct hw_error err = {0};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their shadows are larger */
    limit(RLIMIT_AS, memory);
#endif
    limit(RLIMIT_FSIZE, HW_JOB_MAX_OUT);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, j->type == HW_JOB_NAMES ? NAMES_CPU_SECS : TABLE_CPU_SECS);
    (void)alarm(WALL_SECS); /* its default action ends us */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    restrict_calls();
#else
    (void)restrict_calls; /* the sanitizers' own calls are not on the list */
#endif
    switch ((enum hw_job_type)j->type) {
    case HW_JOB_TABLE:
        a.rc = do_table(elf_fd, memfd, &a.n_bytes, &err);
        break;
    case HW_JOB_NAMES:
        a.rc = do_names(elf_fd, memfd, j->n, &a.n_bytes, &err);
        break;
    case HW_JOB_INFO:
        a.rc = do_info(elf_fd, memfd, &a.n_bytes, &err);
        break;
    case HW_JOB_CONTROL:
        a.rc = do_control(elf_fd, memfd, &a.n_bytes, &err);
        break;
    case HW_JOB_INTERPRETERS:
        a.rc = do_interpreters(elf_fd, memfd, &a.n_bytes, &err);
        break;
    }
    (void)snprintf(a.text, sizeof a.text, "%.150s", err.text);
    send_answer(sock, &a);
    _exit(0);
}

/* ---- the parent of workers ---- */

struct child {
    pid_t pid;
    struct job job;
    uint64_t since_ns;
    bool left; /* it has no place any more, and may still answer */
    bool told; /* its job is answered */
};

struct children {
    struct child v[MAX_CHILDREN + MAX_LEFT];
    size_t n, n_left;
};

static void answer_for(int sock, const struct job *j, int status)
{
    struct hw_job_answer a = {.job = j->job, .type = j->type, .rc = HW_EFORMAT};
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGXCPU || sig == SIGKILL || sig == SIGALRM)
        a.rc = HW_ETIMEOUT;
    (void)snprintf(a.text, sizeof a.text, "the worker ended with %s %d", sig ? "signal" : "status",
                   sig ? sig : WEXITSTATUS(status));
    send_answer(sock, &a);
}

static void refuse(int sock, const struct job *j)
{
    struct hw_job_answer a = {.job = j->job, .type = j->type, .rc = HW_ETIMEOUT};
    (void)snprintf(a.text, sizeof a.text, "the file does not answer");
    send_answer(sock, &a);
}

static void reap(int sock, struct children *c)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < c->n; i++) {
            if (c->v[i].pid != pid)
                continue;
            if (!c->v[i].told && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
                answer_for(sock, &c->v[i].job, status);
            c->n_left -= c->v[i].left;
            c->v[i] = c->v[--c->n];
            break;
        }
}

/* It neither works nor waits for a processor. */
static bool waits(pid_t pid)
{
    char path[32];
    hw_autofree char *text = NULL;
    size_t n;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (hw_file_read(AT_FDCWD, path, 4096, &text, &n, NULL) < 0)
        return true; /* hidden from us (hidepid) */
    const char *p = strrchr(text, ')');
    return !(p && p[1] == ' ' && p[2] == 'R');
}

/*
 * A file's lock is its user's, and who waits for it is not ended by the alarm either. Such a child
 * makes room for the next job; it is never waited for.
 */
static void leave_stuck(int sock, struct children *c)
{
    uint64_t now = hw_now_monotonic_ns();
    for (size_t i = 0; i < c->n; i++) {
        struct child *x = &c->v[i];
        uint64_t age = now - x->since_ns;
        if (!x->left && age > STUCK_NS && c->n_left < MAX_LEFT && waits(x->pid)) {
            x->left = true;
            c->n_left++;
        }
        if (!x->told && age > (WALL_SECS + 5) * UINT64_C(1000000000)) { /* the alarm was in vain */
            refuse(sock, &x->job);
            x->told = true;
        }
    }
}

/* No place, and none to come: the next job is answered at once. */
static bool all_are_stuck(const struct children *c)
{
    bool stuck = c->n == HW_ARRAY_LEN(c->v);
    uint64_t now = hw_now_monotonic_ns();
    for (size_t i = 0; stuck && i < c->n; i++)
        stuck = c->v[i].left || (now - c->v[i].since_ns > STUCK_NS && waits(c->v[i].pid));
    return stuck;
}

static bool take_job(int sock, struct job *j, int fds[2])
{
    ssize_t n = hw_fd_receive(sock, j, sizeof *j, fds, 2, /* flags = */ 0);
    if (n == (ssize_t)sizeof *j && fds[1] >= 0)
        return true;
    for (size_t i = 0; i < 2; i++)
        hw_autofd_close(&fds[i]);
    return false;
}

static void drop_privileges(void)
{
    if (geteuid() == 0) {
        /* A root that may not do this (a user namespace of one id) continues as itself. */
        (void)!setgroups(0, NULL);
        (void)!setresgid(NOBODY, NOBODY, NOBODY);
        (void)!setresuid(NOBODY, NOBODY, NOBODY);
    }
    hw_privilege_keep_none();
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* cannot fail with these arguments */
}

static void on_child(int sig)
{
    (void)sig; /* only interrupts the poll */
}

_Noreturn static void parent_of_workers(int sock)
{
    (void)prctl(PR_SET_NAME, "heapprofd-elf"); /* another name than the recorder's: killall */
    sigset_t none, chld;
    sigemptyset(&none);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, child = {.sa_handler = on_child};
    (void)sigaction(SIGINT, &ignore, NULL);  /* Ctrl-C is for the recorder: it still needs names */
    (void)sigaction(SIGTERM, &ignore, NULL); /* the closed socket ends us */
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigaction(SIGUSR1, &ignore, NULL);
    (void)sigaction(SIGCHLD, &child, NULL);
    (void)sigprocmask(SIG_SETMASK, &chld, NULL); /* delivered inside ppoll only */
    if (sock != 3 && dup2(sock, 3) < 0)
        _exit(1);
    sock = 3;
    (void)close_range(4, ~0u, 0);        /* whatever was open here does not concern us */
    uint64_t memory = memory_of_a_job(); /* while the files with that information can be read */
    drop_privileges();
    static struct children c;
    for (;;) {
        static const struct timespec second = {.tv_sec = 1};
        bool has_place = c.n - c.n_left < MAX_CHILDREN, stuck = !has_place && all_are_stuck(&c);
        struct pollfd p = {.fd = sock, .events = has_place || stuck ? POLLIN : 0};
        int r = ppoll(&p, 1, c.n ? &second : NULL, &none);
        reap(sock, &c);
        leave_stuck(sock, &c);
        if (r <= 0)
            continue;
        if (!has_place && !stuck) /* nothing was asked for: it is the recorder's end */
            break;
        int fds[2];
        struct job j;
        if (!take_job(sock, &j, fds)) /* also the end of the recorder */
            break;
        pid_t pid = stuck ? -1 : fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not longer than the recorder */
            struct sigaction dfl = {.sa_handler = SIG_DFL};
            (void)sigaction(SIGCHLD, &dfl, NULL);
            (void)sigprocmask(SIG_SETMASK, &none, NULL);
            run_job(sock, &j, fds[0], fds[1], memory);
        }
        if (stuck)
            refuse(sock, &j);
        else if (pid < 0)
            answer_for(sock, &j, SIGKILL);
        else
            c.v[c.n++] = (struct child){.pid = pid, .job = j, .since_ns = hw_now_monotonic_ns()};
        (void)close(fds[0]); /* the child has its own */
        (void)close(fds[1]);
    }
    _exit(0);
}

/* ---- the recorder's side ---- */

int hw_workers_start(struct hw_workers *w, struct hw_error *err)
{
    int s[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) < 0)
        return hw_fail_sys(err, "socket to the workers");
    pid_t pid = fork();
    if (pid == 0)
        parent_of_workers(s[1]);
    (void)close(s[1]); /* the worker's end */
    if (pid < 0) {
        (void)close(s[0]);
        return hw_fail_sys(err, "fork");
    }
    (void)fcntl(s[0], F_SETFL, O_NONBLOCK); /* cannot fail on a socket */
    *w = (struct hw_workers){.fd = s[0], .pid = pid};
    return HW_OK;
}

void hw_workers_stop(struct hw_workers *w)
{
    if (w->fd < 0)
        return;
    (void)close(w->fd);
    w->fd = -1;
    /* It would end when the socket closes, but may be waiting for a child just now: up to a
     * minute. Its children die with it. */
    (void)kill(w->pid, SIGKILL);
    (void)waitpid(w->pid, NULL, 0);
}

int hw_workers_send(struct hw_workers *w, enum hw_job_type type, int elf_fd, int memfd, uint64_t n,
                    uint64_t *job)
{
    struct job j = {.job = ++w->last_job, .type = type, .n = n};
    int fds[2] = {elf_fd, memfd};
    if (hw_fd_send(w->fd, &j, sizeof j, fds, HW_ARRAY_LEN(fds), 0) == HW_OK) {
        *job = j.job;
        return HW_OK;
    }
    return errno == EAGAIN || errno == ETOOMANYREFS ? HW_EBUSY : HW_EGONE;
}

int hw_workers_take(struct hw_workers *w, struct hw_job_answer *out)
{
    ssize_t n = recv(w->fd, out, sizeof *out, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n != sizeof *out)
        return HW_EGONE;
    out->text[sizeof out->text - 1] = '\0';
    return 1;
}
