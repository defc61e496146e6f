/*
 * Who is at the other end of a connection over loopback: the kernel's list of sockets names the
 * owner of each. Only read for routes that let the own user in without a token.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "server/http_internal.h"

#include "base/banned.h"

enum { MAX_LIST = 64 << 20, ENDPOINT = 48 };
static const unsigned established = 1;

/* As the list writes it: address in words of the machine's order, port in hex. */
static bool endpoint(const struct sockaddr_storage *a, char out[ENDPOINT])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    uint32_t w[4];
    if (a->ss_family == AF_INET) {
        (void)snprintf(out, ENDPOINT, "%08" PRIX32 ":%04X", (uint32_t)v4->sin_addr.s_addr,
                       ntohs(v4->sin_port));
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    if (a->ss_family != AF_INET6)
        return false;
    memcpy(w, &v6->sin6_addr, sizeof w);
    (void)snprintf(out, ENDPOINT, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X", w[0],
                   w[1], w[2], w[3], ntohs(v6->sin6_port));
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

/* The owner of the socket whose own end is `theirs`; false: it is not listed. */
static bool find_owner(const char *text, const char *theirs, const char *ours, unsigned long *uid)
{
    for (const char *line = strchr(text, '\n'); line && *++line; line = strchr(line, '\n')) {
        char local[ENDPOINT], remote[ENDPOINT];
        unsigned state;
        if (sscanf(line, " %*d: %47s %47s %x %*s %*s %*s %lu", local, remote, &state, uid) == 4 &&
            state == established && strcmp(local, theirs) == 0 && strcmp(remote, ours) == 0)
            return true;
    }
    return false;
}

bool hw_http_same_user(int fd)
{
    struct sockaddr_storage peer, self;
    socklen_t n = sizeof peer, m = sizeof self;
    char theirs[ENDPOINT], ours[ENDPOINT], *text = NULL;
    unsigned long uid = 0;
    size_t length;
    if (getpeername(fd, (struct sockaddr *)&peer, &n) < 0 ||
        getsockname(fd, (struct sockaddr *)&self, &m) < 0 || !endpoint(&peer, theirs) ||
        !endpoint(&self, ours))
        return false;
    const char *list = peer.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6";
    if (hw_file_read(AT_FDCWD, list, MAX_LIST, &text, &length, NULL) < 0)
        return false;
    bool found = find_owner(text, theirs, ours, &uid);
    if (!found && peer.ss_family == AF_INET6) { /* a mapped address: their end is plain */
        const struct sockaddr_in6 *p6 = (const struct sockaddr_in6 *)&peer;
        free(text);
        text = NULL;
        if (IN6_IS_ADDR_V4MAPPED(&p6->sin6_addr) &&
            hw_file_read(AT_FDCWD, "/proc/net/tcp", MAX_LIST, &text, &length, NULL) == 0)
            found = find_owner(text, strchr(theirs, ':') - 8, strchr(ours, ':') - 8, &uid);
    }
    free(text);
    return found && (uid == 0 || uid == geteuid());
}
