/*
 * report_end.h - how the process ended, and how near its memory group was to its limit
 *
 * Why:     a program that the kernel kills for its memory leaves no message of its own.
 * Shapes:  says nothing of a process that ended well, runs on, or whose end the trace does not tell.
 *          A memory group counts from NEAR percent of its limit on, at its last reading.
 */
#ifndef HW_CLI_REPORT_REPORT_END_H
#define HW_CLI_REPORT_REPORT_END_H

#include <stdio.h>

struct hw_json;
struct hw_report_data;

/* "killed by SIGKILL, memory group at 99.8 MiB of its limit 100.0 MiB" */
void hw_report_end_text(const struct hw_report_data *d, FILE *out);
/* "exit": {"signal":, "status":}, "memory_group": {"current_bytes":, "limit_bytes":}, as far as known */
void hw_report_end_json(const struct hw_report_data *d, struct hw_json *j);

#endif
