/*
 * python_heap.c - from the table of used pools to the arenas:
 *
 *   usedpools[32 classes]: first, last pool with room; an empty class points 16 bytes before its two words
 *       |                                      (by that the table is recognized among the interpreter's variables)
 *   pool, at a multiple of 16 KiB              arena_object
 *     +0  blocks in use                          +0  address; 0 = none
 *    +32  number of its arena                    +8  the first pool that was never used
 *    +36  size class                            +16  free pools, +20 all pools
 *    +40  next block never used, +44 its limit
 *
 * 3.12 and later have the array of arena_objects behind the table. In 3.11 it is any variable: one that leads to
 * the object whose memory has the pool in it.
 */
#include "proc/heaps/python_heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "proc/heaps/target_memory.h"
#include "proc/heaps/target_variables.h"

#include "base/banned.h"

#define MAX_CPU_NS   UINT64_C(100000000)
#define ATTEMPTS     3u
#define CLASSES      32u
#define TABLE_WORDS  (2 * CLASSES)
#define POOL         (UINT64_C(16) << 10)
#define POOL_HEADER  48u
#define ARENA        (UINT64_C(1) << 20)
#define ARENA_OBJECT 48u
#define ARENA_POOLS  (ARENA / POOL)
#define FIRST_ARENAS 16u /* in the array, at least */
#define MAX_EMPTY    65536u
#define MAX_ARENAS   (1u << 22)
#define STEP         16u

struct walk {
    HW_VEC(uint64_t) found; /* addresses of arenas */
    struct hw_target_memory memory;
    struct hw_target_variables variables;
};

struct arena {
    uint64_t address, pools_end;
    uint32_t n_free, n_all;
};

struct pool {
    uint32_t count, arena, size_class, next, limit;
};

/* ---- the interpreter's variables ---- */

static bool is_python(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && (strncmp(slash, "/python3", 8) == 0 || strncmp(slash, "/libpython3", 11) == 0);
}

/* ---- pools and arenas ---- */

static bool read_pool(struct walk *w, uint64_t at, struct pool *out)
{
    uint64_t count, a, b;
    if (hw_target_word_anywhere(&w->memory, at, &count) < 0 ||
        hw_target_word_anywhere(&w->memory, at + 32, &a) < 0 ||
        hw_target_word_anywhere(&w->memory, at + 40, &b) < 0)
        return false;
    *out = (struct pool){.count = (uint32_t)count,
                         .arena = (uint32_t)a,
                         .size_class = (uint32_t)(a >> 32),
                         .next = (uint32_t)b,
                         .limit = (uint32_t)(b >> 32)};
    return true;
}

static uint64_t block_of(uint32_t size_class)
{
    return ((uint64_t)size_class + 1) * STEP;
}

static uint64_t blocks_in(uint32_t size_class)
{
    return (POOL - POOL_HEADER) / block_of(size_class);
}

/* A pool that was never given a class has none that fits; it is not carved then. */
static bool is_pool(const struct pool *p, uint64_t arena)
{
    return p->arena == arena && p->size_class < CLASSES && p->count <= blocks_in(p->size_class) &&
           p->limit == POOL - block_of(p->size_class) && p->next <= POOL + block_of(p->size_class);
}

static int read_arena(struct walk *w, uint64_t objects, uint64_t i, struct arena *out)
{
    uint64_t at = objects + i * ARENA_OBJECT, n;
    int rc = hw_target_word_anywhere(&w->memory, at, &out->address);
    if (rc == HW_OK)
        rc = hw_target_word_anywhere(&w->memory, at + 8, &out->pools_end);
    if (rc == HW_OK)
        rc = hw_target_word_anywhere(&w->memory, at + 16, &n);
    if (rc == HW_OK) {
        out->n_free = (uint32_t)n;
        out->n_all = (uint32_t)(n >> 32);
    }
    return rc;
}

static uint64_t first_pool(uint64_t arena)
{
    return (arena + POOL - 1) / POOL * POOL;
}

static bool is_arena(const struct arena *a)
{
    uint64_t first = first_pool(a->address), n = ARENA_POOLS - (first != a->address);
    return a->address && a->address % HW_TARGET_PAGE == 0 && a->n_all == n && a->n_free <= n &&
           a->pools_end >= first && a->pools_end % POOL == 0 && a->pools_end <= first + n * POOL;
}

/* When the mappings were read. */
static bool is_mapped(const struct walk *w, const struct arena *a)
{
    return hw_target_is_heap(&w->memory, a->address, a->address + ARENA);
}

