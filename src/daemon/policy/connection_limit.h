/*
 * connection_limit.h - users whose programs have used up the user's limit of connections
 *
 * Why:     a process refused for that is not profiled, and nobody would know why.
 * Shapes:  counted by user; logged once per user, and once per session that is the user's or
 *          root's. Only a few users fit: somebody with many accounts must not fill the log.
 */
#ifndef HW_DAEMON_POLICY_CONNECTION_LIMIT_H
#define HW_DAEMON_POLICY_CONNECTION_LIMIT_H

#include <stdint.h>

struct hw_recorder;

void hw_connection_limit_refused(struct hw_recorder *r, uint32_t uid);
/* How often a connection was refused: of this user, of all for root. */
uint64_t hw_connection_limit_count(const struct hw_recorder *r, uint32_t uid);

#endif
