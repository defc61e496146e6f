/*
 * books.c - totals per cell, and the peak without copying everything at each new maximum
 *
 * While live bytes rise every allocation makes a new maximum: the present state is the peak, and
 * nothing is copied. When they fall from there, a cell is copied into peaks[] when it is first
 * touched, before the change, and marked with the maximum's epoch; the next maximum starts another
 * epoch, which makes all copies invalid. So
 *
 *      totals at the peak = cell.peak_epoch == peak.epoch ? peaks[cell] : cell.now
 *
 * holds for every cell at every moment, and an operation costs at most one copy.
 */
#include "daemon/books/books.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limits.h"

#include "base/banned.h"

void hw_books_init(struct hw_books *b, bool follow_peak)
{
    *b = (struct hw_books){.follow_peak = follow_peak};
}

void hw_books_done(struct hw_books *b)
{
    for (size_t i = 0; i < HW_MAX_HEAPS; i++) {
        struct hw_book *k = b->books[i];
        if (!k)
            continue;
        hw_vec_done(&k->cells);
        hw_vec_done(&k->peaks);
        hw_vec_done(&k->changed);
        hw_vec_done(&k->cell_of_stack);
        hw_vec_done(&k->intervals);
        free(k);
        b->books[i] = NULL;
    }
    hw_live_samples_done(&b->live);
}

size_t hw_books_bytes(const struct hw_books *b)
{
    size_t n = hw_live_samples_bytes(&b->live);
    for (size_t i = 0; i < HW_MAX_HEAPS; i++) {
        const struct hw_book *k = b->books[i];
        if (k)
            n += sizeof *k + k->cells.cap * sizeof *k->cells.v + k->peaks.cap * sizeof *k->peaks.v +
                 k->changed.cap * sizeof *k->changed.v + k->intervals.cap * sizeof *k->intervals.v +
                 k->cell_of_stack.cap * sizeof *k->cell_of_stack.v;
    }
    return n;
}

static int hw_books_heap(struct hw_books *b, uint32_t heap_id, struct hw_book **out)
{
    if (heap_id == 0 || heap_id >= HW_MAX_HEAPS)
        return HW_ELIMIT;
    struct hw_book *k = b->books[heap_id];
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k)
            return HW_ENOMEM;
        k->heap_id = heap_id;
        k->own_peak = (struct hw_peak){.epoch = 1, .of = k};
        k->peak = &k->own_peak;
        b->books[heap_id] = k;
    }
    *out = k;
    return HW_OK;
}

/* Finds or adds; numbers begin with 1. */
static int number_interval(struct hw_book *k, uint64_t bytes, uint32_t *out)
{
    size_t i = k->intervals.n;
    while (i > 0 && k->intervals.v[i - 1] != bytes)
        i--;
    if (i == 0) {
        if (k->intervals.n >= UINT16_MAX)
            return HW_ELIMIT;
        if (hw_vec_push(&k->intervals, bytes) < 0)
            return HW_ENOMEM;
        i = k->intervals.n;
    }
    *out = (uint32_t)i;
    return HW_OK;
}

static int set_interval(struct hw_book *k, uint64_t bytes)
{
    int rc = number_interval(k, bytes, &k->interval_number);
    if (rc == HW_OK)
        k->interval_bytes = bytes;
    return rc;
}

/* Before anything is booked: its cells know no epoch. */
static void join_malloc(const struct hw_books *b, struct hw_book *k)
{
    struct hw_book *libc = b->books[HW_HEAP_ID_LIBC];
    if (!libc || k == libc || k->peak != &k->own_peak || k->cells.n)
        return;
    k->peak = &libc->own_peak;
    k->next_of_peak = libc->next_of_peak;
    libc->next_of_peak = k;
}

int hw_books_announce(struct hw_books *b, uint32_t heap_id, const char name[HW_HEAP_NAME_MAX],
                      uint64_t interval_bytes)
{
    struct hw_book *k;
    int rc = hw_books_heap(b, heap_id, &k);
    if (rc < 0)
        return rc;
    rc = set_interval(k, interval_bytes);
    if (rc < 0)
        return rc;
    if (name[0] == '\0')
        return HW_OK;
    memcpy(k->name, name, HW_HEAP_NAME_MAX);
    k->name[HW_HEAP_NAME_MAX - 1] = '\0';
    k->orig_interval_bytes = interval_bytes;
    if (strcmp(k->name, HW_PYTHON_HEAP) == 0)
        join_malloc(b, k);
    return HW_OK;
}

