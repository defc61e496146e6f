/*
 * jit_code.c - three sorted lists: the few latest entries take precedence over all others
 *
 *     recent     |----B----|      |-C-|
 *     middle   |--A1--|-----A2------|
 *     settled                         |---A3---|      found: A1 B A2 C A3
 *
 * An entry cuts what it covers out of `recent` at once. A full list and the one behind it become
 * one, and what is covered goes. So each of 10^6 functions moves some 200 rows. (With two lists it
 * was 1000: 4 MB of a map took seconds, and the thread reads other targets' rings, too.)
 */
#include "proc/jit/jit_code.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

#define MAX_RECENT 256u
#define MAX_MIDDLE 16384u

void hw_jit_code_done(struct hw_jit_code *c)
{
    hw_vec_done(&c->settled);
    hw_vec_done(&c->middle);
    hw_vec_done(&c->recent);
    hw_arena_done(&c->arena);
    hw_map64_done(&c->files);
    *c = (struct hw_jit_code){0};
}

size_t hw_jit_code_bytes(const struct hw_jit_code *c)
{
    return (c->settled.cap + c->middle.cap + c->recent.cap) * sizeof *c->recent.v + c->arena.total +
           hw_map64_bytes(&c->files);
}

/* First range that ends after the address. */
static size_t lower(const hw_jit_ranges *r, uint64_t address)
{
    return HW_LOWER_BOUND(mid, 0, r->n, r->v[mid].hi <= address);
}

static const struct hw_jit_range *find_in(const hw_jit_ranges *r, uint64_t address)
{
    size_t i = lower(r, address);
    return i < r->n && r->v[i].lo <= address ? &r->v[i] : NULL;
}

const struct hw_jit_range *hw_jit_code_find(const struct hw_jit_code *c, uint64_t address)
{
    const struct hw_jit_range *r = find_in(&c->recent, address);
    if (!r)
        r = find_in(&c->middle, address);
    return r ? r : find_in(&c->settled, address);
}

const struct hw_jit_line *hw_jit_line_of(const struct hw_jit_range *r, uint64_t address)
{
    const struct hw_jit_entry *e = r->entry;
    /* the last line at or below the address */
    uint32_t lo =
        (uint32_t)HW_LOWER_BOUND(mid, 0, e->n_lines, e->lines[mid].address <= address - r->moved);
    return lo > 0 ? &e->lines[lo - 1] : NULL;
}

/* ---- ranges ---- */

/* Everything of `over` in front of `under`; *out is empty and has room. */
static void merge(const hw_jit_ranges *under, const hw_jit_ranges *over, hw_jit_ranges *out)
{
    size_t k = 0;
    for (size_t i = 0; i < under->n; i++) {
        struct hw_jit_range rest = under->v[i];
        while (k < over->n && over->v[k].lo < rest.hi) {
            struct hw_jit_range left = rest;
            left.hi = over->v[k].lo;
            if (left.lo < left.hi)
                out->v[out->n++] = left;
            if (rest.lo < over->v[k].hi)
                rest.lo = over->v[k].hi;
            if (rest.lo >= rest.hi)
                break; /* it may cover the next one, too */
            out->v[out->n++] = over->v[k++];
        }
        if (rest.lo < rest.hi)
            out->v[out->n++] = rest;
    }
    while (k < over->n)
        out->v[out->n++] = over->v[k++];
}

/* The second becomes part of the first, and is empty then. */
static int join(struct hw_jit_code *c, hw_jit_ranges *under, hw_jit_ranges *over)
{
    hw_jit_ranges out = {0};
    /* Each of those in front cuts at most one range into two. */
    if (hw_vec_reserve(&out, under->n + 2 * over->n + 1) < 0)
        return HW_ENOMEM;
    merge(under, over, &out);
    c->n_moved += out.n;
    hw_vec_done(under);
    *under = out;
    hw_vec_clear(over);
    return HW_OK;
}

static int settle(struct hw_jit_code *c)
{
    int rc = join(c, &c->middle, &c->recent);
    return rc < 0 || c->middle.n < MAX_MIDDLE ? rc : join(c, &c->settled, &c->middle);
}

