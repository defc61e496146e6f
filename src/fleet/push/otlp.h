/*
 * otlp.h - a dump as an OpenTelemetry ExportProfilesServiceRequest
 *
 * Why:     OpenTelemetry's profiles are not pprof: a whole request shares its own tables.
 * Shapes:  one resource, one scope, a profile for each of the four columns. Row 0 of each table is
 *          empty, as the format requires. The layout is the one with stack_table and
 *          Sample.values = 4; a reader cannot distinguish it from earlier ones, which is why the
 *          command requires --alpha.
 * Owns:    its tables, reused from dump to dump.
 * Errors:  HW_ENOMEM.
 * Source:  opentelemetry/proto/profiles/v1development, read 2026
 */
#ifndef HW_FLEET_PUSH_OTLP_H
#define HW_FLEET_PUSH_OTLP_H

#include "base/text/strbuf.h"
#include "views/flame/functions.h"

struct hw_error;
struct hw_fleet_dump;
struct hw_otlp;
struct hw_post_labels;
struct hw_profile;

int hw_otlp_new(const struct hw_profile *p, const struct hw_namer *namer, struct hw_otlp **out);
void hw_otlp_free(struct hw_otlp *o); /* NULL is fine */
int hw_otlp_add(struct hw_otlp *o, struct hw_strbuf *out, const struct hw_fleet_dump *d,
                const struct hw_post_labels *labels, struct hw_error *err);

#endif
