/*
 * clock_rows.h - the readings of a trace's clocks, as rows
 *
 * Shapes:  a row for each clock of each snapshot, in file order, with the trace clock's time; a
 *          snapshot that cannot be converted to it has no rows. They also give the points for
 *          converting times to CLOCK_REALTIME and CLOCK_MONOTONIC.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_IMPORT_SYSTEM_CLOCK_ROWS_H
#define HW_IMPORT_SYSTEM_CLOCK_ROWS_H

struct hw_clocks;
struct hw_profile;

int hw_import_clocks(struct hw_profile *p, struct hw_clocks *c);

#endif
