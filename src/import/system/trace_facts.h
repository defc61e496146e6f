/*
 * trace_facts.h - packets about the trace itself → metadata, statistics, configuration of the model
 *
 * Errors:  HW_ENOMEM; damage is skipped.
 * Source:  doc/formats/trace.md
 */
#ifndef HW_IMPORT_SYSTEM_TRACE_FACTS_H
#define HW_IMPORT_SYSTEM_TRACE_FACTS_H

#include <stdint.h>

#include "base/bytes.h"
#include "model/profile.h"

int hw_import_trace_config(struct hw_profile *p, struct hw_bytes message);
int hw_import_trace_stats(struct hw_profile *p, struct hw_bytes message);
int hw_import_trace_uuid(struct hw_profile *p, struct hw_bytes message);
int hw_import_provenance(struct hw_profile *p, struct hw_bytes message);
int hw_import_system_info(struct hw_profile *p, struct hw_bytes message);
int hw_import_service_event(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns);
int hw_import_attributes(struct hw_profile *p, struct hw_bytes message);

/* The first trigger counts, but one that cloned a session takes precedence over one that started
 * it. */
enum hw_trigger_kind { HW_TRIGGER_NONE, HW_TRIGGER_START, HW_TRIGGER_CLONE };
int hw_import_trigger(struct hw_profile *p, struct hw_bytes message, enum hw_trigger_kind kind,
                      enum hw_trigger_kind *so_far);

#endif
