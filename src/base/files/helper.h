/*
 * helper.h - a program that works for us and ends with us
 *
 * Why:     tools that read files of strangers can take for ever. One that was started and not yet
 *          waited for stayed when we were killed, with nobody left to end it.
 * Shapes:  as posix_spawnp, which cannot ask for a signal at its parent's end; limits hold from its
 *          first instruction. It gets three descriptors, one more if wanted, and no other that is
 *          close-on-exec.
 * Owns:    nothing; the caller waits for the process.
 * Threads: any, but the helper ends with the thread that started it.
 */
#ifndef HW_BASE_FILES_HELPER_H
#define HW_BASE_FILES_HELPER_H

#include <stdint.h>
#include <sys/types.h>

/* The word by which this program becomes its own helper that reads debug info. */
#define HW_LINE_WORKER_VERB "__lines"

enum { HW_HELPER_FD = 3 };

struct hw_helper {
    const char *program; /* without a slash: looked for in PATH */
    char *const *argv, *const *env;
    int in, out, more;   /* its input, output, HW_HELPER_FD; -1 = /dev/null, /dev/null, nothing */
    uint64_t max_memory; /* 0 = as we have it */
    unsigned max_cpu_s;  /* the same */
};

/* 0, or a number as errno has it: the program did not start. Its messages go to /dev/null. */
int hw_helper_start(const struct hw_helper *h, pid_t *out);

#endif
