/*
 * glibc_heap.c - chunks between known blocks:
 *
 *     chunk      +0  what the chunk before has, if it is in use; else that one's size
 *                +8  size | 1 (the one before is in use) | 2 (a mapping of its own) | 4 (not the main arena)
 *               +16  the block; of a free one links, of one in a fastbin or cache:
 *                    +16  address >> 12 ^ the next one's (a cache: of its block, a fastbin: of its chunk); 0 = none
 *                    +24  of a cache: a number that is never 0
 */
#include "proc/glibc_heap.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

#define PAGE        ((uint64_t)HW_GLIBC_PAGE)
#define HEADER      8u
#define STEP        16u
#define SMALLEST    32u
#define PREV_IN_USE UINT64_C(1)
#define HAS_MAPPING UINT64_C(2)
#define FLAGS       UINT64_C(7)
#define MOST_BYTES  (UINT64_C(1) << 40)
#define NEAR        (UINT64_C(1) << 33)
/* The largest chunk of a cache, and of a fastbin, unless tuned. */
#define MOST_CACHED  1040u
#define MOST_FASTBIN 176u

enum step { STEP_ON, STEP_END, STEP_BROKEN, STEP_LIMIT };

struct run {
    struct hw_glibc_walk *w;
    const uint64_t *pages;
    size_t n_pages, at; /* pages behind the walk are below at */
    uint32_t *used;
    uint64_t begin;  /* of what it covers */
    uint64_t pos;    /* the next chunk */
    uint32_t so_far; /* of page `page` */
    size_t page;
};

/* HW_ELIMIT, HW_EGONE: it is not there. */
static int load(struct hw_glibc_walk *w, uint64_t page)
{
    if (w->page.is_there && w->page.number == page)
        return HW_OK;
    if (w->n_read >= w->max_pages)
        return HW_ELIMIT;
    w->n_read++;
    w->page.number = page;
    w->page.is_there = w->read_page(w->ctx, page, w->page.bytes) == HW_OK;
    return w->page.is_there ? HW_OK : HW_EGONE;
}

/* at: a multiple of 8, so no word lies on two pages. */
static int word(struct hw_glibc_walk *w, uint64_t at, uint64_t *out)
{
    int rc = load(w, at / PAGE);
    if (rc == HW_OK)
        memcpy(out, w->page.bytes + at % PAGE, sizeof *out);
    return rc;
}

static enum step step_of(int rc)
{
    return rc == HW_OK ? STEP_ON : rc == HW_ELIMIT ? STEP_LIMIT : STEP_END;
}

/* ---- pages ---- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void cover(struct run *r, uint64_t bytes, bool in_use)
{
    uint64_t lo = r->pos + HEADER, hi = lo + bytes;
    while (r->at < r->n_pages && (r->pages[r->at] + 1) * PAGE <= lo)
        r->at++;
    for (size_t i = r->at; i < r->n_pages && r->pages[i] * PAGE < hi; i++) {
        uint64_t begin = r->pages[i] * PAGE, end = begin + PAGE;
        if (begin < r->begin)
            continue; /* what is before the run on this page is not known */
        if (r->page != i) {
            r->page = i;
            r->so_far = 0;
        }
        if (in_use)
            r->so_far += (uint32_t)(earlier(hi, end) - later(lo, begin));
        if (end <= hi)
            r->used[i] = r->so_far;
    }
}

/* ---- chunks ---- */

static bool is_size(uint64_t header)
{
    uint64_t bytes = header & ~FLAGS;
    return bytes >= SMALLEST && bytes % STEP == 0 && bytes <= MOST_BYTES && !(header & HAS_MAPPING);
}

/* In a fastbin or a thread's cache, though its header says that it is in use. The link, less the protection, leads
 * into the same heap: no number does by chance, nor a pointer, whose bits 23 to 35 the protection changes. A block
 * that was taken from there and never written to is taken for a free one. */
static int is_cached(struct run *r, uint64_t bytes, bool *out)
{
    uint64_t block = r->pos + 2 * HEADER, link, key = 1;
    *out = false;
    if (bytes > MOST_CACHED)
        return HW_OK;
    int rc = word(r->w, block, &link);
    if (rc == HW_OK && bytes > MOST_FASTBIN)
        rc = word(r->w, block + HEADER, &key);
    if (rc < 0)
        return rc;
    uint64_t next = link ^ block >> 12;
    uint64_t away = next > block ? next - block : block - next;
    bool is_link = next == 0 || (next % STEP == 0 && away < NEAR && next != block);
    *out = key != 0 && is_link;
    return HW_OK;
}

/* is_known: a block that is live, as the recorder knows. limit: the next such one. */
static enum step go_on(struct run *r, bool is_known, uint64_t limit)
{
    uint64_t header, next;
    int rc = word(r->w, r->pos + HEADER, &header);
    if (rc < 0)
        return step_of(rc);
    if (!is_size(header))
        return STEP_BROKEN;
    uint64_t bytes = header & ~FLAGS;
    bool cached = false;
    if (bytes > limit - r->pos) /* the top, too, is not where a block is */
        return STEP_BROKEN;
    rc = is_known ? HW_OK : is_cached(r, bytes, &cached);
    if (rc == HW_OK)
        rc = word(r->w, r->pos + bytes + HEADER, &next);
    if (rc == HW_ELIMIT)
        return STEP_LIMIT;
    if (rc < 0) { /* the top: nothing is behind it, and it ends where memory was asked for */
        if ((r->pos + bytes) % PAGE)
            return STEP_BROKEN;
        cover(r, bytes, /* in_use = */ false);
        return STEP_END;
    }
    cover(r, bytes, (next & PREV_IN_USE) && !cached);
    r->pos += bytes;
    return STEP_ON;
}

