/*
 * python_heap.h - CPython's own heap (pymalloc), read from outside: what its arenas have in use and free
 *
 * Why:     Python takes objects of up to 512 bytes from arenas of 1 MiB that it maps itself. Malloc's
 *          profile does not show them, and one object keeps an arena.
 * Shapes:  committed = used + free_blocks + free_pools + overhead, to the byte what
 *          sys._debugmallocstats() says: bytes in allocated and available blocks, unused pools, the
 *          rest (headers, what does not divide, alignment). Of the main interpreter; one with arenas
 *          of its own is not found.
 *          Nothing is taken on trust: each pool has to have a size class, its limit and a count that
 *          fit together, and each arena as many free pools as are counted, all in memory that is mapped,
 *          and none twice. Else, also after three
 *          attempts, the state says that the figures are not known.
 * Units:   bytes.
 * Errors:  HW_ENOMEM.
 * Cost:    48 bytes of each pool of 16 KiB, until 100 ms of CPU time are used.
 * Threads: pure, but for what it reads of the process.
 * Source:  CPython's obmalloc.c and pycore_obmalloc.h: pools, arenas and the table of used pools, which
 *          are the same in 3.10 to 3.13 on 64-bit machines
 */
#ifndef HW_PROC_HEAPS_PYTHON_HEAP_H
#define HW_PROC_HEAPS_PYTHON_HEAP_H

#include <stdint.h>

#include "proc/smaps.h"

/* Numbers of the trace, too (MemoryAccount.python_state). */
enum hw_python_heap_state {
    HW_PYTHON_HEAP_NONE, /* no interpreter */
    HW_PYTHON_HEAP_KNOWN,
    HW_PYTHON_HEAP_UNKNOWN, /* its table of pools was not found: another version, or PYTHONMALLOC=malloc */
    HW_PYTHON_HEAP_CHANGED, /* while it was read, what was found does not fit together, or is not in memory */
    HW_PYTHON_HEAP_LIMIT, /* no CPU time was left, or there are too many mappings */
};

struct hw_python_heap {
    enum hw_python_heap_state state;
    uint64_t arenas; /* a number */
    uint64_t used, free_blocks, free_pools, committed, resident;
};

/* s: its mappings, neither named nor summed. */
int hw_python_heap_read(const struct hw_smaps *s, int mem, int pagemap, struct hw_python_heap *out);

#endif
