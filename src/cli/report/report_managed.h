/*
 * report_managed.h - what a report says about a managed heap in the same trace
 *
 * Why:     the figures of a JVM's malloc do not answer "why did memory run out" if it was the Java
 *          heap that was full. So that comes first, with the classes that fill it.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects).
 */
#ifndef HW_CLI_REPORT_REPORT_MANAGED_H
#define HW_CLI_REPORT_REPORT_MANAGED_H

#include <stdio.h>

struct hw_json;
struct hw_report_data;

/* Prints nothing if the process has no graph. */
int hw_report_managed_text(const struct hw_report_data *d, FILE *out);
int hw_report_managed_json(const struct hw_report_data *d, struct hw_json *j);

#endif
