#include "cli/parts/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "cli/cli.h"
#include "record/launch.h"

#include "base/banned.h"

static const char *pager_command(void)
{
    const char *own = getenv("HEAPWISE_PAGER"), *common = getenv("PAGER");
    if (own || common)
        return own ? own : common;
    hw_autofree char *less = hw_launch_find_program("less");
    return less ? "less" : "";
}

static bool wanted(const struct hw_cli *cli, const char *command)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && !hw_opt_flag(&cli->opts, HW_OPT_NO_PAGER) &&
           !hw_opt_flag(&cli->opts, HW_OPT_JSON) && !(term && strcmp(term, "dumb") == 0) &&
           command[0] && strcmp(command, "cat") != 0;
}

static void run_pager(int in, const char *command)
{
    if (dup2(in, STDIN_FILENO) < 0)
        _exit(HW_EXIT_FAILED);
    (void)setenv("LESS", "FRX", /* overwrite = */ 0);
    (void)setenv("LESSCHARSET", "utf-8", 0);
    (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(HW_EXIT_NOT_FOUND);
}

void hw_pager_begin(struct hw_cli *cli)
{
    const char *command = pager_command();
    int p[2];
    if (!wanted(cli, command) || pipe2(p, O_CLOEXEC) < 0)
        return;
    (void)fflush(stdout); /* earlier messages do not go through it */
    pid_t pid = fork();
    if (pid == 0)
        run_pager(p[0], command);
    (void)close(p[0]);
    if (pid > 0 && dup2(p[1], STDOUT_FILENO) >= 0)
        cli->pager_pid = pid;
    (void)close(p[1]);
    /* Ctrl-C belongs to the pager; if it quits early, SIGPIPE ends us. */
    if (cli->pager_pid > 0)
        (void)signal(SIGINT, SIG_IGN);
}

void hw_pager_end(struct hw_cli *cli)
{
    int status;
    if (cli->pager_pid <= 0)
        return;
    (void)fflush(stdout); /* main has checked for errors */
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0)
        (void)dup2(null, STDOUT_FILENO); /* the pipe's last writer: the pager sees end of file */
    if (null >= 0)
        (void)close(null);
    while (waitpid(cli->pager_pid, &status, 0) < 0 && errno == EINTR)
        continue;
}
