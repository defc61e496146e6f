/*
 * thread.h - one stopped thread of another process, and code run on it
 *
 * Why:     ptrace's rules in one place: which stop is which, what has to be saved, and how a
 *          system call that was interrupted goes on as if nothing had happened.
 * Shapes:  seize → (look) → save → system calls and calls, in any number → restore. Between save
 * and restore only signals that the code itself raises are delivered, to us; all others wait.
 * Errors:  HW_EGONE (the thread has ended), HW_EPERM, HW_EBUSY (traced), HW_ETIMEOUT, HW_ESYS.
 *          A call that crashed: HW_ESYS; the thread is restored all the same.
 * Threads: all of it on the thread that seized.
 */
#ifndef HW_INJECT_THREAD_H
#define HW_INJECT_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;

#define HW_XSTATE_MAX 16384u

struct hw_thread_regs {
    uint64_t pc, sp, fp;
};

struct hw_thread {
    int32_t pid, tid;
    bool seized, saved;
    bool known; /* its registers were read */
    bool moved;
    uint64_t asked_ns, stopped_ns;
    uint64_t syscall_at;   /* given by the caller */
    uint64_t code_at;      /* of HW_THREAD_CODE; 0 = no calls */
    uint64_t stack_top;    /* for calls */
    uint64_t kept_mask;    /* blocked signals */
    uint64_t xstate_bytes; /* 0 = there is none */
    uint64_t words[32];    /* its registers, as the kernel gives them */
    uint8_t xstate[HW_XSTATE_MAX];
};

/* call *%rax; int3 */
#define HW_THREAD_CODE "\xff\xd0\xcc\x90\x90\x90\x90\x90"

/* Stops one thread. On failure it runs as before. */
int hw_thread_seize(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err);
/* The same in two halves, to stop many: all are asked before the first is waited for. */
int hw_thread_seize_begin(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err);
int hw_thread_seize_end(struct hw_thread *t, struct hw_error *err);
int hw_thread_regs(struct hw_thread *t, struct hw_thread_regs *out);
/* Is it in the middle of a restartable sequence? Those cannot be interrupted for long. */
bool hw_thread_in_rseq(const struct hw_thread *t, uint64_t pc);
/* Runs it until it is about to execute the instruction at `at`, or 1 s. Stopped then. */
int hw_thread_run_to(struct hw_thread *t, uint64_t at);

/* It goes on at another place. */
void hw_thread_move(struct hw_thread *t, uint64_t pc);

int hw_thread_save(struct hw_thread *t, struct hw_error *err);
int hw_thread_syscall(struct hw_thread *t, long n, const uint64_t args[6], int64_t *out);
int hw_thread_call(struct hw_thread *t, uint64_t fn, uint64_t a, uint64_t b, uint64_t timeout_ns,
                   uint64_t *out);
/* As it was when it was stopped, and running. Also without save. */
void hw_thread_release(struct hw_thread *t);

#endif
