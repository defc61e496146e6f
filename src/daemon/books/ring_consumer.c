/*
 * ring_consumer.c - one record at a time: check, use, forget
 *
 * Everything in a record comes from the target: counts are compared with the record's own size,
 * sizes are limited in the books, a stack number is looked up, never used as an index.
 */
#include "daemon/books/ring_consumer.h"

#include <stdlib.h>
#include <string.h>

#include "base/arch.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "unwind/walk.h"

#include "base/banned.h"

#define INCOMPLETE      (UINT64_C(1) << 32) /* in the values of ids */
#define NO_CELL         UINT64_MAX
#define RELEASE_RECORDS 256u  /* how often space is released within one drain */
#define RECORD_BYTES    64u   /* a longer record counts as several */
#define BATCH           48u   /* small records booked together */
#define KNOWN           4096u /* 64 KiB */
#define MAX_STACKS      (1u << 26)

/* What ids and books would find, for most allocations with one load. Found cells stay. */
struct hw_ring_consumer_known {
    uint64_t stack_id; /* 0 = none */
    uint64_t cell;     /* with INCOMPLETE */
};

void hw_ring_consumer_init(struct hw_ring_consumer *f, struct hw_ring_reader *ring,
                           bool follow_peak)
{
    *f = (struct hw_ring_consumer){.ring = *ring};
    *ring = (struct hw_ring_reader){.fd = -1};
    hw_books_init(&f->books, follow_peak);
}

void hw_ring_consumer_done(struct hw_ring_consumer *f)
{
    hw_ring_done(&f->ring);
    hw_books_done(&f->books);
    hw_mappings_done(&f->mappings);
    hw_ring_consumer_map_done(f);
    hw_map64_done(&f->ids);
    hw_map64_done(&f->addresses);
    hw_managed_names_done(&f->managed);
    hw_idle_live_done(&f->idle);
    hw_vec_done(&f->stacks);
    hw_vec_done(&f->events);
    hw_vec_done(&f->slices);
    free(f->slots);
    hw_arena_done(&f->arena);
    free(f->known);
    free(f->cache);
    free(f->walk);
    free(f->mixed);
    f->known = NULL;
    f->slots = NULL;
    f->cache = NULL;
    f->walk = NULL;
    f->mixed = NULL;
}

static bool stop_is_complete(uint32_t stop)
{
    return hw_stop_is_complete(stop);
}

/* exact: (n_frames + 63) / 64 words; mixed: as many for managed frames behind. */
static int add_stack(struct hw_ring_consumer *f, const struct hw_rec_stack *h, const void *pcs,
                     const void *exact, bool mixed, uint64_t *out)
{
    uint32_t n = h->n_frames, stop = h->stop;
    if (f->stacks.n >= MAX_STACKS)
        return HW_ELIMIT;
    size_t words = (size_t)(n + 63) / 64 * (mixed ? 2 : 1);
    struct hw_stack *s = hw_arena_alloc(&f->arena, sizeof *s + (n + words) * sizeof(uint64_t));
    if (!s)
        return HW_ENOMEM;
    *s = (struct hw_stack){.index = (uint32_t)f->stacks.n,
                           .n_frames = n,
                           .mixed = mixed,
                           .stop = (uint16_t)stop,
                           .generation = (uint16_t)(stop >> HW_STACK_STOP_BITS),
                           .time_ns = h->time_ns};
    stop = s->stop;
    if (n) {
        memcpy(s->pcs, pcs, n * sizeof(uint64_t));
        memcpy(s->pcs + n, exact, words * sizeof(uint64_t));
    }
    uint64_t value = s->index | (stop_is_complete(stop) ? 0 : INCOMPLETE);
    if (hw_vec_push(&f->stacks, s) < 0)
        return HW_ENOMEM;
    if (hw_map64_put(&f->ids, h->stack_id, value) < 0) {
        f->stacks.n--;
        return HW_ENOMEM;
    }
    *out = value;
    return HW_OK;
}

