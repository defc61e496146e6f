/*
 * tcp.h - the TCP sockets of one process, and connections that surely end in it
 *
 * Why:     anybody may listen on a port where Node.js is expected. The kernel's table says which
 *          socket has which number, the process's descriptors say which are its own.
 * Shapes:  of the process's network namespace. Addresses are IPv6's; IPv4's are mapped into them.
 * Owns:    a table its rows; descriptors given are the caller's.
 * Errors:  HW_EPERM (the namespace may not be entered), HW_EGONE, HW_ETIMEOUT, HW_ELIMIT, HW_ESYS.
 * Source:  proc(5), /proc/net/tcp
 */
#ifndef HW_NODE_TCP_H
#define HW_NODE_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_error;
struct hw_pid;

struct hw_tcp_address {
    uint8_t bytes[16];
    uint16_t port;
};

struct hw_tcp_row {
    uint64_t inode; /* 0 = not accepted yet, or closed */
    struct hw_tcp_address here, there;
    bool listens;
};

typedef HW_VEC(struct hw_tcp_row) hw_tcp_rows;

/* Listening and connected ones, of all processes in its namespace. */
int hw_tcp_read(const struct hw_pid *pid, hw_tcp_rows *out, struct hw_error *err);
/* From text, for tests: adds the rows of one table. Lines that cannot be read are left out. */
int hw_tcp_parse(const char *text, hw_tcp_rows *out);
/* Has the process a descriptor of that socket? */
bool hw_tcp_is_of(const struct hw_pid *pid, uint64_t inode);
/* Would a listener there take connections to 127.0.0.1? */
bool hw_tcp_is_local(const struct hw_tcp_address *a);

/* Connects to a listener; returns when the process has accepted, and only then. No byte was sent. */
int hw_tcp_connect(const struct hw_pid *pid, const struct hw_tcp_row *listener, int *out,
                   struct hw_error *err);

#endif