/* realloc does not keep an alignment. */
static int grow_cells(struct hw_book *k)
{
    size_t cap = k->cells.cap ? k->cells.cap * 2 : 16;
    struct hw_cell *v = aligned_alloc(_Alignof(struct hw_cell), cap * sizeof *v);
    if (!v)
        return HW_ENOMEM;
    if (k->cells.n)
        memcpy(v, k->cells.v, k->cells.n * sizeof *v);
    free(k->cells.v);
    k->cells.v = v;
    k->cells.cap = cap;
    return HW_OK;
}

static int new_cell(struct hw_books *b, struct hw_book *k, uint32_t stack, uint32_t *out)
{
    if (stack >= k->cell_of_stack.n) {
        size_t want = (size_t)stack + 1;
        if (want > k->cell_of_stack.cap && b->max_bytes &&
            hw_books_bytes(b) + want * sizeof *k->cell_of_stack.v > b->max_bytes) {
            b->full = true; /* 255 heaps with a word for each of a million stacks */
            return HW_ELIMIT;
        }
        if (hw_vec_reserve(&k->cell_of_stack, want) < 0)
            return HW_ENOMEM;
        memset(k->cell_of_stack.v + k->cell_of_stack.n, 0xff,
               (want - k->cell_of_stack.n) * sizeof *k->cell_of_stack.v);
        k->cell_of_stack.n = want;
    }
    if (b->follow_peak && hw_vec_reserve(&k->peaks, k->cells.n + 1) < 0)
        return HW_ENOMEM;
    if (hw_vec_reserve(&k->changed, k->cells.n + 1) < 0) /* so that marking cannot fail */
        return HW_ENOMEM;
    if (k->cells.n == k->cells.cap && grow_cells(k) < 0)
        return HW_ENOMEM;
    k->cells.v[k->cells.n++] = (struct hw_cell){.stack = stack & INT32_MAX};
    if (b->follow_peak)
        k->peaks.v[k->peaks.n++] = (struct hw_totals){0};
    *out = (uint32_t)(k->cells.n - 1);
    k->cell_of_stack.v[stack] = *out;
    return HW_OK;
}

int hw_books_cell(struct hw_books *b, uint32_t heap_id, uint32_t stack, uint32_t *out)
{
    struct hw_book *k;
    int rc = hw_books_heap(b, heap_id, &k);
    if (rc < 0)
        return rc;
    if (hw_likely(stack < k->cell_of_stack.n && k->cell_of_stack.v[stack] != HW_NO_CELL)) {
        *out = k->cell_of_stack.v[stack];
        return HW_OK;
    }
    return new_cell(b, k, stack, out);
}

static inline struct hw_cell *change(struct hw_book *k, uint32_t cell)
{
    struct hw_cell *c = &k->cells.v[cell];
    if (hw_unlikely(!c->changed)) {
        c->changed = true;
        k->changed.v[k->changed.n++] = cell;
    }
    return c;
}

/* Before a change of a cell that does not make a new maximum. */
static inline struct hw_totals *leave_peak(struct hw_book *k, uint32_t cell)
{
    struct hw_cell *c = change(k, cell);
    k->peak->is_now = false;
    if (c->peak_epoch != k->peak->epoch && k->peaks.n) {
        k->peaks.v[cell] = c->now;
        c->peak_epoch = k->peak->epoch;
    }
    return &c->now;
}

static void next_epoch(struct hw_peak *p)
{
    if (++p->epoch != 0)
        return;
    /* An epoch 2^32 maxima ago is not the present one. */
    for (struct hw_book *k = p->of; k; k = k->next_of_peak)
        for (size_t i = 0; i < k->cells.n; i++)
            k->cells.v[i].peak_epoch = 0;
    p->epoch = 1;
}

