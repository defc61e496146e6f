#include "proc/userns.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"

#include "base/banned.h"

#define MAX_LEVELS 33 /* of the kernel */

bool hw_userns_is_of(int proc_dir, uint32_t uid)
{
    struct stat ours, its;
    uid_t owner;
    hw_autofd int ns = openat(proc_dir, "ns/user", O_RDONLY | O_CLOEXEC);
    if (stat("/proc/self/ns/user", &ours) < 0)
        return false;
    for (int i = 0; i < MAX_LEVELS && ns >= 0; i++) {
        if (fstat(ns, &its) < 0 || its.st_ino == ours.st_ino)
            return false;
        if (ioctl(ns, NS_GET_OWNER_UID, &owner) == 0 && owner == uid)
            return true;
        int parent = ioctl(ns, NS_GET_PARENT);
        (void)close(ns);
        ns = parent;
    }
    return false;
}
