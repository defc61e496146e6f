/*
 * fd_close.h - closing files of others
 *
 * Why:     the close of a file of FUSE waits for the process that serves it, for as long as that
 *          likes. A target maps such files, a hostile program sends descriptors of them.
 * Shapes:  hw_fd_close_slow waits for a moment, so that mostly the file is closed behind it. What
 *          still waits then is a thread's, up to eight of them; after that files stay open.
 * Owns:    the descriptor is taken.
 * Threads: any.
 */
#ifndef HW_BASE_FILES_FD_CLOSE_H
#define HW_BASE_FILES_FD_CLOSE_H

#include <stdbool.h>

/* Can its close wait for a process? Asks the file system: not where nobody may wait. */
bool hw_fd_is_slow(int file);
/* A file that was only read, or anything that is not ours. */
void hw_fd_close_slow(int file);

#endif
