/*
 * report.h - the text report of one process: header, top sites, losses
 *
 * Why:     `heapwise report FILE` and the end of `heapwise record` print the same thing.
 * Shapes:  doc/guide/reading-a-report.md. Unicode and colour only when asked for (a terminal);
 *          width in columns. Where nearly everything was freed by the end, or the program ended
 *          and had freed half, the table shows the peak and says so.
 * Errors:  HW_ENOMEM, HW_ESYS; what is lost or missing is part of the report, not an error.
 */
#ifndef HW_CLI_REPORT_REPORT_H
#define HW_CLI_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "views/flame/functions.h"
#include "views/time/values.h"

struct hw_cli;
struct hw_error;
struct hw_profile;

struct hw_report_options {
    enum hw_metric metric;
    unsigned top;     /* rows; 0 = all */
    bool fold;        /* leave out sites that hold next to nothing */
    const char *heap; /* only this one; NULL = those of the first kind (views/time/series.h) */
    int64_t pid;      /* < 0: the process that allocated most and does not merely start others */
    bool peak;        /* the table shows the peak in any case */
    bool named;       /* names were looked for already, when it was recorded */
    bool json;        /* the stable object in place of the text */
    bool color, unicode;
    unsigned width;
    const char *path; /* of the trace, for commands; NULL: they leave it out */
    bool is_followed; /* the caller says what comes next */
    struct hw_wrappers wrappers;
};

/* Gives an exit code of cli.h: 0, HW_EXIT_INCOMPLETE, HW_EXIT_NO_DATA (nothing printed to out but
 * the reason), or < 0. */
int hw_report_print(const struct hw_profile *p, const struct hw_report_options *o, FILE *out,
                    struct hw_error *err);

/* Options for the stream (fd 1 or 2) as it is now; metric space, 20 rows. */
struct hw_report_options hw_report_defaults(const struct hw_cli *cli, int fd);

/* Reads a trace ("-" = standard input) and prints its report; gives the exit code, errors printed.
 */
int hw_report_file(const struct hw_cli *cli, const char *path, const struct hw_report_options *o,
                   FILE *out);

#endif
