/*
 * All columns have room for `cap` rows. A column is allocated for the first value that differs from
 * its default; earlier rows get the default.
 */
#include "model/allocs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

enum { FIRST_CAP = 64 };

#define EACH_VARIANCE(a)                                                                           \
    {                                                                                              \
        &(a)->variance, &(a)->variance_objects, &(a)->variance_alloc_space,                        \
            &(a)->variance_alloc_objects, &(a)->variance_rounding, &(a)->variance_temporary_space, \
            &(a)->variance_temporary_objects                                                       \
    }

#define EACH_COLUMN(a)                                                                             \
    {                                                                                              \
        &(a)->samples, &(a)->count, &(a)->size, &(a)->idle, &(a)->rounding, &(a)->temporary_space, \
            &(a)->temporary_objects                                                                \
    }
#define N_OF(list) (sizeof(list) / sizeof *(list))

void hw_alloc_rows_done(struct hw_alloc_rows *a)
{
    float **const variances[] = EACH_VARIANCE(a);
    struct hw_alloc_column *const columns[] = EACH_COLUMN(a);
    free(a->callsite);
    free(a->type);
    for (size_t i = 0; i < N_OF(variances); i++)
        free(*variances[i]);
    for (size_t i = 0; i < N_OF(columns); i++)
        free(columns[i]->v);
    hw_vec_done(&a->runs);
    *a = (struct hw_alloc_rows){0};
}

/* ---- columns ---- */

static size_t width_of(const struct hw_alloc_column *c)
{
    return c->wide ? sizeof(int64_t) : sizeof(int32_t);
}

static int resize(void **v, size_t n, size_t width)
{
    size_t bytes;
    if (!*v)
        return HW_OK;
    if (__builtin_mul_overflow(n, width, &bytes))
        return HW_ENOMEM;
    void *grown = realloc(*v, bytes);
    if (!grown)
        return HW_ENOMEM;
    *v = grown;
    return HW_OK;
}

static int resize_floats(float **v, size_t n)
{
    void *grown = *v;
    int rc = resize(&grown, n, sizeof **v);
    *v = grown;
    return rc;
}

static int resize_column(struct hw_alloc_column *c, size_t n)
{
    return resize(&c->v, n, width_of(c));
}

static int grow(struct hw_alloc_rows *a)
{
    size_t cap = a->cap ? a->cap * 2 : FIRST_CAP;
    void *callsite = a->callsite, *type = a->type;
    float **const variances[] = EACH_VARIANCE(a);
    struct hw_alloc_column *const columns[] = EACH_COLUMN(a);
    if (!callsite && !(callsite = malloc(cap * sizeof *a->callsite)))
        return HW_ENOMEM;
    int rc = resize(&callsite, cap, sizeof *a->callsite);
    a->callsite = callsite;
    for (size_t i = 0; rc == HW_OK && i < N_OF(variances); i++)
        rc = resize_floats(variances[i], cap);
    if (rc == HW_OK)
        rc = resize(&type, cap, sizeof *a->type);
    a->type = type;
    for (size_t i = 0; rc == HW_OK && i < N_OF(columns); i++)
        rc = resize_column(columns[i], cap);
    if (rc == HW_OK) /* else some columns have more room than cap */
        a->cap = cap;
    return rc;
}

static void store(struct hw_alloc_column *c, size_t i, int64_t value)
{
    if (c->wide)
        ((int64_t *)c->v)[i] = value;
    else
        ((int32_t *)c->v)[i] = (int32_t)value;
}

/* Allocates the column, or widens it if the value does not fit. like: the values of its rows so
 * far. */
static int allocate(struct hw_alloc_rows *a, struct hw_alloc_column *c, int64_t value,
                    const struct hw_alloc_column *like)
{
    struct hw_alloc_column old = *c, fresh = {.wide = old.wide || (int32_t)value != value};
    if (like)
        fresh.wide |= like->wide;
    fresh.v = calloc(a->cap, width_of(&fresh));
    if (!fresh.v)
        return HW_ENOMEM;
    const struct hw_alloc_column *from = old.v ? &old : like;
    for (size_t i = 0; from && from->v && i < a->n; i++)
        store(&fresh, i, hw_alloc_value(from, i));
    free(old.v);
    *c = fresh;
    return HW_OK;
}

/* like: the column with the default values; NULL = they are 0. */
static inline int prepare(struct hw_alloc_rows *a, struct hw_alloc_column *c, int64_t value,
                          int64_t by_default, const struct hw_alloc_column *like)
{
    if (c->v ? (c->wide || (int32_t)value == value) : value == by_default)
        return HW_OK;
    return allocate(a, c, value, like);
}

