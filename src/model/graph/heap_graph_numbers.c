/*
 * Objects in the order in which the input first mentions them: an object, then what it refers to, and
 * so on. (Or in the order in which they are described, those that never are behind them.)
 *
 * First the references, as they were taken in: each id is turned into its row, and rows get numbers;
 * what is found takes the place of the ids, in half of their room. Then one array after the other is
 * brought to the order of the numbers. What it was in becomes the room for the next: pages that a
 * process touches first are a third of what loading costs. Where all numbers are those of the rows,
 * the arrays are the graph's columns as they are.
 *
 * All meet memory in an order that no processor foretells, so all ask for it some steps ahead.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "model/graph/heap_graph_builder.h"

#include "base/banned.h"

#define MAX_ROWS (UINT32_MAX - 1)

enum { BLOCK = 4096 /* references that are looked up before they get numbers */, AHEAD = 16 };

/* What references without names are called, by class. */
struct field_list {
    size_t first;      /* of field_lists: what the class declares */
    uint32_t n;        /* declared there */
    uint32_t n_listed; /* with superclasses; 0 = nothing is listed */
    uint32_t start;    /* class: itself, or the next one above, that declares fields */
    uint32_t above;    /* the same from its superclass on; HW_ID_NONE */
    int64_t object_size;
};

struct columns {
    struct hw_graph_builder *b;
    struct hw_heap_graph *g;
    struct field_list *lists; /* owned, by class */
    uint32_t *to;             /* by reference as taken in: first rows, then numbers; b's */
    uint32_t next;            /* the number to give next */
    size_t n_rows;            /* that are described */
};

static uint32_t class_of_row(const struct hw_graph_builder *b, size_t row)
{
    return b->rows.types[row] & ((1u << HW_GRAPH_HEAP_SHIFT) - 1);
}

static bool has_list(const struct hw_graph_class_row *c)
{
    return c->row.kind != HW_KIND_NOREFERENCES && c->row.kind != HW_KIND_ARRAY &&
           c->row.kind != HW_KIND_STRING;
}

static int make_lists(struct columns *m)
{
    const struct hw_graph_builder *b = m->b;
    m->lists = calloc(b->classes.n + 1, sizeof *m->lists);
    if (!m->lists)
        return HW_ENOMEM;
    for (size_t i = 0; i < b->classes.n; i++) {
        const struct hw_graph_class_row *c = &b->classes.v[i];
        uint32_t super = c->row.superclass;
        m->lists[i] = (struct field_list){
            .first = c->first_field,
            .n = c->n_fields,
            .n_listed = has_list(c) ? c->n_listed : 0,
            .start = c->declares,
            .above = super == HW_ID_NONE ? HW_ID_NONE : b->classes.v[super].declares,
            .object_size = c->object_size > INT64_MAX ? INT64_MAX : (int64_t)c->object_size};
    }
    return HW_OK;
}

/* References that have no name of their own. */
static size_t count_listed(const struct hw_graph_builder *b, size_t from, size_t to)
{
    size_t n = 0;
    if (!b->ref_field.n)
        return to - from;
    for (size_t r = from; r < to; r++)
        n += b->ref_field.v[r] == HW_FIELD_OF_LIST;
    return n;
}

/* Are there as many as the class's list says? */
static bool is_as_listed(const struct columns *m, uint32_t type, size_t from, size_t to)
{
    uint32_t n_listed = m->lists[type].n_listed;
    if (n_listed == 0 || (!m->b->ref_field.n && to - from == n_listed))
        return true;
    size_t n = count_listed(m->b, from, to);
    return n == 0 || n == n_listed;
}

/* ---- ids to rows, rows to numbers ---- */

