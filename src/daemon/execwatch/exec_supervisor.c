/*
 * exec_supervisor.c - the parent of answerer and finder
 *
 * It learns at once when one of them is stopped (SIGSTOP, a debugger), which no deadline inside the
 * process itself could notice, and kills it: the kernel then lets whatever waits continue, held
 * execs and stopped tracees alike. Both are started again then, but not for ever.
 */
#include "daemon/execwatch/exec_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/policy/privilege.h"
#include "proc/number.h"
#include "proc/pid.h"

#include "base/banned.h"

#define NICE_LIMIT 35 /* nice -15 */
#define TRIES      6
#define PATIENCE   3 /* processes of one user */
#define STUCK_NS   UINT64_C(5000000000)
#define PERIOD_NS  UINT64_C(60000000000)

struct guard {
    const struct hw_exec_watch_setup *setup;
    struct hw_exec_watch_shared *shared;
    int talk, order;
    pid_t answerer, finder;
    bool wanted;
    bool alone; /* the kernel does not let us answer */
    uint64_t began_ns;
    uint32_t n_tries;
    /* Users whose processes did not answer. A user has as many processes as they like, so these
     * do not use up the tries above. */
    struct silent {
        uint32_t uid, n;
    } silent[HW_EXEC_USERS];
    uint32_t n_silent;
};

/* ---- the time limit of the two ---- */

static timer_t limit_timer;
static bool has_limit;

void hw_exec_limit_init(void)
{
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    has_limit = timer_create(CLOCK_MONOTONIC, &e, &limit_timer) == 0;
}

void hw_exec_limit(uint32_t ms)
{
    struct itimerspec t = {.it_value = {ms / 1000, (long)(ms % 1000) * 1000000}};
    if (has_limit)
        (void)timer_settime(limit_timer, 0, &t, NULL); /* cannot fail with these arguments */
}

/* ---- the guard ---- */

static void start_both(struct guard *g)
{
    int pair[2];
    uint64_t now = hw_now_monotonic_ns();
    if (now - g->began_ns > PERIOD_NS) {
        g->began_ns = now;
        g->n_tries = 0;
    }
    if (++g->n_tries > TRIES)
        _exit(1); /* the recorder sees the closed socket and says so */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        _exit(1);
    for (size_t i = 0; i < 2; i++)
        atomic_store_explicit(&g->shared->turn_ns[i], now, memory_order_relaxed);
    pid_t self = getpid();
    g->finder = fork();
    if (g->finder == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail with these arguments */
        if (getppid() != self)
            _exit(0);
        (void)close(pair[0]);
        (void)close(g->order);
        hw_exec_find(g->setup, g->shared, g->talk, pair[1]);
    }
    g->answerer = g->alone ? -1 : fork();
    if (g->answerer == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self)
            _exit(0);
        (void)close(pair[1]);
        (void)close(g->order);
        (void)close(g->talk);
        hw_exec_answer(g->shared, &g->shared->answerer, pair[0]);
    }
    (void)close(pair[0]);
    (void)close(pair[1]);
    if (g->finder < 0)
        _exit(1);
}

static void end(pid_t *pid)
{
    if (*pid > 0)
        (void)kill(*pid, SIGKILL); /* reaped by the loop */
    *pid = -1;
}

/* True: it was one of few of its user, whose others are left alone from the last of them on. */
static bool blame(struct guard *g, int32_t pid)
{
    struct hw_exec_watch_shared *s = g->shared;
    struct hw_proc_status st;
    uint32_t i = 0;
    hw_autofd int dir = hw_proc_open_dir(pid);
    if (dir < 0 || hw_proc_status(dir, &st) < 0 || st.uid == 0)
        return false;
    while (i < g->n_silent && g->silent[i].uid != st.uid)
        i++;
    if (i == HW_EXEC_USERS)
        return false;
    if (i == g->n_silent)
        g->silent[g->n_silent++] = (struct silent){.uid = st.uid};
    if (++g->silent[i].n != PATIENCE)
        return g->silent[i].n < PATIENCE;
    uint32_t n = atomic_load_explicit(&s->n_skip_users, memory_order_relaxed);
    s->skip_users[n] = st.uid; /* once for each of `silent`, so there is room */
    atomic_store_explicit(&s->n_skip_users, n + 1, memory_order_release); /* is_of_skipped_user */
    return true;
}

/* The next ones leave alone what these did not return from. */
static void skip_what_was_read(struct guard *g)
{
    struct hw_exec_watch_shared *s = g->shared;
    _Atomic int32_t *const who[] = {&s->answerer.at, &s->finder.at};
    bool blamed = false;
    for (size_t i = 0; i < 2; i++) {
        int32_t pid = atomic_exchange_explicit(who[i], 0, memory_order_relaxed);
        if (pid <= 0)
            continue;
        s->skip[s->n_skip++ % HW_EXEC_SKIP] = pid;
        blamed |= blame(g, pid);
    }
    if (blamed && g->n_tries)
        g->n_tries--;
}

