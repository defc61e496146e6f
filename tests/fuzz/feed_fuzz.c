/* What a target may write into its ring: the input is records, each a type, a length in 8 bytes and
 * a body. What they make is taken as the recorder takes it: names, stacks, a snapshot. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arch.h"
#include "base/error.h"
#include "daemon/books/ring_consumer.h"
#include "daemon/code/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void put(struct hw_ring_writer *w, uint32_t type, uint32_t size, const uint8_t *p, size_t n)
{
    uint64_t pos = hw_ring_reserve(w, size);
    if (pos == 0)
        return;
    uint8_t *rec = hw_ring_at(w, pos);
    memset(rec + 8, 0, size - 8);
    memcpy(rec + 8, p, n < size - 8 ? n : size - 8);
    hw_ring_commit(w, pos, size, (enum hw_rec_type)type);
}

static void read_all(struct hw_ring_consumer *feed)
{
    struct hw_frames f;
    struct hw_snapshot *s;
    if (hw_frames_init(&f, HW_ARCH_HERE) < 0)
        abort();
    (void)hw_ring_consumer_drain(feed, UINT64_MAX, 1000, 1);
    for (size_t i = 0; i < feed->managed.names.n; i++)
        if (hw_managed_frames_name(&f.managed, f.cs, feed->managed.names.v[i]) < 0)
            abort();
    size_t n_unnamed = 0;
    for (size_t i = 0; i < feed->stacks.n; i++) {
        n_unnamed += !hw_frames_named(&f, feed->stacks.v[i]);
        if (hw_frames_resolve(&f, feed->stacks.v[i]) < 0)
            abort();
    }
    if (n_unnamed && feed->managed.n_unnamed == 0 && feed->managed.n_lost == 0)
        for (size_t i = 0; i < feed->stacks.n;
             i++) /* only the key that no client makes is left out */
            for (uint32_t k = 0; k < feed->stacks.v[i]->n_frames; k++)
                if (hw_stack_is_managed(feed->stacks.v[i], k) &&
                    feed->stacks.v[i]->pcs[k] != HW_MAP64_NO_KEY &&
                    !hw_managed_frames_has(&f.managed, feed->stacks.v[i]->pcs[k]))
                    abort();
    if (hw_ring_consumer_snapshot(feed, HW_SNAP_PEAK, &s) == HW_OK)
        hw_snapshot_free(s);
    hw_frames_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_ring_reader r;
    struct hw_ring_writer w;
    if (hw_ring_create(&r, HW_RING_MIN_BYTES) < 0)
        return 0;
    if (hw_ring_attach(r.fd, &w) < 0)
        abort();
    hw_ring_close_fd(&r);
    struct hw_ring_consumer *feed = calloc(1, sizeof *feed);
    if (!feed)
        abort();
    hw_ring_consumer_init(feed, &r, true);
    feed->arch = HW_ARCH_HERE;
    while (n > 2) {
        uint32_t size = (uint32_t)(data[1] + 1) * 8;
        size_t body = n - 2 < size - 8 ? n - 2 : size - 8;
        put(&w, data[0] % (HW_REC_TYPE_COUNT + 1), size, data + 2, body);
        data += 2 + body;
        n -= 2 + body;
    }
    read_all(feed);
    hw_ring_detach(&w);
    hw_ring_consumer_done(feed);
    free(feed);
    return 0;
}
