/*
 * slices.h - what threads were doing, and when: tables `slice`, `thread_track`
 *
 * Why:     a program's scopes and a trace's begin, end and complete events are the same to a
 *          reader: nested spans. Files have them in any order.
 * Shapes:  events are added while a file is read; hw_slices_finish nests them, track by track, and
 *          makes rows in order of (ts, track, depth). An end ends the innermost slice that began
 *          without a known duration. Complete events that outlive the one around them and ends
 *          without a beginning are left out and counted in the profile's stats.
 * Units:   ns of the trace's clock; dur_ns -1 = no end.
 * Owns:    its rows; strings belong to the profile.
 * Errors:  HW_ENOMEM, HW_ELIMIT (2^32 of them).
 * Source:  doc/formats/trace.md, "Track events"
 */
#ifndef HW_MODEL_SLICES_H
#define HW_MODEL_SLICES_H

#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"

struct hw_profile;

struct hw_slice_track {
    uint32_t thread; /* row of the profile's threads; HW_ID_NONE = a track of its own */
    hw_str_id name;
};

struct hw_slice {
    int64_t ts_ns, dur_ns;
    uint32_t track, parent; /* parent: HW_ID_NONE = outermost */
    uint32_t depth;
    hw_str_id category, name;
};

enum hw_slice_event_kind { HW_SLICE_BEGIN, HW_SLICE_END, HW_SLICE_WHOLE };

struct hw_slice_event {
    int64_t ts_ns, dur_ns; /* dur_ns: of HW_SLICE_WHOLE */
    uint32_t track;
    enum hw_slice_event_kind kind;
    hw_str_id category, name; /* not for HW_SLICE_END */
};

struct hw_slices {
    HW_VEC(struct hw_slice) rows; /* none before hw_slices_finish */
    HW_VEC(struct hw_slice_track) tracks;
    HW_VEC(struct hw_slice_event) events; /* none after it */
    struct hw_map64 track_of;             /* thread row, or 1 << 32 | name, → tracks */
};

/* Finds or adds the track of a thread, or the one of a name. */
int hw_slices_thread_track(struct hw_slices *s, uint32_t thread, uint32_t *out);
int hw_slices_named_track(struct hw_slices *s, hw_str_id name, uint32_t *out);
/* Negative durations count as 0. */
int hw_slices_add(struct hw_slices *s, const struct hw_slice_event *e);
int hw_slices_finish(struct hw_profile *p);
void hw_slices_done(struct hw_slices *s);

#endif
