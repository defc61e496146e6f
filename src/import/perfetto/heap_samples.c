/*
 * All known writers write a sample's fields in the order of their numbers, each at most once. So
 * the message is decoded in that order (decode_in_order): no dispatch, no bounds checks, branches
 * that are always predicted. A message that does not end exactly where this ends is decoded again
 * like any message (decode_any).
 *
 * A dump lists its callsites in the order of the previous dump, with some left out, and their ids
 * rise the same way. So the next history is nearly always as far from the last one as the id is
 * from the last id. It has the callsite, too, so interned data need not be looked up: a callstack
 * id keeps its meaning within a generation (unless dumps have tables of their own).
 *
 * The same frames can have two callstack ids (if a writer interned them twice). A history stores
 * the id it belongs to; another id is taken to start counting from 0, so the history at its first
 * appearance is added to its values (`corrections`).
 */
#include "import/perfetto/heap_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/map64.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F(name)       HW_F_ProfilePacket_HeapSample_##name
#define F_SAMPLES     HW_F_ProfilePacket_ProcessHeapSamples_samples
#define TAG(name, w)  (F(name) << 3 | (w))
#define TAG2(name, w) (0x80 | (TAG(name, w) & 0x7f) | TAG(name, w) >> 7 << 8) /* its two bytes */

enum {
    N_CUMULATIVE = HW_SAMPLE_FREE_COUNT + 1, /* values that must not decrease */
    MAX_CORRECTIONS = 256,
    LOOK_AHEAD = 8,
    /* Five fields with tags of one byte, six with tags of two, one of eight bytes, six of
     * four, and what a varint's load reads beyond its end. */
    MAX_IN_ORDER = 5 * 9 + 6 * 10 + 10 + 6 * 6 + 8
};

struct sample {
    uint64_t iid, max, max_count, est_max, idle, rounding;
    uint64_t values[HW_SAMPLE_VALUE_COUNT];
    double variance;
    float variance_objects, variance_alloc_space, variance_alloc_objects, variance_rounding;
    float variance_temporary_space, variance_temporary_objects;
    bool at_max, has_est, has_est_max;
};

void hw_heap_series_done(struct hw_heap_series *s)
{
    free(s->slots);
    hw_vec_done(&s->histories);
    hw_vec_done(&s->corrections);
}

/* ---- messages ---- */

/*
 * Gives the sample at p and returns its end. Its tag has one byte; its length is below 128, in one
 * byte or in the four that hw_pb_begin writes. NULL = something else, or it does not fit.
 */
static inline const uint8_t *sample_at(const uint8_t *p, const uint8_t *end, struct hw_bytes *out)
{
    if (end - p < 5 || *p != (F_SAMPLES << 3 | HW_PB_BYTES))
        return NULL;
    uint32_t w = hw_load_u32(p + 1);
    bool is_padded = (w & ~0x7fu) == 0x00808080;
    if (!is_padded && w & 0x80)
        return NULL;
    p += is_padded ? 5 : 2;
    *out = (struct hw_bytes){p, w & 0x7f};
    return out->n <= (size_t)(end - p) ? p + out->n : NULL;
}

void hw_heap_samples_skip(struct hw_pb_reader *r)
{
    struct hw_bytes unused;
    for (const uint8_t *next; (next = sample_at(r->pos, r->end, &unused));)
        r->pos = next;
}

/* Reads the field if it is the next one, a varint of at most eight bytes. Returns its end. */
static inline const uint8_t *varint_if_next(const uint8_t *p, uint32_t tag, uint64_t *out)
{
    unsigned n = 0;
    *out = *p == tag ? hw_pb_varint8(p + 1, &n) : 0;
    return n ? p + 1 + n : p;
}

static inline const uint8_t *varint_if_next2(const uint8_t *p, uint32_t tag2, uint64_t *out)
{
    unsigned n = 0;
    *out = hw_load_u16(p) == tag2 ? hw_pb_varint8(p + 2, &n) : 0;
    return n ? p + 2 + n : p;
}

static inline const uint8_t *float_if_next(const uint8_t *p, uint32_t tag2, float *out)
{
    bool present = hw_load_u16(p) == tag2;
    *out = 0;
    if (present)
        memcpy(out, p + 2, sizeof *out);
    return present ? p + 2 + sizeof *out : p;
}

