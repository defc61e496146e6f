#include "import/perfetto/heap_graph_blocks.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "codec/pb.h"
#include "import/perfetto/heap_graph_natives.h"
#include "model/graph/heap_graph_build.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_BLOCK(name) HW_F_ManagedBlock_##name
#define F_LINK(name)  HW_F_ManagedLinks_##name

static int64_t size_of(uint64_t v)
{
    return v > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)v;
}

int hw_heap_graph_read_block(struct hw_bytes message, hw_raw_blocks *to)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_raw_block b = {.number = (uint32_t)to->n};
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == F_BLOCK(object_id))
            b.object_id = f.value;
        else if (f.number == F_BLOCK(kind))
            b.kind = f.value < HW_BLOCK_COUNT ? (uint8_t)f.value : HW_BLOCK_UNKNOWN;
        else if (f.number == F_BLOCK(bytes))
            b.bytes = size_of(f.value);
    }
    if (to->n >= UINT32_MAX)
        return HW_ELIMIT;
    if (hw_vec_push(to, b) < 0) /* a broken one takes a number, too */
        return HW_ENOMEM;
    return rc == 0 && b.object_id != 0;
}

/* ---- blocks ---- */

int hw_heap_graph_add_blocks(const struct hw_graph_builder *b, const hw_raw_blocks *blocks,
                             struct hw_heap_graph *g, uint64_t *lost)
{
    *lost = 0;
    for (size_t i = 0; i < blocks->n; i++) {
        const struct hw_raw_block *t = &blocks->v[i];
        struct hw_heap_block block = {HW_ID_NONE, t->kind, t->bytes};
        if (!t->object_id || !hw_graph_find(b, t->object_id, &block.object))
            ++*lost;
        if (hw_vec_push(&g->blocks, block) < 0)
            return HW_ENOMEM;
        struct hw_heap_native native = {block.object, block.bytes};
        if (block.object != HW_ID_NONE && block.kind != HW_BLOCK_MAPPED && block.bytes > 0 &&
            hw_vec_push(&g->native, native) < 0)
            return HW_ENOMEM;
    }
    hw_heap_graph_sum_natives(g);
    return HW_OK;
}

/* ---- links ---- */

void hw_raw_links_done(struct hw_raw_links *l)
{
    hw_vec_done(&l->v);
    hw_vec_done(&l->graphs);
}

/* 1, 0 = broken, < 0. */
static int read_link(struct hw_bytes message, const struct hw_packet *p,
                     struct hw_interned *interned, struct hw_heap_link *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t iid = 0;
    int rc;
    *out = (struct hw_heap_link){.block = HW_ID_NONE};
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == F_LINK(Link_block))
            out->block = f.value < HW_ID_NONE ? (uint32_t)f.value : HW_ID_NONE;
        else if (f.number == F_LINK(Link_callstack_id))
            iid = f.value;
        else if (f.number == F_LINK(Link_alloc_size))
            out->alloc_size = size_of(f.value);
        else if (f.number == F_LINK(Link_sample_size))
            out->sample_size = size_of(f.value);
    }
    if (rc < 0 || out->block == HW_ID_NONE)
        return 0;
    return hw_interned_callstack(interned, p->sequence, p->generation, iid, &out->callsite);
}

int hw_raw_links_packet(struct hw_raw_links *l, const struct hw_packet *p, int64_t ts_ns,
                        struct hw_interned *interned)
{
    struct hw_pb_reader r = hw_pb_read(p->data);
    struct hw_pb_field f;
    struct hw_raw_link t = {.ts_ns = ts_ns};
    int rc;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == F_LINK(pid))
            t.pid = (int32_t)f.value;
    struct hw_raw_graph of = {t.pid, ts_ns};
    if (hw_vec_push(&l->graphs, of) < 0)
        return HW_ENOMEM;
    r = hw_pb_read(p->data);
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number != F_LINK(links) || f.wire != HW_PB_BYTES)
            continue;
        rc = read_link(f.bytes, p, interned, &t.link);
        if (rc < 0)
            return rc;
        l->n_broken += rc == 0;
        if (rc == 1 && hw_vec_push(&l->v, t) < 0)
            return HW_ENOMEM;
    }
    l->n_broken += rc < 0;
    return HW_OK;
}