/* All three or none. */
static int allocate_variances(struct hw_alloc_rows *a)
{
    float *v[3];
    for (int i = 0; i < 3; i++)
        v[i] = calloc(a->cap, sizeof **v);
    if (!v[0] || !v[1] || !v[2]) {
        for (int i = 0; i < 3; i++)
            free(v[i]);
        return HW_ENOMEM;
    }
    a->variance_objects = v[0];
    a->variance_alloc_space = v[1];
    a->variance_alloc_objects = v[2];
    return HW_OK;
}

static int allocate_temporary_variances(struct hw_alloc_rows *a)
{
    float *space = calloc(a->cap, sizeof *space), *objects = calloc(a->cap, sizeof *objects);
    if (!space || !objects) {
        free(space);
        free(objects);
        return HW_ENOMEM;
    }
    a->variance_temporary_space = space;
    a->variance_temporary_objects = objects;
    return HW_OK;
}

static int prepare_all(struct hw_alloc_rows *a, const struct hw_alloc_row *row)
{
    int rc = prepare(a, &a->count, row->count, row->samples, &a->samples);
    if (rc == HW_OK)
        rc = prepare(a, &a->samples, row->samples, 0, NULL);
    if (rc == HW_OK)
        rc = prepare(a, &a->size, row->size, 0, NULL);
    if (rc == HW_OK)
        rc = prepare(a, &a->idle, row->idle, 0, NULL);
    if (rc == HW_OK)
        rc = prepare(a, &a->rounding, row->rounding, 0, NULL);
    if (rc == HW_OK)
        rc = prepare(a, &a->temporary_space, row->temporary_space, 0, NULL);
    if (rc == HW_OK)
        rc = prepare(a, &a->temporary_objects, row->temporary_objects, 0, NULL);
    if (rc == HW_OK && !a->variance_temporary_space && hw_alloc_has_temporary_variance(row))
        rc = allocate_temporary_variances(a);
    if (rc == HW_OK && row->variance != 0 && !a->variance &&
        !(a->variance = calloc(a->cap, sizeof *a->variance)))
        rc = HW_ENOMEM;
    if (rc == HW_OK && !a->variance_objects && hw_alloc_has_more(row))
        rc = allocate_variances(a);
    if (rc == HW_OK && row->variance_rounding > 0 && !a->variance_rounding &&
        !(a->variance_rounding = calloc(a->cap, sizeof *a->variance_rounding)))
        rc = HW_ENOMEM;
    if (rc == HW_OK && row->type.v && !a->type && !(a->type = calloc(a->cap, sizeof *a->type)))
        rc = HW_ENOMEM;
    return rc;
}

static void store_all(struct hw_alloc_rows *a, size_t i, const struct hw_alloc_row *row)
{
    a->callsite[i] = row->callsite.v;
    if (a->samples.v)
        store(&a->samples, i, row->samples);
    if (a->count.v)
        store(&a->count, i, row->count);
    if (a->size.v)
        store(&a->size, i, row->size);
    if (a->idle.v)
        store(&a->idle, i, row->idle);
    if (a->rounding.v)
        store(&a->rounding, i, row->rounding);
    if (a->temporary_space.v)
        store(&a->temporary_space, i, row->temporary_space);
    if (a->temporary_objects.v)
        store(&a->temporary_objects, i, row->temporary_objects);
    if (a->variance_temporary_space) {
        a->variance_temporary_space[i] = row->variance_temporary_space;
        a->variance_temporary_objects[i] = row->variance_temporary_objects;
    }
    if (a->type)
        a->type[i] = row->type.v;
    if (a->variance)
        a->variance[i] = hw_alloc_variance_kept(row->variance);
    if (a->variance_objects)
        hw_alloc_store_more(a, i, row);
    if (a->variance_rounding)
        a->variance_rounding[i] = row->variance_rounding;
}

static void update_plain(struct hw_alloc_rows *a)
{
    a->plain = a->samples.v && a->count.v && a->size.v && a->variance && !a->idle.v &&
               !a->samples.wide && !a->count.wide && !a->size.wide && !a->rounding.wide &&
               !a->temporary_space.wide && !a->temporary_objects.wide;
}

int hw_alloc_rows_push_slow(struct hw_alloc_rows *a, const struct hw_alloc_row *row)
{
    if (a->n == a->cap) {
        int rc = grow(a);
        if (rc < 0)
            return rc;
    }
    int rc = prepare_all(a, row);
    if (rc < 0)
        return rc;
    if ((a->runs.n == 0 || a->runs.v[a->runs.n - 1].dump != row->dump) &&
        hw_vec_push(&a->runs, (struct hw_alloc_run){row->dump, a->n}) < 0)
        return HW_ENOMEM;
    store_all(a, a->n, row);
    a->n++;
    update_plain(a);
    return HW_OK;
}

int hw_alloc_rows_set(struct hw_alloc_rows *a, size_t i, const struct hw_alloc_row *row)
{
    int rc = prepare_all(a, row);
    if (rc == HW_OK)
        store_all(a, i, row);
    update_plain(a);
    return rc;
}

