/*
 * file.c - deleted files come from map_files only: another file may have their name by now. A path
 * whose inode differs is tried in map_files first; overlay file systems show other inodes in maps
 * than in stat, so a path without "(deleted)" is taken when map_files is closed to us.
 */
#include "proc/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/maps.h"
#include "proc/root_path.h"

#include "base/banned.h"

static int check_regular(int fd, int proc_dir, uint32_t uid, struct stat *st, const char *path,
                         struct hw_error *err)
{
    if (fstat(fd, st) < 0)
        return hw_fail_sys(err, "'%s'", path);
    if (!S_ISREG(st->st_mode))
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s' is not a regular file", path);
    if (!hw_root_trusts(proc_dir, st->st_uid, uid))
        return hw_fail(err, HW_EPERM, 0, "'%s' belongs neither to the program's user nor to root",
                       path);
    return HW_OK;
}

/* Inspects first: O_PATH. Opening a device or a pipe can have effects, inspecting it cannot. */
static int open_looked_at(int look, int proc_dir, const char *path, uint32_t uid, struct stat *st,
                          int *out, struct hw_error *err)
{
    if (look < 0 && (errno == EACCES || errno == EPERM))
        return hw_fail(err, HW_EPERM, 0, "'%s': not permitted", path);
    if (look < 0)
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s': %s", path, strerror(errno));
    int rc = check_regular(look, proc_dir, uid, st, path, err);
    if (rc < 0)
        return rc;
    int fd = hw_root_read(look, st);
    if (fd < 0)
        return hw_fail_sys(err, "'%s'", path);
    *out = fd;
    return HW_OK;
}

static int open_in_root(int proc_dir, uint32_t uid, const char *path, enum hw_root_links links,
                        struct stat *st, int *out, struct hw_error *err)
{
    hw_autofd int root = hw_root_open(proc_dir);
    if (root < 0)
        return errno == ENOENT || errno == ESRCH
                   ? hw_fail(err, HW_EGONE, 0, "the process has ended")
                   : hw_fail_sys(err, "root of the process");
    hw_autofd int look = hw_root_find(root, path, links);
    return open_looked_at(look, proc_dir, path, uid, st, out, err);
}

/* A hard link or a bind mount puts any file under a name of the target's: of other users' files,
 * only those that everybody may read. We may read more than the target's user. */
static int check_readable(const struct stat *st, uint32_t uid, const char *path,
                          struct hw_error *err)
{
    if (st->st_uid != uid && !(st->st_mode & S_IROTH))
        return hw_fail(err, HW_EPERM, 0, "'%s' is not readable for the program's user", path);
    return HW_OK;
}

int hw_proc_open_written(int proc_dir, uint32_t uid, const char *path, int *out,
                         struct hw_error *err)
{
    struct stat st;
    hw_autofd int fd = -1;
    int rc = open_in_root(proc_dir, uid, path, HW_ROOT_LAST_NONE, &st, &fd, err);
    if (rc == HW_OK)
        rc = check_readable(&st, uid, path, err);
    if (rc == HW_OK)
        *out = hw_fd_take(&fd);
    return rc;
}

static int open_map_file(int proc_dir, uint32_t uid, const struct hw_map *m, int *out,
                         struct hw_error *err)
{
    char name[64];
    struct stat st;
    (void)snprintf(name, sizeof name, "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
    hw_autofd int look = openat(proc_dir, name, O_PATH | O_CLOEXEC); /* the kernel's own link */
    return open_looked_at(look, proc_dir, m->path, uid, &st, out, err);
}

/* The kernel gives a chrooted process's paths from our root, not from the process's. */
static int open_in_ours(int proc_dir, uint32_t uid, const struct hw_map *m, int *out)
{
    struct stat st;
    hw_autofd int fd = -1;
    hw_autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int look = hw_root_find(root, m->path, HW_ROOT_LINKS);
    int rc = open_looked_at(look, proc_dir, m->path, uid, &st, &fd, NULL);
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
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s' is not a file", m->path);
    if (m->flags & HW_MAP_DELETED)
        return open_map_file(proc_dir, uid, m, out, err);
    struct stat st;
    hw_autofd int fd = -1;
    int rc = open_in_root(proc_dir, uid, m->path, HW_ROOT_LINKS, &st, &fd, err);
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

int hw_proc_open_written_mapping(int proc_dir, uint32_t uid, const struct hw_map *m, int *out,
                                 struct hw_error *err)
{
    struct stat st;
    hw_autofd int fd = -1;
    int rc = hw_proc_open_mapping(proc_dir, uid, m, &fd, err);
    if (rc == HW_OK && fstat(fd, &st) < 0)
        return hw_fail_sys(err, "'%s'", m->path);
    if (rc == HW_OK)
        rc = check_readable(&st, uid, m->path, err);
    if (rc == HW_OK)
        *out = hw_fd_take(&fd);
    return rc;
}
