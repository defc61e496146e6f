/*
 * v8_heap.c - a chunk's header and a space's record, in words:
 *
 *     to 11  0 size  1 flags          2 heap  3 area begins  4 ends  5 allocated  8 space  10 own address  11 size
 *     12     0 flags 1 own address  2 size
 *                                     then as before, one word later
 *     space  1 heap  2 (u32) which    3 committed
 *            then, not in spaces of young and of large objects: bytes between begin and end of its chunks, the most of
 *            these ever, allocated (at another word in each version)
 *
 * Chunks of a space are a list; where in the header its links are differs, but only links lead from each chunk to
 * another one of the space. Objects are allocated between two addresses in one chunk, which the isolate, before
 * its heap, has with the one that was reached (begin, top, limit).
 */
#include "proc/heaps/v8_heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "base/memory/vec.h"
#include "proc/heaps/target_memory.h"
#include "proc/maps.h"

#include "base/banned.h"

#define MAX_CPU_NS   UINT64_C(100000000)
#define ATTEMPTS     3u
#define CHUNK        (UINT64_C(256) << 10)
#define HEADER_WORDS 13u
#define LINKS_FIRST  13u /* of words where the links may be */
#define LINKS_END    48u
#define MAX_SPACES   1024u
#define MAX_LINKED   4096u                /* chunks of a young space */
#define BEFORE_HEAP  (UINT64_C(96) << 10) /* of an isolate */
#define NO_SPACE     UINT32_MAX
#define SUMS_FIRST   4u /* words of a space where its sums may be */
#define SUMS_END     40u

enum { SIZE, FLAGS, HEAP, BEGIN, END, ALLOCATED, SPACE = 8, OWN = 10, OWN_SIZE };

static const struct version {
    uint32_t major, minor;
    uint32_t later; /* words */
    uint32_t n;
    uint8_t names[HW_V8_SPACES];
} versions[] = {
    {10,
     2,
     0,
     8,
     {HW_V8_READ_ONLY, HW_V8_OLD, HW_V8_CODE, HW_V8_MAP, HW_V8_LARGE, HW_V8_CODE_LARGE,
      HW_V8_NEW_LARGE, HW_V8_NEW}},
    {11,
     3,
     0,
     9,
     {HW_V8_READ_ONLY, HW_V8_NEW, HW_V8_OLD, HW_V8_CODE, HW_V8_SHARED, HW_V8_NEW_LARGE, HW_V8_LARGE,
      HW_V8_CODE_LARGE, HW_V8_SHARED_LARGE}},
    {12,
     4,
     1,
     11,
     {HW_V8_READ_ONLY, HW_V8_NEW, HW_V8_OLD, HW_V8_CODE, HW_V8_SHARED, HW_V8_TRUSTED,
      HW_V8_NEW_LARGE, HW_V8_LARGE, HW_V8_CODE_LARGE, HW_V8_SHARED_LARGE, HW_V8_TRUSTED_LARGE}},
};

struct chunk {
    uint64_t at, size, begin, end, allocated, resident;
    uint32_t space; /* number; NO_SPACE: read-only, of all isolates */
};

struct space {
    uint64_t at, heap, committed, area, allocated, resident, n;
    enum hw_v8_space_name name;
};

struct reading {
    struct hw_target_memory *m;
    const struct version *version;
    HW_VEC(struct chunk) chunks; /* by address */
    HW_VEC(struct space) spaces;
    bool is_damaged;
};

/* ---- chunks ---- */

static bool read_header(struct reading *r, uint64_t at, uint64_t w[HEADER_WORDS])
{
    uint32_t later = r->version->later;
    for (size_t i = 0; i < HEADER_WORDS; i++)
        if (hw_target_word_anywhere(r->m, at + i * 8, &w[i]) < 0)
            return false;
    if (later && w[1] != at)
        return false;
    if (later) {
        uint64_t flags = w[0];
        memmove(w, w + 2, sizeof *w);
        w[1] = flags;
        memmove(w + 2, w + 3, (HEADER_WORDS - 3) * sizeof *w);
    }
    return true;
}