/*
 * MAX_IN_ORDER bytes must be readable at m.p. False = another message; *s is undefined. Members are
 * set on the way: clearing them all first took a tenth of the time.
 */
static inline bool decode_in_order(struct hw_bytes m, struct sample *s)
{
    uint64_t *v = s->values;
    const uint8_t *p = m.p, *before_est;
    p = varint_if_next(p, TAG(callstack_id, HW_PB_VARINT), &s->iid);
    p = varint_if_next(p, TAG(self_allocated, HW_PB_VARINT), &v[HW_SAMPLE_ALLOC_BYTES]);
    p = varint_if_next(p, TAG(self_freed, HW_PB_VARINT), &v[HW_SAMPLE_FREED_BYTES]);
    p = varint_if_next(p, TAG(alloc_count, HW_PB_VARINT), &v[HW_SAMPLE_ALLOC_COUNT]);
    p = varint_if_next(p, TAG(free_count, HW_PB_VARINT), &v[HW_SAMPLE_FREE_COUNT]);
    before_est = p;
    p = varint_if_next2(p, TAG2(est_alloc_count, HW_PB_VARINT), &v[HW_SAMPLE_EST_ALLOC]);
    p = varint_if_next2(p, TAG2(est_free_count, HW_PB_VARINT), &v[HW_SAMPLE_EST_FREE]);
    s->has_est = p != before_est;
    p = varint_if_next2(p, TAG2(self_idle, HW_PB_VARINT), &s->idle);
    s->variance = 0;
    if (hw_load_u16(p) == TAG2(variance_bytes, HW_PB_FIXED64)) {
        memcpy(&s->variance, p + 2, sizeof s->variance);
        p += 2 + sizeof s->variance;
    }
    p = float_if_next(p, TAG2(variance_objects, HW_PB_FIXED32), &s->variance_objects);
    p = float_if_next(p, TAG2(variance_alloc_space, HW_PB_FIXED32), &s->variance_alloc_space);
    p = float_if_next(p, TAG2(variance_alloc_objects, HW_PB_FIXED32), &s->variance_alloc_objects);
    p = varint_if_next2(p, TAG2(rounding_bytes, HW_PB_VARINT), &s->rounding);
    p = float_if_next(p, TAG2(variance_rounding, HW_PB_FIXED32), &s->variance_rounding);
    p = varint_if_next2(p, TAG2(temporary_space, HW_PB_VARINT), &v[HW_SAMPLE_TEMPORARY_BYTES]);
    p = varint_if_next2(p, TAG2(temporary_objects, HW_PB_VARINT), &v[HW_SAMPLE_TEMPORARY_COUNT]);
    p = float_if_next(p, TAG2(variance_temporary_space, HW_PB_FIXED32),
                      &s->variance_temporary_space);
    p = float_if_next(p, TAG2(variance_temporary_objects, HW_PB_FIXED32),
                      &s->variance_temporary_objects);
    s->at_max = s->has_est_max = false;
    s->max = s->max_count = s->est_max = 0;
    return p == hw_bytes_end(m);
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float v;
    memcpy(&v, &low, sizeof v);
    return v;
}

