/*
 * record_again.h - processes to record again after their recording was interrupted
 *
 * Why:     a continuous recording (HW_START_RESCAN) would lose a process for good once its buffer
 *          was full: it is still connected, so nobody looks for it.
 * Units:   times are CLOCK_MONOTONIC, 0 = none.
 * Owns:    a session's list; bounded, without those that have ended.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_SESSION_RECORD_AGAIN_H
#define HW_DAEMON_SESSION_RECORD_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

struct hw_pid;
struct hw_session;
struct hw_target;

struct hw_record_again {
    int32_t pid;
    uint64_t start_ticks;
    uint32_t times, n_doublings;
    uint64_t ended_ns;
    uint64_t due_ns;    /* it rests until then; 0 = it does not */
    uint64_t joined_ns; /* since when it has been recorded again */
};

/* Its recording ends now; if the reason passes, it rests. */
void hw_record_again_ended(struct hw_target *t);
/* Not meant by this session for now. */
bool hw_record_again_rests(const struct hw_session *s, const struct hw_pid *pid);
/* It is recorded; the gap is reported and noted, if it is one of them. */
void hw_record_again_joined(struct hw_target *t);
/* One whose rest is over, to be recorded again; 0 = no more of them now. */
int32_t hw_record_again_next(struct hw_session *s, uint64_t now);

#endif
