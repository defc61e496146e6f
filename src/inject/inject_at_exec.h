/*
 * inject_at_exec.h - puts the client into a program that is about to run
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
#ifndef HW_INJECT_INJECT_AT_EXEC_H
#define HW_INJECT_INJECT_AT_EXEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"

struct hw_error;
struct hw_pid;
struct hw_proc_status;

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

/*
 * What is in its file, and what it sees of ours. The file and the root are somebody's: reading them
 * can take for ever, even on a local disk, as whoever holds a lock of theirs decides (security.md).
 * So this is found out before the program is held, by a process that holds nothing.
 */
enum hw_start_verdict {
    HW_START_FITS,
    HW_START_UNREADABLE,
    HW_START_NO_ELF,
    HW_START_OTHER_MACHINE,
    HW_START_STATIC,
    HW_START_SANITIZER,
    HW_START_OWN_ALLOCATOR,
    HW_START_VERDICT_COUNT
};
struct hw_start_file {
    enum hw_start_verdict verdict;
    uint32_t own_calls; /* 1: it makes its system calls by itself */
};
void hw_start_examine(int fd, struct hw_start_file *out);
/* Why it may not be prepared, as the end of a sentence; NULL = it may. */
const char *hw_start_forbids(enum hw_start_verdict v);

enum hw_start_sight { HW_START_SEES, HW_START_NO_LIBRARY, HW_START_NO_SOCKET };
/* root: O_PATH; uid: the program's effective one. */
enum hw_start_sight hw_start_check(int root, uint32_t uid, const char *library, const char *socket);
/* HW_EUNSUPPORTED with the reason, if it does not see both. */
int hw_start_sight_error(enum hw_start_sight sight, int32_t pid, const char *library,
                         const char *socket, struct hw_error *err);

struct hw_start_request {
    const struct hw_pid *pid;
    const struct hw_proc_status *status; /* read since it has stopped: only its end changes that */
    struct hw_start_file file;
    enum hw_start_sight sight;
    const char *library;     /* path of the client library's file */
    const char *socket_path; /* where the recorder is */
    const struct hw_start_world *world;
    struct hw_start_arm arm; /* not for one that makes its own system calls: that asks at once */
};

/* 1: and it is armed. Opens, reads and looks up nothing but what is in /proc. */
int hw_start_place(const struct hw_start_request *q, struct hw_error *err);

/*
 * stack: n bytes of a new program's stack from its stack pointer up, to its upper end or less.
 * vars: "NAME=value"; a variable that exists is replaced, except that the old value of LD_PRELOAD
 * is appended to ours. Gives the bytes to write at *new_sp, which then is the stack pointer.
 */
int hw_start_rewrite(const uint8_t *stack, size_t n, uint64_t sp, const char *const *vars,
                     size_t n_vars, struct hw_strbuf *out, uint64_t *new_sp);

#endif
