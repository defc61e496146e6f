/*
 * selinux.h - whether SELinux enforces its rules, and switching that off for a while
 *
 * Why:     enforcing, it can keep a recorder from processes that the policy permits. A machine
 *          where it is switched to permissive counts as one for tests.
 * Shapes:  root: "/sys/fs/selinux", or a directory like it. While it is off a process of its own
 *          waits for our end, also by a signal that nobody can catch, and switches it on again.
 * Errors:  HW_ENOTFOUND (no SELinux here), HW_EPERM; the text says what that means.
 */
#ifndef HW_DAEMON_POLICY_SELINUX_H
#define HW_DAEMON_POLICY_SELINUX_H

struct hw_error;

#define HW_SELINUX_ROOT "/sys/fs/selinux"

enum hw_selinux { HW_SELINUX_NONE, HW_SELINUX_PERMISSIVE, HW_SELINUX_ENFORCING };

enum hw_selinux hw_selinux_state(const char *root);
/* Gives a descriptor: closing it switches SELinux on again; -1 when it was off already. */
int hw_selinux_disable(const char *root, int *guard, struct hw_error *err);
/* Waits until it is on again. */
void hw_selinux_restore(const char *root, int guard);

#endif
