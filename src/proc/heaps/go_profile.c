/*
 * go_profile.c - a bucket in words:
 *
 *     0 next of its hash  1 next of all  2 kind (1 = memory)  3 hash  4 size  5 depth  then the stack
 *     behind it   4 words known: allocated, freed, bytes allocated, bytes freed
 *             3 times the same: what is counted for the next collections
 */
#include "proc/heaps/go_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "proc/heaps/target_memory.h"
#include "proc/heaps/target_variables.h"

#include "base/banned.h"

#define MAX_CPU_NS    UINT64_C(100000000)
#define MAX_PCS       (UINT32_C(1) << 22)
#define MAX_HEADS     16u
#define ATTEMPTS      3u
#define MOST_BYTES    (UINT64_C(1) << 47) /* of addresses */
#define MOST_EVER     (MOST_BYTES * 1024) /* of a program that runs for years */
#define MEMORY        1u
#define HEAP_START    UINT64_C(0xc000000000)
#define HEAP_END      UINT64_C(0xd000000000)
#define NAMES_WORD    1u /* of a module's record */
#define TEXT_WORD     22u
#define TEXT_END_WORD 23u

enum { NEXT_OF_HASH, NEXT, KIND, HASH, SIZE, DEPTH, HEAD_WORDS };
enum { ALLOCATED, FREED, BYTES, BYTES_FREED, COUNTS };
enum { CYCLES = 3 };

struct reading {
    struct hw_target_memory *m;
    struct hw_target_variables all;
    const struct hw_go_places *at;
    struct hw_go_profile *out;
};

static int read_words(struct hw_target_memory *m, uint64_t at, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int rc = hw_target_word_anywhere(m, at + i * 8, &out[i]);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* ---- a bucket ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h += v;
    h += h << 10;
    return h ^ h >> 6;
}

static uint64_t hash_of(const uint64_t *pcs, size_t n, uint64_t size)
{
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++)
        h = mix(h, pcs[i]);
    h = mix(h, size);
    h += h << 3;
    return h ^ h >> 11;
}

/* HW_EFORMAT: there is none. */
static int read_head(struct hw_target_memory *m, uint64_t at, uint64_t head[HEAD_WORDS],
                     uint64_t pcs[HW_GO_DEPTH_MAX])
{
    if (at % 8 || !hw_target_is_heap(m, at, at + (uint64_t)HEAD_WORDS * 8) ||
        (at >= HEAP_START && at < HEAP_END))
        return HW_EFORMAT;
    int rc = read_words(m, at, head, HEAD_WORDS);
    if (rc < 0)
        return rc;
    if (head[KIND] != MEMORY || head[DEPTH] > HW_GO_DEPTH_MAX || head[SIZE] == 0 ||
        head[SIZE] >= MOST_BYTES)
        return HW_EFORMAT;
    rc = read_words(m, at + (uint64_t)HEAD_WORDS * 8, pcs, head[DEPTH]);
    if (rc < 0)
        return rc;
    return hash_of(pcs, head[DEPTH], head[SIZE]) == head[HASH] ? HW_OK : HW_EFORMAT;
}

static uint64_t counts_at(const struct hw_go_bucket *b)
{
    return b->at + (HEAD_WORDS + (uint64_t)b->n) * 8;
}

static bool is_sound(const struct hw_go_bucket *b, const uint64_t c[COUNTS])
{
    return c[ALLOCATED] <= MOST_EVER / b->size && c[FREED] <= c[ALLOCATED] &&
           c[BYTES] == c[ALLOCATED] * b->size && c[BYTES_FREED] == c[FREED] * b->size;
}

/* ---- the list ---- */

static int add_bucket(struct reading *r, uint64_t at, const uint64_t head[HEAD_WORDS],
                      const uint64_t *pcs)
{
    struct hw_go_profile *p = r->out;
    struct hw_go_bucket b = {
        .at = at, .size = head[SIZE], .first = (uint32_t)p->pcs.n, .n = (uint32_t)head[DEPTH]};
    if (p->buckets.n >= HW_GO_BUCKETS_MAX || p->pcs.n + head[DEPTH] > MAX_PCS)
        return HW_ELIMIT;
    if (hw_vec_reserve(&p->pcs, p->pcs.n + head[DEPTH]) < 0 || hw_vec_push(&p->buckets, b) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < head[DEPTH]; i++)
        p->pcs.v[p->pcs.n++] = pcs[i];
    return HW_OK;
}