/* No object, however it was made, has its own place where a chunk has it, but by intent. */
static bool is_chunk(struct reading *r, const struct hw_smaps_entry *e, uint64_t at,
                     const uint64_t *w)
{
    uint64_t size = w[SIZE];
    if (size == 0 || size % HW_TARGET_PAGE || size > UINT64_MAX - at ||
        !hw_target_is_private(r->m, at, at + size))
        return false;
    if (w[BEGIN] <= at || w[BEGIN] > w[END] || w[END] > at + size ||
        w[ALLOCATED] > w[END] - w[BEGIN])
        return false;
    if (w[HEAP] == 0) /* it was given to all */
        return w[SPACE] == 0 && w[OWN] == 0 && w[OWN_SIZE] == 0 && e->start == at &&
               e->end == at + size && !(e->flags & HW_MAP_WRITE);
    return w[SPACE] != 0 && w[OWN] == at && w[OWN_SIZE] == size;
}

/* HW_EFORMAT: its space is none. */
static int space_of(struct reading *r, uint64_t at, uint64_t heap, uint32_t *out)
{
    uint64_t of_heap, name;
    for (size_t i = r->spaces.n; i-- > 0;)
        if (r->spaces.v[i].at == at) {
            *out = (uint32_t)i;
            return r->spaces.v[i].heap == heap ? HW_OK : HW_EFORMAT;
        }
    if (r->spaces.n == MAX_SPACES || hw_target_word_anywhere(r->m, at + 8, &of_heap) < 0 ||
        hw_target_word_anywhere(r->m, at + 16, &name) < 0 || of_heap != heap ||
        (uint32_t)name >= r->version->n)
        return HW_EFORMAT;
    struct space s = {.at = at, .heap = heap, .name = r->version->names[(uint32_t)name]};
    *out = (uint32_t)r->spaces.n;
    return hw_vec_push(&r->spaces, s) < 0 ? HW_ENOMEM : HW_OK;
}

/* *next: where the one behind it can be. */
static int add_chunk(struct reading *r, const struct hw_smaps_entry *e, uint64_t at, uint64_t *next)
{
    uint64_t w[HEADER_WORDS];
    *next = at + CHUNK;
    if (!read_header(r, at, w) || !is_chunk(r, e, at, w))
        return HW_OK;
    struct chunk c = {.at = at,
                      .size = w[SIZE],
                      .begin = w[BEGIN],
                      .end = w[END],
                      .allocated = w[ALLOCATED],
                      .space = NO_SPACE};
    int rc = w[HEAP] ? space_of(r, w[SPACE], w[HEAP], &c.space) : HW_OK;
    r->is_damaged |= rc == HW_EFORMAT;
    if (rc < 0)
        return rc == HW_EFORMAT ? HW_OK : rc;
    c.resident = hw_target_resident(r->m, at, at + c.size);
    *next = (at + c.size + CHUNK - 1) & ~(CHUNK - 1);
    return hw_vec_push(&r->chunks, c) < 0 ? HW_ENOMEM : HW_OK;
}

static int find_chunks(struct reading *r)
{
    const struct hw_smaps *s = r->m->mappings;
    uint64_t at = 0;
    for (size_t i = 0; i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        uint64_t first = (e->start + CHUNK - 1) & ~(CHUNK - 1);
        at = at > first ? at : first;
        while (at >= first && at < e->end && (e->flags & HW_MAP_READ) && e->rss_kb &&
               hw_target_is_private(r->m, at, at + HW_TARGET_PAGE)) {
            int rc = hw_target_is_late(r->m) ? HW_ETIMEOUT : add_chunk(r, e, at, &at);
            if (rc < 0)
                return rc;
        }
    }
    return HW_OK;
}

/* ---- young objects ---- */

static size_t chunk_of(const struct reading *r, uint64_t address)
{
    return HW_LOWER_BOUND(i, 0, r->chunks.n, r->chunks.v[i].at + r->chunks.v[i].size <= address);
}

struct place {
    size_t chunk;
    uint64_t top;
};

static bool is_place(const struct reading *r, uint64_t heap, const uint64_t w[3], size_t *chunk)
{
    if (w[0] == 0 || w[0] > w[1] || w[1] > w[2] || w[0] == w[2] || w[2] - w[0] > CHUNK ||
        (w[0] | w[1] | w[2]) % 8)
        return false;
    *chunk = chunk_of(r, w[0]);
    if (*chunk == r->chunks.n)
        return false;
    const struct chunk *c = &r->chunks.v[*chunk];
    const struct space *s = c->space == NO_SPACE ? NULL : &r->spaces.v[c->space];
    return s && s->name == HW_V8_NEW && s->heap == heap && w[0] >= c->begin && w[2] <= c->end;
}

