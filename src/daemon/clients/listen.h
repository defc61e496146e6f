/*
 * listen.h - listening sockets with a name
 *
 * Shapes:  SOCK_SEQPACKET, non-blocking, at a path or '@name'. A path without a listener is reused.
 *          Everybody may connect: peer credentials decide what they may do.
 * Errors:  HW_EBUSY: another recorder has the name; HW_EINVAL; HW_ESYS.
 */
#ifndef HW_DAEMON_CLIENTS_LISTEN_H
#define HW_DAEMON_CLIENTS_LISTEN_H

struct hw_error;

/* The descriptor, or an error. */
int hw_listen(const char *name, struct hw_error *err);
/* Waits for another recorder that is about to end, at most three seconds. */
int hw_listen_behind_another(const char *name, struct hw_error *err);

#endif