/* Before more is live in this cell. */
static inline struct hw_totals *rise(struct hw_book *k, uint32_t cell, uint64_t n_bytes,
                                     uint64_t time_ns)
{
    struct hw_peak *p = k->peak;
    k->live += n_bytes;
    p->live += n_bytes;
    if (p->live <= p->most)
        return leave_peak(k, cell);
    if (!p->is_now)
        next_epoch(p);
    p->is_now = true;
    p->most = p->live;
    p->ns = time_ns;
    p->is_new = true;
    return &change(k, cell)->now;
}

static inline struct hw_totals *fall(struct hw_book *k, uint32_t cell, uint64_t n_bytes)
{
    struct hw_totals *t = leave_peak(k, cell);
    k->live -= n_bytes;
    k->peak->live -= n_bytes;
    return t;
}

/* What an inexact sample stands for beyond itself. */
static double extra(const struct hw_live_sample *s)
{
    if (s->alloc_size == s->sample_size || s->alloc_size == 0)
        return 0;
    return (double)s->sample_size / (double)s->alloc_size - 1;
}

static double variance_of(const struct hw_book *k, const struct hw_live_sample *s)
{
    return s->interval ? (double)k->intervals.v[s->interval - 1] * (double)s->sample_size : 0;
}

/* The variance of the number of allocations, from that of their bytes. */
static double of_objects(double variance, const struct hw_live_sample *s)
{
    double size = (double)s->alloc_size;
    return s->alloc_size ? variance / (size * size) : 0;
}

/* At interval 1, and for sizes of at least the interval, all sums of fractions stay as they are. */
static bool is_exact(const struct hw_live_sample *s)
{
    return s->interval == 0 && s->alloc_size == s->sample_size;
}

/* What all allocations and frees share. */
static inline struct hw_totals *come(struct hw_book *k, uint32_t cell, uint64_t size,
                                     uint64_t time_ns)
{
    struct hw_totals *t = rise(k, cell, size, time_ns);
    t->allocated += size;
    t->alloc_count++;
    k->n_samples++;
    return t;
}

static inline struct hw_totals *go(struct hw_book *k, uint32_t cell, uint64_t size, bool young)
{
    struct hw_totals *t = fall(k, cell, size);
    t->freed += size;
    t->free_count++;
    t->temporary += young ? size : 0;
    t->temporary_objects += young ? 1 : 0;
    return t;
}

/* Rounding errors, when nothing is live. */
static inline void leave_no_rest(struct hw_totals *t)
{
    if (t->free_count == t->alloc_count)
        t->rounding = t->variance = t->variance_objects = t->variance_rounding = 0;
}

_Static_assert(HW_EXACT_MAX_SIZE < HW_BLOCKS_OWN_MAPPING, "larger ones come with an address");

/* What the allocator adds to one of this size. */
static inline double added(const struct hw_books *b, uint32_t heap_id, uint64_t size)
{
    if (heap_id != HW_HEAP_ID_LIBC || b->rule == HW_BLOCKS_UNKNOWN)
        return 0;
    return (double)(hw_block_bytes(b->rule, size) - size);
}

static inline void add_rounding(struct hw_book *k, struct hw_totals *t, double bytes)
{
    k->rounding += bytes;
    t->rounding += bytes;
}

static uint64_t beyond(enum hw_block_rule rule, uint64_t size, uint32_t takes)
{
    if (takes == 0)
        return 0;
    if (rule == HW_BLOCKS_GLIBC)
        return takes & HW_ALLOC_MAX_BEYOND ? ((takes & HW_ALLOC_MAX_BEYOND) - 1) * UINT64_C(8) : 0;
    return hw_block_beyond_aligned(rule, size, takes % HW_ALLOC_WHOLE_PAGES,
                                   (takes & HW_ALLOC_WHOLE_PAGES) != 0);
}

static double added_to_one(const struct hw_books *b, const struct hw_live_sample *s)
{
    return added(b, s->heap_id, s->alloc_size) + (double)beyond(b->rule, s->alloc_size, s->takes);
}

static double gap_of(const struct hw_books *b, const struct hw_live_sample *s)
{
    uint32_t power = s->takes >> HW_ALLOC_BEYOND_BITS;
    if (power == 0 || b->rule != HW_BLOCKS_GLIBC)
        return 0;
    uint64_t bytes = hw_block_in_arena(s->alloc_size) + beyond(b->rule, s->alloc_size, s->takes);
    return (1 + extra(s)) *
           (double)hw_block_gap(s->alloc_size, bytes, power + HW_ALLOC_LEAST_POWER - 1);
}

