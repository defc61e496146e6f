/*
 * graph_native.h - graph --native: who owns memory outside the heap, and who allocated it
 *
 * Shapes:  a table by class and kind, below each row the callstacks of its samples, leaf first.
 * Errors:  HW_ENOMEM, HW_ENOTFOUND (the graph lists no such memory).
 */
#ifndef HW_CLI_GRAPH_GRAPH_NATIVE_H
#define HW_CLI_GRAPH_GRAPH_NATIVE_H

#include <stddef.h>

struct hw_heap_graph;
struct hw_json;
struct hw_profile;

/* json: NULL = text to standard output. */
int hw_graph_show_native(const struct hw_profile *p, const struct hw_heap_graph *g, size_t top,
                         struct hw_json *json);

#endif
