/*
 * thread_stops.h - ptrace's requests on a thread, and waiting for its stops
 *
 * Why:     one place decides which stop is which, for everything that is done with a stopped thread.
 * Shapes:  for the files of this folder that use ptrace; x86-64 only.
 */
#ifndef HW_INJECT_REMOTE_THREAD_STOPS_H
#define HW_INJECT_REMOTE_THREAD_STOPS_H

#if defined(__x86_64__)

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "inject/remote/thread.h"

#define HW_STOP_NS (500 * UINT64_C(1000000)) /* on a machine that is busy with other things */
#define HW_SPIN_NS (200 * UINT64_C(1000))

_Static_assert(sizeof(struct user_regs_struct) <= sizeof((struct hw_thread *)0)->words,
               "registers");

static inline long hw_thread_ptrace(int request, const struct hw_thread *t, uintptr_t addr,
                                    uintptr_t data)
{
    return ptrace(request, t->tid, (void *)addr, (void *)data);
}

/* Raised by the code that the thread executes for us. */
static inline bool hw_thread_is_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
           signal == SIGTRAP;
}

static inline bool hw_thread_is_event(int status)
{
    return status >> 16 == PTRACE_EVENT_STOP;
}

/* SIGSTOP cannot be blocked. It is passed on: the thread runs for us all the same, and the
 * kernel remembers whether the process is to be stopped or continued afterwards. */
static inline uintptr_t hw_thread_to_deliver(int status)
{
    return !hw_thread_is_event(status) && WSTOPSIG(status) == SIGSTOP ? SIGSTOP : 0;
}

/* 1 = *status is a stop; HW_EGONE; HW_ETIMEOUT. */
int hw_thread_wait_stop(struct hw_thread *t, uint64_t timeout_ns, int *status);
/* Waits until the stop that our interrupt asked for. Signals on the way are passed on. */
int hw_thread_wait_interrupted(struct hw_thread *t);

/* The registers with which it resumes in the end. */
static inline struct user_regs_struct *hw_thread_saved_regs(struct hw_thread *t)
{
    return (struct user_regs_struct *)(void *)t->words;
}

bool hw_thread_set_regs(struct hw_thread *t, const struct user_regs_struct *r);
bool hw_thread_get_regs(struct hw_thread *t, struct user_regs_struct *r);
bool hw_thread_read_word(const struct hw_thread *t, uint64_t at, uint64_t *out);
bool hw_thread_write_word(const struct hw_thread *t, uint64_t at, uint64_t v);

/* ---- thread_restart.c: the system call that the stop interrupted ---- */

/* Is it to be restarted, by the kernel or by us? */
bool hw_thread_call_restarts(const struct user_regs_struct *r);
/* Makes it restart with the remaining time. True: its registers have changed. */
bool hw_thread_restart_call(const struct hw_thread *t, struct user_regs_struct *r);

#endif

#endif
