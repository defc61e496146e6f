/*
 * Numbers objects in the order in which the input first mentions them: an object, then its targets,
 * and so on (or in the order of their descriptions, undescribed objects last).
 *
 * Ids are looked up as rows, then rows get numbers; both overwrite the ids, in half of their
 * memory.
 *
 * Rows can be looked up in any order, numbers depend on it: a second thread looks up rows block by
 * block, and this one numbers them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/side_thread.h"
#include "model/graph/heap_graph_columns.h"

#include "base/banned.h"

enum {
    BLOCK = 4096,            /* references per block */
    BLOCK_PARALLEL = 1 << 15 /* with a second thread */
};

#define MAX_ROWS (UINT32_MAX - 1)

struct finder {
    struct hw_graph_columns *m;
    struct hw_graph_faults *faults;
    size_t row, to; /* the next ones */
};

struct numberer {
    struct hw_graph_columns *m;
    size_t row;    /* rows before it are numbered */
    uint32_t next; /* the number to give next */
};

/* What the finder has found so far. */
struct found {
    size_t row, to, n_missing; /* all before these */
    int rc;
    bool is_over;
};

struct pipe {
    struct finder finder; /* only for its thread, like references beyond `found` */
    pthread_mutex_t lock; /* protects the following */
    pthread_cond_t more;
    struct found found;
    bool gives_up; /* the numberer failed */
};

/* Whether there are as many references as the class has fields. */
static bool has_listed_count(const struct hw_graph_columns *m, uint32_t type, size_t from,
                             size_t to)
{
    uint32_t n_listed = m->lists[type].n_listed;
    if (n_listed == 0 || (!m->b->ref_field.n && to - from == n_listed))
        return true;
    size_t n = hw_graph_count_listed(m->b, from, to);
    return n == 0 || n == n_listed;
}

/* ---- ids to rows ---- */

static int find_missing(struct hw_graph_builder *b, uint64_t id, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&b->missing, id, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = b->rows.n + b->missing.n - 1;
    *out = (uint32_t)*at;
    return HW_OK;
}

/* Looks up the rows of ids [from, end), which are written from `to` on. */
static int find_rows(struct hw_graph_columns *m, size_t from, size_t end, size_t to)
{
    struct hw_graph_builder *b = m->b;
    const uint64_t *targets = b->targets.v;
    for (size_t r = from; r < end; r++) {
        uint64_t id = targets[r];
        uint32_t row = HW_ID_NONE;
        if (r + HW_GRAPH_AHEAD < b->targets.n)
            hw_id_index_prefetch(&b->index, targets[r + HW_GRAPH_AHEAD]);
        if (id && !hw_id_index_find(&b->index, id, &row)) {
            int rc = find_missing(b, id, &row);
            if (rc < 0)
                return rc;
        }
        m->to[to++] = row; /* never overwrites unread ids: half as wide, and to <= from */
    }
    return HW_OK;
}

/* Finds the rows of at least the next `n` references, in whole objects. */
static int find_block(struct finder *f, size_t n)
{
    struct hw_graph_columns *m = f->m;
    struct hw_graph_builder *b = m->b;
    size_t begun = f->to;
    int rc = HW_OK;
    for (; rc == HW_OK && f->row < m->n_rows && f->to - begun < n; f->row++) {
        size_t from = b->rows.first[f->row], end = hw_graph_refs_end(b, f->row);
        b->rows.first[f->row] = (uint32_t)f->to;
        if (!has_listed_count(m, hw_graph_class_of_row(b, f->row), from, end)) {
            f->faults->wrong_field_lists++;
            continue;
        }
        rc = find_rows(m, from, end, f->to);
        if (b->ref_field.n && from != f->to && end > from)
            memmove(&b->ref_field.v[f->to], &b->ref_field.v[from],
                    (end - from) * sizeof *b->ref_field.v);
        f->to += end - from;
    }
    return rc == HW_OK && m->n_rows + b->missing.n > MAX_ROWS ? HW_ELIMIT : rc;
}

/* ---- rows to numbers ---- */

static uint32_t number_of(struct numberer *n, uint32_t row)
{
    uint32_t *number = n->m->b->number.v;
    if (number[row] == HW_ID_NONE) {
        n->m->out_of_order |= row != n->next;
        number[row] = n->next++;
    }
    return number[row];
}

static int extend_numbers(struct hw_graph_builder *b, size_t n)
{
    if (hw_vec_reserve(&b->number, n) < 0)
        return HW_ENOMEM;
    while (b->number.n < n)
        b->number.v[b->number.n++] = HW_ID_NONE;
    return HW_OK;
}

