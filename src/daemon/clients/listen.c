/* The recorder's named sockets, and what to do when another recorder has the name. */
#include "daemon/clients/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/holder.h"

#include "base/banned.h"

#define AFTER_ANOTHER_MS 3000u

/* Peer credentials decide who may do what. Others may be able to write to the folder: what is
 * there now need not be what we created. */
static void open_to_all(const char *name)
{
    char path[64];
    struct stat st;
    hw_autofd int fd = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return;                                                /* for ourselves then */
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* fits */
    (void)chmod(path, 0666);
}

int hw_listen(const char *name, struct hw_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len == 0 || len >= sizeof a.sun_path)
        return hw_fail(err, HW_EINVAL, 0, "socket name '%s' is empty or too long", name);
    memcpy(a.sun_path, name, len);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
    bool abstract = name[0] == '@';
    if (abstract) {
        a.sun_path[0] = '\0';
        size--;
    }
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return hw_fail_sys(err, "socket");
    if (bind(fd, (struct sockaddr *)&a, size) < 0) {
        if (errno != EADDRINUSE || abstract)
            return hw_fail_sys(err, "cannot listen on '%s'", name);
        struct stat st;
        if (lstat(name, &st) == 0 && !S_ISSOCK(st.st_mode))
            return hw_fail(err, HW_EINVAL, 0, "'%s' exists and is not a socket", name);
        int32_t holder;
        if (hw_holder_listens(name, &holder))
            return hw_fail(err, HW_EBUSY, 0, "'%s' is in use by another recorder (process %d)",
                           name, holder);
        if (unlink(name) < 0 || bind(fd, (struct sockaddr *)&a, size) < 0)
            return hw_fail_sys(err, "cannot listen on '%s'", name);
    }
    if (!abstract)
        open_to_all(name);
    if (listen(fd, 1024) < 0)
        return hw_fail_sys(err, "cannot listen on '%s'", name);
    return hw_fd_take(&fd);
}

/* Is the listener there a recorder that is not about to end? */
static bool is_at_work(const char *name)
{
    int32_t pid;
    return hw_holder_listens(name, &pid) && hw_holder_has_command(pid);
}

/* A recorder whose command was killed needs a moment to close its files, and holds the name
 * until then; the command may be started again at once. */
int hw_listen_behind_another(const char *name, struct hw_error *err)
{
    int fd = hw_listen(name, err);
    for (unsigned tries = 0; fd == HW_EBUSY && tries < AFTER_ANOTHER_MS / 50; tries++) {
        if (is_at_work(name))
            return fd;
        (void)usleep(50 * 1000);
        fd = hw_listen(name, err);
    }
    return fd;
}
