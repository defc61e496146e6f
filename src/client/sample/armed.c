/*
 * armed.c - a thread's draws before the recorder was asked, and the sample that makes the process ask
 *
 * The draw is the sampler's own, with the same hot path: `left` reaches 0 after the bytes that a
 * session from the start would have let pass. While the recorder is asked the thread has no draw
 * (interval 0), so a handler that interrupts it does not get here again; then it gets its draw
 * back, at the interval with which it was made, since that is what the sample's record says. After
 * that record it follows the session's own interval, as after any change of it (capture.c).
 */
#include "client/sample/armed.h"

#include "client/kernel/now.h"
#include "client/kernel/process_limits.h"
#include "client/sample/sampler.h"

/* Of the process, and of its forked children; interval 0 = not armed, or no longer. */
static struct {
    uint64_t interval, token /* 0 = none */, seed;
    _Atomic uint64_t n_draws;
} own;

/* ---- the mark ---- */

static const char *read_number(const char *p, char end, uint64_t *out)
{
    uint64_t x = 0;
    unsigned n = 0;
    for (; n < 17 && *p != end; p++, n++) {
        unsigned c = (unsigned char)*p;
        if (c >= '0' && c <= '9')
            x = x << 4 | (c - '0');
        else if (c >= 'a' && c <= 'f')
            x = x << 4 | (c - 'a' + 10);
        else
            return NULL;
    }
    *out = x;
    return n == 0 || n == 17 ? NULL : p + (end != '\0');
}

bool hw_armed_begin(const char *mark)
{
    uint64_t interval, token, filters;
    const char *p = read_number(mark, ':', &interval);
    p = p ? read_number(p, ':', &token) : NULL;
    p = p ? read_number(p, '\0', &filters) : NULL;
    if (!p)
        return false;
    own.token = token;
    if (interval < HW_ARMED_LEAST_INTERVAL || interval > UINT64_C(1) << 60)
        return false;
    own.interval = interval;
    own.seed = hw_random_seed();
    hw_membarrier_prepare();
    hw_control.filters = (uint32_t)filters; /* the page is still ours */
    atomic_store(&hw_process_page.armed, interval);
    hw_here.left = 0; /* so far this thread has drawn nothing */
    return true;
}

/* ---- threads ---- */

static void draw(struct hw_tls *t, uint64_t interval)
{
    uint64_t n = atomic_fetch_add_explicit(&own.n_draws, 1, memory_order_relaxed);
    hw_sampler_begin(t, hw_sampler_mix(own.seed ^ hw_sampler_mix(n + 1)), interval);
}

bool hw_armed_join(struct hw_tls *t)
{
    uint64_t interval = hw_armed_interval();
    if (interval == 0) /* asked once: another thread may be getting the answer right now */
        return false;
    draw(t, interval);
    t->flags |= HW_TLS_ARMED;
    return true;
}

static bool is_as_before(const struct hw_tls *t)
{
    return hw_armed() &&
           t->generation == atomic_load_explicit(&hw_control.generation, memory_order_relaxed) &&
           !atomic_load_explicit(&hw_process_page.session, memory_order_relaxed);
}

bool hw_armed_is_current(struct hw_tls *t)
{
    if ((t->flags & HW_TLS_ARMED) == 0)
        return false;
    if (hw_likely(is_as_before(t)))
        return true;
    t->flags &= ~(uint32_t)HW_TLS_ARMED;
    t->interval = 0;
    return false;
}

uint64_t hw_armed_interval(void)
{
    return atomic_load_explicit(&hw_process_page.armed, memory_order_relaxed);
}

void hw_armed_lost(void)
{
    (void)atomic_fetch_add_explicit(&hw_process_page.n_lost_early, 1, memory_order_relaxed);
}

uint64_t hw_armed_take_lost(void)
{
    return atomic_exchange(&hw_process_page.n_lost_early, 0);
}

/* ---- the handshake ---- */

void hw_armed_fill_hello(struct hw_hello *out)
{
    out->armed_token = own.token; /* also of a process armed no longer, and of its children */
    if (!hw_armed())
        return;
    bool child = atomic_load_explicit(&hw_process_page.armed_child, memory_order_relaxed);
    out->flags |= HW_HELLO_ARMED | (child ? HW_HELLO_FORKED : HW_HELLO_STARTUP | HW_HELLO_HELD);
    out->armed_interval_bytes = own.interval;
}

void hw_armed_over(void)
{
    own.interval = 0;
    atomic_store(&hw_process_page.armed, 0);
}

/* ---- forks ---- */

void hw_armed_adopt(void)
{
    if (own.interval == 0)
        return;
    atomic_store(&hw_process_page.armed_child, 1);
    atomic_store(&hw_process_page.armed, own.interval);
}

/* Workers forked from one server would all have their samples at the same byte. */
void hw_armed_forked(void)
{
    struct hw_tls *t = &hw_here;
    if (own.interval == 0 || (t->flags & HW_TLS_ARMED) == 0 || t->busy)
        return;
    own.seed = hw_sampler_mix(own.seed ^ hw_local_sandbox_ns());
    draw(t, own.interval);
}
