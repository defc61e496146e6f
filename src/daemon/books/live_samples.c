/*
 * live_samples.c - blocks by position, and the map for the rest
 *
 *      ring      ... | 4 KiB | 4 KiB | 4 KiB | 4 KiB | <- next id
 *      directory      block 7   none  block 2 block 9
 *      block 2       128 words: one for each 32 bytes of the ring, since no record of an allocation
 *                    is shorter
 *
 * Most samples die young: their block is soon empty, goes on top of the list and is used next, so
 * that a program with 10^7 allocations a second is booked in a few hundred KiB. What stays costs 8
 * bytes for each 32 bytes of ring, about 16 per sample; a block with a few old samples would cost
 * more than the map, so these move there.
 *
 * Ids grow. One that does not comes from a damaged target: it is searched everywhere, and kept in
 * the map. Times may go back, as threads read the clock before they reserve their place; the newest counts.
 */
#include "daemon/books/live_samples.h"

#include <sys/mman.h>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/records.h"

#include "base/banned.h"

#define BLOCK_BYTES (HW_LIVE_BLOCK_SLOTS * sizeof(uint64_t))
#define WORDS_BYTES ((size_t)HW_LIVE_DIR_SLOTS * BLOCK_BYTES)
#define DIR_BYTES   (HW_LIVE_DIR_SLOTS * sizeof(uint32_t))
#define STEP_BYTES  (2u << 20) /* a huge page */
#define STEP_BLOCKS (uint32_t)(STEP_BYTES / BLOCK_BYTES)

_Static_assert(HW_LIVE_DIR_SLOTS < 1u << 24, "a block's number fits its entry");
_Static_assert(HW_REC_ALLOC_MIN *HW_LIVE_BLOCK_SLOTS == 4096, "a word for each record");

_Static_assert(HW_YOUNG_TICKS < HW_YOUNG_MARKS, "a mark for each");
_Static_assert(HW_YOUNG_TICKS *HW_YOUNG_TICK_NS == 1000000000, "a second");

/* At most HW_YOUNG_MARKS steps, whatever times a target tells. */
void hw_live_samples_tick(struct hw_live_samples *l, uint64_t time_ns)
{
    struct hw_young *y = &l->young;
    uint64_t tick = time_ns / HW_YOUNG_TICK_NS, n = tick - y->tick;
    for (uint64_t i = 0; i < n && i < HW_YOUNG_MARKS; i++)
        y->marks[(tick - i) % HW_YOUNG_MARKS] = l->next_id;
    y->tick = tick;
    y->next_ns = (tick + 1) * HW_YOUNG_TICK_NS;
    y->from = y->marks[(tick - HW_YOUNG_TICKS) % HW_YOUNG_MARKS];
}

