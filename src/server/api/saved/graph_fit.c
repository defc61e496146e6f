#include "server/api/saved/graph_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/gzip.h"
#include "server/api/graph/flame_block.h"
#include "server/api/saved/graph_arrays.h"
#include "server/api/saved/graph_pack.h"

#include "base/banned.h"

enum { FEWEST = 64 }; /* boxes: fewer are no graph */

/* ---- fewer boxes ---- */

struct sized {
    double size;
    uint32_t box;
};

static double size_of(const struct hw_graph_arrays *g, uint32_t i)
{
    return g->a ? fmax(g->a[i], g->b[i]) : g->cum[i];
}

/* A parent is not smaller than its children and stands before them. */
static int larger_first(const void *pa, const void *pb)
{
    const struct sized *a = pa, *b = pb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->box < b->box ? -1 : 1;
}

static int choose(const struct hw_graph_arrays *g, uint32_t n_most, uint8_t *stays)
{
    struct sized *all = malloc(g->n * sizeof *all);
    if (!all)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < g->n; i++)
        all[i] = (struct sized){size_of(g, i), i};
    qsort(all, g->n, sizeof *all, larger_first);
    stays[0] = 1;
    for (uint32_t k = 0; k < g->n && k < n_most; k++)
        stays[all[k].box] = 1;
    free(all);
    for (uint32_t i = 1; i < g->n; i++)
        stays[i] &= stays[g->parent[i]];
    return HW_OK;
}

struct open_box {
    uint32_t box, index; /* in the old graph and in the new one */
    uint32_t n_small;
    struct hw_flame_box small; /* error: its square */
};

struct trim {
    struct hw_graph_arrays g;
    struct hw_flame_block out;
    uint32_t *text_of; /* new id + 1 of an old one; 0 = none yet */
    HW_VEC(struct open_box) open;
};

static int text(struct trim *t, uint32_t old, uint32_t *out)
{
    if (!t->text_of[old]) {
        struct hw_bytes b = hw_graph_arrays_text(&t->g, old);
        int rc = hw_flame_block_text(&t->out, b.p, b.n, out);
        if (rc < 0)
            return rc;
        t->text_of[old] = *out + 1;
    }
    *out = t->text_of[old] - 1;
    return HW_OK;
}

/* How many boxes it stands for. */
static uint32_t n_of(const struct hw_graph_arrays *g, uint32_t i)
{
    char words[24] = "";
    struct hw_bytes b = hw_graph_arrays_text(g, g->name[i]);
    if ((g->node_flags[i] & HW_FLAME_BOX_MERGED) == 0)
        return 1;
    memcpy(words, b.p, b.n < sizeof words ? b.n : sizeof words - 1);
    unsigned long n = words[0] == '(' ? strtoul(words + 1, NULL, 10) : 1;
    return n > 0 && n < UINT32_MAX ? (uint32_t)n : 1;
}

static void add_small(const struct hw_graph_arrays *g, uint32_t i, struct open_box *o)
{
    o->n_small += n_of(g, i);
    o->small.cum += g->cum[i];
    o->small.samples += g->samples[i];
    o->small.error += g->error[i] * g->error[i];
    if (g->a) {
        o->small.a += g->a[i];
        o->small.b += g->b[i];
    }
}

static int close_box(struct trim *t)
{
    struct open_box o = t->open.v[--t->open.n];
    int rc = HW_OK;
    if (o.n_small) {
        char words[48];
        int n = snprintf(words, sizeof words, o.n_small == 1 ? "(1 small one)" : "(%u small ones)",
                         o.n_small);
        o.small.parent = (int32_t)o.index;
        o.small.depth = t->g.depth[o.box] + 1u;
        o.small.flags = HW_FLAME_BOX_MERGED;
        o.small.self = o.small.cum;
        o.small.error = sqrt(o.small.error);
        rc = hw_flame_block_text(&t->out, words, (size_t)n, &o.small.name);
        if (rc == HW_OK)
            rc = text(t, t->g.module[0], &o.small.module); /* the root has none */
        if (rc == HW_OK)
            rc = hw_flame_block_put(&t->out, &o.small);
    }
    hw_flame_block_close(&t->out, o.index);
    return rc;
}

static int keep_box(struct trim *t, uint32_t i)
{
    const struct hw_graph_arrays *g = &t->g;
    struct hw_flame_box x = {.parent = t->open.n ? (int32_t)t->open.v[t->open.n - 1].index : -1,
                             .depth = g->depth[i],
                             .flags = g->node_flags[i],
                             .self = g->self[i],
                             .cum = g->cum[i],
                             .error = g->error[i],
                             .a = g->a ? g->a[i] : 0,
                             .b = g->b ? g->b[i] : 0,
                             .samples = g->samples[i]};
    int rc = text(t, g->name[i], &x.name);
    if (rc == HW_OK)
        rc = text(t, g->module[i], &x.module);
    struct open_box o = {.box = i, .index = (uint32_t)t->out.parent.n};
    if (rc == HW_OK)
        rc = hw_flame_block_put(&t->out, &x);
    return rc == HW_OK && hw_vec_push(&t->open, o) < 0 ? HW_ENOMEM : rc;
}

