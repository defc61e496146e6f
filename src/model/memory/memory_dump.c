/* Filling and sorting; memory_sizes.c computes the sizes. */
#include "model/memory/memory_dump.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "model/memory/memory_sizes.h"
#include "model/memory/memory_weak.h"
#include "model/profile.h"

#include "base/banned.h"

/* Each parent is a node with its own path: without MAX_DEPTH, 4 KiB of slashes would become 8 MiB
 * of paths. */
enum { MAX_NODES = 1 << 26, MAX_PATH = 4096, MAX_DEPTH = 64 };

void hw_memory_dumps_done(struct hw_memory_dumps *m)
{
    hw_vec_done(&m->snapshots);
    hw_vec_done(&m->processes);
    hw_vec_done(&m->nodes);
    hw_vec_done(&m->edges);
    hw_map64_done(&m->by_ts);
    hw_map64_done(&m->by_process);
    hw_map64_done(&m->by_path);
}

int hw_memory_snapshot(struct hw_memory_dumps *m, int64_t ts_ns, enum hw_memory_detail detail,
                       uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    if (m->snapshots.n >= UINT32_MAX - 1)
        return HW_ELIMIT;
    if (hw_vec_reserve(&m->snapshots, m->snapshots.n + 1) < 0)
        return HW_ENOMEM;
    int rc = hw_map64_at(&m->by_ts, (uint64_t)ts_ns, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = m->snapshots.n;
        m->snapshots.v[m->snapshots.n++] = (struct hw_memory_snapshot){ts_ns, detail};
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

int hw_memory_process(struct hw_memory_dumps *m, uint32_t snapshot, hw_upid upid, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    if (hw_vec_reserve(&m->processes, m->processes.n + 1) < 0)
        return HW_ENOMEM;
    /* UINT32_MAX - 1 is no upid either, and avoids the map's reserved key. */
    uint32_t id = upid.v == HW_ID_NONE ? HW_ID_NONE - 1 : upid.v;
    int rc = hw_map64_at(&m->by_process, (uint64_t)snapshot << 32 | id, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = m->processes.n;
        m->processes.v[m->processes.n++] = (struct hw_memory_process){snapshot, upid};
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

/* Finds or adds one node by its path. */
static int node_at(struct hw_profile *p, uint32_t process, struct hw_bytes path, uint32_t parent,
                   uint32_t *out)
{
    struct hw_memory_dumps *m = &p->memory;
    hw_str_id name;
    uint64_t *at;
    bool fresh;
    int rc = hw_profile_str(p, path, &name);
    if (rc < 0)
        return rc;
    if (m->nodes.n >= MAX_NODES)
        return HW_ELIMIT;
    if (hw_vec_reserve(&m->nodes, m->nodes.n + 1) < 0)
        return HW_ENOMEM;
    rc = hw_map64_at(&m->by_path, (uint64_t)process << 32 | name.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = m->nodes.n;
        m->nodes.v[m->nodes.n++] = (struct hw_memory_node){
            .process = process, .parent = parent, .path = name, .arg_set = HW_ID_NONE};
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static size_t depth_of(struct hw_bytes path)
{
    size_t n = 1;
    for (size_t i = 0; i < path.n; i++)
        n += path.p[i] == '/';
    return n;
}

int hw_memory_node(struct hw_profile *p, uint32_t process, struct hw_bytes path, uint64_t guid,
                   struct hw_memory_node **out)
{
    static const char global[] = "global/";
    struct hw_memory_dumps *m = &p->memory;
    uint32_t node = HW_ID_NONE, snapshot = m->processes.v[process].snapshot;
    int rc = HW_OK;
    if (path.n == 0 || path.n > MAX_PATH || depth_of(path) > MAX_DEPTH)
        return HW_EINVAL;
    if (path.n > sizeof global - 1 && memcmp(path.p, global, sizeof global - 1) == 0)
        rc = hw_memory_process(m, snapshot, (hw_upid){HW_ID_NONE}, &process);
    for (size_t i = 0; rc == HW_OK && i <= path.n; i++)
        if (i == path.n || path.p[i] == '/')
            rc = i ? node_at(p, process, hw_bytes_of(path.p, i), node, &node) : HW_EINVAL;
    if (rc < 0)
        return rc;
    *out = &m->nodes.v[node];
    if ((*out)->guid == 0)
        (*out)->guid = guid;
    return HW_OK;
}

int hw_memory_report_node(const struct hw_memory_dumps *m, struct hw_memory_node *n, bool weak)
{
    bool full = n->has_size || n->arg_set != HW_ID_NONE;
    bool shared = m->processes.v[n->process].upid.v == HW_ID_NONE;
    if (full && !shared)
        return HW_EINVAL;
    n->weak = n->told && shared ? n->weak && weak : weak;
    n->told = true;
    return !full;
}

int hw_memory_edge(struct hw_memory_dumps *m, uint32_t snapshot, uint64_t source_guid,
                   uint64_t target_guid, uint32_t importance)
{
    struct hw_memory_edge e = {source_guid, target_guid, snapshot,
                               HW_ID_NONE,  HW_ID_NONE,  importance};
    return hw_vec_push(&m->edges, e) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- finish ---- */

struct guid_node {
    uint32_t snapshot, node;
    uint64_t guid;
};

static int compare_guids(const void *pa, const void *pb)
{
    const struct guid_node *a = pa, *b = pb;
    if (a->snapshot != b->snapshot)
        return a->snapshot < b->snapshot ? -1 : 1;
    if (a->guid != b->guid)
        return a->guid < b->guid ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static uint32_t find_guid(const struct guid_node *guids, size_t n, uint32_t snapshot, uint64_t guid)
{
    struct guid_node key = {snapshot, 0, guid};
    size_t lo = HW_LOWER_BOUND(mid, 0, n, compare_guids(&guids[mid], &key) < 0);
    bool found = lo < n && guids[lo].snapshot == snapshot && guids[lo].guid == guid;
    return found ? guids[lo].node : HW_ID_NONE;
}

/* Sets the nodes of edges; edges without nodes and second edges of a source are left out. */
static int link_edges(struct hw_memory_dumps *m)
{
    hw_autofree struct guid_node *guids = calloc(m->nodes.n + 1, sizeof *guids);
    hw_autofree bool *owns = calloc(m->nodes.n + 1, sizeof *owns);
    size_t n = 0, kept = 0;
    if (!guids || !owns)
        return HW_ENOMEM;
    for (size_t i = 0; i < m->nodes.n; i++)
        if (m->nodes.v[i].guid)
            guids[n++] = (struct guid_node){m->processes.v[m->nodes.v[i].process].snapshot,
                                            (uint32_t)i, m->nodes.v[i].guid};
    qsort(guids, n, sizeof *guids, compare_guids);
    for (size_t i = 0; i < m->edges.n; i++) {
        struct hw_memory_edge e = m->edges.v[i];
        if (e.source == HW_ID_NONE) {
            e.source = find_guid(guids, n, e.snapshot, e.source_guid);
            e.target = find_guid(guids, n, e.snapshot, e.target_guid);
        }
        if (e.source == HW_ID_NONE || e.target == HW_ID_NONE || e.source == e.target ||
            owns[e.source]) {
            m->n_bad++;
            continue;
        }
        owns[e.source] = true;
        m->edges.v[kept++] = e;
    }
    m->edges.n = kept;
    return HW_OK;
}

/* The node of a path, HW_ID_NONE = none. */
static int find_path(struct hw_profile *p, uint32_t process, const char *path, uint32_t *out)
{
    hw_str_id name;
    uint64_t at;
    int rc = hw_profile_str(p, hw_bytes_str(path), &name);
    *out = rc == HW_OK && hw_map64_get(&p->memory.by_path, (uint64_t)process << 32 | name.v, &at)
               ? (uint32_t)at
               : HW_ID_NONE;
    return rc;
}

/* The recorder's own memory is in the process's allocator: it is charged only to `tracing`, unless
 * that has an edge of its own. */
static int link_tracing(struct hw_profile *p, uint32_t process, const bool *owns)
{
    struct hw_memory_dumps *m = &p->memory;
    struct hw_memory_node *overhead;
    uint32_t tracing, winheap = HW_ID_NONE, plain = HW_ID_NONE;
    int rc = find_path(p, process, "tracing", &tracing);
    if (rc == HW_OK && tracing != HW_ID_NONE)
        rc = find_path(p, process, "winheap", &winheap);
    if (rc == HW_OK && tracing != HW_ID_NONE)
        rc = find_path(p, process, "malloc", &plain);
    if (rc < 0 || tracing == HW_ID_NONE || owns[tracing] ||
        (winheap == HW_ID_NONE && plain == HW_ID_NONE))
        return rc;
    rc = hw_memory_node(p, process,
                        hw_bytes_str(winheap != HW_ID_NONE
                                         ? "winheap/allocated_objects/tracing_overhead"
                                         : "malloc/allocated_objects/tracing_overhead"),
                        0, &overhead);
    if (rc < 0)
        return rc;
    struct hw_memory_edge e = {.snapshot = m->processes.v[process].snapshot,
                               .source = tracing,
                               .target = (uint32_t)(overhead - m->nodes.v)};
    return hw_vec_push(&m->edges, e) < 0 ? HW_ENOMEM : HW_OK;
}

/* After weak nodes are dropped, so that these get no overhead nodes. */
static int link_all_tracing(struct hw_profile *p)
{
    struct hw_memory_dumps *m = &p->memory;
    hw_autofree bool *owns = calloc(m->nodes.n + 1, sizeof *owns);
    int rc = owns ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; owns && i < m->edges.n; i++)
        owns[m->edges.v[i].source] = true;
    for (uint32_t q = 0; rc == HW_OK && q < m->processes.n; q++)
        rc = link_tracing(p, q, owns);
    return rc;
}

/* ---- the order of rows ---- */

/* Depth first, children in their original order, process by process. */
static int order_nodes(const struct hw_memory_dumps *m, const struct hw_memory_children *c,
                       uint32_t *new_of_old)
{
    HW_VEC(uint32_t) stack = {0};
    uint32_t next = 0;
    int rc = HW_OK;
    for (size_t q = 0; rc == HW_OK && q < m->processes.n; q++) {
        for (uint32_t root = c->first_root[q]; rc == HW_OK && root != HW_ID_NONE;
             root = c->next[root]) {
            if (hw_vec_push(&stack, root) < 0)
                rc = HW_ENOMEM;
            while (rc == HW_OK && stack.n) {
                uint32_t n = stack.v[--stack.n];
                size_t from = stack.n;
                new_of_old[n] = next++;
                for (uint32_t k = c->first[n]; rc == HW_OK && k != HW_ID_NONE; k = c->next[k])
                    if (hw_vec_push(&stack, k) < 0)
                        rc = HW_ENOMEM;
                for (size_t i = from, j = stack.n; i + 1 < j; i++) { /* the first one on top */
                    uint32_t t = stack.v[i];
                    stack.v[i] = stack.v[--j];
                    stack.v[j] = t;
                }
            }
        }
    }
    hw_vec_done(&stack);
    return rc;
}

static int sort_nodes(struct hw_memory_dumps *m, const struct hw_memory_children *c)
{
    hw_autofree uint32_t *new_index = calloc(m->nodes.n + 1, sizeof *new_index);
    struct hw_memory_node *sorted = calloc(m->nodes.n + 1, sizeof *sorted);
    int rc = new_index && sorted ? order_nodes(m, c, new_index) : HW_ENOMEM;
    if (rc < 0) {
        free(sorted);
        return rc;
    }
    for (size_t i = 0; i < m->nodes.n; i++) {
        struct hw_memory_node n = m->nodes.v[i];
        n.parent = n.parent == HW_ID_NONE ? HW_ID_NONE : new_index[n.parent];
        sorted[new_index[i]] = n;
    }
    for (size_t i = 0; i < m->edges.n; i++) {
        m->edges.v[i].source = new_index[m->edges.v[i].source];
        m->edges.v[i].target = new_index[m->edges.v[i].target];
    }
    free(m->nodes.v);
    m->nodes.v = sorted;
    m->nodes.cap = m->nodes.n + 1;
    return HW_OK;
}

int hw_memory_dumps_finish(struct hw_profile *p)
{
    struct hw_memory_dumps *m = &p->memory;
    struct hw_memory_children c = {0};
    if (m->nodes.n == 0)
        return HW_OK;
    int rc = link_edges(m);
    if (rc == HW_OK)
        rc = hw_memory_drop_weak(m);
    if (rc == HW_OK)
        rc = link_all_tracing(p);
    if (rc == HW_OK)
        rc = hw_memory_sizes(p);
    if (rc == HW_OK)
        rc = hw_memory_children_init(&c, m);
    if (rc == HW_OK)
        rc = sort_nodes(m, &c);
    hw_memory_children_done(&c);
    return rc;
}
