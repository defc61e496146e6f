#include "open/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

static int open_itself(struct hw_whole_file *f, mode_t mode, struct hw_error *err)
{
    free(f->part);
    f->part = NULL;
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    return f->fd < 0 ? hw_fail_sys(err, "cannot create '%s'", f->path) : HW_OK;
}

static int open_part(struct hw_whole_file *f, mode_t mode, const struct stat *old)
{
    (void)unlink(f->part); /* of a process of that number that was killed */
    f->fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (f->fd < 0)
        return HW_ESYS;
    if (old)
        (void)fchmod(f->fd, old->st_mode & 0777); /* else it is as new ones are */
    return HW_OK;
}

int hw_whole_file_open(const char *path, mode_t mode, struct hw_whole_file *out,
                       struct hw_error *err)
{
    struct stat st;
    bool is_there = stat(path, &st) == 0;
    struct hw_whole_file f = {.fd = -1, .path = is_there ? realpath(path, NULL) : strdup(path)};
    struct hw_strbuf part = {0};
    hw_strbuf_addf(&part, "%s.%d.part", f.path ? f.path : "", (int)getpid());
    f.part = hw_strbuf_take(&part);
    int rc = HW_OK;
    if (!f.path || !f.part)
        rc = hw_fail(err, HW_ENOMEM, 0, "name of the output");
    else if (is_there && !S_ISREG(st.st_mode))
        rc = open_itself(&f, mode, err);
    else if (is_there && faccessat(AT_FDCWD, f.path, W_OK, AT_EACCESS) < 0)
        rc = hw_fail_sys(err, "cannot write '%s'", path);
    else if (open_part(&f, mode, is_there ? &st : NULL) < 0)
        rc = is_there || errno == ENAMETOOLONG ? open_itself(&f, mode, err)
                                               : hw_fail_sys(err, "cannot create '%s'", path);
    if (rc < 0) {
        free(f.path);
        free(f.part);
        return rc;
    }
    *out = f;
    return HW_OK;
}

FILE *hw_whole_file_stream(const struct hw_whole_file *f)
{
    int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!stream && fd >= 0)
        (void)close(fd); /* nothing was written */
    return stream;
}

int hw_whole_file_close(struct hw_whole_file *f, int rc, struct hw_error *err)
{
    if (close(f->fd) < 0 && rc >= 0)
        rc = hw_fail_sys(err, "cannot write '%s'", f->path);
    if (f->part && rc >= 0 && rename(f->part, f->path) < 0)
        rc = hw_fail_sys(err, "cannot create '%s'", f->path);
    if (f->part && rc < 0)
        (void)unlink(f->part); /* half of it is nothing */
    free(f->part);
    free(f->path);
    *f = (struct hw_whole_file){.fd = -1};
    return rc;
}
