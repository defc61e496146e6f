/*
 * memory_tracker.h - MemoryTrackerSnapshot packets → memory dumps of the model
 *
 * Shapes:  packets of one time stamp are one snapshot; hw_memory_dumps_finish follows when all are
 * in. Errors:  HW_ENOMEM, HW_ELIMIT; damage is counted in the profile. Source: spec/trace-format.md
 * 12
 */
#ifndef HW_IMPORT_MEMORY_TRACKER_H
#define HW_IMPORT_MEMORY_TRACKER_H

#include <stdint.h>

#include "base/bytes.h"

struct hw_profile;

int hw_import_memory_snapshot(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns);

#endif
