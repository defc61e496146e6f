/*
 * merge.h - merges several traces into one
 *
 * Why:     a trace is a list of packets, so traces can be concatenated; but packet sequences, and
 *          with them interned data, must not clash if they come from different recorders, which all
 *          count from 1.
 * Shapes:  an input's packets keep their order and content, except for the sequence id: each
 *          (input, machine, sequence) gets an id of its own. An input's parts, from one clock
 *          snapshot to the next, are ordered among those of other inputs by the boot clock, as
 *          readers expect clocks not to go back. Compressed packets are unpacked. Times are
 *          unchanged: they count from the boot of the machine that recorded them.
 * Errors:  HW_ESYS, HW_ENOMEM. Damaged parts of an input are left out and counted (stats).
 */
#ifndef HW_TRACE_MERGE_H
#define HW_TRACE_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/reader.h"

struct hw_error;

struct hw_trace_merge {
    int out_fd;
    uint32_t n_sequences; /* given so far */
    uint64_t n_packets;
};

struct hw_trace_merge_input {
    const char *path; /* borrowed; NULL = fd, which is borrowed, too */
    int fd;
    struct hw_reader_stats stats; /* out: losses */
};

/* Only inputs whose times overlap are open at the same time. */
int hw_trace_merge(struct hw_trace_merge *m, struct hw_trace_merge_input *in, size_t n,
                   struct hw_error *err);

#endif
