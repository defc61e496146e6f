#include "elf/function_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "elf/image.h"

#include "base/banned.h"

#define MAX_SECTION (64u << 20)
#define PAIRS_AT    12u

static uint32_t u32_of(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

void hw_function_table_done(struct hw_function_table *t)
{
    free(t->hdr);
    free(t->frames);
    *t = (struct hw_function_table){0};
}

bool hw_function_table_read(struct hw_function_table *t, const struct hw_image *img)
{
    static const uint8_t usual[] = {1, 0x1b, 0x03, 0x3b}; /* version, encodings */
    const struct hw_image_section *h = hw_image_find(img, ".eh_frame_hdr");
    const struct hw_image_section *s = hw_image_find(img, ".eh_frame");
    *t = (struct hw_function_table){0};
    if (!h || !s || hw_image_read_section(img, h, MAX_SECTION, &t->hdr, &t->n_hdr, NULL) < 0 ||
        hw_image_read_section(img, s, MAX_SECTION, &t->frames, &t->n_frames, NULL) < 0 ||
        t->n_hdr < PAIRS_AT || memcmp(t->hdr, usual, sizeof usual) != 0)
        return false;
    t->hdr_va = h->va;
    t->frames_va = s->va;
    t->n = u32_of(t->hdr + 8);
    return t->n <= (t->n_hdr - PAIRS_AT) / 8;
}

static uint64_t start_of(const struct hw_function_table *t, uint32_t i)
{
    return t->hdr_va + (uint64_t)(int32_t)u32_of(t->hdr + PAIRS_AT + (size_t)i * 8);
}

bool hw_function_of(const struct hw_function_table *t, uint64_t va, uint64_t *start,
                    uint64_t *n_bytes)
{
    uint32_t lo = 0;
    for (uint32_t hi = t->n; lo < hi;) { /* the first that begins after va */
        uint32_t mid = lo + (hi - lo) / 2;
        if (start_of(t, mid) <= va)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return false;
    /* length, CIE, beginning, bytes */
    const uint8_t *pair = t->hdr + PAIRS_AT + (size_t)(lo - 1) * 8;
    uint64_t at = t->hdr_va + (uint64_t)(int32_t)u32_of(pair + 4) - t->frames_va;
    if (at > t->n_frames || t->n_frames - at < 16)
        return false;
    *start = start_of(t, lo - 1);
    *n_bytes = u32_of(t->frames + at + 12);
    return va - *start < *n_bytes;
}

uint64_t hw_function_bytes(const struct hw_function_table *t, uint64_t va)
{
    uint64_t start, n_bytes;
    return hw_function_of(t, va, &start, &n_bytes) && start == va ? n_bytes : 0;
}
