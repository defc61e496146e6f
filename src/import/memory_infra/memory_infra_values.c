/*
 * Heap dumps, both versions.
 *
 * Rows keep the file's ids until everything has been read. Then, dump after dump of one heap, they
 * become callsites, types and changes since the previous dump, which is what the model holds.
 *
 * Version 1 has totals: an entry counts what its stack and type hold, with everything below. A self
 * value is a total minus the totals of the nearest entries below, of the same type or of all types.
 * What an entry of all types has beyond the sum of its types gets the type `<other>`; if the types
 * have more (they include parts below that were too small to be written), the excess is subtracted
 * from them, so that the sum stays the stacks'. The self value of a stack with stacks below it was
 * its own or theirs that was too small to be written: it gets the frame `<other>`.
 *
 * Ids belong to a process; the first of several definitions counts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "import/memory_infra/memory_infra_heaps_data.h"

#include "base/banned.h"

/* ---- names ---- */

/* Chrome's type names are those of a function that has the type as its parameter. */
static struct hw_bytes bare_type(struct hw_bytes name)
{
    static const char *const begins[] = {"getStringWithTypeName() [with T = ",
                                         "getStringWithTypeName() [T = ", "getStringWithTypeName<"};
    static const char *const ends[] = {"]", "]", ">(void)"};
    for (size_t i = 0; i < HW_ARRAY_LEN(begins); i++) {
        size_t n = strlen(begins[i]), m = strlen(ends[i]);
        const uint8_t *at = name.n ? memmem(name.p, name.n, begins[i], n) : NULL;
        if (!at)
            continue;
        struct hw_bytes rest = hw_bytes_of(at + n, (size_t)(name.p + name.n - at) - n);
        if (rest.n > m && memcmp(rest.p + rest.n - m, ends[i], m) == 0)
            return hw_bytes_of(rest.p, rest.n - m);
    }
    return name;
}

static int clean_type(struct hw_infra *in, hw_str_id raw, uint32_t *out)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(in->p->callsites), raw);
    struct hw_bytes bare = bare_type(name);
    hw_str_id id = raw;
    int rc = bare.n == name.n ? HW_OK : hw_profile_str(in->p, bare, &id);
    *out = id.v;
    return rc;
}

/* 0 = none, also if it is undefined. There are many rows and few types: each is cleaned once. */
static int type_of(struct hw_infra *in, const struct hw_infra_heap_dump *d, uint64_t id,
                   uint32_t *out)
{
    struct hw_infra_ids *ids = &in->heaps->processes.v[d->upid.v];
    struct hw_map64 *shown = &ids->shown_types[d->flags & HW_INFRA_V1];
    uint64_t name = 0;
    const uint64_t *known = hw_map64_find(shown, id);
    *out = known ? (uint32_t)*known : 0;
    if (known)
        return HW_OK;
    bool found = d->flags & HW_INFRA_V1 ? hw_map64_get(&ids->v1_types, id, &name)
                                        : hw_map64_get(&ids->types, id, &name) &&
                                              hw_map64_get(&ids->strings, name, &name);
    if (!found)
        return hw_infra_bad(in, "memory_infra_undefined_id");
    int rc = clean_type(in, (hw_str_id){(uint32_t)name}, out);
    return rc < 0 ? rc : hw_map64_put(shown, id, *out);
}

static int child_named(struct hw_infra *in, uint32_t parent, hw_str_id name, uint32_t *out)
{
    struct hw_frame f = {.mapping = {HW_ID_NONE}, .name = name};
    hw_frame_id frame;
    hw_callsite_id c;
    int rc = hw_callsites_frame(in->p->callsites, &f, &frame);
    if (rc == HW_OK)
        rc = hw_callsites_child(in->p->callsites, (hw_callsite_id){parent}, frame, &c);
    if (rc == HW_OK)
        *out = c.v;
    return rc;
}

static int node_name(struct hw_infra *in, const struct hw_infra_ids *ids,
                     const struct hw_infra_node *n, hw_str_id *out)
{
    uint64_t text = 0;
    bool found = n->named || hw_map64_get(&ids->strings, n->name, &text);
    out->v = n->named ? (uint32_t)n->name : (uint32_t)text;
    return found ? HW_OK : hw_infra_bad(in, "memory_infra_undefined_id");
}