/* ---- order ---- */

struct move {
    uint32_t dump; /* its new number */
    size_t run;    /* where it is now */
};

static int compare_moves(const void *x, const void *y)
{
    const struct move *a = x, *b = y;
    if (a->dump != b->dump)
        return a->dump < b->dump ? -1 : 1;
    return a->run < b->run ? -1 : a->run > b->run;
}

static size_t run_end(const struct hw_alloc_rows *a, size_t run)
{
    return run + 1 < a->runs.n ? a->runs.v[run + 1].first : a->n;
}

/* Permutes one column; only one at a time exists twice. */
static int permute(const struct hw_alloc_rows *a, const struct move *moves, void **column,
                   size_t width)
{
    if (!*column)
        return HW_OK;
    char *sorted = malloc(a->n * width + 1), *to = sorted;
    if (!sorted)
        return HW_ENOMEM;
    for (size_t i = 0; i < a->runs.n; i++) {
        size_t first = a->runs.v[moves[i].run].first;
        size_t bytes = (run_end(a, moves[i].run) - first) * width;
        memcpy(to, (const char *)*column + first * width, bytes);
        to += bytes;
    }
    free(*column);
    *column = sorted;
    return HW_OK;
}

static int permute_all(struct hw_alloc_rows *a, const struct move *moves)
{
    void *callsite = a->callsite, *type = a->type;
    float **const variances[] = EACH_VARIANCE(a);
    int rc = permute(a, moves, &callsite, sizeof *a->callsite);
    a->callsite = callsite;
    for (size_t i = 0; rc == HW_OK && i < N_OF(variances); i++) {
        void *v = *variances[i];
        rc = permute(a, moves, &v, sizeof **variances[i]);
        *variances[i] = v;
    }
    if (rc == HW_OK)
        rc = permute(a, moves, &type, sizeof *a->type);
    a->type = type;
    struct hw_alloc_column *const columns[] = EACH_COLUMN(a);
    for (size_t i = 0; rc == HW_OK && i < N_OF(columns); i++)
        rc = permute(a, moves, &columns[i]->v, width_of(columns[i]));
    a->cap = a->n;
    return rc;
}

/* Puts runs into their new order and merges those of one dump. */
static int renumber(struct hw_alloc_rows *a, const struct move *moves)
{
    HW_VEC(struct hw_alloc_run) runs = {0};
    size_t at = 0;
    for (size_t i = 0; i < a->runs.n; i++) {
        if ((runs.n == 0 || runs.v[runs.n - 1].dump != moves[i].dump) &&
            hw_vec_push(&runs, (struct hw_alloc_run){moves[i].dump, at}) < 0) {
            hw_vec_done(&runs);
            return HW_ENOMEM;
        }
        at += run_end(a, moves[i].run) - a->runs.v[moves[i].run].first;
    }
    free(a->runs.v);
    a->runs.v = runs.v;
    a->runs.n = runs.n;
    a->runs.cap = runs.cap;
    return HW_OK;
}

int hw_alloc_rows_sort(struct hw_alloc_rows *a, const uint32_t *new_index)
{
    struct move *moves = malloc((a->runs.n + 1) * sizeof *moves);
    bool moved = false;
    int rc = HW_OK;
    if (!moves)
        return HW_ENOMEM;
    for (size_t i = 0; i < a->runs.n; i++)
        moves[i] = (struct move){new_index[a->runs.v[i].dump], i};
    qsort(moves, a->runs.n, sizeof *moves, compare_moves);
    for (size_t i = 0; i < a->runs.n; i++)
        moved |= moves[i].run != i;
    if (moved)
        rc = permute_all(a, moves);
    if (rc == HW_OK)
        rc = renumber(a, moves);
    free(moves);
    return rc;
}

/* The first run of this dump or a later one. */
static size_t run_of_dump(const struct hw_alloc_rows *a, uint32_t dump)
{
    return HW_LOWER_BOUND(mid, 0, a->runs.n, a->runs.v[mid].dump < dump);
}

void hw_alloc_rows_of_dump(const struct hw_alloc_rows *a, uint32_t dump, size_t *first, size_t *n)
{
    size_t run = run_of_dump(a, dump);
    bool there = run < a->runs.n && a->runs.v[run].dump == dump;
    *first = there ? a->runs.v[run].first : 0;
    *n = there ? run_end(a, run) - *first : 0;
}

uint32_t hw_alloc_dump(const struct hw_alloc_rows *a, size_t i)
{
    size_t lo = 0, hi = a->runs.n;
    while (hi - lo > 1) { /* the last run that does not begin after i */
        size_t mid = lo + (hi - lo) / 2;
        if (a->runs.v[mid].first <= i)
            lo = mid;
        else
            hi = mid;
    }
    return a->runs.v[lo].dump;
}
