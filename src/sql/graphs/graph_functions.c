/*
 * Ids are numbered in order of first occurrence; everything else is arrays over these numbers.
 * Nothing recurses: traces and scripts decide the depth.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "model/profile.h"
#include "sql/graphs/graph_ids.h"

#include "base/banned.h"

/* ---- trees ---- */

struct tree {
    struct hw_graph_ids ids;
    uint32_t *parent; /* by number; HW_GRAPH_NONE */
    uint32_t *row;    /* by number; HW_GRAPH_NONE: occurs only as a parent */
};

static void tree_done(struct tree *t)
{
    hw_graph_ids_done(&t->ids);
    free(t->parent);
    free(t->row);
}

static int tree_read(const struct hw_graph_query *q, struct tree *t)
{
    const struct hw_row_list *l = q->lists[0];
    size_t n = hw_row_list_rows(l), most = 2 * n + 1;
    int rc = HW_OK;
    t->parent = malloc(most * sizeof *t->parent);
    t->row = malloc(most * sizeof *t->row);
    if (!t->parent || !t->row)
        return HW_ENOMEM;
    for (size_t i = 0; i < most; i++)
        t->parent[i] = t->row[i] = HW_GRAPH_NONE;
    for (size_t i = 0; rc == HW_OK && i < n && i < HW_GRAPH_MAX_ROWS; i++) {
        int64_t id, parent;
        uint32_t at, above = HW_GRAPH_NONE;
        if (!hw_row_list_int(l, i, 0, &id))
            continue;
        rc = hw_graph_ids_at(&t->ids, id, &at);
        if (rc < 0 || t->row[at] != HW_GRAPH_NONE)
            continue;
        if (hw_row_list_int(l, i, 1, &parent))
            rc = hw_graph_ids_at(&t->ids, parent, &above);
        t->parent[at] = above;
        t->row[at] = (uint32_t)i;
    }
    return rc;
}

struct children {
    uint32_t *first, *next; /* owned; linked lists in the order of the rows */
};

static int children_of(const struct tree *t, struct children *c)
{
    size_t n = t->ids.v.n;
    c->first = malloc((n + 1) * sizeof *c->first);
    c->next = malloc((n + 1) * sizeof *c->next);
    if (!c->first || !c->next)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        c->first[i] = c->next[i] = HW_GRAPH_NONE;
    for (size_t i = n; i-- > 0;)
        if (t->parent[i] != HW_GRAPH_NONE) {
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

/* A node is added to its parent once all its children were added to it. */
static int sum_up(const struct hw_graph_query *q, const struct tree *t, struct sum *sums)
{
    size_t n = t->ids.v.n;
    hw_autofree uint32_t *waits = calloc(n + 1, sizeof *waits);
    HW_VEC(uint32_t) ready = {0};
    int rc = waits && hw_vec_reserve(&ready, n + 1) == 0 ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (t->parent[i] != HW_GRAPH_NONE)
            waits[t->parent[i]]++;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        if (t->row[i] != HW_GRAPH_NONE)
            sums[i] = sum_of(hw_row_list_cell(q->lists[0], t->row[i], 2));
        if (waits[i] == 0)
            ready.v[ready.n++] = (uint32_t)i;
    }
    for (size_t k = 0; rc == HW_OK && k < ready.n; k++) {
        uint32_t i = ready.v[k], up = t->parent[i];
        if (hw_graph_stops(q, k))
            rc = HW_ETIMEOUT;
        if (up == HW_GRAPH_NONE)
            continue;
        sum_add(&sums[up], &sums[i]);
        if (--waits[up] == 0)
            ready.v[ready.n++] = up;
    }
    hw_vec_done(&ready);
    return rc;
}

int hw_graph_tree_sums(const struct hw_graph_query *q, hw_graph_rows *out)
{
    struct tree t = {0};
    int rc = tree_read(q, &t);
    hw_autofree struct sum *sums = rc == HW_OK ? calloc(t.ids.v.n + 1, sizeof *sums) : NULL;
    if (rc == HW_OK)
        rc = sums ? sum_up(q, &t, sums) : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < t.ids.v.n; i++) {
        struct hw_row_cell row[2] = {hw_graph_cell_int(t.ids.v.v[i]), hw_graph_cell_int(sums[i].i)};
        if (sums[i].is_real)
            row[1] = (struct hw_row_cell){.type = HW_SQL_REAL, .d = sums[i].d};
        if (t.row[i] != HW_GRAPH_NONE)
            rc = hw_graph_put_row(out, row, 2);
    }
    tree_done(&t);
    return rc;
}

/* ---- ancestors ---- */

