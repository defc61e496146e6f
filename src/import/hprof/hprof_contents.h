/*
 * hprof_contents.h - what the objects of a Java heap dump file contain besides references
 *
 * Why:     fills heap_graph_primitive and heap_graph_object_data: fields of numbers, texts of
 *          strings, lengths of arrays and which of them are equal (a hash of their contents).
 * Shapes:  reads the file once more, after the graph is finished.
 * Cost:    linear; some 100 bytes per object, so only for dumps of up to HW_HPROF_MAX_CONTENTS
 *          objects. Texts are kept up to HW_HPROF_MAX_TEXT bytes.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_IMPORT_HPROF_HPROF_CONTENTS_H
#define HW_IMPORT_HPROF_HPROF_CONTENTS_H

#include "import/hprof/hprof_classes.h"

#define HW_HPROF_MAX_CONTENTS 2000000u
#define HW_HPROF_MAX_TEXT     1024u

int hw_hprof_add_contents(struct hw_hprof_file *f, const struct hw_hprof_classes *c,
                          const struct hw_graph_builder *b, struct hw_profile *p,
                          struct hw_heap_graph *g);

#endif