static void *reserve(size_t bytes, int prot)
{
    void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void hw_live_samples_done(struct hw_live_samples *l)
{
    if (l->dir)
        (void)munmap(l->dir, DIR_BYTES);
    if (l->words)
        (void)munmap(l->words, WORDS_BYTES);
    hw_vec_done(&l->empty);
    hw_live_map_done(&l->map);
    *l = (struct hw_live_samples){0};
}

/* The first 2 MiB are small pages: most targets need a few of them only. */
static int usable_grow(struct hw_live_samples *l)
{
    if (!l->dir && !(l->dir = reserve(DIR_BYTES, PROT_READ | PROT_WRITE)))
        return HW_ENOMEM;
    if (!l->words && !(l->words = reserve(WORDS_BYTES, PROT_NONE)))
        return HW_ENOMEM;
    char *at = (char *)l->words + (size_t)l->n_usable * BLOCK_BYTES;
    if (l->n_usable >= HW_LIVE_DIR_SLOTS || mprotect(at, STEP_BYTES, PROT_READ | PROT_WRITE) != 0)
        return HW_ENOMEM;
    if (l->n_usable > 0)
        (void)madvise(at, STEP_BYTES, MADV_HUGEPAGE); /* a hint */
    *at = 0;                                          /* a page read first is allocated twice */
    l->n_usable += STEP_BLOCKS;
    return HW_OK;
}

static int block_take(struct hw_live_samples *l, uint32_t *out)
{
    if (l->empty.n > 0) {
        *out = l->empty.v[--l->empty.n];
        return HW_OK;
    }
    if (l->n_blocks == l->n_usable) {
        int rc = usable_grow(l);
        if (rc < 0)
            return rc;
    }
    if (hw_vec_reserve(&l->empty, (size_t)l->n_blocks + 1) <
        0) /* so that returning a block cannot fail */
        return HW_ENOMEM;
    *out = l->n_blocks++;
    return HW_OK;
}

static uint32_t *entry_of(const struct hw_live_samples *l, uint64_t block)
{
    return &l->dir[block % HW_LIVE_DIR_SLOTS];
}

static void block_return(struct hw_live_samples *l, uint32_t *entry)
{
    l->empty.v[l->empty.n++] = (*entry >> 8) - 1;
    *entry = 0;
}

static bool fits(uint64_t id, const struct hw_live_sample *s)
{
    return s->alloc_size == s->sample_size && s->interval == 0 &&
           s->alloc_size < HW_LIVE_MAX_SIZE && s->cell < HW_LIVE_MAX_CELL && s->heap_id != 0 &&
           s->takes == 0 && id % 8 == 0;
}

/* Field by field: a struct made elsewhere and copied would be read before it is written. */
static void unpack(uint64_t word, struct hw_live_sample *out)
{
    out->alloc_size = out->sample_size = word >> 36;
    out->cell = hw_live_word_cell(word);
    out->interval = 0;
    out->heap_id = (uint8_t)word;
    out->takes = 0;
}

static void fill(struct hw_live_map_slot *slot, const struct hw_live_sample *s)
{
    slot->alloc_size = s->alloc_size & ((UINT64_C(1) << 48) - 1);
    slot->sample_size = s->sample_size;
    slot->cell = s->cell;
    slot->takes = s->takes;
    slot->interval = (uint16_t)s->interval;
    slot->heap_id = (uint8_t)s->heap_id;
}

static struct hw_live_sample sample_of(const struct hw_live_map_slot *s)
{
    return (struct hw_live_sample){.alloc_size = s->alloc_size,
                                   .sample_size = s->sample_size,
                                   .cell = s->cell,
                                   .interval = s->interval,
                                   .heap_id = s->heap_id,
                                   .takes = s->takes};
}

static int map_put(struct hw_live_samples *l, uint64_t id, const struct hw_live_sample *s)
{
    struct hw_live_map_slot *slot;
    bool fresh;
    int rc = hw_live_map_at(&l->map, id, &slot, &fresh);
    if (rc == HW_OK)
        fill(slot, s);
    return rc;
}

/* A block's samples to the map. On error the rest is still in the block. */
static int block_clear(struct hw_live_samples *l, uint64_t block)
{
    uint32_t *entry = entry_of(l, block);
    uint64_t *words = &l->words[(size_t)((*entry >> 8) - 1) * HW_LIVE_BLOCK_SLOTS];
    for (uint32_t i = 0; (uint8_t)*entry != 0 && i < HW_LIVE_BLOCK_SLOTS; i++) {
        if (words[i] == 0)
            continue;
        struct hw_live_sample s;
        unpack(words[i], &s);
        int rc = map_put(l, block * 4096 + i * 32 + (words[i] >> 8 & 3) * 8, &s);
        if (rc < 0)
            return rc;
        words[i] = 0;
        --*entry;
        l->n_words--;
    }
    block_return(l, entry);
    return HW_OK;
}

/* The newest block may be empty and filled again. All others are returned when they are. */
static void leave_newest(struct hw_live_samples *l)
{
    uint32_t *entry = entry_of(l, l->newest);
    if (*entry != 0 && (uint8_t)*entry == 0)
        block_return(l, entry);
}

static void thin_out(struct hw_live_samples *l, uint64_t block)
{
    uint32_t entry = *entry_of(l, block);
    if (entry != 0 && (uint8_t)entry < HW_LIVE_THIN)
        (void)block_clear(l, block); /* without memory it stays where it is */
}

/* Makes `block` the newest. */
static int advance(struct hw_live_samples *l, uint64_t block)
{
    leave_newest(l);
    if (l->n_words == 0) { /* nothing in any block */
        l->newest = block;
        return HW_OK;
    }
    while (l->newest < block) {
        uint64_t next = l->newest + 1;
        if (*entry_of(l, next) != 0) { /* the directory has wrapped around */
            int rc = block_clear(l, next - HW_LIVE_DIR_SLOTS);
            if (rc < 0)
                return rc;
        }
        l->newest = next;
        if (next >= HW_LIVE_YOUNG)
            thin_out(l, next - HW_LIVE_YOUNG);
        if (l->n_words == 0)
            l->newest = block;
    }
    return HW_OK;
}

static int word_put(struct hw_live_samples *l, uint64_t id, const struct hw_live_sample *s)
{
    uint64_t block = id / 4096;
    if (!l->dir) {
        int rc = usable_grow(l);
        if (rc < 0)
            return rc;
        l->newest = block;
    }
    if (block != l->newest) {
        int rc = advance(l, block);
        if (rc < 0)
            return rc;
    }
    uint32_t *entry = entry_of(l, block), i;
    if (*entry == 0) {
        int rc = block_take(l, &i);
        if (rc < 0)
            return rc;
        *entry = (i + 1) << 8;
    }
    uint64_t *word = hw_live_word(l, id);
    if (*word != 0)
        return map_put(l, id, s); /* two ids in 32 bytes: no ring has that */
    *word = hw_live_pack(id, s->alloc_size, s->cell, s->heap_id);
    ++*entry;
    l->n_words++;
    return HW_OK;
}

static bool in_word(const struct hw_live_samples *l, uint64_t id)
{
    const uint64_t *word = hw_live_word(l, id);
    return word && hw_live_word_is(*word, id);
}

/* An id below one that was there before. */
static int put_again(struct hw_live_samples *l, uint64_t id, const struct hw_live_sample *s,
                     struct hw_live_sample *replaced)
{
    struct hw_live_map_slot *slot;
    bool fresh;
    int rc = hw_live_map_at(&l->map, id, &slot, &fresh);
    if (rc < 0)
        return rc;
    if (!fresh)
        *replaced = sample_of(slot);
    fill(slot, s);
    if (!fresh)
        return 1;
    return in_word(l, id) && hw_live_samples_take(l, id, replaced) ? 1 : 0;
}

int hw_live_samples_put(struct hw_live_samples *l, uint64_t id, const struct hw_live_sample *s,
                        struct hw_live_sample *replaced)
{
    if (hw_unlikely(id == UINT64_MAX))
        return HW_ELIMIT;
    if (hw_unlikely(id < l->next_id))
        return put_again(l, id, s, replaced);
    /* Without memory for a block there may still be some in the map. */
    if (!fits(id, s) || word_put(l, id, s) < 0) {
        int rc = map_put(l, id, s);
        if (rc < 0)
            return rc;
    }
    l->next_id = id + 1;
    return 0;
}

static bool take_from_map(struct hw_live_samples *l, uint64_t id, struct hw_live_sample *out)
{
    struct hw_live_map_slot s;
    if (!hw_live_map_take(&l->map, id, &s))
        return false;
    *out = sample_of(&s);
    return true;
}

bool hw_live_samples_take(struct hw_live_samples *l, uint64_t id, struct hw_live_sample *out)
{
    uint64_t word;
    if (!hw_live_samples_take_word(l, id, &word))
        return take_from_map(l, id, out);
    unpack(word, out);
    return true;
}

void hw_live_block_shrank(struct hw_live_samples *l, uint64_t block)
{
    uint32_t *entry = entry_of(l, block);
    if ((uint8_t)*entry == 0)
        block_return(l, entry);
    else if (l->newest - block >= HW_LIVE_YOUNG)
        thin_out(l, block);
}
