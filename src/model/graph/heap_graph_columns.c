/*
 * Turns the input's arrays into the columns of a graph, one after the other. The memory of each
 * array is reused for the next column, as first touches of pages are a third of the time of
 * loading. If all numbers equal their rows, the arrays become the columns as they are.
 *
 * Each element has its own target, so the halves of each array are moved by two threads.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/side_thread.h"
#include "model/graph/heap_graph_columns.h"

#include "base/banned.h"

static bool has_list(const struct hw_graph_class_row *c)
{
    return c->row.kind != HW_KIND_NOREFERENCES && c->row.kind != HW_KIND_ARRAY &&
           c->row.kind != HW_KIND_STRING;
}

static int make_lists(struct hw_graph_columns *m)
{
    const struct hw_graph_builder *b = m->b;
    m->lists = calloc(b->classes.n + 1, sizeof *m->lists);
    if (!m->lists)
        return HW_ENOMEM;
    for (size_t i = 0; i < b->classes.n; i++) {
        const struct hw_graph_class_row *c = &b->classes.v[i];
        uint32_t super = c->row.superclass;
        m->lists[i] = (struct hw_graph_field_list){
            .first = c->first_field,
            .n = c->n_fields,
            .n_listed = has_list(c) ? c->n_listed : 0,
            .start = c->declares,
            .above = super == HW_ID_NONE ? HW_ID_NONE : b->classes.v[super].declares,
            .object_size = c->object_size > INT64_MAX ? INT64_MAX : (int64_t)c->object_size,
            .is_weak = hw_graph_kind_is_weak(c->row.kind)};
    }
    return HW_OK;
}

/* ---- names of references ---- */

/* The fields of a class's list in order, its own first. */
static void name_all(const struct hw_graph_columns *m, const struct hw_graph_field_list *l,
                     uint32_t *out)
{
    for (uint32_t k = l->start; k != HW_ID_NONE; k = m->lists[k].above) {
        memcpy(out, &m->b->field_lists.v[m->lists[k].first], m->lists[k].n * sizeof *out);
        out += m->lists[k].n;
    }
}