static int add_without_frames(struct hw_ring_consumer *f, uint64_t id, uint32_t stop, uint64_t *out)
{
    struct hw_rec_stack h = {.stack_id = id, .stop = stop};
    return add_stack(f, &h, NULL, NULL, /* mixed = */ false, out);
}

/* The one of samples whose stacks were lost. */
static int add_lost(struct hw_ring_consumer *f, uint64_t *out)
{
    return add_without_frames(f, 0, HW_CONSUMER_STOP_LOST, out);
}

static void meet_managed(struct hw_ring_consumer *f, const struct hw_stack *s)
{
    for (uint32_t i = 0; i < s->n_frames; i++)
        if (hw_stack_is_managed(s, i) && hw_managed_seen(&f->managed, s->pcs[i]) < 0)
            f->n_nomem++;
}

static bool on_stack(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size, bool mixed)
{
    struct hw_rec_stack h;
    if (size < sizeof h)
        return false;
    memcpy(&h, rec, sizeof h);
    size_t words = (size_t)(h.n_frames + 63) / 64 * (mixed ? 2 : 1);
    if (h.n_frames > HW_MAX_FRAMES || h.stack_id == 0 || h.stack_id == HW_MAP64_NO_KEY ||
        size < sizeof h + (h.n_frames + words) * sizeof(uint64_t))
        return false;
    const uint8_t *pcs = rec + sizeof h;
    uint64_t known;
    if (hw_map64_get(&f->ids, h.stack_id, &known)) {
        const struct hw_stack *s = f->stacks.v[(uint32_t)known];
        if (s->n_frames != h.n_frames || s->mixed != mixed ||
            memcmp(s->pcs, pcs, h.n_frames * sizeof(uint64_t)) != 0)
            f->n_collisions++;
        return true;
    }
    if (add_stack(f, &h, pcs, pcs + h.n_frames * sizeof(uint64_t), mixed, &known) < 0)
        f->n_nomem++;
    else if (mixed)
        meet_managed(f, f->stacks.v[(uint32_t)known]);
    return true;
}

static void stream_event(struct hw_ring_consumer *f, uint64_t address, uint64_t size,
                         uint64_t sample_size, uint64_t time_ns, uint32_t heap_id, bool is_free)
{
    struct hw_stream_event e = {.address = address,
                                .size = size,
                                .sample_size = sample_size,
                                .time_ns = time_ns,
                                .heap_id = heap_id,
                                .sequence_number = ++f->sequence_numbers[heap_id],
                                .is_free = is_free};
    if (hw_vec_push(&f->events, e) < 0)
        f->n_nomem++;
}

static void stream_alloc(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint64_t pos)
{
    if (hw_map64_put(&f->addresses, pos, a->address) < 0)
        f->n_nomem++;
    stream_event(f, a->address, a->alloc_size, a->sample_size, a->time_ns, a->heap_id, false);
}

static void stream_free(struct hw_ring_consumer *f, uint64_t sample_id, uint64_t time_ns,
                        uint32_t heap_id)
{
    uint64_t address;
    if (hw_map64_take(&f->addresses, sample_id, &address))
        stream_event(f, address, 0, 0, time_ns, heap_id, true);
}

/* The cell of an allocation, with INCOMPLETE if its stack has it, or NO_CELL. */
static uint64_t cell_of(struct hw_ring_consumer *f, uint32_t heap_id, uint64_t stack)
{
    uint32_t cell;
    if (hw_likely(hw_books_cell(&f->books, heap_id, (uint32_t)stack, &cell) == HW_OK))
        return cell | (stack & INCOMPLETE);
    f->n_nomem++;
    return NO_CELL;
}

/* In other heaps the ids need not be addresses. */
static void keep_address(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint64_t pos,
                         uint32_t cell)
{
    struct hw_idle_sample s = {a->address, a->alloc_size, a->sample_size, cell};
    if (a->heap_id == HW_HEAP_ID_LIBC && hw_idle_live_put(&f->idle, pos, &s) < 0)
        f->n_nomem++;
}

