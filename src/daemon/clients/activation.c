#include "daemon/clients/activation.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text/text_parts.h"

#include "base/banned.h"

#define FIRST_FD 3
#define MAX_FDS  16

static bool is_listener(int fd)
{
    int type = 0, listens = 0, domain = 0;
    socklen_t a = sizeof type, b = sizeof listens, c = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &a) == 0 && type == SOCK_SEQPACKET &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &b) == 0 && listens &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &c) == 0 && domain == AF_UNIX;
}

static void take_path(int fd, char *path, size_t max)
{
    struct sockaddr_un a = {0};
    socklen_t n = sizeof a;
    path[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0 ||
        n <= offsetof(struct sockaddr_un, sun_path))
        return;
    int len = (int)(n - offsetof(struct sockaddr_un, sun_path));
    if (a.sun_path[0] == '\0')
        (void)snprintf(path, max, "@%.*s", len - 1, a.sun_path + 1);
    else
        (void)snprintf(path, max, "%.*s", len, a.sun_path);
}

/* Is "a:b:c"'s i-th name this one? */
static bool is_named(const char *names, int i, const char *role)
{
    for (; names && i > 0; i--) {
        names = strchr(names, ':');
        names += names != NULL;
    }
    return names && strcspn(names, ":") == strlen(role) && hw_starts_with(names, role);
}

int hw_activation_take(const char *role, char *path, size_t max)
{
    const char *pid = secure_getenv("LISTEN_PID"), *count = secure_getenv("LISTEN_FDS"),
               *names = secure_getenv("LISTEN_FDNAMES");
    if (!pid || !count || strtol(pid, NULL, 10) != (long)getpid())
        return -1;
    long n = strtol(count, NULL, 10);
    for (int i = 0; i < n && i < MAX_FDS; i++) {
        int fd = FIRST_FD + i, flags = fcntl(fd, F_GETFL);
        if (!is_named(names, i, role) || flags < 0 || !is_listener(fd))
            continue;
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
            continue;
        take_path(fd, path, max);
        return fd;
    }
    return -1;
}