/* Writes the fields of n references from `from` on to `out`. */
static void name_refs(const struct hw_graph_columns *m, uint32_t type, size_t from, size_t n,
                      uint32_t *out)
{
    const struct hw_graph_builder *b = m->b;
    const struct hw_graph_field_list *l = &m->lists[type];
    uint32_t none = l->n_listed ? HW_FIELD_OF_LIST : HW_FIELD_NONE;
    if (n == 0)
        return;
    if (l->n_listed && !b->ref_field.n) {
        name_all(m, l, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t own = b->ref_field.n ? b->ref_field.v[from + i] : HW_FIELD_OF_LIST;
        out[i] = own == HW_FIELD_OF_LIST ? none : own;
    }
    if (!l->n_listed || hw_graph_count_listed(b, from, from + n) == 0)
        return;
    for (uint32_t k = l->start; k != HW_ID_NONE; k = m->lists[k].above)
        for (uint32_t f = 0; f < m->lists[k].n; f++) {
            while (*out != HW_FIELD_OF_LIST)
                out++;
            *out++ = b->field_lists.v[m->lists[k].first + f];
        }
}

static void name_objects(const struct hw_graph_columns *m, size_t from, size_t end, bool is_weak)
{
    struct hw_heap_graph *g = m->g;
    for (size_t o = from; o < end; o++)
        if (m->lists[g->type[o]].is_weak == is_weak)
            name_refs(m, g->type[o], 0, g->first_ref[o + 1] - g->first_ref[o],
                      g->ref_field + g->first_ref[o]);
}

static void name_weak(void *ctx, size_t from, size_t end)
{
    name_objects(ctx, from, end, /* is_weak = */ true);
}

void hw_graph_name_others(struct hw_graph_columns *m)
{
    if (m->by_lists)
        name_objects(m, 0, m->g->n_objects, /* is_weak = */ false);
}

/* Begins naming references by number, if none has a field of its own. */
static int begin_names(struct hw_graph_columns *m)
{
    struct hw_heap_graph *g = m->g;
    m->by_lists = true;
    hw_in_halves(g->n_objects, name_weak, m);
    return HW_OK;
}

/* ---- columns ---- */

/* Resizes an array that is no longer needed to the graph's objects plus one; NULL = no memory. */
static uint32_t *reuse(uint32_t **array, size_t n)
{
    uint32_t *fitted = realloc(*array, (n + 1) * sizeof **array);
    if (fitted)
        *array = NULL;
    return fitted;
}

/* Uses the rows as columns and appends objects that were never described. */
static int keep_objects(struct hw_graph_columns *m, uint32_t no_type)
{
    struct hw_graph_rows *rows = &m->b->rows;
    struct hw_heap_graph *g = m->g;
    if (!(g->type = reuse(&rows->types, g->n_objects)) ||
        !(g->size = reuse(&rows->sizes, g->n_objects)) ||
        !(g->first_ref = reuse(&rows->first, g->n_objects)))
        return HW_ENOMEM;
    for (size_t o = m->n_rows; o < g->n_objects; o++) {
        g->type[o] = no_type;
        g->size[o] = HW_SIZE_UNKNOWN;
        g->first_ref[o] = g->n_refs;
    }
    g->first_ref[g->n_objects] = g->n_refs;
    return HW_OK;
}

/*
 * Ids of targets are as wide as the two columns of references together, and their first half has
 * the numbers now: both columns get this memory. `numbered`: which one begins in the first half.
 */
static int share_targets(struct hw_graph_columns *m, uint32_t **numbered, uint32_t **other)
{
    struct hw_graph_builder *b = m->b;
    size_t n = (size_t)m->g->n_refs + 1;
    uint32_t *both = realloc(m->to, 2 * n * sizeof *both);
    if (!both)
        return HW_ENOMEM;
    b->targets.v = NULL;
    m->g->ref_memory = m->to = both;
    *numbered = both;
    *other = both + n;
    return HW_OK;
}

static int keep_refs(struct hw_graph_columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    if (!b->ref_field.n) {
        int rc = share_targets(m, &g->ref_owned, &g->ref_field);
        return rc < 0 ? rc : begin_names(m);
    }
    g->ref_owned = realloc(m->to, ((size_t)g->n_refs + 1) * sizeof *g->ref_owned);
    if (!g->ref_owned)
        return HW_ENOMEM;
    b->targets.v = NULL;
    for (uint32_t o = 0; o < g->n_objects; o++)
        name_refs(m, g->type[o], g->first_ref[o], g->first_ref[o + 1] - g->first_ref[o],
                  b->ref_field.v + g->first_ref[o]); /* in place */
    g->ref_field = b->ref_field.v;
    b->ref_field.v = NULL;
    return HW_OK;
}

/* From an array by row to one by number. */
struct permute {
    const struct hw_graph_columns *m;
    const uint32_t *from;
    uint32_t *to;
};

static void permute_range(void *ctx, size_t begin, size_t end)
{
    const struct permute *s = ctx;
    const uint32_t *number = s->m->b->number.v;
    for (size_t row = begin; row < end; row++) {
        if (row + HW_GRAPH_AHEAD < end)
            hw_prefetch_write(&s->to[number[row + HW_GRAPH_AHEAD]]);
        s->to[number[row]] = s->from[row];
    }
}

static void fill_missing(const struct hw_graph_columns *m, uint32_t *to, uint32_t value)
{
    const hw_graph_numbers *number = &m->b->number;
    for (size_t row = m->n_rows; row < number->n; row++)
        to[number->v[row]] = value;
}

static void permute(const struct hw_graph_columns *m, const uint32_t *from, uint32_t missing,
                    uint32_t *to)
{
    struct permute s = {m, from, to};
    hw_in_halves(m->n_rows, permute_range, &s);
    fill_missing(m, to, missing);
}

static void count_range(void *ctx, size_t from, size_t end)
{
    const struct hw_graph_columns *m = ctx;
    const struct hw_graph_builder *b = m->b;
    const uint32_t *number = b->number.v;
    uint32_t *first = m->g->first_ref;
    for (size_t row = from; row < end; row++) {
        if (row + HW_GRAPH_AHEAD < end)
            hw_prefetch_write(&first[number[row + HW_GRAPH_AHEAD]]);
        first[number[row]] = (uint32_t)(hw_graph_refs_end(b, row) - b->rows.first[row]);
    }
}

static void compute_first_refs(struct hw_graph_columns *m)
{
    uint32_t *first = m->g->first_ref, sum = 0;
    hw_in_halves(m->n_rows, count_range, m);
    fill_missing(m, first, 0);
    for (size_t o = 0; o < m->g->n_objects; o++) {
        uint32_t n = first[o];
        first[o] = sum;
        sum += n;
    }
    first[m->g->n_objects] = sum;
}

static void move_refs(void *ctx, size_t begin, size_t stop)
{
    const struct hw_graph_columns *m = ctx;
    const struct hw_graph_builder *b = m->b;
    const uint32_t *number = b->number.v, *from = b->rows.first;
    struct hw_heap_graph *g = m->g;
    for (size_t row = begin; row < stop; row++) {
        if (row + 2 * HW_GRAPH_AHEAD < stop) {
            __builtin_prefetch(&g->first_ref[number[row + 2 * HW_GRAPH_AHEAD]]);
            hw_prefetch_write(&g->ref_owned[g->first_ref[number[row + HW_GRAPH_AHEAD]]]);
        }
        uint32_t at = g->first_ref[number[row]];
        size_t first = from[row], n = hw_graph_refs_end(b, row) - first;
        for (size_t i = 0; i < n; i++)
            g->ref_owned[at + i] = m->to[first + i];
        if (b->ref_field.n)
            name_refs(m, g->type[number[row]], first, n, g->ref_field + at);
    }
}

static int permute_objects(struct hw_graph_columns *m, uint32_t no_type)
{
    struct hw_graph_rows *rows = &m->b->rows;
    struct hw_heap_graph *g = m->g;
    size_t n = g->n_objects;
    if (!(g->type = malloc((n + 1) * sizeof *g->type)))
        return HW_ENOMEM;
    permute(m, rows->types, no_type, g->type);
    if (!(g->size = reuse(&rows->types, n)))
        return HW_ENOMEM;
    permute(m, rows->sizes, HW_SIZE_UNKNOWN, g->size);
    if (!(g->first_ref = reuse(&rows->sizes, n)))
        return HW_ENOMEM;
    compute_first_refs(m);
    for (size_t i = 0; i < m->b->large.n; i++)
        m->b->large.v[i].object = m->b->number.v[m->b->large.v[i].object];
    return HW_OK;
}

/* References with fields of their own. */
static int allocate_refs(struct hw_graph_columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    size_t n = (size_t)g->n_refs + 1;
    void *fitted = realloc(m->to, n * sizeof *m->to); /* half as wide as the targets */
    if (fitted) {
        b->targets.v = fitted;
        m->to = fitted;
    }
    g->ref_owned = malloc(n * sizeof *g->ref_owned);
    g->ref_field = malloc(n * sizeof *g->ref_field);
    return g->ref_owned && g->ref_field ? HW_OK : HW_ENOMEM;
}

static int permute_refs(struct hw_graph_columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    int rc = b->ref_field.n ? allocate_refs(m) : share_targets(m, &g->ref_field, &g->ref_owned);
    if (rc < 0)
        return rc;
    hw_in_halves(m->n_rows, move_refs, m);
    hw_vec_done(&b->targets);
    free(b->rows.first);
    b->rows.first = NULL;
    return b->ref_field.n ? HW_OK : begin_names(m); /* what was numbered is no longer needed */
}

static int by_object(const void *pa, const void *pb)
{
    const struct hw_heap_large *a = pa, *b = pb;
    return (a->object > b->object) - (a->object < b->object);
}

/* Separates heap types from classes, and sets sizes by class. */
static void complete_range(void *ctx, size_t from, size_t end)
{
    const struct hw_graph_columns *m = ctx;
    struct hw_heap_graph *g = m->g;
    for (size_t o = from; o < end; o++) {
        uint32_t heap_type = g->type[o] >> HW_GRAPH_HEAP_SHIFT;
        g->flags[o] = (uint16_t)(heap_type << HW_OBJECT_HEAP_SHIFT);
        g->type[o] &= (1u << HW_GRAPH_HEAP_SHIFT) - 1;
        int64_t size = m->lists[g->type[o]].object_size;
        if (g->size[o] == 0 && size < HW_SIZE_LARGE)
            g->size[o] = (uint32_t)size;
    }
}

/* Adds objects that are large by their class to those that were described as large. */
static int complete_large(const struct hw_graph_columns *m)
{
    struct hw_heap_graph *g = m->g;
    bool any = false;
    for (size_t c = 0; c < m->b->classes.n; c++)
        any |= m->lists[c].object_size >= HW_SIZE_LARGE;
    for (uint32_t o = 0; any && o < g->n_objects; o++) {
        int64_t size = m->lists[g->type[o]].object_size;
        if (g->size[o] || size < HW_SIZE_LARGE)
            continue;
        g->size[o] = HW_SIZE_LARGE;
        if (hw_vec_push(&g->large, (struct hw_heap_large){o, size}) < 0)
            return HW_ENOMEM;
    }
    if (g->large.n)
        qsort(g->large.v, g->large.n, sizeof *g->large.v, by_object);
    return HW_OK;
}

static int complete_objects(struct hw_graph_columns *m)
{
    struct hw_heap_graph *g = m->g;
    g->flags = malloc(((size_t)g->n_objects + 1) * sizeof *g->flags);
    if (!g->flags)
        return HW_ENOMEM;
    hw_in_halves(g->n_objects, complete_range, m);
    return complete_large(m);
}

int hw_graph_find_owners(struct hw_heap_graph *g)
{
    size_t n = ((size_t)g->n_refs >> HW_REF_BLOCK_SHIFT) + 2, at = 0;
    if (g->n_refs == 0)
        return HW_OK;
    g->ref_block = malloc(n * sizeof *g->ref_block);
    if (!g->ref_block)
        return HW_ENOMEM;
    for (uint32_t o = 0; o < g->n_objects; o++)
        while (at << HW_REF_BLOCK_SHIFT < g->first_ref[o + 1])
            g->ref_block[at++] = o;
    g->ref_block[at] = g->n_objects - 1;
    return HW_OK;
}

/* Adds a class for objects that are never described. */
static int unknown_class(struct hw_graph_builder *b, uint32_t *out)
{
    struct hw_graph_class_row c = {
        .row = {.superclass = HW_ID_NONE, .classloader = HW_ID_NONE, .held = HW_ID_NONE}};
    *out = (uint32_t)b->classes.n;
    return hw_vec_push(&b->classes, c) < 0 ? HW_ENOMEM : HW_OK;
}

static int make_columns(struct hw_graph_columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    uint32_t no_type = 0;
    g->n_objects = (uint32_t)(m->n_rows + b->missing.n);
    g->n_described = (uint32_t)m->n_rows;
    g->n_refs = (uint32_t)b->targets.n;
    if (!m->out_of_order)
        hw_vec_done(&b->number);
    int rc = b->missing.n ? unknown_class(b, &no_type) : HW_OK;
    if (rc == HW_OK)
        rc = b->number.n ? permute_objects(m, no_type) : keep_objects(m, no_type);
    if (rc < 0)
        return rc;
    g->large = b->large;
    b->large = (hw_heap_larges){0};
    rc = complete_objects(m);
    if (rc == HW_OK)
        rc = b->number.n ? permute_refs(m) : keep_refs(m);
    return rc;
}

int hw_graph_make_columns(struct hw_graph_columns *m, struct hw_graph_faults *faults)
{
    int rc = make_lists(m);
    m->n_rows = m->b->rows.n;
    if (rc == HW_OK)
        rc = hw_graph_resolve(m, faults);
    return rc < 0 ? rc : make_columns(m);
}

void hw_graph_columns_done(struct hw_graph_columns *m)
{
    hw_vec_done(&m->b->targets);
    hw_vec_done(&m->b->ref_field);
    free(m->lists);
}
