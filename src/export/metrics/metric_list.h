/*
 * metric_list.h - the list of metrics: X(name). The writer hw_metric_<name> puts the fields of its
 * message into out; the field of TraceMetrics has the same name.
 */
#ifndef HW_EXPORT_METRICS_METRIC_LIST_H
#define HW_EXPORT_METRICS_METRIC_LIST_H

#include "codec/pb.h"
#include "model/profile.h"

#define HW_METRICS(X)                                                                              \
    X(unsymbolized_frames)                                                                         \
    X(heap_profile_callsites)                                                                      \
    X(profiler_smaps)                                                                              \
    X(java_heap_stats)                                                                             \
    X(java_heap_histogram)                                                                         \
    X(java_heap_class_stats)

#define X(name) int hw_metric_##name(const struct hw_profile *p, struct hw_pb *out);
HW_METRICS(X)
#undef X

/* An AndroidProcessMetadata as field `field`. */
void hw_metric_put_process(struct hw_pb *out, uint32_t field, const struct hw_profile *p,
                           hw_upid upid);
/* A string of the model; "" is left out. */
void hw_metric_put_str(struct hw_pb *out, uint32_t field, const struct hw_profile *p,
                       hw_str_id str);

#endif