/* A bucket never changes but for its counts, and stays where it is. */
static int read_list(struct reading *r, uint64_t at)
{
    uint64_t head[HEAD_WORDS], pcs[HW_GO_DEPTH_MAX];
    int rc = HW_OK;
    r->out->buckets.n = r->out->pcs.n = 0;
    for (; rc == HW_OK && at != 0; at = head[NEXT]) {
        rc = hw_target_is_late(r->m) ? HW_ETIMEOUT : read_head(r->m, at, head, pcs);
        if (rc == HW_OK)
            rc = add_bucket(r, at, head, pcs);
    }
    return rc;
}

/* How many buckets follow from here. */
static uint64_t length_of(struct hw_target_memory *m, uint64_t at)
{
    uint64_t n = 0;
    while (at != 0 && n <= HW_GO_BUCKETS_MAX && !hw_target_is_late(m) &&
           hw_target_word_anywhere(m, at + (uint64_t)NEXT * 8, &at) == HW_OK)
        n++;
    return n;
}

/* The variable that names a bucket from which the most follow: others are of buckets in between. 0: there is none. */
static uint64_t find_list(struct reading *r)
{
    uint64_t head[HEAD_WORDS], pcs[HW_GO_DEPTH_MAX], best = 0, most = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->all.v.n; i++)
        for (uint64_t k = 0; k < r->all.v.v[i].n; k++) {
            uint64_t at = r->all.v.v[i].words[k];
            if (k % 1024 == 0 && hw_target_is_late(r->m))
                return best;
            if (at < HW_TARGET_PAGE || at % 8 || read_head(r->m, at, head, pcs) < 0)
                continue;
            uint64_t length = length_of(r->m, at);
            if (length > most) {
                most = length;
                best = at;
            }
            if (++n == MAX_HEADS)
                return best;
        }
    return best;
}

/* ---- its counts ---- */

static int read_known(struct reading *r, struct hw_go_bucket *b, uint64_t c[COUNTS])
{
    int rc = read_words(r->m, counts_at(b), c, COUNTS);
    return rc == HW_OK && !is_sound(b, c) ? HW_EFORMAT : rc;
}

/* Those of the collections to come, too. */
static int read_all(struct reading *r, struct hw_go_bucket *b, uint64_t c[COUNTS])
{
    uint64_t w[(1 + CYCLES) * COUNTS];
    int rc = read_words(r->m, counts_at(b), w, HW_ARRAY_LEN(w));
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < COUNTS; i++)
        c[i] = w[i] + w[COUNTS + i] + w[2 * COUNTS + i] + w[3 * COUNTS + i];
    return is_sound(b, c) ? HW_OK : HW_EFORMAT;
}

/* All together, as the samples stand for: each for its size and at most the rate. */
static bool is_possible(const struct hw_go_profile *p)
{
    uint64_t ever = 0, live = 0;
    for (size_t i = 0; i < p->buckets.n; i++) {
        const struct hw_go_bucket *b = &p->buckets.v[i];
        uint64_t each = b->size + (p->rate > 1 ? p->rate : 0), in_use = b->allocated - b->freed;
        if (b->allocated > (MOST_EVER - ever) / each || in_use > (MOST_BYTES - live) / each)
            return false;
        ever += b->allocated * each;
        live += in_use * each;
    }
    return true;
}

static int read_counts(struct reading *r,
                       int (*read)(struct reading *, struct hw_go_bucket *, uint64_t c[COUNTS]))
{
    uint64_t c[COUNTS];
    for (size_t i = 0; i < r->out->buckets.n; i++) {
        struct hw_go_bucket *b = &r->out->buckets.v[i];
        int rc = HW_EFORMAT;
        for (size_t k = 0; k < ATTEMPTS && rc == HW_EFORMAT; k++) {
            if (k > 0)
                hw_target_memory_forget(r->m);
            rc = read(r, b, c);
        }
        if (rc < 0)
            return rc;
        b->allocated = c[ALLOCATED];
        b->freed = c[FREED];
    }
    return is_possible(r->out) ? HW_OK : HW_EFORMAT;
}

static bool has_known(const struct hw_go_profile *p)
{
    for (size_t i = 0; i < p->buckets.n; i++)
        if (p->buckets.v[i].allocated != 0)
            return true;
    return false;
}

