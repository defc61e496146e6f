/*
 * thread.h - one stopped thread of another process, and code run on it
 *
 * Why:     ptrace's rules in one place: which stop is which, what has to be saved, and how an
 *          interrupted system call continues as if nothing had happened.
 * Shapes:  seize → (look) → save → system calls and calls, in any number → restore. Between save
 *          and restore only signals that the code itself raises are delivered, and to us; all
 *          others are held back.
 * Errors:  HW_EGONE (the thread has ended), HW_EPERM, HW_EBUSY (traced), HW_ETIMEOUT, HW_ESYS.
 *          A call that crashed: HW_ESYS; the thread is restored all the same.
 * Threads: only the thread that seized it.
 */
#ifndef HW_INJECT_REMOTE_THREAD_H
#define HW_INJECT_REMOTE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_pid;

#define HW_XSTATE_MAX         16384u
#define HW_THREAD_SPARE_BYTES 256u

struct hw_thread_regs {
    uint64_t pc, sp, fp;
    uint64_t tp; /* thread pointer */
};

struct hw_thread {
    int32_t pid, tid;
    int32_t number; /* /proc's number; set by the caller */
    bool seized, saved, masked;
    bool known; /* its registers were read */
    bool moved;
    bool gone_on; /* it waited for us in vain, and runs the program again */
    bool execed;  /* its process executes another program: nothing that was known about it holds */
    int mem;      /* set by the caller: memory of the image that is stopped; -1 = none */
    uint64_t asked_ns, stopped_ns;
    bool filtered;       /* set by the caller: its process has seccomp filters */
    uint64_t slept_ns;   /* time in its system call until it stopped, as far as is known */
    uint64_t spare_at;   /* HW_THREAD_SPARE_BYTES, far below its stack pointer; 0 = none */
    uint64_t syscall_at; /* set by the caller */
    uint64_t code_at;    /* of hw_thread_code; 0 = system calls only, one by one */
    uint64_t stack_top;  /* for calls */
    uint64_t state_at;   /* above it: HW_THREAD_STATE_BYTES */
    /* For the first and last system calls: HW_THREAD_STATE_BYTES on the thread's own stack, far
     * enough below what it uses, and the two pieces of code; 0 = nothing can bring it back by
     * itself then. */
    uint64_t boot_at, syscall_ret_at, restorer_at;
    uint64_t kept_mask;    /* blocked signals */
    uint64_t xstate_bytes; /* 0 = there is none */
    uint64_t words[32];    /* its registers, as the kernel gives them */
    uint8_t xstate[HW_XSTATE_MAX];
};

/*
 * What the thread executes between save and release. All that restores it lies beside its stack:
 * should we die, it waits for two seconds and then resumes by itself.
 */
extern const uint8_t hw_thread_code[];
extern const uint32_t hw_thread_code_bytes;
#define HW_THREAD_STATE_BYTES (HW_XSTATE_MAX + 4096u) /* whole pages */

/* Once in our process, before the first thread is stopped. */
void hw_thread_prepare(void);
/* Attaches to it; it keeps running. */
int hw_thread_take(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err);
/* Stops one that was taken. On failure it runs as before. */
int hw_thread_stop(struct hw_thread *t, struct hw_error *err);
/* The two steps of a stop, for many threads: ask all before waiting for the first. */
int hw_thread_seize_begin(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err);
int hw_thread_seize_end(struct hw_thread *t, struct hw_error *err);
/* If the stop has cut its system call short, finishes the rest first, within the timeout. */
void hw_thread_finish_call(struct hw_thread *t, const struct hw_pid *pid, uint64_t timeout_ns);
int hw_thread_regs(struct hw_thread *t, struct hw_thread_regs *out);
/* Is it in the middle of a restartable sequence? Those cannot be interrupted for long. */
bool hw_thread_in_rseq(const struct hw_thread *t, uint64_t pc);
/* Does it wait for a recorder that has died? Then ends that wait. */
bool hw_thread_waits_for_dead_recorder(struct hw_thread *t);
/* Runs it until it is about to execute the instruction at `at`, for at most 1 s. It is stopped
 * then. */
int hw_thread_run_to(struct hw_thread *t, uint64_t at);

/* Changes where it resumes; if it was saved, on release. */
void hw_thread_move(struct hw_thread *t, uint64_t pc);

int hw_thread_save(struct hw_thread *t, struct hw_error *err);
/* The bytes that the caller writes to state_at or boot_at before the first call; gives how many. */
size_t hw_thread_state(const struct hw_thread *t, uint64_t at, uint8_t out[HW_THREAD_STATE_BYTES]);
int hw_thread_syscall(struct hw_thread *t, long n, const uint64_t args[6], int64_t *out);
int hw_thread_call(struct hw_thread *t, uint64_t fn, uint64_t a, uint64_t b, uint64_t timeout_ns,
                   uint64_t *out);
/* Restores it and lets it run, also without a save. False: it does not stop, so it cannot be
 * detached before our own thread ends. */
bool hw_thread_release(struct hw_thread *t);
/* Leaves it where it is: the code that it runs restores it. It must not be used any more. */
void hw_thread_give_up(struct hw_thread *t);

#endif
