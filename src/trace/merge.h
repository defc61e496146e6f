/*
 * merge.h - merges several traces into one
 *
 * Why:     a trace is a list of packets, so traces can be concatenated; but packet sequences, and
 *          with them interned data, must not clash if they come from different recorders, which all
 *          count from 1.
 * Shapes:  packets keep their order, input after input, and everything in them but the sequence id:
 *          each (input, machine, sequence) gets a number of its own. Compressed packets are
 *          unpacked. Times stay what they are: since the boot of the machine that recorded them.
 * Errors:  HW_ESYS, HW_ENOMEM. Damaged parts of an input are left out and counted (stats).
 */
#ifndef HW_TRACE_MERGE_H
#define HW_TRACE_MERGE_H

#include <stdint.h>

#include "trace/reader.h"

struct hw_error;

struct hw_trace_merge {
    int out_fd;
    uint32_t n_sequences; /* given so far */
    uint64_t n_packets;
};

/* Appends one input. *stats tells what was lost of it. */
int hw_trace_merge_add(struct hw_trace_merge *m, int in_fd, struct hw_reader_stats *stats,
                       struct hw_error *err);

#endif
