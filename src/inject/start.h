/*
 * start.h - puts the client into a program that is about to run
 *
 * Why:     a process that is stopped at the end of its execve has executed nothing of the new
 *          program. Its environment is still the kernel's copy on the new stack: with three more
 *          variables the loader loads the client before the program's first allocation.
 * Shapes:  the caller traces the process, stopped at PTRACE_EVENT_EXEC, and it still is
 *          when hw_start_place returns. hw_start_rewrite is the part without a process.
 * Owns:    nothing; what is written there is the program's own stack. The client takes its
 *          variables out again, so no child inherits them.
 * Errors:  HW_EUNSUPPORTED (nothing was changed, the text says why), HW_EBUSY (it is prepared
 *          already), HW_EPERM (it runs with other rights than its starter's: never prepared), HW_EGONE,
 *          HW_ESYS.
 * Threads: the one that traces.
 * Source:  doc/design/starts.md
 */
#ifndef HW_INJECT_START_H
#define HW_INJECT_START_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"

struct hw_error;
struct hw_pid;
struct hw_proc_status;
struct stat;

/* Tells the client that it was held at its start, where it must not keep anybody waiting. */
#define HW_START_HELD_VARIABLE "HEAPWISE_HELD"

/* Inodes of the caller's own namespaces, for a caller that never changes them. 0 = unknown,
 * matches none. */
struct hw_start_world {
    uint64_t net, user;
};
void hw_start_world_read(struct hw_start_world *out);

/* The client asks nobody at its start, and draws samples by itself until one is due
 * (wire/handshake.h). */
struct hw_start_arm {
    uint64_t interval_bytes; /* 0 = it asks at once */
    uint64_t token;
};

struct hw_start_request {
    const struct hw_pid *pid;
    const struct hw_proc_status *status; /* read after it stopped: only its end changes that */
    const struct stat *file;             /* of the program, the same */
    const char *library;                 /* path of the client library's file */
    const char *socket_path;             /* where the recorder is */
    const struct hw_start_world *world;
    struct hw_start_arm arm; /* not for one that makes its own system calls: that asks at once */
};

/* Why this program's file may not be prepared, as the end of a sentence; NULL = it may. */
const char *hw_start_file_forbids(int fd);

/* 1: and it is armed. */
int hw_start_place(const struct hw_start_request *q, struct hw_error *err);

/*
 * stack: n bytes of a new program's stack from its stack pointer up, to its upper end or less.
 * vars: "NAME=value"; a variable that exists is replaced, except that the old value of LD_PRELOAD
 * is appended to ours. Gives the bytes to write at *new_sp, which then is the stack pointer.
 */
int hw_start_rewrite(const uint8_t *stack, size_t n, uint64_t sp, const char *const *vars,
                     size_t n_vars, struct hw_strbuf *out, uint64_t *new_sp);

#endif
