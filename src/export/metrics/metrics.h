/*
 * metrics.h - predefined metrics computed as protobuf messages: --run-metrics
 *
 * Why:     scripts and other front ends request a metric by name and read its message; the
 *          command, the prompt and the RPC server return the same bytes.
 * Shapes:  the result is one TraceMetrics (proto/metrics.proto) with a field per requested metric,
 *          in the order requested; a repeated name is computed once. A metric about data that the
 *          trace lacks is an empty message.
 * Errors:  HW_ENOTFOUND (no such metric: the text names it and lists the known ones), HW_ENOMEM.
 *          On error out is unchanged.
 * Threads: pure; the profile must be frozen.
 * Source:  proto/metrics.proto; doc/design/sql.md
 */
#ifndef HW_EXPORT_METRICS_METRICS_H
#define HW_EXPORT_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/strbuf.h"

struct hw_error;
struct hw_profile;

/* The numbers are those of the RPC's compute_metric_args.format. */
enum hw_metrics_format { HW_METRICS_BINARY, HW_METRICS_TEXT, HW_METRICS_JSON };

int hw_metrics_run(const struct hw_profile *p, const char *const *names, size_t n_names,
                   enum hw_metrics_format format, struct hw_strbuf *out, struct hw_error *err);

/* "binary", "text", "json". */
bool hw_metrics_format_parse(const char *word, enum hw_metrics_format *out);

#endif
