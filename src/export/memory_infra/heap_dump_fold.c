/*
 * Small callstacks are folded, not lost: those that the rule calls small (by default a total below
 * 1024 bytes) become, type by type, the frame `<other>` below the nearest caller that is kept. The
 * sum of the rows is the heap's total.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "export/memory_infra/heap_dump_job.h"

#include "base/banned.h"

enum { MAX_TYPES = 2000 };

/* Nodes are ordered callers first. */
void hw_infra_heaps_sum_up(struct hw_infra_out *o, struct hw_infra_heaps_written *t)
{
    for (size_t i = 0; i < t->nodes.n; i++)
        t->nodes.v[i].total = 0;
    for (size_t i = 0; i < o->rows.n; i++) {
        struct hw_infra_heaps_node *n = &t->nodes.v[o->rows.v[i].node];
        n->total = hw_sat_add(n->total, o->rows.v[i].size);
    }
    for (size_t i = t->nodes.n; i-- > 0;) {
        uint32_t parent = t->nodes.v[i].parent;
        if (parent != HW_ID_NONE)
            t->nodes.v[parent].total = hw_sat_add(t->nodes.v[parent].total, t->nodes.v[i].total);
    }
}

const struct hw_infra_rule *hw_infra_heaps_rule_of(const struct hw_infra_out *o)
{
    static const struct hw_infra_rule usual = {HW_DETAIL_THRESHOLD, HW_INFRA_THRESHOLD_BYTES};
    return o->in->other ? o->in->other : &usual;
}

/* For descending values: less than 0.8 % of the sum so far, including the value. */
bool hw_infra_heaps_is_fraction_small(int64_t size, int64_t *sum)
{
    *sum = hw_sat_add(*sum, size);
    return *sum == 0 || (double)size * 125 < (double)*sum;
}

static bool is_large_row(const struct hw_infra_heaps_row *r)
{
    return r->size >= 16384 || r->count >= 1024;
}

struct ranked {
    uint32_t parent, node;
    int64_t total;
};

static int compare_ranked(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    if (a->total != b->total)
        return a->total > b->total ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

/* The callees of each caller, largest first; all after the first small one are small. */
static int keep_fractions(struct hw_infra_heaps_written *t)
{
    size_t n = t->nodes.n;
    int64_t sum = 0;
    bool small = false;
    struct ranked *v = calloc(n + 1, sizeof *v);
    if (!v)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct ranked){t->nodes.v[i].parent, (uint32_t)i, t->nodes.v[i].total};
    qsort(v, n, sizeof *v, compare_ranked);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || v[i].parent != v[i - 1].parent) {
            sum = 0;
            small = false;
        }
        small = small || hw_infra_heaps_is_fraction_small(v[i].total, &sum);
        t->nodes.v[v[i].node].kept = !small;
    }
    free(v);
    return HW_OK;
}

/* Which nodes are kept: never one whose caller is not. */
int hw_infra_heaps_choose_nodes(struct hw_infra_out *o, struct hw_infra_heaps_written *t)
{
    const struct hw_infra_rule *rule = hw_infra_heaps_rule_of(o);
    int rc = rule->rule == HW_DETAIL_FRACTION ? keep_fractions(t) : HW_OK;
    for (size_t i = 0; i < t->nodes.n && rule->rule != HW_DETAIL_FRACTION; i++)
        t->nodes.v[i].kept =
            rule->rule == HW_DETAIL_ALL ||
            (rule->rule == HW_DETAIL_THRESHOLD && t->nodes.v[i].total >= rule->threshold);
    for (size_t i = 0; i < o->rows.n && rule->rule == HW_DETAIL_ROWS; i++)
        t->nodes.v[o->rows.v[i].node].kept |= o->rows.v[i].kept = is_large_row(&o->rows.v[i]);
    for (size_t i = t->nodes.n; i-- > 0 && rule->rule == HW_DETAIL_ROWS;)
        if (t->nodes.v[i].kept && t->nodes.v[i].parent != HW_ID_NONE)
            t->nodes.v[t->nodes.v[i].parent].kept = true;
    for (size_t i = 0; i < t->nodes.n; i++)
        if (t->nodes.v[i].parent != HW_ID_NONE && !t->nodes.v[t->nodes.v[i].parent].kept)
            t->nodes.v[i].kept = false;
    return rc;
}

