/*
 * graph_arrays.h - the arrays of a flamegraph that this server wrote (api/graph/flame_block.h)
 *
 * Owns:    nothing: views into the bytes, which must be aligned to 8.
 * Errors:  HW_EFORMAT: not such a graph, or one without boxes.
 */
#ifndef HW_SERVER_API_SAVED_GRAPH_ARRAYS_H
#define HW_SERVER_API_SAVED_GRAPH_ARRAYS_H

#include <stdint.h>

#include "base/bytes.h"

struct hw_graph_arrays {
    uint32_t flags, n, n_texts, deepest;
    double figures[5]; /* total, unfiltered, error, ts_ns, interval */
    const int32_t *parent;
    const uint32_t *end, *name, *module, *samples, *begins; /* begins: n_texts + 1 */
    const uint16_t *depth;
    const uint8_t *node_flags;
    const double *self, *cum, *error, *a, *b; /* a, b: NULL if it has no sides */
    const char *texts;
};

int hw_graph_arrays_read(struct hw_bytes bytes, struct hw_graph_arrays *out);
struct hw_bytes hw_graph_arrays_text(const struct hw_graph_arrays *g, uint32_t id);

#endif
