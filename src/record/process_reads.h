/*
 * process_reads.h - what a process can keep its readers waiting for
 *
 * Why:     a command that lists all processes must not stop at one whose memory is locked by a
 *          system call that waits for a file system (daemon/code/blocking_reader.h says how that
 *          comes about).
 * Errors:  HW_ETIMEOUT after a fifth of a second, at once for a process that did this before; those
 *          of proc/. Without an answer argv0 is "".
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

#endif