static void book_alloc(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint64_t pos,
                       uint64_t cell)
{
    struct hw_books_alloc b = {.sample_id = pos,
                               .alloc_size = a->alloc_size,
                               .sample_size = a->sample_size,
                               .time_ns = a->time_ns,
                               .heap_id = a->heap_id,
                               .doublings = hw_alloc_doublings(a->flags),
                               .takes = hw_books_takes(&f->books, a)};
    if (cell == NO_CELL)
        return;
    f->n_samples++;
    if ((cell & INCOMPLETE) && !f->stream) /* events alone have no callstack to be cut short */
        f->n_unwind_errors++;
    if (hw_books_alloc_in(&f->books, &b, (uint32_t)cell) < 0)
        f->n_nomem++;
    if (f->stream)
        stream_alloc(f, a, pos);
    if (f->keeps_addresses)
        keep_address(f, a, pos, (uint32_t)cell);
}

static void book_exact(struct hw_ring_consumer *f, const struct hw_ring_small *r, uint64_t cell)
{
    if (hw_unlikely(cell == NO_CELL))
        return;
    f->n_samples++;
    f->n_unwind_errors += (cell & INCOMPLETE) != 0;
    if (hw_books_exact_in(&f->books, r->pos, r->size_heap & (HW_EXACT_SIZE_LIMIT - 1), r->time_ns,
                          (uint32_t)(r->size_heap >> 48), (uint32_t)cell) < 0)
        f->n_nomem++;
}

static void book_free(struct hw_ring_consumer *f, uint64_t sample_id, uint64_t time_ns)
{
    uint32_t heap_id;
    if (hw_books_free(&f->books, sample_id, time_ns, &heap_id) && f->stream)
        stream_free(f, sample_id, time_ns, heap_id); /* unknown ones are counted there */
    if (f->keeps_addresses)
        hw_idle_live_take(&f->idle, sample_id);
}

/* The number of a stack; 0 stands for all without frames, or memory for them. False: not even that. */
static bool stack_of(struct hw_ring_consumer *f, uint64_t stack_id, uint64_t *stack)
{
    uint64_t id = f->stream || stack_id == HW_MAP64_NO_KEY ? 0 : stack_id;
    if (hw_likely(hw_map64_get(&f->ids, id, stack)))
        return true;
    if (id == HW_STACK_ID_NOT_WALKED &&
        add_without_frames(f, id, HW_CONSUMER_STOP_NOT_WALKED, stack) == HW_OK)
        return true;
    f->n_lost_stacks += id != 0;
    if (hw_map64_get(&f->ids, 0, stack) || add_lost(f, stack) == HW_OK)
        return true;
    f->n_nomem++;
    return false;
}

static bool heap_ok(uint32_t heap_id)
{
    return heap_id != 0 && heap_id < HW_MAX_HEAPS;
}

static uint64_t find_cell(struct hw_ring_consumer *f, uint32_t heap_id, uint64_t stack_id)
{
    uint64_t stack;
    return stack_of(f, stack_id, &stack) ? cell_of(f, heap_id, stack) : NO_CELL;
}

/* What became of a record. */
enum booked { DAMAGED = -1, WAITS, BOOKED, GOES_ON /* in the next turn; it comes again */ };

static enum booked book(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint64_t pos,
                        uint64_t stack)
{
    bool is_cut = (stack & INCOMPLETE) && a->stack_id != HW_STACK_ID_NOT_WALKED;
    if (hw_unlikely(hw_mappings_has(&f->mappings, a->heap_id)))
        return hw_ring_consumer_map(f, a, pos, (uint32_t)stack, is_cut) ? BOOKED : GOES_ON;
    book_alloc(f, a, pos, cell_of(f, a->heap_id, stack));
    return BOOKED;
}

static enum booked on_alloc(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size,
                            uint64_t pos, uint64_t now_ns)
{
    struct hw_rec_alloc a;
    uint64_t stack;
    if (size < sizeof a)
        return DAMAGED;
    memcpy(&a, rec, sizeof a);
    if (!heap_ok(a.heap_id))
        return DAMAGED;
    if (hw_unlikely(hw_ring_consumer_map_waits(f, &a, pos, now_ns)))
        return WAITS;
    return stack_of(f, a.stack_id, &stack) ? book(f, &a, pos, stack) : BOOKED;
}

