#include "server/api/saved/graph_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/radix.h"
#include "codec/gzip.h"
#include "server/api/graph/flame_block.h"
#include "server/api/saved/graph_arrays.h"
#include "server/api/saved/graph_pack.h"

#include "base/banned.h"

enum { FEWEST = 64 }; /* boxes: fewer are no graph */

/* ---- fewer boxes ---- */

static double size_of(const struct hw_graph_arrays *g, uint32_t i)
{
    return g->a ? fmax(g->a[i], g->b[i]) : g->cum[i];
}

/* The boxes, larger ones first. A parent is not smaller than its children and stands before them. */
static int sort_boxes(const struct hw_graph_arrays *g, struct hw_radix16 **out)
{
    struct hw_radix16 *all = malloc(g->n * sizeof *all);
    for (uint32_t i = 0; all && i < g->n; i++) {
        double size = fmax(0, size_of(g, i)); /* then its bits are in order of size */
        uint64_t bits;
        memcpy(&bits, &size, sizeof bits);
        all[i] = (struct hw_radix16){.key = ~bits, .a = i};
    }
    int rc = all ? hw_radix_sort16(all, g->n) : HW_ENOMEM;
    if (rc < 0)
        free(all);
    else
        *out = all;
    return rc;
}

static void choose(const struct hw_graph_arrays *g, const struct hw_radix16 *sorted,
                   uint32_t n_most, uint8_t *stays)
{
    stays[0] = 1;
    for (uint32_t k = 0; k < g->n && k < n_most; k++)
        stays[sorted[k].a] = 1;
    for (uint32_t i = 1; i < g->n; i++)
        stays[i] &= stays[g->parent[i]];
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

static int trim(const struct hw_graph_arrays *g, const struct hw_radix16 *sorted, uint32_t n_most,
                struct hw_strbuf *out)
{
    struct trim t = {.g = *g};
    const struct hw_flame_head head = {.flags = g->flags & ~HW_FLAME_BLOCK_SIDES,
                                       .unfiltered = g->figures[1],
                                       .ts_ns = g->figures[3],
                                       .interval = g->figures[4]};
    t.out.has_sides = g->a != NULL;
    t.text_of = calloc((size_t)g->n_texts + 1, sizeof *t.text_of);
    uint8_t *stays = calloc(g->n, 1);
    int rc = t.text_of && stays ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK) {
        choose(g, sorted, n_most, stays);
        rc = copy_boxes(&t, stays);
    }
    if (rc == HW_OK)
        rc = hw_flame_block_write(&t.out, &head, out);
    free(stays);
    free(t.text_of);
    hw_vec_done(&t.open);
    hw_flame_block_done(&t.out);
    return rc;
}

int hw_graph_trim(struct hw_bytes graph, uint32_t n_most, struct hw_strbuf *out)
{
    struct hw_graph_arrays g;
    struct hw_radix16 *sorted = NULL;
    int rc = hw_graph_arrays_read(graph, &g);
    if (rc == HW_OK)
        rc = sort_boxes(&g, &sorted);
    if (rc == HW_OK)
        rc = trim(&g, sorted, n_most, out);
    free(sorted);
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

struct fit {
    struct hw_graph_arrays g;
    struct hw_radix16 *sorted;
    struct hw_strbuf tried, best; /* trimmed graphs; best: the largest that fits */
    size_t most, best_bytes, tried_bytes;
    uint32_t n_best;
};

static int try_boxes(struct fit *f, uint32_t n, const struct hw_strings *texts)
{
    hw_strbuf_clear(&f->tried);
    int rc = trim(&f->g, f->sorted, n, &f->tried);
    if (rc == HW_OK)
        rc = try_pack(hw_bytes_of(f->tried.p, f->tried.n), texts, &f->tried_bytes);
    if (rc < 0 || f->tried_bytes > f->most)
        return rc;
    struct hw_strbuf fits = f->tried;
    f->tried = f->best;
    f->best = fits;
    f->best_bytes = f->tried_bytes;
    f->n_best = n;
    return HW_OK;
}

/*
 * The first try costs little against a graph that is much too large, and tells what a box takes;
 * the next is by that, a little below. Small boxes have small figures and take less: so the second
 * try leaves some room, and a third is made only if that is more than a tenth.
 */
static int find_boxes(struct fit *f, const struct hw_strings *texts)
{
    enum { BYTES = 8, TRIES = 6 }; /* BYTES: what a box may take; some take 4, some 20 */
    double n = (double)f->most / BYTES < f->g.n / 2.0 ? (double)f->most / BYTES : f->g.n;
    uint32_t too_many = f->g.n + 1;
    int rc = HW_OK;
    for (int i = 0; rc == HW_OK && i < TRIES && n >= 1; i++) {
        uint32_t boxes = (uint32_t)fmin(fmax(n, FEWEST), f->g.n);
        if (boxes <= f->n_best || boxes >= too_many)
            break;
        rc = try_boxes(f, boxes, texts);
        bool fits = f->n_best == boxes;
        if (fits && (boxes == f->g.n || f->best_bytes > f->most - f->most / 10))
            break;
        too_many = fits ? too_many : boxes;
        n = 0.97 * boxes * (double)f->most / (double)f->tried_bytes;
        if (n >= too_many)
            n = ((double)too_many + f->n_best) / 2;
    }
    return rc;
}

int hw_graph_fit(struct hw_bytes graph, size_t most, struct hw_strings *texts,
                 struct hw_strbuf *out, size_t *n_bytes)
{
    struct fit f = {.most = most};
    int rc = hw_graph_arrays_read(graph, &f.g);
    if (rc == HW_OK)
        rc = sort_boxes(&f.g, &f.sorted);
    if (rc == HW_OK)
        rc = find_boxes(&f, texts);
    *n_bytes = f.best.n ? f.best_bytes : most + 1;
    if (rc == HW_OK && f.best.n) {
        size_t graph_bytes;
        rc = pack(hw_bytes_of(f.best.p, f.best.n), NULL, texts, out, &graph_bytes);
    }
    free(f.sorted);
    hw_strbuf_done(&f.tried);
    hw_strbuf_done(&f.best);
    return rc;
}
