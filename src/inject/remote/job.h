/*
 * job.h - one command in progress: what its parts share
 *
 * Why:     a thread is chosen (inject.c), work is done on it by system calls and calls (job.c), and
 *          that work differs: a library that the loader loads (loader.c), or one that is mapped
 *          from outside (raw.c).
 * Owns:    see inject.c, which makes and ends it.
 * Errors:  as inject.h. hw_job_clean undoes what a failed function has done.
 * Threads: one.
 */
#ifndef HW_INJECT_REMOTE_JOB_H
#define HW_INJECT_REMOTE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/inject.h"
#include "inject/remote/process_facts.h"
#include "inject/remote/thread.h"
#include "unwind/walk.h"

#define HW_JOB_MAX_THREADS 256
#define HW_JOB_STACK_BYTES (256u * 1024)
#define HW_JOB_PAGE_BYTES  4096u

struct hw_job {
    const struct hw_inject_request *q;
    struct hw_inject_result *out;
    struct hw_process process;
    struct hw_thread thread;
    struct hw_walk_out walk;
    uint8_t *copy; /* of its stack */
    uint8_t *file; /* the library */
    size_t file_bytes;
    uint64_t block_va, run_va;                                     /* in the library */
    int32_t tids[HW_JOB_MAX_THREADS], numbers[HW_JOB_MAX_THREADS]; /* numbers: /proc's */
    size_t n_tids;
    /* in the target; 0 and fd -1 = not there */
    uint64_t stack, code, base;
    uint64_t reserved, reserved_bytes; /* mapped for the library, which is not complete yet */
    int64_t fd;
    uint64_t carrier;   /* the memory file's inode */
    uint32_t fsuid;     /* of the thread, which owns the files it creates */
    bool ran_to;        /* a debug register has stopped it */
    struct hw_raw *raw; /* raw.c's; NULL = loaded by the loader */
};

bool hw_job_fails(const struct hw_job *j, enum hw_inject_step step, struct hw_error *err);
int hw_job_kernel(struct hw_job *j, long n, const uint64_t a[6], int64_t *out, const char *what,
                  struct hw_error *err);
int hw_job_write(struct hw_job *j, uint64_t at, const void *p, size_t n, struct hw_error *err);
int hw_job_map(struct hw_job *j, uint64_t n, int prot, uint64_t *at, struct hw_error *err);
int hw_job_put_text(struct hw_job *j, const char *text, uint64_t *at, struct hw_error *err);
int hw_job_call(struct hw_job *j, uint64_t fn, uint64_t a, uint64_t b, uint64_t *out,
                const char *what, struct hw_error *err);

/* Checks a stopped thread: does it belong to the process, does the process still execute the
 * image that was inspected, is it permitted? Opens the memory of that image: from now on nothing
 * else is read or written. HW_ETIMEOUT = try another thread; any other error ends the job. */
int hw_job_check_standing(struct hw_job *j, int32_t number, struct hw_error *err);
/* Where on its own stack the thread's registers can be saved meanwhile; 0 = nowhere. */
uint64_t hw_job_room_on_stack(struct hw_job *j);
int hw_job_write_state(struct hw_job *j, struct hw_error *err); /* after the thread was moved */
int hw_job_make_room(struct hw_job *j, struct hw_error *err);
int hw_job_make_carrier(struct hw_job *j, struct hw_error *err); /* with the file in it */
void hw_job_clean(struct hw_job *j);
/* Another recorder has it: reports that recorder's socket, and restores the name in the block. */
void hw_job_is_held(struct hw_job *j, const char before[108]);
int hw_job_result(const struct hw_job *j, uint32_t result, struct hw_error *err);

/* loader.c and raw.c: load if needed, run the requested command, undo it on failure. */
int hw_job_by_loader(struct hw_job *j, struct hw_error *err);
int hw_job_by_raw(struct hw_job *j, struct hw_error *err);
/* raw.c: before anything is stopped. */
int hw_job_plan_raw(struct hw_job *j, struct hw_error *err);
void hw_job_raw_done(struct hw_job *j);
/* The error names the code, not the process. */
int hw_raw_check(struct hw_process *p, struct hw_error *err);

#endif
