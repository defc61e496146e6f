#include "cli/parts/progress_line.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/progress.h"

#include "base/banned.h"

enum { TERMINAL_S = 1, FILE_S = 30 };

static void put(const struct hw_progress_line *w)
{
    unsigned long long s = (hw_now_monotonic_ns() - w->begun_ns) / 1000000000u;
    char percent[24] = "";
    if (w->progress && w->progress->total)
        (void)snprintf(percent, sizeof percent, "%.0f %%, ",
                       100 * (double)hw_progress_done(w->progress) / (double)w->progress->total);
    if (w->is_terminal)
        fprintf(stderr, "\r%s: %s%llu s\033[K", w->what, percent, s);
    else
        fprintf(stderr, "%s: %s%llu s\n", w->what, percent, s);
    (void)fflush(stderr);
}

static void *run(void *arg)
{
    struct hw_progress_line *w = arg;
    (void)pthread_mutex_lock(&w->lock); /* cannot fail: an ordinary mutex of our own */
    while (!w->ended) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += w->is_terminal ? TERMINAL_S : FILE_S;
        if (pthread_cond_timedwait(&w->changed, &w->lock, &until) != 0 && !w->ended)
            put(w);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

void hw_progress_line_begin(struct hw_progress_line *w, const char *what,
                            const struct hw_progress *progress)
{
    pthread_condattr_t monotonic;
    sigset_t all, before;
    *w = (struct hw_progress_line){.what = what,
                                   .progress = progress,
                                   .begun_ns = hw_now_monotonic_ns(),
                                   .is_terminal = isatty(STDERR_FILENO) == 1};
    if (pthread_condattr_init(&monotonic) != 0)
        return;
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* this clock always exists */
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    w->is_running = pthread_create(&w->thread, NULL, run, w) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void hw_progress_line_end(struct hw_progress_line *w)
{
    if (!w->is_running)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->ended = true;
    (void)pthread_cond_signal(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    if (w->is_terminal)
        fputs("\r\033[K", stderr);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->changed);
    w->is_running = false;
}
