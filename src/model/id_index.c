#include "model/id_index.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/radix.h"
#include "base/side_thread.h"

#include "base/banned.h"

enum { LINEAR_SEARCH = 8 };

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
            continue; /* equal ids are in the order of their rows: keep the first */
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

/* ---- bitmap ---- */

enum { PAGE_WORDS = 1 << (HW_ID_PAGE_SHIFT - HW_ID_WORD_SHIFT) };

/* Facts about all ids, found by halves. */
struct span {
    const uint64_t *ids;
    struct hw_id_index *ix;
    struct half {
        uint64_t low, high, differ; /* bits in which any differs from the first id */
        bool is_ascending;
    } half[2];
};

static void scan_range(void *ctx, size_t from, size_t end)
{
    struct span *s = ctx;
    const uint64_t *ids = s->ids;
    struct half h = {UINT64_MAX, 0, 0, true};
    for (size_t i = from; i < end; i++) {
        h.is_ascending &= i == 0 || ids[i - 1] < ids[i];
        h.low = ids[i] < h.low ? ids[i] : h.low;
        h.high = ids[i] > h.high ? ids[i] : h.high;
        h.differ |= ids[i] ^ ids[0];
    }
    s->half[from > 0] = h;
}

/* Finds the range and alignment of ids. False: they are too sparse for the bitmap. */
static bool find_span(struct hw_id_index *ix, const uint64_t *ids, size_t n, bool *is_ascending)
{
    struct span s = {.ids = ids, .half = {{UINT64_MAX, 0, 0, true}, {UINT64_MAX, 0, 0, true}}};
    hw_in_halves(n, scan_range, &s);
    const struct half *a = &s.half[0], *b = &s.half[1];
    uint64_t differ = a->differ | b->differ, high = a->high > b->high ? a->high : b->high;
    *is_ascending = a->is_ascending && b->is_ascending;
    ix->first = a->low < b->low ? a->low : b->low;
    ix->align = differ ? (unsigned)__builtin_ctzll(differ) : 0;
    ix->last_place = (high - ix->first) >> ix->align;
    return ix->last_place >> HW_ID_PAGE_SHIFT < n / 4 + 64;
}

/* Both halves may set the same page; relaxed, as only the result counts. */
static void set_pages(void *ctx, size_t from, size_t end)
{
    const struct span *s = ctx;
    for (size_t i = from; i < end; i++)
        __atomic_store_n(&s->ix->pages[hw_id_place(s->ix, s->ids[i]) >> HW_ID_PAGE_SHIFT], 1,
                         __ATOMIC_RELAXED);
}

/* Allocates words for the pages with ids. False: too few ids per page, or no memory. */
static bool make_pages(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    size_t n_pages = (size_t)(ix->last_place >> HW_ID_PAGE_SHIFT) + 1, used = 1;
    ix->pages = calloc(n_pages, sizeof *ix->pages);
    if (!ix->pages)
        return false;
    hw_in_halves(n, set_pages, &(struct span){.ids = ids, .ix = ix});
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

static void set_range(void *ctx, size_t from, size_t end)
{
    const struct span *s = ctx;
    for (size_t i = from; i < end; i++) {
        uint64_t place = hw_id_place(s->ix, s->ids[i]);
        word_of(s->ix, place)->taken |= 1u << (place & 31);
    }
}

struct part {
    struct span *s;
    size_t from, end;
};

static int set_part(void *ctx)
{
    const struct part *p = ctx;
    set_range(p->s, p->from, p->end);
    return HW_OK;
}

/* For ascending ids: the second half begins with a word of its own. */
static void set_halves(struct span *s, size_t n)
{
    struct hw_side_thread beside;
    size_t mid = n / 2;
    while (mid > 0 && mid < n &&
           hw_id_place(s->ix, s->ids[mid - 1]) >> HW_ID_WORD_SHIFT ==
               hw_id_place(s->ix, s->ids[mid]) >> HW_ID_WORD_SHIFT)
        mid++;
    struct part second = {s, mid, n};
    if (n < HW_WORTH_TWO) {
        set_range(s, 0, n);
        return;
    }
    hw_side_thread_begin(&beside, set_part, &second);
    set_range(s, 0, mid);
    (void)hw_side_thread_end(&beside); /* set_part cannot fail */
}

static void set_bits(struct hw_id_index *ix, const uint64_t *ids, size_t n, bool is_ascending)
{
    struct span s = {.ids = ids, .ix = ix};
    uint32_t before = 0;
    if (is_ascending)
        set_halves(&s, n);
    else /* ids of both halves share words */
        set_range(&s, 0, n);
    for (size_t w = 0; w < ix->n_buckets; w++) {
        ix->words[w].before = before;
        before += hw_id_bits_before(ix->words[w].taken, 0); /* bit 0: counts all bits */
    }
    ix->n = before;
    ix->n_duplicates = n - before;
}

/* The rows of ids that are not in ascending order. */
static int make_rows(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    uint32_t *rows = malloc((ix->n + 1) * sizeof *rows), rank;
    if (!rows)
        return HW_ENOMEM;
    for (size_t i = n; i-- > 0;) /* backwards: the first of equal ones stays */
        if (hw_id_index_find(ix, ids[i], &rank))
            rows[rank] = (uint32_t)i;
    ix->rows = rows;
    return HW_OK;
}

int hw_id_index_init(struct hw_id_index *ix, const uint64_t *ids, size_t n)
{
    bool ascending;
    *ix = (struct hw_id_index){0};
    if (n == 0)
        return HW_OK;
    if (find_span(ix, ids, n, &ascending) && make_pages(ix, ids, n)) {
        set_bits(ix, ids, n, ascending);
        return ascending ? HW_OK : make_rows(ix, ids, n);
    }
    hw_id_index_done(ix);
    if (ascending) {
        ix->ids = ids;
        ix->n = n;
    }
    int rc = ascending ? HW_OK : sort(ix, ids, n);
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
    while (high - low > LINEAR_SEARCH) {
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
