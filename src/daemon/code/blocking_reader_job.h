/*
 * blocking_reader_job.h - one read, implemented where it is known what to read
 *
 * Why:     the reader handles threads and stuck ones; reading_process.c and reading_files.c know
 *          what to read.
 * Shapes:  a job begins with struct hw_reading_job. new → its members → do → results → free.
 * Owns:    a job owns all it needs: when abandoned, it outlives its caller.
 * Threads: run and drop on the reading thread, or drop on the main thread; the others on the main
 *          thread.
 */
#ifndef HW_DAEMON_CODE_BLOCKING_READER_JOB_H
#define HW_DAEMON_CODE_BLOCKING_READER_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/code/blocking_reader.h"

struct hw_facts;

struct hw_reading_job {
    struct hw_reading_who who; /* dir is the job's own */
    void (*run)(struct hw_reading_job *j);
    void (*drop)(struct hw_reading_job *j); /* what run left in it; NULL = nothing */
    bool finished, left;
    _Atomic int32_t helper; /* a process that the thread waits for; 0 = none */
    int rc;
    uint64_t cpu_ns;
};

/* Zeroed, of that size; NULL = no memory, or no descriptor. */
void *hw_reading_job_new(size_t size, const struct hw_reading_who *who,
                         void (*run)(struct hw_reading_job *),
                         void (*drop)(struct hw_reading_job *));
/* Takes over the job, unless it gives HW_OK: then the results are the caller's, who frees it. */
int hw_reading_job_do(struct hw_blocking_reader *l, struct hw_reading_job *j);
void hw_reading_job_free(struct hw_reading_job *j);

#define HW_READING_WORDS 4096u

/* The command line, as it was read in this turn of the owner's. */
struct hw_reading_words {
    bool kept;   /* the owner counts turns */
    int32_t pid; /* 0 = none */
    uint64_t start_ticks;
    size_t n;
    char text[HW_READING_WORDS]; /* ended by 0 */
};
struct hw_reading_words *hw_reading_words(struct hw_blocking_reader *l);
bool hw_reading_has_words(struct hw_blocking_reader *l, const struct hw_reading_who *who);
void hw_reading_read_words(const struct hw_reading_who *who,
                           struct hw_reading_words *out); /* in a job */
void hw_reading_keep_words(struct hw_blocking_reader *l, const struct hw_reading_words *w);

/* Where the main arena begins, unless the program took memory there by itself: field 47 of stat. */
uint64_t hw_reading_heap_start(int proc_dir);

/* reading_go.c: of a process that has Go's heap. On the reading thread. NULL: no memory. */
struct hw_reading_go *hw_reading_go_new(const struct hw_reading_who *who, const struct hw_smaps *s,
                                        int mem, int pagemap);
void hw_reading_go_free(struct hw_reading_go *g); /* NULL is fine */

struct hw_facts *hw_reading_facts(struct hw_blocking_reader *l); /* of any job that runs */

#endif
