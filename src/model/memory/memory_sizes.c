/*
 * Two passes over the same nodes. Sizes go up: a node comes after its children and its owners.
 * Coefficients go down: a node comes after its parent and what it owns. The order is built without
 * recursion; an edge that closes a cycle is dropped.
 */
#include "model/memory/memory_sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "model/memory/memory_attributes.h"
#include "model/memory/memory_dump.h"
#include "model/profile.h"

#include "base/banned.h"

int hw_memory_children_init(struct hw_memory_children *c, const struct hw_memory_dumps *m)
{
    c->first = malloc((m->nodes.n + 1) * sizeof *c->first);
    c->next = malloc((m->nodes.n + 1) * sizeof *c->next);
    c->first_root = malloc((m->processes.n + 1) * sizeof *c->first_root);
    if (!c->first || !c->next || !c->first_root)
        return HW_ENOMEM;
    memset(c->first, 0xff, (m->nodes.n + 1) * sizeof *c->first);
    memset(c->next, 0xff, (m->nodes.n + 1) * sizeof *c->next);
    memset(c->first_root, 0xff, (m->processes.n + 1) * sizeof *c->first_root);
    /* Unspecified nodes come first in each list. */
    for (int unspecified = 0; unspecified < 2; unspecified++)
        for (size_t i = m->nodes.n; i-- > 0;) {
            const struct hw_memory_node *n = &m->nodes.v[i];
            uint32_t *head =
                n->parent == HW_ID_NONE ? &c->first_root[n->process] : &c->first[n->parent];
            if (n->unspecified != (unspecified != 0))
                continue;
            c->next[i] = *head;
            *head = (uint32_t)i;
        }
    return HW_OK;
}

void hw_memory_children_done(struct hw_memory_children *c)
{
    free(c->first);
    free(c->next);
    free(c->first_root);
}

struct sizes {
    struct hw_memory_dumps *m;
    struct hw_memory_children children;
    uint32_t *owns;        /* by node: edge, HW_ID_NONE = none */
    uint32_t *first_owner; /* by node: edge; continued by next_owner */
    uint32_t *next_owner;  /* by edge */
    uint32_t *order;       /* nodes; owners and children first */
    uint64_t *not_owning, *not_owned;
    double *owning, *owned; /* coefficients */
    double *all_owning, *all_owned;
    double *effective;
};

static int alloc_all(struct sizes *s)
{
    size_t n = s->m->nodes.n + 1, e = s->m->edges.n + 1;
    s->owns = malloc(n * sizeof *s->owns);
    s->first_owner = malloc(n * sizeof *s->first_owner);
    s->next_owner = malloc(e * sizeof *s->next_owner);
    s->order = malloc(n * sizeof *s->order);
    s->not_owning = calloc(n, sizeof *s->not_owning);
    s->not_owned = calloc(n, sizeof *s->not_owned);
    s->owning = calloc(5 * n, sizeof *s->owning);
    if (!s->owns || !s->first_owner || !s->next_owner || !s->order || !s->not_owning ||
        !s->not_owned || !s->owning)
        return HW_ENOMEM;
    s->owned = s->owning + n;
    s->all_owning = s->owned + n;
    s->all_owned = s->all_owning + n;
    s->effective = s->all_owned + n;
    memset(s->owns, 0xff, n * sizeof *s->owns);
    memset(s->first_owner, 0xff, n * sizeof *s->first_owner);
    for (size_t i = 0; i < 2 * n; i++)
        s->owning[i] = 1; /* and owned */
    for (uint32_t i = (uint32_t)s->m->edges.n; i-- > 0;) {
        const struct hw_memory_edge *edge = &s->m->edges.v[i];
        s->owns[edge->source] = i;
        s->next_owner[i] = s->first_owner[edge->target];
        s->first_owner[edge->target] = i;
    }
    return HW_OK;
}

static void free_all(struct sizes *s)
{
    hw_memory_children_done(&s->children);
    free(s->owns);
    free(s->first_owner);
    free(s->next_owner);
    free(s->order);
    free(s->not_owning);
    free(s->not_owned);
    free(s->owning);
}

/* ---- order ---- */

enum { NEW, OPEN, DONE };

struct visit {
    uint32_t node, child, edge; /* child, edge: to visit next */
};

