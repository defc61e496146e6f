/*
 * Ids are numbered in the order in which they are met; everything else is arrays over these
 * numbers. Nothing recurses: depths come from traces and scripts.
 */
#include "sql/graphs/graph_functions.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "model/profile.h"

#include "base/banned.h"

enum { STOP_EVERY = 1 << 14 }; /* steps between two looks at the clock */
#define MAX_ROWS (1u << 31)
#define NOBODY   UINT32_MAX

static bool stops(const struct hw_graph_question *q, size_t step)
{
    return q->stop && step % STOP_EVERY == STOP_EVERY - 1 && q->stop(q->ctx);
}

static struct hw_row_cell cell_int(int64_t i)
{
    return (struct hw_row_cell){.type = HW_SQL_INT, .i = i};
}

static int put_row(hw_graph_rows *out, const struct hw_row_cell *cells, size_t n)
{
    if (hw_vec_reserve(out, out->n + n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        out->v[out->n++] = cells[i];
    return HW_OK;
}

/* ---- numbers ---- */

struct ids {
    struct hw_map64 map;
    HW_VEC(int64_t) v;
};

static void ids_done(struct ids *ids)
{
    hw_map64_done(&ids->map);
    hw_vec_done(&ids->v);
}

/* Small negative ids are used, the smallest of all is not: it is what the map cannot hold. */
static uint64_t key_of(int64_t id)
{
    return (uint64_t)id << 1 ^ (uint64_t)(id >> 63);
}

static int ids_at(struct ids *ids, int64_t id, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&ids->map, key_of(id), &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        if (ids->v.n >= MAX_ROWS)
            return HW_ELIMIT;
        *at = ids->v.n;
        if (hw_vec_push(&ids->v, id) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

/* ---- trees ---- */

struct tree {
    struct ids ids;
    uint32_t *parent; /* by number; NOBODY */
    uint32_t *row;    /* by number; NOBODY: only named as a parent */
};

static void tree_done(struct tree *t)
{
    ids_done(&t->ids);
    free(t->parent);
    free(t->row);
}

static int tree_read(const struct hw_graph_question *q, struct tree *t)
{
    const struct hw_row_list *l = q->lists[0];
    size_t n = hw_row_list_rows(l), most = 2 * n + 1;
    int rc = HW_OK;
    t->parent = malloc(most * sizeof *t->parent);
    t->row = malloc(most * sizeof *t->row);
    if (!t->parent || !t->row)
        return HW_ENOMEM;
    for (size_t i = 0; i < most; i++)
        t->parent[i] = t->row[i] = NOBODY;
    for (size_t i = 0; rc == HW_OK && i < n && i < MAX_ROWS; i++) {
        int64_t id, parent;
        uint32_t at, above = NOBODY;
        if (!hw_row_list_int(l, i, 0, &id))
            continue;
        rc = ids_at(&t->ids, id, &at);
        if (rc < 0 || t->row[at] != NOBODY)
            continue;
        if (hw_row_list_int(l, i, 1, &parent))
            rc = ids_at(&t->ids, parent, &above);
        t->parent[at] = above;
        t->row[at] = (uint32_t)i;
    }
    return rc;
}

struct children {
    uint32_t *first, *next; /* owned; in the order of the rows */
};

static int children_of(const struct tree *t, struct children *c)
{
    size_t n = t->ids.v.n;
    c->first = malloc((n + 1) * sizeof *c->first);
    c->next = malloc((n + 1) * sizeof *c->next);
    if (!c->first || !c->next)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        c->first[i] = c->next[i] = NOBODY;
    for (size_t i = n; i-- > 0;)
        if (t->parent[i] != NOBODY) {
            c->next[i] = c->first[t->parent[i]];
            c->first[t->parent[i]] = (uint32_t)i;
        }
    return HW_OK;
}

static void children_done(struct children *c)
{
    free(c->first);
    free(c->next);
}

/* ---- sums ---- */

struct sum {
    int64_t i;
    double d;
    bool is_real;
};

static void sum_add(struct sum *to, const struct sum *s)
{
    if (__builtin_add_overflow(to->i, s->i, &to->i))
        to->i = s->i > 0 ? INT64_MAX : INT64_MIN;
    to->d += s->d;
    to->is_real |= s->is_real;
}

static struct sum sum_of(const struct hw_row_cell *c)
{
    switch (c->type) {
    case HW_SQL_INT:
        return (struct sum){c->i, (double)c->i, false};
    case HW_SQL_REAL:
        return (struct sum){0, c->d, true};
    default:
        return (struct sum){0};
    }
}

/* A node is added to its parent when all of its children were added to it. */
static int sum_up(const struct hw_graph_question *q, const struct tree *t, struct sum *sums)
{
    size_t n = t->ids.v.n;
    hw_autofree uint32_t *waits = calloc(n + 1, sizeof *waits);
    HW_VEC(uint32_t) ready = {0};
    int rc = waits && hw_vec_reserve(&ready, n + 1) == 0 ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (t->parent[i] != NOBODY)
            waits[t->parent[i]]++;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        if (t->row[i] != NOBODY)
            sums[i] = sum_of(hw_row_list_cell(q->lists[0], t->row[i], 2));
        if (waits[i] == 0)
            ready.v[ready.n++] = (uint32_t)i;
    }
    for (size_t k = 0; rc == HW_OK && k < ready.n; k++) {
        uint32_t i = ready.v[k], up = t->parent[i];
        if (stops(q, k))
            rc = HW_ETIMEOUT;
        if (up == NOBODY)
            continue;
        sum_add(&sums[up], &sums[i]);
        if (--waits[up] == 0)
            ready.v[ready.n++] = up;
    }
    hw_vec_done(&ready);
    return rc;
}

int hw_graph_tree_sums(const struct hw_graph_question *q, hw_graph_rows *out)
{
    struct tree t = {0};
    int rc = tree_read(q, &t);
    hw_autofree struct sum *sums = rc == HW_OK ? calloc(t.ids.v.n + 1, sizeof *sums) : NULL;
    if (rc == HW_OK)
        rc = sums ? sum_up(q, &t, sums) : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < t.ids.v.n; i++) {
        struct hw_row_cell row[2] = {cell_int(t.ids.v.v[i]), cell_int(sums[i].i)};
        if (sums[i].is_real)
            row[1] = (struct hw_row_cell){.type = HW_SQL_REAL, .d = sums[i].d};
        if (t.row[i] != NOBODY)
            rc = put_row(out, row, 2);
    }
    tree_done(&t);
    return rc;
}

/* ---- ancestors ---- */

static int climb(const struct hw_graph_question *q, struct tree *t, hw_graph_rows *out)
{
    const struct hw_row_list *starts = q->lists[1];
    size_t n = hw_row_list_rows(starts), most = t->ids.v.n + n + 1;
    hw_autofree bool *seen = calloc(most, sizeof *seen);
    int rc = seen ? HW_OK : HW_ENOMEM;
    size_t known = t->ids.v.n;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        int64_t id;
        uint32_t at;
        if (!hw_row_list_int(starts, i, 0, &id))
            continue;
        rc = ids_at(&t->ids, id, &at);
        while (rc == HW_OK && at != NOBODY && !seen[at]) {
            seen[at] = true;
            struct hw_row_cell cell = cell_int(t->ids.v.v[at]);
            rc = stops(q, out->n) ? HW_ETIMEOUT : put_row(out, &cell, 1);
            at = at < known ? t->parent[at] : NOBODY;
        }
    }
    return rc;
}

int hw_graph_ancestors(const struct hw_graph_question *q, hw_graph_rows *out)
{
    struct tree t = {0};
    int rc = tree_read(q, &t);
    if (rc == HW_OK)
        rc = climb(q, &t, out);
    tree_done(&t);
    return rc;
}

int hw_graph_callsites_above(const struct hw_graph_question *q, hw_graph_rows *out)
{
    const struct hw_callsites *cs = q->profile->callsites;
    size_t n = hw_callsites_count(cs), rows = hw_row_list_rows(q->lists[0]);
    hw_autofree bool *wanted = calloc(n + 1, sizeof *wanted);
    int rc = wanted ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < rows; i++) {
        int64_t id;
        if (!hw_row_list_int(q->lists[0], i, 0, &id) || id < 0 || (uint64_t)id >= n)
            continue;
        for (uint32_t c = (uint32_t)id; c != HW_ID_NONE && !wanted[c];
             c = hw_callsites_get(cs, (hw_callsite_id){c})->parent.v)
            wanted[c] = true;
    }
    for (size_t c = 0; rc == HW_OK && c < n; c++) {
        struct hw_row_cell cell = cell_int((int64_t)c);
        if (wanted[c])
            rc = put_row(out, &cell, 1);
    }
    return rc;
}

