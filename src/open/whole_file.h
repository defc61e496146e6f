/*
 * whole_file.h - a result's file, which is there whole or not at all
 *
 * Why:     a disk that is full in the middle left half a file under a whole one's name, or half a
 *          new one in the place of an old.
 * Shapes:  written as PATH.PID.part beside it, renamed at the end; a failure removes it. What is no
 *          regular file (a pipe, /dev/null) is written itself, and so is a file in a folder where
 *          none can be made. A symbolic link stays one; an old file's mode is kept.
 * Owns:    the descriptor and its names.
 * Errors:  as of open, write, close and rename; the text names PATH.
 */
#ifndef HW_OPEN_WHOLE_FILE_H
#define HW_OPEN_WHOLE_FILE_H

#include <stdio.h>
#include <sys/types.h>

struct hw_error;

struct hw_whole_file {
    int fd;
    char *path, *part; /* part NULL: the path itself is written */
};

int hw_whole_file_open(const char *path, mode_t mode, struct hw_whole_file *out,
                       struct hw_error *err);
/* A stream to it, closed by the caller before the end. NULL: errno says why. */
FILE *hw_whole_file_stream(const struct hw_whole_file *f);
/* rc: of what was written. < 0: nothing is left, and that is given back. */
int hw_whole_file_close(struct hw_whole_file *f, int rc, struct hw_error *err);

#endif
