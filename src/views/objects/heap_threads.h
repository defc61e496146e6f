/*
 * heap_threads.h - what each thread of a heap graph keeps alive
 *
 * Why:     a list in a variable of a thread that waits is a leak that no field leads to.
 * Shapes:  a thread's roots are the roots whose holders are this thread alone: variables, JNI
 *          code, monitors, its Thread object. It retains what only its roots reach, that is, what
 *          would be freed without them. What two threads reach is retained by neither of them.
 *          One row for each thread that holds roots, by descending retained bytes, then by number.
 *          variables: the roots that it holds, alone or not, by depth, then largest first; each
 *          once a frame. retained of these is what the object dominates, as everywhere.
 *          Constants of compiled code that a field holds, too, are no roots and are left out.
 * Units:   bytes, objects.
 * Owns:    its rows.
 * Errors:  HW_ENOMEM.
 * Cost:    time O(objects + references + holders × log), memory O(objects): 4 bytes per object,
 *          and 4 for each that is waiting.
 * Threads: pure.
 * Source:  doc/design/heap-graphs.md
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_THREADS_H
#define HW_VIEWS_OBJECTS_HEAP_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"

struct hw_thread_variable {
    const struct hw_heap_holder *holder;
    int64_t retained; /* size and native size */
    bool is_only;     /* nothing but this thread reaches the object */
};

struct hw_thread_heap {
    uint32_t thread; /* of the graph */
    struct hw_heap_sum retained;
    size_t first_variable, n_variables;
};

struct hw_thread_heaps {
    HW_VEC(struct hw_thread_heap) v;
    HW_VEC(struct hw_thread_variable) variables;
};

int hw_heap_threads_find(const struct hw_heap_graph *g, const struct hw_dominators *d,
                         struct hw_thread_heaps *out);
void hw_heap_threads_done(struct hw_thread_heaps *t);

#endif
