/*
 * hidepid.h - does this machine hide processes from other users?
 *
 * Why:     with hidepid= a mounted /proc shows a user only the processes that they may trace. A
 *          recorder sees all of them, and must not reveal the others.
 * Shapes:  counts where this process or process 1 has such a /proc. Exceptions that the mount makes
 *          for a group (gid=) are not made here.
 * Source:  proc(5), proc_pid_mountinfo(5)
 */
#ifndef HW_PROC_RIGHTS_HIDEPID_H
#define HW_PROC_RIGHTS_HIDEPID_H

#include <stdbool.h>

bool hw_hidepid_is_set(void);
/* From the text of a mountinfo file, for tests: any bytes. */
bool hw_hidepid_parse(const char *mountinfo);

#endif
