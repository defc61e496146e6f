/*
 * Identifies the peer of a connection. Over loopback the kernel also knows the owner of the peer's
 * socket: used by routes that admit our own user without a token, and to distinguish clients.
 *
 * A netlink query looks up the socket by its two endpoints (32 us from a Python script that opened
 * a netlink socket per query). If that is unavailable (an old kernel, a sandbox), the list of all
 * sockets is read, which grows with other processes' sockets.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "server/http/http_internal.h"

#include "base/banned.h"

enum { MAX_LIST = 64 << 20, ENDPOINT = 48 };
enum owner { OWNER_KNOWN, OWNER_NONE, OWNER_NOT_TOLD };
/* TCP_ESTABLISHED. In later states the process may be gone; then root seems to own the socket. */
static const unsigned established = 1;

static bool ends_of(int fd, struct sockaddr_storage *peer, struct sockaddr_storage *self)
{
    socklen_t n = sizeof *peer, m = sizeof *self;
    return getpeername(fd, (struct sockaddr *)peer, &n) == 0 &&
           getsockname(fd, (struct sockaddr *)self, &m) == 0;
}

/* A mapped address is the IPv4 one in it. */
static bool is_loopback(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    if (a->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127));
}

/* ---- looking up one socket ---- */

struct request {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

struct reply {
    struct nlmsghdr head;
    union {
        struct inet_diag_msg found;
        struct nlmsgerr error;
    };
};

/* A mapped address becomes the IPv4 one. False: not on this machine. */
static bool put_end(const struct sockaddr_storage *a, uint8_t *family, __be32 address[4],
                    __be16 *port)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    bool mapped = a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
    *family = mapped ? AF_INET : (uint8_t)a->ss_family;
    *port = a->ss_family == AF_INET ? v4->sin_port : v6->sin6_port;
    if (*family == AF_INET)
        memcpy(address, mapped ? &v6->sin6_addr.s6_addr[12] : (const void *)&v4->sin_addr, 4);
    else
        memcpy(address, &v6->sin6_addr, sizeof v6->sin6_addr);
    return is_loopback(a);
}

static enum owner read_reply(const struct reply *r, ssize_t n, unsigned long *uid)
{
    size_t head = sizeof r->head;
    if (n >= (ssize_t)(head + sizeof r->error) && r->head.nlmsg_type == NLMSG_ERROR)
        return r->error.error == -ENOENT ? OWNER_NONE : OWNER_NOT_TOLD;
    if (n < (ssize_t)(head + sizeof r->found) || r->head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return OWNER_NOT_TOLD;
    *uid = r->found.idiag_uid;
    return r->found.idiag_state == established ? OWNER_KNOWN : OWNER_NONE;
}

static enum owner query_owner(int fd, unsigned long *uid)
{
    struct sockaddr_storage peer, self;
    struct request q = {.head = {.nlmsg_len = sizeof q,
                                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                 .nlmsg_flags = NLM_F_REQUEST},
                        .body = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = UINT32_MAX}};
    struct inet_diag_sockid *id = &q.body.id;
    uint8_t family;
    struct reply r;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (!ends_of(fd, &peer, &self) ||
        !put_end(&peer, &q.body.sdiag_family, id->idiag_src, &id->idiag_sport) ||
        !put_end(&self, &family, id->idiag_dst, &id->idiag_dport) || family != q.body.sdiag_family)
        return OWNER_NONE;
    hw_autofd int kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (kernel < 0 || send(kernel, &q, sizeof q, 0) != (ssize_t)sizeof q)
        return OWNER_NOT_TOLD;
    /* Does not block: the reply is already queued. */
    return read_reply(&r, recv(kernel, &r, sizeof r, MSG_DONTWAIT), uid);
}

/* ---- reading the list ---- */

/* In the list's format: the address as native-endian words, the port in hex. */
static bool endpoint(const struct sockaddr_storage *a, char out[ENDPOINT])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    uint32_t w[4];
    if (a->ss_family == AF_INET) {
        (void)snprintf(out, ENDPOINT, "%08" PRIX32 ":%04X", (uint32_t)v4->sin_addr.s_addr,
                       ntohs(v4->sin_port));
        return is_loopback(a);
    }
    if (a->ss_family != AF_INET6)
        return false;
    memcpy(w, &v6->sin6_addr, sizeof w);
    (void)snprintf(out, ENDPOINT, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X", w[0],
                   w[1], w[2], w[3], ntohs(v6->sin6_port));
    return is_loopback(a);
}

