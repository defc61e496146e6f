/*
 * perf_samples.h - PerfSample packets → CPU samples and counters of the model
 *
 * Shapes:  a packet sequence is a session; its PerfSampleDefaults name its counters.
 * Errors:  HW_ENOMEM, HW_ELIMIT; losses noted by the recorder are counted in the profile.
 * Source:  doc/formats/trace.md, "CPU samples"; proto/perf.proto
 */
#ifndef HW_IMPORT_PERFETTO_PERF_SAMPLES_H
#define HW_IMPORT_PERFETTO_PERF_SAMPLES_H

#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "import/perfetto/interned.h"
#include "model/profile.h"
#include "trace/reader.h"

struct hw_cpu_importer {
    struct hw_profile *profile;               /* borrowed, as is the next */
    struct hw_interned *interned;             /* complete before the first sample */
    struct hw_map64 by_sequence;              /* -> sessions */
    HW_VEC(struct hw_cpu_session *) sessions; /* owned */
};

void hw_cpu_importer_init(struct hw_cpu_importer *c, struct hw_profile *profile,
                          struct hw_interned *interned);
void hw_cpu_importer_done(struct hw_cpu_importer *c);

/* The TracePacketDefaults that a packet brings for its sequence. */
int hw_cpu_importer_defaults(struct hw_cpu_importer *c, const struct hw_packet *p);
int hw_cpu_importer_sample(struct hw_cpu_importer *c, const struct hw_packet *p, int64_t ts_ns);

#endif
