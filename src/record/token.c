#include "record/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

enum { TOKEN_BYTES = 24, MIN_LENGTH = 32 };

int hw_token_make(char out[HW_TOKEN_MAX], struct hw_error *err)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return hw_fail_sys(err, "no random numbers for the token");
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return HW_OK;
}

static int write_new(const char *path, char out[HW_TOKEN_MAX], struct hw_error *err)
{
    int rc = hw_token_make(out, err);
    if (rc < 0)
        return rc;
    hw_autofd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return hw_fail_sys(err, "cannot make '%s'", path);
    if (hw_fd_write_all(fd, out, strlen(out)) < 0 || hw_fd_write_all(fd, "\n", 1) < 0) {
        rc = hw_fail_sys(err, "cannot write '%s'", path);
        (void)unlink(path);
    }
    return rc;
}

int hw_token_keep(const char *path, char out[HW_TOKEN_MAX], struct hw_error *err)
{
    struct stat st;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return write_new(path, out, err);
    if (fd < 0 || fstat(fd, &st) < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
        return hw_fail(err, HW_EPERM, 0,
                       "'%s' is not a file of yours: whoever it belongs to would have the token",
                       path);
    if (st.st_mode & 077)
        return hw_fail(err, HW_EPERM, 0, "others can read the token in '%s': chmod 600 it", path);
    ssize_t n = read(fd, out, HW_TOKEN_MAX - 1);
    if (n < 0)
        return hw_fail_sys(err, "cannot read '%s'", path);
    out[n] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    size_t length = strlen(out);
    if (length < MIN_LENGTH || strspn(out, HW_TOKEN_CHARS) != length ||
        (length == HW_TOKEN_MAX - 1 && st.st_size > n + 2))
        return hw_fail(err, HW_EINVAL, 0,
                       "'%s' must hold %d to %d letters, digits, - or _ on its first line; without "
                       "the file one is made",
                       path, MIN_LENGTH, HW_TOKEN_MAX - 1);
    return HW_OK;
}