/* Graphs sorted by time and process: a file may have as many of them as links. */
struct known_graph {
    int64_t ts_ns, pid;
    struct hw_heap_graph *g;
};

static int by_time(const void *pa, const void *pb)
{
    const struct known_graph *a = pa, *b = pb;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

static struct known_graph *list_graphs(const struct hw_profile *p)
{
    struct known_graph *all = calloc(p->graphs.n + 1, sizeof *all);
    for (size_t i = 0; all && i < p->graphs.n; i++) {
        struct hw_heap_graph *g = p->graphs.v[i];
        all[i] = (struct known_graph){g->ts_ns, p->processes.v[g->upid.v].pid, g};
    }
    if (all && p->graphs.n)
        qsort(all, p->graphs.n, sizeof *all, by_time);
    return all;
}

static struct hw_heap_graph *graph_of(const struct known_graph *all, size_t n, int64_t pid,
                                      int64_t ts_ns)
{
    const struct known_graph key = {.ts_ns = ts_ns, .pid = pid};
    const struct known_graph *found = n ? bsearch(&key, all, n, sizeof *all, by_time) : NULL;
    return found ? found->g : NULL;
}

static int by_block(const void *pa, const void *pb)
{
    const struct hw_heap_link *a = pa, *b = pb;
    if (a->block != b->block)
        return a->block < b->block ? -1 : 1;
    return (a->callsite.v > b->callsite.v) - (a->callsite.v < b->callsite.v);
}

/* Blocks of unknown objects were kept until now, as links refer to blocks by number. */
static int drop_strays(struct hw_heap_graph *g)
{
    uint32_t *new_number = malloc((g->blocks.n + 1) * sizeof *new_number);
    size_t n = 0, k = 0;
    if (!new_number)
        return HW_ENOMEM;
    for (size_t i = 0; i < g->blocks.n; i++) {
        bool stays = g->blocks.v[i].object != HW_ID_NONE;
        new_number[i] = stays ? (uint32_t)n : HW_ID_NONE;
        if (stays)
            g->blocks.v[n++] = g->blocks.v[i];
    }
    for (size_t i = 0; i < g->links.n; i++) {
        struct hw_heap_link link = g->links.v[i];
        link.block = new_number[link.block];
        if (link.block != HW_ID_NONE)
            g->links.v[k++] = link;
    }
    g->blocks.n = n;
    g->links.n = k;
    if (k)
        qsort(g->links.v, k, sizeof *g->links.v, by_block);
    free(new_number);
    return HW_OK;
}

int hw_raw_links_finish(struct hw_raw_links *l, struct hw_profile *p)
{
    hw_autofree struct known_graph *all = list_graphs(p);
    size_t n = p->graphs.n;
    struct hw_heap_graph *g;
    int rc = all ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; i < l->graphs.n && rc == HW_OK; i++)
        if ((g = graph_of(all, n, l->graphs.v[i].pid, l->graphs.v[i].ts_ns)))
            g->is_linked = true;
    for (size_t i = 0; i < l->v.n && rc == HW_OK; i++) {
        const struct hw_raw_link *t = &l->v.v[i];
        g = graph_of(all, n, t->pid, t->ts_ns);
        if (!g || t->link.block >= g->blocks.n)
            l->n_broken++;
        else if (hw_vec_push(&g->links, t->link) < 0)
            rc = HW_ENOMEM;
    }
    for (size_t i = 0; i < n && rc == HW_OK; i++)
        rc = drop_strays(p->graphs.v[i]);
    if (rc == HW_OK && l->n_broken)
        rc = hw_profile_stat_add(p, "heap_graph_malformed_packet", -1, HW_STAT_ERROR,
                                 l->n_broken > INT64_MAX ? INT64_MAX : (int64_t)l->n_broken);
    return rc;
}
