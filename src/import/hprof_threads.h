/*
 * hprof_threads.h - the Java stacks of threads in a Java heap dump file
 *
 * Shapes:  take every record once; give makes callsites of the threads that are roots. Java lists
 *          the innermost method first, we the outermost.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 */
#ifndef HW_IMPORT_HPROF_THREADS_H
#define HW_IMPORT_HPROF_THREADS_H

#include "base/map64.h"
#include "base/vec.h"
#include "import/hprof_classes.h"

struct hw_hprof_threads {
    HW_VEC(struct hw_hprof_cursor) records;       /* of frames and traces */
    struct hw_map64 frame_of_id, trace_of_serial; /* -> records */
    HW_VEC(uint64_t) roots;                       /* serials of traces */
};

void hw_hprof_threads_done(struct hw_hprof_threads *t);
int hw_hprof_threads_take(struct hw_hprof_threads *t, const struct hw_hprof_record *r);
int hw_hprof_threads_give(const struct hw_hprof_threads *t, struct hw_hprof_classes *c,
                          struct hw_heap_graph *g);

#endif