static int put(struct hw_jit_code *c, const struct hw_jit_range *add)
{
    hw_jit_ranges *r = &c->recent;
    if (r->n >= MAX_RECENT && settle(c) < 0)
        return HW_ENOMEM;
    if (hw_vec_reserve(r, r->n + 2) < 0)
        return HW_ENOMEM;
    size_t first = lower(r, add->lo), end = first;
    while (end < r->n && r->v[end].lo < add->hi)
        end++;
    struct hw_jit_range piece[3];
    size_t n = 0;
    if (end > first && r->v[first].lo < add->lo) {
        piece[n] = r->v[first];
        piece[n++].hi = add->lo;
    }
    piece[n++] = *add;
    if (end > first && r->v[end - 1].hi > add->hi) {
        piece[n] = r->v[end - 1];
        piece[n++].lo = add->hi;
    }
    c->n_moved += r->n - end;
    memmove(r->v + first + n, r->v + end, (r->n - end) * sizeof *r->v);
    memcpy(r->v + first, piece, n * sizeof *piece);
    r->n = r->n - (end - first) + n;
    return HW_OK;
}

/* ---- entries ---- */

static size_t name_length(struct hw_bytes name)
{
    size_t n = 0;
    while (n < name.n && n < HW_JIT_MAX_NAME && name.p[n] >= ' ')
        n++;
    return n;
}

static bool is_range(uint64_t at, uint64_t size)
{
    return size > 0 && size <= HW_JIT_MAX_CODE_BYTES && at < UINT64_MAX - size;
}

const char *hw_jit_code_file(struct hw_jit_code *c, struct hw_bytes name)
{
    uint64_t known;
    name.n = name_length(name);
    uint64_t hash = hw_hash_bytes_seeded(hw_hash_seed(), name.p, name.n);
    if (hw_map64_get(&c->files, hash, &known)) {
        const char *copy = (const char *)(uintptr_t)known;
        if (strlen(copy) == name.n && memcmp(copy, name.p, name.n) == 0)
            return copy;
    }
    if (c->arena.total > HW_JIT_MAX_TOTAL_BYTES)
        return NULL;
    char *copy = hw_arena_copy(&c->arena, name.p, name.n);
    if (copy)
        (void)hw_map64_put(&c->files, hash, (uintptr_t)copy); /* else copied again */
    return copy;
}

int hw_jit_code_add(struct hw_jit_code *c, uint64_t at, uint64_t size, struct hw_bytes name,
                    const struct hw_jit_line *lines, uint32_t n_lines)
{
    if (!is_range(at, size) || c->n_entries >= HW_JIT_MAX_ENTRIES ||
        c->arena.total > HW_JIT_MAX_TOTAL_BYTES)
        return HW_ELIMIT;
    struct hw_jit_entry *e = hw_arena_alloc(&c->arena, sizeof *e);
    char *copy = hw_arena_copy(&c->arena, name.p, name_length(name));
    struct hw_jit_line *own = NULL;
    if (n_lines)
        own = hw_arena_alloc(&c->arena, n_lines * sizeof *own);
    if (!e || !copy || (n_lines && !own))
        return HW_ENOMEM;
    if (n_lines)
        memcpy(own, lines, n_lines * sizeof *own);
    *e = (struct hw_jit_entry){copy, own, at, n_lines};
    c->n_entries++;
    return put(c, &(struct hw_jit_range){at, at + size, 0, e});
}

int hw_jit_code_move(struct hw_jit_code *c, uint64_t from, uint64_t to, uint64_t size)
{
    const struct hw_jit_range *r = hw_jit_code_find(c, from);
    if (!r || c->n_entries >= HW_JIT_MAX_ENTRIES)
        return HW_OK;
    if (!is_range(to, size))
        return HW_ELIMIT;
    c->n_entries++;
    uint64_t moved = to - (from - r->moved);
    return put(c, &(struct hw_jit_range){to, to + size, moved, r->entry});
}