static void decode_any(struct hw_bytes message, struct sample *s)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    *s = (struct sample){0};
    while (hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case F(callstack_id):
            s->iid = f.value;
            break;
        case F(self_allocated):
            s->values[HW_SAMPLE_ALLOC_BYTES] = f.value;
            break;
        case F(self_freed):
            s->values[HW_SAMPLE_FREED_BYTES] = f.value;
            break;
        case F(alloc_count):
            s->values[HW_SAMPLE_ALLOC_COUNT] = f.value;
            break;
        case F(free_count):
            s->values[HW_SAMPLE_FREE_COUNT] = f.value;
            break;
        case F(self_max):
            s->max = f.value;
            s->at_max = true;
            break;
        case F(self_max_count):
            s->max_count = f.value;
            break;
        case F(est_alloc_count):
            s->values[HW_SAMPLE_EST_ALLOC] = f.value;
            s->has_est = true;
            break;
        case F(est_free_count):
            s->values[HW_SAMPLE_EST_FREE] = f.value;
            s->has_est = true;
            break;
        case F(est_max_count):
            s->est_max = f.value;
            s->has_est_max = true;
            break;
        case F(self_idle):
            s->idle = f.value;
            break;
        case F(variance_bytes):
            memcpy(&s->variance, &f.value, sizeof s->variance);
            break;
        case F(variance_objects):
            s->variance_objects = float_of(f.value);
            break;
        case F(variance_alloc_space):
            s->variance_alloc_space = float_of(f.value);
            break;
        case F(variance_alloc_objects):
            s->variance_alloc_objects = float_of(f.value);
            break;
        case F(rounding_bytes):
            s->rounding = f.value;
            break;
        case F(variance_rounding):
            s->variance_rounding = float_of(f.value);
            break;
        case F(temporary_space):
            s->values[HW_SAMPLE_TEMPORARY_BYTES] = f.value;
            break;
        case F(temporary_objects):
            s->values[HW_SAMPLE_TEMPORARY_COUNT] = f.value;
            break;
        case F(variance_temporary_space):
            s->variance_temporary_space = float_of(f.value);
            break;
        case F(variance_temporary_objects):
            s->variance_temporary_objects = float_of(f.value);
            break;
        default:
            break;
        }
    }
}

static inline float kept(float variance)
{
    return hw_alloc_variance_kept((double)variance);
}

/*
 * Variances of all allocations are written only if they differ from those of the live ones. Returns
 * whether a variance that is used is none.
 */
static inline bool complete_variances(struct sample *s, bool all)
{
    float live = hw_alloc_variance_kept(s->variance), objects = all ? kept(s->variance_objects) : 0;
    float alloc_space = all ? kept(s->variance_alloc_space) : 0;
    float alloc = all ? kept(s->variance_alloc_objects) : 0;
    float rounding = all ? kept(s->variance_rounding) : 0;
    s->variance = (double)live;
    s->variance_objects = objects;
    s->variance_rounding = rounding;
    s->variance_alloc_space = !all ? 0 : alloc_space > live ? alloc_space : live;
    s->variance_alloc_objects = !all ? 0 : alloc > objects ? alloc : objects;
    s->variance_temporary_space = kept(s->variance_temporary_space);
    s->variance_temporary_objects = kept(s->variance_temporary_objects);
    return isinf(s->variance_alloc_space) || isinf(s->variance_alloc_objects) || isinf(live) ||
           isinf(rounding) || isinf(s->variance_temporary_space) ||
           isinf(s->variance_temporary_objects);
}

/* Fills in what a decoded sample does not contain. False: one of its variances is none. */
static inline bool complete(struct sample *s, bool all_variances)
{
    if (!s->has_est) { /* another writer: only the counts are known */
        s->values[HW_SAMPLE_EST_ALLOC] = s->values[HW_SAMPLE_ALLOC_COUNT];
        s->values[HW_SAMPLE_EST_FREE] = s->values[HW_SAMPLE_FREE_COUNT];
    }
    return !complete_variances(s, all_variances);
}

/* ---- histories ---- */

static inline struct hw_sample_history *history_at(struct hw_heap_series *s, size_t i)
{
    s->cursor = i + 1;
    return &s->histories.v[i];
}

static inline bool is_for(const struct hw_sample_history *h, uint64_t iid, uint32_t generation)
{
    return h->iid == iid && h->generation == generation;
}

/* The id's history if it is where it is expected, or a little after the last one. */
static inline struct hw_sample_history *history_near(struct hw_heap_series *s, uint64_t iid,
                                                     uint32_t generation)
{
    const struct hw_sample_history *h = s->histories.v;
    size_t n = s->histories.n, i = s->cursor;
    if (i) {
        size_t guess = i - 1 + (size_t)(iid - h[i - 1].iid); /* may wrap: then it is no index */
        if (hw_likely(guess < n && is_for(&h[guess], iid, generation)))
            return history_at(s, guess);
    }
    for (size_t end = n - i < LOOK_AHEAD ? n : i + LOOK_AHEAD; i < end; i++)
        if (is_for(&h[i], iid, generation))
            return history_at(s, i);
    return NULL;
}

