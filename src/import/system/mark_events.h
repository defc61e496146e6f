/*
 * mark_events.h - instant events that are marks → marks of the model
 *
 * Why:     a mark is an event of the public format (trace/process_writer.h), so other readers show
 *          it; of all instants that a trace may have, we show only these.
 * Errors:  HW_ENOMEM; an event that is not a mark, or has no name, is skipped.
 * Source:  doc/formats/trace.md, "Track events"
 */
#ifndef HW_IMPORT_SYSTEM_MARK_EVENTS_H
#define HW_IMPORT_SYSTEM_MARK_EVENTS_H

#include <stdint.h>

#include "base/bytes.h"

struct hw_profile;

int hw_import_mark(struct hw_profile *p, struct hw_bytes event, int64_t ts_ns);

#endif
