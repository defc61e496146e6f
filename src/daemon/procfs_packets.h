/*
 * procfs_packets.h - what /proc says about one process, as packets
 *
 * Why:     shared by the recorder's rounds and commands that write a trace themselves.
 * Errors:  those of trace/writer.h, proc/pid.h.
 */
#ifndef HW_DAEMON_PROCFS_PACKETS_H
#define HW_DAEMON_PROCFS_PACKETS_H

#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_pid;
struct hw_smaps;
struct hw_trace_writer;

/* Arguments from /proc/PID/cmdline's text, at most max; NULs at its end are no arguments. */
size_t hw_split_args(char *text, size_t n, const char **args, size_t max);
/* Its number, user and arguments, read now. */
int hw_write_process(struct hw_trace_writer *w, uint32_t sequence, const struct hw_pid *pid,
                     struct hw_error *err);
/* Its mappings by name: size, rss, anonymous, swap, private dirty, pss. */
int hw_write_smaps(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns, int32_t pid,
                   const struct hw_smaps *m, struct hw_error *err);
/* The same with shared and clean ones: everything that an account of the memory needs. */
int hw_write_account(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                     int32_t pid, const struct hw_smaps *m, struct hw_error *err);
/* Each by itself, with address and protection. */
int hw_write_regions(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                     int32_t pid, const struct hw_smaps *m, struct hw_error *err);

#endif
