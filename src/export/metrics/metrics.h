/*
 * metrics.h - fixed questions whose answers are protobuf messages: --run-metrics
 *
 * Why:     scripts and other front ends ask for a metric by its name and read its message; the
 *          command, the prompt and the RPC server give the same bytes.
 * Shapes:  the answer is one TraceMetrics (proto/metrics.proto) with a field per metric asked for,
 *          in the order asked for; a name given twice is answered once. A metric about data that
 *          the trace does not hold is an empty message.
 * Errors:  HW_ENOTFOUND (no such metric: the text names it and those there are), HW_ENOMEM. On
 *          error out is as it was.
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