/* A collection that ends meanwhile adds to one bucket after the other. */
static int is_unchanged(struct reading *r)
{
    uint64_t c[COUNTS];
    hw_target_memory_forget(r->m);
    for (size_t i = 0; i < r->out->buckets.n; i++) {
        struct hw_go_bucket *b = &r->out->buckets.v[i];
        int rc = read_known(r, b, c);
        if (rc < 0)
            return rc;
        if (c[ALLOCATED] != b->allocated || c[FREED] != b->freed)
            return HW_EFORMAT;
    }
    return HW_OK;
}

static int read_once(struct reading *r, uint64_t list)
{
    hw_target_memory_forget(r->m);
    int rc = read_list(r, list);
    if (rc == HW_OK)
        rc = read_counts(r, read_known);
    if (rc == HW_OK)
        rc = is_unchanged(r);
    r->out->is_before_collections = rc == HW_OK && !has_known(r->out);
    return r->out->is_before_collections ? read_counts(r, read_all) : rc;
}

/* ---- the program's variables ---- */

/* The module's record: the table's address, that of the names in it, and later the code's. */
static void find_module(struct reading *r)
{
    const struct hw_go_places *at = r->at;
    for (size_t i = 0; i < r->all.v.n; i++)
        for (uint64_t k = 0; k + at->data_word < r->all.v.v[i].n; k++) {
            const uint64_t *w = r->all.v.v[i].words + k;
            if (w[0] != at->table || w[NAMES_WORD] - at->table >= at->table_bytes ||
                w[TEXT_WORD] == 0 || w[TEXT_WORD] >= w[TEXT_END_WORD] ||
                w[at->data_word - 1] > w[at->data_word])
                continue;
            r->out->text = w[TEXT_WORD];
            r->out->data = w[at->data_word];
            return;
        }
}

static enum hw_go_profile_state state_of(int rc)
{
    switch (rc) {
    case HW_OK:
        return HW_GO_PROFILE_KNOWN;
    case HW_ETIMEOUT:
    case HW_ELIMIT:
        return HW_GO_PROFILE_LIMIT;
    default:
        return HW_GO_PROFILE_CHANGED;
    }
}

static int read_profile(struct reading *r)
{
    struct hw_go_profile *p = r->out;
    int rc = r->at->rate ? hw_target_word_anywhere(r->m, r->at->rate, &p->rate) : HW_EFORMAT;
    if (rc == HW_EGONE) {
        p->rate = r->at->rate_before;
        rc = HW_OK;
    }
    find_module(r);
    p->state = HW_GO_PROFILE_UNKNOWN;
    if (rc < 0)
        return HW_OK;
    p->state = HW_GO_PROFILE_OFF;
    if (p->rate == 0 || p->rate >= MOST_BYTES) /* negative: as 0 */
        return HW_OK;
    uint64_t list = find_list(r);
    rc = hw_target_is_late(r->m) ? HW_ETIMEOUT : HW_EFORMAT;
    for (size_t i = 0; i < ATTEMPTS && rc != HW_OK && rc != HW_ENOMEM && rc != HW_ETIMEOUT; i++)
        rc = read_once(r, list);
    p->state = state_of(rc);
    if (rc < 0)
        p->buckets.n = p->pcs.n = 0;
    return rc == HW_ENOMEM ? rc : HW_OK;
}

static bool is_any_file(const char *path)
{
    return path[0] == '/';
}

int hw_go_profile_read(const struct hw_smaps *s, int mem, int pagemap,
                       const struct hw_go_places *at, struct hw_go_profile *out)
{
    *out = (struct hw_go_profile){.state = HW_GO_PROFILE_NONE};
    if (mem < 0 || pagemap < 0)
        return HW_OK;
    struct reading r = {.m = calloc(1, sizeof *r.m), .at = at, .out = out};
    if (!r.m)
        return HW_ENOMEM;
    hw_target_memory_init(r.m, s, mem, pagemap, MAX_CPU_NS);
    int rc = hw_target_variables_read(r.m, s, is_any_file, &r.all);
    if (rc == HW_OK)
        rc = read_profile(&r);
    hw_target_variables_done(&r.all);
    free(r.m);
    if (rc < 0)
        hw_go_profile_done(out);
    return rc;
}

void hw_go_profile_done(struct hw_go_profile *p)
{
    hw_vec_done(&p->buckets);
    hw_vec_done(&p->pcs);
    *p = (struct hw_go_profile){.state = HW_GO_PROFILE_NONE};
}