/* ---- partition ---- */

/* Groups get numbers: keys of one type that are equal are one. */
static int number_groups(const struct hw_graph_question *q, const struct tree *t, uint32_t *group,
                         size_t *n_groups)
{
    struct ids by_type[HW_SQL_TEXT + 1] = {0};
    struct ids all = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < t->ids.v.n; i++) {
        uint32_t local = 0;
        if (t->row[i] == NOBODY)
            continue;
        const struct hw_row_cell *c = hw_row_list_cell(q->lists[0], t->row[i], 2);
        if (c->type != HW_SQL_NULL) /* a real is compared by its bits */
            rc = ids_at(&by_type[c->type], c->i, &local);
        if (rc == HW_OK)
            rc = ids_at(&all, (int64_t)local * (HW_SQL_TEXT + 1) + (int64_t)c->type, &group[i]);
    }
    *n_groups = all.v.n;
    for (size_t i = 0; i <= HW_SQL_TEXT; i++)
        ids_done(&by_type[i]);
    ids_done(&all);
    return rc;
}

struct partition {
    const struct hw_graph_question *q;
    const struct tree *t;
    struct children children;
    uint32_t *group;  /* by number */
    uint32_t *latest; /* by group: the nearest node of it on the path, NOBODY */
    uint32_t *before; /* by number: what latest was above it */
};

