/*
 * vfork: a fork would copy the page tables of a model of gigabytes, and fail where memory is
 * counted. Until the exec the child runs on our memory, so all signals are blocked meanwhile and
 * whatever handles one of ours is undone before they are let in again.
 */
#include "base/files/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/banned.h"

static void forget_handlers(void)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction is;
    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &is) == 0 && is.sa_handler != SIG_IGN && is.sa_handler != SIG_DFL)
            (void)sigaction(s, &usual, NULL); /* fails for no signal that has a handler */
}

static bool set_limits(const struct hw_helper *h)
{
    const struct rlimit memory = {h->max_memory, h->max_memory}, cpu = {h->max_cpu_s, h->max_cpu_s};
    return (!h->max_memory || setrlimit(RLIMIT_AS, &memory) == 0) &&
           (!h->max_cpu_s || setrlimit(RLIMIT_CPU, &cpu) == 0);
}

/* -1 = /dev/null. The descriptor may be the number itself: then it must only stay open. */
static bool place(int fd, int as)
{
    int from = fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
    return from == as ? fcntl(as, F_SETFD, 0) == 0 : from >= 0 && dup2(from, as) == as;
}

/* Above all places, so that none is overwritten before it is taken. */
static int lift(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HW_HELPER_FD + 1);
}

static _Noreturn void become(const struct hw_helper *h, pid_t parent, const sigset_t *mask,
                             volatile int *error)
{
    int in = lift(h->in), out = lift(h->out), more = lift(h->more);
    bool all = (in >= 0 || h->in < 0) && (out >= 0 || h->out < 0) && (more >= 0 || h->more < 0);
    forget_handlers();
    if (all && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && place(in, STDIN_FILENO) &&
        place(out, STDOUT_FILENO) && place(-1, STDERR_FILENO) &&
        (more < 0 || place(more, HW_HELPER_FD)) && set_limits(h)) {
        if (getppid() != parent) /* it ended before the signal was asked for */
            _exit(0);
        (void)pthread_sigmask(SIG_SETMASK, mask, NULL); /* cannot fail with these arguments */
        (void)execvpe(h->program, h->argv, h->env);
    }
    *error = errno;
    _exit(127);
}

int hw_helper_start(const struct hw_helper *h, pid_t *out)
{
    sigset_t all, before;
    volatile int error = 0;
    pid_t parent = getpid();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before); /* cannot fail with these arguments */
    pid_t pid = vfork();
    if (pid == 0)
        become(h, parent, &before, &error);
    if (pid < 0)
        error = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (pid > 0 && error && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (!error)
        *out = pid;
    return error;
}
