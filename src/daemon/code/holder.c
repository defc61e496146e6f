#include "daemon/code/holder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "daemon/code/blocking_reader.h"
#include "proc/pid.h"
#include "proc/rights/access.h"

#include "base/banned.h"

#define MAX_COMMAND 100u

bool hw_holder_listens(const char *socket_name, int32_t *pid)
{
    struct ucred who;
    socklen_t n_who = sizeof who;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strnlen(socket_name, sizeof to.sun_path - 1);
    memcpy(to.sun_path, socket_name, n);
    socklen_t size =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (n && socket_name[0] != '@'));
    if (socket_name[0] == '@')
        to.sun_path[0] = '\0';
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *pid = 0;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, size) < 0)
        return errno == EAGAIN;
    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n_who) == 0)
        *pid = who.pid;
    return true;
}

/* The command that an embedded recorder works for is its parent, with the same program; once
 * that has ended it has another parent. */
static bool command_of(const struct hw_pid *p, struct hw_pid *out)
{
    struct stat its, parents;
    struct hw_proc_stat st;
    if (hw_proc_stat(p->dir, &st) < 0 || st.ppid <= 1 || hw_pid_open(st.ppid, out, NULL) < 0)
        return false;
    if (out->start_ticks <= p->start_ticks && fstatat(p->dir, "exe", &its, 0) == 0 &&
        fstatat(out->dir, "exe", &parents, 0) == 0 && its.st_dev == parents.st_dev &&
        its.st_ino == parents.st_ino)
        return true;
    hw_pid_done(out);
    return false;
}

bool hw_holder_has_command(int32_t pid)
{
    struct hw_pid p, command;
    if (pid <= 0 || hw_pid_open(pid, &p, NULL) < 0)
        return false;
    bool has = command_of(&p, &command);
    if (has)
        hw_pid_done(&command);
    hw_pid_done(&p);
    return has;
}

/* The words of its command line, as a user would type them. */
static char *words_of(struct hw_blocking_reader *l, const struct hw_requester *who,
                      const struct hw_pid *p)
{
    struct hw_proc_status st;
    struct hw_strbuf b = {0};
    char *line = NULL;
    size_t n = 0;
    if (hw_proc_status(p->dir, &st) < 0 || (who->uid != 0 && who->uid != st.uid) ||
        hw_reading_cmdline(l, hw_reading_at(p, st.uid), &line, &n) != HW_OK)
        return NULL;
    while (n && line[n - 1] == '\0')
        n--;
    const char *slash = memrchr(line, '/', strnlen(line, n)), *from = slash ? slash + 1 : line;
    n -= (size_t)(from - line);
    for (size_t i = 0; i < n; i++)
        if (from[i] == '\0')
            line[from - line + (ptrdiff_t)i] = ' ';
    hw_strbuf_add_escaped(&b, from, n < MAX_COMMAND ? n : MAX_COMMAND);
    if (n > MAX_COMMAND)
        hw_strbuf_adds(&b, " ...");
    free(line);
    return hw_strbuf_take(&b);
}

void hw_holder_describe(struct hw_blocking_reader *l, const struct hw_requester *who, int32_t pid,
                        char *out, size_t max)
{
    struct hw_pid p, command;
    out[0] = '\0';
    if (pid <= 0 || hw_pid_open(pid, &p, NULL) < 0)
        return;
    if (command_of(&p, &command)) {
        hw_pid_done(&p);
        p = command;
    }
    hw_autofree char *words = words_of(l, who, &p);
    if (words && words[0])
        (void)snprintf(out, max, "process %d, '%s'", p.pid, words); /* cut, it is still a name */
    else
        (void)snprintf(out, max, "process %d", p.pid);
    hw_pid_done(&p);
}
