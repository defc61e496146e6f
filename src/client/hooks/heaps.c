/*
 * heaps.c - the program's own heaps (include/heapwise/heap_profile.h)
 *
 * Callbacks run only here, on the thread that
 * notices the change first: each heap remembers the generation in which it was enabled, and the
 * thread that changes that word by compare-and-swap makes the call, outside of any visit.
 */
#include "heapwise/heap_profile.h"

#include <errno.h>
#include <string.h>

#include "client/client.h"
#include "client/hooks/heaps.h"
#include "client/sample/adaptive.h"
#include "client/sample/capture.h"
#include "client/sample/heap_table.h"
#include "client/sample/live_set.h"
#include "client/sample/sampler.h"
#include "client/session/client_session.h"
#include "client/thread/client_guard.h"

struct AHeapProfileEnableCallbackInfo {
    uint64_t interval;
};
struct AHeapProfileDisableCallbackInfo {
    uint32_t reserved;
};

/* ---- callbacks ---- */

/* The generation and interval with which this heap is profiled now; 0 = it is not. */
static uint32_t enabled_now(uint32_t id, uint64_t *interval)
{
    struct hw_client_guard v;
    uint32_t generation = 0;
    hw_enter(&v);
    if (v.session) {
        *interval = atomic_load_explicit(&v.session->interval[id], memory_order_relaxed);
        generation = *interval ? v.session->generation : 0;
    }
    hw_leave(&v);
    return generation;
}

/* Syncs the thread with the control page's generation, then calls the heap back if that changed
 * anything for it. */
static void sync_heap(uint32_t id)
{
    struct hw_tls *t = &hw_here;
    struct AHeapInfo *h = &hw_heap_table[id];
    uint64_t interval = 0;
    int saved = errno;
    uint32_t generation = atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    bool outdated = t->generation != generation || hw_client_session_may_retry(generation);
    if (outdated && t->busy == 0)
        hw_client_session_sync(t, generation);
    uint32_t now = enabled_now(id, &interval);
    uint32_t enabled_in = atomic_load(&h->enabled_in);
    if (now != enabled_in && atomic_compare_exchange_strong(&h->enabled_in, &enabled_in, now)) {
        if (enabled_in != 0 && h->disabled)
            h->disabled(h->disabled_data, &(AHeapProfileDisableCallbackInfo){0});
        if (now != 0 && h->enabled)
            h->enabled(h->enabled_data, &(AHeapProfileEnableCallbackInfo){interval});
    }
    errno = saved;
}

static bool usable(uint32_t id)
{
    return id > HW_HEAP_ID_LIBC && id < hw_heaps_used() &&
           atomic_load(&hw_heap_table[id].registered);
}

/* ---- the public functions ---- */

HW_EXPORT AHeapInfo *AHeapInfo_create(const char *heap_name)
{
    size_t n = heap_name ? strnlen(heap_name, HW_HEAP_NAME_MAX) : HW_HEAP_NAME_MAX;
    if (n >= HW_HEAP_NAME_MAX)
        return NULL;
    uint32_t id = atomic_load(&hw_n_heaps);
    do {
        if (id >= HW_HEAP_ID_ANON)
            return NULL;
    } while (!atomic_compare_exchange_weak(&hw_n_heaps, &id, id + 1));
    memcpy(hw_heap_table[id].name, heap_name, n);
    return &hw_heap_table[id];
}

HW_EXPORT AHeapInfo *AHeapInfo_setEnabledCallback(
    AHeapInfo *heap, void (*callback)(void *, const AHeapProfileEnableCallbackInfo *), void *data)
{
    if (!heap || atomic_load(&heap->registered))
        return NULL;
    heap->enabled = callback;
    heap->enabled_data = data;
    return heap;
}

HW_EXPORT AHeapInfo *AHeapInfo_setDisabledCallback(
    AHeapInfo *heap, void (*callback)(void *, const AHeapProfileDisableCallbackInfo *), void *data)
{
    if (!heap || atomic_load(&heap->registered))
        return NULL;
    heap->disabled = callback;
    heap->disabled_data = data;
    return heap;
}

