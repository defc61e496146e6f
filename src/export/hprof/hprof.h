/*
 * hprof.h - one heap graph as a Java heap dump file (.hprof)
 *
 * Why:     the tools of Java people (VisualVM, MAT, jhat and their like) open these files only.
 * Shapes:  JAVA PROFILE 1.0.2 with ids of 8 bytes. Classes, objects, references, roots and their
 *          names are the graph's; numbers of primitive fields where the graph knows them. What a
 *          graph does not hold is written as zeros of the right length: contents of arrays and
 *          strings, primitive fields (as fields named "padding").
 * Errors:  HW_ELIMIT (the file would become larger than anybody's disk), HW_ENOMEM, HW_ESYS.
 * Source:  doc/design/heap-graphs.md
 */
#ifndef HW_EXPORT_HPROF_HPROF_H
#define HW_EXPORT_HPROF_HPROF_H

#include <stdint.h>
#include <stdio.h>

struct hw_error;
struct hw_heap_graph;
struct hw_profile;

/* *left_out: references for which the format has no room (65,535 fields of a class). */
int hw_hprof_write(const struct hw_profile *p, const struct hw_heap_graph *g, FILE *out,
                   uint64_t *left_out, struct hw_error *err);

#endif
