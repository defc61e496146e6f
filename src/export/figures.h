/*
 * figures.h - figures and titles as the drawn formats write them
 *
 * Errors:  those of the buffer (sticky).
 */
#ifndef HW_EXPORT_FIGURES_H
#define HW_EXPORT_FIGURES_H

#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "export/export.h"

#define HW_FIGURE_MAX 64u

/* Adds "space_error" and so on for all metrics. */
void hw_json_put_errors(struct hw_json *j, const struct hw_value *v, uint64_t interval_bytes);
/* "12.4 MiB ±3.0%", "1.2 M", "12.4 MiB, error unknown" */
void hw_figure_with_error(char out[HW_FIGURE_MAX], const struct hw_value *v, enum hw_metric m,
                          uint64_t interval_bytes);
/* "server (4211): space, 12.4 MiB" */
void hw_export_title(const struct hw_export_input *in, struct hw_strbuf *out);

#endif
