/* http_internal.h - what http.c, http_check.c, http_peer.c, http_stream.c and http_socket.c share
 */
#ifndef HW_SERVER_HTTP_INTERNAL_H
#define HW_SERVER_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/strbuf.h"
#include "base/vec.h"
#include "server/http.h"

struct hw_http_box; /* what is kept of a connection */

struct hw_http {
    struct hw_http_options o; /* borrowed texts */
    struct MHD_Daemon *daemon;
    uint16_t port;
    pthread_mutex_t lock;
    pthread_cond_t socket_ended;
    atomic_bool stopping;
    unsigned n_connections, limit;
    uint64_t last_end_ns;
    HW_VEC(struct hw_http_box *) boxes;    /* of open connections, oldest first; borrowed */
    HW_VEC(struct hw_websocket *) sockets; /* open ones, borrowed from their threads */
};

struct hw_http_ending {
    void (*fn)(void *ctx);
    void *ctx;
};

struct hw_http_request {
    struct hw_http *server;
    struct MHD_Connection *connection;
    const struct hw_http_route *route;
    const char *method, *path;
    struct hw_strbuf body, path_copy;
    uint64_t got;     /* bytes of the body so far */
    unsigned refused; /* a status to answer when the body is over; 0 = none */
    bool answered;
    struct hw_websocket *socket; /* owned until its upgrade begins; NULL */
    HW_VEC(char *) headers;      /* owned: name, value, name, value… */
    HW_VEC(struct hw_http_ending) endings;
    enum MHD_Result result;
};

/* 0, or the status with which to refuse; *text says why. */
unsigned hw_http_check(const struct hw_http_request *req, const char **text);
/* Whether a connection comes from this machine, from a process of our user or root. O(sockets). */
bool hw_http_same_user(int fd);
/* The Origin of the request when it may read the answer; NULL. */
const char *hw_http_allowed_origin(const struct hw_http_request *req);
/* Ends every open WebSocket and waits for their threads; streams see `stopping`. */
void hw_http_stop_sockets(struct hw_http *h);
void hw_http_socket_free(struct hw_websocket *ws); /* NULL is fine */
/* Puts the headers that every answer gets, and those of the request, and queues it. */
void hw_http_queue(struct hw_http_request *req, unsigned status, const char *type,
                   struct MHD_Response *r);

#endif
