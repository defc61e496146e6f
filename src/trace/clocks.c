#include "trace/clocks.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

enum {
    FIRST_SCOPED = 64,
    FIRST_GLOBAL = 128,
    BOOTTIME = HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME,
    MAX_HOPS = 64 /* clocks visited in search of a path */
};

struct clock_field {
    uint32_t id;
    uint64_t timestamp, unit_ns;
    bool incremental;
};

void hw_clocks_done(struct hw_clocks *c)
{
    hw_vec_done(&c->points);
    hw_vec_done(&c->scales);
    hw_vec_done(&c->pairs);
    *c = (struct hw_clocks){0};
}

static uint64_t clock_key(uint32_t id, uint64_t sequence)
{
    return id >= FIRST_SCOPED && id < FIRST_GLOBAL ? sequence << 8 | id : id;
}

static struct hw_clock_scale *scale_find(struct hw_clocks *c, uint64_t clock)
{
    for (size_t i = 0; i < c->scales.n; i++)
        if (c->scales.v[i].clock == clock)
            return &c->scales.v[i];
    return NULL;
}

static struct clock_field clock_read(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct clock_field clock = {.unit_ns = 1};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ClockSnapshot_Clock_clock_id)
            clock.id = (uint32_t)f.value;
        else if (f.number == HW_F_ClockSnapshot_Clock_timestamp)
            clock.timestamp = f.value;
        else if (f.number == HW_F_ClockSnapshot_Clock_unit_multiplier_ns)
            clock.unit_ns = f.value ? f.value : 1;
        else if (f.number == HW_F_ClockSnapshot_Clock_is_incremental)
            clock.incremental = f.value != 0;
    }
    return clock;
}

static int scale_put(struct hw_clocks *c, uint64_t key, const struct clock_field *clock)
{
    struct hw_clock_scale row = {key, clock->unit_ns, clock->incremental,
                                 (int64_t)clock->timestamp};
    struct hw_clock_scale *existing = scale_find(c, key);
    if (!existing)
        return hw_vec_push(&c->scales, row) < 0 ? HW_ENOMEM : HW_OK;
    *existing = row;
    return HW_OK;
}

int hw_clocks_add(struct hw_clocks *c, struct hw_bytes snapshot, uint64_t sequence)
{
    struct hw_pb_reader r = hw_pb_read(snapshot);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ClockSnapshot_primary_trace_clock && f.value && !c->trace_clock)
            c->trace_clock = (uint32_t)f.value;
        if (f.number != HW_F_ClockSnapshot_clocks || f.wire != HW_PB_BYTES)
            continue;
        struct clock_field clock = clock_read(f.bytes);
        uint64_t key = clock_key(clock.id, sequence);
        struct hw_clock_point point = {key, c->n_snapshots,
                                       (int64_t)(clock.timestamp * clock.unit_ns)};
        if (hw_vec_push(&c->points, point) < 0 ||
            (key != clock.id && scale_put(c, key, &clock) < 0))
            return HW_ENOMEM;
    }
    c->n_snapshots++;
    c->cached_from = c->cached_to = 0;
    return HW_OK;
}

void hw_clocks_pass(struct hw_clocks *c, struct hw_bytes snapshot, uint64_t sequence)
{
    struct hw_pb_reader r = hw_pb_read(snapshot);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_ClockSnapshot_clocks || f.wire != HW_PB_BYTES)
            continue;
        struct clock_field clock = clock_read(f.bytes);
        uint64_t key = clock_key(clock.id, sequence);
        if (key != clock.id)
            (void)scale_put(c, key, &clock); /* exists since hw_clocks_add: no allocation */
    }
}

uint32_t hw_clocks_trace_clock(const struct hw_clocks *c)
{
    return c->trace_clock ? c->trace_clock : BOOTTIME;
}

static int compare_pairs(const void *pa, const void *pb)
{
    const struct hw_clock_pair *a = pa, *b = pb;
    return a->from_ns < b->from_ns ? -1 : a->from_ns > b->from_ns;
}