static int find_missing(struct hw_graph_builder *b, uint64_t id, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&b->missing, hw_graph_key(id), &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = b->rows.n + b->missing.n - 1;
        if (b->by_mention && hw_vec_push(&b->number, HW_ID_NONE) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

/* Ids [from, end) to rows, which are written from `to` on. */
static int find_rows(struct columns *m, size_t from, size_t end, size_t to)
{
    struct hw_graph_builder *b = m->b;
    const uint64_t *targets = b->targets.v;
    for (size_t r = from; r < end; r++) {
        uint64_t id = targets[r];
        uint32_t row = HW_ID_NONE;
        if (r + AHEAD < b->targets.n)
            hw_id_index_prefetch(&b->index, targets[r + AHEAD]);
        if (id && !hw_id_index_find(&b->index, id, &row)) {
            int rc = find_missing(b, id, &row);
            if (rc < 0)
                return rc;
        }
        m->to[to++] = row; /* never beyond the id: half as wide, and to <= from */
    }
    return HW_OK;
}

static uint32_t number_of(struct columns *m, uint32_t row)
{
    uint32_t *number = m->b->number.v;
    if (number[row] == HW_ID_NONE)
        number[row] = m->next++;
    return number[row];
}

/* Rows [from, end), whose references were found, in the order of their mention. */
static void number_rows(struct columns *m, size_t from, size_t end, size_t end_ref)
{
    const uint32_t *first = m->b->rows.first;
    uint32_t *to = m->to, *number = m->b->number.v;
    for (size_t row = from; row < end; row++) {
        size_t r_end = row + 1 < end ? first[row + 1] : end_ref;
        (void)number_of(m, (uint32_t)row);
        for (size_t r = first[row]; r < r_end; r++) {
            if (r + AHEAD < end_ref && to[r + AHEAD] != HW_ID_NONE)
                __builtin_prefetch(&number[to[r + AHEAD]]);
            if (to[r] != HW_ID_NONE)
                to[r] = number_of(m, to[r]);
        }
    }
}

/* Ids are no longer needed, unless the index looks into them. Numbers take their memory: they are
 * half as wide. */
static int begin_numbers(struct columns *m)
{
    struct hw_graph_builder *b = m->b;
    bool are_free = b->index.ids != b->rows.ids;
    size_t room = m->n_rows + 1;
    if (b->by_mention) {
        uint32_t *v = realloc(are_free ? b->rows.ids : NULL, room * sizeof *v);
        if (!v)
            return HW_ENOMEM;
        memset(v, 0xff, m->n_rows * sizeof *v); /* HW_ID_NONE */
        b->number.v = v;
        b->number.cap = room;
        b->number.n = m->n_rows;
    } else if (are_free) {
        free(b->rows.ids);
    }
    if (are_free)
        b->rows.ids = NULL;
    return HW_OK;
}

/* Goes through all references, block by block. Those of objects that have the wrong number of them
 * are left out. */
static int resolve(struct columns *m, struct hw_graph_faults *faults)
{
    struct hw_graph_builder *b = m->b;
    size_t to = 0;
    m->to = (void *)b->targets.v; /* stores change what the memory holds: C17 6.5, 6 */
    int rc = begin_numbers(m);
    for (size_t row = 0, first; rc == HW_OK && row < m->n_rows;) {
        size_t begun = to;
        for (first = row; rc == HW_OK && row < m->n_rows && to - begun < BLOCK; row++) {
            size_t from = b->rows.first[row], end = hw_graph_refs_end(b, row);
            b->rows.first[row] = (uint32_t)to;
            if (!is_as_listed(m, class_of_row(b, row), from, end)) {
                faults->wrong_field_lists++;
                continue;
            }
            rc = find_rows(m, from, end, to);
            if (b->ref_field.n && from != to && end > from)
                memmove(&b->ref_field.v[to], &b->ref_field.v[from],
                        (end - from) * sizeof *b->ref_field.v);
            to += end - from;
        }
        if (rc == HW_OK && m->n_rows + b->missing.n > MAX_ROWS)
            rc = HW_ELIMIT;
        if (rc == HW_OK && b->by_mention)
            number_rows(m, first, row, to);
    }
    b->targets.n = to;
    return rc;
}

/* True: all have the numbers of their rows. */
static bool is_in_order(const struct columns *m)
{
    const hw_graph_numbers *number = &m->b->number;
    for (size_t row = 0; row < number->n; row++)
        if (number->v[row] != row)
            return false;
    return true;
}

/* ---- names of references ---- */

/* The names of a class's list one after the other, its own first. */
static void name_all(const struct columns *m, const struct field_list *l, uint32_t *out)
{
    for (uint32_t k = l->start; k != HW_ID_NONE; k = m->lists[k].above) {
        memcpy(out, &m->b->field_lists.v[m->lists[k].first], m->lists[k].n * sizeof *out);
        out += m->lists[k].n;
    }
}

/* The fields of references [from, ...) of an object, to `out`. */
static void name_refs(const struct columns *m, uint32_t type, size_t from, size_t n, uint32_t *out)
{
    const struct hw_graph_builder *b = m->b;
    const struct field_list *l = &m->lists[type];
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
    if (!l->n_listed || count_listed(b, from, from + n) == 0)
        return;
    for (uint32_t k = l->start; k != HW_ID_NONE; k = m->lists[k].above)
        for (uint32_t f = 0; f < m->lists[k].n; f++) {
            while (*out != HW_FIELD_OF_LIST)
                out++;
            *out++ = b->field_lists.v[m->lists[k].first + f];
        }
}

/* By number, when no reference has a name of its own. */
static int name_by_lists(struct columns *m)
{
    struct hw_heap_graph *g = m->g;
    g->ref_field = malloc(((size_t)g->n_refs + 1) * sizeof *g->ref_field);
    if (!g->ref_field)
        return HW_ENOMEM;
    for (uint32_t o = 0; o < g->n_objects; o++)
        name_refs(m, g->type[o], 0, g->first_ref[o + 1] - g->first_ref[o],
                  g->ref_field + g->first_ref[o]);
    return HW_OK;
}

/* ---- columns ---- */

/* Room for the graph's objects, and one more, in an array that is no longer needed; NULL = none. */
static uint32_t *fit(uint32_t **array, size_t n)
{
    uint32_t *fitted = realloc(*array, (n + 1) * sizeof **array);
    if (fitted)
        *array = NULL;
    return fitted;
}

/* The rows are the columns; those that were never described come behind them. */
static int keep_objects(struct columns *m, uint32_t no_type)
{
    struct hw_graph_rows *rows = &m->b->rows;
    struct hw_heap_graph *g = m->g;
    if (!(g->type = fit(&rows->types, g->n_objects)) ||
        !(g->size = fit(&rows->sizes, g->n_objects)) ||
        !(g->first_ref = fit(&rows->first, g->n_objects)))
        return HW_ENOMEM;
    for (size_t o = m->n_rows; o < g->n_objects; o++) {
        g->type[o] = no_type;
        g->size[o] = HW_SIZE_UNKNOWN;
        g->first_ref[o] = g->n_refs;
    }
    g->first_ref[g->n_objects] = g->n_refs;
    return HW_OK;
}

static int keep_refs(struct columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    g->ref_owned = realloc(m->to, ((size_t)g->n_refs + 1) * sizeof *g->ref_owned);
    if (!g->ref_owned)
        return HW_ENOMEM;
    b->targets.v = NULL;
    for (uint32_t o = 0; b->ref_field.n && o < g->n_objects; o++)
        name_refs(m, g->type[o], g->first_ref[o], g->first_ref[o + 1] - g->first_ref[o],
                  b->ref_field.v + g->first_ref[o]); /* each to its own place */
    if (b->ref_field.n) {
        g->ref_field = b->ref_field.v;
        b->ref_field.v = NULL;
        return HW_OK;
    }
    return name_by_lists(m);
}

/* An array by row to one by number. */
static void spread(const struct columns *m, const uint32_t *from, uint32_t missing, uint32_t *to)
{
    const hw_graph_numbers *number = &m->b->number;
    for (size_t row = 0; row < m->n_rows; row++) {
        if (row + AHEAD < number->n)
            hw_prefetch_write(&to[number->v[row + AHEAD]]);
        to[number->v[row]] = from[row];
    }
    for (size_t row = m->n_rows; row < number->n; row++)
        to[number->v[row]] = missing;
}

static void place_refs(const struct columns *m, uint32_t *first)
{
    const struct hw_graph_builder *b = m->b;
    const hw_graph_numbers *number = &b->number;
    for (size_t row = 0; row < m->n_rows; row++) {
        if (row + AHEAD < number->n)
            hw_prefetch_write(&first[number->v[row + AHEAD]]);
        first[number->v[row]] = (uint32_t)(hw_graph_refs_end(b, row) - b->rows.first[row]);
    }
    for (size_t row = m->n_rows; row < number->n; row++)
        first[number->v[row]] = 0;
    uint32_t sum = 0;
    for (size_t o = 0; o < m->g->n_objects; o++) {
        uint32_t n = first[o];
        first[o] = sum;
        sum += n;
    }
    first[m->g->n_objects] = sum;
}

static void move_refs(struct columns *m)
{
    const struct hw_graph_builder *b = m->b;
    const uint32_t *number = b->number.v, *from = b->rows.first;
    struct hw_heap_graph *g = m->g;
    for (size_t row = 0; row < m->n_rows; row++) {
        if (row + 2 * AHEAD < m->n_rows) {
            __builtin_prefetch(&g->first_ref[number[row + 2 * AHEAD]]);
            hw_prefetch_write(&g->ref_owned[g->first_ref[number[row + AHEAD]]]);
        }
        uint32_t at = g->first_ref[number[row]];
        size_t first = from[row], n = hw_graph_refs_end(b, row) - first;
        for (size_t i = 0; i < n; i++)
            g->ref_owned[at + i] = m->to[first + i];
        if (b->ref_field.n)
            name_refs(m, g->type[number[row]], first, n, g->ref_field + at);
    }
}

static int bring_objects(struct columns *m, uint32_t no_type)
{
    struct hw_graph_rows *rows = &m->b->rows;
    struct hw_heap_graph *g = m->g;
    size_t n = g->n_objects;
    if (!(g->type = malloc((n + 1) * sizeof *g->type)))
        return HW_ENOMEM;
    spread(m, rows->types, no_type, g->type);
    if (!(g->size = fit(&rows->types, n)))
        return HW_ENOMEM;
    spread(m, rows->sizes, HW_SIZE_UNKNOWN, g->size);
    if (!(g->first_ref = fit(&rows->sizes, n)))
        return HW_ENOMEM;
    place_refs(m, g->first_ref);
    for (size_t i = 0; i < m->b->large.n; i++)
        m->b->large.v[i].object = m->b->number.v[m->b->large.v[i].object];
    return HW_OK;
}

static int bring_refs(struct columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    size_t n = (size_t)g->n_refs + 1;
    void *fitted = realloc(m->to, n * sizeof *m->to); /* half of the targets' */
    if (fitted) {
        b->targets.v = fitted;
        m->to = fitted;
    }
    g->ref_owned = malloc(n * sizeof *g->ref_owned);
    if (b->ref_field.n)
        g->ref_field = malloc(n * sizeof *g->ref_field);
    if (!g->ref_owned || (b->ref_field.n && !g->ref_field))
        return HW_ENOMEM;
    move_refs(m);
    hw_vec_done(&b->targets);
    free(b->rows.first);
    b->rows.first = NULL;
    return b->ref_field.n ? HW_OK : name_by_lists(m);
}

static int by_object(const void *pa, const void *pb)
{
    const struct hw_heap_large *a = pa, *b = pb;
    return (a->object > b->object) - (a->object < b->object);
}

/* Heap types out of the classes, sizes from the classes; g->large has those that tell theirs. */
static int complete_objects(const struct columns *m)
{
    struct hw_heap_graph *g = m->g;
    g->flags = malloc(((size_t)g->n_objects + 1) * sizeof *g->flags);
    if (!g->flags)
        return HW_ENOMEM;
    for (uint32_t o = 0; o < g->n_objects; o++) {
        uint32_t heap_type = g->type[o] >> HW_GRAPH_HEAP_SHIFT;
        g->flags[o] = (uint16_t)(heap_type << HW_OBJECT_HEAP_SHIFT);
        g->type[o] &= (1u << HW_GRAPH_HEAP_SHIFT) - 1;
        if (g->size[o])
            continue;
        int64_t size = m->lists[g->type[o]].object_size;
        g->size[o] = size < HW_SIZE_LARGE ? (uint32_t)size : HW_SIZE_LARGE;
        if (size >= HW_SIZE_LARGE && hw_vec_push(&g->large, (struct hw_heap_large){o, size}) < 0)
            return HW_ENOMEM;
    }
    if (g->large.n)
        qsort(g->large.v, g->large.n, sizeof *g->large.v, by_object);
    return HW_OK;
}

static int find_owners(struct hw_heap_graph *g)
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

/* A class for objects that nothing describes. */
static int unknown_class(struct hw_graph_builder *b, uint32_t *out)
{
    struct hw_graph_class_row c = {.row = {.superclass = HW_ID_NONE, .classloader = HW_ID_NONE}};
    *out = (uint32_t)b->classes.n;
    return hw_vec_push(&b->classes, c) < 0 ? HW_ENOMEM : HW_OK;
}

static int make_columns(struct columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    uint32_t no_type = 0;
    g->n_objects = (uint32_t)(m->n_rows + b->missing.n);
    g->n_described = (uint32_t)m->n_rows;
    g->n_refs = (uint32_t)b->targets.n;
    if (is_in_order(m))
        hw_vec_done(&b->number);
    int rc = b->missing.n ? unknown_class(b, &no_type) : HW_OK;
    if (rc == HW_OK)
        rc = b->number.n ? bring_objects(m, no_type) : keep_objects(m, no_type);
    if (rc < 0)
        return rc;
    g->large = b->large;
    b->large = (hw_heap_larges){0};
    rc = complete_objects(m);
    if (rc == HW_OK)
        rc = b->number.n ? bring_refs(m) : keep_refs(m);
    return rc < 0 ? rc : find_owners(g);
}

int hw_graph_make_columns(struct hw_graph_builder *b, struct hw_heap_graph *g,
                          struct hw_graph_faults *faults)
{
    struct columns m = {.b = b, .g = g, .n_rows = b->rows.n};
    int rc = make_lists(&m);
    if (rc == HW_OK)
        rc = resolve(&m, faults);
    if (rc == HW_OK)
        rc = make_columns(&m);
    hw_vec_done(&b->targets);
    hw_vec_done(&b->ref_field);
    free(m.lists);
    return rc;
}
