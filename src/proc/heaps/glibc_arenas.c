/*
 * glibc_arenas.c - arenas, their heaps and the chunks in them:
 *
 *     record (struct malloc_state)      heap of a thread's arena, at a multiple of 64 MiB
 *        +0  lock, flags                   +0  its arena's record
 *       +16  fastbinsY[10]                 +8  the heap before
 *       +96  top                          +16  bytes
 *      +112  bins[127]: first, last            (the first heap has the record behind that)
 *     +2160  next: a ring of all              ...chunks...
 *     +2176  threads                        of all but the newest: two ends without a size of their own
 *     +2184  bytes from the system
 *
 * An empty bin points at itself, 16 bytes before its two words: by that a record is recognized.
 */
#include "proc/heaps/glibc_arenas.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "proc/heaps/glibc_lists.h"
#include "proc/heaps/target_memory.h"
#include "proc/heaps/target_variables.h"

#include "base/banned.h"

#define PAGE          HW_TARGET_PAGE
#define HEAP          (UINT64_C(64) << 20)
#define MAX_CPU_NS    UINT64_C(100000000)
#define ATTEMPTS      3u
#define MAX_WALKED    (UINT64_C(192) << 20) /* of one arena */
#define MAX_HEAPS     4096u
#define MAX_SCANNED   (UINT64_C(256) << 10)
#define STEP          16u
#define SMALLEST      32u
#define FENCE         16u
#define PREV_IN_USE   UINT64_C(1)
#define HAS_MAPPING   UINT64_C(2)
#define FLAGS         UINT64_C(7)
#define SCATTERED     UINT64_C(2) /* of a record's flags: NONCONTIGUOUS_BIT */
#define MOST_CACHED   1040u
#define N_KEYS        64u
#define MAX_THREADS   (UINT64_C(1) << 22) /* PID_MAX_LIMIT */
#define FASTBINS      HW_GLIBC_FASTBINS
#define BINS          HW_GLIBC_BINS
#define RECORD_WORDS  275u
#define AT_FAST       2u /* words */
#define AT_TOP        12u
#define AT_BINS       14u
#define AT_NEXT       270u
#define AT_THREADS    272u
#define AT_SYSTEM     273u
#define AT_MAX_SYSTEM 274u

struct segment {
    uint64_t begin, lo, end; /* of the arena's memory; its first chunk */
    size_t arena;
};

struct key {
    uint64_t key, bytes;
};

struct arena_keys {
    struct key v[N_KEYS];
    size_t n;
};

struct walk {
    uint64_t heap_start;
    bool is_cut;                     /* not all mappings are known */
    HW_VEC(struct segment) segments; /* by arena: those whose memory is mapped */
    HW_VEC(struct segment) places;   /* the same by address */
    HW_VEC(struct arena_keys) keys;  /* by arena */
    hw_glibc_chunks fast;            /* in the arena's fastbins, by address */
    struct hw_target_memory memory;
};

/* ---- records ---- */

static bool is_record(const uint64_t *r, uint64_t at)
{
    size_t n_empty = 0;
    for (size_t i = 0; i < BINS; i++) {
        uint64_t first = r[AT_BINS + 2 * i], last = r[AT_BINS + 2 * i + 1];
        uint64_t self = at + (AT_BINS + 2 * i) * sizeof *r - 2 * sizeof *r;
        if (first == 0 || (first == self) != (last == self))
            return false;
        n_empty += first == self;
    }
    return n_empty > 0 && r[AT_TOP] % STEP == 0 && r[AT_NEXT] % 8 == 0 &&
           r[AT_SYSTEM] % PAGE == 0 && r[AT_SYSTEM] <= r[AT_MAX_SYSTEM] && r[AT_SYSTEM] > 0 &&
           r[AT_THREADS] <= MAX_THREADS;
}

static bool read_record(struct walk *w, uint64_t at, uint64_t out[RECORD_WORDS])
{
    return at % 8 == 0 &&
           hw_target_read(&w->memory, at, out, RECORD_WORDS * sizeof *out) == HW_OK &&
           is_record(out, at);
}

static int add_arena(struct hw_glibc_arenas *out, uint64_t at, const uint64_t *r)
{
    struct hw_glibc_arena a = {.at = at,
                               .is_main = at % HEAP > 256, /* else behind its heap's own words */
                               .threads = r[AT_THREADS],
                               .system = r[AT_SYSTEM]};
    return hw_vec_push(&out->v, a) < 0 ? HW_ENOMEM : HW_OK;
}

