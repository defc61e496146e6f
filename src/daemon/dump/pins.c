#include "daemon/dump/pins.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "proc/glibc_heap.h"

#include "base/banned.h"

#define HEADER    8u
#define STEP      16u
#define SMALLEST  32u
#define OWN_PAGES (UINT64_C(128) << 10)
#define USER_END  (UINT64_C(1) << 56)

/* False: it pins nothing, or is impossible. A block with a mapping of its own begins 16 bytes
 * after the start of a page. */
static bool block_of(const struct hw_idle_sample *s, uint64_t interval_bytes,
                     struct hw_pins_block *out)
{
    bool has_mapping = s->alloc_size >= OWN_PAGES && s->address % HW_PINS_PAGE == 2 * HEADER;
    if (has_mapping || s->address < 2 * HEADER || s->address >= USER_END ||
        s->alloc_size >= USER_END)
        return false;
    uint64_t bytes = (s->alloc_size + HEADER + STEP - 1) / STEP * STEP;
    double size = (double)s->alloc_size, interval = (double)interval_bytes;
    *out = (struct hw_pins_block){.lo = s->address - HEADER,
                                  .stack = s->where,
                                  .weight = size > 0 ? (double)s->sample_size / size : 1};
    out->hi = out->lo + (bytes < SMALLEST ? SMALLEST : bytes);
    /* A Poisson number by interval / size (daemon/books/books.h). */
    if (size > 0 && size < interval)
        out->variance = interval / size * out->weight;
    return true;
}

static int by_address(const void *pa, const void *pb)
{
    const struct hw_pins_block *a = pa, *b = pb;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

static uint64_t region_of(uint64_t address)
{
    return address >> HW_PINS_REGION;
}

/* One of `of` regions, as if by chance. */
static bool is_chosen(uint64_t address, uint64_t of)
{
    return of <= 1 || hw_hash_u64(region_of(address)) % of == 0;
}

static int take_blocks(struct hw_pins_map *m, const struct hw_idle_sample *s, size_t n,
                       uint64_t interval_bytes)
{
    uint64_t of = interval_bytes > 1 ? n / HW_PINS_BLOCKS + 1 : 1;
    struct hw_pins_block b;
    for (size_t i = 0; i < n; i++) {
        if (!block_of(&s[i], interval_bytes, &b))
            continue;
        m->all += b.weight;
        if (is_chosen(b.lo, of) && hw_vec_push(&m->blocks, b) < 0)
            return HW_ENOMEM;
    }
    if (m->blocks.n)
        qsort(m->blocks.v, m->blocks.n, sizeof *m->blocks.v, by_address);
    return HW_OK;
}

static int add_piece(struct hw_pins_map *m, size_t block, uint64_t page)
{
    const struct hw_pins_block *b = &m->blocks.v[block];
    uint64_t begin = page * HW_PINS_PAGE, end = begin + HW_PINS_PAGE;
    uint64_t lo = b->lo > begin ? b->lo : begin, hi = b->hi < end ? b->hi : end;
    if (m->numbers.n == 0 || m->numbers.v[m->numbers.n - 1] != page) {
        struct hw_pins_page fresh = {.first = m->pieces.n};
        if (hw_vec_push(&m->numbers, page) < 0 || hw_vec_push(&m->pages, fresh) < 0)
            return HW_ENOMEM;
    }
    struct hw_pins_page *p = &m->pages.v[m->pages.n - 1];
    struct hw_pins_piece piece = {(uint32_t)block, (uint32_t)(hi - lo)};
    if (hw_vec_push(&m->pieces, piece) < 0)
        return HW_ENOMEM;
    p->n++;
    p->used = p->used + piece.bytes < HW_PINS_PAGE ? p->used + piece.bytes : (uint32_t)HW_PINS_PAGE;
    return HW_OK;
}

/* Pages between a block's first and last are full: they pin nothing. */
static int add_block(struct hw_pins_map *m, size_t block)
{
    const struct hw_pins_block *b = &m->blocks.v[block];
    uint64_t first = b->lo / HW_PINS_PAGE, last = (b->hi - 1) / HW_PINS_PAGE;
    uint64_t newest = m->numbers.n ? m->numbers.v[m->numbers.n - 1] : 0;
    int rc = first >= newest ? add_piece(m, block, first) : HW_OK; /* after it: blocks overlap */
    if (rc == HW_OK && last != first && last >= newest)
        rc = add_piece(m, block, last);
    return rc;
}

int hw_pins_map_init(struct hw_pins_map *m, const struct hw_idle_sample *s, size_t n,
                     uint64_t interval_bytes)
{
    *m = (struct hw_pins_map){0};
    int rc = n < UINT32_MAX ? take_blocks(m, s, n, interval_bytes) : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < m->blocks.n; i++)
        rc = add_block(m, i);
    if (rc < 0)
        hw_pins_map_done(m);
    return rc;
}

void hw_pins_map_done(struct hw_pins_map *m)
{
    hw_vec_done(&m->blocks);
    hw_vec_done(&m->numbers);
    hw_vec_done(&m->pages);
    hw_vec_done(&m->pieces);
}