/* Walks up to a resolved node, then down again; cycles of parents are cut where they close. */
static int resolve_node(struct hw_infra *in, const struct hw_infra_ids *ids,
                        const struct hw_map64 *map, uint64_t index, uint32_t *out)
{
    struct hw_infra_heaps *h = in->heaps;
    uint32_t parent = HW_ID_NONE;
    int rc = HW_OK;
    hw_vec_clear(&h->path);
    for (;;) {
        struct hw_infra_node *n = &h->nodes.v[index];
        if (n->callsite == HW_INFRA_BUSY) {
            rc = hw_infra_bad(in, "memory_infra_ring_of_nodes");
            break;
        }
        if (n->callsite != HW_INFRA_NEW) {
            parent = n->callsite;
            break;
        }
        if (hw_vec_push(&h->path, (uint32_t)index) < 0)
            return HW_ENOMEM;
        n->callsite = HW_INFRA_BUSY;
        /* Some writers write a parent of 0 for none. */
        if (n->parent == HW_INFRA_NO_KEY || (n->parent == 0 && !hw_map64_find(map, 0)))
            break;
        if (!hw_map64_get(map, n->parent, &index)) {
            rc = hw_infra_bad(in, "memory_infra_undefined_id");
            break;
        }
    }
    while (rc == HW_OK && h->path.n) {
        struct hw_infra_node *n = &h->nodes.v[h->path.v[--h->path.n]];
        hw_str_id name;
        rc = node_name(in, ids, n, &name);
        if (rc == HW_OK)
            rc = child_named(in, parent, name, &n->callsite);
        if (rc == HW_ELIMIT || rc == HW_EINVAL) { /* too deep: it counts for its caller */
            n->callsite = parent;
            rc = hw_infra_bad(in, "memory_infra_too_deep");
        }
        parent = n->callsite;
    }
    *out = parent;
    return rc;
}

/* HW_ID_NONE if it is undefined. */
static int callsite_of(struct hw_infra *in, const struct hw_infra_heap_dump *d, uint64_t id,
                       uint32_t *out)
{
    const struct hw_infra_ids *ids = &in->heaps->processes.v[d->upid.v];
    const struct hw_map64 *map = d->flags & HW_INFRA_V1 ? &ids->v1_nodes : &ids->nodes;
    uint64_t index;
    *out = HW_ID_NONE;
    if (!hw_map64_get(map, id, &index))
        return hw_infra_bad(in, "memory_infra_undefined_id");
    return resolve_node(in, ids, map, index, out);
}

/* ---- rows ---- */

