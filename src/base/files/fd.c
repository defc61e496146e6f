#include "base/files/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/banned.h"
#include "base/error.h"

int hw_fd_write_all(int fd, const void *p, size_t n)
{
    const char *c = p;
    while (n > 0) {
        ssize_t r = write(fd, c, n);
        if (r < 0) {
            if (errno == EINTR)
                continue;
            return HW_ESYS;
        }
        c += r;
        n -= (size_t)r;
    }
    return HW_OK;
}

int hw_fd_pread_all(int fd, void *p, size_t n, uint64_t off)
{
    char *c = p;
    while (n > 0) {
        ssize_t r = pread(fd, c, n, (off_t)off);
        if (r < 0) {
            if (errno == EINTR)
                continue;
            return HW_ESYS;
        }
        if (r == 0)
            return HW_ETRUNCATED;
        c += r;
        n -= (size_t)r;
        off += (uint64_t)r;
    }
    return HW_OK;
}

int hw_fd_read_file(int fd, size_t max, char **out, size_t *n, struct hw_error *err)
{
    size_t cap = 4096, len = 0;
    char *buf = malloc(cap + 1);
    if (!buf)
        return hw_fail(err, HW_ENOMEM, 0, "read buffer");
    for (;;) {
        ssize_t r = read(fd, buf + len, cap - len);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0) {
            int rc = hw_fail_sys(err, "cannot read");
            free(buf);
            return rc;
        }
        if (r == 0)
            break;
        len += (size_t)r;
        if (len < cap)
            continue;
        if (cap >= max) {
            free(buf);
            return hw_fail(err, HW_ELIMIT, len, "file is larger than %zu bytes", max);
        }
        cap = cap * 2 > max ? max : cap * 2;
        char *grown = realloc(buf, cap + 1);
        if (!grown) {
            free(buf);
            return hw_fail(err, HW_ENOMEM, len, "read buffer of %zu bytes", cap);
        }
        buf = grown;
    }
    buf[len] = 0;
    *out = buf;
    *n = len;
    return HW_OK;
}

int hw_file_read(int dirfd, const char *path, size_t max, char **out, size_t *n,
                 struct hw_error *err)
{
    hw_autofd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    int rc = hw_fd_read_file(fd, max, out, n, err);
    if (rc < 0)
        hw_error_prefix(err, "'%s'", path);
    return rc;
}

int hw_fd_check_owner(int dirfd, const char *path, struct hw_error *err)
{
    struct stat st;
    if (fstat(dirfd, &st) < 0)
        return hw_fail_sys(err, "cannot examine '%s'", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return hw_fail(err, HW_EPERM, 0,
                       "'%s' belongs to user %u, who could redirect files: chown it", path,
                       st.st_uid);
    if ((st.st_mode & S_IWGRP) && st.st_gid != getegid() && st.st_gid != 0)
        return hw_fail(err, HW_EPERM, 0, "group %u may write into '%s': chmod g-w it", st.st_gid,
                       path);
    if (st.st_mode & S_IWOTH)
        return hw_fail(err, HW_EPERM, 0, "everybody may write into '%s': chmod o-w it", path);
    return HW_OK;
}
