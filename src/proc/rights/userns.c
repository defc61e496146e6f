#include "proc/rights/userns.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"

#include "base/banned.h"

#define MAX_LEVELS 33 /* of the kernel */
#define MAX_MAP    8192u

/* "user:[4026531837]": the same right is asked for as to look at the namespace itself, and none is
 * looked up. */
uint64_t hw_ns_inode(int proc_dir, const char *link)
{
    char text[64];
    ssize_t n = readlinkat(proc_dir, link, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *number = strchr(text, '[');
    return number ? strtoull(number + 1, NULL, 10) : 0;
}

uint64_t hw_userns_inode(int proc_dir)
{
    return hw_ns_inode(proc_dir, "ns/user");
}

/* Up from the process's namespace: what the query says about each, and its parent. */
enum answer { NO, YES, FURTHER };
typedef enum answer question(int ns, int parent, const void *arg);

static bool walk(int proc_dir, question *ask, const void *arg)
{
    hw_autofd int ns = openat(proc_dir, "ns/user", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < MAX_LEVELS && ns >= 0; i++) {
        int parent = ioctl(ns, NS_GET_PARENT); /* -1: outside of ours, or the first */
        enum answer a = ask(ns, parent, arg);
        (void)close(ns); /* a namespace */
        ns = parent;
        if (a != FURTHER)
            return a == YES;
    }
    return false;
}

static bool is(int ns, uint64_t inode)
{
    struct stat st;
    return ns >= 0 && inode != 0 && fstat(ns, &st) == 0 && st.st_ino == inode;
}

static enum answer is_that(int ns, int parent, const void *arg)
{
    (void)parent;
    return is(ns, *(const uint64_t *)arg) ? YES : FURTHER;
}

bool hw_userns_is_below(int proc_dir, uint64_t ns)
{
    return (ns != 0 && hw_userns_inode(proc_dir) == ns) || walk(proc_dir, is_that, &ns);
}

struct owner {
    uint32_t uid;
    uint64_t ns;
};

static enum answer is_owned(int ns, int parent, const void *arg)
{
    const struct owner *o = arg;
    uid_t owner;
    if (is(ns, o->ns))
        return NO;
    if (!is(parent, o->ns))
        return FURTHER;
    return ioctl(ns, NS_GET_OWNER_UID, &owner) == 0 && owner == o->uid ? YES : NO;
}

bool hw_userns_is_of(int proc_dir, uint32_t uid, uint64_t ns)
{
    return walk(proc_dir, is_owned, &(struct owner){uid, ns});
}

/* "inside outside count": outside as the namespace of who reads it calls them, and where that is
 * the same namespace, inside. */
bool hw_userns_maps(int proc_dir, const char *map, uint32_t id)
{
    char text[MAX_MAP], *p = text, *end;
    struct stat ours;
    bool same = stat("/proc/self/ns/user", &ours) == 0 && hw_userns_inode(proc_dir) == ours.st_ino;
    hw_autofd int fd = openat(proc_dir, map, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    if (same && id == HW_USERNS_NOBODY)
        return false;
    for (;; p = end) {
        unsigned long inside = strtoul(p, &end, 10);
        if (end == p)
            return false;
        unsigned long outside = strtoul(end, &end, 10), count = strtoul(end, &end, 10);
        unsigned long first = same ? inside : outside;
        if (id >= first && id - first < count)
            return true;
    }
}
