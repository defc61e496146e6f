/*
 * Each function of each frame gets its row number (function, file, line) once. Values are summed
 * from leaves to roots, so each callsite is visited once. A recursive function is counted once per
 * frame, which only matters between its own lines.
 */
#include "views/flame/places.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"

#include "base/banned.h"

/* Compared in this order: asked for, passed through; by the metric, then ever allocated. */
enum weight { SELF, TOTAL, EVER_SELF, EVER_TOTAL, N_WEIGHTS };

struct row {
    struct hw_function_at at;
    double weight[N_WEIGHTS];
};

struct job {
    const struct hw_callsites *cs;
    const struct hw_functions *fns;
    struct hw_map64 lines, numbers; /* file, line → its number; function, that number → row */
    HW_VEC(struct row) rows;
    HW_VEC(uint32_t) row_of; /* by function of a frame; HW_ID_NONE = no line */
    uint32_t *first;         /* by frame: where its functions begin in row_of */
};

static int number_for(struct hw_map64 *map, uint32_t a, uint32_t b, size_t next, uint64_t *out)
{
    uint64_t *value;
    bool fresh;
    int rc = hw_map64_at(map, (uint64_t)a << 32 | b, &value, &fresh);
    if (rc == HW_OK && fresh)
        *value = next;
    if (rc == HW_OK)
        *out = *value;
    return rc;
}

static int number_function(struct job *j, const struct hw_function_at *at)
{
    uint64_t line, row = HW_ID_NONE;
    if (at->file.v) {
        int rc = number_for(&j->lines, at->file.v, at->line, j->row_of.n, &line);
        if (rc == HW_OK)
            rc = number_for(&j->numbers, at->function, (uint32_t)line, j->rows.n, &row);
        if (rc < 0)
            return rc;
        if (row == j->rows.n && hw_vec_push(&j->rows, (struct row){.at = *at}) < 0)
            return HW_ENOMEM;
    }
    return hw_vec_push(&j->row_of, (uint32_t)row) < 0 ? HW_ENOMEM : HW_OK;
}

static int number_frames(struct job *j)
{
    size_t n_frames = hw_callsites_n_frames(j->cs);
    j->first = calloc(n_frames + 1, sizeof *j->first);
    int rc = j->first ? HW_OK : HW_ENOMEM;
    for (uint32_t f = 0; rc == HW_OK && f < n_frames; f++) {
        size_t n;
        const struct hw_function_at *chain = hw_functions_chain(j->fns, (hw_frame_id){f}, &n);
        j->first[f] = (uint32_t)j->row_of.n;
        for (size_t k = 0; rc == HW_OK && k < n; k++)
            rc = number_function(j, &chain[k]);
    }
    return rc;
}

static void add_weight(struct job *j, uint32_t frame, size_t k, enum weight w, double now,
                       double ever)
{
    uint32_t row = j->row_of.v[j->first[frame] + k];
    if (row == HW_ID_NONE)
        return;
    j->rows.v[row].weight[w] += now;
    j->rows.v[row].weight[w + EVER_SELF] += ever;
}

/* sums: two by callsite: what ends there in the metric, and what was ever allocated. */
static void add_sites(struct job *j, const hw_values *values, enum hw_metric by, double *sums)
{
    for (size_t i = 0; i < values->n; i++) {
        hw_callsite_id c = values->v[i].callsite, site = hw_functions_site_callsite(j->fns, c);
        double now = (double)hw_value_get(&values->v[i].v, by);
        double ever = (double)values->v[i].v.alloc_space;
        size_t depth;
        (void)hw_functions_site_at(j->fns, c, &depth); /* only how deep */
        add_weight(j, hw_callsites_get(j->cs, site)->frame.v, depth - 1, SELF, now, ever);
        sums[2 * (size_t)c.v] += now;
        sums[2 * (size_t)c.v + 1] += ever;
    }
}

/* Children come after their parents, so one pass backwards is enough. */
static void add_callers(struct job *j, double *sums)
{
    for (size_t c = hw_callsites_count(j->cs); c-- > 0;) {
        const struct hw_callsite *at = hw_callsites_get(j->cs, (hw_callsite_id){(uint32_t)c});
        double now = sums[2 * c], ever = sums[2 * c + 1];
        size_t n;
        if (now == 0 && ever == 0)
            continue;
        (void)hw_functions_chain(j->fns, at->frame, &n); /* only how many */
        for (size_t k = 0; k < n; k++)
            add_weight(j, at->frame.v, k, TOTAL, now, ever);
        if (at->parent.v != HW_ID_NONE) {
            sums[2 * (size_t)at->parent.v] += now;
            sums[2 * (size_t)at->parent.v + 1] += ever;
        }
    }
}

static bool outweighs(const struct row *a, const struct row *b)
{
    for (int w = 0; w < N_WEIGHTS; w++)
        if (a->weight[w] != b->weight[w])
            return a->weight[w] > b->weight[w];
    return false;
}

static int choose(const struct job *j, struct hw_function_at **out)
{
    size_t n = hw_functions_count(j->fns);
    struct hw_function_at *places = calloc(n + 1, sizeof *places);
    hw_autofree uint32_t *best = malloc((n + 1) * sizeof *best);
    if (!places || !best) {
        free(places);
        return HW_ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        places[i].function = i;
        best[i] = HW_ID_NONE;
    }
    for (uint32_t i = 0; i < j->rows.n; i++) {
        uint32_t function = j->rows.v[i].at.function;
        if (best[function] == HW_ID_NONE || outweighs(&j->rows.v[i], &j->rows.v[best[function]])) {
            best[function] = i;
            places[function] = j->rows.v[i].at;
        }
    }
    *out = places;
    return HW_OK;
}

int hw_places_find(const struct hw_callsites *cs, const struct hw_functions *fns,
                   const hw_values *values, enum hw_metric by, struct hw_function_at **out)
{
    struct job j = {.cs = cs, .fns = fns};
    hw_autofree double *sums = calloc(2 * hw_callsites_count(cs) + 1, sizeof *sums);
    int rc = sums ? number_frames(&j) : HW_ENOMEM;
    if (rc == HW_OK) {
        add_sites(&j, values, by, sums);
        add_callers(&j, sums);
        rc = choose(&j, out);
    }
    hw_map64_done(&j.lines);
    hw_map64_done(&j.numbers);
    hw_vec_done(&j.rows);
    hw_vec_done(&j.row_of);
    free(j.first);
    return rc;
}
