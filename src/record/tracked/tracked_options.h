/*
 * tracked_options.h - the --memlog options, shared by several commands
 *
 * Why:     `ui`, `serve` and `memory-internals` take the same ones, and --enable-heap-profiling is
 *          an older name for some of them.
 * Errors:  HW_EINVAL with a text for the user.
 * Source:  doc/formats/memory-infra.md, "Modes"
 */
#ifndef HW_RECORD_TRACKED_TRACKED_OPTIONS_H
#define HW_RECORD_TRACKED_TRACKED_OPTIONS_H

#include "record/tracked/tracked_processes.h"

struct hw_opts;

struct hw_tracked_options {
    struct hw_tracked_how how;
    const char *mode; /* borrowed; NULL = none was given */
};

int hw_tracked_options(const struct hw_opts *o, struct hw_tracked_options *out,
                       struct hw_error *err);

#endif
