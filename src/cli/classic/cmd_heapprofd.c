/*
 * heapprofd and traced: the recorder as a service and, with a hidden option, embedded in another
 * command.
 *
 * `killall -USR1 heapprofd` must reach the recorder under each of its names, so the process that
 * records is always called heapprofd. traced is a parent that passes signals on to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "cli/cli.h"
#include "daemon/recorder.h"
#include "record/controller.h"
#include "record/launch.h"
#include "wire/handshake.h"

#include "base/banned.h"

static int run_recorder(struct hw_cli *cli, int controller_fd)
{
    hw_autofree char *library = NULL;
    if (hw_launch_find_library(NULL, NULL, &library, NULL) < 0)
        library =
            NULL; /* running processes then cannot be attached to, and their session says so */
    const struct hw_recorder_options o = {
        .library = library,
        .controller_fd = controller_fd,
        .producer_socket = hw_opt_text(&cli->opts, HW_OPT_PRODUCER_SOCKET),
        .consumer_socket = hw_opt_text(&cli->opts, HW_OPT_CONSUMER_SOCKET),
        .cache_dir = hw_opt_text(&cli->opts, HW_OPT_CACHE_DIR),
        .policy = hw_opt_text(&cli->opts, HW_OPT_POLICY),
    };
    struct hw_error err = {0};
    (void)prctl(PR_SET_NAME, "heapprofd"); /* what ps and killall show; cannot fail */
    int rc = hw_recorder_run(&o, &err);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

/* ---- background ---- */

/* Waits until commands can connect, or the child has died. */
static int wait_for_service(struct hw_cli *cli, pid_t child)
{
    enum { TRIES = 200, PAUSE_NS = 50000000 };
    const char *path = hw_opt_text(&cli->opts, HW_OPT_CONSUMER_SOCKET);
    for (int i = 0; i < TRIES; i++) {
        struct hw_controller *c;
        if (hw_controller_connect(path, &c, NULL) == 0) {
            hw_controller_free(c);
            return HW_EXIT_OK;
        }
        int status;
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : HW_EXIT_FAILED;
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        (void)nanosleep(&pause, NULL); /* woken early, it only checks again */
    }
    hw_cli_error(cli, NULL, "the service did not open its socket within 10 s");
    return HW_EXIT_FAILED;
}

/* In the child: lets go of the terminal. */
static void detach(void)
{
    (void)setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        (void)dup2(null, fd);
}

static int in_background(struct hw_cli *cli, int (*run)(struct hw_cli *cli))
{
    pid_t child = fork();
    if (child < 0) {
        hw_cli_error(cli, NULL, "fork: %s", strerror(errno));
        return HW_EXIT_FAILED;
    }
    if (child == 0) {
        detach();
        return run(cli);
    }
    int status = wait_for_service(cli, child);
    if (status == HW_EXIT_OK)
        printf("%d\n", (int)child);
    return status;
}

/* ---- will anybody find it? ---- */

static bool is_started_by_manager(void)
{
    const char *pid = secure_getenv("LISTEN_PID");
    return pid && strtol(pid, NULL, 10) == (long)getpid();
}

/* The first directory of the path that other users may not search; "" = none. */
static void closed_directory(const char *path, char *out, size_t max)
{
    struct stat st;
    out[0] = '\0';
    for (const char *p = strchr(path + 1, '/'); path[0] == '/' && p; p = strchr(p + 1, '/')) {
        (void)snprintf(out, max, "%.*s", (int)(p - path), path);
        if (stat(out, &st) == 0 && !(st.st_mode & S_IXOTH))
            return;
        out[0] = '\0';
    }
}

static bool somebody_listens(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return fd >= 0 && (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 || errno == EAGAIN);
}

