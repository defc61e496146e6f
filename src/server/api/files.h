/*
 * files.h - files named by a request or a trace
 *
 * Why:     those who may send requests are not always those who may read files. A name from outside
 *          resolves to a regular file below a directory that the server's owner has listed, or to
 *          nothing.
 * Shapes:  absolute names begin with a directory of the list, relative ones count below each. The
 *          kernel resolves them from the directory's descriptor: no link is followed, nothing leads
 *          outside, and the file checked is the file read.
 * Owns:    descriptors of the directories.
 * Errors:  HW_ESYS (a directory cannot be opened), HW_ENOTFOUND with a text that reveals nothing
 *          about other places, HW_EINVAL (not a regular file), HW_ENOMEM.
 * Threads: the list is constant once made.
 */
#ifndef HW_SERVER_API_FILES_H
#define HW_SERVER_API_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory/vec.h"

struct hw_error;

struct hw_files_dir {
    char *path, *real; /* as named, absolute; with links resolved. Owned */
    int fd;
};
typedef HW_VEC(struct hw_files_dir) hw_files_dirs;

int hw_files_dirs_add(hw_files_dirs *d, const char *path, struct hw_error *err);
void hw_files_dirs_done(hw_files_dirs *d);

/* A descriptor for reading a file below one of the directories. */
int hw_files_open(const hw_files_dirs *d, const char *name, struct hw_error *err);
/* Whether the name is one of these directories, or of one below them. */
bool hw_files_has_dir(const hw_files_dirs *d, const char *name);
/* The same below one directory, given by its path; -1: no regular file there. */
int hw_files_open_below(const char *dir, const char *name);
/* The name with all links resolved, as by realpath; -1. */
int hw_files_open_real(const char *real);

#endif