/* Those that no batch took. */
static bool on_exact(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size, uint64_t pos)
{
    struct hw_rec_exact e;
    if (size != sizeof e)
        return false;
    memcpy(&e, rec, sizeof e);
    uint32_t heap_id = (uint32_t)(e.size_heap >> 48);
    if (!heap_ok(heap_id))
        return false;
    struct hw_ring_small r = {pos, e.stack_id, e.time_ns, e.size_heap};
    book_exact(f, &r, find_cell(f, heap_id, e.stack_id));
    return true;
}

static bool on_free(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size)
{
    struct hw_rec_free r;
    if (size < sizeof r)
        return false;
    memcpy(&r, rec, sizeof r);
    book_free(f, r.sample_id, r.time_ns);
    return true;
}

/* ---- copied stacks ---- */

static enum booked on_copy(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size,
                           uint64_t pos, uint64_t now_ns)
{
    struct hw_rec_copy c;
    if (size < sizeof c)
        return DAMAGED;
    memcpy(&c, rec, sizeof c);
    size_t regs_bytes = (size_t)c.n_regs * 8;
    if (c.n_regs > HW_MAX_REGS || c.n_bytes > HW_MAX_COPY_BYTES || c.n_bytes % 8 ||
        size < sizeof c + regs_bytes + c.n_bytes || !heap_ok(c.alloc.heap_id))
        return DAMAGED;
    if (hw_ring_consumer_map_waits(f, &c.alloc, pos, now_ns))
        return WAITS;
    uint64_t stack = INCOMPLETE;
    f->n_copies += f->stall_since_ns == 0;
    struct hw_copied_stack s = {0};
    struct hw_bytes behind = hw_bytes_of(rec + sizeof c, size - sizeof c);
    switch (hw_ring_consumer_walk(f, &c, behind, now_ns, &s)) {
    case HW_COPY_WAITS:
        return WAITS;
    case HW_COPY_FOREIGN:
        if (hw_map64_get(&f->ids, 0, &stack) || add_lost(f, &stack) == HW_OK)
            return book(f, &c.alloc, pos, stack);
        return BOOKED;
    case HW_COPY_NO_MEMORY:
        f->n_nomem++;
        return BOOKED;
    case HW_COPY_WALKED:
        break;
    }
    if (!hw_map64_get(&f->ids, s.head.stack_id, &stack)) {
        if (add_stack(f, &s.head, s.pcs, s.bits, s.mixed, &stack) < 0) {
            f->n_nomem++;
            return BOOKED;
        }
        meet_managed(f, f->stacks.v[(uint32_t)stack]);
    }
    return book(f, &c.alloc, pos, stack);
}

static bool on_heap(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size)
{
    struct hw_rec_heap r;
    if (size < sizeof r)
        return false;
    memcpy(&r, rec, sizeof r);
    int rc = hw_books_announce(&f->books, r.heap_id, r.name, r.interval_bytes);
    f->n_nomem += rc == HW_ENOMEM;
    return rc != HW_ELIMIT;
}

static bool on_failed(struct hw_ring_consumer *f, uint32_t size)
{
    f->n_failed++;
    return size >= sizeof(struct hw_rec_failed);
}