/* Fills c->pairs with the moments at which both clocks were read. */
static int pairs_of(struct hw_clocks *c, uint64_t from, uint64_t to)
{
    if (c->cached_from == from && c->cached_to == to)
        return HW_OK;
    c->pairs.n = 0;
    c->cached_from = c->cached_to = 0;
    for (size_t i = 0; i < c->points.n;) {
        size_t end = i;
        const struct hw_clock_point *a = NULL, *b = NULL;
        for (; end < c->points.n && c->points.v[end].snapshot == c->points.v[i].snapshot; end++) {
            if (c->points.v[end].clock == from)
                a = &c->points.v[end];
            if (c->points.v[end].clock == to)
                b = &c->points.v[end];
        }
        if (a && b && hw_vec_push(&c->pairs, (struct hw_clock_pair){a->ns, b->ns}) < 0)
            return HW_ENOMEM;
        i = end;
    }
    if (c->pairs.n)
        qsort(c->pairs.v, c->pairs.n, sizeof *c->pairs.v, compare_pairs);
    c->cached_from = from;
    c->cached_to = to;
    return HW_OK;
}

/* Converts between two clocks that a snapshot has both. 1 = done, 0 = no snapshot does. */
static int step(struct hw_clocks *c, uint64_t from, uint64_t to, int64_t *ns)
{
    int rc = pairs_of(c, from, to);
    if (rc < 0 || !c->pairs.n)
        return rc;
    size_t lo = HW_LOWER_BOUND(mid, 0, c->pairs.n, c->pairs.v[mid].from_ns <= *ns);
    const struct hw_clock_pair *p = &c->pairs.v[lo ? lo - 1 : 0];
    *ns = (int64_t)((uint64_t)p->to_ns + ((uint64_t)*ns - (uint64_t)p->from_ns));
    return 1;
}

static bool is_known(const struct hw_clocks *c, uint64_t clock)
{
    for (size_t i = 0; i < c->points.n; i++)
        if (c->points.v[i].clock == clock)
            return true;
    return false;
}

struct hop {
    uint64_t clock;
    int from; /* index of the previous hop; -1 = none */
};

static bool is_visited(const struct hop *hops, size_t n, uint64_t clock)
{
    for (size_t i = 0; i < n; i++)
        if (hops[i].clock == clock)
            return true;
    return false;
}

/* Breadth first from `from`. Gives the clocks after it on the shortest path; 0 = no path. */
static size_t find_path(const struct hw_clocks *c, uint64_t from, uint64_t to, uint64_t *path)
{
    struct hop hops[MAX_HOPS] = {{from, -1}};
    size_t n = 1, length = 0;
    for (size_t at = 0; at < n; at++) {
        if (hops[at].clock == to) {
            for (int i = (int)at; hops[i].from >= 0; i = hops[i].from)
                path[length++] = hops[i].clock;
            return length; /* last step first */
        }
        for (size_t i = 0; i < c->points.n; i++) {
            if (c->points.v[i].clock != hops[at].clock)
                continue;
            uint32_t snapshot = c->points.v[i].snapshot;
            size_t j = i;
            while (j > 0 && c->points.v[j - 1].snapshot == snapshot)
                j--;
            for (; j < c->points.n && c->points.v[j].snapshot == snapshot; j++)
                if (n < MAX_HOPS && !is_visited(hops, n, c->points.v[j].clock))
                    hops[n++] = (struct hop){c->points.v[j].clock, (int)at};
        }
    }
    return 0;
}

static int64_t scaled(struct hw_clocks *c, uint64_t clock, uint64_t value)
{
    struct hw_clock_scale *s = scale_find(c, clock);
    if (!s)
        return (int64_t)value;
    if (s->incremental) {
        s->last = (int64_t)((uint64_t)s->last + value);
        value = (uint64_t)s->last;
    }
    return (int64_t)(value * s->unit_ns);
}

int hw_clocks_convert(struct hw_clocks *c, uint32_t clock_id, uint64_t sequence, uint64_t value,
                      int64_t *out)
{
    uint64_t from = clock_key(clock_id, sequence), to = hw_clocks_trace_clock(c);
    if (clock_id == 0 || from == to) {
        *out = (int64_t)value;
        return HW_CLOCK_OK;
    }
    int64_t ns = from == clock_id ? (int64_t)value : scaled(c, from, value);
    int rc = step(c, from, to, &ns);
    if (rc == 0) {
        uint64_t path[MAX_HOPS];
        if (!is_known(c, from))
            return HW_CLOCK_UNKNOWN_SOURCE;
        if (!is_known(c, to))
            return HW_CLOCK_UNKNOWN_TARGET;
        size_t n = find_path(c, from, to, path);
        if (n == 0)
            return HW_CLOCK_NO_PATH;
        while (n-- > 0 && (rc = step(c, from, path[n], &ns)) == 1)
            from = path[n];
    }
    if (rc < 0)
        return rc;
    *out = ns;
    return HW_CLOCK_OK;
}
