/*
 * jvm_code.h - a JVM's code cache by its own records, read from outside
 *
 * Why:     compiled code is a large part of some JVMs, and their figures in shared memory (jvm_counters.h) lack it.
 * Shapes:  sums over its code heaps, as `jcmd PID Compiler.codecache` has them: used is what blocks take that are in
 *          use, committed what is mapped. Where the records are, HotSpot says itself to debuggers: a
 *          table of types, fields and offsets (gHotSpotVMStructs), whose texts are in the file of
 *          libjvm.so. The heaps have to lie in private memory that the kernel has mapped without a file, and blocks
 *          have to fill them without a gap.
 * Units:   bytes.
 * Errors:  HW_ENOMEM. What cannot be read is a state.
 * Cost:    a word a block, until 100 ms of CPU time are used.
 * Threads: pure, but for what it reads of the process.
 * Source:  HotSpot's vmStructs.hpp (VMStructEntry), vmStructs.cpp (CodeCache, CodeHeap, HeapBlock, VirtualSpace);
 *          tried with 17 and 25
 */
#ifndef HW_PROC_HEAPS_JVM_CODE_H
#define HW_PROC_HEAPS_JVM_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/smaps.h"

struct hw_jvm_code {
    bool is_known;
    uint64_t used, committed;
};

/* Texts at addresses of the process, in a file that is mapped there: at most max bytes with the 0 that ends it. */
struct hw_jvm_texts {
    bool (*read)(void *arg, uint64_t at, char *out, size_t max);
    void *arg;
};

/* table: where the process has the pointer to the table. s: its mappings, neither named nor summed. */
int hw_jvm_code_read(const struct hw_smaps *s, int mem, int pagemap, uint64_t table,
                     const struct hw_jvm_texts *texts, struct hw_jvm_code *out);

#endif
