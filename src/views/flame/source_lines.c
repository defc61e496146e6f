/*
 * Each function of each frame gets its row number once; then each stack adds its value to its rows.
 * last_seen says which stack a row got its last value from, so recursion counts once.
 */
#include "views/flame/source_lines.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "views/flame/flame_path.h"

#include "base/banned.h"

struct job {
    const struct hw_flame_input *q;
    enum hw_lines_by by;
    hw_line_rows *out;
    struct hw_map64 rows;       /* file << 32 | line or function → row */
    uint32_t *first;            /* by frame: where its functions begin in row_of */
    HW_VEC(uint32_t) row_of;    /* HW_ID_NONE = no line */
    HW_VEC(uint32_t) last_seen; /* by row: value + 1 */
};

static int row_for(struct job *j, const struct hw_function_at *at, uint32_t *out)
{
    uint32_t line_or_function = j->by == HW_LINES_BY_FUNCTION ? at->function : at->line;
    uint64_t key = (uint64_t)at->file.v << 32 | line_or_function, found;
    if (hw_map64_get(&j->rows, key, &found)) {
        struct hw_line_row *row = &j->out->v[found];
        row->line = at->line < row->line ? at->line : row->line;
        *out = (uint32_t)found;
        return HW_OK;
    }
    *out = (uint32_t)j->out->n;
    struct hw_line_row row = {.file = at->file, .line = at->line, .function = at->function};
    if (hw_vec_push(j->out, row) < 0 || hw_vec_push(&j->last_seen, 0) < 0)
        return HW_ENOMEM;
    return hw_map64_put(&j->rows, key, *out);
}

static int number_frames(struct job *j)
{
    size_t n_frames = hw_callsites_n_frames(j->q->cs);
    j->first = calloc(n_frames + 1, sizeof *j->first);
    if (!j->first)
        return HW_ENOMEM;
    for (uint32_t f = 0; f < n_frames; f++) {
        size_t n;
        const struct hw_function_at *chain = hw_functions_chain(j->q->fns, (hw_frame_id){f}, &n);
        j->first[f] = (uint32_t)j->row_of.n;
        for (size_t k = 0; k < n; k++) {
            uint32_t row = HW_ID_NONE;
            if (chain[k].file.v && chain[k].line && row_for(j, &chain[k], &row))
                return HW_ENOMEM;
            if (hw_vec_push(&j->row_of, row) < 0)
                return HW_ENOMEM;
        }
    }
    return HW_OK;
}

static void add_frame(struct job *j, uint32_t frame, size_t n, size_t value, bool leaf)
{
    const struct hw_value *v = &j->q->values->v[value].v;
    for (size_t k = n; k-- > 0;) {
        uint32_t row = j->row_of.v[j->first[frame] + k];
        if (row == HW_ID_NONE)
            continue;
        if (leaf && k == n - 1)
            hw_value_add(&j->out->v[row].self, v);
        if (j->last_seen.v[row] == value + 1)
            continue;
        j->last_seen.v[row] = (uint32_t)value + 1;
        hw_value_add(&j->out->v[row].total, v);
    }
}

static void add_stack(struct job *j, size_t value)
{
    struct hw_flame_end e = hw_flame_end_of(j->q, j->q->values->v[value].callsite);
    size_t n = e.depth;
    bool leaf = true;
    for (uint32_t c = e.callsite; c != HW_ID_NONE; leaf = false) {
        const struct hw_callsite *at = hw_callsites_get(j->q->cs, (hw_callsite_id){c});
        if (!leaf)
            (void)hw_functions_chain(j->q->fns, at->frame, &n);
        add_frame(j, at->frame.v, n, value, leaf);
        c = at->parent.v;
    }
}

static bool is_empty(const struct hw_value *v)
{
    return !v->space && !v->objects && !v->alloc_space && !v->alloc_objects;
}

static int by_line(const void *pa, const void *pb)
{
    const struct hw_line_row *a = pa, *b = pb;
    if (a->file.v != b->file.v)
        return a->file.v < b->file.v ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->function < b->function ? -1 : a->function > b->function;
}

int hw_lines_find(const struct hw_flame_input *q, enum hw_lines_by by, hw_line_rows *out)
{
    struct job j = {.q = q, .by = by, .out = out};
    hw_vec_clear(out);
    int rc = number_frames(&j);
    for (size_t i = 0; rc == HW_OK && i < q->values->n; i++)
        if (!is_empty(&q->values->v[i].v))
            add_stack(&j, i);
    size_t kept = 0;
    for (size_t i = 0; rc == HW_OK && i < out->n; i++)
        if (!is_empty(&out->v[i].total))
            out->v[kept++] = out->v[i];
    if (rc == HW_OK) {
        out->n = kept;
        if (kept)
            qsort(out->v, kept, sizeof *out->v, by_line);
    }
    hw_map64_done(&j.rows);
    free(j.first);
    hw_vec_done(&j.row_of);
    hw_vec_done(&j.last_seen);
    return rc;
}
