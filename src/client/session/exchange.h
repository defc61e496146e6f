/*
 * exchange.h - the one exchange with a recorder
 */
#ifndef HW_CLIENT_SESSION_EXCHANGE_H
#define HW_CLIENT_SESSION_EXCHANGE_H

#include "client/client.h"
#include "wire/handshake.h"

struct hw_exchange {
    uint64_t deadline_ns;
    int fd;
    int fds[HW_WELCOME_FDS];
    int n_fds;
    uint64_t tables_bytes; /* of the tables file that we may map */
    uint64_t asked_ns, answered_ns;
    bool alone;     /* no other thread can be reading the environment */
    bool silent;    /* no answer so far */
    bool late;      /* the answer arrived later, at an unknown time */
    bool root_only; /* the peer must be root; else it may also be the process's user */
    struct hw_welcome welcome;
};

bool hw_exchange_receive_welcome(struct hw_exchange *x);
bool hw_exchange_reconnect(struct hw_exchange *x, const char *path);
bool hw_exchange_connect(struct hw_exchange *x, const char *path);
extern HW_HIDDEN uint64_t
    hw_forked_token; /* start/fork.c: of the last fork; a child finds its own */
bool hw_exchange_send_hello(struct hw_exchange *x, uint32_t flags);

#endif
