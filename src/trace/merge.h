/*
 * merge.h - merges several traces into one
 *
 * Why:     a trace is a list of packets, so traces can be concatenated; but packet sequences, and
 *          with them interned data, must not clash if they come from different recorders, which all
 *          count from 1.
 * Shapes:  the packets of an input keep their order, and everything in them but the sequence id:
 *          each (input, machine, sequence) gets a number of its own. An input's parts, from one
 *          snapshot of the clocks to the next, are put among those of the others by the boot clock:
 *          readers expect that clocks do not go back. Compressed packets are unpacked. Times stay
 *          what they are: since the boot of the machine that recorded them.
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
    struct hw_reader_stats stats; /* out: what was lost of it */
};

/* Of several inputs those are open whose times overlap. */
int hw_trace_merge(struct hw_trace_merge *m, struct hw_trace_merge_input *in, size_t n,
                   struct hw_error *err);

#endif
