/*
 * sample_rows.h - a profile as rows of the fleet's tables, in RowBinary, a batch at a time
 *
 * Why:     the bytes sent and the bytes spooled are the same; a batch is independent of the store.
 * Shapes:  the dumps of dumps.h, in order of time. A batch has whole rows, at most
 *          HW_SAMPLE_ROWS_MAX_BYTES of samples (more only if a single row is longer), and every
 *          callstack that they refer to, except those in `known`.
 * Units:   bytes, counts; times since 1970.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND: the profile has no heap dump; HW_EINVAL: its time of recording
 *          is unknown; what the sink returns.
 * Threads: the profile is frozen and only read.
 * Source:  fleet/store/table_schema.def; doc/design/fleet.md
 */
#ifndef HW_FLEET_PUSH_SAMPLE_ROWS_H
#define HW_FLEET_PUSH_SAMPLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "fleet/push/labels.h"
#include "fleet/store/table_schema.h"
#include "model/profile.h"
#include "views/flame/functions.h"

struct hw_error;

#define HW_SAMPLE_ROWS_MAX_BYTES (7u * 1024 * 1024) /* a request is at most 8 MiB */

struct hw_sample_rows_batch {
    struct hw_bytes samples, stacks; /* RowBinary; borrowed for the call */
    size_t n_samples, n_stacks;
};

struct hw_sample_rows_options {
    const struct hw_fleet_labels *labels;
    const struct hw_namer *namer; /* NULL = raw names */
    const struct hw_map64 *known; /* hashes of callstacks not to send; NULL = none */
    const int64_t *wall_ns;       /* of the last dump, for a profile without wall time; NULL */
    int (*take)(void *ctx, const struct hw_sample_rows_batch *b, struct hw_error *err);
    void *ctx;
};

int hw_sample_rows_make(const struct hw_profile *p, const struct hw_sample_rows_options *o,
                        struct hw_error *err);

#endif
