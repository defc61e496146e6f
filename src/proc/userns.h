/*
 * userns.h - whose a process's user namespace is
 *
 * Why:     who makes a user namespace may do everything in it (a container without root), also to
 *          processes whose users he is not.
 */
#ifndef HW_PROC_USERNS_H
#define HW_PROC_USERNS_H

#include <stdbool.h>
#include <stdint.h>

/* Did this user make the process's user namespace, or one above it that is below ours? */
bool hw_userns_is_of(int proc_dir, uint32_t uid);

#endif