/*
 * Where the search for a callsite begins. Callstacks that were made one after the other have close
 * numbers and are looked up in that order, so sixteen numbers share a cache line.
 */
static size_t home_slot(const struct hw_heap_series *s, hw_callsite_id callsite)
{
    uint64_t line = hw_hash_mix(hw_hash_seed(), callsite.v >> 4);
    return (size_t)(line << 4 | (callsite.v & 15)) & s->mask;
}

/* The slot of a callsite's history, or the free one where it belongs. */
static size_t history_slot(const struct hw_heap_series *s, hw_callsite_id callsite)
{
    size_t at = home_slot(s, callsite);
    while (s->slots[at] && s->histories.v[s->slots[at] - 1].callsite.v != callsite.v)
        at = (at + 1) & s->mask;
    return at;
}

static int grow_slots(struct hw_heap_series *s)
{
    size_t n = s->slots ? (s->mask + 1) * 2 : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return HW_ENOMEM;
    free(s->slots);
    s->slots = slots;
    s->mask = n - 1;
    for (size_t i = 0; i < s->histories.n; i++) { /* all are different: no need to compare */
        size_t at = home_slot(s, s->histories.v[i].callsite);
        while (slots[at])
            at = (at + 1) & s->mask;
        slots[at] = (uint32_t)i + 1;
    }
    return HW_OK;
}

static int history_get(struct hw_heap_series *s, hw_callsite_id callsite, uint64_t iid,
                       uint32_t generation, struct hw_sample_history **out)
{
    int rc = (s->histories.n + 1) * 2 > (s->slots ? s->mask + 1 : 0) ? grow_slots(s) : HW_OK;
    if (rc < 0)
        return rc;
    size_t at = history_slot(s, callsite);
    if (!s->slots[at]) { /* there are fewer of them than callsites, whose numbers have 32 bits */
        struct hw_sample_history fresh = {{0}, iid, generation, callsite};
        if (hw_vec_push(&s->histories, fresh) < 0)
            return HW_ENOMEM;
        s->slots[at] = (uint32_t)s->histories.n;
    }
    *out = history_at(s, s->slots[at] - 1);
    return HW_OK;
}

/* Adjusts the values of a second id of the callsite to its history. */
static int correct(struct hw_heap_series *s, const struct hw_sample_history *h, uint32_t generation,
                   struct sample *in)
{
    struct hw_sample_correction *c = NULL;
    for (size_t i = 0; i < s->corrections.n && !c; i++)
        if (s->corrections.v[i].iid == in->iid && s->corrections.v[i].generation == generation &&
            s->corrections.v[i].callsite.v == h->callsite.v)
            c = &s->corrections.v[i];
    if (!c) {
        if (s->corrections.n >= MAX_CORRECTIONS)
            return HW_OK; /* then its values seem to decrease, which counts as malformed */
        struct hw_sample_correction fresh = {in->iid, generation, h->callsite, {0}};
        memcpy(fresh.values, h->values, sizeof fresh.values);
        if (hw_vec_push(&s->corrections, fresh) < 0)
            return HW_ENOMEM;
        c = &s->corrections.v[s->corrections.n - 1];
    }
    for (int i = 0; i < HW_SAMPLE_VALUE_COUNT; i++)
        in->values[i] += c->values[i];
    return HW_OK;
}

/* ---- rows ---- */

