/*
 * jvm_counters.h - what a JVM says of its own memory, without being asked
 *
 * Why:     HotSpot keeps its figures in memory that it maps from /tmp/hsperfdata_USER/PID. It is read there, in the
 *          process: no file has to be found or believed.
 * Shapes:  sums over generations and spaces. What it does not have is UINT64_MAX (-XX:-UsePerfData: all).
 * Units:   bytes.
 * Threads: pure.
 * Source:  HotSpot's perfMemory.hpp (PerfDataPrologue, PerfDataEntry)
 */
#ifndef HW_PROC_JIT_JVM_COUNTERS_H
#define HW_PROC_JIT_JVM_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_JVM_COUNTERS_MAX 65536u /* bytes; HotSpot's are 32 KiB */

struct hw_jvm_counters {
    uint64_t heap_used, heap_committed, heap_max;
    uint64_t metaspace_used, metaspace_committed;
    uint64_t threads; /* a number */
};

/* Is that the name of such a mapping? */
bool hw_jvm_counters_are_in(const char *path);
/* False: these are no such figures, or they are not finished. */
bool hw_jvm_counters_parse(const uint8_t *p, size_t n, struct hw_jvm_counters *out);

#endif
