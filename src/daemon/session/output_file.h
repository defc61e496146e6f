/*
 * output_file.h - the file of a session, written where waiting for it does no harm
 *
 * Why:     a service writes files that its users have opened. A user can make the kernel keep such
 *          a file's lock for as long as he likes (a call of his own on it, with a buffer in memory
 *          that never comes): a write to it then waits beyond any signal, and nobody else's
 *          recording would go on.
 * Shapes:  a thread for each file does what waits: it is given one thing at a time and waited for.
 *          What takes longer than OUTPUT_WAIT is given up for good, with the thread, which ends
 *          when the kernel lets it.
 * Owns:    a descriptor of its own for the file.
 * Errors:  errno; ETIMEDOUT from the first time on that it took too long.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_SESSION_OUTPUT_FILE_H
#define HW_DAEMON_SESSION_OUTPUT_FILE_H

#include <stddef.h>
#include <sys/types.h>

struct hw_output_file;

/* uid: whose file it is; one that has kept us waiting is not taken again for a while. *start: where
 * writing begins; -1 = the file has no place. */
int hw_output_file_new(int fd, uid_t uid, struct hw_output_file **out, off_t *start);
void hw_output_file_free(struct hw_output_file *f); /* NULL is fine */

/* As the sink of a trace writer: ctx is the file. 0 or -1 with errno. */
int hw_output_file_write(void *ctx, const void *p, size_t n);
int hw_output_file_cut(void *ctx, off_t size);

#endif
