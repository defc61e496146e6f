/*
 * graph_model.h - a heap graph of the model → packets
 *
 * Why:     an imported graph (the JVM's own heap dump) is written to a trace like one that we
 *          walked ourselves.
 * Shapes:  one call; then the graph writer can be committed. Every reference has its own name.
 *          Threads are written with their names and the frames in which they hold roots.
 *          Contents (strings, primitive fields) are left out, as the format has no place for them.
 * Owns:    nothing.
 * Errors:  those of graph_writer.h.
 */
#ifndef HW_TRACE_GRAPH_MODEL_H
#define HW_TRACE_GRAPH_MODEL_H

#include <stddef.h>
#include <stdint.h>

struct hw_callsites;
struct hw_error;
struct hw_graph_writer;
struct hw_heap_graph;

struct hw_graph_model_sums {
    uint64_t objects, refs, bytes;
};

/* Resets the writer first. ignored: names of classes whose objects are left out. */
int hw_graph_write_model(struct hw_graph_writer *w, const struct hw_heap_graph *g,
                         struct hw_callsites *callsites, const char *const *ignored,
                         size_t n_ignored, struct hw_graph_model_sums *out, struct hw_error *err);

#endif
