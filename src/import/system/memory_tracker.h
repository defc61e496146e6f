/*
 * memory_tracker.h - MemoryTrackerSnapshot packets → memory dumps of the model
 *
 * Shapes:  packets of one time stamp are one snapshot; call hw_memory_dumps_finish after the last.
 * Errors:  HW_ENOMEM, HW_ELIMIT; damage is counted in the profile.
 * Source:  doc/formats/trace.md, "Memory dumps"
 */
#ifndef HW_IMPORT_SYSTEM_MEMORY_TRACKER_H
#define HW_IMPORT_SYSTEM_MEMORY_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_profile;

/* An attribute of a node. */
enum hw_memory_units { HW_MEMORY_UNITLESS, HW_MEMORY_BYTES, HW_MEMORY_COUNT };
struct hw_memory_entry {
    struct hw_bytes name, text;
    uint64_t number, units; /* enum hw_memory_units */
    bool has_text;
};

int hw_import_memory_snapshot(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns);
/* Adds rows NAME.value and NAME.unit to the set of args. */
int hw_import_memory_entry(struct hw_profile *p, uint32_t set, const struct hw_memory_entry *e);

#endif
