/*
 * worker.h - a process without privileges that reads the targets' ELF files
 *
 * Why:     those files are hostile until proven otherwise: whatever a file does to a parser happens
 *          in a short-lived child that owns nothing, may open nothing and has limits on time and
 *          memory. The recorder's sessions continue.
 * Shapes:  a parent of workers is forked before any thread exists; each job is a child of it. A job
 *          is sent there with descriptors (the file, a memory file for input and output), and the
 *          answer is one message on the same socket; jobs run in parallel.
 * Errors:  a job always gets an answer: a crash or a limit is HW_EFORMAT or HW_ETIMEOUT.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CODE_WORKER_H
#define HW_DAEMON_CODE_WORKER_H

#include <stddef.h>
#include <stdint.h>

#include "elf/php_symbols.h"
#include "elf/python_symbols.h"
#include "elf/ruby_symbols.h"

struct hw_error;

enum hw_job_type {
    HW_JOB_TABLE = 1,       /* out: a table (cfi/cfi.h) */
    HW_JOB_NAMES = 2,       /* in: n u64 addresses; out: n times u32 length + name, "" = none */
    HW_JOB_INFO = 3,        /* out: struct hw_elf_info */
    HW_JOB_CONTROL = 4,     /* out: u64 address of the client's control page, 0 = none */
    HW_JOB_INTERPRETERS = 5 /* out: struct hw_interpreters */
};

/* eval or exec 0 = the file has none */
struct hw_interpreters {
    struct hw_python_symbols python;
    struct hw_ruby_symbols ruby;
    struct hw_php_symbols php;
};

#define HW_JOB_MAX_OUT (256u * 1024 * 1024)

struct hw_workers {
    int fd; /* SOCK_SEQPACKET; readable when an answer waits */
    int32_t pid;
    uint64_t last_job;
};

struct hw_job_answer {
    uint64_t job;
    int32_t rc; /* HW_OK or HW_E… */
    uint32_t type;
    uint64_t n_bytes; /* in the memory file, which is the recorder's */
    char text[160];
};

/* Before any thread is started. */
int hw_workers_start(struct hw_workers *w, struct hw_error *err);
void hw_workers_stop(struct hw_workers *w);

/* Sends a job; *job identifies its answer. The job reads and writes the memory file (memfd);
 * both descriptors stay the caller's. HW_EBUSY: the queue is full, try again after an answer. */
int hw_workers_send(struct hw_workers *w, enum hw_job_type type, int elf_fd, int memfd, uint64_t n,
                    uint64_t *job);
/* 1 = an answer, 0 = none now, HW_EGONE = the workers are gone. */
int hw_workers_take(struct hw_workers *w, struct hw_job_answer *out);

#endif
