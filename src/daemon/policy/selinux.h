/*
 * selinux.h - whether SELinux is enforcing, and switching it to permissive for a while
 *
 * Why:     when enforcing, it can keep a recorder away from processes that our policy permits. A
 *          machine where it may be switched to permissive is considered a test machine.
 * Shapes:  root: "/sys/fs/selinux", or a directory like it. Meanwhile a separate process waits for
 *          our end, even by SIGKILL, and switches it back.
 * Errors:  HW_ENOTFOUND (no SELinux here), HW_EPERM; the text explains.
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
