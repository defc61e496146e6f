#include "daemon/dump/pins.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

#define HEADER    8u
#define STEP      16u
#define SMALLEST  32u
#define OWN_PAGES (UINT64_C(128) << 10)
#define USER_END  (UINT64_C(1) << 56)

struct block {
    uint64_t lo, hi;
    uint32_t stack;
};

/* False: it pins nothing, or is impossible. A block with a mapping of its own begins 16 bytes
 * after the start of a page. */
static bool block_of(const struct hw_idle_sample *s, struct block *out)
{
    bool has_mapping = s->alloc_size >= OWN_PAGES && s->address % HW_PINS_PAGE == 2 * HEADER;
    if (has_mapping || s->address < HEADER || s->address >= USER_END || s->alloc_size >= USER_END)
        return false;
    uint64_t bytes = (s->alloc_size + HEADER + STEP - 1) / STEP * STEP;
    out->lo = s->address - HEADER;
    out->hi = out->lo + (bytes < SMALLEST ? SMALLEST : bytes);
    out->stack = s->where;
    return true;
}

static int by_address(const void *pa, const void *pb)
{
    const struct block *a = pa, *b = pb;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

static int add_piece(struct hw_pins_map *m, const struct block *b, uint64_t page)
{
    uint64_t begin = page * HW_PINS_PAGE, end = begin + HW_PINS_PAGE;
    uint64_t lo = b->lo > begin ? b->lo : begin, hi = b->hi < end ? b->hi : end;
    if (m->numbers.n == 0 || m->numbers.v[m->numbers.n - 1] != page) {
        struct hw_pins_page fresh = {.first = m->pieces.n};
        if (hw_vec_push(&m->numbers, page) < 0 || hw_vec_push(&m->pages, fresh) < 0)
            return HW_ENOMEM;
    }
    struct hw_pins_page *p = &m->pages.v[m->pages.n - 1];
    struct hw_pins_piece piece = {b->stack, (uint32_t)(hi - lo)};
    if (hw_vec_push(&m->pieces, piece) < 0)
        return HW_ENOMEM;
    p->n++;
    p->used = p->used + piece.bytes < HW_PINS_PAGE ? p->used + piece.bytes : (uint32_t)HW_PINS_PAGE;
    return HW_OK;
}

/* Pages between a block's first and last are full: they pin nothing. */
static int add_block(struct hw_pins_map *m, const struct block *b)
{
    uint64_t first = b->lo / HW_PINS_PAGE, last = (b->hi - 1) / HW_PINS_PAGE;
    uint64_t newest = m->numbers.n ? m->numbers.v[m->numbers.n - 1] : 0;
    int rc = first >= newest ? add_piece(m, b, first) : HW_OK; /* after it: blocks overlap */
    if (rc == HW_OK && last != first && last >= newest)
        rc = add_piece(m, b, last);
    return rc;
}

int hw_pins_map_init(struct hw_pins_map *m, const struct hw_idle_sample *s, size_t n)
{
    hw_autofree struct block *blocks = calloc(n + 1, sizeof *blocks);
    size_t n_blocks = 0;
    int rc = blocks ? HW_OK : HW_ENOMEM;
    *m = (struct hw_pins_map){0};
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        n_blocks += block_of(&s[i], &blocks[n_blocks]);
    if (n_blocks)
        qsort(blocks, n_blocks, sizeof *blocks, by_address);
    for (size_t i = 0; rc == HW_OK && i < n_blocks; i++)
        rc = add_block(m, &blocks[i]);
    if (rc < 0)
        hw_pins_map_done(m);
    return rc;
}

void hw_pins_map_done(struct hw_pins_map *m)
{
    hw_vec_done(&m->numbers);
    hw_vec_done(&m->pages);
    hw_vec_done(&m->pieces);
}

static int divide_page(struct hw_measured_heap *p, const struct hw_pins_map *m,
                       const struct hw_pins_page *page)
{
    double free_bytes = (double)(HW_PINS_PAGE - page->used);
    uint64_t sum = 0;
    for (size_t i = 0; i < page->n; i++)
        sum += m->pieces.v[page->first + i].bytes;
    for (size_t i = 0; free_bytes > 0 && i < page->n; i++) {
        const struct hw_pins_piece *piece = &m->pieces.v[page->first + i];
        double share = free_bytes * (double)piece->bytes / (double)sum;
        if (hw_measured_heap_add(p, piece->stack, share, 1) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_pins_take(struct hw_measured_heap *p, const struct hw_pins_map *m, const bool *resident,
                 struct hw_snap_book *out)
{
    int rc = HW_OK;
    hw_measured_heap_begin(p);
    for (size_t i = 0; rc == HW_OK && i < m->pages.n; i++)
        if (resident[i])
            rc = divide_page(p, m, &m->pages.v[i]);
    return rc == HW_OK ? hw_measured_heap_tell(p, out) : rc;
}
