/*
 * privilege.h - the capabilities that a recorder keeps, and why
 *
 * Why:     started as root it would have all of them, yet it parses the output of hostile programs.
 * Shapes:  of its capabilities it keeps those on the list; all others are dropped for good, also
 *          for anything it might execute (bounding set, no_new_privs). A user's own recorder has
 *          none, and keeps none. The unit src/daemon/systemd/heapprofd.service.in names the same
 *          list; a test compares them with what the kernel says (tests/e2e/serve/service.py).
 * Threads: before any thread is started.
 */
#ifndef HW_DAEMON_POLICY_PRIVILEGE_H
#define HW_DAEMON_POLICY_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>

struct hw_kept_capability {
    int number; /* linux/capability.h */
    const char *name, *why;
};
extern const struct hw_kept_capability hw_kept_capabilities[];
extern const size_t hw_n_kept_capabilities;

bool hw_privilege_has(int capability); /* effective */
void hw_privilege_keep_needed(void);
/* For workers: none at all. */
void hw_privilege_keep_none(void);

#endif
