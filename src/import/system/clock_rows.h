/*
 * clock_rows.h - what a trace's clocks showed, as rows
 *
 * Shapes:  a row for each clock of each snapshot, in the order of the file, with the time of the
 *          trace's clock then; a snapshot that cannot be placed on it has none. From them the points
 *          by which times are told since 1970 and in CLOCK_MONOTONIC.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_IMPORT_SYSTEM_CLOCK_ROWS_H
#define HW_IMPORT_SYSTEM_CLOCK_ROWS_H

struct hw_clocks;
struct hw_profile;

int hw_import_clocks(struct hw_profile *p, struct hw_clocks *c);

#endif
