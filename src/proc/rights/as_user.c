/*
 * as_user.c - the file user, and without the capabilities that stand above file rights
 *
 * The kernel takes those away itself when root becomes another file user, but not from a service
 * that has them as another user (CAP_DAC_OVERRIDE of the service's unit).
 */
#include "proc/rights/as_user.h"

#include <errno.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

#define BIT(capability) (1u << (capability))

/* What capabilities(7) lists for files; all in the first word. */
static const uint32_t over_files = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) |
                                   BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) |
                                   BIT(CAP_LINUX_IMMUTABLE) | BIT(CAP_MKNOD);

static struct __user_cap_header_struct of_this_thread(void)
{
    return (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
}

int hw_as_user_begin(struct hw_as_user *a, uint32_t uid, uint32_t gid)
{
    struct __user_cap_header_struct h = of_this_thread();
    *a = (struct hw_as_user){0};
    if (uid == geteuid())
        return 0;
    if (syscall(SYS_capget, &h, a->before) < 0)
        return -1;
    a->has_changed = true;
    (void)setfsgid(gid); /* without the right to: the owner's rights must do */
    (void)setfsuid(uid);
    struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3] = {a->before[0], a->before[1]};
    now[0].effective &= ~over_files;
    h = of_this_thread();
    if ((uint32_t)setfsuid(UINT32_MAX) == uid && syscall(SYS_capset, &h, now) == 0)
        return 0;
    hw_as_user_end(a);
    errno = EPERM;
    return -1;
}

void hw_as_user_end(const struct hw_as_user *a)
{
    struct __user_cap_header_struct h = of_this_thread();
    int e = errno;
    if (a->has_changed) {
        (void)setfsuid(geteuid()); /* one's own is always allowed */
        (void)setfsgid(getegid());
        (void)syscall(SYS_capset, &h, a->before); /* permitted ones are the same */
    }
    errno = e;
}