/* The only one of this heap; 0 = none, or several. */
static bool find_place(struct reading *r, uint64_t heap, struct place *out)
{
    uint64_t w[3] = {0}, end = heap & ~UINT64_C(7); /* which the target says: no sum beyond it */
    size_t found = 0, chunk;
    for (uint64_t at = end > BEFORE_HEAP ? end - BEFORE_HEAP : 0; at < end; at += 8) {
        w[0] = w[1];
        w[1] = w[2];
        int rc = hw_target_word(r->m, at, &w[2]);
        if (rc == HW_ETIMEOUT)
            return false;
        if (rc < 0) {
            w[2] = 0;
            continue;
        }
        if (!is_place(r, heap, w, &chunk))
            continue;
        found++;
        *out = (struct place){chunk, w[1]};
    }
    return found == 1;
}

/* Where each chunk of a space leads, by one word of its header. */
struct links {
    size_t n;
    const size_t *chunks;  /* their numbers, ascending */
    const uint64_t *words; /* LINKS_END of each */
};

static bool number_in(const struct reading *r, const struct links *l, uint64_t at, size_t *out)
{
    *out = HW_LOWER_BOUND(i, 0, l->n, r->chunks.v[l->chunks[i]].at < at);
    return *out < l->n && r->chunks.v[l->chunks[*out]].at == at;
}

/* Bytes before the chunk, if that word is a list of all of them. */
static bool bytes_before(const struct reading *r, const struct links *l, size_t word, size_t chunk,
                         uint64_t *out)
{
    size_t first = l->n, next, left = l->n;
    hw_autofree bool *is_led_to = calloc(l->n, 1);
    if (!is_led_to)
        return false;
    for (size_t i = 0; i < l->n; i++) {
        uint64_t at = l->words[i * LINKS_END + word];
        if (at == 0)
            continue;
        if (!number_in(r, l, at, &next) || is_led_to[next])
            return false;
        is_led_to[next] = true;
    }
    for (size_t i = 0; i < l->n; i++) {
        if (!is_led_to[i] && first != l->n)
            return false;
        first = is_led_to[i] ? first : i;
    }
    *out = 0;
    bool is_before = true, has_chunk = false;
    for (size_t i = first; i < l->n && left > 0; left--) {
        const struct chunk *c = &r->chunks.v[l->chunks[i]];
        is_before &= l->chunks[i] != chunk;
        has_chunk |= !is_before;
        *out += is_before ? c->end - c->begin : 0;
        if (!number_in(r, l, l->words[i * LINKS_END + word], &i))
            i = l->n;
    }
    return left == 0 && has_chunk;
}

/* The links forward come before those backward. */
static bool add_before(struct reading *r, const struct place *at, uint64_t *used)
{
    uint32_t space = r->chunks.v[at->chunk].space;
    size_t n = r->spaces.v[space].n, k = 0;
    uint64_t before;
    if (n == 1)
        return true;
    if (n > MAX_LINKED)
        return false;
    hw_autofree size_t *chunks = calloc(n, sizeof *chunks);
    hw_autofree uint64_t *words = calloc(n, LINKS_END * sizeof *words);
    if (!chunks || !words)
        return false;
    for (size_t i = 0; i < r->chunks.n && k < n; i++) {
        if (r->chunks.v[i].space != space)
            continue;
        if (hw_target_read(r->m, r->chunks.v[i].at, words + k * LINKS_END, LINKS_END * 8) < 0)
            return false;
        chunks[k++] = i;
    }
    struct links l = {k, chunks, words};
    for (size_t word = LINKS_FIRST; word < LINKS_END; word++)
        if (bytes_before(r, &l, word, at->chunk, &before)) {
            *used += before;
            return true;
        }
    return false;
}

/* Of all isolates; false: of one it is not known. */
static bool add_young(struct reading *r, uint64_t *used)
{
    struct place at = {0};
    for (size_t i = 0; i < r->spaces.n; i++) {
        const struct space *s = &r->spaces.v[i];
        bool is_first = s->name == HW_V8_NEW;
        for (size_t k = 0; k < i; k++) /* one is objects' now, the other one later */
            is_first &= r->spaces.v[k].heap != s->heap || r->spaces.v[k].name != HW_V8_NEW;
        if (!is_first)
            continue;
        if (hw_target_is_late(r->m) || !find_place(r, s->heap, &at) || !add_before(r, &at, used))
            return false;
        *used += at.top - r->chunks.v[at.chunk].begin;
    }
    return true;
}

/* ---- sums ---- */

