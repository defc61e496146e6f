/*
 * In three steps:
 *
 *   rows      --merge_rows-->  merged paths: nodes (parent, ident), parents before children, each
 *                              with the values that count and a list of rows
 *   merged    --view_...--->   drafts: nodes of the view, parents before children, each with the
 *                              merged nodes it shows
 *   drafts    --sort_drafts->  the forest: nodes with values, breadth first
 *
 * Filters depend only on idents, and merged rows have the same idents on their whole paths. So the
 * rows of a merged node either all count or none does, and a draft has a merged node at most once.
 */
#include "views/forest/frame_forest.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/ids.h"

#include "base/banned.h"

enum { STOP_EVERY = 1 << 14 };
#define MAX_NODES (1u << 28)

struct draft {
    uint32_t parent, ident;
    int32_t depth;
    uint32_t first_member, last_member;
};

struct build {
    const struct hw_forest_source *s;
    const struct hw_forest_query *q;
    size_t n_values, steps;
    uint32_t max_nodes;

    HW_VEC(struct draft) merged; /* depth, members not used */
    HW_VEC(hw_forest_number) merged_self;
    uint32_t *node_of; /* by row: of merged; HW_ID_NONE */

    struct hw_map64 children; /* of drafts: parent, ident -> number */
    HW_VEC(struct draft) drafts;
    HW_VEC(hw_forest_number) self;
    HW_VEC(hw_forest_number) cumulative;
    HW_VEC(struct hw_forest_member) members;
};

static void build_done(struct build *b)
{
    hw_vec_done(&b->merged);
    hw_vec_done(&b->merged_self);
    free(b->node_of);
    hw_map64_done(&b->children);
    hw_vec_done(&b->drafts);
    hw_vec_done(&b->self);
    hw_vec_done(&b->cumulative);
    hw_vec_done(&b->members);
}

static bool is_cancelled(struct build *b)
{
    return b->q->stop && ++b->steps % STOP_EVERY == 0 && b->q->stop(b->q->ctx);
}

/* ---- values ---- */

static void add_one(bool is_real, hw_forest_number *to, hw_forest_number n)
{
    if (is_real)
        to->d += n.d;
    else if (__builtin_add_overflow(to->i, n.i, &to->i))
        to->i = n.i > 0 ? INT64_MAX : INT64_MIN;
}

static void add_values(const struct build *b, hw_forest_number *to, const hw_forest_number *from)
{
    for (size_t k = 0; k < b->n_values; k++)
        add_one(b->s->values[k].is_real, &to[k], from[k]);
}

static void add_row(const struct build *b, hw_forest_number *to, uint32_t row)
{
    for (size_t k = 0; k < b->n_values; k++)
        add_one(b->s->values[k].is_real, &to[k], b->s->values[k].v[row]);
}

static bool has_values(const struct build *b, const hw_forest_number *v)
{
    for (size_t k = 0; k < b->n_values; k++)
        if (b->s->values[k].is_real ? v[k].d != 0 : v[k].i != 0)
            return true;
    return false;
}

/* Zeroes for one more node. */
static int push_zeroes(hw_forest_number **v, size_t *n, size_t *cap, size_t n_values)
{
    if (*n + n_values > *cap &&
        hw_vec_grow((void **)v, cap, *n + n_values, sizeof(hw_forest_number)) < 0)
        return HW_ENOMEM;
    for (size_t k = 0; k < n_values; k++)
        (*v)[(*n)++] = (hw_forest_number){0}; /* 0.0 has the same bits */
    return HW_OK;
}

#define PUSH_ZEROES(vec, n_values) push_zeroes(&(vec)->v, &(vec)->n, &(vec)->cap, n_values)

/* ---- rows to merged paths ---- */

/* What rows inherit from the row above. */
struct inherited {
    uint64_t shown;
    uint32_t node;
    bool hidden;
};