/* The array of arena objects is there: the pool is in the one that it names. */
static bool leads_to(struct walk *w, uint64_t objects, uint64_t pool, uint64_t number)
{
    struct arena a;
    return objects && objects % 8 == 0 && objects >> 47 == 0 && number < MAX_ARENAS &&
           read_arena(w, objects, number, &a) == HW_OK && is_arena(&a) && is_mapped(w, &a) &&
           pool >= a.address && pool < a.pools_end;
}

/* Looks like the table of pools. */
static bool is_like_table(const uint64_t *words, uint64_t at)
{
    for (size_t i = 0; i < CLASSES; i++) {
        uint64_t first = words[2 * i], last = words[2 * i + 1], self = at + 16 * i - 16;
        bool is_empty = first == self;
        if (is_empty != (last == self) || (!is_empty && (first % POOL || last % POOL || !first)))
            return false;
    }
    return true;
}

/* Each of its pools is one of that class, with room. pool: one of them, or 0 if there is none. */
static bool is_table(struct walk *w, const uint64_t *words, uint64_t at, uint64_t *pool)
{
    if (!is_like_table(words, at))
        return false;
    *pool = 0;
    for (uint32_t i = 0; i < CLASSES; i++) {
        struct pool p;
        if (words[2 * i] == at + 16 * i - 16)
            continue;
        if (!read_pool(w, words[2 * i], &p) || !is_pool(&p, p.arena) || p.size_class != i)
            return false;
        *pool = words[2 * i];
    }
    return true;
}

/* The array is malloc's. */
static bool is_variable(const struct walk *w, uint64_t at)
{
    const struct hw_variables *v = w->variables.v.v;
    size_t i = HW_LOWER_BOUND(k, 0, w->variables.v.n, v[k].start <= at);
    return i > 0 && at - v[i - 1].start < v[i - 1].n * 8;
}

/* 0 = not found. */
static uint64_t find_objects(struct walk *w, const uint64_t *behind, uint64_t pool)
{
    struct pool p;
    if (!read_pool(w, pool, &p) || !is_pool(&p, p.arena))
        return 0;
    if (behind && leads_to(w, *behind, pool, p.arena))
        return *behind;
    for (size_t i = w->variables.v.n; i-- > 0;)
        for (uint64_t k = w->variables.v.v[i].n; k-- > 0;) { /* those without bytes in a file */
            uint64_t word = w->variables.v.v[i].words[k];
            if (k % 1024 == 0 && hw_target_is_late(&w->memory))
                return 0;
            if (word > 0x10000 && word % STEP == 0 && !is_variable(w, word) &&
                leads_to(w, word, pool, p.arena))
                return word;
        }
    return 0;
}

/* ---- the sum ---- */

static int add_pools(struct walk *w, const struct arena *a, uint64_t number,
                     struct hw_python_heap *out)
{
    uint64_t first = first_pool(a->address), n_used = 0;
    for (uint64_t at = first; at < a->pools_end; at += POOL) {
        struct pool p;
        if (!read_pool(w, at, &p))
            return HW_EGONE;
        if (p.count == 0)
            continue;
        if (!is_pool(&p, number))
            return HW_EFORMAT;
        out->used += p.count * block_of(p.size_class);
        out->free_blocks += (blocks_in(p.size_class) - p.count) * block_of(p.size_class);
        n_used++;
    }
    return n_used + a->n_free == a->n_all ? HW_OK : HW_EFORMAT;
}

static int by_address(const void *pa, const void *pb)
{
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return a < b ? -1 : a > b;
}

/* No byte is of two arenas: those without a used pool may be listed again and again. */
static bool is_each_once(struct walk *w)
{
    if (w->found.n)
        qsort(w->found.v, w->found.n, sizeof *w->found.v, by_address);
    for (size_t i = 1; i < w->found.n; i++)
        if (w->found.v[i] - w->found.v[i - 1] < ARENA)
            return false;
    return true;
}

/* Where the array ends only the interpreter knows: an object has the address of an arena whose pools name its number, or
 * none. What is behind the array is neither, or empty for long. */
static int add_arenas(struct walk *w, uint64_t objects, uint64_t pool_arena,
                      struct hw_python_heap *out)
{
    uint64_t n_empty = 0;
    for (uint64_t i = 0; i < MAX_ARENAS && n_empty < MAX_EMPTY; i++) {
        struct arena a;
        int rc = read_arena(w, objects, i, &a);
        if (rc == HW_OK && a.address == 0) {
            n_empty++;
            continue;
        }
        n_empty = 0;
        bool may_end = i >= FIRST_ARENAS && i > pool_arena;
        if (rc == HW_OK)
            rc = is_arena(&a) ? HW_OK : HW_EFORMAT;
        if (rc < 0)
            return may_end && rc != HW_ETIMEOUT ? HW_OK : rc;
        if (!is_mapped(w, &a)) /* a new one, perhaps: not the end */
            return HW_EFORMAT;
        rc = hw_vec_push(&w->found, a.address) < 0 ? HW_ENOMEM : add_pools(w, &a, i, out);
        if (rc < 0)
            return rc;
        out->arenas++;
        out->free_pools += a.n_free * POOL;
        out->committed += ARENA;
        out->resident += hw_target_resident(&w->memory, a.address, a.address + ARENA);
    }
    return HW_OK;
}

