/*
 * exec_share.h - sampling of starts: only some starts of a frequent program are held
 *
 * Why:     holding a start costs about a millisecond of CPU. A build machine starts its compiler a
 *          hundred times a second, and a shell loop its commands all day.
 * Shapes:  the holds per minute are limited for each program and each of its commands (the program
 *          with its first non-option argument): a server started once by an interpreter that others
 *          start all the time is a separate command, and is held. Of more frequent ones, one in
 *          2^share is held at random, and what it allocates counts 2^share times
 *          (record/web/continuous_file.h). The probability depends on earlier starts alone, so sums
 *          over all starts are unbiased.
 * Owns:    a table of a fixed size. The oldest of a full set is evicted: then one start too many is
 *          held.
 * Threads: the answerer.
 * Cost:    O(1), no memory is taken.
 * Source:  doc/design/starts.md, "A share of the starts"
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_SHARE_H
#define HW_DAEMON_EXECWATCH_EXEC_SHARE_H

#include <stdint.h>

#define HW_EXEC_SHARE_MOST 15u        /* of 2^share: HW_TOKEN_SHARE_MASK */
#define HW_EXEC_PASSED     UINT32_MAX /* it is not held */

#define HW_EXEC_SHARE_SETS       512u
#define HW_EXEC_SHARE_WAYS       4u
#define HW_EXEC_SHARE_CALLS      64u
#define HW_EXEC_SHARE_OF_PROGRAM 10u /* times what one of its commands may have */

struct hw_exec_starts {
    uint64_t id; /* 0 = free */
    uint64_t since_ns;
    uint32_t now, before; /* starts since then, and in the time of the same length before */
};

/* A script's exec is asked about twice, by the same call. */
struct hw_exec_share_call {
    uint64_t key; /* 0 = free */
    uint64_t until_ns;
    uint32_t drawn;
};

struct hw_exec_shares {
    uint64_t random; /* state; not 0 */
    struct hw_exec_starts starts[HW_EXEC_SHARE_SETS][HW_EXEC_SHARE_WAYS];
    struct hw_exec_share_call calls[HW_EXEC_SHARE_CALLS];
};

struct hw_exec_start {
    uint64_t program, command; /* hashes */
    uint64_t call;             /* hash of what tells this execve from others */
    uint64_t at_ns;            /* monotonic */
};

/* Counts the start. Gives the share with which to hold it, 0 = all are held; or HW_EXEC_PASSED. */
uint32_t hw_exec_share_draw(struct hw_exec_shares *s, const struct hw_exec_start *start,
                            uint32_t per_minute);

#endif
