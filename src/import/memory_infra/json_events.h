/*
 * json_events.h - a JSON trace, one event at a time
 *
 * Why:     reading a trace of hundreds of megabytes takes only the memory of its largest event, and
 *          one damaged event must not make others unreadable.
 * Shapes:  `[event, …]` or `{"traceEvents": [event, …], "metadata": {…}, …}`, unpacked.
 *          An event is the text of one object with balanced braces; it may still not be JSON.
 *          A file may end anywhere.
 * Units:   offset is the position of the first byte in the unpacked text.
 * Owns:    the texts, until the next call.
 * Errors:  the source's, HW_ENOMEM, HW_ELIMIT (an event above 256 MiB), HW_EFORMAT (no list of
 *          events).
 * Source:  doc/formats/memory-infra.md, "The format"
 */
#ifndef HW_IMPORT_MEMORY_INFRA_JSON_EVENTS_H
#define HW_IMPORT_MEMORY_INFRA_JSON_EVENTS_H

#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_source;
struct hw_json_events;

enum hw_json_event_kind {
    HW_JSON_EVENT,
    HW_JSON_METADATA, /* the value of the file's member "metadata" */
    HW_JSON_DAMAGED,  /* not an event, or one without an end */
    HW_JSON_EVENT_KIND_COUNT
};

struct hw_json_event {
    enum hw_json_event_kind kind;
    struct hw_bytes text;
    uint64_t offset;
    char ph; /* the member of that name if scanning found it; 0 = parse the event to know */
};

int hw_json_events_new(struct hw_source *source, struct hw_json_events **out);
void hw_json_events_free(struct hw_json_events *e);
/* 1 = an event, 0 = the file ended, negative = error. */
int hw_json_events_next(struct hw_json_events *e, struct hw_json_event *out, struct hw_error *err);
/* Call if the last event was not JSON: resumes at the next event inside its text, if any. */
void hw_json_events_retry(struct hw_json_events *e);

#endif
