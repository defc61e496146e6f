/*
 * heap_samples.h - HeapSamples → rows: differences to the callsite's previous values
 *
 * Why:     nearly all of a large trace is samples, so this is where the time of loading goes.
 * Shapes:  per heap of a process there is one series: the last cumulative values of every callsite.
 *          A sample's row is the difference to them.
 * Errors:  HW_ENOMEM, HW_ELIMIT. What is wrong with the data is counted in the profile.
 * Cost:    some 300 instructions for a usual sample.
 * Source:  doc/formats/trace.md, "Native dumps"
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_SAMPLES_H
#define HW_IMPORT_PERFETTO_HEAP_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "codec/pb.h"
#include "import/perfetto/interned.h"
#include "model/profile.h"

/* A sample's cumulative values. */
enum hw_sample_value {
    HW_SAMPLE_ALLOC_BYTES,
    HW_SAMPLE_FREED_BYTES,
    HW_SAMPLE_ALLOC_COUNT,
    HW_SAMPLE_FREE_COUNT,
    HW_SAMPLE_EST_ALLOC,
    HW_SAMPLE_EST_FREE,
    HW_SAMPLE_TEMPORARY_BYTES,
    HW_SAMPLE_TEMPORARY_COUNT,
    HW_SAMPLE_VALUE_COUNT
};

struct hw_sample_history {
    uint64_t values[HW_SAMPLE_VALUE_COUNT];
    uint64_t iid; /* the callstack id that the values belong to */
    uint32_t generation;
    hw_callsite_id callsite;
};

struct hw_sample_correction {
    uint64_t iid;
    uint32_t generation;
    hw_callsite_id callsite;
    uint64_t values[HW_SAMPLE_VALUE_COUNT];
};

/* One heap of one process on one sequence. */
struct hw_heap_series {
    uint64_t sequence;
    uint32_t run;
    hw_upid upid;
    hw_str_id heap;
    bool is_art; /* its frees are not stored */
    HW_VEC(struct hw_sample_history) histories;
    uint32_t *slots;                                 /* by callsite: history + 1, 0 = free; owned */
    size_t mask;                                     /* number of slots - 1 */
    size_t cursor;                                   /* the history after the one used last */
    HW_VEC(struct hw_sample_correction) corrections; /* few */
    uint32_t dump;                                   /* its latest in the profile; HW_ID_NONE */
    uint32_t dump_of_sequence;                       /* hw_dump_sequence.dump it came from */
    uint64_t raw_ts;
    uint64_t next; /* in the list of its key; HW_ID_NONE */
};

/* The packet that samples are in, and where they go; all borrowed. */
struct hw_heap_samples_context {
    struct hw_profile *profile;
    struct hw_interned *interned;
    uint64_t sequence;
    uint32_t generation;
    bool has_legacy; /* each dump has its own ids */
};

void hw_heap_series_done(struct hw_heap_series *s);

/* Skips the samples at r, up to one with an unusual encoding, which hw_pb_next reads. */
void hw_heap_samples_skip(struct hw_pb_reader *r);

/* Adds the rows of all samples in a ProcessHeapSamples to s->dump. */
int hw_heap_samples_read(struct hw_heap_series *s, const struct hw_heap_samples_context *at,
                         struct hw_bytes process_dump);

#endif