static int walk_up(const struct hw_graph_query *q, struct tree *t, hw_graph_rows *out)
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
        rc = hw_graph_ids_at(&t->ids, id, &at);
        while (rc == HW_OK && at != HW_GRAPH_NONE && !seen[at]) {
            seen[at] = true;
            struct hw_row_cell cell = hw_graph_cell_int(t->ids.v.v[at]);
            rc = hw_graph_stops(q, out->n) ? HW_ETIMEOUT : hw_graph_put_row(out, &cell, 1);
            at = at < known ? t->parent[at] : HW_GRAPH_NONE;
        }
    }
    return rc;
}

int hw_graph_ancestors(const struct hw_graph_query *q, hw_graph_rows *out)
{
    struct tree t = {0};
    int rc = tree_read(q, &t);
    if (rc == HW_OK)
        rc = walk_up(q, &t, out);
    tree_done(&t);
    return rc;
}

int hw_graph_callsites_above(const struct hw_graph_query *q, hw_graph_rows *out)
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
        struct hw_row_cell cell = hw_graph_cell_int((int64_t)c);
        if (wanted[c])
            rc = hw_graph_put_row(out, &cell, 1);
    }
    return rc;
}

/* ---- partition ---- */

/* Numbers the groups: equal keys of one type are one group. */
static int number_groups(const struct hw_graph_query *q, const struct tree *t, uint32_t *group,
                         size_t *n_groups)
{
    struct hw_graph_ids by_type[HW_SQL_TEXT + 1] = {0};
    struct hw_graph_ids all = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < t->ids.v.n; i++) {
        uint32_t local = 0;
        if (t->row[i] == HW_GRAPH_NONE)
            continue;
        const struct hw_row_cell *c = hw_row_list_cell(q->lists[0], t->row[i], 2);
        if (c->type != HW_SQL_NULL) /* a real is compared by its bits */
            rc = hw_graph_ids_at(&by_type[c->type], c->i, &local);
        if (rc == HW_OK)
            rc = hw_graph_ids_at(&all, (int64_t)local * (HW_SQL_TEXT + 1) + (int64_t)c->type,
                                 &group[i]);
    }
    *n_groups = all.v.n;
    for (size_t i = 0; i <= HW_SQL_TEXT; i++)
        hw_graph_ids_done(&by_type[i]);
    hw_graph_ids_done(&all);
    return rc;
}

struct partition {
    const struct hw_graph_query *q;
    const struct tree *t;
    struct children children;
    uint32_t *group;  /* by number */
    uint32_t *latest; /* by group: its nearest node on the path, HW_GRAPH_NONE */
    uint32_t *before; /* by number: the value of latest to restore on the way up */
};

static int put_part(const struct partition *p, uint32_t i, hw_graph_rows *out)
{
    uint32_t above = p->latest[p->group[i]];
    struct hw_row_cell row[3] = {hw_graph_cell_int(p->t->ids.v.v[i]),
                                 {.type = HW_SQL_NULL},
                                 *hw_row_list_cell(p->q->lists[0], p->t->row[i], 2)};
    if (above != HW_GRAPH_NONE)
        row[1] = hw_graph_cell_int(p->t->ids.v.v[above]);
    return hw_graph_put_row(out, row, 3);
}

/* A depth-first walk without a stack: parent pointers lead back up. */
static int part_tree(struct partition *p, uint32_t root, hw_graph_rows *out)
{
    uint32_t at = root;
    int rc = HW_OK;
    while (rc == HW_OK) {
        rc = hw_graph_stops(p->q, out->n) ? HW_ETIMEOUT : put_part(p, at, out);
        p->before[at] = p->latest[p->group[at]];
        p->latest[p->group[at]] = at;
        if (p->children.first[at] != HW_GRAPH_NONE) {
            at = p->children.first[at];
            continue;
        }
        for (;;) {
            p->latest[p->group[at]] = p->before[at];
            if (at == root)
                return rc;
            if (p->children.next[at] != HW_GRAPH_NONE) {
                at = p->children.next[at];
                break;
            }
            at = p->t->parent[at];
        }
    }
    return rc;
}

int hw_graph_partition(const struct hw_graph_query *q, hw_graph_rows *out)
{
    struct tree t = {0};
    int rc = tree_read(q, &t);
    size_t n = t.ids.v.n, n_groups = 0;
    struct partition p = {q, &t, {0}, NULL, NULL, NULL};
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (t.parent[i] != HW_GRAPH_NONE && t.row[t.parent[i]] == HW_GRAPH_NONE)
            t.parent[i] = HW_GRAPH_NONE; /* its parent is not in the tree */
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
        p.latest[i] = HW_GRAPH_NONE;
    for (uint32_t i = 0; rc == HW_OK && i < n; i++)
        if (t.row[i] != HW_GRAPH_NONE && t.parent[i] == HW_GRAPH_NONE)
            rc = part_tree(&p, i, out);
    children_done(&p.children);
    free(p.group);
    free(p.before);
    free(p.latest);
    tree_done(&t);
    return rc;
}