/* A float would stand still at 2^24 equal summands. So it is rounded up or down by chance as soon as that matters: none
 * is lost in the mean. */
static float add_by_chance(float sum, double v, uint64_t sample_id)
{
    double exact = (double)sum + v;
    if (hw_likely(exact < v * 0x1p16))
        return (float)exact;
    uint64_t chance = hw_hash_mix(hw_hash_seed(), sample_id);
    float near = (float)exact, above;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    bits++; /* the next float */
    memcpy(&above, &bits, sizeof above);
    double part = (double)(chance >> 11) * 0x1p-53 - 0.5;
    return (float)(exact + part * ((double)above - (double)near));
}

static void book_free(struct hw_books *b, const struct hw_live_sample *s, uint64_t sample_id,
                      uint64_t time_ns)
{
    struct hw_book *k = b->books[s->heap_id];
    hw_live_samples_time(&b->live, time_ns);
    bool young = hw_live_is_young(&b->live, sample_id);
    struct hw_totals *t = go(k, s->cell, s->sample_size, young);
    double one = added_to_one(b, s);
    add_rounding(k, t, -(1 + extra(s)) * one);
    k->gaps -= gap_of(b, s);
    if (!is_exact(s)) {
        double variance = variance_of(k, s), objects = of_objects(variance, s);
        t->extra_free += extra(s);
        t->variance -= variance;
        t->variance_objects -= objects;
        t->variance_rounding -= one * one * objects;
        if (young) {
            t->temporary_objects += extra(s);
            t->variance_temporary = add_by_chance(t->variance_temporary, variance, sample_id);
            t->variance_temporary_objects =
                add_by_chance(t->variance_temporary_objects, objects, sample_id);
        }
    }
    leave_no_rest(t);
}

/* Not always the heap's newest: the thread may not have followed it yet. Size and interval say
 * whether the sample was left to chance. */
static int interval_of(struct hw_book *k, const struct hw_books_alloc *a, struct hw_live_sample *s)
{
    uint64_t bytes = k->orig_interval_bytes
                         ? hw_interval_doubled(k->orig_interval_bytes, a->doublings)
                         : k->interval_bytes;
    if (s->alloc_size >= bytes || s->sample_size == 0)
        return HW_OK;
    if (bytes != k->interval_bytes)
        return number_interval(k, bytes, &s->interval);
    s->interval = k->interval_number;
    return HW_OK;
}

static uint64_t limited(uint64_t size)
{
    return size < HW_BOOKS_MAX_SIZE ? size : HW_BOOKS_MAX_SIZE;
}

uint16_t hw_books_takes(const struct hw_books *b, const struct hw_rec_alloc *a)
{
    uint32_t told = hw_alloc_takes(a->flags);
    if (a->heap_id != HW_HEAP_ID_LIBC || b->rule == HW_BLOCKS_UNKNOWN)
        return 0;
    if (b->rule != HW_BLOCKS_GLIBC || told != 0)
        return (uint16_t)told;
    uint64_t more = hw_block_beyond_by_address(limited(a->alloc_size), a->address);
    return more ? (uint16_t)(1 + more / 8) : 0;
}

int hw_books_alloc_in(struct hw_books *b, const struct hw_books_alloc *a, uint32_t cell)
{
    struct hw_book *k = b->books[a->heap_id];
    struct hw_live_sample replaced, s = {.alloc_size = limited(a->alloc_size),
                                         .sample_size = limited(a->sample_size),
                                         .cell = cell,
                                         .heap_id = a->heap_id,
                                         .takes = a->takes};
    int rc = interval_of(k, a, &s);
    if (rc < 0)
        return rc;
    hw_live_samples_time(&b->live, a->time_ns);
    rc = hw_live_samples_put(&b->live, a->sample_id, &s, &replaced);
    if (rc < 0)
        return rc;
    if (hw_unlikely(rc == 1)) {
        b->n_duplicate++; /* ids are ring positions: only a damaged target repeats one */
        book_free(b, &replaced, a->sample_id, a->time_ns);
    }
    struct hw_totals *t = come(k, cell, s.sample_size, a->time_ns);
    double one = added_to_one(b, &s);
    add_rounding(k, t, (1 + extra(&s)) * one);
    k->gaps += gap_of(b, &s);
    if (!is_exact(&s)) {
        double variance = variance_of(k, &s), objects = of_objects(variance, &s);
        t->extra_alloc += extra(&s);
        t->variance += variance;
        t->variance_objects += objects;
        t->variance_rounding += one * one * objects;
        t->variance_alloc_space += variance;
        t->variance_alloc_objects += objects;
    }
    return HW_OK;
}

