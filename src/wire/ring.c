/*
 * ring.c - the reader's half of the ring
 *
 * The reader believes three things only: its own cursor, sizes it has checked, and bytes it has
 * copied. Whatever else the shared memory says may change between two loads.
 *
 *      released        cursor                      write_pos (as claimed)
 *      v               v                           v
 *      |  being copied |  committed | hole | ...   |  free
 *
 * Invariant: released <= cursor <= claimed write_pos <= released + data_bytes. A claim outside of
 *            that is damage, since no writer can reserve more than read_pos allows.
 *
 * A ring whose memory comes in parts begins as one that is nearly full: the writers' first position
 * is as far behind read_pos as leaves room for what there is, and read_pos goes no further than
 * there is memory one length behind it.
 *
 *      read_pos          first_pos            memory_end = read_pos + data_bytes
 *      v                 v                    v
 *      | (nothing)       |  memory            |
 */
#include "wire/ring.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/ring_map.h"

#include "base/banned.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define GROW_USED  16u                   /* when this share of it was written */
#define GROW_TIMES 3u                    /* by so much of what there is, */
#define GROW_MOST  (16u * 1024u * 1024u) /* and at most: other rings are read by the same thread */

/* Takes the pages now, or fails, without a signal. */
static int populate(const struct hw_ring_reader *r, uint64_t pos, uint64_t n_bytes)
{
    uint64_t page = hw_ring_head_bytes(), at = pos & (r->data_bytes - 1);
    uint64_t lo = at / page * page, hi = (at + n_bytes + page - 1) / page * page;
    return madvise((void *)(uintptr_t)(r->data + lo), (size_t)(hi - lo), MADV_POPULATE_WRITE) == 0
               ? HW_OK
               : HW_ESYS;
}

uint64_t hw_ring_memory_bytes(const struct hw_ring_reader *r)
{
    return r->memory_end == UINT64_MAX ? r->data_bytes : r->memory_end - r->first_pos;
}

int hw_ring_grow(struct hw_ring_reader *r)
{
    uint64_t has = hw_ring_memory_bytes(r), end;
    if (r->memory_end == UINT64_MAX || hw_ring_write_pos(r, &end) < 0 ||
        end - r->first_pos < has / GROW_USED)
        return HW_OK;
    uint64_t more = has * GROW_TIMES < GROW_MOST ? has * GROW_TIMES : GROW_MOST;
    uint64_t rest = r->data_bytes - has;
    more = more < rest ? more : rest;
    int rc = populate(r, r->memory_end, more);
    if (rc < 0)
        return rc;
    r->memory_end = more == rest ? UINT64_MAX : r->memory_end + more;
    return HW_OK;
}

/* Pages are allocated now and charged to us: a target must not run into a full memory group, as
 * SIGBUS or a kill, in the middle of its malloc. */
static int take_memory(const struct hw_ring_reader *r, uint64_t data_bytes, size_t slots_bytes,
                       uint64_t begun_bytes)
{
    uint64_t head = hw_ring_head_bytes(), first = head + HW_RING_FIRST_POS;
    uint64_t whole = head + data_bytes + slots_bytes;
    if (begun_bytes == data_bytes)
        return fallocate(r->fd, 0, 0, (off_t)whole);
    uint64_t left_out = data_bytes - begun_bytes;
    return fallocate(r->fd, 0, 0, (off_t)first) ||
           fallocate(r->fd, 0, (off_t)(first + left_out), (off_t)(whole - first - left_out));
}