static enum step go_to(struct run *r, uint64_t target)
{
    enum step s = STEP_ON;
    while (s == STEP_ON && r->pos < target)
        s = go_on(r, /* is_known = */ false, target);
    return s == STEP_ON && r->pos != target ? STEP_BROKEN : s;
}

/* A free chunk before it says its size there and here. */
static int begin_at(struct run *r, uint64_t chunk)
{
    uint64_t header, before, size;
    r->pos = chunk;
    r->begin = chunk + HEADER;
    r->page = SIZE_MAX;
    int rc = word(r->w, chunk + HEADER, &header);
    if (rc < 0 || (header & PREV_IN_USE))
        return rc;
    rc = word(r->w, chunk, &before);
    if (rc < 0 || before < SMALLEST || before % STEP || before > chunk)
        return rc;
    rc = word(r->w, chunk - before + HEADER, &size);
    if (rc == HW_OK && (size & ~FLAGS) == before && is_size(size)) {
        r->pos = chunk - before;
        r->begin = r->pos + HEADER;
    }
    return rc;
}

/* From the block before, or the beginning of the heap. */
static uint64_t anchor_of(const struct hw_glibc_walk *w, const struct hw_glibc_block *blocks,
                          size_t first)
{
    uint64_t chunk = blocks[first].chunk, before = first ? blocks[first - 1].chunk : 0;
    if (w->heap_start > before && w->heap_start <= chunk)
        before = w->heap_start;
    return before && chunk - before <= w->max_gap ? before : chunk;
}

static enum step to_block(struct run *r, const struct hw_glibc_block *b, bool is_near)
{
    uint64_t header;
    enum step s = is_near ? go_to(r, b->chunk) : STEP_END;
    if (s == STEP_LIMIT)
        return s;
    if (s != STEP_ON) {
        r->w->n_broken += s == STEP_BROKEN;
        int rc = begin_at(r, b->chunk);
        s = rc == HW_ELIMIT ? STEP_LIMIT : go_to(r, b->chunk);
        if (s == STEP_LIMIT)
            return s;
        if (s != STEP_ON) { /* the chunk before lied */
            r->pos = b->chunk;
            r->begin = b->chunk + HEADER;
            r->page = SIZE_MAX;
        }
    }
    int rc = word(r->w, b->chunk + HEADER, &header);
    if (rc < 0)
        return step_of(rc);
    if (is_size(header) && (header & ~FLAGS) >= b->bytes)
        return STEP_ON;
    r->w->n_broken++; /* it was freed meanwhile, or never was one */
    return STEP_BROKEN;
}

/* Covers the block's pages; stands where another one may follow. */
static enum step past_block(struct run *r, const struct hw_glibc_block *b, uint64_t next)
{
    uint64_t end = (b->chunk + HEADER + b->bytes + PAGE - 1) / PAGE * PAGE;
    enum step s = STEP_ON;
    while (s == STEP_ON && r->pos + HEADER < end && r->pos < next)
        s = go_on(r, /* is_known = */ r->pos == b->chunk, next);
    return s;
}

int hw_glibc_walk(struct hw_glibc_walk *w, const struct hw_glibc_block *blocks, size_t first,
                  size_t end, const uint64_t *pages, size_t n_pages, uint32_t *used)
{
    struct run r = {.w = w, .pages = pages, .n_pages = n_pages, .used = used, .page = SIZE_MAX};
    if (first == end)
        return HW_OK;
    uint64_t anchor = anchor_of(w, blocks, first);
    uint64_t page = blocks[first].chunk / PAGE;
    uint64_t last = (blocks[end - 1].chunk + HEADER + blocks[end - 1].bytes) / PAGE;
    r.at = HW_LOWER_BOUND(i, 0, n_pages, pages[i] < page);
    r.n_pages =
        HW_LOWER_BOUND(i, 0, n_pages, pages[i] <= last); /* others are told by other walks */
    enum step s = anchor == blocks[first].chunk ? STEP_END : STEP_ON;
    r.pos = anchor;
    r.begin =
        anchor == w->heap_start ? anchor : anchor + HEADER; /* nothing is before the first chunk */
    for (size_t i = first; i < end; i++) {
        bool is_near =
            s == STEP_ON && blocks[i].chunk >= r.pos && blocks[i].chunk - r.pos <= w->max_gap;
        s = to_block(&r, &blocks[i], is_near);
        if (s == STEP_ON)
            s = past_block(&r, &blocks[i], i + 1 < end ? blocks[i + 1].chunk : UINT64_MAX);
        if (s == STEP_LIMIT)
            return HW_ELIMIT;
    }
    return HW_OK;
}
