/*
 * slice_boxes.h - the visible part of a thread's slices
 *
 * Why:     a track of 10^6 slices on 1000 pixels: boxes too narrow to see are merged.
 * Shapes:  tracks are in order of (upid, tid). Boxes are in order of time within each depth;
 *          those narrower than min_ns are merged with their neighbours of the same depth, n counts
 *          them.
 * Owns:    the vectors belong to the caller.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_VIEWS_TIME_SLICE_BOXES_H
#define HW_VIEWS_TIME_SLICE_BOXES_H

#include <stdint.h>

#include "base/memory/vec.h"

struct hw_profile;

struct hw_slice_summary {
    uint32_t track;  /* of the model */
    uint32_t thread; /* row of the profile's threads; HW_ID_NONE */
    uint32_t n_slices, n_levels;
    int64_t first_ns, last_ns;
};
typedef HW_VEC(struct hw_slice_summary) hw_slice_summaries;

/* Tracks with slices. */
int hw_slices_summaries(const struct hw_profile *p, hw_slice_summaries *out);

struct hw_slice_box {
    int64_t ts_ns, end_ns;
    uint32_t depth;
    uint32_t row; /* of the model; the longest of merged ones */
    uint32_t n;
};
typedef HW_VEC(struct hw_slice_box) hw_slice_boxes;

/* The boxes of a track that overlap [from, to), with depths below max_depth. Slices without an end
 * last until the profile's end. */
int hw_slices_boxes(const struct hw_profile *p, uint32_t track, int64_t from_ns, int64_t to_ns,
                    int64_t min_ns, uint32_t max_depth, hw_slice_boxes *out);

#endif
