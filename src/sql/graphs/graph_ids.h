/*
 * graph_ids.h - what the walks of graph_functions.h share: numbers for ids, rows of their answers
 *
 * Shapes:  numbers are dense from 0, in the order in which ids are met.
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
#define HW_GRAPH_NOBODY   UINT32_MAX

struct hw_graph_ids {
    struct hw_map64 map;
    HW_VEC(int64_t) v;
};

int hw_graph_ids_at(struct hw_graph_ids *ids, int64_t id, uint32_t *out);
bool hw_graph_ids_find(const struct hw_graph_ids *ids, int64_t id, uint64_t *out);
void hw_graph_ids_done(struct hw_graph_ids *ids);

/* Looks at the clock now and then. */
bool hw_graph_stops(const struct hw_graph_question *q, size_t step);
int hw_graph_put_row(hw_graph_rows *out, const struct hw_row_cell *cells, size_t n);

static inline struct hw_row_cell hw_graph_cell_int(int64_t i)
{
    return (struct hw_row_cell){.type = HW_SQL_INT, .i = i};
}

#endif
