/* How much of the recorder's memory a target takes. */
#include "daemon/core.h"

#include "base/banned.h"

uint64_t hw_target_bytes(const struct hw_target *t)
{
    uint64_t n = hw_frames_bytes(&t->frames) + hw_jit_bytes(&t->jit) + t->tables.used +
                 t->unresolved.cap * sizeof *t->unresolved.v +
                 t->unnamed.cap * sizeof *t->unnamed.v + t->maps.maps.cap * sizeof *t->maps.maps.v +
                 hw_target_slices_bytes(&t->slices) +
                 t->resident.maps.cap * sizeof *t->resident.maps.v +
                 hw_measured_heap_bytes(&t->resident.calls);
    for (size_t i = 0; i < t->heaps.n; i++)
        n += hw_callsite_totals_bytes(&t->heaps.v[i].tally);
    return n + (t->feed ? atomic_load_explicit(&t->feed->bytes, memory_order_relaxed) : 0);
}