static int copy_boxes(struct trim *t, const uint8_t *stays)
{
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < t->g.n;) {
        while (rc == HW_OK && t->open.n && t->g.end[t->open.v[t->open.n - 1].box] <= i)
            rc = close_box(t);
        if (rc == HW_OK && stays[i]) {
            rc = keep_box(t, i++);
        } else if (rc == HW_OK) {
            add_small(&t->g, i, &t->open.v[t->open.n - 1]);
            i = t->g.end[i];
        }
    }
    while (rc == HW_OK && t->open.n)
        rc = close_box(t);
    return rc;
}

int hw_graph_trim(struct hw_bytes graph, uint32_t n_most, struct hw_strbuf *out)
{
    struct trim t = {0};
    int rc = hw_graph_arrays_read(graph, &t.g);
    if (rc < 0)
        return rc;
    const struct hw_flame_head head = {.flags = t.g.flags & ~HW_FLAME_BLOCK_SIDES,
                                       .unfiltered = t.g.figures[1],
                                       .ts_ns = t.g.figures[3],
                                       .interval = t.g.figures[4]};
    t.out.has_sides = t.g.a != NULL;
    t.text_of = calloc((size_t)t.g.n_texts + 1, sizeof *t.text_of);
    uint8_t *stays = calloc(t.g.n, 1);
    rc = t.text_of && stays ? choose(&t.g, n_most, stays) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = copy_boxes(&t, stays);
    if (rc == HW_OK)
        rc = hw_flame_block_write(&t.out, &head, out);
    free(stays);
    free(t.text_of);
    hw_vec_done(&t.open);
    hw_flame_block_done(&t.out);
    return rc;
}

/* ---- as many as fit ---- */

/* Packs the graph; *n_bytes: of it and of the texts that `has` lacks. */
static int pack(struct hw_bytes graph, const struct hw_strings *has, struct hw_strings *texts,
                struct hw_strbuf *out, size_t *n_bytes)
{
    struct hw_strbuf packed = {0}, new_texts = {0}, squeezed = {0};
    int rc = hw_graph_pack(graph, texts, &packed);
    for (uint32_t i = 0; rc == HW_OK && has && i < hw_strings_count(texts); i++) {
        struct hw_bytes b = hw_strings_get(texts, (hw_str_id){i});
        if (!hw_strings_has(has, b)) {
            hw_strbuf_add(&new_texts, b.p, b.n);
            hw_strbuf_adds(&new_texts, "\",\"");
        }
    }
    if (rc == HW_OK)
        rc = hw_deflate(hw_bytes_of(packed.p, packed.n), HW_GZIP_GZIP, out, NULL);
    if (rc == HW_OK && new_texts.n)
        rc = hw_deflate(hw_bytes_of(new_texts.p, new_texts.n), HW_GZIP_GZIP, &squeezed, NULL);
    if (rc == HW_OK && new_texts.failed)
        rc = HW_ENOMEM;
    *n_bytes = out->n + squeezed.n;
    hw_strbuf_done(&packed);
    hw_strbuf_done(&new_texts);
    hw_strbuf_done(&squeezed);
    return rc;
}

static int try_pack(struct hw_bytes graph, const struct hw_strings *has, size_t *n_bytes)
{
    struct hw_strbuf ignored = {0};
    struct hw_strings *own = NULL;
    int rc = hw_strings_new(&own);
    if (rc == HW_OK)
        rc = pack(graph, has, own, &ignored, n_bytes);
    hw_strings_free(own);
    hw_strbuf_done(&ignored);
    return rc;
}

/* From a share that should fit, by what the whole takes, down. */
static int trim_to(struct hw_bytes graph, uint32_t n, size_t most, const struct hw_strings *texts,
                   struct hw_strbuf *trimmed, size_t *n_bytes)
{
    int rc = HW_OK;
    double share = (double)most / (double)*n_bytes;
    for (double k = share * n; rc == HW_OK && *n_bytes > most && k >= FEWEST; k *= 0.8) {
        hw_strbuf_clear(trimmed);
        rc = hw_graph_trim(graph, (uint32_t)k, trimmed);
        if (rc == HW_OK)
            rc = try_pack(hw_bytes_of(trimmed->p, trimmed->n), texts, n_bytes);
    }
    return rc;
}

int hw_graph_fit(struct hw_bytes graph, size_t most, struct hw_strings *texts,
                 struct hw_strbuf *out, size_t *n_bytes)
{
    struct hw_graph_arrays g;
    struct hw_strbuf trimmed = {0};
    int rc = hw_graph_arrays_read(graph, &g);
    if (rc == HW_OK)
        rc = try_pack(graph, texts, n_bytes);
    if (rc == HW_OK && *n_bytes > most)
        rc = trim_to(graph, g.n, most, texts, &trimmed, n_bytes);
    if (rc == HW_OK && *n_bytes <= most) {
        size_t graph_bytes;
        rc = pack(trimmed.n ? hw_bytes_of(trimmed.p, trimmed.n) : graph, NULL, texts, out,
                  &graph_bytes);
    }
    hw_strbuf_done(&trimmed);
    return rc;
}