/* The ring that an arena is in. HW_EGONE: it does not close, or has more than one main arena, so it is not malloc's. */
static int follow_ring(struct walk *w, uint64_t first, struct hw_glibc_arenas *out)
{
    uint64_t r[RECORD_WORDS], at = first;
    int rc = HW_OK;
    size_t n_main = 0;
    out->v.n = 0;
    do {
        if (out->v.n >= HW_GLIBC_ARENAS_MAX || !read_record(w, at, r))
            return HW_EGONE;
        rc = add_arena(out, at, r);
        if (rc == HW_OK && out->v.v[out->v.n - 1].is_main && n_main++)
            return HW_EGONE;
        at = r[AT_NEXT];
    } while (rc == HW_OK && at != first);
    return rc;
}

static bool is_libc(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && (strncmp(slash, "/libc.so", 8) == 0 || strncmp(slash, "/libc-2.", 8) == 0);
}

/* The main one, which lies in libc's variables. Any file may be named so: only pages in memory are read. */
static int scan_variables(struct walk *w, const struct hw_smaps_entry *e,
                          struct hw_glibc_arenas *out)
{
    uint64_t n = e->end - e->start < MAX_SCANNED ? e->end - e->start : MAX_SCANNED;
    hw_autofree uint64_t *words = calloc(n / sizeof *words + 1, sizeof *words);
    if (!words)
        return HW_ENOMEM;
    for (uint64_t at = 0; at + PAGE <= n; at += PAGE)
        (void)hw_target_read(&w->memory, e->start + at, words + at / sizeof *words, PAGE);
    for (size_t i = 0; i + RECORD_WORDS <= n / sizeof *words; i++) {
        uint64_t at = e->start + i * sizeof *words;
        if (words[i + AT_NEXT] != 0 && is_record(words + i, at))
            return follow_ring(w, at, out);
    }
    return HW_EGONE;
}

/* A thread's arena names its record; without one, the main arena is looked for. */
static int find_arenas(struct walk *w, const struct hw_smaps *s, struct hw_glibc_arenas *out)
{
    int rc = HW_EGONE;
    for (size_t i = 0; rc == HW_EGONE && i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        uint64_t record, at = (e->start + HEAP - 1) / HEAP * HEAP;
        if (e->path[0] || !hw_target_is_data(e) || at < e->start || at >= e->end)
            continue;
        if (hw_target_read(&w->memory, at, &record, sizeof record) == HW_OK &&
            record % HEAP <= 256 && record / HEAP)
            rc = follow_ring(w, record, out);
    }
    for (size_t i = 0; rc == HW_EGONE && i < s->entries.n && !hw_target_is_late(&w->memory); i++)
        if (is_libc(s->entries.v[i].path) && hw_target_is_data(&s->entries.v[i]))
            rc = scan_variables(w, &s->entries.v[i], out);
    if (rc < 0)
        out->v.n = 0;
    return rc == HW_EGONE ? HW_OK : rc;
}

/* ---- heaps ---- */

/* begin: from where on the memory is the arena's. HW_EFORMAT: it is not mapped so, or was not a moment ago. */
static int add_segment(struct walk *w, uint64_t begin, uint64_t lo, uint64_t end, size_t arena)
{
    struct segment s = {begin, (lo + STEP - 1) / STEP * STEP, end, arena};
    if (begin >= end || !hw_target_is_heap(&w->memory, begin, end))
        return w->is_cut ? HW_ETIMEOUT : HW_EFORMAT;
    return hw_vec_push(&w->segments, s) < 0 ? HW_ENOMEM : HW_OK;
}

/* sizeof(heap_info), by where the record is behind the first one; its size is its words 2. */
static int add_heaps(struct walk *w, size_t arena, uint64_t record, uint64_t top)
{
    uint64_t head = record % HEAP, at = top / HEAP * HEAP, info[3];
    for (size_t i = 0; i < MAX_HEAPS; i++) {
        if (hw_target_read(&w->memory, at, info, sizeof info) < 0 || info[0] != record ||
            info[2] > HEAP || info[2] % PAGE || info[1] % HEAP)
            return HW_EFORMAT;
        bool is_first = info[1] == 0;
        uint64_t lo = is_first ? record + RECORD_WORDS * 8 : at + head;
        int rc = add_segment(w, at, lo, at + info[2], arena);
        if (rc < 0 || is_first)
            return is_first && at != record / HEAP * HEAP ? HW_EFORMAT : rc;
        at = info[1];
    }
    return HW_EFORMAT;
}

