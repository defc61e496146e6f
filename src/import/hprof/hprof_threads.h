/*
 * hprof_threads.h - threads in a Java heap dump file, their stacks, and the roots on them
 *
 * Shapes:  add every record once; build makes callsites of the threads that are roots, and holders
 *          of the roots on their stacks. Java lists the innermost method first, we the outermost.
 *          Thread names are strings of the heap: call hw_hprof_threads_name once those are read.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 */
#ifndef HW_IMPORT_HPROF_HPROF_THREADS_H
#define HW_IMPORT_HPROF_HPROF_THREADS_H

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "import/hprof/hprof_classes.h"

struct hw_hprof_thread_root {
    uint64_t object;
    uint32_t serial, trace; /* numbers in the file */
};
struct hw_hprof_local_root {
    uint64_t object;
    uint32_t serial; /* of the thread */
    uint32_t depth;  /* UINT32_MAX = none */
    uint8_t root_type;
};

struct hw_hprof_threads {
    HW_VEC(struct hw_hprof_cursor) records;       /* of frames and traces */
    struct hw_map64 frame_of_id, trace_of_serial; /* -> records */
    HW_VEC(struct hw_hprof_thread_root) roots;
    HW_VEC(struct hw_hprof_local_root) locals;
};

void hw_hprof_threads_done(struct hw_hprof_threads *t);
int hw_hprof_threads_add(struct hw_hprof_threads *t, const struct hw_hprof_record *r);
int hw_hprof_threads_build(const struct hw_hprof_threads *t, struct hw_hprof_classes *c,
                           const struct hw_graph_builder *b, struct hw_heap_graph *g);
void hw_hprof_threads_name(const struct hw_profile *p, struct hw_heap_graph *g);

#endif
