/*
 * takes.h - what a block takes beside the bytes that were asked for
 *
 * Why:     the recorder's account of the allocator's overhead, for sessions that ask for it.
 * Shapes:  HW_ALLOC_TAKES_SHIFT of a record's flags (wire/records.h).
 */
#ifndef HW_CLIENT_SAMPLE_TAKES_H
#define HW_CLIENT_SAMPLE_TAKES_H

#include <string.h>

#include "client/client.h"
#include "client/sample/capture.h"

#define HW_TAKES_PAGE_BYTES 4096u

/*
 * glibc leaves in a chunk what is too small to be one: 16 bytes, of aligned ones up to 32. What
 * alignment leaves before the header is free, or is never touched in a mapping of its own, and so
 * are the pages behind that block.
 */
static inline uint32_t hw_takes_beyond_need(const struct hw_event *e)
{
    uint64_t header, needs = (e->size + 8 + 15) & ~UINT64_C(15);
    memcpy(&header, (const void *)(uintptr_t)(e->id - sizeof header), sizeof header);
    if (needs < 32)
        needs = 32;
    uint64_t has = header & ~UINT64_C(7), from = (e->id - 16) & (HW_TAKES_PAGE_BYTES - 1);
    uint32_t power = hw_alloc_takes(e->flags) % HW_ALLOC_WHOLE_PAGES;
    bool is_own = header & 2; /* IS_MMAPPED */
    power = is_own && power >= HW_ALLOC_LEAST_POWER ? (power - HW_ALLOC_LEAST_POWER + 1) & 31 : 0;
    if (is_own)
        has =
            (from + 16 + e->size + HW_TAKES_PAGE_BYTES - 1) & ~(uint64_t)(HW_TAKES_PAGE_BYTES - 1);
    uint64_t beyond = has > needs ? (has - needs) / 8 : 0;
    beyond = beyond < HW_ALLOC_MAX_BEYOND ? beyond : HW_ALLOC_MAX_BEYOND - 1;
    return power << HW_ALLOC_BEYOND_BITS | (1 + (uint32_t)beyond);
}

/* With what the block takes, as far as the recorder asked for it. */
static inline uint32_t hw_takes_flags(const struct hw_client_session *s, const struct hw_event *e)
{
    uint32_t flags = e->flags & ~(HW_ALLOC_MAX_TAKES << HW_ALLOC_TAKES_SHIFT);
    if (e->heap_id != HW_HEAP_ID_LIBC)
        return flags;
    if ((s->config.flags & HW_CC_CHUNKS) && hw_allocator_is_libc)
        return flags | hw_takes_beyond_need(e) << HW_ALLOC_TAKES_SHIFT;
    return s->config.flags & HW_CC_ALIGNED ? e->flags : flags;
}

#endif
