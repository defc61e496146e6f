/*
 * progress_line.h - a sign of life during one long call
 *
 * Why:     walking a large heap's copy takes minutes, and silence looks like a hang.
 * Shapes:  on a terminal, one line that counts seconds, and percent where progress is known, and is
 *          erased at the end; else a line every 30 s.
 * Threads: one of its own, which only writes to standard error, with all signals blocked.
 */
#ifndef HW_CLI_PARTS_PROGRESS_LINE_H
#define HW_CLI_PARTS_PROGRESS_LINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct hw_progress;

struct hw_progress_line {               /* zero-initialised: not begun */
    const char *what;                   /* borrowed: "walking the heap of 4711" */
    const struct hw_progress *progress; /* borrowed; NULL = seconds only */
    uint64_t begun_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_running, ended, is_terminal;
};

/* Without a thread: silent. progress may be NULL. */
void hw_progress_line_begin(struct hw_progress_line *w, const char *what,
                            const struct hw_progress *progress);
void hw_progress_line_end(struct hw_progress_line *w);

#endif
