/*
 * sleep.h - how long a thread has been waiting in its system call
 *
 * Why:     a call that we restart would wait for its whole time-out again. Only the scheduler knows
 *          how much of it has passed: when the thread last ran, by its processor's clock. We move
 *          to that processor and read our own time there.
 * Shapes:  inspect while it runs; then stop it; then ask. The result is never more than has really
 *          passed: the clock leaves out the time of interrupts, and ours was read a moment ago.
 * Errors:  none: 0 ns where the kernel does not tell (/proc/PID/sched), or it was another sleep.
 */
#ifndef HW_INJECT_REMOTE_SLEEP_H
#define HW_INJECT_REMOTE_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

struct hw_call_now;
struct hw_pid;

struct hw_sleep {
    uint64_t slept_ns;   /* when it was inspected; 0 = not known */
    uint64_t looked_ns;  /* CLOCK_MONOTONIC */
    uint64_t n_switches; /* voluntary ones */
    uint64_t ran_ns;     /* when it last ran, on its processor's clock */
};

/* number: the thread's number in /proc; now: the call it waits in; filtered: also count calls
 * that the kernel would continue through restart_syscall. */
void hw_sleep_inspect(const struct hw_pid *pid, int32_t number, const struct hw_call_now *now,
                      bool filtered, struct hw_sleep *out);
/* Call it just before the stop. If this is no longer the same sleep, it is forgotten. */
void hw_sleep_check(const struct hw_pid *pid, int32_t number, struct hw_sleep *s);
/* The thread stopped at that time: how long its sleep had lasted by then. */
uint64_t hw_sleep_until(const struct hw_pid *pid, int32_t number, const struct hw_sleep *s,
                        uint64_t stopped_ns);

#endif