static enum booked on_record(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size,
                             uint64_t pos, uint64_t now_ns)
{
    switch (hw_rec_head_type(hw_load_u64(rec))) {
    case HW_REC_ALLOC:
        return on_alloc(f, rec, size, pos, now_ns);
    case HW_REC_EXACT:
        return on_exact(f, rec, size, pos) ? BOOKED : DAMAGED;
    case HW_REC_FREE:
        return on_free(f, rec, size) ? BOOKED : DAMAGED;
    case HW_REC_STACK:
        return on_stack(f, rec, size, /* mixed = */ false) ? BOOKED : DAMAGED;
    case HW_REC_MIXED:
        return on_stack(f, rec, size, /* mixed = */ true) ? BOOKED : DAMAGED;
    case HW_REC_NAME:
        return hw_managed_name_record(&f->managed, &f->arena, rec, size) ? BOOKED : DAMAGED;
    case HW_REC_ALLOC_COPY:
        return on_copy(f, rec, size, pos, now_ns);
    case HW_REC_HEAP:
        return on_heap(f, rec, size) ? BOOKED : DAMAGED;
    case HW_REC_MAPS:
        return hw_ring_consumer_maps(f, rec, size, now_ns) ? BOOKED : DAMAGED;
    case HW_REC_MINFO:
        return hw_ring_consumer_minfo(f, rec, size) ? BOOKED : DAMAGED;
    case HW_REC_FAILED:
        return on_failed(f, size) ? BOOKED : DAMAGED;
    case HW_REC_SLICES:
        return hw_ring_consumer_slices(f, rec, size) ? BOOKED : DAMAGED;
    case HW_REC_FORK:
        return hw_ring_consumer_fork(f, rec, size) ? BOOKED : DAMAGED;
    case HW_REC_UNMAP: {
        int rc = hw_ring_consumer_unmap(f, rec, size);
        return rc < 0 ? DAMAGED : rc > 0 ? GOES_ON : BOOKED;
    }
    case HW_REC_PAD:
        f->ring.holes++;
        f->ring.hole_bytes += size;
        return BOOKED;
    default: /* a number from outside */
        return DAMAGED;
    }
}

static enum hw_ring_consumer_status nothing_there(struct hw_ring_consumer *f, uint64_t now_ns)
{
    uint64_t write_pos;
    if (hw_ring_write_pos(&f->ring, &write_pos) < 0)
        return HW_CONSUMER_BROKEN;
    if (write_pos == f->ring.read_pos) {
        f->hole_since_ns = 0;
        return HW_CONSUMER_EMPTY;
    }
    if (f->hole_pos != f->ring.read_pos || f->hole_since_ns == 0) {
        f->hole_pos = f->ring.read_pos;
        f->hole_since_ns = now_ns;
    }
    return HW_CONSUMER_HOLE;
}

/* ---- many small records at once ---- */

/* Booking one record is a chain of cache misses: the sample's place, the stack's number, the cell.
 * A batch takes each of these steps for all its records before the next one, so that the misses of
 * 48 records are waited for together. Order is kept where it counts: in the last step. */
static struct hw_ring_consumer_known *known_at(const struct hw_ring_consumer *f, uint64_t stack_id)
{
    return &f->known[(stack_id ^ stack_id >> 32) % KNOWN];
}

static uint32_t heap_of(const struct hw_ring_small *r)
{
    return (uint32_t)(r->size_heap >> 48);
}

/* What is known about a record before it is booked. */
union prospect {
    uint64_t cell;        /* of an allocation; NO_CELL = not looked up yet */
    const uint64_t *word; /* of a free: where its sample is; NULL = not there */
};

static void fetch_first(const struct hw_ring_consumer *f, const struct hw_ring_small *r, size_t n,
                        union prospect *p)
{
    for (size_t i = 0; i < n; i++) {
        if (r[i].size_heap == 0) {
            p[i].word = hw_live_samples_prefetch(&f->books.live, r[i].id);
            continue;
        }
        const struct hw_ring_consumer_known *k = known_at(f, r[i].id);
        p[i].cell = NO_CELL;
        if (hw_likely(k->stack_id == r[i].id && heap_of(&r[i]) == HW_HEAP_ID_LIBC)) {
            p[i].cell = k->cell;
            hw_books_fetch_cell(&f->books, HW_HEAP_ID_LIBC, (uint32_t)k->cell);
        } else {
            hw_map64_prefetch(&f->ids, r[i].id);
        }
    }
}

static uint64_t fetch_new(struct hw_ring_consumer *f, const struct hw_ring_small *r)
{
    uint64_t stack, cell = find_cell(f, heap_of(r), r->id);
    if (cell == NO_CELL)
        return cell;
    hw_books_fetch_cell(&f->books, heap_of(r), (uint32_t)cell);
    bool is_its_own = hw_map64_get(&f->ids, r->id, &stack); /* else frames may still come */
    if (heap_of(r) == HW_HEAP_ID_LIBC && r->id != 0 && is_its_own)
        *known_at(f, r->id) = (struct hw_ring_consumer_known){r->id, cell};
    return cell;
}

