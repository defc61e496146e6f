/*
 * node_process.h - is it Node.js, and may its inspector be opened?
 *
 * Why:     SIGUSR1 opens the inspector of Node.js and kills a program that does not handle it. So
 *          the program's file is looked at, not its name, and the kernel says that the signal is
 *          handled.
 * Shapes:  Node.js is a program, or a mapped libnode, that exports node::Start. Files are read by
 *          hw_node_inspect, for a process that may be left behind (record/process_reads.h).
 * Errors:  HW_EPERM, HW_EUNSUPPORTED (not Node.js, or it does not handle the signal), HW_EBUSY (it is
 *          stopped), HW_EGONE; all with the reason and what to do.
 * Source:  doc/design/node.md; https://nodejs.org/en/learn/getting-started/debugging
 */
#ifndef HW_NODE_NODE_PROCESS_H
#define HW_NODE_NODE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_pid;

#define HW_NODE_PORT 9229u

struct hw_node_file {
    bool was_read; /* else nobody knows */
    bool is_node;
};
void hw_node_inspect(const struct hw_pid *pid, void *out); /* out: a struct hw_node_file */

/* The asker's rights, and what the process is. */
int hw_node_check(const struct hw_pid *pid, const struct hw_node_file *file, struct hw_error *err);
/* To be asked again just before SIGUSR1: an exec resets what is handled. */
int hw_node_check_signal(const struct hw_pid *pid, struct hw_error *err);

/* Where it opens its inspector, by its own arguments and NODE_OPTIONS: both as /proc has them, texts
 * that end in NUL. */
struct hw_node_port {
    uint16_t port; /* 0 = any that is free */
    bool has_host; /* not on 127.0.0.1 */
};
void hw_node_port(const char *cmdline, size_t n, const char *environ, size_t n_environ,
                  struct hw_node_port *out);

#endif
