/*
 * Objects in the order in which the input first mentions them: an object, then what it refers to, and
 * so on. (Or in the order in which they are described, those that never are behind them.)
 *
 * Two passes. The first goes through the references as they were taken in, turns each id into its
 * row, and gives numbers; what it finds takes the place of the ids, in half of their room. The
 * second goes through the numbers and brings each object's row and references to its place.
 *
 * Both meet memory in an order that no processor foretells, so both ask for it some steps ahead.
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
};

struct columns {
    struct hw_graph_builder *b;
    struct hw_heap_graph *g;
    struct field_list *lists; /* owned, by class */
    uint32_t *to;             /* by reference as taken in: first rows, then numbers; b's */
    uint32_t *old;            /* owned; by number: the row; NULL = the same */
    uint32_t next;            /* the number to give next */
    size_t n_rows;            /* that are described */
};

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
            .above = super == HW_ID_NONE ? HW_ID_NONE : b->classes.v[super].declares};
    }
    return HW_OK;
}

static size_t refs_end(const struct hw_graph_builder *b, size_t row)
{
    return row + 1 < b->rows.n ? b->rows.v[row + 1].first_ref : b->targets.n;
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

/* ---- the first pass: ids to rows, rows to numbers ---- */

static int find_missing(struct hw_graph_builder *b, uint64_t id, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&b->missing, hw_graph_key(id), &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = b->ids.n + b->missing.n - 1;
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
    if (number[row] == HW_ID_NONE) {
        m->old[m->next] = row;
        number[row] = m->next++;
    }
    return number[row];
}

/* Rows [from, end), whose references were found, in the order of their mention. */
static void number_rows(struct columns *m, size_t from, size_t end, size_t end_ref)
{
    const struct hw_graph_object_row *rows = m->b->rows.v;
    uint32_t *to = m->to, *number = m->b->number.v;
    for (size_t row = from; row < end; row++) {
        size_t r_end = row + 1 < end ? rows[row + 1].first_ref : end_ref;
        (void)number_of(m, (uint32_t)row);
        for (size_t r = rows[row].first_ref; r < r_end; r++) {
            if (r + AHEAD < end_ref && to[r + AHEAD] != HW_ID_NONE)
                __builtin_prefetch(&number[to[r + AHEAD]]);
            if (to[r] != HW_ID_NONE)
                to[r] = number_of(m, to[r]);
        }
    }
}

/* As many numbers, and rows by number, as there are objects by now. */
static int make_room(struct columns *m, size_t *room)
{
    size_t n = m->n_rows + m->b->missing.n;
    if (n > MAX_ROWS)
        return HW_ELIMIT;
    if (n <= *room)
        return HW_OK;
    size_t more = n + n / 8;
    uint32_t *old = realloc(m->old, (more + 1) * sizeof *old);
    if (!old)
        return HW_ENOMEM;
    m->old = old;
    *room = more;
    return HW_OK;
}

static int begin_numbers(struct columns *m, size_t *room)
{
    struct hw_graph_builder *b = m->b;
    if (!b->by_mention)
        return HW_OK;
    if (hw_vec_reserve(&b->number, m->n_rows + 1) < 0)
        return HW_ENOMEM;
    memset(b->number.v, 0xff, m->n_rows * sizeof *b->number.v); /* HW_ID_NONE */
    b->number.n = m->n_rows;
    return make_room(m, room);
}

/* Goes through all references, block by block. Those of objects that have the wrong number of them
 * are left out. */
static int resolve(struct columns *m, struct hw_graph_faults *faults)
{
    struct hw_graph_builder *b = m->b;
    size_t to = 0, room = 0;
    m->to = (void *)b->targets.v; /* stores change what the memory holds: C17 6.5, 6 */
    int rc = begin_numbers(m, &room);
    for (size_t row = 0, first; rc == HW_OK && row < m->n_rows;) {
        size_t begun = to;
        for (first = row; rc == HW_OK && row < m->n_rows && to - begun < BLOCK; row++) {
            struct hw_graph_object_row *o = &b->rows.v[row];
            size_t from = o->first_ref, end = refs_end(b, row);
            o->first_ref = (uint32_t)to;
            if (!is_as_listed(m, o->type, from, end)) {
                faults->wrong_field_lists++;
                continue;
            }
            rc = find_rows(m, from, end, to);
            if (b->ref_field.n && from != to && end > from)
                memmove(&b->ref_field.v[to], &b->ref_field.v[from],
                        (end - from) * sizeof *b->ref_field.v);
            to += end - from;
        }
        if (rc == HW_OK && b->by_mention)
            rc = make_room(m, &room);
        if (rc == HW_OK && b->by_mention)
            number_rows(m, first, row, to);
    }
    b->targets.n = to;
    return m->n_rows + b->missing.n > MAX_ROWS ? HW_ELIMIT : rc;
}

/* ---- the second pass: everything to its place ---- */

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

static int64_t size_of(const struct hw_graph_builder *b, const struct hw_graph_object_row *o)
{
    if (o->self_size)
        return o->self_size;
    uint64_t size = b->classes.v[o->type].object_size;
    return size > INT64_MAX ? INT64_MAX : (int64_t)size;
}

static int new_columns(struct hw_heap_graph *g)
{
    size_t n = (size_t)g->n_objects + 1, n_refs = (size_t)g->n_refs + 1;
    g->type = malloc(n * sizeof *g->type);
    g->self_size = malloc(n * sizeof *g->self_size);
    g->flags = malloc(n * sizeof *g->flags);
    g->first_ref = malloc(n * sizeof *g->first_ref);
    g->ref_owned = malloc(n_refs * sizeof *g->ref_owned);
    g->ref_owner = malloc(n_refs * sizeof *g->ref_owner);
    g->ref_field = malloc(n_refs * sizeof *g->ref_field);
    return g->type && g->self_size && g->flags && g->first_ref && g->ref_owned && g->ref_owner &&
                   g->ref_field
               ? HW_OK
               : HW_ENOMEM;
}

/* A class for objects that nothing describes. */
static int unknown_class(struct hw_graph_builder *b, uint32_t *out)
{
    struct hw_graph_class_row c = {.row = {.superclass = HW_ID_NONE, .classloader = HW_ID_NONE}};
    *out = (uint32_t)b->classes.n;
    return hw_vec_push(&b->classes, c) < 0 ? HW_ENOMEM : HW_OK;
}

static uint32_t row_of(const struct columns *m, size_t number)
{
    return m->old ? m->old[number] : (uint32_t)number;
}

/* Asks for what the objects some steps ahead are made of. */
static void fetch_ahead(const struct columns *m, size_t number)
{
    const struct hw_graph_object_row *rows = m->b->rows.v;
    if (!m->old || number + 2 * AHEAD >= m->g->n_objects)
        return;
    uint32_t far = m->old[number + 2 * AHEAD], near = m->old[number + AHEAD];
    if (far < m->n_rows)
        __builtin_prefetch(&rows[far]);
    if (near < m->n_rows)
        __builtin_prefetch(&m->to[rows[near].first_ref]);
}

static int move_all(struct columns *m)
{
    struct hw_graph_builder *b = m->b;
    struct hw_heap_graph *g = m->g;
    uint32_t no_type = 0, to = 0;
    int rc = b->missing.n ? unknown_class(b, &no_type) : HW_OK;
    if (rc == HW_OK)
        rc = new_columns(g);
    for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++) {
        uint32_t row = row_of(m, o);
        fetch_ahead(m, o);
        g->first_ref[o] = to;
        if (row >= m->n_rows) {
            g->type[o] = no_type;
            g->self_size[o] = -1;
            g->flags[o] = 0;
            continue;
        }
        const struct hw_graph_object_row *from = &b->rows.v[row];
        g->type[o] = from->type;
        g->self_size[o] = size_of(b, from);
        g->flags[o] = from->flags;
        size_t first = from->first_ref, n = refs_end(b, row) - first;
        for (size_t i = 0; i < n; i++) {
            g->ref_owned[to + i] = m->to[first + i];
            g->ref_owner[to + i] = o;
        }
        name_refs(m, from->type, first, n, g->ref_field + to);
        to += (uint32_t)n;
    }
    if (rc == HW_OK)
        g->first_ref[g->n_objects] = to;
    return rc;
}

