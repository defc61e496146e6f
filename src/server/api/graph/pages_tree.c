#include "server/api/graph/pages_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/ids.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

enum { HEADER_BYTES = 72, HAS_SIDES = 16, MANY = 1500000 };

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

static uint32_t above(const struct hw_page_tree *t, size_t i)
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
    uint32_t above_a = above(x->t, a), above_b = above(x->t, b);
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
        add(&x->sum[above(t, i)], &x->sum[i]);
        x->order[i] = (uint32_t)i;
        x->first[above(t, i) + 1]++;
    }
    for (size_t k = 0; k <= n; k++)
        x->first[k + 1] += x->first[k];
    if (n > 1)
        qsort_r(x->order, n, sizeof *x->order, by_parent_and_width, x);
    return HW_OK;
}

/* ---- the arrays ---- */

struct arrays {
    HW_VEC(int32_t) parent;
    HW_VEC(uint32_t) end, name, module, samples;
    HW_VEC(uint16_t) depth;
    HW_VEC(uint8_t) flags;
    HW_VEC(double) self, cum, a, b;
    HW_VEC(float) error;
    HW_VEC(uint32_t) begins;
    struct hw_strbuf texts; /* of merged nodes; they follow the tree's */
    uint32_t max_depth;
};

static void arrays_done(struct arrays *o)
{
    hw_vec_done(&o->parent);
    hw_vec_done(&o->end);
    hw_vec_done(&o->name);
    hw_vec_done(&o->module);
    hw_vec_done(&o->samples);
    hw_vec_done(&o->depth);
    hw_vec_done(&o->flags);
    hw_vec_done(&o->self);
    hw_vec_done(&o->cum);
    hw_vec_done(&o->a);
    hw_vec_done(&o->b);
    hw_vec_done(&o->error);
    hw_vec_done(&o->begins);
    hw_strbuf_done(&o->texts);
}

struct box {
    int32_t parent;
    uint32_t depth, name, module;
    uint8_t flags;
    double self;
    struct sums s;
};

static int put(struct arrays *o, const struct box *x)
{
    unsigned sides = (x->s.b <= 0 && x->s.a > 0 ? HW_PAGE_NODE_ONLY_A : 0) |
                     (x->s.a <= 0 && x->s.b > 0 ? HW_PAGE_NODE_ONLY_B : 0);
    if (o->parent.n >= INT32_MAX)
        return HW_ELIMIT;
    o->max_depth = x->depth > o->max_depth ? x->depth : o->max_depth;
    int rc = hw_vec_push(&o->parent, x->parent);
    rc |= hw_vec_push(&o->end, (uint32_t)o->parent.n);
    rc |= hw_vec_push(&o->depth, (uint16_t)x->depth);
    rc |= hw_vec_push(&o->name, x->name);
    rc |= hw_vec_push(&o->module, x->module);
    rc |= hw_vec_push(&o->flags, (uint8_t)(x->flags | sides));
    rc |= hw_vec_push(&o->self, x->self);
    rc |= hw_vec_push(&o->cum, x->s.width);
    rc |= hw_vec_push(&o->samples, x->s.samples < UINT32_MAX ? (uint32_t)x->s.samples : UINT32_MAX);
    rc |= hw_vec_push(&o->error, 0.0F);
    rc |= hw_vec_push(&o->a, x->s.a);
    rc |= hw_vec_push(&o->b, x->s.b);
    return rc ? HW_ENOMEM : HW_OK;
}

/* order[from .. until): too small, or too deep, to be boxes of their own. */
static int put_merged(struct arrays *o, const struct arranged *x, uint32_t from, uint32_t until,
                      const struct box *like)
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
    m.name = (uint32_t)(x->t->begins.n + o->begins.n);
    if (hw_vec_push(&o->begins, (uint32_t)(x->t->texts.n + o->texts.n)) < 0)
        return HW_ENOMEM;
    hw_strbuf_add(&o->texts, text, (size_t)len);
    return o->texts.failed ? HW_ENOMEM : put(o, &m);
}

struct open {
    uint32_t place, next, until;
};

