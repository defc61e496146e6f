#include "base/side_thread.h"

#include <sched.h>
#include <signal.h>

#include "base/error.h"

#include "base/banned.h"

unsigned hw_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 2; /* more than the set has room for */
    return (unsigned)CPU_COUNT(&set);
}

static void *run(void *ctx)
{
    struct hw_side_thread *b = ctx;
    b->rc = b->fn(b->ctx);
    return NULL;
}

void hw_side_thread_begin(struct hw_side_thread *b, hw_side_thread_fn *fn, void *ctx)
{
    sigset_t all, old;
    *b = (struct hw_side_thread){.fn = fn, .ctx = ctx};
    if (hw_processors() < 2)
        return;
    (void)sigfillset(&all); /* none of these three can fail with these arguments */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    b->runs = pthread_create(&b->thread, NULL, run, b) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

int hw_side_thread_end(struct hw_side_thread *b)
{
    if (b->runs)
        (void)pthread_join(b->thread, NULL); /* our own, joined once */
    else
        (void)run(b);
    b->runs = false;
    return b->rc;
}

struct half {
    hw_range_fn *fn;
    void *ctx;
    size_t from, end;
};

static int run_half(void *ctx)
{
    const struct half *h = ctx;
    h->fn(h->ctx, h->from, h->end);
    return HW_OK;
}

void hw_in_halves(size_t n, hw_range_fn *fn, void *ctx)
{
    struct hw_side_thread beside;
    struct half second = {fn, ctx, n / 2, n};
    if (n < HW_WORTH_TWO) {
        fn(ctx, 0, n);
        return;
    }
    hw_side_thread_begin(&beside, run_half, &second);
    fn(ctx, 0, n / 2);
    (void)hw_side_thread_end(&beside); /* a half cannot fail */
}
