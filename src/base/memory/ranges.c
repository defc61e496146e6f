/*
 * ranges.c - a treap by address
 *
 *      cut(lo, hi):   split at lo, split at hi -> before | between | behind
 *                     between is told and freed, or its beginning is; the rest is merged
 *
 * A range that reaches over lo or hi is made two first, so that a split never meets one. Nodes are
 * numbers, and all that an operation can need are reserved before anything is changed.
 */
#include "base/memory/ranges.h"

#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

#define MAX_NODES (UINT32_MAX - 1)

void hw_ranges_done(struct hw_ranges *t)
{
    hw_vec_done(&t->nodes);
    *t = (struct hw_ranges){0};
}

size_t hw_ranges_bytes(const struct hw_ranges *t)
{
    return t->nodes.cap * sizeof *t->nodes.v;
}

static uint32_t next_random(struct hw_ranges *t)
{
    if (t->rng == 0)
        t->rng = hw_now_monotonic_ns() ^ (uint64_t)(uintptr_t)t;
    t->rng += 0x9e3779b97f4a7c15u;
    uint64_t x = t->rng;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(x >> 32);
}

static struct hw_range_node *node(const struct hw_ranges *t, uint32_t i)
{
    return &t->nodes.v[i];
}

/* So that as many nodes can be created. */
static int reserve(struct hw_ranges *t, size_t n)
{
    if (t->nodes.n + n > MAX_NODES || hw_vec_reserve(&t->nodes, t->nodes.n + n + 1) < 0)
        return HW_ENOMEM;
    if (t->nodes.n == 0)
        t->nodes.v[t->nodes.n++] = (struct hw_range_node){0};
    return HW_OK;
}

static uint32_t make(struct hw_ranges *t, uint64_t lo, uint64_t hi, uint32_t owner)
{
    uint32_t i = t->free;
    if (i)
        t->free = node(t, i)->left;
    else
        i = (uint32_t)t->nodes.n++;
    *node(t, i) = (struct hw_range_node){.r = {lo, hi, owner}, .priority = next_random(t)};
    t->n++;
    return i;
}

/* Those that begin below `at`, and the others. */
static void split(struct hw_ranges *t, uint32_t root, uint64_t at, uint32_t *below, uint32_t *above)
{
    while (root) {
        struct hw_range_node *n = node(t, root);
        if (n->r.lo < at) {
            *below = root;
            below = &n->right;
            root = n->right;
        } else {
            *above = root;
            above = &n->left;
            root = n->left;
        }
    }
    *below = *above = 0;
}

/* All of a lie below all of b. */
static uint32_t merge(struct hw_ranges *t, uint32_t a, uint32_t b)
{
    uint32_t root = 0, *at = &root;
    while (a && b) {
        struct hw_range_node *x = node(t, a), *y = node(t, b);
        if (x->priority > y->priority) {
            *at = a;
            at = &x->right;
            a = x->right;
        } else {
            *at = b;
            at = &y->left;
            b = y->left;
        }
    }
    *at = a ? a : b;
    return root;
}

static void insert(struct hw_ranges *t, uint32_t i)
{
    uint32_t below, above;
    split(t, t->root, node(t, i)->r.lo, &below, &above);
    t->root = merge(t, merge(t, below, i), above);
}

static uint32_t find_next(const struct hw_ranges *t, uint64_t at)
{
    uint32_t best = 0;
    for (uint32_t i = t->root; i;) {
        const struct hw_range_node *n = node(t, i);
        best = n->r.hi > at ? i : best;
        i = n->r.hi > at ? n->left : n->right;
    }
    return best;
}

/* A range that extends across `at` becomes two. */
static void break_at(struct hw_ranges *t, uint64_t at)
{
    uint32_t i = find_next(t, at);
    if (!i || node(t, i)->r.lo >= at)
        return;
    struct hw_range r = node(t, i)->r;
    node(t, i)->r.hi = at;
    insert(t, make(t, at, r.hi, r.owner));
}

/* In order, without a stack: the first node is replaced by what is above it. What is left is a
 * treap. Gives its root. */
static uint32_t take_some(struct hw_ranges *t, uint32_t root, size_t max, hw_ranges_taken *fn,
                          void *arg)
{
    for (size_t n = 0; root && n < max; n++) {
        uint32_t *at = &root;
        while (node(t, *at)->left)
            at = &node(t, *at)->left;
        uint32_t i = *at;
        struct hw_range r = node(t, i)->r;
        *at = node(t, i)->right;
        *node(t, i) = (struct hw_range_node){.left = t->free};
        t->free = i;
        t->n--;
        fn(arg, &r);
    }
    return root;
}

int hw_ranges_cut(struct hw_ranges *t, uint64_t lo, uint64_t hi, size_t max, hw_ranges_taken *fn,
                  void *arg)
{
    uint32_t below, rest, between, above;
    uint32_t first = t->nodes.n ? find_next(t, lo) : 0;
    if (lo >= hi || !first || node(t, first)->r.lo >= hi)
        return HW_OK;
    if (reserve(t, 2) < 0)
        return HW_ENOMEM;
    break_at(t, lo);
    break_at(t, hi);
    split(t, t->root, lo, &below, &rest);
    split(t, rest, hi, &between, &above);
    between = take_some(t, between, max, fn, arg);
    t->root = merge(t, merge(t, below, between), above);
    return between != 0;
}

int hw_ranges_put(struct hw_ranges *t, uint64_t lo, uint64_t hi, uint32_t owner)
{
    if (reserve(t, 1) < 0)
        return HW_ENOMEM;
    insert(t, make(t, lo, hi, owner));
    return HW_OK;
}

bool hw_ranges_next(const struct hw_ranges *t, uint64_t at, struct hw_range *out)
{
    uint32_t i = t->nodes.n ? find_next(t, at) : 0;
    if (i)
        *out = node(t, i)->r;
    return i != 0;
}
