/*
 * side_thread.h - a second thread for work that splits in two
 *
 * Why:     loading and questions over 10^8 objects are bound to one processor where two stand by.
 *          Which work splits is known where it is done; here is how it is begun, ended, and done
 *          without a thread.
 * Shapes:  begin and end a piece beside the caller's own work, or give a range by halves. With one
 *          processor, or when no thread can be made, the same functions run one after the other on
 *          the caller's thread, so that results must not depend on it.
 * Owns:    the thread, from begin to end. Every begin has its end, on errors too.
 * Errors:  end gives what the piece gave.
 * Threads: the caller and one more. It takes no signals: those are the caller's.
 */
#ifndef HW_BASE_SIDE_THREAD_H
#define HW_BASE_SIDE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Elements of a pass over an array: a thread costs 20 to 100 us, fewer than these less. */
enum { HW_WORTH_TWO = 1 << 16 };

typedef int hw_side_thread_fn(void *ctx);
typedef void hw_range_fn(void *ctx, size_t from, size_t end);

struct hw_side_thread {
    pthread_t thread;
    hw_side_thread_fn *fn;
    void *ctx;
    int rc;
    bool runs; /* in a thread of its own; else hw_side_thread_end runs it */
};

/* Processors that this thread may run on. */
unsigned hw_processors(void);

void hw_side_thread_begin(struct hw_side_thread *b, hw_side_thread_fn *fn, void *ctx);
int hw_side_thread_end(struct hw_side_thread *b);

/* fn(ctx, from, end) for the halves of [0, n); for all at once where two are not worth it. */
void hw_in_halves(size_t n, hw_range_fn *fn, void *ctx);

#endif