static int create(struct hw_ring_reader *r, uint64_t data_bytes, size_t slots_bytes,
                  uint64_t begun_bytes)
{
    *r = (struct hw_ring_reader){.fd = -1};
    if (!hw_ring_size_ok(data_bytes))
        return HW_EINVAL;
    size_t whole = hw_ring_head_bytes() + (size_t)data_bytes + slots_bytes;
    int rc = HW_ESYS;
    r->fd = memfd_create("heapwise-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (r->fd < 0 || ftruncate(r->fd, (off_t)whole) != 0)
        goto fail;
    if (take_memory(r, data_bytes, slots_bytes, begun_bytes) != 0)
        goto fail;
    if (fcntl(r->fd, F_ADD_SEALS, HW_RING_SEALS) != 0)
        goto fail;
    struct hw_ring_shm *shm;
    uint8_t *data;
    rc = hw_ring_map(r->fd, data_bytes, &shm, &data);
    if (rc < 0)
        goto fail;
    r->shm = shm;
    r->data = data;
    r->data_bytes = data_bytes;
    struct hw_slice_slot *slots;
    if (slots_bytes && (rc = hw_ring_map_slots(r->fd, data_bytes, &slots)) < 0)
        goto fail;
    if (slots_bytes)
        r->slots = slots;
    r->scratch = malloc(HW_REC_MAX_BYTES);
    if (!r->scratch) {
        rc = HW_ENOMEM;
        goto fail;
    }
    shm->magic = HW_RING_MAGIC;
    shm->version = HW_WIRE_VERSION;
    shm->data_bytes = data_bytes;
    shm->slots_bytes = (uint32_t)slots_bytes;
    r->released_pos = HW_RING_FIRST_POS;
    r->first_pos = r->read_pos = HW_RING_FIRST_POS + data_bytes - begun_bytes;
    r->memory_end = begun_bytes == data_bytes ? UINT64_MAX : r->released_pos + data_bytes;
    if (begun_bytes != data_bytes && populate(r, r->first_pos, 1) < 0) {
        hw_ring_done(r); /* an older kernel */
        return create(r, data_bytes, slots_bytes, data_bytes);
    }
    atomic_store_explicit(&shm->write_pos, r->first_pos, memory_order_relaxed);
    atomic_store_explicit(&shm->read_pos, r->released_pos, memory_order_relaxed);
    return HW_OK;
fail:
    hw_ring_done(r);
    return rc;
}

int hw_ring_create(struct hw_ring_reader *r, uint64_t data_bytes)
{
    return create(r, data_bytes, /* slots_bytes = */ 0, data_bytes);
}

int hw_ring_create_begun(struct hw_ring_reader *r, uint64_t data_bytes, uint64_t begun_bytes)
{
    begun_bytes = begun_bytes / 8 * 8;
    bool is_part = begun_bytes >= HW_RING_MIN_BYTES && begun_bytes < data_bytes;
    return create(r, data_bytes, /* slots_bytes = */ 0, is_part ? begun_bytes : data_bytes);
}

int hw_ring_create_with_slots(struct hw_ring_reader *r, uint64_t data_bytes)
{
    return create(r, data_bytes, hw_ring_slots_bytes(), data_bytes);
}

void hw_ring_close_fd(struct hw_ring_reader *r)
{
    if (r->fd >= 0)
        (void)close(r->fd); /* a memory file: nothing can fail that we could mend */
    r->fd = -1;
}

void hw_ring_done(struct hw_ring_reader *r)
{
    hw_ring_close_fd(r);
    hw_ring_unmap_slots(r->slots);
    hw_ring_unmap(r->shm, r->data_bytes);
    free(r->scratch);
    *r = (struct hw_ring_reader){.fd = -1};
}

int hw_ring_write_pos(const struct hw_ring_reader *r, uint64_t *out)
{
    uint64_t w = atomic_load_explicit(&r->shm->write_pos, memory_order_relaxed);
    if (w - r->released_pos > r->data_bytes || w < r->read_pos || w % 8 != 0)
        return HW_EFORMAT;
    *out = w;
    return HW_OK;
}

/* A head that can be one of ours at pos, below the write position end. Gives its size or 0. */
static uint32_t plausible(uint64_t head, uint64_t pos, uint64_t end)
{
    uint32_t size = hw_rec_head_size(head, pos);
    uint32_t type = hw_rec_head_type(head);
    if (size < 8 || size > HW_REC_MAX_BYTES || size > end - pos)
        return 0;
    return type > HW_REC_NONE && type < HW_REC_TYPE_COUNT ? size : 0;
}

/* Acquire: pairs with the release in hw_ring_commit(); the payload is complete behind it. */
static uint64_t head_at(const struct hw_ring_reader *r, uint64_t pos)
{
    const _Atomic uint64_t *p =
        (const _Atomic uint64_t *)(const void *)(r->data + (pos & (r->data_bytes - 1)));
    return atomic_load_explicit(p, memory_order_acquire);
}

/* The writers' cache line is read once per batch, not once per record. Only we move the read
 * position: if it differs, writers have overwritten what was not read, or wait for nothing. */
static int refresh_end(struct hw_ring_reader *r)
{
    if (atomic_load_explicit(&r->shm->read_pos, memory_order_relaxed) != r->released_pos)
        return HW_EFORMAT;
    return hw_ring_write_pos(r, &r->known_end);
}

/* Volatile: nothing else keeps the compiler from loading again what may have changed since. */
#define LOAD(p, type, member)                                                                      \
    (*(const volatile uint64_t *)(const void *)((p) + offsetof(type, member)))

/* Each word is loaded once; from then on we use our copy. Gives the size, 0 = it is not one of
 * these. */
static inline uint32_t copy_small(const struct hw_ring_reader *r, uint64_t pos,
                                  struct hw_ring_small *out)
{
    const uint8_t *p = r->data + (pos & (r->data_bytes - 1));
    uint64_t head = head_at(r, pos);
    if (hw_unlikely((uint32_t)head != (uint32_t)(pos / 8)))
        return 0;
    out->pos = pos;
    if (head >> 32 == hw_rec_head_kind(sizeof(struct hw_rec_exact), HW_REC_EXACT)) {
        uint64_t size_heap = LOAD(p, struct hw_rec_exact, size_heap);
        uint64_t heap_id = size_heap >> 48;
        out->id = LOAD(p, struct hw_rec_exact, stack_id);
        out->time_ns = LOAD(p, struct hw_rec_exact, time_ns);
        out->size_heap = size_heap;
        return heap_id - 1 < HW_MAX_HEAPS - 1 ? sizeof(struct hw_rec_exact) : 0;
    }
    if (head >> 32 == hw_rec_head_kind(sizeof(struct hw_rec_free), HW_REC_FREE)) {
        out->id = LOAD(p, struct hw_rec_free, sample_id);
        out->time_ns = LOAD(p, struct hw_rec_free, time_ns);
        out->size_heap = 0;
        return sizeof(struct hw_rec_free);
    }
    return 0;
}

size_t hw_ring_gather(struct hw_ring_reader *r, uint64_t until, struct hw_ring_small *out,
                      size_t max, uint64_t *end)
{
    uint64_t pos = r->read_pos;
    size_t n = 0;
    if (r->known_end <= pos && refresh_end(r) < 0)
        return 0;
    uint64_t limit = r->known_end < until ? r->known_end : until;
    while (n < max && pos < limit) {
        uint32_t size = copy_small(r, pos, &out[n]);
        if (size == 0 || size > r->known_end - pos)
            break;
        pos += size;
        n++;
    }
    *end = pos;
    return n;
}

int hw_ring_peek(struct hw_ring_reader *r, const uint8_t **rec, uint32_t *size, uint64_t *pos)
{
    int rc = HW_OK;
    if (r->known_end <= r->read_pos)
        rc = refresh_end(r);
    if (rc < 0)
        return rc;
    if (r->known_end == r->read_pos)
        return 0;
    uint64_t head = head_at(r, r->read_pos);
    if (hw_rec_head_size(head, r->read_pos) == 0)
        return 0;
    uint32_t n = plausible(head, r->read_pos, r->known_end);
    if (n == 0) {
        /* The head may have been committed after we asked for the write position. */
        rc = refresh_end(r);
        if (rc < 0)
            return rc;
        n = plausible(head, r->read_pos, r->known_end);
        if (n == 0)
            return HW_EFORMAT;
    }
    memcpy(r->scratch, r->data + (r->read_pos & (r->data_bytes - 1)), n);
    memcpy(r->scratch, &head, sizeof head); /* the one that was checked */
    *rec = r->scratch;
    *size = n;
    *pos = r->read_pos;
    return 1;
}

void hw_ring_next(struct hw_ring_reader *r, uint32_t size)
{
    r->read_pos += size;
}

/*
 * Release, not relaxed: pairs with the acquire of read_pos in hw_ring_reserve(); our loads of the
 * payload must not sink below it.
 */
void hw_ring_release(struct hw_ring_reader *r)
{
    uint64_t last = r->memory_end - r->data_bytes;
    uint64_t pos = r->read_pos < last ? r->read_pos : last;
    if (r->released_pos == pos)
        return; /* spare the writers' cache line */
    r->released_pos = pos;
    atomic_store_explicit(&r->shm->read_pos, pos, memory_order_release);
}

/* A thread that ended between its reservation and its first store has left its intent only. */
static uint32_t intended(const struct hw_ring_reader *r, uint64_t pos, uint32_t *tid)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < HW_RING_WRITERS; i++) {
        uint64_t word = atomic_load_explicit(&r->shm->intents[i].word, memory_order_relaxed);
        uint32_t its = hw_ring_intent_tid(word), size = hw_ring_intent_bytes(word);
        if (its == 0 || word != hw_ring_intent_of(pos, size, its))
            continue;
        if (found)
            return 0; /* its writer is not known */
        found = size;
        *tid = its;
    }
    return found;
}

