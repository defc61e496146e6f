#include "daemon/policy/privilege.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"

const struct hw_kept_capability hw_kept_capabilities[] = {
    {CAP_SYS_PTRACE, "sys_ptrace", "memory and mappings of other users' programs, attaching"},
    {CAP_DAC_OVERRIDE, "dac_override", "/proc/PID/mem belongs to the program's user, as its files"},
    {CAP_SYS_ADMIN, "sys_admin", "containers' namespaces, holding programs at their start"},
    {CAP_SETUID, "setuid", "a socket in a container in the name of the program's user"},
    {CAP_NET_ADMIN, "net_admin", "notice of programs that start"},
    {CAP_KILL, "kill", "ending our own workers, which run as nobody if we are root"},
};
const size_t hw_n_kept_capabilities = HW_ARRAY_LEN(hw_kept_capabilities);

bool hw_privilege_has(int capability)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2] = {0};
    return syscall(SYS_capget, &h, d) == 0 &&
           (d[capability / 32].effective >> (capability % 32) & 1);
}

static void keep(uint64_t mask)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2] = {0};
    if (syscall(SYS_capget, &h, d) < 0)
        return;
    for (int c = 0; c < 64; c++)
        if (!(mask >> c & 1))
            (void)prctl(PR_CAPBSET_DROP, c, 0, 0, 0); /* beyond the last, or without the right */
    for (int i = 0; i < 2; i++) {
        d[i].permitted &= (uint32_t)(mask >> 32 * i);
        d[i].effective = d[i].permitted;
        d[i].inheritable = 0;
    }
    (void)syscall(SYS_capset, &h, d); /* giving up is always allowed */
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* cannot fail with these arguments */
}

void hw_privilege_keep_needed(void)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < hw_n_kept_capabilities; i++)
        mask |= UINT64_C(1) << hw_kept_capabilities[i].number;
    keep(mask);
}

void hw_privilege_keep_none(void)
{
    keep(0);
}
