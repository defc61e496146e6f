/*
 * track_events.h - track descriptors and track events → slices and marks of the model
 *
 * Shapes:  a track is a thread's or has a name; descriptors are read before the events, as they may
 *          follow them in the file. Begin and end events, and complete ones of the older form, are
 *          slices; instants of the category of marks are marks; counters, flows and other instants
 *          are skipped.
 * Errors:  HW_ENOMEM, HW_ELIMIT. An event on an undescribed track goes to one without a name.
 * Source:  doc/formats/trace.md, "Track events"
 */
#ifndef HW_IMPORT_PERFETTO_TRACK_EVENTS_H
#define HW_IMPORT_PERFETTO_TRACK_EVENTS_H

#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "import/perfetto/interned.h"
#include "model/profile.h"
#include "trace/reader.h"

struct hw_track_importer {
    struct hw_profile *profile;   /* borrowed, as is the next */
    struct hw_interned *interned; /* complete before the first event */
    HW_VEC(struct hw_described_track) described;
    struct hw_map64 by_uuid;     /* -> described */
    struct hw_map64 of_sequence; /* -> default track uuid of its events */
};

void hw_track_importer_init(struct hw_track_importer *t, struct hw_profile *profile,
                            struct hw_interned *interned);
void hw_track_importer_done(struct hw_track_importer *t);

/* All descriptors before the first event. */
int hw_track_importer_descriptor(struct hw_track_importer *t, struct hw_bytes message);
/* The TracePacketDefaults that a packet brings for its sequence. */
int hw_track_importer_defaults(struct hw_track_importer *t, const struct hw_packet *p);
int hw_track_importer_event(struct hw_track_importer *t, const struct hw_packet *p, int64_t ts_ns);

#endif
