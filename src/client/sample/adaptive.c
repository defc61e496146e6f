/* adaptive.c - intervals that change during a session: by the recorder, a full ring, or the rate */
#include "client/sample/adaptive.h"
#include "client/ring/push.h"
#include "client/sample/heap_table.h"

/* The recorder's doublings and ours, applied to the configured interval. */
void hw_interval_refresh(struct hw_client_session *s, uint32_t heap_id)
{
    uint32_t n =
        atomic_load_explicit(&s->doublings, memory_order_relaxed) +
        atomic_load_explicit(&s->doubled[hw_heaps_drawn_by(heap_id)], memory_order_relaxed);
    uint64_t now = atomic_load_explicit(&s->interval[heap_id], memory_order_relaxed);
    uint64_t want = hw_interval_doubled(s->base[heap_id], n);
    if (now != 0 && now != want &&
        atomic_compare_exchange_strong(&s->interval[heap_id], &now, want))
        hw_push_heap(s, heap_id, "", want);
}

/* The recorder wants another rate for all. */
HW_COLD void hw_adapt_to_recorder(struct hw_client_session *s, uint32_t wanted)
{
    atomic_store_explicit(&s->doublings, wanted < HW_MAX_DOUBLINGS ? wanted : HW_MAX_DOUBLINGS,
                          memory_order_relaxed);
    for (uint32_t id = HW_HEAP_ID_LIBC; id < HW_HEAP_ID_ANON; id++)
        hw_interval_refresh(s, id);
}

/* by: 1 doubles, -1 halves what was doubled. */
static void step_interval(struct hw_client_session *s, uint32_t of, int by)
{
    uint32_t heap_id = hw_heaps_drawn_by(of);
    uint32_t python = atomic_load_explicit(&hw_python_heap, memory_order_relaxed);
    uint64_t most = s->config.adaptive_max_interval_bytes;
    uint64_t now = atomic_load_explicit(&s->interval[heap_id], memory_order_relaxed);
    uint8_t n = atomic_load_explicit(&s->doubled[heap_id], memory_order_relaxed);
    bool may = by < 0 ? n > 0 : n < HW_MAX_DOUBLINGS && (most == 0 || now < most);
    if (now != 0 && may &&
        atomic_compare_exchange_strong(&s->doubled[heap_id], &n, (uint8_t)(n + by)))
        hw_interval_refresh(s, heap_id);
    if (python && heap_id == HW_HEAP_ID_LIBC)
        hw_interval_refresh(s, python);
}

void hw_adapt_interval(struct hw_client_session *s, uint32_t heap_id)
{
    if (hw_ring_free_bytes(&s->ring) < s->config.adaptive_threshold_bytes)
        step_interval(s, heap_id, 1);
}

/* A second or more is over. After a burst the interval goes back one step at a time: half of the
 * allowed samples leave room for the next burst. Doublings because of a full ring stay, as the
 * format's rule for those is. */
static void end_of_second(struct hw_client_session *s, uint32_t heap_id, uint64_t took_ns)
{
    uint64_t n = atomic_exchange_explicit(&s->rate_samples, 0, memory_order_relaxed);
    uint64_t quarter = s->config.max_samples_per_second / 4;
    if (s->config.adaptive_threshold_bytes == 0 && n * 1000 <= quarter * (took_ns / 1000000))
        step_interval(s, heap_id, -1);
}

/* Threads count together; a thread that interferes costs a sample or two of the count. */
void hw_adapt_to_rate(struct hw_client_session *s, uint32_t heap_id, uint64_t now_ns)
{
    uint64_t since = atomic_load_explicit(&s->rate_since_ns, memory_order_relaxed);
    if (now_ns - since >= 1000000000u &&
        atomic_compare_exchange_strong(&s->rate_since_ns, &since, now_ns))
        end_of_second(s, heap_id, now_ns - since);
    if (atomic_fetch_add_explicit(&s->rate_samples, 1, memory_order_relaxed) + 1 <=
        s->config.max_samples_per_second)
        return;
    atomic_store_explicit(&s->rate_since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&s->rate_samples, 0, memory_order_relaxed);
    step_interval(s, heap_id, 1);
}