/* Orders rows parents first. Most sources are sorted already. */
static int order_rows(struct build *b, uint32_t **out, size_t *n_out)
{
    size_t n = b->s->n, done = 0;
    const uint32_t *parent = b->s->parent;
    uint32_t *order = malloc((n + 1) * sizeof *order);
    hw_autofree uint32_t *first = malloc((n + 1) * sizeof *first);
    hw_autofree uint32_t *next = malloc((n + 1) * sizeof *next);
    *out = order;
    if (!order || !first || !next)
        return HW_ENOMEM;
    bool ordered = true;
    for (size_t i = 0; i < n; i++) {
        first[i] = next[i] = HW_ID_NONE;
        order[i] = (uint32_t)i;
        ordered = ordered && (parent[i] == HW_ID_NONE || parent[i] < i);
    }
    *n_out = n;
    if (ordered)
        return HW_OK;
    for (size_t i = n; i-- > 0;)
        if (parent[i] != HW_ID_NONE) {
            next[i] = first[parent[i]];
            first[parent[i]] = (uint32_t)i;
        }
    for (size_t i = 0; i < n; i++)
        if (parent[i] == HW_ID_NONE)
            order[done++] = (uint32_t)i;
    for (size_t at = 0; at < done; at++)
        for (uint32_t c = first[order[at]]; c != HW_ID_NONE; c = next[c])
            order[done++] = c;
    *n_out = done;
    return HW_OK;
}