/* A service started by hand may listen where no program looks for it. */
static void warn_unreached(struct hw_cli *cli)
{
    const char *given = hw_opt_text(&cli->opts, HW_OPT_PRODUCER_SOCKET);
    const char *named = secure_getenv("PERFETTO_PRODUCER_SOCK_NAME");
    const char *path = given ? given : hw_default_producer_socket();
    char closed[128];
    if (is_started_by_manager())
        return; /* the systemd units say where */
    bool usual = strcmp(path, HW_SOCKET_OF_SERVICE) == 0 || strcmp(path, HW_SOCKET_OF_USER) == 0;
    if (given && !usual && !(named && strcmp(named, given) == 0))
        hw_log(WARN,
               "programs look for a recorder at " HW_SOCKET_OF_SERVICE " and " HW_SOCKET_OF_USER
               "; programs for this one must be started with PERFETTO_PRODUCER_SOCK_NAME=%s",
               given);
    if (strcmp(path, HW_SOCKET_OF_USER) == 0 && somebody_listens(HW_SOCKET_OF_SERVICE))
        hw_log(WARN, "programs ask the service at " HW_SOCKET_OF_SERVICE
                     " first, which is already running: none of them reaches this one");
    closed_directory(path, closed, sizeof closed);
    if (closed[0] && geteuid() == 0)
        hw_log(WARN,
               "other users' programs cannot reach '%s': directory '%s' is closed to them (chmod "
               "o+x, or another --producer-socket)",
               path, closed);
}

static int service(struct hw_cli *cli)
{
    warn_unreached(cli);
    return run_recorder(cli, -1);
}

/* A second service on the same sockets would take clients from the first. */
static bool already_running(struct hw_cli *cli)
{
    struct hw_controller *c;
    const char *path = hw_opt_text(&cli->opts, HW_OPT_CONSUMER_SOCKET);
    if (is_started_by_manager() || hw_controller_connect(path, &c, NULL) < 0)
        return false;
    hw_controller_free(c);
    hw_cli_error(cli, NULL, "a recording service is already running there%s%s", path ? ": " : "",
                 path ? path : "");
    return true;
}

int hw_cmd_heapprofd(struct hw_cli *cli)
{
    if (cli->opts.v[HW_OPT_EMBEDDED].set)
        return run_recorder(cli, (int)hw_opt_num(&cli->opts, HW_OPT_EMBEDDED));
    if (already_running(cli))
        return HW_EXIT_FAILED;
    return hw_opt_flag(&cli->opts, HW_OPT_SERVICE_BACKGROUND) ? in_background(cli, service)
                                                              : service(cli);
}

/* ---- traced ---- */

static int passed_on(const sigset_t *listened, pid_t child)
{
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(listened, &info);
        int status;
        if (number < 0 && errno != EINTR)
            return HW_EXIT_FAILED;
        if (number > 0 && number != SIGCHLD)
            (void)kill(child, number); /* gone: the next SIGCHLD says so */
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : HW_EXIT_SIGNAL + WTERMSIG(status);
    }
}

static int traced(struct hw_cli *cli)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD};
    sigset_t listened, old;
    sigemptyset(&listened);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&listened, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &listened, &old); /* valid arguments cannot fail */
    pid_t parent = getpid(), child = fork();
    if (child < 0) {
        hw_cli_error(cli, NULL, "fork: %s", strerror(errno));
        return HW_EXIT_FAILED;
    }
    if (child == 0) {
        (void)setpgid(0, 0); /* a terminal's Ctrl-C comes once, through the parent */
        (void)sigprocmask(SIG_SETMASK, &old, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            return HW_EXIT_FAILED; /* it died before that took effect */
        return service(cli);
    }
    return passed_on(&listened, child);
}

int hw_cmd_traced(struct hw_cli *cli)
{
    if (already_running(cli))
        return HW_EXIT_FAILED;
    return hw_opt_flag(&cli->opts, HW_OPT_SERVICE_BACKGROUND) ? in_background(cli, traced)
                                                              : traced(cli);
}
