/*
 * files.h - files that a request names, or a trace does
 *
 * Why:     who may ask is not always who may read. A name from outside leads to a regular file
 *          below a directory that the server's owner has named, or to none.
 * Shapes:  absolute names begin with a directory of the list, relative ones count below each. The
 *          kernel resolves them from the directory's descriptor: no link is followed, none leads
 *          out, and what is looked at is what is read.
 * Owns:    descriptors of the directories.
 * Errors:  HW_ESYS (a directory cannot be opened), HW_ENOTFOUND with a text that tells nothing of
 *          what lies elsewhere, HW_EINVAL (no regular file), HW_ENOMEM.
 * Threads: the list is constant once made.
 */
#ifndef HW_SERVER_API_FILES_H
#define HW_SERVER_API_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory/vec.h"

struct hw_error;

struct hw_files_dir {
    char *path, *real; /* as it was named, absolute; without links. Owned */
    int fd;
};
typedef HW_VEC(struct hw_files_dir) hw_files_dirs;

int hw_files_dirs_add(hw_files_dirs *d, const char *path, struct hw_error *err);
void hw_files_dirs_done(hw_files_dirs *d);

/* A descriptor to read from; below one of them. */
int hw_files_open(const hw_files_dirs *d, const char *name, struct hw_error *err);
/* Whether the name is one of these directories, or of one below them. */
bool hw_files_has_dir(const hw_files_dirs *d, const char *name);
/* The same below one directory, by its path; -1: no regular file is there. */
int hw_files_open_below(const char *dir, const char *name);
/* A name without any links in it, as realpath gives; -1. */
int hw_files_open_real(const char *real);

#endif
