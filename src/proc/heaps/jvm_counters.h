/*
 * jvm_counters.h - what a JVM says of its own memory, without being asked
 *
 * Why:     HotSpot keeps its figures in memory that it maps from /tmp/hsperfdata_USER/PID. It is read there, in the
 *          process: no file has to be found or believed.
 * Shapes:  sums over generations and spaces. What it does not have is UINT64_MAX (-XX:-UsePerfData: all).
 *          Only pages in memory are read (HotSpot writes to all of them), as the file may lie where nobody answers for others.
 * Units:   bytes.
 * Threads: pure, but for what is read of the process.
 * Source:  HotSpot's perfMemory.hpp (PerfDataPrologue, PerfDataEntry)
 */
#ifndef HW_PROC_HEAPS_JVM_COUNTERS_H
#define HW_PROC_HEAPS_JVM_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/smaps.h"

struct hw_jvm_counters {
    uint64_t heap_used, heap_committed, heap_max;
    uint64_t metaspace_used, metaspace_committed;
    uint64_t threads; /* a number */
};

/* Is that the name of such a mapping? */
bool hw_jvm_counters_are_in(const char *path);
/* Of the process with these mappings, neither named nor summed. False: it has none, they are not finished, or not all in memory. */
bool hw_jvm_counters_read(const struct hw_smaps *s, int mem, int pagemap,
                          struct hw_jvm_counters *out);
/* False: these are no such figures, or they are not finished. */
bool hw_jvm_counters_parse(const uint8_t *p, size_t n, struct hw_jvm_counters *out);

#endif