/* Finds the other cells. A free's word may change until it is booked; most do not. */
static void fetch_cells(struct hw_ring_consumer *f, const struct hw_ring_small *r, size_t n,
                        union prospect *p)
{
    for (size_t i = 0; i < n; i++) {
        if (r[i].size_heap != 0) {
            if (hw_unlikely(p[i].cell == NO_CELL))
                p[i].cell = fetch_new(f, &r[i]);
        } else if (p[i].word && *p[i].word != 0) {
            hw_books_fetch_cell(&f->books, (uint8_t)*p[i].word, hw_live_word_cell(*p[i].word));
        }
    }
}

/* Books allocations and frees at the cursor; gives how many. */
static size_t drain_small(struct hw_ring_consumer *f, uint64_t until, size_t max)
{
    struct hw_ring_small r[BATCH];
    union prospect p[BATCH];
    uint64_t end;
    if (hw_unlikely(!f->known) && !(f->known = calloc(KNOWN, sizeof *f->known)))
        return 0; /* one by one, then */
    size_t n = hw_ring_gather(&f->ring, until, r, max < BATCH ? max : BATCH, &end);
    fetch_first(f, r, n, p);
    fetch_cells(f, r, n, p);
    for (size_t i = 0; i < n; i++)
        if (r[i].size_heap == 0)
            book_free(f, r[i].id, r[i].time_ns);
        else
            book_exact(f, &r[i], p[i].cell);
    f->n_records += n;
    if (n)
        hw_ring_next(&f->ring, (uint32_t)(end - f->ring.read_pos));
    return n;
}

enum hw_ring_consumer_status hw_ring_consumer_drain(struct hw_ring_consumer *f, uint64_t until,
                                                    size_t max, uint64_t now_ns)
{
    enum hw_ring_consumer_status status = HW_CONSUMER_MORE;
    uint64_t before = f->n_records;
    if (f->broken)
        return HW_CONSUMER_BROKEN;
    if (f->full)
        return HW_CONSUMER_FULL;
    if (!f->dead)
        (void)hw_ring_grow(&f->ring); /* else the next time */
    for (size_t n = 0, unreleased = 0; n < max; n++) {
        size_t small = drain_small(f, until, max - n);
        n += small;
        unreleased += small + 1;
        if (unreleased > RELEASE_RECORDS) {
            hw_ring_release(&f->ring);
            unreleased = 0;
        }
        if (small == BATCH || n == max)
            continue;
        const uint8_t *rec;
        uint32_t size;
        uint64_t pos;
        if (f->ring.read_pos >= until) {
            status = HW_CONSUMER_REACHED;
            break;
        }
        int rc = hw_ring_peek(&f->ring, &rec, &size, &pos);
        if (rc == 0 && f->dead) {
            rc = hw_ring_skip_hole(&f->ring);
            if (rc == 0) {
                status = HW_CONSUMER_EMPTY;
                break;
            }
            if (rc > 0)
                continue;
        }
        if (rc == 0) {
            status = nothing_there(f, now_ns);
            break;
        }
        rc = rc < 0 ? DAMAGED : (int)on_record(f, rec, size, pos, now_ns);
        if (rc == GOES_ON)
            break; /* MORE */
        if (rc < 0) {
            status = HW_CONSUMER_BROKEN;
            break;
        }
        if (rc == 0) {
            status = HW_CONSUMER_STALLED;
            break;
        }
        f->n_records++;
        n += size / RECORD_BYTES; /* a stack to be walked costs what a thousand frees do */
        hw_ring_next(&f->ring, size);
        if (hw_unlikely(f->stops_at_failure && f->n_failed)) {
            f->stops_at_failure = false;
            status = HW_CONSUMER_FAILED;
            break;
        }
    }
    hw_ring_release(&f->ring);
    if (status == HW_CONSUMER_BROKEN)
        f->broken = true;
    if (f->n_records != before)
        hw_ring_consumer_measure(f);
    return status;
}