static int put_part(const struct partition *p, uint32_t i, hw_graph_rows *out)
{
    uint32_t above = p->latest[p->group[i]];
    struct hw_row_cell row[3] = {cell_int(p->t->ids.v.v[i]),
                                 {.type = HW_SQL_NULL},
                                 *hw_row_list_cell(p->q->lists[0], p->t->row[i], 2)};
    if (above != NOBODY)
        row[1] = cell_int(p->t->ids.v.v[above]);
    return put_row(out, row, 3);
}

/* Down, then right, then up again: parents lead back. */
static int part_tree(struct partition *p, uint32_t root, hw_graph_rows *out)
{
    uint32_t at = root;
    int rc = HW_OK;
    while (rc == HW_OK) {
        rc = stops(p->q, out->n) ? HW_ETIMEOUT : put_part(p, at, out);
        p->before[at] = p->latest[p->group[at]];
        p->latest[p->group[at]] = at;
        if (p->children.first[at] != NOBODY) {
            at = p->children.first[at];
            continue;
        }
        for (;;) {
            p->latest[p->group[at]] = p->before[at];
            if (at == root)
                return rc;
            if (p->children.next[at] != NOBODY) {
                at = p->children.next[at];
                break;
            }
            at = p->t->parent[at];
        }
    }
    return rc;
}

int hw_graph_partition(const struct hw_graph_question *q, hw_graph_rows *out)
{
    struct tree t = {0};
    int rc = tree_read(q, &t);
    size_t n = t.ids.v.n, n_groups = 0;
    struct partition p = {q, &t, {0}, NULL, NULL, NULL};
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (t.parent[i] != NOBODY && t.row[t.parent[i]] == NOBODY)
            t.parent[i] = NOBODY; /* its parent is not in the tree */
    if (rc == HW_OK)
        rc = children_of(&t, &p.children);
    p.group = calloc(n + 1, sizeof *p.group);
    p.before = calloc(n + 1, sizeof *p.before);
    if (rc == HW_OK)
        rc = p.group && p.before ? number_groups(q, &t, p.group, &n_groups) : HW_ENOMEM;
    p.latest = malloc((n_groups + 1) * sizeof *p.latest);
    if (rc == HW_OK && !p.latest)
        rc = HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n_groups; i++)
        p.latest[i] = NOBODY;
    for (uint32_t i = 0; rc == HW_OK && i < n; i++)
        if (t.row[i] != NOBODY && t.parent[i] == NOBODY)
            rc = part_tree(&p, i, out);
    children_done(&p.children);
    free(p.group);
    free(p.before);
    free(p.latest);
    tree_done(&t);
    return rc;
}

/* ---- graphs ---- */

struct graph {
    struct ids ids;
    uint32_t *first; /* by number: its edges, in the order of the rows */
    uint32_t *to;
    double *weight;
};

