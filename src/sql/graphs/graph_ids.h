/*
 * graph_ids.h - helpers of the walks in graph_functions.h: numbers for ids, rows of results
 *
 * Shapes:  numbers are dense from 0, in order of first occurrence.
 * Owns:    the numbers; zero-initialised is empty.
 * Errors:  HW_ENOMEM, HW_ELIMIT (HW_GRAPH_MAX_ROWS ids).
 */
#ifndef HW_SQL_GRAPHS_GRAPH_IDS_H
#define HW_SQL_GRAPHS_GRAPH_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "sql/graphs/graph_functions.h"

#define HW_GRAPH_MAX_ROWS (1u << 31)
#define HW_GRAPH_NONE     UINT32_MAX

struct hw_graph_ids {
    struct hw_map64 map;
    HW_VEC(int64_t) v;
};

int hw_graph_ids_at(struct hw_graph_ids *ids, int64_t id, uint32_t *out);
bool hw_graph_ids_find(const struct hw_graph_ids *ids, int64_t id, uint64_t *out);
void hw_graph_ids_done(struct hw_graph_ids *ids);

/* True: stop. Checks the clock every few thousand steps. */
bool hw_graph_stops(const struct hw_graph_query *q, size_t step);
int hw_graph_put_row(hw_graph_rows *out, const struct hw_row_cell *cells, size_t n);

static inline struct hw_row_cell hw_graph_cell_int(int64_t i)
{
    return (struct hw_row_cell){.type = HW_SQL_INT, .i = i};
}

#endif
