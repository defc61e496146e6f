/*
 * root_path.c - the kernel resolves (openat2), or we do, component by component
 *
 * Service managers forbid openat2 where they forbid set-user-id files (RestrictSUIDSGID), as a
 * filter cannot see its flags: ENOSYS, or EPERM. Walking then needs two things that openat2 has:
 * ".." leads to the folder that we came through, not to where that may have been moved, so all of
 * them stay open; and links are read, not followed.
 */
#include "proc/root_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/files/fd.h"

#include "base/banned.h"

enum { MAX_DEPTH = 128, MAX_LINKS = 40, TRIES = 16 };

int hw_root_open(int proc_dir)
{
    return openat(proc_dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int hw_root_cwd(int proc_dir)
{
    return openat(proc_dir, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

bool hw_root_is_ours(int proc_dir)
{
    char root[8];
    return readlinkat(proc_dir, "root", root, sizeof root) == 1 && root[0] == '/';
}

/* ---- a part at a time ---- */

struct walk {
    int dirs[MAX_DEPTH]; /* the first is borrowed */
    size_t n;
    char rest[PATH_MAX];
    unsigned n_links;
    enum hw_root_links links;
};

static void go_up(struct walk *w, size_t to)
{
    while (w->n > to)
        (void)close(w->dirs[--w->n]); /* O_PATH */
}

/* The next part of what is left; false: nothing is. */
static bool next_part(struct walk *w, char part[NAME_MAX + 1], bool *is_last)
{
    const char *p = w->rest + strspn(w->rest, "/");
    size_t n = strcspn(p, "/");
    if (n == 0 || n > NAME_MAX)
        return false;
    memcpy(part, p, n);
    part[n] = '\0';
    *is_last = p[n] == '\0';
    memmove(w->rest, p + n, strlen(p + n) + 1);
    return true;
}

/* What it says is in place of its name. */
static int follow(struct walk *w, int link, bool is_last)
{
    char text[PATH_MAX];
    struct statfs fs;
    if (w->links == HW_ROOT_NO_LINKS || (is_last && w->links == HW_ROOT_LAST_NONE) ||
        ++w->n_links > MAX_LINKS || fstatfs(link, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC) {
        errno = ELOOP;
        return -1;
    }
    ssize_t n = readlinkat(link, "", text, sizeof text);
    if (n <= 0)
        return -1;
    if ((size_t)n + strlen(w->rest) >= sizeof w->rest) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memmove(w->rest + n, w->rest, strlen(w->rest) + 1);
    memcpy(w->rest, text, (size_t)n);
    if (text[0] == '/')
        go_up(w, 1);
    return 0;
}

/* 0: go on; 1: *out is the end. */
static int step(struct walk *w, const char *part, bool is_last, int *out)
{
    struct stat st;
    if (strcmp(part, ".") == 0)
        return 0;
    if (strcmp(part, "..") == 0) {
        go_up(w, w->n > 1 ? w->n - 1 : 1);
        return 0;
    }
    hw_autofd int fd = openat(w->dirs[w->n - 1], part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (S_ISLNK(st.st_mode))
        return follow(w, fd, is_last);
    if (is_last) {
        *out = hw_fd_take(&fd);
        return 1;
    }
    if (!S_ISDIR(st.st_mode) || w->n == MAX_DEPTH) {
        errno = S_ISDIR(st.st_mode) ? ELOOP : ENOTDIR;
        return -1;
    }
    w->dirs[w->n++] = hw_fd_take(&fd);
    return 0;
}

static int find_by_parts(int root, const char *path, enum hw_root_links links)
{
    struct walk w = {.dirs = {root}, .n = 1, .links = links};
    char part[NAME_MAX + 1];
    bool is_last;
    int rc = 0, fd = -1;
    if (strlen(path) >= sizeof w.rest) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(w.rest, path, strlen(path) + 1);
    while (rc == 0 && next_part(&w, part, &is_last))
        rc = step(&w, part, is_last, &fd);
    if (rc == 0 && w.rest[strspn(w.rest, "/")]) {
        errno = ENAMETOOLONG;
        rc = -1;
    }
    if (rc == 0) /* ended with a folder: "/", "..", "a/." */
        fd = openat(w.dirs[w.n - 1], ".", O_PATH | O_CLOEXEC);
    int e = errno;
    go_up(&w, 1);
    errno = e;
    return fd;
}

/* ---- either way ---- */

static int find_at_once(int root, const char *path, enum hw_root_links links)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    if (links == HW_ROOT_NO_LINKS)
        how.resolve |= RESOLVE_NO_SYMLINKS;
    if (links == HW_ROOT_LINKS)
        how.flags &= ~(uint64_t)O_NOFOLLOW;
    int fd, tries = 0;
    do
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    while (fd < 0 && errno == EAGAIN && ++tries < TRIES); /* something was renamed meanwhile */
    return fd;
}

int hw_root_find(int root, const char *path, enum hw_root_links links)
{
    struct stat st;
    hw_autofd int fd = find_at_once(root, path, links);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = find_by_parts(root, path, links);
    if (fd < 0 || links == HW_ROOT_LINKS)
        return hw_fd_take(&fd); /* no link is left */
    if (fstat(fd, &st) < 0)
        return -1;
    if (S_ISLNK(st.st_mode)) { /* the last part: the flags above stop there and give the link */
        errno = ELOOP;
        return -1;
    }
    return hw_fd_take(&fd);
}

int hw_root_read(int found, struct stat *st)
{
    char self[64];
    if (fstat(found, st) < 0)
        return -1;
    if (!S_ISREG(st->st_mode)) {
        errno = ESTALE;
        return -1;
    }
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", found);
    return open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void hw_root_name(int dir, const char *name, char out[HW_ROOT_NAME_MAX])
{
    (void)snprintf(out, HW_ROOT_NAME_MAX, "/proc/self/fd/%d/%.80s", dir, name);
}

/* ---- whose ---- */

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
bool hw_root_trusts(int proc_dir, uint32_t owner, uint32_t uid)
{
    if (owner == 0 || owner == uid)
        return true;
    struct roots r = find_roots(proc_dir);
    return (r.here_unmapped && owner == UID_OVERFLOW) || (r.there_known && owner == r.there_root);
}

int hw_root_tmp(int proc_dir, uint32_t uid)
{
    struct stat st;
    hw_autofd int root = hw_root_open(proc_dir);
    hw_autofd int dir = root < 0 ? -1 : hw_root_find(root, "tmp", HW_ROOT_NO_LINKS);
    if (dir < 0 || fstat(dir, &st) < 0)
        return -1;
    bool is_shared = st.st_mode & (S_IWGRP | S_IWOTH);
    if (!S_ISDIR(st.st_mode) || (is_shared && !(st.st_mode & S_ISVTX)) ||
        !hw_root_trusts(proc_dir, st.st_uid, uid)) {
        errno = ESTALE;
        return -1;
    }
    return hw_fd_take(&dir);
}
