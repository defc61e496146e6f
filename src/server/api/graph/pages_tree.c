#include "server/api/graph/pages_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/ids.h"
#include "server/api/graph/flame_block.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

int hw_page_tree_init(struct hw_page_tree *t)
{
    uint32_t id;
    *t = (struct hw_page_tree){0};
    int rc = hw_page_tree_text(t, "all", 3, &id);
    return rc < 0 ? rc : hw_page_tree_text(t, "", 0, &id);
}

void hw_page_tree_done(struct hw_page_tree *t)
{
    hw_vec_done(&t->v);
    hw_vec_done(&t->begins);
    hw_strbuf_done(&t->texts);
}

int hw_page_tree_text(struct hw_page_tree *t, const void *p, size_t n, uint32_t *out)
{
    if (t->texts.n + n > UINT32_MAX)
        return HW_ELIMIT;
    uint32_t begin = (uint32_t)t->texts.n;
    hw_strbuf_add(&t->texts, p, n);
    if (t->texts.failed || hw_vec_push(&t->begins, begin) < 0)
        return HW_ENOMEM;
    *out = (uint32_t)t->begins.n - 1;
    return HW_OK;
}

/* ---- sums and order ---- */

struct sums {
    double width, samples, a, b;
};

struct arranged {
    const struct hw_page_tree *t;
    struct sums *sum;        /* by node; [n]: the root */
    uint32_t *first, *order; /* children of node k: order[first[k] .. first[k + 1]) */
};

static uint32_t parent_of(const struct hw_page_tree *t, size_t i)
{
    return t->v.v[i].parent == HW_ID_NONE ? (uint32_t)t->v.n : t->v.v[i].parent;
}

static void add(struct sums *to, const struct sums *s)
{
    to->width += s->width;
    to->samples += s->samples;
    to->a += s->a;
    to->b += s->b;
}

