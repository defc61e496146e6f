/*
 * share.h - users whose programs have all the connections that one user gets
 *
 * Why:     who is refused for that is not profiled, and nobody would know why.
 * Shapes:  counted by user; told in the log once a user, and once a session that is his or root's.
 *          There is room for some users only: a stranger with many must not fill the log.
 */
#ifndef HW_DAEMON_POLICY_SHARE_H
#define HW_DAEMON_POLICY_SHARE_H

#include <stdint.h>

struct hw_recorder;

void hw_share_refused(struct hw_recorder *r, uint32_t uid);
/* How often a connection was refused: of this user, of all for root. */
uint64_t hw_share_count(const struct hw_recorder *r, uint32_t uid);

#endif
