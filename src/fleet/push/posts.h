/*
 * posts.h - a profile as requests to stores of profiles: Pyroscope, Parca, OpenTelemetry
 *
 * Shapes:  one pprof profile per dump of a heap, in the form of Go's heap profiles; as many per
 *          request as fit into HW_POST_MAX_BYTES. Allocations are since the previous dump, as these
 *          stores add profiles up. Each profile has the labels of labels.h and, if the store
 *          supports ids, one computed from its content. OpenTelemetry's profiles are not pprof:
 *          otlp.c writes them, one dump per request.
 * Errors:  those of dumps.h, and what `take` returns.
 * Source:  doc/design/fleet.md, "What a dump becomes"
 */
#ifndef HW_FLEET_PUSH_POSTS_H
#define HW_FLEET_PUSH_POSTS_H

#include "fleet/push/make_entries.h"

struct hw_fleet_dump;

#define HW_POST_MAX_BYTES (8u * 1024 * 1024)

int hw_posts_make(const struct hw_profile *p, const struct hw_entry_maker *m, struct hw_error *err);

/* The labels of a profile; values are borrowed from the labels and the profile. */
struct hw_post_label {
    const char *name;
    struct hw_bytes value;
};
struct hw_post_labels {
    HW_VEC(struct hw_post_label) v;
    char pid[24], interval[24];
};
/* service_name: the store's name of the label for the service. */
int hw_post_labels_init(struct hw_post_labels *out, const struct hw_profile *p,
                        const struct hw_fleet_dump *d, const struct hw_fleet_process *process,
                        const struct hw_fleet_labels *labels, const char *service_name);
void hw_post_labels_done(struct hw_post_labels *l);

#endif