static bool has_sums(enum hw_v8_space_name n)
{
    return n == HW_V8_OLD || n == HW_V8_CODE || n == HW_V8_MAP || n == HW_V8_SHARED ||
           n == HW_V8_TRUSTED;
}

/* Chunks that are not swept yet have no figure of their own that could be added up. */
static bool read_sums(struct reading *r, const struct space *s, uint64_t *allocated)
{
    uint64_t w[3] = {0};
    for (size_t i = SUMS_FIRST; i < SUMS_END; i++) {
        w[0] = w[1];
        w[1] = w[2];
        if (hw_target_word_anywhere(r->m, s->at + i * 8, &w[2]) < 0)
            return false;
        if (i >= SUMS_FIRST + 2 && w[0] == s->area && w[1] >= w[0] && w[2] <= w[0]) {
            *allocated = w[2];
            return true;
        }
    }
    return false;
}

static bool add(struct reading *r, struct hw_v8_space *to, const struct space *s)
{
    uint64_t used = s->allocated;
    if (has_sums(s->name) && !read_sums(r, s, &used))
        return false;
    to->committed += s->committed;
    to->resident += s->resident;
    to->used += used;
    to->has_used = true;
    return true;
}

static void sum_chunks(struct reading *r, struct space *read_only)
{
    for (size_t i = 0; i < r->chunks.n; i++) {
        const struct chunk *c = &r->chunks.v[i];
        struct space *s = c->space == NO_SPACE ? read_only : &r->spaces.v[c->space];
        s->committed += c->size;
        s->area += c->end - c->begin;
        s->allocated += c->allocated;
        s->resident += c->resident;
        s->n++;
    }
}

/* False: a space's own record has another sum. */
static bool sum(struct reading *r, struct hw_v8_heap *out)
{
    struct space read_only = {.name = HW_V8_READ_ONLY};
    uint64_t committed, young = 0;
    sum_chunks(r, &read_only);
    for (size_t i = 0; i < r->spaces.n; i++) {
        const struct space *s = &r->spaces.v[i];
        if (hw_target_word_anywhere(r->m, s->at + 24, &committed) < 0 ||
            committed != s->committed || !add(r, &out->spaces[s->name], s))
            return false;
    }
    if (read_only.n && !add(r, &out->spaces[HW_V8_READ_ONLY], &read_only))
        return false;
    struct hw_v8_space *n = &out->spaces[HW_V8_NEW];
    n->has_used = n->committed && add_young(r, &young) && young <= n->committed;
    n->used = n->has_used ? young : 0;
    return r->spaces.n > 0;
}

static int read_once(struct reading *r, struct hw_v8_heap *out)
{
    *out = (struct hw_v8_heap){.state = HW_V8_HEAP_CHANGED};
    r->chunks.n = r->spaces.n = 0;
    r->is_damaged = false;
    hw_target_memory_forget(r->m);
    int rc = find_chunks(r);
    if (rc == HW_OK && !r->is_damaged && sum(r, out))
        out->state = HW_V8_HEAP_KNOWN;
    if (rc == HW_ETIMEOUT || (rc == HW_OK && hw_target_is_late(r->m)))
        out->state = HW_V8_HEAP_LATE;
    if (out->state != HW_V8_HEAP_KNOWN)
        *out = (struct hw_v8_heap){.state = out->state};
    return rc == HW_ENOMEM ? rc : HW_OK;
}

int hw_v8_heap_read(const struct hw_smaps *s, int mem, int pagemap, uint32_t major, uint32_t minor,
                    struct hw_v8_heap *out)
{
    struct reading r = {.version = NULL};
    int rc = HW_OK;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (versions[i].major == major && versions[i].minor == minor)
            r.version = &versions[i];
    *out = (struct hw_v8_heap){.state = HW_V8_HEAP_VERSION};
    if (!r.version)
        return HW_OK;
    out->state = HW_V8_HEAP_CHANGED;
    if (mem < 0 || pagemap < 0)
        return HW_OK;
    r.m = calloc(1, sizeof *r.m);
    if (!r.m)
        return HW_ENOMEM;
    hw_target_memory_init(r.m, s, mem, pagemap, MAX_CPU_NS);
    for (size_t i = 0; rc == HW_OK && i < ATTEMPTS && out->state == HW_V8_HEAP_CHANGED; i++)
        rc = read_once(&r, out);
    hw_vec_done(&r.chunks);
    hw_vec_done(&r.spaces);
    free(r.m);
    return rc;
}