/* The next node that must come before v->node: its children, then its owners. */
static uint32_t next_before(const struct sizes *s, struct visit *v, uint32_t *edge)
{
    *edge = HW_ID_NONE;
    if (v->child != HW_ID_NONE) {
        uint32_t n = v->child;
        v->child = s->children.next[n];
        return n;
    }
    if (v->edge == HW_ID_NONE)
        return HW_ID_NONE;
    *edge = v->edge;
    v->edge = s->next_owner[v->edge];
    return s->m->edges.v[*edge].source;
}

/* Drops an edge that closes a cycle: neither end is charged for the other. */
static void drop_edge(struct sizes *s, uint32_t edge)
{
    const struct hw_memory_edge *e = &s->m->edges.v[edge];
    uint32_t *link = &s->first_owner[e->target];
    while (*link != edge)
        link = &s->next_owner[*link];
    *link = s->next_owner[edge];
    s->owns[e->source] = HW_ID_NONE;
    s->m->n_bad++;
}

static int make_order(struct sizes *s)
{
    HW_VEC(struct visit) stack = {0};
    hw_autofree uint8_t *state = calloc(s->m->nodes.n + 1, 1);
    size_t n_done = 0;
    int rc = state ? HW_OK : HW_ENOMEM;
    for (uint32_t root = 0; rc == HW_OK && root < s->m->nodes.n; root++) {
        uint32_t start = root;
        while (rc == HW_OK && (start != HW_ID_NONE || stack.n)) {
            if (start != HW_ID_NONE) {
                if (state[start] == NEW) {
                    struct visit v = {start, s->children.first[start], s->first_owner[start]};
                    state[start] = OPEN;
                    rc = hw_vec_push(&stack, v) < 0 ? HW_ENOMEM : HW_OK;
                }
                start = HW_ID_NONE;
                continue;
            }
            struct visit *v = &stack.v[stack.n - 1];
            uint32_t edge, before = next_before(s, v, &edge);
            if (before == HW_ID_NONE) {
                state[v->node] = DONE;
                s->order[n_done++] = v->node;
                stack.n--;
            } else if (state[before] == OPEN && edge != HW_ID_NONE) {
                drop_edge(s, edge);
            } else {
                start = before;
            }
        }
    }
    hw_vec_done(&stack);
    return rc;
}

/* ---- sizes ---- */

