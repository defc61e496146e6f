/*
 * jitdump.h - the records of a jit-PID.dump → generated code
 *
 * Why:     says more than a perf map: when code came, when it was moved, and the lines of its
 *          source. A program maps the file executable once, so that others find it.
 * Shapes:  a header, then records { u32 kind, u32 size, u64 time }, in the machine's byte order:
 *              0 load    pid tid u32, vma address size index u64, name NUL, code
 *              1 move    pid tid u32, vma from to size index u64
 *              2 lines   address n u64, n times { address u64, line discriminator u32, file NUL };
 *                        stands in front of the load with that address; file "\xff" = as before
 *              3 close · 4 unwinding info (left out: see doc/design/generated-code.md)
 *          The file grows while it is read; times are CLOCK_MONOTONIC unless flag 1 says the
 *          processor's.
 * Errors:  HW_EFORMAT: not one, or what follows cannot be found; HW_ENOMEM, HW_ELIMIT. A record
 *          whose contents make no sense is counted and skipped.
 * Source:  tools/perf/Documentation/jitdump-specification.txt of Linux.
 */
#ifndef HW_PROC_JIT_JITDUMP_H
#define HW_PROC_JIT_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "proc/jit/jit_code.h"

#define HW_JITDUMP_HEADER_BYTES 40u
#define HW_JITDUMP_MAX_RECORD   (64u * 1024 * 1024)
#define HW_JITDUMP_MAX_PIECE    (2u * 1024 * 1024) /* that one record can need */

struct hw_jitdump {
    bool has_header;
    bool other_clock;  /* its times say nothing to us */
    uint64_t lines_at; /* of the lines record that waits for its load; 0 = none */
    HW_VEC(struct hw_jit_line) lines;
    uint64_t n_bad;
};

void hw_jitdump_done(struct hw_jitdump *d);

/*
 * Takes what is complete in the piece, up to the first record later than until_ns. A record may be
 * skipped beyond the piece's end: *used is how far to go on in the file. *size = the bytes that the
 * next record needs in one piece, as far as that is known; 0 = it is of a later time.
 */
int hw_jitdump_read(struct hw_jitdump *d, struct hw_jit_code *c, struct hw_bytes piece,
                    uint64_t until_ns, uint64_t *used, size_t *size);

#endif
