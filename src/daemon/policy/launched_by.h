/*
 * launched_by.h - which descendants of a started command are targets
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_POLICY_LAUNCHED_BY_H
#define HW_DAEMON_POLICY_LAUNCHED_BY_H

#include <stdbool.h>
#include <stdint.h>

struct hw_pid;
struct hw_error;
struct hw_session;

/* Is the executable one that only starts others (sh, env, nice …)? */
bool hw_launch_is_launcher(const char *exe);
/* Does pid belong to the tree of a launched session? */
bool hw_launch_matches(const struct hw_session *s, const struct hw_pid *pid);
/* Is it the command's own child, which has not become the program yet? */
int hw_launch_check(const struct hw_pid *command, const struct hw_pid *root, struct hw_error *err);

#endif
