/*
 * process_reads.h - reads from a process that can block the reader
 *
 * Why:     a command that lists all processes must not hang on one whose memory is locked by a
 *          system call that waits for a file system (daemon/code/blocking_reader.h explains).
 * Errors:  HW_ETIMEOUT after 0.2 s, or at once for a process that timed out before; those of proc/.
 *          argv0 is then "".
 * Threads: any; one reads at a time.
 */
#ifndef HW_RECORD_PROCESS_READS_H
#define HW_RECORD_PROCESS_READS_H

#include <stddef.h>

#include "proc/maps.h"
#include "proc/pid.h"

void hw_read_argv0(const struct hw_pid *p, char *out, size_t max);
int hw_read_cmdline(const struct hw_pid *p, char **out, size_t *n);
int hw_read_environ(const struct hw_pid *p, char **out, size_t *n);
int hw_read_maps(const struct hw_pid *p, struct hw_maps *out);

/*
 * What concerns the files of a process and paths below its root: whoever waits for a lock of theirs
 * is not ended by SIGKILL, and a process with such a thread has no end. So a process of ours runs
 * it, which is left behind with all that is in it; of the command it has nothing open.
 * n <= HW_READ_FILES_BYTES: what run writes to *out. The first call decides about run.
 */
#define HW_READ_FILES_BYTES 1024u
int hw_read_files(const struct hw_pid *p, void (*run)(const struct hw_pid *p, void *out), void *out,
                  size_t n);

#endif
