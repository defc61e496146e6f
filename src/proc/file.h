/*
 * file.h - opening the target's own files
 *
 * Why:     a path in /proc/PID/maps is text from the target and belongs to its mount namespace and
 *          root. It is resolved there, without magic links, without blocking, and only a regular
 *          file of the target's owner or root is returned.
 * Owns:    the descriptor given is the caller's.
 * Errors:  HW_ENOTFOUND (deleted, replaced, not a regular file), HW_EPERM, HW_ESYS, HW_EGONE.
 */
#ifndef HW_PROC_FILE_H
#define HW_PROC_FILE_H

#include <stdint.h>

struct hw_error;
struct hw_map;

/* path as the target sees it; uid: its owner's. For a file that the target is said to have written
 * in a folder where others write, too: the last part of the path must not be a link, and another user's file must be readable by
 * everybody. */
int hw_proc_open_written(int proc_dir, uint32_t uid, const char *path, int *out,
                         struct hw_error *err);
/* The file behind a mapping, even if its path is gone (map_files, if the kernel lets us). */
int hw_proc_open_mapping(int proc_dir, uint32_t uid, const struct hw_map *m, int *out,
                         struct hw_error *err);
/* The same for a file that the target is said to have written. */
int hw_proc_open_written_mapping(int proc_dir, uint32_t uid, const struct hw_map *m, int *out,
                                 struct hw_error *err);

#endif
