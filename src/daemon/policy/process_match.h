/*
 * process_match.h - is this the process that is meant?
 *
 * Why:     a configuration names a process by its first argument. Children of a fork server give
 *          themselves another name: they overwrite their arguments, or set the kernel's short name
 *          (PR_SET_NAME).
 * Shapes:  cmdline: n bytes of /proc/PID/cmdline; comm: `Name:` of its status; exe: base name of
 *          its program. The short name counts only where it is no program's or script's: exec sets
 *          it, too.
 */
#ifndef HW_DAEMON_POLICY_PROCESS_MATCH_H
#define HW_DAEMON_POLICY_PROCESS_MATCH_H

#include <stdbool.h>
#include <stddef.h>

bool hw_name_is_meant(const char *wanted, const char *cmdline, size_t n, const char *comm,
                      const char *exe);
/* Could the short name alone mean it? Cheap; without looking at anything else. */
bool hw_name_may_be_comm(const char *wanted, const char *comm);

#endif
