/*
 * hprof_writer.h - one heap graph as a Java heap dump file (.hprof)
 *
 * Why:     Java heap tools (VisualVM, MAT, jhat and so on) open only these files.
 * Shapes:  JAVA PROFILE 1.0.2 with ids of 8 bytes. Classes, objects, references, roots and names
 *          are the graph's, as are the values of primitive fields where the graph has them. What a
 *          graph lacks is written as zeros of the right length: contents of arrays and strings,
 *          primitive fields (as fields named "padding").
 * Errors:  HW_ELIMIT (the file would be absurdly large for its objects), HW_ENOMEM, HW_ESYS.
 * Source:  doc/design/heap-graphs.md
 */
#ifndef HW_EXPORT_HPROF_HPROF_WRITER_H
#define HW_EXPORT_HPROF_HPROF_WRITER_H

#include <stdint.h>
#include <stdio.h>

struct hw_error;
struct hw_heap_graph;
struct hw_profile;

/* *left_out: references beyond the format's limit of 65,535 fields per class. */
int hw_hprof_write(const struct hw_profile *p, const struct hw_heap_graph *g, FILE *out,
                   uint64_t *left_out, struct hw_error *err);

#endif
