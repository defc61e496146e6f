/*
 * units.h - figures as people read them
 *
 * Shapes:  bytes in IEC with three significant digits ("12.4 MiB"), counts in thousands ("2.57 M"),
 *          times as "1.234 s", "2m 00s".
 * Errors:  those of the buffer (sticky).
 */
#ifndef HW_CONFIG_COMMAND_UNITS_H
#define HW_CONFIG_COMMAND_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text/strbuf.h"

#define HW_UNIT_MAX 32u /* longest result of the functions below, with its NUL */

/* Each writes to out (HW_UNIT_MAX bytes) and returns it, for use as an argument. What is no number
 * is "?". */
char *hw_fmt_bytes(char out[HW_UNIT_MAX], double bytes);
char *hw_fmt_bytes_exact(char out[HW_UNIT_MAX], uint64_t bytes); /* "4 KiB", "4097 B" */
char *hw_fmt_count(char out[HW_UNIT_MAX], double n);
char *hw_fmt_duration(char out[HW_UNIT_MAX], int64_t ns);
char *hw_fmt_clock(char out[HW_UNIT_MAX], int64_t ns); /* "1:02:03", "01:12", "7.2 s", "12 ms" */

/* " ±1.6%", what is added to a figure with this error; "" when it is exact. An infinite error is
 * unknown: " ±?". unicode: else "+-". */
char *hw_fmt_error(char out[HW_UNIT_MAX], double figure, double error, bool unicode);

/* Columns on a terminal: UTF-8 code points, each counted as one wide. */
size_t hw_text_width(const char *s);

/* Adds text right-aligned by columns, not bytes. */
void hw_put_cell(struct hw_strbuf *out, const char *text, size_t width);
/* "+12.1 MiB", "-3 B", "0" */
char *hw_fmt_change(char out[HW_UNIT_MAX], double v, bool bytes);
/*
 * A sparkline: an eighth-block character per value, scaled from minimum to maximum; with fewer
 * columns than values each shows the last of its group.
 */
void hw_put_spark(struct hw_strbuf *out, const double *v, size_t n, size_t columns);

/*
 * Prints text and a newline, wrapped at `width` columns: `column` of the first line are already
 * used, further lines are indented by `indent` blanks.
 */
void hw_print_folded(FILE *f, const char *text, size_t column, size_t indent, size_t width);

#endif
