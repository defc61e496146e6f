/*
 * sleep.h - for how long has a thread been waiting in its system call?
 *
 * Why:     a call that we restart would wait for its whole time again. How much of it has passed is
 *          known to the scheduler only: when the thread ran last, by its processor's clock. We move
 *          to that processor and read our own time there.
 * Shapes:  inspect while it runs; then stop it; then ask. Never more than has really passed: the clock
 *          leaves out what interrupts took, and ours is read as it was a moment ago.
 * Errors:  none: 0 ns where the kernel does not tell (/proc/PID/sched), or it was another sleep.
 */
#ifndef HW_INJECT_REMOTE_SLEEP_H
#define HW_INJECT_REMOTE_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

struct hw_call_now;
struct hw_pid;

struct hw_sleep {
    uint64_t slept_ns;   /* when it was looked at; 0 = not known */
    uint64_t looked_ns;  /* CLOCK_MONOTONIC */
    uint64_t n_switches; /* voluntary ones */
    uint64_t ran_ns;     /* when it ran last, on its processor's clock */
};

/* number: the thread's in /proc; now: what it waits in; filtered: what the kernel would go on with
 * counts, too. */
void hw_sleep_inspect(const struct hw_pid *pid, int32_t number, const struct hw_call_now *now,
                      bool filtered, struct hw_sleep *out);
/* Just before it is stopped: the same sleep? Else it is forgotten. */
void hw_sleep_check(const struct hw_pid *pid, int32_t number, struct hw_sleep *s);
/* It has stopped at that time: since the beginning of its sleep until then. */
uint64_t hw_sleep_until(const struct hw_pid *pid, int32_t number, const struct hw_sleep *s,
                        uint64_t stopped_ns);

#endif