static int merged_child(struct build *b, struct hw_map64 *children, uint32_t parent, uint32_t ident,
                        uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(children, (uint64_t)parent << 32 | ident, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        if (b->merged.n >= b->max_nodes)
            return HW_ELIMIT;
        *at = b->merged.n;
        if (hw_vec_push(&b->merged, (struct draft){.parent = parent, .ident = ident}) < 0 ||
            PUSH_ZEROES(&b->merged_self, b->n_values) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int merge_row(struct build *b, struct hw_map64 *children, struct inherited *inherited,
                     uint32_t row)
{
    static const struct inherited top = {0, HW_ID_NONE, false};
    uint32_t ident = b->s->ident[row], parent = b->s->parent[row];
    struct inherited a = parent == HW_ID_NONE ? top : inherited[parent];
    struct hw_forest_mark mark = b->q->marks ? b->q->marks[ident] : (struct hw_forest_mark){0};
    int rc = HW_OK;
    if (!(mark.flags & HW_MARK_HIDE_FRAME)) {
        a.shown |= mark.show;
        a.hidden = a.hidden || (mark.flags & HW_MARK_HIDE_STACK);
        if (!a.hidden)
            rc = merged_child(b, children, a.node, ident, &a.node);
    }
    inherited[row] = a;
    b->node_of[row] = a.hidden ? HW_ID_NONE : a.node;
    if (rc == HW_OK && b->node_of[row] != HW_ID_NONE && (b->q->show_all & ~a.shown) == 0)
        add_row(b, &b->merged_self.v[(size_t)a.node * b->n_values], row);
    return rc;
}

static int merge_rows(struct build *b)
{
    size_t n = 0;
    uint32_t *order = NULL;
    struct hw_map64 children = {0};
    struct inherited *inherited = malloc((b->s->n + 1) * sizeof *inherited);
    b->node_of = malloc((b->s->n + 1) * sizeof *b->node_of);
    int rc = inherited && b->node_of ? order_rows(b, &order, &n) : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < b->s->n; i++)
        b->node_of[i] = HW_ID_NONE;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = is_cancelled(b) ? HW_ETIMEOUT : merge_row(b, &children, inherited, order[i]);
    free(inherited);
    free(order);
    hw_map64_done(&children);
    return rc;
}

/* ---- merged paths to drafts ---- */

static int draft_child(struct build *b, uint32_t parent, uint32_t ident, int32_t depth,
                       uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    /* The tops of the two halves must not merge: their parents are two unused numbers. */
    uint32_t inherited = parent == HW_ID_NONE && depth < 0 ? HW_ID_NONE - 1 : parent;
    int rc = hw_map64_at(&b->children, (uint64_t)inherited << 32 | ident, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        if (b->drafts.n >= b->max_nodes)
            return HW_ELIMIT;
        *at = b->drafts.n;
        if (hw_vec_push(&b->drafts, (struct draft){parent, ident, depth, HW_ID_NONE, HW_ID_NONE}) <
                0 ||
            PUSH_ZEROES(&b->self, b->n_values) < 0 || PUSH_ZEROES(&b->cumulative, b->n_values) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int add_member(struct build *b, uint32_t draft, uint32_t merged)
{
    struct draft *d = &b->drafts.v[draft];
    uint32_t number = (uint32_t)b->members.n;
    if (b->members.n >= b->max_nodes)
        return HW_ELIMIT;
    if (hw_vec_push(&b->members, (struct hw_forest_member){merged, HW_ID_NONE}) < 0)
        return HW_ENOMEM;
    if (d->first_member == HW_ID_NONE)
        d->first_member = number;
    else
        b->members.v[d->last_member].next = number;
    d->last_member = number;
    return HW_OK;
}

static bool is_pivot(const struct build *b, uint32_t merged)
{
    return b->q->marks && (b->q->marks[b->merged.v[merged].ident].flags & HW_MARK_PIVOT);
}

/* The whole paths, or their parts below pivots. */
static int view_down(struct build *b, bool from_pivots)
{
    hw_autofree uint32_t *draft_of = malloc((b->merged.n + 1) * sizeof *draft_of);
    int rc = draft_of ? HW_OK : HW_ENOMEM;
    for (uint32_t m = 0; rc == HW_OK && m < b->merged.n; m++) {
        uint32_t parent = b->merged.v[m].parent;
        bool begins = from_pivots ? is_pivot(b, m) : parent == HW_ID_NONE;
        uint32_t inherited = begins || parent == HW_ID_NONE ? HW_ID_NONE : draft_of[parent];
        draft_of[m] = HW_ID_NONE;
        if (is_cancelled(b))
            rc = HW_ETIMEOUT;
        if (rc < 0 || (!begins && inherited == HW_ID_NONE))
            continue;
        int32_t depth = inherited == HW_ID_NONE ? 1 : b->drafts.v[inherited].depth + 1;
        rc = draft_child(b, inherited, b->merged.v[m].ident, depth, &draft_of[m]);
        if (rc == HW_OK)
            rc = add_member(b, draft_of[m], m);
        if (rc == HW_OK)
            add_values(b, &b->self.v[(size_t)draft_of[m] * b->n_values],
                       &b->merged_self.v[(size_t)m * b->n_values]);
    }
    for (size_t d = b->drafts.n; rc == HW_OK && d-- > 0;) { /* children before their parents */
        hw_forest_number *sums = &b->cumulative.v[d * b->n_values];
        add_values(b, sums, &b->self.v[d * b->n_values]);
        if (b->drafts.v[d].parent != HW_ID_NONE)
            add_values(b, &b->cumulative.v[(size_t)b->drafts.v[d].parent * b->n_values], sums);
    }
    return rc;
}

/* Adds the path from a merged node up to its top, with the values at every node. */
static int add_inverted_path(struct build *b, uint32_t from, const hw_forest_number *values)
{
    uint32_t at = HW_ID_NONE;
    int32_t depth = 0;
    int rc = HW_OK;
    for (uint32_t m = from; rc == HW_OK && m != HW_ID_NONE; m = b->merged.v[m].parent) {
        rc = is_cancelled(b) ? HW_ETIMEOUT : draft_child(b, at, b->merged.v[m].ident, --depth, &at);
        if (rc == HW_OK)
            rc = add_member(b, at, m);
        if (rc == HW_OK && m == from)
            add_values(b, &b->self.v[(size_t)at * b->n_values], values);
        if (rc == HW_OK)
            add_values(b, &b->cumulative.v[(size_t)at * b->n_values], values);
    }
    return rc;
}

static int view_bottom_up(struct build *b)
{
    int rc = HW_OK;
    for (uint32_t m = 0; rc == HW_OK && m < b->merged.n; m++) {
        const hw_forest_number *self = &b->merged_self.v[(size_t)m * b->n_values];
        if (has_values(b, self))
            rc = add_inverted_path(b, m, self);
    }
    return rc;
}

/* Sums values at the nearest pivot above them. */
static int view_above_pivots(struct build *b)
{
    size_t n = b->merged.n;
    hw_autofree uint32_t *pivot_of = malloc((n + 1) * sizeof *pivot_of);
    hw_autofree hw_forest_number *sums = calloc(n * b->n_values + 1, sizeof *sums);
    int rc = pivot_of && sums ? HW_OK : HW_ENOMEM;
    for (uint32_t m = 0; rc == HW_OK && m < n; m++) {
        uint32_t parent = b->merged.v[m].parent;
        pivot_of[m] = is_pivot(b, m) ? m : parent == HW_ID_NONE ? HW_ID_NONE : pivot_of[parent];
        if (pivot_of[m] != HW_ID_NONE)
            add_values(b, &sums[(size_t)pivot_of[m] * b->n_values],
                       &b->merged_self.v[(size_t)m * b->n_values]);
    }
    for (uint32_t m = 0; rc == HW_OK && m < n; m++)
        if (pivot_of[m] == m && has_values(b, &sums[(size_t)m * b->n_values]))
            rc = add_inverted_path(b, m, &sums[(size_t)m * b->n_values]);
    return rc;
}

static int view(struct build *b)
{
    int rc;
    switch (b->q->view) {
    case HW_FOREST_TOP_DOWN:
        return view_down(b, /* from_pivots = */ false);
    case HW_FOREST_FROM_FRAME:
        return view_down(b, /* from_pivots = */ true);
    case HW_FOREST_BOTTOM_UP:
        return view_bottom_up(b);
    case HW_FOREST_PIVOT:
        rc = view_down(b, /* from_pivots = */ true);
        return rc < 0 ? rc : view_above_pivots(b);
    }
    return HW_EINVAL;
}

/* ---- drafts to the forest ---- */

/* What siblings are sorted by. */
struct sibling {
    hw_forest_number value;
    uint32_t draft;
};

struct order {
    struct build *b;
    uint32_t *first, *next; /* by draft: its children that have values */
    HW_VEC(struct sibling) siblings;
    HW_VEC(uint32_t) drafts; /* in the forest's order */
};

static int compare_ints(const void *pa, const void *pb)
{
    const struct sibling *a = pa, *b = pb;
    if (a->value.i != b->value.i)
        return a->value.i < b->value.i ? 1 : -1;
    return (a->draft > b->draft) - (a->draft < b->draft);
}

static int compare_reals(const void *pa, const void *pb)
{
    const struct sibling *a = pa, *b = pb;
    if (a->value.d != b->value.d)
        return a->value.d < b->value.d ? 1 : -1;
    return (a->draft > b->draft) - (a->draft < b->draft);
}

static int add_sibling(struct order *o, uint32_t draft)
{
    struct sibling s = {o->b->cumulative.v[(size_t)draft * o->b->n_values], draft};
    return hw_vec_push(&o->siblings, s) < 0 ? HW_ENOMEM : HW_OK;
}

static int flush_siblings(struct order *o)
{
    size_t n = o->siblings.n;
    if (hw_vec_reserve(&o->drafts, o->drafts.n + n) < 0)
        return HW_ENOMEM;
    if (n > 1)
        qsort(o->siblings.v, n, sizeof *o->siblings.v,
              o->b->s->values[0].is_real ? compare_reals : compare_ints);
    for (size_t i = 0; i < n; i++)
        o->drafts.v[o->drafts.n++] = o->siblings.v[i].draft;
    hw_vec_clear(&o->siblings);
    return HW_OK;
}

static int add_tops(struct order *o, bool inverted)
{
    int rc = HW_OK;
    for (uint32_t d = 0; rc == HW_OK && d < o->b->drafts.n; d++)
        if (o->b->drafts.v[d].parent == HW_ID_NONE && (o->b->drafts.v[d].depth < 0) == inverted &&
            has_values(o->b, &o->b->cumulative.v[(size_t)d * o->b->n_values]))
            rc = add_sibling(o, d);
    return rc < 0 ? rc : flush_siblings(o);
}

static void link_children(struct order *o)
{
    const struct build *b = o->b;
    for (size_t d = 0; d < b->drafts.n; d++)
        o->first[d] = o->next[d] = HW_ID_NONE;
    for (size_t d = b->drafts.n; d-- > 0;) {
        uint32_t parent = b->drafts.v[d].parent;
        if (parent == HW_ID_NONE || !has_values(b, &b->cumulative.v[d * b->n_values]))
            continue;
        o->next[d] = o->first[parent];
        o->first[parent] = (uint32_t)d;
    }
}

static int breadth_first(struct order *o)
{
    int rc = add_tops(o, false);
    if (rc == HW_OK)
        rc = add_tops(o, true);
    for (size_t at = 0; rc == HW_OK && at < o->drafts.n; at++) {
        if (is_cancelled(o->b))
            rc = HW_ETIMEOUT;
        for (uint32_t c = o->first[o->drafts.v[at]]; rc == HW_OK && c != HW_ID_NONE; c = o->next[c])
            rc = add_sibling(o, c);
        if (rc == HW_OK)
            rc = flush_siblings(o);
    }
    return rc;
}

/* From left to right: a node's children begin where it begins, tops at 0. */
static int lay_out(struct build *b, struct hw_forest *out)
{
    hw_autofree hw_forest_number *right = calloc(out->n + 1, sizeof *right);
    hw_forest_number tops[2] = {{0}, {0}};
    bool is_real = b->s->values[0].is_real;
    if (!right)
        return HW_ENOMEM;
    for (size_t i = 0; i < out->n; i++) {
        const struct hw_forest_node *node = &out->nodes[i];
        hw_forest_number *at =
            node->parent == HW_ID_NONE ? &tops[node->depth < 0] : &right[node->parent];
        out->x_start[i] = right[i] = *at;
        add_one(is_real, at, out->cumulative[i * b->n_values]);
    }
    return HW_OK;
}

static int fill_forest(struct build *b, const struct order *o, struct hw_forest *out)
{
    size_t n = o->drafts.n, width = b->n_values;
    hw_autofree uint32_t *number = malloc((b->drafts.n + 1) * sizeof *number);
    out->nodes = malloc((n + 1) * sizeof *out->nodes);
    out->self = malloc((n * width + 1) * sizeof *out->self);
    out->cumulative = malloc((n * width + 1) * sizeof *out->cumulative);
    out->x_start = malloc((n + 1) * sizeof *out->x_start);
    if (!number || !out->nodes || !out->self || !out->cumulative || !out->x_start)
        return HW_ENOMEM;
    out->n = n;
    out->n_values = width;
    for (size_t i = 0; i < n; i++) {
        uint32_t d = o->drafts.v[i];
        const struct draft *draft = &b->drafts.v[d];
        number[d] = (uint32_t)i;
        uint32_t parent = draft->parent == HW_ID_NONE ? HW_ID_NONE : number[draft->parent];
        out->nodes[i] = (struct hw_forest_node){parent, draft->ident, draft->depth,
                                                draft->first_member, draft->last_member};
        for (size_t k = 0; k < width; k++) {
            out->self[i * width + k] = b->self.v[(size_t)d * width + k];
            out->cumulative[i * width + k] = b->cumulative.v[(size_t)d * width + k];
        }
    }
    return lay_out(b, out);
}

static int sort_drafts(struct build *b, struct hw_forest *out)
{
    struct order o = {.b = b};
    o.first = malloc((b->drafts.n + 1) * sizeof *o.first);
    o.next = malloc((b->drafts.n + 1) * sizeof *o.next);
    int rc = o.first && o.next ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK) {
        link_children(&o);
        rc = breadth_first(&o);
    }
    if (rc == HW_OK)
        rc = fill_forest(b, &o, out);
    free(o.first);
    free(o.next);
    hw_vec_done(&o.siblings);
    hw_vec_done(&o.drafts);
    return rc;
}

/* Moves the members to the forest and lists the rows of each merged node. */
static int take_members(struct build *b, struct hw_forest *out)
{
    size_t n = b->s->n;
    out->row_of_merged = malloc((b->merged.n + 1) * sizeof *out->row_of_merged);
    out->next_row = malloc((n + 1) * sizeof *out->next_row);
    if (!out->row_of_merged || !out->next_row)
        return HW_ENOMEM;
    for (size_t m = 0; m < b->merged.n; m++)
        out->row_of_merged[m] = HW_ID_NONE;
    for (size_t i = n; i-- > 0;) {
        uint32_t m = b->node_of[i];
        if (m == HW_ID_NONE)
            continue;
        out->next_row[i] = out->row_of_merged[m];
        out->row_of_merged[m] = (uint32_t)i;
    }
    out->members = b->members.v;
    out->n_members = b->members.n;
    b->members.v = NULL;
    return HW_OK;
}

int hw_forest_build(const struct hw_forest_source *source, const struct hw_forest_query *query,
                    struct hw_forest *out)
{
    struct build b = {.s = source, .q = query, .n_values = source->n_values};
    *out = (struct hw_forest){0};
    b.max_nodes = query->max_nodes ? query->max_nodes : MAX_NODES;
    if (source->n_values == 0)
        return HW_OK; /* no node has values */
    int rc = merge_rows(&b);
    if (rc == HW_OK)
        rc = view(&b);
    if (rc == HW_OK)
        rc = sort_drafts(&b, out);
    if (rc == HW_OK)
        rc = take_members(&b, out);
    build_done(&b);
    if (rc < 0)
        hw_forest_done(out);
    return rc;
}

void hw_forest_done(struct hw_forest *f)
{
    free(f->nodes);
    free(f->self);
    free(f->cumulative);
    free(f->x_start);
    free(f->members);
    free(f->row_of_merged);
    free(f->next_row);
    *f = (struct hw_forest){0};
}

bool hw_forest_next_row(const struct hw_forest *f, size_t node, struct hw_forest_cursor *c)
{
    if (!c->begun) {
        *c = (struct hw_forest_cursor){f->nodes[node].first_member, HW_ID_NONE, true};
    } else {
        c->row = f->next_row[c->row];
        if (c->row != HW_ID_NONE)
            return true;
        c->member = f->members[c->member].next;
    }
    for (; c->member != HW_ID_NONE; c->member = f->members[c->member].next) {
        c->row = f->row_of_merged[f->members[c->member].merged];
        if (c->row != HW_ID_NONE)
            return true;
    }
    return false;
}
