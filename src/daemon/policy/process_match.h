/*
 * process_match.h - does a process match a configured name?
 *
 * Why:     a configuration names a process by argv[0]. Children of a fork server rename themselves:
 *          they overwrite their arguments, or set the kernel's short name (PR_SET_NAME).
 * Shapes:  cmdline: n bytes of /proc/PID/cmdline; comm: `Name:` of its status; exe: base name of
 *          its program. The short name counts only if it is not the program's or script's: exec
 *          sets it too.
 */
#ifndef HW_DAEMON_POLICY_PROCESS_MATCH_H
#define HW_DAEMON_POLICY_PROCESS_MATCH_H

#include <stdbool.h>
#include <stddef.h>

bool hw_name_is_meant(const char *wanted, const char *cmdline, size_t n, const char *comm,
                      const char *exe);
/* Could the short name alone match? Cheap; reads nothing else. */
bool hw_name_may_be_comm(const char *wanted, const char *comm);

#endif
