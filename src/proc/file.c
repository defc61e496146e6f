/*
 * file.c - deleted files come from map_files only: another file may have their name by now. A path
 * whose inode differs is tried in map_files first; overlay file systems show other inodes in maps
 * than in stat, so a path without "(deleted)" is taken when map_files is closed to us.
 */
#include "proc/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "base/fd.h"
#include "proc/maps.h"

#include "base/banned.h"

/* The other two that a file of the system can belong to. */
struct roots {
    bool here_unmapped;  /* we are in a user namespace that knows no user 0 of the machine's */
    bool there_known;    /* the target is in another user namespace than we are, */
    uint32_t there_root; /* whose root this is */
};

#define UID_OVERFLOW 65534u

/* uid_map: "inside outside count", outside as the reader of the file sees it. */
static bool root_of(int dir, const char *path, uint32_t *out, bool *is_whole)
{
    char text[4096], *p = text, *end;
    hw_autofd int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    for (;; p = end) {
        unsigned long inside = strtoul(p, &end, 10);
        if (end == p)
            return false;
        unsigned long outside = strtoul(end, &end, 10), count = strtoul(end, &end, 10);
        if (inside == 0 && count > 0) {
            *out = (uint32_t)outside;
            *is_whole = outside == 0 && count == UINT32_MAX;
            return true;
        }
    }
}

static struct roots find_roots(int proc_dir)
{
    struct roots r = {0};
    bool whole;
    uint32_t unused;
    r.here_unmapped = root_of(AT_FDCWD, "/proc/self/uid_map", &unused, &whole) && !whole;
    r.there_known = root_of(proc_dir, "uid_map", &r.there_root, &whole) && !whole;
    return r;
}

/*
 * In a user namespace the machine's own files belong to user 65534; and in a container with users
 * of its own they belong to whoever is root there, who can write the target's memory as well. What
 * we may not read ourselves stays closed in either case.
 */
static bool is_trusted(uint32_t owner, uint32_t uid, int proc_dir)
{
    if (owner == 0 || owner == uid)
        return true;
    struct roots r = find_roots(proc_dir);
    return (r.here_unmapped && owner == UID_OVERFLOW) || (r.there_known && owner == r.there_root);
}

static int check_regular(int fd, int proc_dir, uint32_t uid, struct stat *st, const char *path,
                         struct hw_error *err)
{
    if (fstat(fd, st) < 0)
        return hw_fail_sys(err, "'%s'", path);
    if (!S_ISREG(st->st_mode))
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s' is not a regular file", path);
    if (!is_trusted(st->st_uid, uid, proc_dir))
        return hw_fail(err, HW_EPERM, 0, "'%s' belongs to neither the target's user nor root",
                       path);
    return HW_OK;
}

/* O_PATH first: opening a device or a pipe can do something, looking at it cannot. */
static int open_flags(int at, int proc_dir, const char *path, uint64_t flags, uint64_t resolve,
                      uint32_t uid, struct stat *st, int *out, struct hw_error *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags, .resolve = resolve};
    hw_autofd int look = (int)syscall(SYS_openat2, at, path, &how, sizeof how);
    if (look < 0 && (errno == EACCES || errno == EPERM))
        return hw_fail(err, HW_EPERM, 0, "'%s': not permitted", path);
    if (look < 0)
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s': %s", path, strerror(errno));
    int rc = check_regular(look, proc_dir, uid, st, path, err);
    if (rc < 0)
        return rc;
    char self[64];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", look);
    int fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "'%s'", path);
    *out = fd;
    return HW_OK;
}

static int open_checked(int at, int proc_dir, const char *path, uint64_t resolve, uint32_t uid,
                        struct stat *st, int *out, struct hw_error *err)
{
    return open_flags(at, proc_dir, path, 0, resolve, uid, st, out, err);
}

/* flags: O_NOFOLLOW or 0 */
static int open_in_root(int proc_dir, uint32_t uid, const char *path, uint64_t flags,
                        struct stat *st, int *out, struct hw_error *err)
{
    hw_autofd int root = openat(proc_dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return errno == ENOENT || errno == ESRCH
                   ? hw_fail(err, HW_EGONE, 0, "the process has ended")
                   : hw_fail_sys(err, "root of the process");
    return open_flags(root, proc_dir, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, uid, st,
                      out, err);
}

int hw_proc_open_file(int proc_dir, uint32_t uid, const char *path, int *out, struct hw_error *err)
{
    struct stat st;
    return open_in_root(proc_dir, uid, path, 0, &st, out, err);
}

int hw_proc_open_written(int proc_dir, uint32_t uid, const char *path, int *out,
                         struct hw_error *err)
{
    struct stat st;
    return open_in_root(proc_dir, uid, path, O_NOFOLLOW, &st, out, err);
}

static int open_map_file(int proc_dir, uint32_t uid, const struct hw_map *m, int *out,
                         struct hw_error *err)
{
    char name[64];
    struct stat st;
    (void)snprintf(name, sizeof name, "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
    return open_checked(proc_dir, proc_dir, name, 0, uid, &st, out, err);
}

/* The kernel tells a chrooted process's paths from our root, not from its. */
static int open_in_ours(int proc_dir, uint32_t uid, const struct hw_map *m, int *out)
{
    struct stat st;
    hw_autofd int fd = -1;
    int rc = open_checked(AT_FDCWD, proc_dir, m->path, RESOLVE_NO_MAGICLINKS, uid, &st, &fd, NULL);
    if (rc < 0)
        return rc;
    if (st.st_ino != m->inode)
        return HW_ENOTFOUND;
    *out = hw_fd_take(&fd);
    return HW_OK;
}

int hw_proc_open_mapping(int proc_dir, uint32_t uid, const struct hw_map *m, int *out,
                         struct hw_error *err)
{
    if (m->path[0] != '/')
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s' is no file", m->path);
    if (m->flags & HW_MAP_DELETED)
        return open_map_file(proc_dir, uid, m, out, err);
    struct stat st;
    hw_autofd int fd = -1;
    int rc = open_in_root(proc_dir, uid, m->path, 0, &st, &fd, err);
    if (rc < 0)
        return open_map_file(proc_dir, uid, m, out, err) == HW_OK ||
                       open_in_ours(proc_dir, uid, m, out) == HW_OK
                   ? HW_OK
                   : rc;
    if (st.st_ino != m->inode && open_map_file(proc_dir, uid, m, out, NULL) == HW_OK)
        return HW_OK;
    *out = hw_fd_take(&fd);
    return HW_OK;
}