int hw_infra_heaps_fold_stacks(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                               struct hw_infra_folded *folded)
{
    bool by_rows = hw_infra_heaps_rule_of(o)->rule == HW_DETAIL_ROWS;
    uint32_t other;
    int rc = hw_infra_heaps_choose_nodes(o, t);
    if (rc == HW_OK)
        rc = hw_infra_heaps_name_of(o, t, hw_bytes_str("<other>"), &other);
    for (size_t i = 0; rc == HW_OK && i < o->rows.n; i++) {
        struct hw_infra_heaps_row *r = &o->rows.v[i];
        uint32_t kept = r->node;
        while (kept != HW_ID_NONE && !t->nodes.v[kept].kept)
            kept = t->nodes.v[kept].parent;
        if (kept == r->node && (!by_rows || r->kept))
            continue;
        folded->rows++;
        folded->size = hw_sat_add(folded->size, r->size);
        rc = hw_infra_heaps_child_of(t, kept, other, &r->node);
        if (rc == HW_OK)
            t->nodes.v[r->node].kept = true; /* for this heap; recomputed for the next */
    }
    return rc;
}

static int by_type(const void *pa, const void *pb)
{
    const struct hw_infra_heaps_row *a = pa, *b = pb;
    return a->type < b->type ? -1 : a->type > b->type;
}

/* Above MAX_TYPES types the smallest ones are merged into one. */
int hw_infra_heaps_fold_types(struct hw_infra_out *o, struct hw_infra_heaps_written *t)
{
    size_t n_types = 0;
    uint32_t other;
    if (o->rows.n == 0)
        return HW_OK;
    qsort(o->rows.v, o->rows.n, sizeof *o->rows.v, by_type);
    for (size_t i = 0; i < o->rows.n; i++)
        n_types += i == 0 || o->rows.v[i].type != o->rows.v[i - 1].type;
    if (n_types <= MAX_TYPES)
        return HW_OK;
    int rc = hw_infra_heaps_name_of(o, t, hw_bytes_str("<other>"), &other);
    for (size_t i = 0, end; rc == HW_OK && i < o->rows.n; i = end) {
        int64_t total = 0;
        for (end = i; end < o->rows.n && o->rows.v[end].type == o->rows.v[i].type; end++)
            total = hw_sat_add(total, o->rows.v[end].size);
        for (size_t k = i + 1; total < HW_INFRA_THRESHOLD_BYTES && k < end; k++)
            o->rows.v[k].type = other;
        if (total < HW_INFRA_THRESHOLD_BYTES)
            o->rows.v[i].type = other;
    }
    return rc;
}

static int by_node(const void *pa, const void *pb)
{
    const struct hw_infra_heaps_row *a = pa, *b = pb;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->type < b->type ? -1 : a->type > b->type;
}

void hw_infra_heaps_merge_rows(struct hw_infra_out *o)
{
    size_t n = 0;
    if (o->rows.n == 0)
        return;
    qsort(o->rows.v, o->rows.n, sizeof *o->rows.v, by_node);
    for (size_t i = 0; i < o->rows.n; i++) {
        struct hw_infra_heaps_row *last = n ? &o->rows.v[n - 1] : NULL;
        if (last && by_node(last, &o->rows.v[i]) == 0) {
            last->size = hw_sat_add(last->size, o->rows.v[i].size);
            last->count = hw_sat_add(last->count, o->rows.v[i].count);
            last->kept |= o->rows.v[i].kept;
        } else {
            o->rows.v[n++] = o->rows.v[i];
        }
    }
    o->rows.n = n;
}

static int by_size(const void *pa, const void *pb)
{
    const struct hw_infra_heaps_row *a = pa, *b = pb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return by_node(pa, pb);
}

void hw_infra_heaps_sort_by_size(struct hw_infra_out *o)
{
    qsort(o->rows.v, o->rows.n, sizeof *o->rows.v, by_size);
}