/* ---- who pins it ---- */

/* used: of blocks that are not known, too. */
static void divide_page(struct hw_pins_map *m, const struct hw_pins_page *page)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < page->n; i++)
        sum += m->pieces.v[page->first + i].bytes;
    uint64_t used = page->used > sum ? page->used : sum;
    if (used >= HW_PINS_PAGE && page->used >= HW_PINS_PAGE)
        return;
    double left = page->used < HW_PINS_PAGE ? (double)(HW_PINS_PAGE - page->used) : 0;
    for (size_t i = 0; i < page->n; i++) {
        const struct hw_pins_piece *piece = &m->pieces.v[page->first + i];
        m->blocks.v[piece->block].pins += left * (double)piece->bytes / (double)used;
    }
}

static void divide(struct hw_pins_map *m, const bool *resident)
{
    for (size_t i = 0; i < m->blocks.n; i++)
        m->blocks.v[i].is_known = true;
    for (size_t i = 0; i < m->pages.n; i++) {
        const struct hw_pins_page *page = &m->pages.v[i];
        bool is_known = page->used < HW_GLIBC_UNREAD;
        if (resident[i] && is_known)
            divide_page(m, page);
        for (size_t k = 0; resident[i] && !is_known && k < page->n; k++) {
            struct hw_pins_block *b = &m->blocks.v[m->pieces.v[page->first + k].block];
            b->is_known = false;
            b->is_unread |= page->used == HW_GLIBC_UNREAD;
        }
    }
}

double hw_pins_share(const struct hw_pins_map *m)
{
    double known = 0;
    for (size_t i = 0; i < m->blocks.n; i++)
        known += m->blocks.v[i].is_known ? m->blocks.v[i].weight : 0;
    double share = m->all > 0 ? known / m->all : 1;
    return share > 1 - 1e-9 ? 1 : share; /* but for the order of the sum */
}

double hw_pins_lost(const struct hw_pins_map *m)
{
    double known = 0, looked = 0;
    for (size_t i = 0; i < m->blocks.n; i++) {
        known += m->blocks.v[i].is_known ? m->blocks.v[i].weight : 0;
        looked += m->blocks.v[i].is_unread ? 0 : m->blocks.v[i].weight;
    }
    return looked > known ? 1 - known / looked : 0;
}

/* Two standard errors are at least the share that was lost. */
static void add_lost(struct hw_measured_heap *p, double lost)
{
    for (size_t i = 0; lost > 1e-9 && i < p->sites.n; i++) {
        double error = lost * p->sites.v[i].bytes / 2;
        p->sites.v[i].variance += error * error;
    }
}

struct region_sum {
    uint32_t stack;
    double bytes;
};
typedef HW_VEC(struct region_sum) region_sums;

/* Of few sites in a mebibyte. */
static int add_to_region(region_sums *r, uint32_t stack, double bytes)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].stack == stack) {
            r->v[i].bytes += bytes;
            return HW_OK;
        }
    return hw_vec_push(r, ((struct region_sum){stack, bytes})) < 0 ? HW_ENOMEM : HW_OK;
}

/* A region was taken with the probability `share`. */
static int end_region(struct hw_measured_heap *p, region_sums *r, double share)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < r->n; i++) {
        struct hw_measured_site *site;
        double bytes = r->v[i].bytes;
        rc = hw_measured_heap_site(p, r->v[i].stack, &site);
        if (rc == HW_OK)
            site->variance += (1 - share) / (share * share) * bytes * bytes;
    }
    r->n = 0;
    return rc;
}

static int add_known(struct hw_measured_heap *p, const struct hw_pins_block *b, double share,
                     region_sums *r)
{
    struct hw_measured_site *site;
    if (!b->is_known || b->pins <= 0)
        return HW_OK;
    int rc = hw_measured_heap_site(p, b->stack, &site);
    if (rc < 0)
        return rc;
    double bytes = b->weight * b->pins;
    site->bytes += bytes / share;
    site->blocks++;
    site->objects += b->weight / share;
    site->variance += b->variance * b->pins * b->pins / share;
    return share < 1 ? add_to_region(r, b->stack, bytes) : HW_OK;
}

int hw_pins_take(struct hw_measured_heap *p, struct hw_pins_map *m, const bool *resident,
                 struct hw_snap_book *out)
{
    region_sums region = {0};
    int rc = HW_OK;
    hw_measured_heap_begin(p);
    divide(m, resident);
    double share = hw_pins_share(m), lost = hw_pins_lost(m);
    if (lost > HW_PINS_MOST_LOST)
        return HW_EFORMAT;
    for (size_t i = 0; rc == HW_OK && share > 0 && i < m->blocks.n; i++) {
        const struct hw_pins_block *b = &m->blocks.v[i];
        rc = add_known(p, b, share, &region);
        bool is_last = i + 1 == m->blocks.n || region_of(b[1].lo) != region_of(b->lo);
        if (rc == HW_OK && is_last)
            rc = end_region(p, &region, share);
    }
    hw_vec_done(&region);
    add_lost(p, lost);
    return rc == HW_OK ? hw_measured_heap_tell(p, out) : rc;
}
