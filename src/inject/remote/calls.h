/*
 * calls.h - system calls that end or change when their thread is stopped
 *
 * Why:     a stop interrupts a thread that waits in the kernel. The kernel restarts most calls
 *          itself; some return EINTR, some a part of what was asked for, and some continue as a
 *          system call of another number, which a filter may forbid.
 * Shapes:  one row per call; a call without a row does not block, or cannot be interrupted.
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
    HW_CALL_BY_KERNEL, /* restarted by the kernel, with the remaining time */
    HW_CALL_BY_BLOCK,  /* the same, through restart_syscall; by us if a filter forbids that */
    HW_CALL_BY_US,     /* EINTR although no signal came: we restart it */
    HW_CALL_NEVER,     /* EINTR, but it has taken effect all the same: left as it is */
};

enum hw_call_time {
    HW_CALL_NO_TIME, /* none, or an absolute time */
    HW_CALL_MS,
    HW_CALL_SPEC, /* points to a struct timespec */
    HW_CALL_VAL,  /* points to a struct timeval */
    HW_CALL_RING, /* points to a struct io_uring_getevents_arg, which points to one */
};

enum hw_call_parts {
    HW_CALL_WHOLE,
    HW_CALL_PARTS,    /* may have moved a part: it then ends and leaves the rest to the program */
    HW_CALL_WAIT_ALL, /* only where its flags say MSG_WAITALL */
};

/* How to ask for the rest of a call that transferred a part. */
enum hw_call_rest {
    HW_CALL_NO_REST,
    HW_CALL_BYTES,    /* continues after the first part; its length is an argument */
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
    uint8_t time_arg; /* which of the six arguments is its time-out */
    uint8_t parts;
    uint8_t flags_arg; /* of calls with MSG_… flags; 0 = it has none */
    uint8_t rest;
    uint8_t rest_arg; /* the length or number */
};

/* NULL = no such row. */
const struct hw_call *hw_call_find(int64_t number);
/* A time-out that starts again with the call: HW_CALL_NO_TIME for an absolute one. */
enum hw_call_time hw_call_time(const struct hw_call *c, const uint64_t args[6]);
/* The argument that points to where the kernel has written the remaining time; -1 = none. */
int hw_call_left_arg(const struct hw_call *c, const uint64_t args[6]);

/* The call that a thread waits in, read without stopping it. */
struct hw_call_now {
    int64_t number; /* -1 = it is running, or it cannot be read */
    uint64_t args[6];
};
/* number: the thread's number in /proc. */
void hw_call_inspect(const struct hw_pid *pid, int32_t number, struct hw_call_now *out);
/* Would a stop make it return with a part of the bytes? */
bool hw_call_may_be_cut(const struct hw_pid *pid, const struct hw_call_now *now);

/* It has stopped, and the call returned a count: could that be short because of the stop alone? */
bool hw_call_was_cut(const struct hw_pid *pid, const struct hw_call_now *now);

#endif
