/*
 * policy.h - the administrator's policy for this machine
 *
 * Why:     who may be profiled depends on what the machine is for, and on programs that only its
 *          administrator knows.
 * Shapes:  /etc/heapwise/policy.conf, "key = value ..." by lines, '#' begins a comment:
 *
 *              machine = developer      open, developer or production
 *              never = vault ssh-agent  not even on an open machine
 *              critical = my-init       more of them; init's family is built in
 *              profileable = server-*   marked by who runs it: also in production
 *              debuggable = test-*
 *              continuous = server-*    what `heapwise serve --continuous` records; also
 *                                       cgroup:PATH and role:NAME (config/memlog_modes.h)
 *              users = alice 1001       only these and root may record with the service
 *              group = heapwise         ... and members of this group
 *              root = own               root may profile root's processes only (or: all)
 *
 *          Names are compared with the executable's and the kernel's short name; '*' is any text.
 *          Without a file the policy is that of a developer machine.
 * Errors:  HW_EINVAL with file and line: an unreadable policy permits nothing. HW_EPERM when others
 *          than root and the recorder's user could have written it.
 */
#ifndef HW_DAEMON_POLICY_POLICY_H
#define HW_DAEMON_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/policy/selinux.h"

struct hw_error;

#define HW_POLICY_FILE "/etc/heapwise/policy.conf"

enum hw_machine { HW_MACHINE_OPEN, HW_MACHINE_DEVELOPER, HW_MACHINE_PRODUCTION, HW_MACHINE_COUNT };

typedef HW_VEC(char *) hw_policy_names;

struct hw_policy {
    enum hw_machine machine;
    hw_policy_names never, critical, profileable, debuggable, continuous;
    HW_VEC(uint32_t) users;
    uint32_t group;
    bool has_users, has_group;
    bool root_own; /* root = own */
    enum hw_selinux selinux;
};

/* path NULL = the usual file, which may be missing. */
int hw_policy_read(const char *path, struct hw_policy *out, struct hw_error *err);
void hw_policy_done(struct hw_policy *p);
bool hw_policy_names_has(const hw_policy_names *names, const char *exe, const char *comm);
/* What the machine counts as: SELinux switched to permissive opens a developer machine. */
enum hw_machine hw_policy_machine(const struct hw_policy *p);
const char *hw_machine_name(enum hw_machine m);

#endif
