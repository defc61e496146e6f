/*
 * fd.h - descriptors and heap pointers with one owner and one scope; whole reads and writes
 *
 * Errors:  HW_ESYS with errno kept, HW_ETRUNCATED when a file ends early, HW_ELIMIT.
 */
#ifndef HW_BASE_FILES_FD_H
#define HW_BASE_FILES_FD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

struct hw_error;

static inline void hw_autofd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* nothing to be done about a failing close of a read or memory file */
}

static inline void hw_autofree_free(void *pp)
{
    free(*(void **)pp);
}

#define hw_autofd   __attribute__((cleanup(hw_autofd_close)))
#define hw_autofree __attribute__((cleanup(hw_autofree_free)))

static inline int hw_fd_take(int *fd) /* ownership moves to the caller */
{
    int r = *fd;
    *fd = -1;
    return r;
}

int hw_fd_write_all(int fd, const void *p, size_t n); /* restarts on EINTR; HW_ESYS, errno set */
int hw_fd_pread_all(int fd, void *p, size_t n, uint64_t off);

/* A file without a name, for reading and writing: in $TMPDIR, else in dir; in memory where the file
 * system has none of that kind. -1, errno set: none at all. */
int hw_fd_temp(const char *dir);
/* HW_ELIMIT, with the room in words: n bytes more in such a file would take from its disk (or from
 * memory) what others need, a twentieth of it or 1 GiB. */
int hw_fd_check_room(int fd, uint64_t n, struct hw_error *err);
/* HW_EPERM, with the reason in words: others than root and our own user may swap what is in this
 * open directory, so what we make or remove there by name could be elsewhere. */
int hw_fd_check_owner(int dirfd, const char *path, struct hw_error *err);
/* Reads a whole file (also of /proc) of at most max bytes; *out is malloc'ed, NUL-terminated behind
 * n. */
int hw_fd_read_file(int fd, size_t max, char **out, size_t *n, struct hw_error *err);
int hw_file_read(int dirfd, const char *path, size_t max, char **out, size_t *n,
                 struct hw_error *err);

#endif