static void graph_done(struct graph *g)
{
    ids_done(&g->ids);
    free(g->first);
    free(g->to);
    free(g->weight);
}

static double weight_of(const struct hw_row_list *l, size_t row, size_t column)
{
    const struct hw_row_cell *c = l->width > column ? hw_row_list_cell(l, row, column) : NULL;
    return !c ? 0 : c->type == HW_SQL_INT ? (double)c->i : c->type == HW_SQL_REAL ? c->d : 0;
}

/* The nodes of both lists; from[i] NOBODY: the row is no edge. */
static int graph_number(const struct hw_graph_question *q, struct graph *g, uint32_t *from,
                        uint32_t *to)
{
    const struct hw_row_list *l = q->lists[0];
    int64_t a, b;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(l); i++) {
        from[i] = NOBODY;
        if (!hw_row_list_int(l, i, 0, &a) || !hw_row_list_int(l, i, 1, &b))
            continue;
        rc = ids_at(&g->ids, b, &to[i]);
        if (rc == HW_OK)
            rc = ids_at(&g->ids, a, &from[i]);
    }
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(q->lists[1]); i++) {
        uint32_t at;
        if (hw_row_list_int(q->lists[1], i, 0, &a))
            rc = ids_at(&g->ids, a, &at);
    }
    return rc;
}

