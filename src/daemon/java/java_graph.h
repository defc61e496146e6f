/*
 * java_graph.h - objects of a JVM → the messages of a heap graph
 *
 * Why:     java/ knows JVMs, trace/ knows packets; this maps kinds to roots, types and field names.
 * Shapes:  begin for each walk (discards the previous one), the sink while it runs, end when
 *          complete; then the graph writer can be committed.
 * Owns:    the graph writer. Names to ignore are borrowed.
 * Errors:  those of trace/graph_writer.h.
 * Source:  doc/design/java.md, "Names and kinds"; doc/formats/trace.md, "Heap graphs"
 */
#ifndef HW_DAEMON_JAVA_JAVA_GRAPH_H
#define HW_DAEMON_JAVA_JAVA_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/java/java_native.h"

struct hw_error;
struct hw_graph_writer;
struct hw_java_classes;
struct hw_java_graph;
struct hw_java_holders;
struct hw_jgraph;

struct hw_jgraph_sums {
    uint64_t objects, refs, bytes, stale; /* stale: of classes that were not known yet */
    uint64_t doubtful;                    /* classes whose fields are without names */
    uint64_t untold_roots, unnamed_roots; /* whose holder, or its method, had no room */
    uint64_t native_bytes, mapped_bytes;  /* outside of the heap, of objects in it */
};

int hw_jgraph_new(const char *const *ignored_types, size_t n_ignored, struct hw_jgraph **out,
                  struct hw_error *err);
void hw_jgraph_free(struct hw_jgraph *j);
/* Gives the graph to feed, the caller's. */
int hw_jgraph_begin(struct hw_jgraph *j, struct hw_java_classes *classes, uint64_t max_bytes,
                    struct hw_java_graph **out);
/* Writes the types, and who holds the roots (NULL: it is not known). graph is the one that begin
 * gave. */
int hw_jgraph_end(struct hw_jgraph *j, const struct hw_java_holders *holders,
                  struct hw_jgraph_sums *out, struct hw_error *err);
const hw_native_blocks *hw_jgraph_natives(const struct hw_jgraph *j); /* after end */
struct hw_graph_writer *hw_jgraph_writer(struct hw_jgraph *j);

#endif
