/*
 * pipe_server.h - the byte pipe of rpc.h over descriptors: standard streams, a socket in a
 * directory
 *
 * Errors:  HW_ESYS, HW_EBUSY (a server already listens there), HW_EINVAL (the path is too long).
 * Threads: hw_pipe_serve runs in its caller's; the socket's connections have one each.
 */
#ifndef HW_SERVER_RPC_PIPE_SERVER_H
#define HW_SERVER_RPC_PIPE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_rpc_server;

/* Until in ends or the pipe breaks. */
int hw_pipe_serve(struct hw_rpc_server *s, int in, int out, struct hw_error *err);

/* A listening socket (0600) at path; a dead server's socket is replaced. */
int hw_pipe_listen(const char *path, struct hw_error *err);

struct hw_pipe_clients {
    struct hw_rpc_server *server;
    uint32_t idle_timeout_s; /* exits after this long without connections; 0 = never */
    bool idle_start;         /* the time also runs before the first client */
    int stop_fd;             /* readable: end. -1 = none */
};
/* Serves all clients that connect to fd, until told to stop. */
int hw_pipe_serve_clients(int fd, const struct hw_pipe_clients *c, struct hw_error *err);

#endif