/* Without recursion: a list of a million links is a tree a million levels deep. */
static int walk(struct arrays *o, const struct arranged *x, double min)
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
        struct box box = {.parent = (int32_t)top->place, .depth = (uint32_t)open.n};
        uint32_t n_left = top->until - top->next;
        if (n_left == 0 || x->sum[node].width <= 0) {
            o->end.v[top->place] = (uint32_t)o->parent.n;
            open.n--;
        } else if ((x->sum[node].width < min && n_left > 1) || open.n >= HW_PAGE_TREE_LEVELS) {
            rc = put_merged(o, x, top->next, top->until, &box);
            top->next = top->until;
        } else {
            top->next++;
            uint32_t place = (uint32_t)o->parent.n;
            box.name = n->name;
            box.module = n->module;
            box.flags = n->flags;
            box.self = n->self;
            box.s = x->sum[node];
            rc = put(o, &box);
            if (rc == HW_OK)
                rc = hw_vec_push(&open, (struct open){place, x->first[node], x->first[node + 1]});
        }
    }
    hw_vec_done(&open);
    return rc;
}

struct header {
    char magic[4];
    uint32_t version, flags, n, n_strings, n_metrics, max_depth, zero;
    double total, unfiltered, error, ts_ns, interval;
};
_Static_assert(sizeof(struct header) == HEADER_BYTES, "the page reads these offsets");

static int write_out(const struct hw_page_tree *t, struct arrays *o, struct hw_strbuf *b)
{
    size_t n = o->parent.n;
    HW_VEC(uint32_t) begins = {0};
    const struct header h = {.magic = {'H', 'F', 'G', '1'},
                             .version = 1,
                             .flags = t->has_sides ? HAS_SIDES : 0,
                             .n = (uint32_t)n,
                             .n_strings = (uint32_t)(t->begins.n + o->begins.n),
                             .n_metrics = 1,
                             .max_depth = o->max_depth,
                             .total = o->cum.v[0],
                             .unfiltered = o->cum.v[0],
                             .ts_ns = t->ts_ns,
                             .interval = 1};
    if (t->texts.n + o->texts.n > UINT32_MAX)
        return HW_ELIMIT;
    if (hw_vec_reserve(&begins, h.n_strings + 1) < 0)
        return HW_ENOMEM;
    memcpy(begins.v, t->begins.v, t->begins.n * sizeof *begins.v);
    if (o->begins.n)
        memcpy(begins.v + t->begins.n, o->begins.v, o->begins.n * sizeof *begins.v);
    begins.v[h.n_strings] = (uint32_t)(t->texts.n + o->texts.n);
    hw_page_put_array(b, &h, sizeof h);
    hw_page_put_array(b, o->parent.v, n * sizeof *o->parent.v);
    hw_page_put_array(b, o->end.v, n * sizeof *o->end.v);
    hw_page_put_array(b, o->depth.v, n * sizeof *o->depth.v);
    hw_page_put_array(b, o->name.v, n * sizeof *o->name.v);
    hw_page_put_array(b, o->module.v, n * sizeof *o->module.v);
    hw_page_put_array(b, o->flags.v, n * sizeof *o->flags.v);
    hw_page_put_array(b, o->self.v, n * sizeof *o->self.v);
    hw_page_put_array(b, o->cum.v, n * sizeof *o->cum.v);
    hw_page_put_array(b, o->samples.v, n * sizeof *o->samples.v);
    hw_page_put_array(b, o->error.v, n * sizeof *o->error.v);
    if (t->has_sides) {
        hw_page_put_array(b, o->a.v, n * sizeof *o->a.v);
        hw_page_put_array(b, o->b.v, n * sizeof *o->b.v);
    }
    hw_page_put_array(b, begins.v, (h.n_strings + 1) * sizeof *begins.v);
    hw_strbuf_add(b, t->texts.p, t->texts.n);
    if (o->texts.n)
        hw_strbuf_add(b, o->texts.p, o->texts.n);
    hw_vec_done(&begins);
    return b->failed ? HW_ENOMEM : HW_OK;
}

int hw_page_tree_put(const struct hw_page_tree *t, double min_share, struct hw_strbuf *out)
{
    struct arranged x;
    struct arrays o = {0};
    int rc = arrange(t, &x);
    if (rc == HW_OK) {
        double share = min_share > 0 ? min_share : t->v.n > MANY ? 1e-5 : 0;
        rc = walk(&o, &x, x.sum[t->v.n].width * share);
    }
    if (rc == HW_OK)
        rc = write_out(t, &o, out);
    arrays_done(&o);
    free(x.sum);
    free(x.first);
    free(x.order);
    return rc;
}
