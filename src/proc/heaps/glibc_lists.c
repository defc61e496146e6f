#include "proc/heaps/glibc_lists.h"

#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

#define PAGE         HW_TARGET_PAGE
#define STEP         16u
#define SMALLEST     32u
#define FLAGS        UINT64_C(7)
#define CHUNK_STRUCT 48u                 /* sizeof(struct malloc_chunk) */
#define MAX_FAST     (UINT64_C(1) << 20) /* chunks in one arena's fastbins */
#define LATE_EACH    256u

uint64_t hw_glibc_returnable(struct hw_target_memory *m, uint64_t chunk, uint64_t bytes)
{
    uint64_t lo = (chunk + CHUNK_STRUCT + PAGE - 1) / PAGE * PAGE,
             hi = (chunk + bytes) / PAGE * PAGE;
    return hi > lo ? hw_target_resident(m, lo, hi) : 0;
}

/* Of the main arena, whose top it returns, too. */
uint64_t hw_glibc_top_returnable(struct hw_target_memory *m, uint64_t top, uint64_t bytes)
{
    uint64_t area = bytes > SMALLEST + 1 ? bytes - SMALLEST - 1 : 0, end = top + bytes;
    return hw_target_resident(m, end - area / PAGE * PAGE, end);
}

static bool is_chunk(const struct hw_glibc_lists *l, uint64_t chunk, uint64_t bytes)
{
    return bytes >= SMALLEST && bytes % STEP == 0 && bytes <= UINT64_MAX - chunk &&
           l->is_in_heaps(l->heaps, chunk) && l->is_in_heaps(l->heaps, chunk + bytes - STEP);
}

/* A record's bin is a chunk without a size. */
static int add_bin(const struct hw_glibc_lists *l, size_t bin, uint64_t *is_free,
                   uint64_t *returnable)
{
    uint64_t self = l->bins_at + 16 * bin - 16, before = self, next, n = 0;
    uint64_t w[3]; /* size, the next one, the one before */
    for (uint64_t at = l->bins[2 * bin]; at != self; before = at, at = next) {
        int rc = at % STEP == 0 ? hw_target_read(l->memory, at + 8, w, sizeof w) : HW_EFORMAT;
        if (rc < 0)
            return rc;
        uint64_t bytes = w[0] & ~FLAGS;
        next = w[1];
        if (w[2] != before || !is_chunk(l, at, bytes) || bytes > l->most - *is_free)
            return HW_EFORMAT;
        *is_free += bytes;
        *returnable += hw_glibc_returnable(l->memory, at, bytes);
        if (++n % LATE_EACH == 0 && hw_target_is_late(l->memory))
            return HW_ETIMEOUT;
    }
    return HW_OK;
}

int hw_glibc_lists_sum(const struct hw_glibc_lists *l, uint64_t *is_free, uint64_t *returnable)
{
    int rc = HW_OK;
    *is_free = *returnable = 0;
    for (size_t i = 0; rc == HW_OK && i < HW_GLIBC_BINS; i++)
        rc = add_bin(l, i, is_free, returnable);
    return rc;
}

static int by_address(const void *pa, const void *pb)
{
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return a < b ? -1 : a > b;
}

static int add_fast(const struct hw_glibc_lists *l, uint64_t first, uint64_t bytes,
                    hw_glibc_chunks *out, uint64_t *sum)
{
    uint64_t link, header;
    for (uint64_t at = first; at != 0; at = link ^ (at + 16) >> 12) {
        int rc = at % STEP == 0 && l->is_in_heaps(l->heaps, at)
                     ? hw_target_word_anywhere(l->memory, at + 8, &header)
                     : HW_EFORMAT;
        if (rc == HW_OK)
            rc = hw_target_word_anywhere(l->memory, at + 16, &link);
        if (rc < 0)
            return rc;
        if ((header & ~FLAGS) != bytes)
            return HW_EFORMAT;
        if (out->n >= MAX_FAST || (out->n % 1024 == 1023 && hw_target_is_late(l->memory)))
            return HW_ETIMEOUT;
        if (hw_vec_push(out, at) < 0)
            return HW_ENOMEM;
        *sum += bytes;
    }
    return HW_OK;
}

int hw_glibc_lists_fast(const struct hw_glibc_lists *l, hw_glibc_chunks *out, uint64_t *sum)
{
    int rc = HW_OK;
    out->n = 0;
    for (size_t i = 0; rc == HW_OK && i < HW_GLIBC_FASTBINS; i++)
        rc = add_fast(l, l->fast[i], (i + 2) * STEP, out, sum);
    if (rc == HW_OK && out->n)
        qsort(out->v, out->n, sizeof *out->v, by_address);
    return rc;
}
