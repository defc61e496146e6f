/*
 * Large callstacks as a profile of one dump, which every exporter can write, and as a tree of
 * nested objects for tree viewers. The tree may be as deep as a callstack, so it is written without
 * recursion: a callsite is closed when the next one is not below it.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "export/large_stacks.h"
#include "views/time/series.h"

#include "base/banned.h"

struct filling {
    const struct hw_large_stacks *limits;
    struct hw_profile *p;
};

static int add_stack(void *ctx, const struct hw_detail_stack *s)
{
    struct filling *f = ctx;
    struct hw_callsites *cs = f->p->callsites;
    hw_callsite_id c = {HW_ID_NONE};
    int64_t size = hw_detail_growth(s->v.size), count = hw_detail_growth(s->v.count);
    int rc = HW_OK;
    if (count <= f->limits->min_count || size <= f->limits->min_size)
        return HW_OK;
    for (size_t i = s->n_frames; rc == HW_OK && i-- > 0;) {
        struct hw_frame frame = {.mapping = {HW_ID_NONE}};
        hw_frame_id id;
        rc = hw_profile_str(f->p, s->frames[i], &frame.name);
        if (rc == HW_OK)
            rc = hw_callsites_frame(cs, &frame, &id);
        if (rc == HW_OK)
            rc = hw_callsites_child(cs, c, id, &c);
    }
    if (rc < 0 || c.v == HW_ID_NONE)
        return rc;
    struct hw_alloc_row row = {.callsite = c, .samples = count, .count = count, .size = size};
    return hw_alloc_rows_push(&f->p->allocs, &row);
}

static int fill(struct filling *f, const struct hw_heap_details *d, int64_t pid, const char *heap)
{
    struct hw_heap_dump dump = {.ts_ns = 0};
    int rc = hw_profile_process(f->p, pid, &dump.upid);
    if (rc == HW_OK)
        rc = hw_profile_str(f->p, hw_bytes_str(heap), &dump.heap_name);
    if (rc == HW_OK && hw_vec_push(&f->p->dumps, dump) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_heap_details_stacks(d, add_stack, f);
    return rc < 0 ? rc : hw_profile_freeze(f->p);
}

int hw_large_stacks_profile(const struct hw_large_stacks *l, const struct hw_heap_details *d,
                            int64_t pid, const char *heap, struct hw_profile **out,
                            hw_values *values)
{
    struct filling f = {.limits = l};
    struct hw_series_list list = {0};
    int rc = hw_profile_new(&f.p);
    if (rc < 0)
        return rc;
    rc = fill(&f, d, pid, heap);
    if (rc == HW_OK)
        rc = hw_series_list_init(&list, f.p);
    hw_vec_clear(values);
    if (rc == HW_OK && list.v.n)
        rc = hw_values_at(f.p, &list.v.v[0], 0, values);
    hw_series_list_done(&list);
    if (rc < 0)
        hw_profile_free(f.p);
    else
        *out = f.p;
    return rc;
}

/* ---- the tree ---- */

struct node {
    uint32_t first, next; /* child, sibling; HW_ID_NONE */
    const struct hw_value *v;
};

static void put_name(struct hw_strbuf *out, struct hw_bytes name)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_strn(&j, name.p, name.n);
    if (hw_json_finish(&j) < 0)
        out->failed = true;
    else
        hw_strbuf_add(out, j.buf.p, j.buf.n);
    hw_json_done(&j);
}

static void open_node(struct hw_strbuf *out, const struct node *x, struct hw_bytes name)
{
    hw_strbuf_adds(out, "{\"name\":");
    put_name(out, name);
    if (x->v)
        hw_strbuf_addf(out, ",\"size\":\"%lld\",\"count\":\"%lld\"", (long long)x->v->space,
                       (long long)x->v->objects);
    if (x->first != HW_ID_NONE)
        hw_strbuf_adds(out, ",\"children\":[");
}

static struct hw_bytes name_of(struct hw_callsites *cs, uint32_t c)
{
    hw_frame_id f = hw_callsites_get(cs, (hw_callsite_id){c})->frame;
    return hw_strings_get(hw_callsites_strings(cs), hw_callsites_get_frame(cs, f)->name);
}

static void put_nodes(struct hw_strbuf *out, struct hw_callsites *cs, const struct node *nodes,
                      const struct node *root)
{
    uint32_t at = root->first;
    open_node(out, root, hw_bytes_str("."));
    while (at != HW_ID_NONE) {
        open_node(out, &nodes[at], name_of(cs, at));
        if (nodes[at].first != HW_ID_NONE) {
            at = nodes[at].first;
            continue;
        }
        hw_strbuf_adds(out, "}");
        while (at != HW_ID_NONE && nodes[at].next == HW_ID_NONE) {
            at = hw_callsites_get(cs, (hw_callsite_id){at})->parent.v;
            hw_strbuf_adds(out, "]}");
        }
        if (at != HW_ID_NONE) {
            at = nodes[at].next;
            hw_strbuf_adds(out, ",\n");
        }
    }
    hw_strbuf_adds(out, root->first == HW_ID_NONE ? "}\n" : "\n");
}

int hw_large_stacks_tree(const struct hw_profile *p, const hw_values *values, struct hw_strbuf *out)
{
    struct hw_callsites *cs = p->callsites;
    struct node root = {.first = HW_ID_NONE, .next = HW_ID_NONE};
    size_t n = hw_callsites_count(cs);
    struct node *nodes = calloc(n + 1, sizeof *nodes);
    if (!nodes)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        nodes[i].first = nodes[i].next = HW_ID_NONE;
    for (size_t i = 0; i < values->n; i++)
        nodes[values->v[i].callsite.v].v = &values->v[i].v;
    for (size_t i = n; i-- > 0;) { /* backwards, to keep siblings in order */
        uint32_t parent = hw_callsites_get(cs, (hw_callsite_id){(uint32_t)i})->parent.v;
        struct node *above = parent == HW_ID_NONE ? &root : &nodes[parent];
        nodes[i].next = above->first;
        above->first = (uint32_t)i;
    }
    put_nodes(out, cs, nodes, &root);
    free(nodes);
    return out->failed ? HW_ENOMEM : HW_OK;
}
