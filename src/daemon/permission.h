/*
 * permission.h - who may profile whom
 *
 * Why:     one question, one place. A profile shows addresses, sizes and names of another process.
 * Errors:  HW_EPERM with the reason in err.
 */
#ifndef HW_DAEMON_PERMISSION_H
#define HW_DAEMON_PERMISSION_H

#include <stdint.h>

struct hw_error;

/* who: uid of the one who asks (from the socket). target_uid: the real uid of pid. */
int hw_permission_profile(uint32_t who, int32_t pid, uint32_t target_uid, uint32_t target_euid,
                          struct hw_error *err);
/* May `who` see or stop a session of `owner`? */
int hw_permission_session(uint32_t who, uint32_t owner);

#endif
