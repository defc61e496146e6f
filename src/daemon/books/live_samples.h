/*
 * live_samples.h - the live samples of one target, by sample id
 *
 * Why:     every allocation inserts one and every free removes one, in any order: this is where the
 *          recorder waits for memory. A sample id is a ring position, so the ids of samples that
 *          were taken together lie together, and an id itself says where its sample is.
 * Shapes:  a block for each 4 KiB of the ring, one word for each 32 bytes of it, found by a
 *          directory of the last 1 GiB. A block that has become empty is used for the next ids,
 *          while it is in the cache. The map (live_map.h) has the rest of blocks with few samples,
 *          of blocks older than the directory, and what a word cannot hold.
 *          No sample has a time: ids grow with it, so those of the last second are those from some id on.
 * Owns:    blocks and map, straight from the kernel. Zero-initialised is empty.
 * Errors:  HW_ENOMEM, HW_ELIMIT (no such id): nothing changed.
 * Threads: one owner at a time.
 */
#ifndef HW_DAEMON_BOOKS_LIVE_SAMPLES_H
#define HW_DAEMON_BOOKS_LIVE_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/books/live_map.h"

struct hw_live_sample {
    uint64_t alloc_size, sample_size; /* below 2^48 */
    uint32_t cell;
    uint32_t interval; /* number of the heap's interval at that time; 0 = the sample is exact */
    uint32_t heap_id;  /* 1..255 */
    uint16_t takes;    /* hw_alloc_takes(); 0 = what its size needs */
};

#define HW_LIVE_BLOCK_SLOTS 128u
#define HW_LIVE_DIR_SLOTS   (1u << 18)
#define HW_LIVE_THIN        8u   /* a block with fewer goes to the map... */
#define HW_LIVE_YOUNG       256u /* ...unless it is one of the newest */

/*
 * A word: an exact sample of less than 256 MiB. 0 = none, since no heap's id is 0.
 *      63       36 35        10 9      8 7       0
 *     +-----------+------------+--------+---------+
 *     |   size    |    cell    | id / 8 | heap id |
 *     +-----------+------------+--------+---------+
 */
#define HW_LIVE_MAX_SIZE (1u << 28)
#define HW_LIVE_MAX_CELL (1u << 26)

/* Ids by the time at which they were used, which never goes back: young are those of the present tick and of the
 * HW_YOUNG_TICKS before it. So all that were used at most a second ago, and none that were used a tick before that. */
#define HW_YOUNG_TICK_NS UINT64_C(4000000)
#define HW_YOUNG_TICKS   250u
#define HW_YOUNG_MARKS   256u

struct hw_young {
    uint64_t from;    /* young are ids from here on */
    uint64_t next_ns; /* when the next tick begins; 0 = no time was seen */
    uint64_t tick;    /* the present one: time / HW_YOUNG_TICK_NS */
    uint64_t marks
        [HW_YOUNG_MARKS]; /* by tick % HW_YOUNG_MARKS: ids used at its beginning or later start here */
};

struct hw_live_samples {
    uint32_t *dir; /* owned; block + 1 in the upper 24 bits, its samples in the lower 8; 0 = none */
    uint64_t *words; /* owned; of all blocks, address space for HW_LIVE_DIR_SLOTS of them */
    uint32_t n_blocks, n_usable; /* started; with memory behind them */
    HW_VEC(uint32_t) empty;      /* of the started ones; their words are 0 */
    uint64_t next_id;            /* larger than all ids so far */
    uint64_t newest;             /* number of its block */
    size_t n_words;              /* samples in blocks */
    struct hw_live_map map;
    struct hw_young young;
};

void hw_live_samples_done(struct hw_live_samples *l);
/* 0, or 1 = the id was in use: *replaced is what it was. */
int hw_live_samples_put(struct hw_live_samples *l, uint64_t id, const struct hw_live_sample *s,
                        struct hw_live_sample *replaced);
/* Removes it and gives what it was. */
bool hw_live_samples_take(struct hw_live_samples *l, uint64_t id, struct hw_live_sample *out);

static inline size_t hw_live_samples_bytes(const struct hw_live_samples *l)
{
    return (l->dir ? HW_LIVE_DIR_SLOTS * sizeof *l->dir : 0) +
           (size_t)l->n_usable * HW_LIVE_BLOCK_SLOTS * sizeof *l->words +
           l->empty.cap * sizeof *l->empty.v +
           (l->map.slots ? (l->map.mask + 1) * sizeof *l->map.slots : 0);
}