static bool is_below(const struct hw_memory_dumps *m, uint32_t node, uint32_t ancestor)
{
    while (node != HW_ID_NONE && node != ancestor)
        node = m->nodes.v[node].parent;
    return node == ancestor;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

/* The sum of the leaves below a node and of the unspecified parts in between. A node that owns
 * another one below the same ancestor is already counted there, with all below it. Which nodes
 * these are differs between ancestors, so the children's sums cannot be used. */
static bool descendants_sum(const struct sizes *s, uint32_t top, const uint64_t *missing,
                            uint64_t *sum)
{
    const struct hw_memory_dumps *m = s->m;
    uint32_t k = s->children.first[top];
    bool any = false;
    *sum = 0;
    while (k != HW_ID_NONE) {
        bool is_leaf = s->children.first[k] == HW_ID_NONE;
        bool counted = s->owns[k] != HW_ID_NONE && is_below(m, m->edges.v[s->owns[k]].target, top);
        if (!counted && (is_leaf ? m->nodes.v[k].has_size : missing[k] > 0)) {
            *sum = add(*sum, is_leaf ? m->nodes.v[k].size : missing[k]);
            any = true;
        }
        if (!counted && !is_leaf) {
            k = s->children.first[k];
            continue;
        }
        while (k != top && s->children.next[k] == HW_ID_NONE)
            k = m->nodes.v[k].parent;
        k = k == top ? HW_ID_NONE : s->children.next[k];
    }
    return any;
}

static bool largest_owner(const struct sizes *s, uint32_t node, uint64_t *out)
{
    bool any = false;
    *out = 0;
    for (uint32_t e = s->first_owner[node]; e != HW_ID_NONE; e = s->next_owner[e]) {
        const struct hw_memory_node *owner = &s->m->nodes.v[s->m->edges.v[e].source];
        if (owner->has_size && owner->size >= *out) {
            *out = owner->size;
            any = true;
        }
    }
    return any;
}

/* Computes sizes of all nodes; missing[]: sizes of their future <unspecified> children. */
static void size_nodes(struct sizes *s, uint64_t *missing)
{
    for (size_t i = 0; i < s->m->nodes.n; i++) {
        uint32_t at = s->order[i];
        struct hw_memory_node *n = &s->m->nodes.v[at];
        uint64_t sum, owner;
        bool has_sum = descendants_sum(s, at, missing, &sum),
             has_owner = largest_owner(s, at, &owner);
        n->has_size = n->has_size || has_sum || has_owner;
        n->size = sum > n->size ? sum : n->size;
        n->size = owner > n->size ? owner : n->size;
        missing[at] = s->children.first[at] != HW_ID_NONE && n->has_size ? n->size - sum : 0;
    }
}

/* An owner without a size gets that of the global node it owns, before anything is summed. */
static void inherit_sizes(struct sizes *s)
{
    struct hw_memory_dumps *m = s->m;
    for (size_t i = m->nodes.n; i-- > 0;) { /* owned nodes before their owners */
        const struct hw_memory_node *n = &m->nodes.v[s->order[i]];
        if (!n->has_size || m->processes.v[n->process].upid.v != HW_ID_NONE)
            continue;
        for (uint32_t e = s->first_owner[s->order[i]]; e != HW_ID_NONE; e = s->next_owner[e]) {
            struct hw_memory_node *owner = &m->nodes.v[m->edges.v[e].source];
            if (owner->has_size)
                continue;
            owner->has_size = true;
            owner->size = n->size;
        }
    }
    for (size_t i = 0; i < m->nodes.n; i++)
        m->nodes.v[i].told_size = m->nodes.v[i].has_size;
}

static int add_unspecified(struct hw_profile *p, const uint64_t *missing, size_t n)
{
    static const char ending[] = "/<unspecified>";
    struct hw_memory_dumps *m = &p->memory;
    struct hw_strbuf path = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        struct hw_memory_node node = {.process = m->nodes.v[i].process,
                                      .parent = (uint32_t)i,
                                      .arg_set = HW_ID_NONE,
                                      .has_size = true,
                                      .unspecified = true,
                                      .size = missing[i]};
        if (missing[i] == 0)
            continue;
        struct hw_bytes parent =
            hw_strings_get(hw_callsites_strings(p->callsites), m->nodes.v[i].path);
        hw_strbuf_clear(&path);
        hw_strbuf_add(&path, parent.p, parent.n);
        hw_strbuf_adds(&path, ending);
        rc = path.failed ? HW_ENOMEM : hw_profile_str(p, hw_bytes_of(path.p, path.n), &node.path);
        if (rc == HW_OK && hw_vec_push(&m->nodes, node) < 0)
            rc = HW_ENOMEM;
    }
    hw_strbuf_done(&path);
    return rc;
}

/* ---- effective sizes ---- */

static void sub_sizes(struct sizes *s, uint32_t at)
{
    const struct hw_memory_node *n = &s->m->nodes.v[at];
    if (!n->has_size)
        return;
    if (s->children.first[at] == HW_ID_NONE) {
        s->not_owning[at] = s->not_owned[at] = n->size;
        return;
    }
    for (uint32_t k = s->children.first[at]; k != HW_ID_NONE; k = s->children.next[k]) {
        const struct hw_memory_node *child = &s->m->nodes.v[k];
        uint64_t owner = 0, size = child->has_size ? child->size : 0;
        if (s->owns[k] == HW_ID_NONE)
            s->not_owning[at] = add(s->not_owning[at], s->not_owning[k]);
        if (s->first_owner[k] == HW_ID_NONE)
            s->not_owned[at] = add(s->not_owned[at], s->not_owned[k]);
        else
            s->not_owned[at] =
                add(s->not_owned[at], size - (largest_owner(s, k, &owner) ? owner : 0));
    }
}

struct ranked {
    uint32_t node, importance;
    uint64_t not_owning;
};