static int add_segments(struct walk *w, size_t i, struct hw_glibc_arena *a)
{
    uint64_t r[RECORD_WORDS], size = 0;
    size_t before = w->segments.n;
    int rc = HW_OK;
    if (!read_record(w, a->at, r))
        return HW_EFORMAT;
    a->system = r[AT_SYSTEM];
    if (!a->is_main)
        rc = add_heaps(w, i, a->at, r[AT_TOP]);
    else if ((r[0] >> 32 & SCATTERED) || w->heap_start == 0 || r[AT_TOP] < w->heap_start)
        return HW_EGONE;
    else
        rc = add_segment(w, w->heap_start, w->heap_start, w->heap_start + r[AT_SYSTEM], i);
    for (size_t k = before; k < w->segments.n; k++)
        size += w->segments.v[k].end - w->segments.v[k].begin;
    return rc == HW_OK && size != a->system ? HW_EFORMAT : rc;
}

static int by_begin(const void *pa, const void *pb)
{
    const struct segment *a = pa, *b = pb;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Memory is one arena's only: of two that have the same, neither is believed. */
static void refuse_shared(struct walk *w, struct hw_glibc_arenas *all)
{
    uint64_t end = 0;
    size_t owner = 0;
    for (size_t i = 0; i < w->places.n; i++) {
        const struct segment *s = &w->places.v[i];
        if (s->begin < end)
            all->v.v[s->arena].state = all->v.v[owner].state = HW_GLIBC_ARENA_CHANGED;
        if (s->end > end) {
            end = s->end;
            owner = s->arena;
        }
    }
}

/* Where the chunks of all arenas are: a cached block's link may lead into any. */
static int find_segments(struct walk *w, struct hw_glibc_arenas *all)
{
    for (size_t i = 0; i < all->v.n; i++) {
        struct hw_glibc_arena *a = &all->v.v[i];
        size_t before = w->segments.n;
        int rc = add_segments(w, i, a);
        if (rc == HW_ENOMEM)
            return rc;
        if (rc < 0)
            w->segments.n = before;
        bool is_limit = rc == HW_ETIMEOUT || hw_target_is_late(&w->memory);
        a->state = rc == HW_OK      ? HW_GLIBC_ARENA_KNOWN
                   : rc == HW_EGONE ? HW_GLIBC_ARENA_SCATTERED
                   : is_limit       ? HW_GLIBC_ARENA_LIMIT
                                    : HW_GLIBC_ARENA_CHANGED;
    }
    if (hw_vec_reserve(&w->places, w->segments.n) < 0)
        return HW_ENOMEM;
    w->places.n = w->segments.n;
    if (w->places.n == 0)
        return HW_OK;
    memcpy(w->places.v, w->segments.v, w->places.n * sizeof *w->places.v);
    qsort(w->places.v, w->places.n, sizeof *w->places.v, by_begin);
    refuse_shared(w, all);
    return HW_OK;
}

static bool is_in_heaps(const struct walk *w, uint64_t at)
{
    size_t i = HW_LOWER_BOUND(k, 0, w->places.n, w->places.v[k].begin <= at);
    return i > 0 && at >= w->places.v[i - 1].lo && at < w->places.v[i - 1].end;
}

/* ---- chunks ---- */

static void note_key(struct arena_keys *k, uint64_t key, uint64_t bytes)
{
    size_t least = 0;
    for (size_t i = 0; i < k->n; i++) {
        if (k->v[i].key == key) {
            k->v[i].bytes += bytes;
            return;
        }
        least = k->v[i].bytes < k->v[least].bytes ? i : least;
    }
    if (k->n < N_KEYS)
        k->v[k->n++] = (struct key){key, bytes};
    else if (k->v[least].bytes < bytes)
        k->v[least] = (struct key){key, bytes};
}

static bool is_fast(const struct walk *w, uint64_t chunk, uint64_t bytes)
{
    if (bytes > (FASTBINS + 1) * STEP)
        return false;
    size_t i = HW_LOWER_BOUND(k, 0, w->fast.n, w->fast.v[k] < chunk);
    return i < w->fast.n && w->fast.v[i] == chunk;
}

/* Looks like a block in a thread's cache: its link, less the protection, ends the list or leads to another one. */
static int note_cached(struct walk *w, uint64_t chunk, uint64_t bytes, struct arena_keys *keys)
{
    uint64_t block = chunk + 16, link, key;
    if (bytes > MOST_CACHED || is_fast(w, chunk, bytes))
        return HW_OK;
    int rc = hw_target_word(&w->memory, block, &link);
    if (rc == HW_OK)
        rc = hw_target_word(&w->memory, block + 8, &key);
    if (rc < 0)
        return rc;
    uint64_t next = link ^ block >> 12;
    if (key != 0 && next % STEP == 0 && next != block && (next == 0 || is_in_heaps(w, next)))
        note_key(keys, key, bytes);
    return HW_OK;
}

static void add_free(struct walk *w, struct hw_glibc_arena *a, uint64_t chunk, uint64_t bytes)
{
    a->is_free += bytes;
    a->returnable += hw_glibc_returnable(&w->memory, chunk, bytes);
}

/* The ends of a heap that is not the newest: a chunk of 16 bytes and one of none, or that one alone. */
static bool is_end(uint64_t pos, uint64_t bytes, uint64_t end)
{
    return (bytes == FENCE && pos + 2 * FENCE == end) || (bytes == 0 && pos + FENCE == end);
}

/* HW_EFORMAT: it does not lead to the top. */
static int walk_segment(struct walk *w, const struct segment *s, uint64_t top,
                        struct hw_glibc_arena *a, struct arena_keys *keys)
{
    bool has_top = top >= s->lo && top < s->end;
    uint64_t pos = s->lo, header, next, stop = has_top ? top : s->end;
    int rc = HW_OK;
    while (rc == HW_OK && pos < stop) {
        rc = hw_target_word(&w->memory, pos + 8, &header);
        uint64_t bytes = rc == HW_OK ? header & ~FLAGS : 0;
        if (rc == HW_OK && !has_top && is_end(pos, bytes, s->end))
            return HW_OK;
        if (rc == HW_OK && (bytes < SMALLEST || bytes % STEP || bytes > stop - pos ||
                            (header & HAS_MAPPING) || pos + bytes + 16 > s->end))
            rc = HW_EFORMAT;
        if (rc == HW_OK)
            rc = hw_target_word(&w->memory, pos + bytes + 8, &next);
        if (rc == HW_OK && (next & PREV_IN_USE))
            rc = note_cached(w, pos, bytes, keys);
        else if (rc == HW_OK)
            add_free(w, a, pos, bytes);
        pos += bytes;
    }
    if (rc < 0)
        return rc;
    rc = has_top ? hw_target_word(&w->memory, top + 8, &header) : HW_EFORMAT;
    if (rc == HW_OK)
        a->top = header & ~FLAGS;
    return rc == HW_OK && top + a->top != s->end ? HW_EFORMAT : rc;
}

static bool is_in_arenas(const void *w, uint64_t address)
{
    return is_in_heaps(w, address);
}

static struct hw_glibc_lists lists_of(struct walk *w, const uint64_t *r,
                                      const struct hw_glibc_arena *a)
{
    return (struct hw_glibc_lists){.memory = &w->memory,
                                   .is_in_heaps = is_in_arenas,
                                   .heaps = w,
                                   .bins_at = a->at + AT_BINS * sizeof *r,
                                   .bins = r + AT_BINS,
                                   .fast = r + AT_FAST,
                                   .most = a->system};
}

static int walk_fastbins(struct walk *w, const uint64_t *r, struct hw_glibc_arena *a)
{
    struct hw_glibc_lists l = lists_of(w, r, a);
    return hw_glibc_lists_fast(&l, &w->fast, &a->fast);
}

/* ---- large arenas: by their lists ---- */

static int find_top(struct walk *w, size_t arena, uint64_t top, struct hw_glibc_arena *a)
{
    uint64_t header;
    for (size_t k = 0; k < w->segments.n; k++) {
        const struct segment *s = &w->segments.v[k];
        if (s->arena != arena || top < s->lo || top >= s->end)
            continue;
        int rc = hw_target_word_anywhere(&w->memory, top + 8, &header);
        a->top = rc == HW_OK ? header & ~FLAGS : 0;
        return rc < 0 ? rc : a->top == s->end - top ? HW_OK : HW_EFORMAT;
    }
    return HW_EFORMAT;
}

static int sum_lists(struct walk *w, size_t i, const uint64_t *r, struct hw_glibc_arena *a)
{
    int rc = walk_fastbins(w, r, a);
    if (rc == HW_OK)
        rc = find_top(w, i, r[AT_TOP], a);
    struct hw_glibc_lists l = lists_of(w, r, a);
    if (rc == HW_OK)
        rc = hw_glibc_lists_sum(&l, &a->is_free, &a->returnable);
    for (size_t k = 0; rc == HW_OK && k < w->segments.n; k++)
        if (w->segments.v[k].arena == i)
            a->resident +=
                hw_target_resident(&w->memory, w->segments.v[k].begin, w->segments.v[k].end);
    return rc;
}

/* ---- an arena ---- */

static int walk_chunks(struct walk *w, size_t i, const uint64_t *r, struct hw_glibc_arena *a,
                       struct arena_keys *keys)
{
    size_t first = HW_LOWER_BOUND(k, 0, w->segments.n, w->segments.v[k].arena < i);
    int rc = walk_fastbins(w, r, a);
    for (size_t k = first; rc == HW_OK && k < w->segments.n && w->segments.v[k].arena == i; k++) {
        const struct segment *s = &w->segments.v[k];
        rc = walk_segment(w, s, r[AT_TOP], a, keys);
        a->resident += hw_target_resident(&w->memory, s->begin, s->end);
    }
    return rc;
}

static int walk_once(struct walk *w, size_t i, struct hw_glibc_arena *a)
{
    uint64_t before[RECORD_WORDS], after[RECORD_WORDS];
    struct arena_keys *keys = &w->keys.v[i];
    *keys = (struct arena_keys){.n = 0};
    hw_target_memory_forget(&w->memory);
    if (!read_record(w, a->at, before) || before[AT_SYSTEM] != a->system)
        return HW_EFORMAT;
    int rc =
        a->system > MAX_WALKED ? sum_lists(w, i, before, a) : walk_chunks(w, i, before, a, keys);
    if (rc < 0)
        return rc;
    if (a->is_main)
        a->returnable += hw_glibc_top_returnable(&w->memory, before[AT_TOP], a->top);
    if (hw_target_is_late(&w->memory))
        return HW_ETIMEOUT;
    /* But for the lock: the same free chunks, at the same places. */
    bool same = read_record(w, a->at, after) &&
                memcmp(before + AT_FAST, after + AT_FAST, sizeof before - AT_FAST * 8) == 0;
    uint64_t not_used = a->is_free + a->top + a->fast;
    return same && not_used <= a->system ? HW_OK : HW_EFORMAT;
}

/* What cannot be read once the time is used up has not changed. */
static enum hw_glibc_arena_state state_of(const struct walk *w, int rc)
{
    bool is_limit = rc == HW_ETIMEOUT || hw_target_is_late(&w->memory);
    return rc == HW_OK      ? HW_GLIBC_ARENA_KNOWN
           : is_limit       ? HW_GLIBC_ARENA_LIMIT
           : rc == HW_EGONE ? HW_GLIBC_ARENA_SWAPPED
                            : HW_GLIBC_ARENA_CHANGED;
}

static void walk_arena(struct walk *w, size_t i, struct hw_glibc_arena *a)
{
    struct hw_glibc_arena none = *a;
    int rc = HW_EFORMAT;
    for (size_t n = 0; rc == HW_EFORMAT && n < ATTEMPTS; n++, *a = rc < 0 ? none : *a)
        rc = walk_once(w, i, a);
    a->state = state_of(w, rc);
}

/* ---- threads' caches ---- */

/* The number that most cached blocks have. */
static uint64_t most_key(const struct walk *w)
{
    struct arena_keys sum = {.n = 0};
    uint64_t best = 0, key = 0;
    for (size_t i = 0; i < w->keys.n; i++)
        for (size_t k = 0; k < w->keys.v[i].n; k++)
            note_key(&sum, w->keys.v[i].v[k].key, w->keys.v[i].v[k].bytes);
    for (size_t k = 0; k < sum.n; k++)
        if (sum.v[k].bytes > best) {
            best = sum.v[k].bytes;
            key = sum.v[k].key;
        }
    return key;
}

static void count_cached(const struct walk *w, struct hw_glibc_arenas *all)
{
    uint64_t key = most_key(w);
    for (size_t i = 0; i < all->v.n; i++) {
        struct hw_glibc_arena *a = &all->v.v[i];
        const struct arena_keys *keys = &w->keys.v[i];
        if (a->state != HW_GLIBC_ARENA_KNOWN)
            continue;
        uint64_t used = a->system - a->is_free - a->top - a->fast; /* as the walk has checked */
        for (size_t k = 0; k < keys->n; k++)
            if (keys->v[k].key == key || is_in_heaps(w, keys->v[k].key))
                a->cached += keys->v[k].bytes;
        a->cached = a->cached < used ? a->cached : used;
        a->has_cached = a->system <= MAX_WALKED;
        a->in_use = used - a->cached;
    }
}

/* What an arena says that it has, without memory that was found, has to fit into what is mapped beside the others'. */
static void bound_rest(const struct hw_smaps *s, struct hw_glibc_arenas *all)
{
    uint64_t left = 0;
    for (size_t i = 0; i < s->entries.n; i++)
        if (hw_target_is_anonymous(&s->entries.v[i]))
            left += s->entries.v[i].end - s->entries.v[i].start;
    for (size_t i = 0; i < all->v.n; i++)
        if (all->v.v[i].state == HW_GLIBC_ARENA_KNOWN)
            left -= all->v.v[i].system;
    for (size_t i = 0; i < all->v.n; i++) {
        struct hw_glibc_arena *a = &all->v.v[i];
        if (a->state == HW_GLIBC_ARENA_KNOWN)
            continue;
        a->system = a->system <= left ? a->system : 0;
        left -= a->system;
    }
}

static int by_size(const void *pa, const void *pb)
{
    const struct hw_glibc_arena *a = pa, *b = pb;
    return a->system < b->system ? -1 : a->system > b->system;
}

static int main_first(const void *pa, const void *pb)
{
    const struct hw_glibc_arena *a = pa, *b = pb;
    if (a->is_main != b->is_main)
        return a->is_main ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static void sort(struct hw_glibc_arenas *all, int (*by)(const void *, const void *))
{
    if (all->v.n)
        qsort(all->v.v, all->v.n, sizeof *all->v.v, by);
}

static int walk_all(struct walk *w, const struct hw_smaps *s, struct hw_glibc_arenas *all)
{
    int rc = find_segments(w, all);
    if (rc == HW_OK)
        bound_rest(s, all);
    for (size_t i = 0; rc == HW_OK && i < all->v.n; i++)
        rc = hw_vec_push(&w->keys, (struct arena_keys){.n = 0}) < 0 ? HW_ENOMEM : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < all->v.n; i++)
        if (all->v.v[i].state == HW_GLIBC_ARENA_KNOWN)
            walk_arena(w, i, &all->v.v[i]);
    if (rc == HW_OK)
        count_cached(w, all);
    return rc;
}

int hw_glibc_arenas_read(const struct hw_smaps *s, int mem, int pagemap, uint64_t heap_start,
                         struct hw_glibc_arenas *out)
{
    *out = (struct hw_glibc_arenas){.v = {0}};
    if (mem < 0 || pagemap < 0)
        return HW_OK;
    struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return HW_ENOMEM;
    hw_target_memory_init(&w->memory, s, mem, pagemap, MAX_CPU_NS);
    w->heap_start = heap_start;
    w->is_cut = s->cut;
    int rc = find_arenas(w, s, out);
    sort(out, by_size);
    if (rc == HW_OK)
        rc = walk_all(w, s, out);
    sort(out, main_first);
    if (rc < 0)
        hw_glibc_arenas_done(out);
    hw_vec_done(&w->segments);
    hw_vec_done(&w->places);
    hw_vec_done(&w->keys);
    hw_vec_done(&w->fast);
    free(w);
    return rc;
}

void hw_glibc_arenas_done(struct hw_glibc_arenas *a)
{
    hw_vec_done(&a->v);
}