static int add_held(struct hw_infra *in, uint32_t callsite, uint32_t type, int64_t size,
                    int64_t count)
{
    struct hw_infra_heaps *h = in->heaps;
    uint64_t *at;
    bool fresh;
    int rc = HW_OK;
    if (callsite == HW_ID_NONE)
        rc = child_named(in, HW_ID_NONE, h->no_stack, &callsite);
    if (rc == HW_OK && hw_vec_reserve(&h->held, h->held.n + 1) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_map64_at(&h->held_at, (uint64_t)callsite << 32 | type, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = h->held.n;
        h->held.v[h->held.n++] = (struct hw_infra_held){.callsite = callsite, .type = type};
    }
    struct hw_infra_held *x = &h->held.v[*at];
    if (__builtin_add_overflow(x->new_size, size, &x->new_size))
        x->new_size = INT64_MAX / 2;
    if (__builtin_add_overflow(x->new_count, count, &x->new_count))
        x->new_count = INT64_MAX / 2;
    return HW_OK;
}

static int add_self_values(struct hw_infra *in, const struct hw_infra_heap_dump *d)
{
    struct hw_bytes rows = hw_pb_view(&d->rows);
    struct hw_infra_row row, *r = &row;
    while (hw_infra_next_row(&rows, r)) {
        uint32_t callsite = HW_ID_NONE, type = 0;
        int rc = HW_OK;
        if (r->node != HW_INFRA_NO_KEY)
            rc = callsite_of(in, d, r->node, &callsite);
        if (rc == HW_OK && r->type != HW_INFRA_NO_KEY)
            rc = type_of(in, d, r->type, &type);
        if (rc == HW_OK)
            rc = add_held(in, callsite, type, r->size, r->count);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* ---- version 1: from totals to self values ---- */

static int compare_entries(const void *pa, const void *pb)
{
    const struct hw_infra_entry *a = pa, *b = pb;
    if (a->callsite != b->callsite)
        return a->callsite < b->callsite ? -1 : 1;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* Sorts entries by callsite and type, and indexes them by callsite; the first of several counts. */
static int sort_entries(struct hw_infra_heaps *h)
{
    size_t n = 0;
    if (h->entries.n)
        qsort(h->entries.v, h->entries.n, sizeof *h->entries.v, compare_entries);
    for (size_t i = 0; i < h->entries.n; i++) {
        const struct hw_infra_entry *e = &h->entries.v[i];
        uint32_t at = e->callsite + 1; /* HW_ID_NONE: 0 */
        if (n && h->entries.v[n - 1].callsite == e->callsite && h->entries.v[n - 1].type == e->type)
            continue;
        while (h->entries_of.n <= at)
            if (hw_vec_push(&h->entries_of, (struct hw_infra_entries_of){0}) < 0)
                return HW_ENOMEM;
        struct hw_infra_entries_of *of = &h->entries_of.v[at];
        if (of->round != h->round)
            *of = (struct hw_infra_entries_of){h->round, (uint32_t)n, 0};
        of->n++;
        h->entries.v[n++] = *e;
    }
    h->entries.n = n;
    return HW_OK;
}

/* Most callers on the way up have no entries at all, others one or two. */
static struct hw_infra_entry *find_entry(struct hw_infra_heaps *h, uint32_t callsite, uint32_t type)
{
    uint32_t at = callsite + 1;
    if (at >= h->entries_of.n || h->entries_of.v[at].round != h->round)
        return NULL;
    const struct hw_infra_entries_of *of = &h->entries_of.v[at];
    struct hw_infra_entry *e = h->entries.v + of->first;
    size_t i = HW_LOWER_BOUND(mid, 0, of->n, e[mid].type < type);
    return i < of->n && e[i].type == type ? &e[i] : NULL;
}

/* Entries with an undefined frame or type are skipped, as in Chrome's own viewer. */
static int collect_entries(struct hw_infra *in, const struct hw_infra_heap_dump *d)
{
    struct hw_infra_heaps *h = in->heaps;
    struct hw_bytes rows = hw_pb_view(&d->rows);
    struct hw_infra_row row, *r = &row;
    hw_vec_clear(&h->entries);
    h->round++;
    while (hw_infra_next_row(&rows, r)) {
        struct hw_infra_entry e = {.callsite = HW_ID_NONE,
                                   .size = r->size,
                                   .count = r->count,
                                   .self_size = r->size,
                                   .self_count = r->count,
                                   .order = (uint32_t)h->entries.n};
        int rc = HW_OK;
        if (h->entries.n >= UINT32_MAX)
            return HW_ELIMIT;
        if (r->node != HW_INFRA_NO_KEY)
            rc = callsite_of(in, d, r->node, &e.callsite);
        if (rc == HW_OK && r->type != HW_INFRA_NO_KEY)
            rc = type_of(in, d, r->type, &e.type);
        if (rc < 0)
            return rc;
        if ((r->node != HW_INFRA_NO_KEY && e.callsite == HW_ID_NONE) ||
            (r->type != HW_INFRA_NO_KEY && !e.type))
            continue;
        if (hw_vec_push(&h->entries, e) < 0)
            return HW_ENOMEM;
    }
    return sort_entries(h);
}

/* The entry of the nearest caller with the same type. */
static struct hw_infra_entry *entry_above(struct hw_infra *in, const struct hw_infra_entry *e)
{
    uint32_t c = e->callsite;
    while (c != HW_ID_NONE) {
        c = hw_callsites_get(in->p->callsites, (hw_callsite_id){c})->parent.v;
        struct hw_infra_entry *above = find_entry(in->heaps, c, e->type);
        if (above)
            return above;
    }
    return NULL;
}

static void subtract_from_above(struct hw_infra *in)
{
    struct hw_infra_heaps *h = in->heaps;
    for (size_t i = 0; i < h->entries.n; i++) {
        const struct hw_infra_entry *e = &h->entries.v[i];
        struct hw_infra_entry *above = entry_above(in, e);
        if (!above)
            continue;
        above->self_size -= e->size < above->self_size ? e->size : above->self_size;
        above->self_count -= e->count < above->self_count ? e->count : above->self_count;
        above->has_below = true;
        struct hw_infra_entry *all = find_entry(h, above->callsite, 0);
        if (all)
            all->has_below = true;
    }
}

static void reduce(int64_t *excess, int64_t *self)
{
    int64_t part = *excess < *self ? *excess : *self;
    *excess -= part;
    *self -= part;
}

/* The entries of one callstack, the one of all types (if any) first. */
static int add_callstack(struct hw_infra *in, struct hw_infra_entry *e, size_t n, bool has_types)
{
    struct hw_infra_heaps *h = in->heaps;
    bool below = false;
    uint32_t at = e->callsite;
    int rc = HW_OK;
    if (e->type == 0) {
        int64_t size = -e->self_size, count = -e->self_count; /* the types' excess */
        for (size_t i = 1; i < n; i++) {
            size += e[i].self_size;
            count += e[i].self_count;
        }
        e->self_size = size < 0 ? -size : 0;
        e->self_count = count < 0 ? -count : 0;
        for (size_t i = 1; i < n; i++) {
            if (size > 0)
                reduce(&size, &e[i].self_size);
            if (count > 0)
                reduce(&count, &e[i].self_count);
        }
    }
    for (size_t i = 0; i < n; i++)
        below |= e[i].has_below;
    if (below)
        rc = child_named(in, at, h->other, &at);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (e[i].self_size || e[i].self_count)
            rc = add_held(in, at,
                          e[i].type   ? e[i].type
                          : has_types ? h->other.v
                                      : 0,
                          e[i].self_size, e[i].self_count);
    return rc;
}

static int add_totals(struct hw_infra *in, const struct hw_infra_heap_dump *d)
{
    struct hw_infra_heaps *h = in->heaps;
    bool has_types = false;
    int rc = collect_entries(in, d);
    if (rc < 0)
        return rc;
    subtract_from_above(in);
    for (size_t i = 0; i < h->entries.n; i++)
        has_types |= h->entries.v[i].type != 0;
    for (size_t i = 0, end; rc == HW_OK && i < h->entries.n; i = end) {
        for (end = i + 1; end < h->entries.n; end++)
            if (h->entries.v[end].callsite != h->entries.v[i].callsite)
                break;
        rc = add_callstack(in, &h->entries.v[i], end - i, has_types);
    }
    return rc;
}

/* ---- finish ---- */

static int push_change(struct hw_infra *in, uint32_t dump, const struct hw_infra_held *x,
                       int64_t size, int64_t count)
{
    struct hw_alloc_row row = {.dump = dump,
                               .callsite = {x->callsite},
                               .type = {x->type},
                               .samples = count,
                               .count = count,
                               .size = size};
    return hw_alloc_rows_push(&in->p->allocs, &row);
}

/* One row, or two if bytes and objects changed in opposite directions: a row has one sign. */
static int add_changes(struct hw_infra *in, uint32_t dump)
{
    struct hw_infra_heaps *h = in->heaps;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < h->held.n; i++) {
        struct hw_infra_held *x = &h->held.v[i];
        int64_t size = x->new_size - x->size, count = x->new_count - x->count;
        if ((size < 0 && count > 0) || (size > 0 && count < 0)) {
            rc = push_change(in, dump, x, size, 0);
            size = 0;
        }
        if (rc == HW_OK && (size || count))
            rc = push_change(in, dump, x, size, count);
        x->size = x->new_size;
        x->count = x->new_count;
        x->new_size = x->new_count = 0;
    }
    return rc;
}

static int add_dump(struct hw_infra *in, const struct hw_infra_heap_dump *d)
{
    struct hw_profile *p = in->p;
    struct hw_heap_dump row = {.upid = d->upid, .heap_name = d->heap, .ts_ns = d->ts_ns};
    struct hw_infra_ids *ids;
    in->offset = d->offset;
    int rc = hw_infra_ids_of(in, d->upid, &ids);
    if (rc == HW_OK)
        rc = d->flags == HW_INFRA_V1 ? add_totals(in, d) : add_self_values(in, d);
    if (rc == HW_OK && hw_vec_push(&p->dumps, row) < 0)
        rc = HW_ENOMEM;
    return rc < 0 ? rc : add_changes(in, (uint32_t)p->dumps.n - 1);
}

static int compare_dumps(const void *pa, const void *pb)
{
    const struct hw_infra_heap_dump *a = pa, *b = pb;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    if (a->heap.v != b->heap.v)
        return a->heap.v < b->heap.v ? -1 : 1;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

int hw_infra_heaps_finish(struct hw_infra *in)
{
    struct hw_infra_heaps *h = in->heaps;
    int rc = HW_OK;
    for (size_t i = 0; i < h->dumps.n; i++) /* final only now */
        h->dumps.v[i].ts_ns = in->dumps.v[h->dumps.v[i].dump].ts_ns;
    if (h->dumps.n)
        qsort(h->dumps.v, h->dumps.n, sizeof *h->dumps.v, compare_dumps);
    for (size_t i = 0; rc == HW_OK && i < h->dumps.n; i++) {
        const struct hw_infra_heap_dump *d = &h->dumps.v[i];
        if (i == 0 || d[-1].upid.v != d->upid.v || d[-1].heap.v != d->heap.v) {
            hw_vec_clear(&h->held);
            hw_map64_done(&h->held_at);
        }
        rc = add_dump(in, d);
        hw_pb_done(&h->dumps.v[i].rows);
    }
    return rc;
}