static void reap(struct guard *g)
{
    int status;
    pid_t pid;
    bool again = false;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (WIFSTOPPED(status)) {
            (void)kill(pid, SIGKILL); /* its end comes next */
            continue;
        }
        if (pid == g->answerer && WIFEXITED(status) && WEXITSTATUS(status) == 3) {
            g->answerer = -1;
            g->alone = true; /* the finder works without */
            continue;
        }
        if (pid != g->answerer && pid != g->finder)
            continue;
        again = true;
        *(pid == g->finder ? &g->finder : &g->answerer) = -1;
    }
    if (again && g->wanted) {
        end(&g->answerer);
        end(&g->finder);
        skip_what_was_read(g);
        start_both(g);
    }
}

/* One that neither works nor ends, although its time limit has killed it: it waits in the kernel,
 * for what no signal ends. It is left behind, and nobody waits for it. */
static void leave_stuck(struct guard *g)
{
    uint64_t now = hw_now_monotonic_ns();
    _Atomic uint64_t *turn = g->shared->turn_ns;
    pid_t const of[] = {g->answerer, g->finder};
    bool stuck = false;
    for (size_t i = 0; g->wanted && i < 2; i++)
        stuck |= of[i] > 0 && now - atomic_load_explicit(&turn[i], memory_order_relaxed) > STUCK_NS;
    if (!stuck)
        return;
    end(&g->answerer);
    end(&g->finder);
    skip_what_was_read(g);
    start_both(g);
}

static void on_order(struct guard *g)
{
    char c;
    ssize_t n = read(g->order, &c, 1);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        end(&g->answerer);
        end(&g->finder);
        _exit(0);
    }
    if (n == 1 && c == 'b' && !g->wanted) {
        g->wanted = true;
        g->n_tries = 0;
        start_both(g);
    } else if (n == 1 && c == 'e') {
        g->wanted = false;
        end(&g->answerer);
        end(&g->finder);
    }
}

static void on_child(int sig)
{
    (void)sig; /* only interrupts the poll */
}

/* The answerer keeps its pages in memory and comes before others: set while we may. The limits
 * alone are not enough for a process that may be nice but not raise them (no CAP_SYS_RESOURCE). */
static void raise_limits(void)
{
    const struct rlimit memory = {RLIM_INFINITY, RLIM_INFINITY}, nice = {NICE_LIMIT, NICE_LIMIT};
    (void)setrlimit(RLIMIT_MEMLOCK, &memory); /* offers, both */
    (void)setrlimit(RLIMIT_NICE, &nice);
    (void)setpriority(PRIO_PROCESS, 0, -15);
}

_Noreturn static void guard(const struct hw_exec_watch_setup *s, int talk, int order)
{
    struct guard g = {.setup = s, .answerer = -1, .finder = -1};
    (void)prctl(PR_SET_NAME, "heapprofd-guard"); /* another name than the recorder's: killall */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    raise_limits();
    hw_privilege_keep_needed();
    (void)setsid(); /* Ctrl-Z and Ctrl-C are not for these */
    sigset_t none, chld;
    sigemptyset(&none);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    struct sigaction child = {.sa_handler = on_child}, ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGCHLD, &child, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGTERM, &ignore, NULL); /* the recorder's end is ours */
    (void)sigaction(SIGUSR1, &ignore, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigprocmask(SIG_SETMASK, &chld, NULL);
    int high = fcntl(talk, F_DUPFD_CLOEXEC, 10), high2 = fcntl(order, F_DUPFD_CLOEXEC, 10);
    if (high < 0 || high2 < 0 || dup3(high, 3, O_CLOEXEC) < 0 || dup3(high2, 4, O_CLOEXEC) < 0)
        _exit(1);
    (void)close_range(5, ~0u, 0); /* whatever was open here does not concern us */
    g.talk = 3;
    g.order = 4;
    g.shared =
        mmap(NULL, sizeof *g.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g.shared == MAP_FAILED)
        _exit(1);
    for (;;) {
        struct pollfd p = {.fd = g.order, .events = POLLIN};
        const struct timespec look = {.tv_sec = 1};
        int n = ppoll(&p, 1, g.wanted ? &look : NULL, &none);
        reap(&g);
        leave_stuck(&g);
        if (n > 0)
            on_order(&g);
    }
}

int hw_exec_fork(const struct hw_exec_watch_setup *s, int *talk, int *order, int32_t *pid,
                 struct hw_error *err)
{
    int t[2] = {-1, -1}, o[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, t) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, o) < 0) {
        int rc = hw_fail_sys(err, "socket to the guard of starting programs");
        if (t[0] >= 0) {
            (void)close(t[0]);
            (void)close(t[1]);
        }
        return rc;
    }
    pid_t p = fork();
    if (p == 0)
        guard(s, t[1], o[1]);
    (void)close(t[1]); /* the guard's ends */
    (void)close(o[1]);
    if (p < 0) {
        (void)close(t[0]);
        (void)close(o[0]);
        return hw_fail_sys(err, "fork");
    }
    (void)fcntl(t[0], F_SETFL, O_NONBLOCK); /* cannot fail on a socket */
    *talk = t[0];
    *order = o[0];
    *pid = p;
    return HW_OK;
}