static int graph_read(const struct hw_graph_question *q, struct graph *g)
{
    size_t n_edges = hw_row_list_rows(q->lists[0]);
    if (n_edges >= MAX_ROWS)
        return HW_ELIMIT;
    hw_autofree uint32_t *from = malloc((n_edges + 1) * sizeof *from);
    hw_autofree uint32_t *to = malloc((n_edges + 1) * sizeof *to);
    int rc = from && to ? graph_number(q, g, from, to) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    size_t n = g->ids.v.n;
    g->first = calloc(n + 2, sizeof *g->first);
    g->to = malloc((n_edges + 1) * sizeof *g->to);
    g->weight = malloc((n_edges + 1) * sizeof *g->weight);
    if (!g->first || !g->to || !g->weight)
        return HW_ENOMEM;
    for (size_t i = 0; i < n_edges; i++)
        if (from[i] != NOBODY)
            g->first[from[i] + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        g->first[i] += g->first[i - 1];
    for (size_t i = 0; i < n_edges; i++)
        if (from[i] != NOBODY) {
            uint32_t at = g->first[from[i] + 1]++;
            g->to[at] = to[i];
            g->weight[at] = weight_of(q->lists[0], i, 2);
        }
    return HW_OK;
}

struct step {
    uint32_t node, parent;
    double weight; /* of the path */
};

typedef HW_VEC(struct step) steps;

static struct hw_row_cell cell_node(const struct graph *g, uint32_t node)
{
    return node == NOBODY ? (struct hw_row_cell){.type = HW_SQL_NULL} : cell_int(g->ids.v.v[node]);
}

static int put_visit(const struct graph *g, const struct step *s, hw_graph_rows *out)
{
    struct hw_row_cell row[2] = {cell_node(g, s->node), cell_node(g, s->parent)};
    return put_row(out, row, 2);
}

/* The next to be visited stands last; targets are put in turned round, so that they come in their
 * own order. */
static int push_targets(const struct graph *g, const struct step *s, steps *stack)
{
    for (uint32_t e = g->first[s->node + 1]; e-- > g->first[s->node];)
        if (hw_vec_push(stack, (struct step){g->to[e], s->node, s->weight + g->weight[e]}) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

static int push_starts(const struct hw_graph_question *q, struct graph *g, steps *out)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(q->lists[1]); i++) {
        struct step s = {NOBODY, NOBODY, 0};
        int64_t id;
        if (!hw_row_list_int(q->lists[1], i, 0, &id))
            continue;
        rc = ids_at(&g->ids, id, &s.node); /* it is there */
        if (rc == HW_OK && hw_vec_push(out, s) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int depth_first(const struct hw_graph_question *q, struct graph *g, const steps *starts,
                       hw_graph_rows *out)
{
    hw_autofree bool *seen = calloc(g->ids.v.n + 1, sizeof *seen);
    steps stack = {0};
    int rc = seen ? HW_OK : HW_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; rc == HW_OK && i < starts->n; i++) {
        if (hw_vec_push(&stack, starts->v[i]) < 0)
            rc = HW_ENOMEM;
        while (rc == HW_OK && stack.n) {
            struct step s = stack.v[--stack.n];
            if (stops(q, n++))
                rc = HW_ETIMEOUT;
            if (rc < 0 || seen[s.node])
                continue;
            seen[s.node] = true;
            rc = put_visit(g, &s, out);
            if (rc == HW_OK)
                rc = push_targets(g, &s, &stack);
        }
    }
    hw_vec_done(&stack);
    return rc;
}

static int breadth_first(const struct hw_graph_question *q, struct graph *g, const steps *starts,
                         hw_graph_rows *out)
{
    hw_autofree bool *seen = calloc(g->ids.v.n + 1, sizeof *seen);
    steps queue = {0};
    int rc = seen ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < starts->n; i++)
        if (!seen[starts->v[i].node]) {
            seen[starts->v[i].node] = true;
            rc = hw_vec_push(&queue, starts->v[i]) < 0 ? HW_ENOMEM : HW_OK;
        }
    for (size_t at = 0; rc == HW_OK && at < queue.n; at++) {
        struct step s = queue.v[at];
        rc = stops(q, at) ? HW_ETIMEOUT : put_visit(g, &s, out);
        for (uint32_t e = g->first[s.node]; rc == HW_OK && e < g->first[s.node + 1]; e++) {
            if (seen[g->to[e]])
                continue;
            seen[g->to[e]] = true;
            if (hw_vec_push(&queue, (struct step){g->to[e], s.node, 0}) < 0)
                rc = HW_ENOMEM;
        }
    }
    hw_vec_done(&queue);
    return rc;
}

static int reach(const struct hw_graph_question *q, hw_graph_rows *out,
                 int (*walk)(const struct hw_graph_question *q, struct graph *g,
                             const steps *starts, hw_graph_rows *out))
{
    struct graph g = {0};
    steps starts = {0};
    int rc = graph_read(q, &g);
    if (rc == HW_OK)
        rc = push_starts(q, &g, &starts);
    if (rc == HW_OK)
        rc = walk(q, &g, &starts, out);
    hw_vec_done(&starts);
    graph_done(&g);
    return rc;
}

int hw_graph_reach_depth_first(const struct hw_graph_question *q, hw_graph_rows *out)
{
    return reach(q, out, depth_first);
}

int hw_graph_reach_breadth_first(const struct hw_graph_question *q, hw_graph_rows *out)
{
    return reach(q, out, breadth_first);
}

/* One root: seen holds the number of the last root that came by. */
static int within(const struct hw_graph_question *q, const struct graph *g, struct step root,
                  double target, uint32_t turn, uint32_t *seen, hw_graph_rows *out)
{
    steps stack = {0};
    int rc = hw_vec_push(&stack, root) < 0 ? HW_ENOMEM : HW_OK;
    size_t n = out->n;
    while (rc == HW_OK && stack.n) {
        struct step s = stack.v[--stack.n];
        bool beyond = s.weight > target;
        if (stops(q, n++))
            rc = HW_ETIMEOUT;
        if (rc < 0 || seen[s.node] == turn || (beyond && !q->number))
            continue;
        seen[s.node] = turn;
        struct hw_row_cell row[3] = {cell_node(g, root.node), cell_node(g, s.node),
                                     cell_node(g, s.parent)};
        rc = put_row(out, row, 3);
        if (rc == HW_OK && !beyond)
            rc = push_targets(g, &s, &stack);
    }
    hw_vec_done(&stack);
    return rc;
}

static int each_within(const struct hw_graph_question *q, struct graph *g, const steps *starts,
                       hw_graph_rows *out)
{
    hw_autofree uint32_t *seen = calloc(g->ids.v.n + 1, sizeof *seen);
    int rc = seen ? HW_OK : HW_ENOMEM;
    uint32_t turn = 0;
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(q->lists[1]); i++) {
        int64_t id;
        if (!hw_row_list_int(q->lists[1], i, 0, &id))
            continue;
        rc = within(q, g, starts->v[turn], weight_of(q->lists[1], i, 1), turn + 1, seen, out);
        turn++;
    }
    return rc;
}

int hw_graph_reach_within(const struct hw_graph_question *q, hw_graph_rows *out)
{
    return reach(q, out, each_within);
}