static inline int64_t clamp(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* The increase since the previous value, which is replaced; 0 if it decreased. */
static inline int64_t grown(uint64_t *before, uint64_t now)
{
    uint64_t old = *before, top = now > old ? now : old;
    *before = top;
    return clamp(top - old);
}

/* More than any address space; sums with it could overflow. */
static inline bool is_absurd(uint64_t v)
{
    return v >> 62;
}

static int count_malformed(struct hw_heap_series *s, const struct hw_heap_samples_context *at)
{
    return hw_profile_stat_add(at->profile, "heapprofd_malformed_packet", (int64_t)s->upid.v,
                               HW_STAT_ERROR, 1);
}

static int count_bad_variance(struct hw_heap_series *s, const struct hw_heap_samples_context *at)
{
    return hw_profile_stat_add(at->profile, "heapprofd_bad_variance",
                               at->profile->processes.v[s->upid.v].pid, HW_STAT_ERROR, 1);
}

/* The rows of one callsite: + what was allocated, - what was freed since the previous dump. */
static inline int add_difference(struct hw_heap_series *s, const struct hw_heap_samples_context *at,
                                 struct hw_sample_history *h, const struct sample *in)
{
    uint64_t *old = h->values;
    const uint64_t *now = in->values;
    struct hw_alloc_rows *rows = &at->profile->allocs;
    bool malformed = is_absurd(in->idle) || is_absurd(in->rounding);
    for (int i = 0; i < HW_SAMPLE_VALUE_COUNT; i++)
        malformed |= (i < N_CUMULATIVE && now[i] < old[i]) || is_absurd(now[i]);
    if (hw_unlikely(malformed))
        return count_malformed(s, at);
    int64_t size = grown(&old[HW_SAMPLE_ALLOC_BYTES], now[HW_SAMPLE_ALLOC_BYTES]);
    int64_t samples = grown(&old[HW_SAMPLE_ALLOC_COUNT], now[HW_SAMPLE_ALLOC_COUNT]);
    int64_t count = grown(&old[HW_SAMPLE_EST_ALLOC], now[HW_SAMPLE_EST_ALLOC]);
    int64_t freed_size = grown(&old[HW_SAMPLE_FREED_BYTES], now[HW_SAMPLE_FREED_BYTES]);
    int64_t freed_samples = grown(&old[HW_SAMPLE_FREE_COUNT], now[HW_SAMPLE_FREE_COUNT]);
    int64_t freed_count = grown(&old[HW_SAMPLE_EST_FREE], now[HW_SAMPLE_EST_FREE]);
    int64_t temporary = grown(&old[HW_SAMPLE_TEMPORARY_BYTES], now[HW_SAMPLE_TEMPORARY_BYTES]);
    int64_t temporary_count =
        grown(&old[HW_SAMPLE_TEMPORARY_COUNT], now[HW_SAMPLE_TEMPORARY_COUNT]);
    bool allocated = size || samples;
    bool freed = (freed_size || freed_samples) && !s->is_art;
    struct hw_alloc_row row = {.dump = s->dump,
                               .callsite = h->callsite,
                               .samples = samples,
                               .count = count,
                               .size = size,
                               .idle = clamp(in->idle),
                               .rounding = clamp(in->rounding),
                               .variance = in->variance,
                               .variance_objects = in->variance_objects,
                               .variance_alloc_space = in->variance_alloc_space,
                               .variance_alloc_objects = in->variance_alloc_objects,
                               .variance_rounding = in->variance_rounding,
                               .temporary_space = temporary,
                               .temporary_objects = temporary_count,
                               .variance_temporary_space = in->variance_temporary_space,
                               .variance_temporary_objects = in->variance_temporary_objects};
    int rc = HW_OK;
    if (allocated || (in->idle && !freed))
        rc = hw_alloc_rows_push(rows, &row);
    if (!freed || rc < 0)
        return rc;
    row.samples = -freed_samples;
    row.count = -freed_count;
    row.size = -freed_size;
    if (allocated) { /* in one of the two rows only */
        row.idle = 0;
        row.variance = 0;
        row.variance_objects = row.variance_alloc_space = row.variance_alloc_objects = 0;
        row.variance_rounding = 0;
        row.temporary_space = row.temporary_objects = 0;
        row.variance_temporary_space = row.variance_temporary_objects = 0;
    }
    return hw_alloc_rows_push(rows, &row);
}

static int add_max(struct hw_heap_series *s, const struct hw_heap_samples_context *at,
                   hw_callsite_id callsite, const struct sample *in)
{
    struct hw_heap_dump *dump = &at->profile->dumps.v[s->dump];
    if (is_absurd(in->max) || is_absurd(in->max_count) || is_absurd(in->est_max) ||
        is_absurd(in->idle) || is_absurd(in->rounding))
        return count_malformed(s, at);
    /* A writer that does not write the original interval did not know the count. */
    int64_t samples = dump->orig_interval_bytes ? clamp(in->max_count) : 0;
    struct hw_alloc_row row = {.dump = s->dump,
                               .callsite = callsite,
                               .samples = samples,
                               .count = in->has_est_max ? clamp(in->est_max) : samples,
                               .size = clamp(in->max),
                               .idle = clamp(in->idle),
                               .rounding = clamp(in->rounding),
                               .variance = in->variance,
                               .variance_objects = in->variance_objects,
                               .variance_alloc_space = in->variance_alloc_space,
                               .variance_alloc_objects = in->variance_alloc_objects,
                               .variance_rounding = in->variance_rounding};
    dump->flags |= HW_DUMP_AT_MAX;
    return hw_alloc_rows_push(&at->profile->allocs, &row);
}

/* A sample whose history is not where it was expected. */
static int add_unexpected(struct hw_heap_series *s, const struct hw_heap_samples_context *at,
                          struct sample *in)
{
    hw_callsite_id callsite;
    struct hw_sample_history *h;
    int rc = hw_interned_callstack(at->interned, at->sequence, at->generation, in->iid, &callsite);
    if (rc != 1)
        return rc;
    if (in->at_max)
        return add_max(s, at, callsite, in);
    rc = history_get(s, callsite, in->iid, at->generation, &h);
    if (rc == HW_OK && !is_for(h, in->iid, at->generation))
        rc = correct(s, h, at->generation, in);
    return rc < 0 ? rc : add_difference(s, at, h, in);
}

static inline int add_sample(struct hw_heap_series *s, const struct hw_heap_samples_context *at,
                             struct hw_bytes message, const uint8_t *readable_end, bool *estimated)
{
    struct sample in;
    if (readable_end - message.p < MAX_IN_ORDER || !decode_in_order(message, &in))
        decode_any(message, &in);
    if (hw_unlikely(!complete(&in, at->profile->dumps.v[s->dump].flags & HW_DUMP_ALL_VARIANCES)) &&
        count_bad_variance(s, at) < 0)
        return HW_ENOMEM;
    *estimated |= in.has_est || in.has_est_max;
    struct hw_sample_history *h =
        hw_unlikely(in.at_max || at->has_legacy) ? NULL : history_near(s, in.iid, at->generation);
    return hw_likely(h) ? add_difference(s, at, h, &in) : add_unexpected(s, at, &in);
}

/*
 * The recorder writes an allocation's type as the innermost frame, in a mapping of its own; here it
 * becomes the rows' type. Done afterwards, as few traces have any.
 */
static int split_types(const struct hw_heap_samples_context *at, size_t first)
{
    const struct hw_callsites *cs = at->profile->callsites;
    struct hw_alloc_rows *rows = &at->profile->allocs;
    for (size_t i = first; i < rows->n; i++) {
        const struct hw_callsite *leaf = hw_callsites_get(cs, (hw_callsite_id){rows->callsite[i]});
        const struct hw_frame *f = hw_callsites_get_frame(cs, leaf->frame);
        if (!hw_callsites_is_type(cs, f) || leaf->parent.v == HW_ID_NONE)
            continue;
        struct hw_alloc_row row = hw_alloc_row_get(rows, i);
        row.type = f->name;
        row.callsite = leaf->parent;
        int rc = hw_alloc_rows_set(rows, i, &row);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

int hw_heap_samples_read(struct hw_heap_series *s, const struct hw_heap_samples_context *at,
                         struct hw_bytes process_dump)
{
    struct hw_pb_reader r = hw_pb_read(process_dump);
    struct hw_bytes message;
    struct hw_pb_field f;
    bool estimated = false;
    size_t first = at->profile->allocs.n;
    for (;;) {
        const uint8_t *next = sample_at(r.pos, r.end, &message);
        if (hw_likely(next)) {
            r.pos = next;
        } else {
            if (hw_pb_next(&r, &f) != 1)
                break;
            if (f.number != F_SAMPLES || f.wire != HW_PB_BYTES)
                continue;
            message = f.bytes;
        }
        int rc = add_sample(s, at, message, r.end, &estimated);
        if (rc < 0)
            return rc;
    }
    if (estimated) /* writers of these counts also write variances, if there are any */
        at->profile->dumps.v[s->dump].flags |= HW_DUMP_KNOWS_VARIANCE;
    return hw_callsites_has_types(at->profile->callsites) ? split_types(at, first) : HW_OK;
}