static int compare_ranked(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;
    if (a->importance != b->importance)
        return a->importance > b->importance ? -1 : 1;
    if (a->not_owning != b->not_owning)
        return a->not_owning < b->not_owning ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

/* Charges the owners of one node by importance; equal ones share what is not charged yet. */
static int charge_owners(struct sizes *s, uint32_t at)
{
    HW_VEC(struct ranked) owners = {0};
    for (uint32_t e = s->first_owner[at]; e != HW_ID_NONE; e = s->next_owner[e]) {
        const struct hw_memory_edge *edge = &s->m->edges.v[e];
        struct ranked r = {edge->source, edge->importance, s->not_owning[edge->source]};
        if (hw_vec_push(&owners, r) < 0) {
            hw_vec_done(&owners);
            return HW_ENOMEM;
        }
    }
    if (owners.n)
        qsort(owners.v, owners.n, sizeof *owners.v, compare_ranked);
    uint64_t charged = 0;
    for (size_t i = 0; i < owners.n;) {
        size_t end = i;
        double share = 0;
        while (end < owners.n && owners.v[end].importance == owners.v[i].importance)
            end++;
        for (; i < end; i++) {
            uint64_t own = owners.v[i].not_owning;
            if (own > charged) {
                share += (double)(own - charged) / (double)(end - i);
                charged = own;
            }
            if (own)
                s->owning[owners.v[i].node] = share / (double)own;
        }
    }
    uint64_t rest = s->not_owned[at];
    if (owners.n && rest)
        s->owned[at] = rest > charged ? (double)(rest - charged) / (double)rest : 0;
    hw_vec_done(&owners);
    return HW_OK;
}

/* Called for parents before children and owned nodes before owners: the order of sizes
 * backwards. */
static void spread_down(struct sizes *s, uint32_t at)
{
    const struct hw_memory_node *n = &s->m->nodes.v[at];
    bool is_root = n->parent == HW_ID_NONE;
    s->all_owned[at] = s->owned[at] * (is_root ? 1 : s->all_owned[n->parent]);
    if (s->owns[at] != HW_ID_NONE)
        s->all_owning[at] = s->owning[at] * s->all_owning[s->m->edges.v[s->owns[at]].target];
    else
        s->all_owning[at] = is_root ? 1 : s->all_owning[n->parent];
}

/* Rounds down; 14.999… is 15, as floating-point thirds may not add up. */
static uint64_t whole_bytes(double bytes)
{
    double nearest = floor(bytes + 0.5);
    if (fabs(nearest - bytes) > bytes * 1e-14 + 1e-9)
        nearest = floor(bytes);
    return nearest < 1.8e19 ? (uint64_t)nearest : UINT64_MAX;
}

static void sum_up(struct sizes *s, uint32_t at)
{
    struct hw_memory_node *n = &s->m->nodes.v[at];
    if (!n->has_size)
        return;
    if (s->children.first[at] == HW_ID_NONE)
        s->effective[at] = (double)n->size * s->all_owning[at] * s->all_owned[at];
    else
        for (uint32_t k = s->children.first[at]; k != HW_ID_NONE; k = s->children.next[k])
            s->effective[at] += s->effective[k];
    n->effective_size = whole_bytes(s->effective[at]);
}

static int effective_sizes(struct sizes *s)
{
    size_t n = s->m->nodes.n;
    int rc = HW_OK;
    for (size_t i = 0; i < n; i++)
        sub_sizes(s, s->order[i]);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (s->m->nodes.v[s->order[i]].has_size)
            rc = charge_owners(s, s->order[i]);
    for (size_t i = n; i-- > 0;)
        if (s->m->nodes.v[s->order[i]].has_size)
            spread_down(s, s->order[i]);
    for (size_t i = 0; i < n; i++)
        sum_up(s, s->order[i]);
    return rc;
}

/* Builds lists and the order. Called again after the first pass, which adds nodes. */
static int begin(struct sizes *s, struct hw_profile *p)
{
    *s = (struct sizes){.m = &p->memory};
    int rc = hw_memory_children_init(&s->children, s->m);
    if (rc == HW_OK)
        rc = alloc_all(s);
    return rc < 0 ? rc : make_order(s);
}

/* Removes the rows of edges that make_order dropped. */
static void remove_dropped_edges(struct sizes *s)
{
    size_t kept = 0;
    for (uint32_t i = 0; i < s->m->edges.n; i++)
        if (s->owns[s->m->edges.v[i].source] == i)
            s->m->edges.v[kept++] = s->m->edges.v[i];
    s->m->edges.n = kept;
}

int hw_memory_sizes(struct hw_profile *p)
{
    struct sizes s;
    size_t n = p->memory.nodes.n;
    hw_autofree uint64_t *missing = calloc(n + 1, sizeof *missing);
    int rc = begin(&s, p);
    if (rc == HW_OK && !missing)
        rc = HW_ENOMEM;
    if (rc == HW_OK) {
        inherit_sizes(&s);
        size_nodes(&s, missing);
        rc = hw_memory_attributes(p, s.order, s.first_owner, s.next_owner, &s.children);
        remove_dropped_edges(&s);
    }
    free_all(&s);
    if (rc == HW_OK)
        rc = add_unspecified(p, missing, n);
    if (rc < 0)
        return rc;
    rc = begin(&s, p);
    if (rc == HW_OK)
        rc = effective_sizes(&s);
    free_all(&s);
    return rc;
}
