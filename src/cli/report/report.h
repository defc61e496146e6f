/*
 * report.h - the text report of one process: header, top sites, losses
 *
 * Why:     `heapwise report FILE` and the end of `heapwise record` print the same thing.
 * Shapes:  doc/guide/reading-a-report.md. Unicode and colour only if requested (a terminal); width
 *          in columns. If nearly everything was freed by the end, or the program exited and had
 *          freed half, the table shows the peak and says so.
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
    int64_t pid;      /* < 0: the process that allocated most, other than mere launchers */
    bool peak;        /* the table shows the peak in any case */
    bool named;       /* symbols were already searched, while recording */
    bool json;        /* the stable JSON object instead of text */
    bool color, unicode;
    unsigned width;
    const char *path; /* of the trace, for suggested commands; NULL: omitted there */
    bool is_followed; /* the caller suggests what to do next */
    struct hw_wrappers wrappers;
};

/*
 * Returns an exit code of cli.h: 0, HW_EXIT_INCOMPLETE, HW_EXIT_NO_DATA (only the reason is printed
 * to out), or < 0.
 */
int hw_report_print(const struct hw_profile *p, const struct hw_report_options *o, FILE *out,
                    struct hw_error *err);

/* Options for the stream (fd 1 or 2) as it is now; metric space, 20 rows. */
struct hw_report_options hw_report_defaults(const struct hw_cli *cli, int fd);

/* Reads a trace ("-" = standard input) and prints its report and errors; returns the exit code.
 */
int hw_report_file(const struct hw_cli *cli, const char *path, const struct hw_report_options *o,
                   FILE *out);

#endif
