/* Each frame of the function gets its row number once; then each stack adds its value to its
 * rows. */
#include "views/flame/addresses.h"

#include <stdlib.h>

#include "base/error.h"
#include "views/flame/flame_path.h"

#include "base/banned.h"

struct job {
    const struct hw_flame_input *q;
    uint32_t function;
    hw_address_rows *out;
    uint32_t *row_of; /* by frame; HW_ID_NONE = not the function's */
    size_t *last;     /* by row: 1 + index of the value added last */
};

/* Among the first n functions of the frame, outermost first. */
static bool has_function(const struct job *j, hw_frame_id frame, size_t n)
{
    size_t all;
    const struct hw_function_at *chain = hw_functions_chain(j->q->fns, frame, &all);
    for (size_t i = 0; i < n && i < all; i++)
        if (chain[i].function == j->function)
            return true;
    return false;
}

static int by_address(const void *pa, const void *pb)
{
    const struct hw_address_row *a = pa, *b = pb;
    if (a->mapping.v != b->mapping.v)
        return a->mapping.v < b->mapping.v ? -1 : 1;
    return a->rel_pc < b->rel_pc ? -1 : a->rel_pc > b->rel_pc;
}

/* Frames with the same address share a row. */
static int number_frames(struct job *j)
{
    size_t n_frames = hw_callsites_n_frames(j->q->cs), kept = 0;
    for (uint32_t i = 0; i < n_frames; i++) {
        const struct hw_frame *f = hw_callsites_get_frame(j->q->cs, (hw_frame_id){i});
        struct hw_address_row row = {.mapping = f->mapping, .rel_pc = f->rel_pc};
        if (f->mapping.v != HW_ID_NONE && has_function(j, (hw_frame_id){i}, SIZE_MAX) &&
            hw_vec_push(j->out, row) < 0)
            return HW_ENOMEM;
    }
    if (j->out->n)
        qsort(j->out->v, j->out->n, sizeof *j->out->v, by_address);
    for (size_t i = 0; i < j->out->n; i++)
        if (i == 0 || by_address(&j->out->v[i], &j->out->v[kept - 1]) != 0)
            j->out->v[kept++] = j->out->v[i];
    j->out->n = kept;
    j->row_of = calloc(n_frames + 1, sizeof *j->row_of);
    j->last = calloc(kept + 1, sizeof *j->last);
    if (!j->row_of || !j->last)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < n_frames; i++) {
        const struct hw_frame *f = hw_callsites_get_frame(j->q->cs, (hw_frame_id){i});
        struct hw_address_row key = {.mapping = f->mapping, .rel_pc = f->rel_pc}, *row = NULL;
        if (kept && has_function(j, (hw_frame_id){i}, SIZE_MAX))
            row = bsearch(&key, j->out->v, kept, sizeof key, by_address);
        j->row_of[i] = row ? (uint32_t)(row - j->out->v) : HW_ID_NONE;
    }
    return HW_OK;
}

static void add_stack(struct job *j, size_t value)
{
    const struct hw_value *v = &j->q->values->v[value].v;
    struct hw_flame_end e = hw_flame_end_of(j->q, j->q->values->v[value].callsite);
    bool leaf = true;
    for (uint32_t c = e.callsite; c != HW_ID_NONE; leaf = false) {
        const struct hw_callsite *at = hw_callsites_get(j->q->cs, (hw_callsite_id){c});
        uint32_t row = j->row_of[at->frame.v];
        c = at->parent.v;
        if (row == HW_ID_NONE || !has_function(j, at->frame, leaf ? e.depth : SIZE_MAX))
            continue;
        size_t n;
        const struct hw_function_at *chain = hw_functions_chain(j->q->fns, at->frame, &n);
        if (leaf && e.depth && e.depth <= n && chain[e.depth - 1].function == j->function)
            hw_value_add(&j->out->v[row].self, v);
        if (j->last[row] == value + 1)
            continue;
        j->last[row] = value + 1;
        hw_value_add(&j->out->v[row].total, v);
    }
}

int hw_addresses_find(const struct hw_flame_input *q, uint32_t function, hw_address_rows *out)
{
    struct job j = {.q = q, .function = function, .out = out};
    hw_vec_clear(out);
    int rc = number_frames(&j);
    for (size_t i = 0; rc == HW_OK && i < q->values->n; i++)
        add_stack(&j, i);
    free(j.row_of);
    free(j.last);
    return rc;
}