/* What only the first pass needs; half of the targets' room. */
static void shrink(struct columns *m)
{
    struct hw_graph_builder *b = m->b;
    void *fitted = realloc(m->to, (b->targets.n + 1) * sizeof *m->to);
    if (fitted) {
        b->targets.v = fitted;
        m->to = fitted;
    }
    if (b->index.ids != b->ids.v)
        hw_vec_done(&b->ids);
}

/* True: all have the numbers of their rows. */
static bool is_in_order(const struct columns *m)
{
    for (uint32_t o = 0; o < m->g->n_objects; o++)
        if (m->old[o] != o)
            return false;
    return true;
}

int hw_graph_make_columns(struct hw_graph_builder *b, struct hw_heap_graph *g,
                          struct hw_graph_faults *faults)
{
    struct columns m = {.b = b, .g = g, .n_rows = b->ids.n};
    int rc = make_lists(&m);
    if (rc == HW_OK)
        rc = resolve(&m, faults);
    if (rc == HW_OK) {
        g->n_objects = (uint32_t)(m.n_rows + b->missing.n);
        g->n_described = (uint32_t)m.n_rows;
        g->n_refs = (uint32_t)b->targets.n;
        if (m.old && is_in_order(&m)) {
            free(m.old);
            m.old = NULL;
            hw_vec_done(&b->number);
        }
        shrink(&m);
        rc = move_all(&m);
    }
    hw_vec_done(&b->targets);
    hw_vec_done(&b->ref_field);
    hw_vec_done(&b->rows);
    free(m.lists);
    free(m.old);
    return rc;
}