/*
 * The owner of the socket bound to `theirs`; false: not listed. Both addresses are adjacent in a
 * line, so a list of thousands is searched, not parsed.
 */
static bool find_owner(const char *text, const char *theirs, const char *ours, unsigned long *uid)
{
    char ends[2 * ENDPOINT + 2];
    unsigned state;
    (void)snprintf(ends, sizeof ends, " %s %s ", theirs, ours);
    for (const char *at = strstr(text, ends); at; at = strstr(at + 1, ends))
        if (sscanf(at, " %*s %*s %x %*s %*s %*s %lu", &state, uid) == 2 && state == established)
            return true;
    return false;
}

/* The owner of the process at the other end, which is on this machine. */
static bool list_owner(int fd, unsigned long *uid)
{
    struct sockaddr_storage peer, self;
    char theirs[ENDPOINT], ours[ENDPOINT], *text = NULL;
    size_t length;
    if (!ends_of(fd, &peer, &self) || !endpoint(&peer, theirs) || !endpoint(&self, ours))
        return false;
    const char *list = peer.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6";
    if (hw_file_read(AT_FDCWD, list, MAX_LIST, &text, &length, NULL) < 0)
        return false;
    bool found = find_owner(text, theirs, ours, uid);
    if (!found && peer.ss_family == AF_INET6) { /* a mapped address: the peer's end is IPv4 */
        const struct sockaddr_in6 *p6 = (const struct sockaddr_in6 *)&peer;
        free(text);
        text = NULL;
        if (IN6_IS_ADDR_V4MAPPED(&p6->sin6_addr) &&
            hw_file_read(AT_FDCWD, "/proc/net/tcp", MAX_LIST, &text, &length, NULL) == 0)
            found = find_owner(text, strchr(theirs, ':') - 8, strchr(ours, ':') - 8, uid);
    }
    free(text);
    return found;
}

/* ---- identity of the client ---- */

static bool owner_of_peer(int fd, unsigned long *uid)
{
    enum owner o = query_owner(fd, uid);
    return o == OWNER_NOT_TOLD ? list_owner(fd, uid) : o == OWNER_KNOWN;
}

bool hw_http_same_user(int fd)
{
    unsigned long uid;
    return owner_of_peer(fd, &uid) && (uid == 0 || uid == geteuid());
}

/* An IPv6 client owns a whole /64, a local one all of 127.0.0.0/8. */
static uint64_t address_of_peer(int fd)
{
    struct sockaddr_storage peer = {0};
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&peer;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&peer;
    socklen_t n = sizeof peer;
    uint64_t client = 0;
    if (getpeername(fd, (struct sockaddr *)&peer, &n) < 0)
        return 0;
    if (peer.ss_family == AF_INET)
        client = ntohl(v4->sin_addr.s_addr);
    else if (peer.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        memcpy(&client, &v6->sin6_addr.s6_addr[12], 4);
    else if (peer.ss_family == AF_INET6)
        memcpy(&client, v6->sin6_addr.s6_addr, sizeof client);
    return is_loopback(&peer) ? INADDR_LOOPBACK : client;
}

/*
 * A local client is a user, who has any number of addresses. Connections without a known owner
 * share one client, which is never user 0's.
 */
static uint64_t client_of(int fd, bool known, unsigned long uid)
{
    return known ? ((uint64_t)uid + 1) << 32 : address_of_peer(fd);
}

bool hw_http_client_at_once(int fd, uint64_t *out)
{
    unsigned long uid = 0;
    enum owner o = query_owner(fd, &uid);
    if (o == OWNER_NOT_TOLD)
        return false;
    *out = client_of(fd, o == OWNER_KNOWN, uid);
    return true;
}

uint64_t hw_http_client_of(int fd)
{
    unsigned long uid = 0;
    bool known = owner_of_peer(fd, &uid);
    return client_of(fd, known, uid);
}
