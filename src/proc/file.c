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
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "base/fd.h"
#include "proc/maps.h"

#include "base/banned.h"

static int check_regular(int fd, uint32_t uid, struct stat *st, const char *path,
                         struct hw_error *err)
{
    if (fstat(fd, st) < 0)
        return hw_fail_sys(err, "'%s'", path);
    if (!S_ISREG(st->st_mode))
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s' is not a regular file", path);
    if (st->st_uid != 0 && st->st_uid != uid)
        return hw_fail(err, HW_EPERM, 0, "'%s' belongs to neither the target's user nor root",
                       path);
    return HW_OK;
}

/* O_PATH first: opening a device or a pipe can do something, looking at it cannot. */
static int open_checked(int at, const char *path, uint64_t resolve, uint32_t uid, struct stat *st,
                        int *out, struct hw_error *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
    hw_autofd int look = (int)syscall(SYS_openat2, at, path, &how, sizeof how);
    if (look < 0 && (errno == EACCES || errno == EPERM))
        return hw_fail(err, HW_EPERM, 0, "'%s': not permitted", path);
    if (look < 0)
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s': %s", path, strerror(errno));
    int rc = check_regular(look, uid, st, path, err);
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

static int open_in_root(int proc_dir, uint32_t uid, const char *path, struct stat *st, int *out,
                        struct hw_error *err)
{
    hw_autofd int root = openat(proc_dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return errno == ENOENT || errno == ESRCH
                   ? hw_fail(err, HW_EGONE, 0, "the process has ended")
                   : hw_fail_sys(err, "root of the process");
    return open_checked(root, path, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, uid, st, out, err);
}

int hw_proc_open_file(int proc_dir, uint32_t uid, const char *path, int *out, struct hw_error *err)
{
    struct stat st;
    return open_in_root(proc_dir, uid, path, &st, out, err);
}

static int open_map_file(int proc_dir, uint32_t uid, const struct hw_map *m, int *out,
                         struct hw_error *err)
{
    char name[64];
    struct stat st;
    (void)snprintf(name, sizeof name, "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
    return open_checked(proc_dir, name, 0, uid, &st, out, err);
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
    int rc = open_in_root(proc_dir, uid, m->path, &st, &fd, err);
    if (rc < 0)
        return open_map_file(proc_dir, uid, m, out, err) == HW_OK ? HW_OK : rc;
    if (st.st_ino != m->inode && open_map_file(proc_dir, uid, m, out, NULL) == HW_OK)
        return HW_OK;
    *out = hw_fd_take(&fd);
    return HW_OK;
}
