/*
 * as_user.h - work on files as another user, for a moment
 *
 * Why:     a privileged recorder that creates, connects or removes files where a target can swap
 *          folders does no more there than that target's user could do: the kernel checks that
 *          user's rights, not ours, whatever the name has come to mean.
 * Shapes:  of this thread alone, and of files alone: the effective user stays. Nothing that waits
 *          belongs in between.
 * Errors:  begin: -1 with errno EPERM: we may not be that user; nothing has changed.
 * Source:  setfsuid(2), capabilities(7)
 */
#ifndef HW_PROC_RIGHTS_AS_USER_H
#define HW_PROC_RIGHTS_AS_USER_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

struct hw_as_user {
    bool has_changed;
    struct __user_cap_data_struct before[_LINUX_CAPABILITY_U32S_3];
};

int hw_as_user_begin(struct hw_as_user *a, uint32_t uid, uint32_t gid);
void hw_as_user_end(const struct hw_as_user *a); /* keeps errno */

#endif