static int by_parent_and_width(const void *pa, const void *pb, void *ctx)
{
    const struct arranged *x = ctx;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    uint32_t above_a = parent_of(x->t, a), above_b = parent_of(x->t, b);
    if (above_a != above_b)
        return above_a < above_b ? -1 : 1;
    if (x->sum[a].width > x->sum[b].width || x->sum[a].width < x->sum[b].width)
        return x->sum[a].width > x->sum[b].width ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int arrange(const struct hw_page_tree *t, struct arranged *x)
{
    size_t n = t->v.n;
    *x = (struct arranged){.t = t,
                           .sum = calloc(n + 1, sizeof *x->sum),
                           .first = calloc(n + 2, sizeof *x->first),
                           .order = calloc(n + 1, sizeof *x->order)};
    if (!x->sum || !x->first || !x->order)
        return HW_ENOMEM;
    for (size_t i = n; i-- > 0;) {
        const struct hw_page_node *node = &t->v.v[i];
        add(&x->sum[i], &(struct sums){node->self, node->samples, node->a, node->b});
        add(&x->sum[parent_of(t, i)], &x->sum[i]);
        x->order[i] = (uint32_t)i;
        x->first[parent_of(t, i) + 1]++;
    }
    for (size_t k = 0; k <= n; k++)
        x->first[k + 1] += x->first[k];
    if (n > 1)
        qsort_r(x->order, n, sizeof *x->order, by_parent_and_width, x);
    return HW_OK;
}

/* ---- boxes ---- */

struct box {
    int32_t parent;
    uint32_t depth, name, module;
    uint8_t flags;
    double self;
    struct sums s;
};

static int put(struct hw_flame_block *o, const struct box *x)
{
    unsigned sides = (x->s.b <= 0 && x->s.a > 0 ? HW_PAGE_NODE_ONLY_A : 0) |
                     (x->s.a <= 0 && x->s.b > 0 ? HW_PAGE_NODE_ONLY_B : 0);
    struct hw_flame_box box = {.parent = x->parent,
                               .depth = x->depth,
                               .name = x->name,
                               .module = x->module,
                               .flags = (uint8_t)(x->flags | sides),
                               .self = x->self,
                               .cum = x->s.width,
                               .samples = x->s.samples,
                               .a = x->s.a,
                               .b = x->s.b};
    return hw_flame_block_put(o, &box);
}

/* Merges order[from .. until): too small or too deep for boxes of their own. */
static int put_merged(struct hw_flame_block *o, const struct arranged *x, uint32_t from,
                      uint32_t until, const struct box *like)
{
    struct box m = *like;
    char text[48];
    m.s = (struct sums){0};
    for (uint32_t i = from; i < until; i++)
        add(&m.s, &x->sum[x->order[i]]);
    int len = snprintf(text, sizeof text, "(%u %s)", until - from,
                       m.depth >= HW_PAGE_TREE_LEVELS ? "deeper" : "small ones");
    m.self = m.s.width;
    m.flags = HW_PAGE_NODE_MERGED;
    m.module = 1;
    int rc = hw_flame_block_text(o, text, (size_t)len, &m.name);
    return rc < 0 ? rc : put(o, &m);
}

struct open {
    uint32_t index, next, until;
};

/* Without recursion: a linked list of a million objects is a tree a million levels deep. */
static int walk(struct hw_flame_block *o, const struct arranged *x, double min)
{
    uint32_t root = (uint32_t)x->t->v.n;
    HW_VEC(struct open) open = {0};
    int rc = put(o, &(struct box){.parent = -1, .module = 1, .s = x->sum[root]});
    if (rc == HW_OK)
        rc = hw_vec_push(&open, (struct open){0, x->first[root], x->first[root + 1]});
    while (rc == HW_OK && open.n) {
        struct open *top = &open.v[open.n - 1];
        uint32_t node = top->next < top->until ? x->order[top->next] : 0;
        const struct hw_page_node *n = &x->t->v.v[node];
        struct box box = {.parent = (int32_t)top->index, .depth = (uint32_t)open.n};
        uint32_t n_left = top->until - top->next;
        if (n_left == 0 || x->sum[node].width <= 0) {
            hw_flame_block_close(o, top->index);
            open.n--;
        } else if ((x->sum[node].width < min && n_left > 1) || open.n >= HW_PAGE_TREE_LEVELS) {
            rc = put_merged(o, x, top->next, top->until, &box);
            top->next = top->until;
        } else {
            top->next++;
            uint32_t index = (uint32_t)o->parent.n;
            box.name = n->name;
            box.module = n->module;
            box.flags = n->flags;
            box.self = n->self;
            box.s = x->sum[node];
            rc = put(o, &box);
            if (rc == HW_OK)
                rc = hw_vec_push(&open, (struct open){index, x->first[node], x->first[node + 1]});
        }
    }
    hw_vec_done(&open);
    return rc;
}

/* The tree's texts; those of merged boxes follow. */
static int copy_texts(const struct hw_page_tree *t, struct hw_flame_block *o)
{
    if (hw_vec_reserve(&o->begins, t->begins.n) < 0)
        return HW_ENOMEM;
    memcpy(o->begins.v, t->begins.v, t->begins.n * sizeof *o->begins.v);
    o->begins.n = t->begins.n;
    hw_strbuf_add(&o->texts, t->texts.p, t->texts.n);
    return o->texts.failed ? HW_ENOMEM : HW_OK;
}

int hw_page_tree_put(const struct hw_page_tree *t, double min_share, struct hw_strbuf *out)
{
    struct arranged x;
    struct hw_flame_block o = {.has_sides = t->has_sides};
    int rc = arrange(t, &x);
    if (rc == HW_OK) {
        double share = min_share > 0                  ? min_share
                       : t->v.n > HW_FLAME_BLOCK_MANY ? HW_FLAME_BLOCK_SMALL
                                                      : 0;
        rc = copy_texts(t, &o);
        if (rc == HW_OK)
            rc = walk(&o, &x, x.sum[t->v.n].width * share);
    }
    if (rc == HW_OK)
        rc = hw_flame_block_write(
            &o, &(struct hw_flame_head){.unfiltered = o.cum.v[0], .ts_ns = t->ts_ns, .interval = 1},
            out);
    hw_flame_block_done(&o);
    free(x.sum);
    free(x.first);
    free(x.order);
    return rc;
}
