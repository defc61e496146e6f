/*
 * make_entries.h - converts a profile to entries for one kind of store
 *
 * Errors:  HW_ENOTFOUND (no heap profile), HW_EINVAL (no time), HW_ENOMEM, and what `take` returns.
 * Source:  doc/design/fleet.md, "What a dump becomes"
 */
#ifndef HW_FLEET_PUSH_MAKE_ENTRIES_H
#define HW_FLEET_PUSH_MAKE_ENTRIES_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/push/entry.h"
#include "fleet/push/labels.h"

struct hw_error;
struct hw_map64;
struct hw_namer;
struct hw_profile;

struct hw_entry_maker {
    enum hw_store_form form;
    const struct hw_fleet_labels *labels;
    const struct hw_namer *namer;
    const struct hw_map64 *known; /* ClickHouse: callstacks that the store has; NULL */
    const int64_t *wall_ns;       /* of the last dump, for a profile without wall time; NULL */
    int (*take)(void *ctx, const struct hw_entry *e, struct hw_error *err); /* e is borrowed */
    void *ctx;
};

int hw_entries_make(const struct hw_profile *p, const struct hw_entry_maker *m,
                    struct hw_error *err);

#endif