/* Numbers rows up to found->row and their targets, in the order of their mention. */
static int number_rows(struct numberer *n, const struct found *found)
{
    struct hw_graph_builder *b = n->m->b;
    uint32_t *to = n->m->to;
    int rc = extend_numbers(b, n->m->n_rows + found->n_missing);
    if (rc < 0)
        return rc;
    for (; n->row < found->row; n->row++) {
        size_t r = b->rows.first[n->row],
               end = n->row + 1 < found->row ? b->rows.first[n->row + 1] : found->to;
        (void)number_of(n, (uint32_t)n->row);
        for (; r < end; r++) {
            if (r + HW_GRAPH_AHEAD < found->to && to[r + HW_GRAPH_AHEAD] != HW_ID_NONE)
                __builtin_prefetch(&b->number.v[to[r + HW_GRAPH_AHEAD]]);
            if (to[r] != HW_ID_NONE)
                to[r] = number_of(n, to[r]);
        }
    }
    return HW_OK;
}

/* Ids are no longer needed, unless the index uses them. Numbers, half as wide, reuse their
 * memory. */
static int begin_numbers(struct hw_graph_columns *m)
{
    struct hw_graph_builder *b = m->b;
    bool are_free = b->index.ids != b->rows.ids;
    size_t room = m->n_rows + 1;
    if (b->by_mention) {
        uint32_t *v = realloc(are_free ? b->rows.ids : NULL, room * sizeof *v);
        if (!v)
            return HW_ENOMEM;
        memset(v, 0xff, m->n_rows * sizeof *v); /* HW_ID_NONE */
        b->number.v = v;
        b->number.cap = room;
        b->number.n = m->n_rows;
    } else if (are_free) {
        free(b->rows.ids);
    }
    if (are_free)
        b->rows.ids = NULL;
    return HW_OK;
}

/* ---- both, in turns or in parallel ---- */

static int in_turns(struct finder *f, struct numberer *n)
{
    struct hw_graph_builder *b = f->m->b;
    int rc = HW_OK;
    while (rc == HW_OK && f->row < f->m->n_rows) {
        rc = find_block(f, BLOCK);
        struct found found = {f->row, f->to, b->missing.n, rc, false};
        if (rc == HW_OK && b->by_mention)
            rc = number_rows(n, &found);
    }
    return rc;
}

static int find_all(void *ctx)
{
    struct pipe *p = ctx;
    struct finder *f = &p->finder;
    bool is_over = false;
    while (!is_over) {
        int rc = find_block(f, BLOCK_PARALLEL);
        pthread_mutex_lock(&p->lock);
        is_over = rc < 0 || f->row == f->m->n_rows || p->gives_up;
        p->found = (struct found){f->row, f->to, f->m->b->missing.n, rc, is_over};
        pthread_cond_signal(&p->more);
        pthread_mutex_unlock(&p->lock);
    }
    return HW_OK;
}

static int number_all(struct pipe *p, struct numberer *n)
{
    struct found found = {0};
    int rc = HW_OK;
    while (rc == HW_OK && !found.is_over) {
        pthread_mutex_lock(&p->lock);
        while (p->found.row == n->row && !p->found.is_over)
            pthread_cond_wait(&p->more, &p->lock);
        found = p->found;
        pthread_mutex_unlock(&p->lock);
        rc = found.rc < 0 ? found.rc : number_rows(n, &found);
    }
    pthread_mutex_lock(&p->lock);
    p->gives_up = true;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static int in_parallel(struct finder *f, struct numberer *n)
{
    struct pipe p = {.finder = *f};
    struct hw_side_thread beside;
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.more, NULL);
    hw_side_thread_begin(&beside, find_all, &p);
    int rc = beside.runs ? number_all(&p, n) : in_turns(&p.finder, n);
    if (beside.runs)
        (void)hw_side_thread_end(&beside); /* its error is in found.rc */
    pthread_cond_destroy(&p.more);
    pthread_mutex_destroy(&p.lock);
    *f = p.finder;
    return rc;
}

int hw_graph_resolve(struct hw_graph_columns *m, struct hw_graph_faults *faults)
{
    struct hw_graph_builder *b = m->b;
    struct finder finder = {.m = m, .faults = faults};
    struct numberer numberer = {.m = m};
    m->to = (void *)b->targets.v; /* stores change the effective type: C17 6.5, 6 */
    int rc = begin_numbers(m);
    if (rc == HW_OK)
        rc = b->by_mention && b->targets.n >= HW_WORTH_TWO ? in_parallel(&finder, &numberer)
                                                           : in_turns(&finder, &numberer);
    b->targets.n = finder.to;
    return rc;
}
