/*
 * profile_writer.h - one heap dump → ProfilePackets and their interned data
 *
 * Why:     all rules for writing a dump are here: index, continued, interning once per sequence,
 *          packets below 400 000 bytes, cumulative values, unchanged callstacks left out.
 * Shapes:  begin → any number of samples → end, per (process, heap). Callsites belong to a
 *          hw_callsites of that process; interned ids are kept per cs_key.
 * Errors:  those of trace/writer.h.
 * Source:  doc/formats/trace.md, "Native dumps"
 */
#ifndef HW_TRACE_PROFILE_WRITER_H
#define HW_TRACE_PROFILE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "model/callsites.h"

struct hw_error;
struct hw_pb;
struct hw_trace_writer;
struct hw_profile_writer; /* one data source = one packet sequence */

#define HW_UNWIND_BUCKETS 20

/* ProcessHeapSamples without its samples. Strings are borrowed for the call. */
struct hw_dump_head {
    uint64_t pid;
    const char *heap_name;
    uint64_t timestamp_ns, start_timestamp_ns; /* CLOCK_MONOTONIC_COARSE */
    uint64_t interval_bytes, orig_interval_bytes;
    bool from_startup, rejected_concurrent, disconnected, buffer_overran, buffer_corrupted,
        hit_guardrail;
    uint32_t client_error; /* ClientError of the format: 0, 1, 2 */
    bool at_max;           /* samples carry max values */
    bool list_all;         /* the last dump: also callstacks unchanged since the previous one */
    bool checkpoint;
    bool keeps_peak;     /* a maximum between dumps gets a dump of its own */
    bool has_rounding;   /* samples have what the allocator adds to the live bytes */
    bool has_temporary;  /* samples have what was freed within a second */
    bool all_variances;  /* samples have the variances of all values, not only of live bytes */
    const char *trigger; /* "end", "continuous", "signal", …; NULL = none */
    uint64_t lost_samples, lost_slices;
    const char *lost_reason; /* NULL = none */
    /* ProcessStats */
    uint64_t unwinding_errors, heap_samples, map_reparses, total_unwinding_time_us,
        client_spinlock_blocked_us;
    uint64_t unwinding_time_us[HW_UNWIND_BUCKETS];
};

/* Writes all of it as fields of ProcessHeapSamples. */
void hw_dump_head_put(struct hw_pb *pb, const struct hw_dump_head *h);

struct hw_dump_sample {
    hw_callsite_id callsite;
    uint64_t self_allocated, self_freed, alloc_count, free_count;
    uint64_t self_max, self_max_count;
    double est_alloc_count, est_free_count, est_max_count; /* rounded when written */
    uint64_t self_idle;
    bool has_idle;
    double rounding, variance_rounding; /* 0 = not written */
    double variance_bytes;              /* of the live bytes; 0 and below = not written */
    double variance_objects, variance_alloc_space, variance_alloc_objects; /* if all_variances */
    uint64_t temporary_space;                                              /* if has_temporary */
    double est_temporary_objects;
    double variance_temporary_space, variance_temporary_objects;
};

int hw_profile_writer_new(struct hw_trace_writer *w, struct hw_profile_writer **out);
void hw_profile_writer_free(struct hw_profile_writer *p);

/*
 * Pass every callsite's values at each dump; those unchanged since this heap's previous dump are
 * left out here. Names of frames must be set before their first dump: they are written once.
 * cs_key: one for each set of callsites (one per target), which have separate interned ids.
 */
int hw_profile_begin(struct hw_profile_writer *p, const struct hw_dump_head *head,
                     const struct hw_callsites *cs, uint64_t cs_key, struct hw_error *err);
int hw_profile_sample(struct hw_profile_writer *p, const struct hw_dump_sample *s,
                      struct hw_error *err);
int hw_profile_end(struct hw_profile_writer *p, struct hw_error *err);
/* Instead of the end: the samples so far are written, and readers see that more were to come,
 * unless another dump of the sequence ends. is_checkpoint: that dump then includes this one. */
int hw_profile_cut(struct hw_profile_writer *p, bool is_checkpoint, struct hw_error *err);
/* The target is gone: drops what was interned for it (ids are not reused). */
void hw_profile_forget(struct hw_profile_writer *p, uint64_t cs_key);

/* A sample of this process that belongs to a block of its heap graph. */
struct hw_dump_link {
    uint32_t block; /* of the graph, from 0 */
    hw_callsite_id callsite;
    uint64_t alloc_size, sample_size;
};
/* Writes the links of the heap graph of that time. */
int hw_profile_links(struct hw_profile_writer *p, uint64_t pid, uint64_t graph_boottime_ns,
                     const struct hw_dump_link *links, size_t n, const struct hw_callsites *cs,
                     uint64_t cs_key, struct hw_error *err);

/* The process may not be profiled: writes an empty dump with the reason. */
int hw_profile_refused(struct hw_profile_writer *p, uint64_t pid, uint64_t interval_bytes,
                       const char *reason, struct hw_error *err);
/* A single ProcessHeapSamples {pid, rejected_concurrent}. */
int hw_profile_rejected(struct hw_profile_writer *p, uint64_t pid, struct hw_error *err);

#endif
