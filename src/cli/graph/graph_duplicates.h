/*
 * graph_duplicates.h - graph --duplicates: arrays with equal contents
 *
 * Errors:  HW_ENOMEM, HW_ENOTFOUND (the dump has no contents).
 */
#ifndef HW_CLI_GRAPH_GRAPH_DUPLICATES_H
#define HW_CLI_GRAPH_GRAPH_DUPLICATES_H

#include <stddef.h>

struct hw_heap_graph;
struct hw_json;
struct hw_profile;

/* json: NULL = text to standard output. */
int hw_graph_show_duplicates(const struct hw_profile *p, const struct hw_heap_graph *g, size_t top,
                             struct hw_json *json);

#endif
