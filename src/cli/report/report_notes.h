/*
 * report_notes.h - the notes below a report's table: losses, and what the figures cannot show
 *
 * Shapes:  each note is a paragraph "note: …" or "incomplete: …", wrapped at the report's width.
 */
#ifndef HW_CLI_REPORT_REPORT_NOTES_H
#define HW_CLI_REPORT_REPORT_NOTES_H

#include <stdio.h>

struct hw_report_data;

/* What has to be known before the table is read. */
void hw_report_notes_above(const struct hw_report_data *d, FILE *out);
int hw_report_notes(const struct hw_report_data *d, FILE *out);

#endif
