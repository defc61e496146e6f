/*
 * python_objects.h - Python's objects as the heap python.alloc
 *
 * Why:     CPython serves requests of up to 512 bytes from arenas of its own (pymalloc). malloc never sees these, so a
 *          program of many small objects looks nearly empty.
 * Shapes:  its table of functions for objects and memory (PYMEM_DOMAIN_OBJ, _MEM) gets ours, which count as malloc's
 *          hooks do and pass each call on. Larger requests are passed on uncounted: they are malloc's.
 * Errors:  in doubt nothing is changed, and the session's ring says why (enum hw_ring_objects).
 * Threads: any; one at a time changes words, each with one compare-and-swap. The interpreter's lock is not needed.
 * Source:  doc/design/python.md, "Objects"
 */
#ifndef HW_CLIENT_HOOKS_PYTHON_OBJECTS_H
#define HW_CLIENT_HOOKS_PYTHON_OBJECTS_H

#include "client/client.h"
#include "client/sample/managed.h"

#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)

extern HW_HIDDEN _Atomic uint32_t hw_python_objects_rest; /* visits until the table is read again */
extern HW_HIDDEN _Atomic uint32_t
    hw_python_objects_generation; /* of the session that it was read for */

/* Cheap: in every visit of the slow path. */
static inline bool hw_python_objects_due(void)
{
    if (hw_likely(!hw_python_is_on()))
        return false;
    uint32_t rest = atomic_load_explicit(&hw_python_objects_rest, memory_order_relaxed);
    if (rest == 0 || atomic_load_explicit(&hw_python_objects_generation, memory_order_relaxed) !=
                         atomic_load_explicit(&hw_control.generation, memory_order_relaxed))
        return true;
    atomic_store_explicit(&hw_python_objects_rest, rest - 1, memory_order_relaxed);
    return false;
}

/* Outside of any visit. Keeps errno. */
void hw_python_objects_place(void);
/* The process ends: reads the table once more, so that a recording whose last objects were not seen says so. */
void hw_python_objects_exit(void);
/* Takes our functions out of the table, unless others have put theirs on top of them since: then they stay, and pass
 * calls on. No session runs. False: a thread is just changing the table, and may put ours there yet; try once more. */
bool hw_python_objects_remove(void);

#else

#define hw_python_objects_due()    false
#define hw_python_objects_place()  ((void)0)
#define hw_python_objects_exit()   ((void)0)
#define hw_python_objects_remove() true

#endif

#endif