static inline size_t hw_live_samples_count(const struct hw_live_samples *l)
{
    return l->n_words + l->map.n;
}

void hw_live_samples_tick(struct hw_live_samples *l, uint64_t time_ns);

/* To be told before what happens at that time. */
static inline void hw_live_samples_time(struct hw_live_samples *l, uint64_t time_ns)
{
    if (hw_unlikely(time_ns >= l->young.next_ns))
        hw_live_samples_tick(l, time_ns);
}

static inline bool hw_live_is_young(const struct hw_live_samples *l, uint64_t id)
{
    return id >= l->young.from;
}

/* The word of an id that would be in a block; NULL = there is no such block. */
static inline uint64_t *hw_live_word(const struct hw_live_samples *l, uint64_t id)
{
    uint64_t block = id / 4096;
    if (l->newest - block >= HW_LIVE_DIR_SLOTS || !l->dir) /* wraps: includes newer ones */
        return NULL;
    uint32_t entry = l->dir[block % HW_LIVE_DIR_SLOTS];
    if (entry == 0)
        return NULL;
    return &l->words[(size_t)((entry >> 8) - 1) * HW_LIVE_BLOCK_SLOTS +
                     id / 32 % HW_LIVE_BLOCK_SLOTS];
}

static inline bool hw_live_word_is(uint64_t word, uint64_t id)
{
    return (uint8_t)word != 0 && (word >> 8 & 3) == (id / 8 & 3) && id % 8 == 0;
}

static inline uint64_t hw_live_pack(uint64_t id, uint64_t size, uint32_t cell, uint32_t heap_id)
{
    return size << 36 | (uint64_t)cell << 10 | (id / 8 & 3) << 8 | heap_id;
}

static inline uint32_t hw_live_word_cell(uint64_t word)
{
    return word >> 10 & (HW_LIVE_MAX_CELL - 1);
}

/* The usual case of hw_live_samples_put, of an exact sample. False = nothing done: it is not the
 * case. */
static inline bool hw_live_samples_put_word(struct hw_live_samples *l, uint64_t id, uint64_t size,
                                            uint32_t cell, uint32_t heap_id)
{
    if (hw_unlikely(id < l->next_id || id / 4096 != l->newest || id % 8 != 0 ||
                    size >= HW_LIVE_MAX_SIZE || cell >= HW_LIVE_MAX_CELL || !l->dir))
        return false;
    uint32_t *entry = &l->dir[id / 4096 % HW_LIVE_DIR_SLOTS];
    if (hw_unlikely(*entry == 0))
        return false;
    uint64_t *word = &l->words[(size_t)((*entry >> 8) - 1) * HW_LIVE_BLOCK_SLOTS +
                               id / 32 % HW_LIVE_BLOCK_SLOTS];
    if (hw_unlikely(*word != 0))
        return false;
    *word = hw_live_pack(id, size, cell, heap_id);
    ++*entry;
    l->n_words++;
    l->next_id = id + 1;
    return true;
}

/* A block has few samples left: it is returned, or its samples move to the map. */
void hw_live_block_shrank(struct hw_live_samples *l, uint64_t block);

/* The usual case of hw_live_samples_take. */
static inline bool hw_live_samples_take_word(struct hw_live_samples *l, uint64_t id, uint64_t *out)
{
    uint64_t *word = hw_live_word(l, id);
    if (hw_unlikely(!word || !hw_live_word_is(*word, id)))
        return false;
    *out = *word;
    *word = 0;
    l->n_words--;
    uint64_t block = id / 4096;
    uint8_t left = (uint8_t)--l->dir[block % HW_LIVE_DIR_SLOTS];
    if (hw_unlikely(left < HW_LIVE_THIN && block != l->newest))
        hw_live_block_shrank(l, block);
    return true;
}

/* For an id that will be looked up soon. Gives what hw_live_word() does. */
static inline const uint64_t *hw_live_samples_prefetch(const struct hw_live_samples *l, uint64_t id)
{
    const uint64_t *word = hw_live_word(l, id);
    if (hw_likely(word != NULL))
        hw_prefetch_write(word);
    else
        hw_live_map_prefetch(&l->map, id);
    return word;
}

#endif
