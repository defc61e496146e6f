/*
 * calls.h - system calls that end or change when their thread is stopped
 *
 * Why:     a stop interrupts a thread that waits in the kernel. Most calls are then restarted by
 *          the kernel itself; some answer with EINTR, some with a part of what was asked for, and
 *          some go on by a system call of another number, which a filter may not like.
 * Shapes:  one row a call; a call without a row does not wait, or cannot be interrupted.
 * Errors:  none.
 * Threads: any; the table is constant.
 * Source:  signal(7), "Interruption of system calls"; the kernel's sources; doc/design/attach.md
 */
#ifndef HW_INJECT_REMOTE_CALLS_H
#define HW_INJECT_REMOTE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

struct hw_pid;

enum hw_call_after {
    HW_CALL_BY_KERNEL, /* restarted by the kernel, with what is left of its time */
    HW_CALL_BY_BLOCK,  /* the same, by restart_syscall; by us where a filter forbids that */
    HW_CALL_BY_US,     /* EINTR, though no signal came: we have it restarted */
    HW_CALL_NEVER,     /* EINTR, and it has happened all the same: left as it is */
};

enum hw_call_time {
    HW_CALL_NO_TIME, /* none, or it says when, not how long */
    HW_CALL_MS,
    HW_CALL_SPEC, /* points to a struct timespec */
    HW_CALL_RING, /* points to a struct io_uring_getevents_arg, which does */
};

enum hw_call_parts {
    HW_CALL_WHOLE,
    HW_CALL_PARTS,    /* may have moved a part: then it ends, and the rest is left to the program */
    HW_CALL_WAIT_ALL, /* only where its flags say MSG_WAITALL */
};

/* How the rest of a call with parts is asked for. */
enum hw_call_rest {
    HW_CALL_NO_REST,
    HW_CALL_BYTES,    /* behind where the first part ended; its length is an argument */
    HW_CALL_LENGTH,   /* the kernel keeps the place; its length is an argument */
    HW_CALL_VECTOR,   /* an array of struct iovec, and their number */
    HW_CALL_MESSAGE,  /* a struct msghdr */
    HW_CALL_MESSAGES, /* an array of struct mmsghdr, and their number */
};

struct hw_call {
    const char *name;
    int16_t number;
    uint8_t after; /* the enums above */
    uint8_t time;
    uint8_t time_arg; /* which of the six; its time */
    uint8_t parts;
    uint8_t flags_arg; /* of calls with MSG_…; 0 = it has none */
    uint8_t rest;
    uint8_t rest_arg; /* the length or number */
};

/* NULL = no such row. */
const struct hw_call *hw_call_find(int64_t number);
/* Its time is one that restarts with it: HW_CALL_NO_TIME for an absolute one. */
enum hw_call_time hw_call_time(const struct hw_call *c, const uint64_t args[6]);
/* Where the kernel has written what is left of it: an argument; -1 = nowhere. */
int hw_call_left_arg(const struct hw_call *c, const uint64_t args[6]);

/* What a thread waits in, without stopping it. */
struct hw_call_now {
    int64_t number; /* -1 = it runs, or that cannot be seen */
    uint64_t args[6];
};
/* number: the thread's in /proc. */
void hw_call_inspect(const struct hw_pid *pid, int32_t number, struct hw_call_now *out);
/* Would a stop end it with a part of the bytes? */
bool hw_call_may_be_cut(const struct hw_pid *pid, const struct hw_call_now *now);

/* It has stopped, and gave a count: could that be less than asked for because of the stop alone? */
bool hw_call_was_cut(const struct hw_pid *pid, const struct hw_call_now *now);

#endif