static int read_once(struct walk *w, const struct hw_variables *image, uint64_t at, uint64_t pool,
                     struct hw_python_heap *out)
{
    struct pool p, after;
    uint64_t word = at + TABLE_WORDS * 8, behind;
    bool has_behind = word < image->start + image->n * 8 &&
                      hw_target_word_anywhere(&w->memory, word, &behind) == HW_OK;
    uint64_t objects = find_objects(w, has_behind ? &behind : NULL, pool);
    if (!objects || !read_pool(w, pool, &p))
        return hw_target_is_late(&w->memory) ? HW_ETIMEOUT : HW_EGONE;
    w->found.n = 0;
    int rc = add_arenas(w, objects, p.arena, out);
    if (rc == HW_OK && !is_each_once(w))
        rc = HW_EFORMAT;
    if (hw_target_is_late(&w->memory))
        return HW_ETIMEOUT;
    hw_target_memory_forget(&w->memory);
    return rc == HW_OK && (!read_pool(w, pool, &after) || after.arena != p.arena) ? HW_EFORMAT : rc;
}

static enum hw_python_heap_state state_of(int rc)
{
    return rc == HW_OK         ? HW_PYTHON_HEAP_KNOWN
           : rc == HW_ETIMEOUT ? HW_PYTHON_HEAP_LIMIT
                               : HW_PYTHON_HEAP_CHANGED;
}

/* The table among the variables as they are now. HW_ENOTFOUND: it is not there; HW_ETIMEOUT. */
static int find_table(struct walk *w, const struct hw_variables **image, uint64_t *at,
                      uint64_t *pool)
{
    for (size_t i = 0; i < w->variables.v.n; i++)
        for (uint64_t k = 0; k + TABLE_WORDS <= w->variables.v.v[i].n; k++) {
            *image = &w->variables.v.v[i];
            *at = w->variables.v.v[i].start + k * 8;
            if (k % 1024 == 0 && hw_target_is_late(&w->memory))
                return HW_ETIMEOUT;
            if (is_table(w, w->variables.v.v[i].words + k, *at, pool))
                return HW_OK;
        }
    return HW_ENOTFOUND;
}

static int read_heap(struct walk *w, const struct hw_smaps *s, struct hw_python_heap *out)
{
    int rc = HW_EFORMAT;
    for (size_t n = 0; (rc == HW_EFORMAT || rc == HW_EGONE) && n < ATTEMPTS; n++) {
        const struct hw_variables *image;
        uint64_t at, pool;
        *out = (struct hw_python_heap){.state = HW_PYTHON_HEAP_UNKNOWN};
        hw_target_variables_done(&w->variables);
        hw_target_memory_forget(&w->memory);
        rc = hw_target_variables_read(&w->memory, s, is_python, &w->variables);
        if (rc == HW_OK && hw_target_is_late(&w->memory)) {
            rc = HW_ETIMEOUT;
            break;
        }
        if (rc == HW_OK && w->variables.v.n == 0) {
            out->state = HW_PYTHON_HEAP_NONE;
            return HW_OK;
        }
        if (rc < 0)
            return rc;
        rc = find_table(w, &image, &at, &pool);
        if (rc == HW_ETIMEOUT)
            break;
        if (rc < 0 || pool == 0)
            return HW_OK;
        rc = read_once(w, image, at, pool, out);
    }
    if (rc == HW_ENOMEM)
        return rc;
    if (rc < 0)
        *out = (struct hw_python_heap){0};
    if (rc < 0 && s->cut) /* what is missing may be in mappings that were too many */
        rc = HW_ETIMEOUT;
    out->state = state_of(rc);
    return HW_OK;
}

int hw_python_heap_read(const struct hw_smaps *s, int mem, int pagemap, struct hw_python_heap *out)
{
    *out = (struct hw_python_heap){.state = HW_PYTHON_HEAP_NONE};
    if (mem < 0 || pagemap < 0)
        return HW_OK;
    struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return HW_ENOMEM;
    hw_target_memory_init(&w->memory, s, mem, pagemap, MAX_CPU_NS);
    int rc = read_heap(w, s, out);
    hw_target_variables_done(&w->variables);
    hw_vec_done(&w->found);
    free(w);
    return rc;
}
