/*
 * Attributes are rows NAME.value of the node's set, numbers followed by their NAME.unit. A set that
 * grows is rewritten after all others, since a set's rows are adjacent.
 */
#include "model/memory/memory_attributes.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "model/memory/memory_dump.h"
#include "model/memory/memory_sizes.h"
#include "model/profile.h"

#include "base/banned.h"

enum { MAX_ADDED = 32 };

struct grown {
    struct hw_profile *p;
    struct hw_map64 has; /* key → 0 if the node has it, else its index in rows */
    struct hw_arg_row rows[2 * MAX_ADDED + 1]; /* used from 1 on */
    size_t n, n_values;
};

static size_t first_row(const struct hw_args *a, uint32_t set)
{
    return HW_LOWER_BOUND(mid, 0, a->rows.n, a->rows.v[mid].set < set);
}

static bool is_unit(const struct hw_profile *p, const struct hw_arg_row *r)
{
    static const char ending[] = ".unit";
    struct hw_bytes key = hw_strings_get(hw_callsites_strings(p->callsites), r->key);
    size_t n = sizeof ending - 1;
    return r->type == HW_ARG_STRING && key.n > n && memcmp(key.p + key.n - n, ending, n) == 0;
}

static int begin_set(struct grown *g, uint32_t set)
{
    const struct hw_args *a = &g->p->args;
    int rc = HW_OK;
    hw_map64_done(&g->has);
    g->n = 1;
    g->n_values = 0;
    if (set == HW_ID_NONE)
        return HW_OK;
    for (size_t i = first_row(a, set); rc == HW_OK && i < a->rows.n && a->rows.v[i].set == set; i++)
        rc = hw_map64_put(&g->has, a->rows.v[i].key.v, 0);
    return rc;
}

/* Adds the attribute at row i, and its unit after it. */
static int add_attribute(struct grown *g, size_t i)
{
    const struct hw_args *a = &g->p->args;
    const struct hw_arg_row *r = &a->rows.v[i];
    uint64_t *at;
    bool fresh;
    if (g->n_values == MAX_ADDED)
        return HW_OK;
    int rc = hw_map64_at(&g->has, r->key.v, &at, &fresh);
    if (rc < 0 || (!fresh && *at == 0))
        return rc;
    if (!fresh) { /* another child has it, too */
        struct hw_arg_row *sum = &g->rows[*at];
        sum->number = hw_sat_add(sum->number, r->number);
        return HW_OK;
    }
    *at = g->n;
    g->n_values++;
    g->rows[g->n++] = *r;
    if (i + 1 < a->rows.n && r[1].set == r->set && is_unit(g->p, &r[1]))
        g->rows[g->n++] = r[1];
    return HW_OK;
}

static int add_attributes(struct grown *g, uint32_t set, bool texts)
{
    const struct hw_args *a = &g->p->args;
    int rc = HW_OK;
    if (set == HW_ID_NONE)
        return HW_OK;
    for (size_t i = first_row(a, set); rc == HW_OK && i < a->rows.n && a->rows.v[i].set == set; i++)
        if (a->rows.v[i].type == HW_ARG_STRING ? texts && !is_unit(g->p, &a->rows.v[i])
                                               : a->rows.v[i].type == HW_ARG_INT)
            rc = add_attribute(g, i);
    return rc;
}

/* Writes the node's own attributes and the added ones as a new set. */
static int write_set(struct grown *g, uint32_t *set)
{
    struct hw_args *a = &g->p->args;
    uint32_t grown = a->n_sets;
    if (g->n == 1)
        return HW_OK;
    if (*set != HW_ID_NONE)
        for (size_t i = first_row(a, *set); i < a->rows.n && a->rows.v[i].set == *set; i++) {
            struct hw_arg_row row = a->rows.v[i];
            row.set = grown;
            if (hw_vec_push(&a->rows, row) < 0)
                return HW_ENOMEM;
        }
    for (size_t i = 1; i < g->n; i++) {
        g->rows[i].set = grown;
        if (hw_vec_push(&a->rows, g->rows[i]) < 0)
            return HW_ENOMEM;
    }
    *set = grown;
    a->n_sets++;
    return HW_OK;
}

static int inherit(struct grown *g, uint32_t from, uint32_t owner)
{
    struct hw_memory_node *nodes = g->p->memory.nodes.v;
    if (nodes[from].arg_set == HW_ID_NONE)
        return HW_OK;
    int rc = begin_set(g, nodes[owner].arg_set);
    if (rc == HW_OK)
        rc = add_attributes(g, nodes[from].arg_set, /* texts = */ true);
    return rc < 0 ? rc : write_set(g, &nodes[owner].arg_set);
}

static int sum_up(struct grown *g, uint32_t parent, const struct hw_memory_children *c)
{
    struct hw_memory_node *nodes = g->p->memory.nodes.v;
    if (c->first[parent] == HW_ID_NONE)
        return HW_OK;
    int rc = begin_set(g, nodes[parent].arg_set);
    for (uint32_t k = c->first[parent]; rc == HW_OK && k != HW_ID_NONE; k = c->next[k])
        rc = add_attributes(g, nodes[k].arg_set, /* texts = */ false);
    return rc < 0 ? rc : write_set(g, &nodes[parent].arg_set);
}

static bool is_global(const struct hw_memory_dumps *m, uint32_t node)
{
    return m->processes.v[m->nodes.v[node].process].upid.v == HW_ID_NONE;
}

int hw_memory_attributes(struct hw_profile *p, const uint32_t *order, const uint32_t *first_owner,
                         const uint32_t *next_owner, const struct hw_memory_children *children)
{
    struct grown g = {.p = p};
    const struct hw_memory_dumps *m = &p->memory;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < m->nodes.n; i++)
        if (is_global(m, order[i]))
            rc = sum_up(&g, order[i], children);
    for (size_t i = m->nodes.n; rc == HW_OK && i-- > 0;) { /* what is owned before its owners */
        uint32_t e = is_global(m, order[i]) ? first_owner[order[i]] : HW_ID_NONE;
        for (; rc == HW_OK && e != HW_ID_NONE; e = next_owner[e])
            rc = inherit(&g, order[i], m->edges.v[e].source);
    }
    for (size_t i = 0; rc == HW_OK && i < m->nodes.n; i++)
        rc = sum_up(&g, order[i], children);
    hw_map64_done(&g.has);
    return rc;
}
