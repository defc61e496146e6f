/*
 * Which nodes are dropped:
 *
 *      a weak node, which its process only has if another one does
 *      its children, its owners (edge owner -> node), and theirs
 *      a parent that was only created for its children, if all of these are dropped
 */
#include "model/memory/memory_weak.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "model/memory/memory_dump.h"
#include "model/memory/memory_sizes.h"

#include "base/banned.h"

struct weak {
    struct hw_memory_dumps *m;
    struct hw_memory_children children;
    uint32_t *first_owner, *next_owner; /* by node: edge; by edge */
    uint32_t *left;                     /* by node: remaining children; later its new index */
    bool *dropped;
    HW_VEC(uint32_t) todo;
};

static int drop(struct weak *w, uint32_t node)
{
    if (w->dropped[node])
        return HW_OK;
    w->dropped[node] = true;
    return hw_vec_push(&w->todo, node) < 0 ? HW_ENOMEM : HW_OK;
}

static int drop_dependents(struct weak *w)
{
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < w->m->nodes.n; i++)
        if (w->m->nodes.v[i].weak)
            rc = drop(w, i);
    while (rc == HW_OK && w->todo.n) {
        uint32_t n = w->todo.v[--w->todo.n];
        for (uint32_t k = w->children.first[n]; rc == HW_OK && k != HW_ID_NONE;
             k = w->children.next[k])
            rc = drop(w, k);
        for (uint32_t e = w->first_owner[n]; rc == HW_OK && e != HW_ID_NONE; e = w->next_owner[e])
            rc = drop(w, w->m->edges.v[e].source);
    }
    return rc;
}

/* Parents come before their children. */
static void drop_empty_parents(struct weak *w)
{
    for (size_t i = w->m->nodes.n; i-- > 0;) {
        const struct hw_memory_node *n = &w->m->nodes.v[i];
        if (!n->told && w->children.first[i] != HW_ID_NONE && w->left[i] == 0)
            w->dropped[i] = true;
        if (!w->dropped[i] && n->parent != HW_ID_NONE)
            w->left[n->parent]++;
    }
}

static int compact(struct weak *w)
{
    struct hw_memory_dumps *m = w->m;
    uint32_t *new_index = w->left;
    size_t kept = 0;
    for (size_t i = 0; i < m->nodes.n; i++) {
        struct hw_memory_node n = m->nodes.v[i];
        if (w->dropped[i])
            continue;
        if (n.parent != HW_ID_NONE)
            n.parent = new_index[n.parent];
        new_index[i] = (uint32_t)kept;
        m->nodes.v[kept++] = n;
    }
    m->nodes.n = kept;
    hw_map64_done(&m->by_path);
    for (size_t i = 0; i < kept; i++) {
        const struct hw_memory_node *n = &m->nodes.v[i];
        if (hw_map64_put(&m->by_path, (uint64_t)n->process << 32 | n->path.v, i) < 0)
            return HW_ENOMEM;
    }
    kept = 0;
    for (size_t i = 0; i < m->edges.n; i++) {
        struct hw_memory_edge e = m->edges.v[i];
        if (w->dropped[e.source] || w->dropped[e.target])
            continue;
        e.source = new_index[e.source];
        e.target = new_index[e.target];
        m->edges.v[kept++] = e;
    }
    m->edges.n = kept;
    return HW_OK;
}

static int begin(struct weak *w)
{
    size_t n = w->m->nodes.n + 1, n_edges = w->m->edges.n + 1;
    w->first_owner = malloc(n * sizeof *w->first_owner);
    w->next_owner = malloc(n_edges * sizeof *w->next_owner);
    w->left = calloc(n, sizeof *w->left);
    w->dropped = calloc(n, sizeof *w->dropped);
    if (!w->first_owner || !w->next_owner || !w->left || !w->dropped)
        return HW_ENOMEM;
    memset(w->first_owner, 0xff, n * sizeof *w->first_owner);
    for (size_t i = 0; i < w->m->edges.n; i++) {
        uint32_t *head = &w->first_owner[w->m->edges.v[i].target];
        w->next_owner[i] = *head;
        *head = (uint32_t)i;
    }
    return hw_memory_children_init(&w->children, w->m);
}

int hw_memory_drop_weak(struct hw_memory_dumps *m)
{
    struct weak w = {.m = m};
    bool any = false;
    for (size_t i = 0; i < m->nodes.n; i++)
        any |= m->nodes.v[i].weak;
    if (!any)
        return HW_OK;
    int rc = begin(&w);
    if (rc == HW_OK)
        rc = drop_dependents(&w);
    if (rc == HW_OK) {
        drop_empty_parents(&w);
        rc = compact(&w);
    }
    hw_memory_children_done(&w.children);
    free(w.first_owner);
    free(w.next_owner);
    free(w.left);
    free(w.dropped);
    hw_vec_done(&w.todo);
    return rc;
}
