/*
 * sleep.h - for how long has a thread been waiting in its system call?
 *
 * Why:     epoll_wait and its like answer a stop with EINTR; they are begun anew, and their
 * time-out with them. What has passed of it is known to the scheduler only: when the thread ran
 *          last, on its processor's clock. We go to that processor and ask for our own time there.
 * Shapes:  look while it runs; then stop it; then ask. Never more than has really passed: the clock
 *          leaves out what interrupts took, and ours is read as it was a moment ago.
 * Errors:  none: 0 ns where the kernel does not tell (/proc/PID/sched), or it was another sleep.
 */
#ifndef HW_INJECT_SLEEP_H
#define HW_INJECT_SLEEP_H

#include <stdint.h>

struct hw_pid;

struct hw_sleep {
    uint64_t slept_ns;   /* when it was looked at; 0 = not known */
    uint64_t looked_ns;  /* CLOCK_MONOTONIC */
    uint64_t n_switches; /* voluntary ones */
};

/* number: the thread's in /proc. */
void hw_sleep_look(const struct hw_pid *pid, int32_t number, struct hw_sleep *out);
/* Now that it is stopped: since the beginning of its sleep until now. */
uint64_t hw_sleep_so_far(const struct hw_pid *pid, int32_t number, const struct hw_sleep *s);

#endif
