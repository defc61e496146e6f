#include "sql/graphs/graph_ids.h"

#include "base/error.h"

#include "base/banned.h"

enum { STOP_EVERY = 1 << 14 }; /* steps between two checks of the clock */

bool hw_graph_stops(const struct hw_graph_query *q, size_t step)
{
    return q->stop && step % STOP_EVERY == STOP_EVERY - 1 && q->stop(q->ctx);
}

int hw_graph_put_row(hw_graph_rows *out, const struct hw_row_cell *cells, size_t n)
{
    if (hw_vec_reserve(out, out->n + n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        out->v[out->n++] = cells[i];
    return HW_OK;
}

int hw_graph_rows_of(const struct hw_graph_query *q, size_t width, hw_graph_rows *out)
{
    const struct hw_row_list *l = q->lists[0];
    int rc = HW_OK;
    for (size_t i = 0; l && l->width >= width && rc == HW_OK && i < hw_row_list_rows(l); i++)
        rc = hw_graph_put_row(out, hw_row_list_cell(l, i, 0), width);
    return rc;
}

/* ---- numbers ---- */

void hw_graph_ids_done(struct hw_graph_ids *ids)
{
    hw_map64_done(&ids->map);
    hw_vec_done(&ids->v);
}

/* Small negative ids occur; INT64_MIN does not, so it becomes the map's reserved key. */
static uint64_t key_of(int64_t id)
{
    return (uint64_t)id << 1 ^ (uint64_t)(id >> 63);
}

bool hw_graph_ids_find(const struct hw_graph_ids *ids, int64_t id, uint64_t *out)
{
    return hw_map64_get(&ids->map, key_of(id), out);
}

int hw_graph_ids_at(struct hw_graph_ids *ids, int64_t id, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&ids->map, key_of(id), &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        if (ids->v.n >= HW_GRAPH_MAX_ROWS)
            return HW_ELIMIT;
        *at = ids->v.n;
        if (hw_vec_push(&ids->v, id) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}
