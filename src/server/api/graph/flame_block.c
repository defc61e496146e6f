#include "server/api/graph/flame_block.h"

#include "base/error.h"

#include "base/banned.h"

enum { HEADER_BYTES = 72 };

int hw_flame_block_put(struct hw_flame_block *b, const struct hw_flame_box *x)
{
    double samples = x->samples < UINT32_MAX ? x->samples : UINT32_MAX;
    if (b->parent.n >= INT32_MAX)
        return HW_ELIMIT;
    b->max_depth = x->depth > b->max_depth ? x->depth : b->max_depth;
    int rc = hw_vec_push(&b->parent, x->parent);
    rc |= hw_vec_push(&b->end, (uint32_t)b->parent.n);
    rc |= hw_vec_push(&b->depth, (uint16_t)(x->depth < UINT16_MAX ? x->depth : UINT16_MAX));
    rc |= hw_vec_push(&b->name, x->name);
    rc |= hw_vec_push(&b->module, x->module);
    rc |= hw_vec_push(&b->flags, x->flags);
    rc |= hw_vec_push(&b->self, x->self);
    rc |= hw_vec_push(&b->cum, x->cum);
    rc |= hw_vec_push(&b->samples, samples > 0 ? (uint32_t)samples : 0);
    rc |= hw_vec_push(&b->error, x->error);
    if (b->has_shown)
        rc |= hw_vec_push(&b->shown, (float)x->shown);
    if (b->has_sides) {
        rc |= hw_vec_push(&b->a, x->a);
        rc |= hw_vec_push(&b->b, x->b);
    }
    return rc ? HW_ENOMEM : HW_OK;
}

void hw_flame_block_close(struct hw_flame_block *b, uint32_t index)
{
    b->end.v[index] = (uint32_t)b->parent.n;
}

int hw_flame_block_text(struct hw_flame_block *b, const void *p, size_t n, uint32_t *out)
{
    if (b->texts.n + n > UINT32_MAX)
        return HW_ELIMIT;
    *out = (uint32_t)b->begins.n;
    hw_strbuf_add(&b->texts, p, n);
    return b->texts.failed ? HW_ENOMEM : hw_vec_push(&b->begins, (uint32_t)(b->texts.n - n));
}

/* ---- bytes ---- */

struct header {
    char magic[4];
    uint32_t version, flags, n, n_strings, n_metrics, max_depth, zero;
    double total, unfiltered, error, ts_ns, interval;
};
_Static_assert(sizeof(struct header) == HEADER_BYTES, "the page reads these offsets");

static void put_array(struct hw_strbuf *out, const void *p, size_t n)
{
    static const char zeros[8];
    hw_strbuf_add(out, p, n);
    hw_strbuf_add(out, zeros, (8 - out->n % 8) % 8);
}

static void put_arrays(const struct hw_flame_block *b, struct hw_strbuf *out)
{
    size_t n = b->parent.n;
    put_array(out, b->parent.v, n * sizeof *b->parent.v);
    put_array(out, b->end.v, n * sizeof *b->end.v);
    put_array(out, b->depth.v, n * sizeof *b->depth.v);
    put_array(out, b->name.v, n * sizeof *b->name.v);
    put_array(out, b->module.v, n * sizeof *b->module.v);
    put_array(out, b->flags.v, n * sizeof *b->flags.v);
    put_array(out, b->self.v, n * sizeof *b->self.v);
    put_array(out, b->cum.v, n * sizeof *b->cum.v);
    put_array(out, b->samples.v, n * sizeof *b->samples.v);
    put_array(out, b->error.v, n * sizeof *b->error.v);
    if (b->has_shown)
        put_array(out, b->shown.v, n * sizeof *b->shown.v);
    if (!b->has_sides)
        return;
    put_array(out, b->a.v, n * sizeof *b->a.v);
    put_array(out, b->b.v, n * sizeof *b->b.v);
}

int hw_flame_block_write(const struct hw_flame_block *b, const struct hw_flame_head *head,
                         struct hw_strbuf *out)
{
    size_t n = b->parent.n;
    uint32_t texts_end = (uint32_t)b->texts.n;
    const struct header h = {.magic = {'H', 'F', 'G', '1'},
                             .version = 2,
                             .flags = head->flags | (b->has_sides ? HW_FLAME_BLOCK_SIDES : 0) |
                                      (b->has_shown ? HW_FLAME_BLOCK_SHOWN : 0),
                             .n = (uint32_t)n,
                             .n_strings = (uint32_t)b->begins.n,
                             .n_metrics = 1,
                             .max_depth = b->max_depth,
                             .total = n ? b->cum.v[0] : 0,
                             .unfiltered = head->unfiltered,
                             .error = n == 0         ? 0
                                      : b->has_shown ? (double)b->shown.v[0]
                                                     : b->error.v[0],
                             .ts_ns = head->ts_ns,
                             .interval = head->interval};
    put_array(out, &h, sizeof h);
    put_arrays(b, out);
    hw_strbuf_add(out, b->begins.v, b->begins.n * sizeof *b->begins.v);
    put_array(out, &texts_end, sizeof texts_end); /* the last string's end */
    hw_strbuf_add(out, b->texts.p, b->texts.n);
    return out->failed ? HW_ENOMEM : HW_OK;
}

void hw_flame_block_done(struct hw_flame_block *b)
{
    hw_vec_done(&b->parent);
    hw_vec_done(&b->end);
    hw_vec_done(&b->name);
    hw_vec_done(&b->module);
    hw_vec_done(&b->samples);
    hw_vec_done(&b->depth);
    hw_vec_done(&b->flags);
    hw_vec_done(&b->self);
    hw_vec_done(&b->cum);
    hw_vec_done(&b->a);
    hw_vec_done(&b->b);
    hw_vec_done(&b->error);
    hw_vec_done(&b->shown);
    hw_vec_done(&b->begins);
    hw_strbuf_done(&b->texts);
}