HW_EXPORT uint64_t
AHeapProfileEnableCallbackInfo_getSamplingInterval(const AHeapProfileEnableCallbackInfo *info)
{
    return info->interval;
}

HW_EXPORT uint32_t AHeapProfile_registerHeap(AHeapInfo *heap)
{
    uint32_t none = 0;
    if (!heap)
        return 0;
    uint32_t id = (uint32_t)(heap - hw_heap_table);
    if (!atomic_compare_exchange_strong(&heap->registered, &none, 1))
        return id;
    int saved = errno;
    struct hw_client_guard v;
    hw_enter(&v);
    if (v.session) {
        hw_heaps_announce_one(v.session, id, hw_heaps_select_one(v.session, id, heap->name));
        hw_interval_refresh(v.session, id);
    }
    hw_leave(&v);
    sync_heap(id);
    errno = saved;
    return id;
}

/* weight 0: the sampler decides. */
static bool report(uint32_t id, uint64_t alloc_id, uint64_t size, uint64_t weight,
                   const struct hw_call_site *site)
{
    if (!usable(id))
        return false;
    sync_heap(id);
    if (atomic_load_explicit(&hw_heap_table[id].enabled_in, memory_order_relaxed) == 0)
        return false;
    uint32_t flags = weight ? (uint32_t)HW_ALLOC_APP_SAMPLED : 0;
    if (weight == 0) {
        struct hw_client_guard v;
        hw_enter(&v);
        if (v.session && !v.nested)
            weight = hw_sampler_take_heap(v.session, id, size);
        hw_leave(&v);
    }
    if (weight == 0)
        return false;
    struct hw_event e = {.id = alloc_id,
                         .size = size,
                         .weight = weight,
                         .heap_id = id,
                         .flags = flags,
                         .site = site};
    return hw_record_alloc(&e);
}

HW_EXPORT bool AHeapProfile_reportAllocation(uint32_t heap_id, uint64_t alloc_id, uint64_t size)
{
    HW_SITE(site);
    return report(heap_id, alloc_id, size, 0, &site);
}

HW_EXPORT bool AHeapProfile_reportSample(uint32_t heap_id, uint64_t alloc_id, uint64_t size)
{
    HW_SITE(site);
    return size != 0 && report(heap_id, alloc_id, size, size, &site);
}

bool hw_heaps_sample(uint32_t id, uint64_t alloc_id, uint64_t size, uint64_t weight)
{
    HW_SITE(site);
    return weight != 0 && report(id, alloc_id, size, weight, &site);
}

static void call_enabled(void *fn, const AHeapProfileEnableCallbackInfo *info)
{
    ((void (*)(uint64_t))fn)(info->interval);
}

static void call_disabled(void *fn, const AHeapProfileDisableCallbackInfo *info)
{
    (void)info;
    ((void (*)(void))fn)();
}

uint32_t hw_heaps_make(const char *name, void (*enabled)(uint64_t), void (*disabled)(void))
{
    AHeapInfo *h = AHeapInfo_create(name);
    if (!h)
        return 0;
    h->quiet = true;
    if (enabled)
        (void)AHeapInfo_setEnabledCallback(h, call_enabled, (void *)enabled);
    if (disabled)
        (void)AHeapInfo_setDisabledCallback(h, call_disabled, (void *)disabled);
    return AHeapProfile_registerHeap(h);
}

void hw_heaps_sync(uint32_t id)
{
    sync_heap(id);
}

HW_EXPORT void AHeapProfile_reportFree(uint32_t heap_id, uint64_t alloc_id)
{
    if (!usable(heap_id))
        return;
    sync_heap(heap_id);
    if (hw_live_set_maybe(alloc_id))
        hw_report_free(heap_id, alloc_id);
}

HW_EXPORT bool AHeapProfile_initSession(void *(*malloc_fn)(size_t), void (*free_fn)(void *))
{
    int saved = errno;
    if (!malloc_fn || !free_fn)
        return false;
    if (!atomic_load(&hw_process_page.session))
        hw_client_session_start(0, 1000000000u);
    bool on = atomic_load(&hw_process_page.session) != NULL;
    errno = saved;
    return on;
}
