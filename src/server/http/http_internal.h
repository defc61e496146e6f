/* http_internal.h - shared by http.c, http_check.c, http_local.c, http_peer.c, http_share.c,
 * http_stream.c and http_socket.c */
#ifndef HW_SERVER_HTTP_HTTP_INTERNAL_H
#define HW_SERVER_HTTP_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "server/http/http.h"

/* The state of a connection. A handler cannot change the library's pointer, so it points here. */
struct hw_http_box {
    void *data;
    int fd;       /* borrowed; valid as long as the box */
    bool trusted; /* lock; one of its requests passed the checks, including the token if needed */
    bool shut;    /* lock */
    bool known;   /* lock; client is set */
    uint64_t client;
    struct hw_http_box *next; /* next and n: scratch of find_victim */
    unsigned n;
};

struct hw_http_at_work { /* the running handlers of one client */
    uint64_t client;
    unsigned n;
};

struct hw_http {
    struct hw_http_options o; /* borrowed texts */
    struct MHD_Daemon *daemon;
    uint16_t port;
    pthread_mutex_t lock;
    pthread_cond_t socket_ended;
    atomic_bool stopping;
    unsigned n_connections, limit;
    uint64_t last_end_ns;
    pthread_cond_t handler_ended, connection_ended; /* with lock */
    HW_VEC(struct hw_http_at_work) at_work;         /* lock */
    atomic_uint_fast64_t held_bytes;                /* of incomplete bodies and messages */
    HW_VEC(struct hw_http_box *) boxes;    /* of open connections, oldest first; borrowed */
    HW_VEC(struct hw_websocket *) sockets; /* open ones, borrowed from their threads */
};

struct hw_http_ending {
    void (*fn)(void *ctx);
    void *ctx;
};

struct hw_http_local; /* http_local.c */

struct hw_http_request {
    struct hw_http *server;
    struct MHD_Connection *connection;
    struct hw_http_local *local; /* instead of both, for requests without a network; NULL */
    const struct hw_http_route *route;
    const char *method, *path;
    struct hw_strbuf body, path_copy;
    uint64_t got;       /* bytes of the body so far */
    unsigned refused;   /* the status to send at the end of the body; 0 = none */
    char *refusal;      /* its text, owned; NULL = the default */
    uint64_t discarded; /* bytes of a refused body discarded so far */
    uint64_t held;      /* its part of the server's held_bytes */
    bool answered;
    struct hw_websocket *socket; /* owned until its upgrade begins; NULL */
    HW_VEC(char *) headers;      /* owned: name, value, name, value… */
    HW_VEC(struct hw_http_ending) endings;
    enum MHD_Result result;
};

const char *hw_http_local_query(const struct hw_http_local *l, const char *name);
void hw_http_local_reply(struct hw_http_request *req, unsigned status, const void *p, size_t n);
/* The first row that matches path and method; *other is set if only the path matches. */
const struct hw_http_route *hw_http_find_route(const struct hw_http_options *o, const char *method,
                                               const char *path, bool *other);
/* Runs the request's registered releases, last first, and frees it. */
void hw_http_request_done(struct hw_http_request *req);
/* 0, or the status to refuse with; *text says why. */
unsigned hw_http_check(const struct hw_http_request *req, const char **text);
/* Whether a connection comes from this machine, from a process of our user or root. */
bool hw_http_same_user(int fd);
/* hw_http_client for a connected socket. */
uint64_t hw_http_client_of(int fd);
/* The same, if it is cheap; false: it would have to search the list of all sockets. */
bool hw_http_client_at_once(int fd, uint64_t *out);
struct hw_http_box *hw_http_box_of(struct MHD_Connection *c);
/* Marks the connection as authenticated; false: its client has too many. */
bool hw_http_trust(struct hw_http_request *req);
/* Runs the handler once the client's limit allows. */
void hw_http_handle(struct hw_http_request *req);
/* Accounts for n bytes held for a client; false: the limit for all clients is reached. */
bool hw_http_hold(struct hw_http *h, uint64_t *held, uint64_t n);
void hw_http_release(struct hw_http *h, uint64_t *held);
/* Restarts the connection's idle timeout. */
void hw_http_restart_timeout(struct MHD_Connection *c, const struct hw_http *h);
unsigned hw_http_timeout_s(const struct hw_http *h);
/* The request's Origin if it may read the response, else NULL. */
const char *hw_http_allowed_origin(const struct hw_http_request *req);
/* Ends every open WebSocket and waits for their threads; streams see `stopping`. */
void hw_http_stop_sockets(struct hw_http *h);
void hw_http_socket_free(struct hw_websocket *ws); /* NULL is fine */
/* Adds the headers of every response and those of the request, and queues the response. */
void hw_http_queue(struct hw_http_request *req, unsigned status, const char *type,
                   struct MHD_Response *r);

#endif
