/*
 * sampler.c - which allocations are sampled, and for how many bytes each stands
 *
 * Every byte asked for is a sample point with probability 1 / interval, independently: the distance
 * to the next point is geometric, of mean `interval` exactly, and that is the countdown. The
 * allocation that reaches 0 is sampled, and stands for interval bytes times the number of draws
 * needed to get the countdown above 0. Sizes of at least the interval are recorded with their own
 * size and leave the countdown alone.
 *
 * The second rule would cost the hot path a second comparison. Instead the countdown is split:
 *
 *      countdown  =  left + reserve,        1 <= left <= interval;   due when size >= left
 *
 * so that a size >= interval is never below `left` and the one subtraction finds both cases. The
 * price is a slow path without a sample about 0.58 times a sample, to refill left from the reserve.
 * At interval 1 left is 0, and everything is due: also blocks of size 0, which stand for no bytes
 * but exist.
 *
 * The distribution has no memory: discarding a countdown and drawing a new one, at a new interval
 * or for a thread without a slab of its own, changes no probability.
 */
#include "client/sample/sampler.h"
#include "client/client.h"

#include <string.h>

uint64_t hw_sampler_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t next_random(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    uint64_t x = *s;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/*
 * -ln(u) for u in (0, 1), so that libm is not needed: u = m * 2^e with m in [sqrt(1/2), sqrt(2)),
 * ln m = 2 atanh((m-1)/(m+1)) by its series. |t| < 0.1716, so the first term left out is below
 * 2 * t^15 / 15 < 5e-13.
 */
static double minus_log(double u)
{
    uint64_t b;
    memcpy(&b, &u, sizeof b);
    int e = (int)(b >> 52 & 0x7ff) - 1023;
    b = (b & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &b, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double t = (m - 1) / (m + 1);
    double t2 = t * t;
    double s = 1.0 / 13;
    s = s * t2 + 1.0 / 11;
    s = s * t2 + 1.0 / 9;
    s = s * t2 + 1.0 / 7;
    s = s * t2 + 1.0 / 5;
    s = s * t2 + 1.0 / 3;
    s = s * t2 + 1.0;
    return -(2 * t * s + e * 0.6931471805599453);
}

/* -1 / ln(1 - 1/n): the exponential whose whole part + 1 is geometric of mean n. */
static double scale_of(double n)
{
    if (n < 1024)
        return 1 / minus_log(1 - 1 / n);
    return n - 0.5 - 1 / (12 * n); /* the next term is below 4e-11 of it */
}

uint64_t hw_sampler_draw(uint64_t *rng, uint64_t interval)
{
    if (interval <= 1)
        return 1;
    /* The top 53 bits, moved off 0: u in [2^-54, 1 - 2^-54]. */
    double u = ((double)(next_random(rng) >> 11) + 0.5) * 0x1p-53;
    double x = minus_log(u) * scale_of((double)interval);
    return x < 0x1p60 ? (uint64_t)x + 1 : 1ull << 60;
}

/* A new session, or a new interval: a new draw. It never samples by itself. */
void hw_sampler_start(struct hw_tls *t, struct hw_client_session *s)
{
    uint64_t interval = atomic_load_explicit(&s->interval[HW_HEAP_ID_LIBC], memory_order_relaxed);
    uint64_t n = atomic_fetch_add_explicit(&s->n_draws, 1, memory_order_relaxed);
    hw_sampler_begin(t, hw_sampler_mix(s->seed ^ hw_sampler_mix(n + 1)), interval);
}

void hw_sampler_begin(struct hw_tls *t, uint64_t seed, uint64_t interval)
{
    t->rng = seed;
    t->interval = interval;
    if (interval == 0) {
        t->left = HW_QUIET_BYTES;
        t->reserve = 0;
        return;
    }
    hw_sampler_split(t, hw_sampler_draw(&t->rng, interval));
}

uint64_t hw_sampler_redraw(uint64_t *rng, uint64_t interval, uint64_t missing, uint64_t *countdown)
{
    uint64_t k = 0, sum = 0;
    do {
        sum += hw_sampler_draw(rng, interval);
        k++;
    } while (sum <= missing);
    *countdown = sum - missing;
    return k * interval;
}

uint64_t hw_sampler_take_heap(struct hw_client_session *s, uint32_t heap_id, uint64_t n)
{
    uint64_t interval = atomic_load_explicit(&s->interval[heap_id], memory_order_relaxed);
    if (interval == 0 || n == 0)
        return 0;
    if (n >= interval)
        return n;
    struct hw_tls *t = &hw_here;
    struct hw_slab *slab = t->slab;
    struct hw_heap_countdown once = {0};
    struct hw_heap_countdown *c = slab ? &slab->heaps[heap_id] : &once;
    if (c->interval != interval) {
        c->interval = interval;
        c->left = hw_sampler_draw(&t->rng, interval) - 1;
    }
    if (c->left >= n) {
        c->left -= n;
        return 0;
    }
    uint64_t countdown;
    uint64_t weight = hw_sampler_redraw(&t->rng, interval, n - c->left - 1, &countdown);
    c->left = countdown - 1;
    return weight;
}