int hw_books_exact_in(struct hw_books *b, uint64_t sample_id, uint64_t size, uint64_t time_ns,
                      uint32_t heap_id, uint32_t cell)
{
    struct hw_book *k = b->books[heap_id];
    hw_live_samples_time(&b->live, time_ns);
    if (hw_likely((size >= k->interval_bytes || size == 0) &&
                  hw_live_samples_put_word(&b->live, sample_id, size, cell, heap_id))) {
        struct hw_totals *t = come(k, cell, size, time_ns); /* nothing but the sums in there */
        add_rounding(k, t, added(b, heap_id, size));
        return HW_OK;
    }
    struct hw_books_alloc a = {.sample_id = sample_id,
                               .alloc_size = size,
                               .sample_size = size,
                               .time_ns = time_ns,
                               .heap_id = heap_id};
    return hw_books_alloc_in(b, &a, cell);
}

int hw_books_alloc(struct hw_books *b, const struct hw_books_alloc *a)
{
    uint32_t cell;
    int rc = hw_books_cell(b, a->heap_id, a->stack, &cell);
    return rc < 0 ? rc : hw_books_alloc_in(b, a, cell);
}

static bool free_other(struct hw_books *b, uint64_t sample_id, uint64_t time_ns, uint32_t *heap_id)
{
    struct hw_live_sample s;
    if (!hw_live_samples_take(&b->live, sample_id, &s)) {
        b->n_unknown_free++;
        return false;
    }
    book_free(b, &s, sample_id, time_ns);
    if (heap_id)
        *heap_id = s.heap_id;
    return true;
}

bool hw_books_free(struct hw_books *b, uint64_t sample_id, uint64_t time_ns, uint32_t *heap_id)
{
    uint64_t word;
    if (hw_unlikely(!hw_live_samples_take_word(&b->live, sample_id, &word)))
        return free_other(b, sample_id, time_ns, heap_id);
    struct hw_book *k = b->books[(uint8_t)word];
    hw_live_samples_time(&b->live, time_ns);
    bool young = hw_live_is_young(&b->live, sample_id);
    struct hw_totals *t = go(k, hw_live_word_cell(word), word >> 36, young);
    add_rounding(k, t, -added(b, (uint8_t)word, word >> 36));
    leave_no_rest(t);
    if (heap_id)
        *heap_id = (uint8_t)word;
    return true;
}

void hw_books_map(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                  uint64_t time_ns)
{
    (void)come(b->books[heap_id], cell, n_bytes, time_ns);
}

void hw_books_unmap(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                    bool whole)
{
    struct hw_totals *t = fall(b->books[heap_id], cell, n_bytes);
    t->freed += n_bytes;
    t->free_count += whole;
}

void hw_books_unmap_not(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                        bool whole, uint64_t time_ns)
{
    struct hw_totals *t = rise(b->books[heap_id], cell, n_bytes, time_ns);
    t->freed -= n_bytes;
    t->free_count -= whole;
}

void hw_books_map_again(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                        bool whole, uint64_t time_ns)
{
    struct hw_totals *t = rise(b->books[heap_id], cell, n_bytes, time_ns);
    t->allocated += n_bytes;
    t->alloc_count += whole;
}

struct hw_totals hw_book_at_peak(const struct hw_book *k, uint32_t cell)
{
    const struct hw_cell *c = &k->cells.v[cell];
    return c->peak_epoch == k->peak->epoch && cell < k->peaks.n ? k->peaks.v[cell] : c->now;
}

void hw_book_clear_changes(struct hw_book *k)
{
    for (size_t i = 0; i < k->changed.n; i++)
        k->cells.v[k->changed.v[i]].changed = false;
    hw_vec_clear(&k->changed);
    k->peak->is_new = false;
}
