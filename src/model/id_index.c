#include "model/id_index.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/radix.h"

#include "base/banned.h"

enum { FEW = 8 };

static int sort(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    struct hw_radix16 *pairs = malloc(n * sizeof *pairs);
    ix->sorted = malloc(n * sizeof *ix->sorted);
    ix->rows = malloc(n * sizeof *ix->rows);
    int rc = pairs && ix->sorted && ix->rows ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        pairs[i] = (struct hw_radix16){ids[i], (uint32_t)i, 0};
    if (rc == HW_OK)
        rc = hw_radix_sort16(pairs, n);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        if (ix->n && ix->sorted[ix->n - 1] == pairs[i].key)
            continue; /* equal ids are in the order of their rows: the first stays */
        ix->sorted[ix->n] = pairs[i].key;
        ix->rows[ix->n++] = pairs[i].a;
    }
    ix->n_duplicates = n - ix->n;
    ix->ids = ix->sorted;
    free(pairs);
    return rc;
}

static int make_buckets(struct hw_id_index *ix)
{
    uint64_t span = ix->ids[ix->n - 1] - ix->ids[0];
    while (ix->shift < 63 && span >> ix->shift >= ix->n)
        ix->shift++;
    ix->n_buckets = (size_t)(span >> ix->shift) + 1;
    ix->starts = malloc((ix->n_buckets + 1) * sizeof *ix->starts);
    if (!ix->starts)
        return HW_ENOMEM;
    size_t bucket = 0;
    for (size_t i = 0; i < ix->n; i++) {
        size_t mine = (size_t)((ix->ids[i] - ix->ids[0]) >> ix->shift);
        while (bucket <= mine)
            ix->starts[bucket++] = (uint32_t)i;
    }
    while (bucket <= ix->n_buckets)
        ix->starts[bucket++] = (uint32_t)ix->n;
    return HW_OK;
}

/* ---- places ---- */

enum { PAGE_WORDS = 1 << (HW_ID_PAGE_SHIFT - HW_ID_WORD_SHIFT) };

/* Finds where ids lie. False: too far from each other. */
static bool span_places(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    uint64_t low = UINT64_MAX, high = 0, differ = 0;
    for (size_t i = 0; i < n; i++) {
        low = ids[i] < low ? ids[i] : low;
        high = ids[i] > high ? ids[i] : high;
        differ |= ids[i] ^ ids[0];
    }
    ix->first = low;
    ix->align = differ ? (unsigned)__builtin_ctzll(differ) : 0;
    ix->last_place = (high - low) >> ix->align;
    return ix->last_place >> HW_ID_PAGE_SHIFT < n / 4 + 64;
}

/* Gives words to the pages that hold ids. False: too few ids in each; or no memory. */
static bool make_pages(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    size_t n_pages = (size_t)(ix->last_place >> HW_ID_PAGE_SHIFT) + 1, used = 1;
    ix->pages = calloc(n_pages, sizeof *ix->pages);
    if (!ix->pages)
        return false;
    for (size_t i = 0; i < n; i++)
        ix->pages[hw_id_place(ix, ids[i]) >> HW_ID_PAGE_SHIFT] = 1;
    for (size_t p = 0; p < n_pages; p++)
        used += ix->pages[p];
    if (used > n / 32 + 64 || used > UINT32_MAX / PAGE_WORDS)
        return false;
    size_t at = 0;
    for (size_t p = 0; p < n_pages; p++)
        if (ix->pages[p])
            ix->pages[p] = (uint32_t)(at += PAGE_WORDS);
    ix->words = calloc(used * PAGE_WORDS, sizeof *ix->words);
    ix->n_buckets = used * PAGE_WORDS;
    return ix->words != NULL;
}

static struct hw_id_word *word_of(const struct hw_id_index *ix, uint64_t place)
{
    return &ix->words[ix->pages[place >> HW_ID_PAGE_SHIFT] +
                      (place >> HW_ID_WORD_SHIFT & (PAGE_WORDS - 1))];
}

static void take_places(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    uint32_t before = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t place = hw_id_place(ix, ids[i]);
        word_of(ix, place)->taken |= 1u << (place & 31);
    }
    for (size_t w = 0; w < ix->n_buckets; w++) {
        ix->words[w].before = before;
        before += hw_id_bits_before(ix->words[w].taken, 0); /* before no bit: all */
    }
    ix->n = before;
    ix->n_duplicates = n - before;
}

/* The rows of ids that do not rise. */
static int make_rows(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    uint32_t *rows = malloc((ix->n + 1) * sizeof *rows), rank;
    if (!rows)
        return HW_ENOMEM;
    for (size_t i = n; i-- > 0;) /* backwards: of equal ones the first stays */
        if (hw_id_index_find(ix, ids[i], &rank))
            rows[rank] = (uint32_t)i;
    ix->rows = rows;
    return HW_OK;
}

int hw_id_index_init(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    bool rising = true;
    *ix = (struct hw_id_index){0};
    if (n == 0)
        return HW_OK;
    for (size_t i = 1; rising && i < n; i++)
        rising = ids[i - 1] < ids[i];
    if (span_places(ix, ids, n) && make_pages(ix, ids, n)) {
        take_places(ix, ids, n);
        return rising ? HW_OK : make_rows(ix, ids, n);
    }
    hw_id_index_done(ix);
    if (rising) {
        ix->ids = ids;
        ix->n = n;
    }
    int rc = rising ? HW_OK : sort(ix, ids, n);
    return rc < 0 ? rc : make_buckets(ix);
}

void hw_id_index_done(struct hw_id_index *ix)
{
    free(ix->pages);
    free(ix->words);
    free(ix->sorted);
    free(ix->rows);
    free(ix->starts);
    *ix = (struct hw_id_index){0};
}

bool hw_id_index_find_sorted(const struct hw_id_index *ix, uint64_t id, uint32_t *row)
{
    if (ix->n == 0 || id < ix->ids[0] || id > ix->ids[ix->n - 1])
        return false;
    size_t bucket = (size_t)((id - ix->ids[0]) >> ix->shift);
    size_t low = ix->starts[bucket], high = ix->starts[bucket + 1], end = high;
    while (high - low > FEW) {
        size_t mid = low + (high - low) / 2;
        if (ix->ids[mid] <= id)
            low = mid;
        else
            high = mid;
    }
    while (low < end && ix->ids[low] < id)
        low++;
    if (low >= end || ix->ids[low] != id)
        return false;
    *row = ix->rows ? ix->rows[low] : (uint32_t)low;
    return true;
}