bool hw_ring_hole(const struct hw_ring_reader *r, struct hw_ring_hole *out)
{
    uint64_t end, head = head_at(r, r->read_pos);
    struct hw_ring_hole h = {.pos = r->read_pos};
    if (hw_ring_write_pos(r, &end) < 0 || end == h.pos || hw_rec_head_size(head, h.pos) != 0)
        return false;
    h.size = hw_rec_open_size(head, h.pos, &h.tid);
    if (h.size == 0)
        h.size = intended(r, h.pos, &h.tid);
    if (h.tid == 0 || h.size < 8 || h.size > HW_REC_MAX_BYTES || h.size > end - h.pos)
        return false;
    *out = h;
    return true;
}

bool hw_ring_pass_hole(struct hw_ring_reader *r, const struct hw_ring_hole *hole)
{
    struct hw_ring_hole now;
    if (!hw_ring_hole(r, &now) || now.pos != hole->pos || now.tid != hole->tid ||
        now.size != hole->size)
        return false;
    r->holes++;
    r->hole_bytes += now.size;
    r->read_pos += now.size;
    return true;
}

int hw_ring_skip_hole(struct hw_ring_reader *r)
{
    uint64_t end;
    int rc = hw_ring_write_pos(r, &end);
    if (rc < 0)
        return rc;
    uint64_t from = r->read_pos;
    uint64_t pos = from;
    if (pos == end)
        return 0;
    for (pos += 8; pos < end; pos += 8)
        if (plausible(head_at(r, pos), pos, end) != 0)
            break;
    r->holes++;
    r->hole_bytes += pos - from;
    r->read_pos = pos;
    return pos < end ? 1 : 0;
}
