/*
 * recording_end.h - how long a recording lasts: whether a process lives for which it goes on
 *
 * Why:     a launcher ends at once and its daemon runs on, below nobody; a process may execute a
 *          program that never connects, so no message tells its end.
 * Errors:  none: what cannot be read has ended.
 * Cost:    a look: offspring.h. Short pauses first, as many a launcher ends within milliseconds.
 */
#ifndef HW_RECORD_CHILDREN_RECORDING_END_H
#define HW_RECORD_CHILDREN_RECORDING_END_H

#include <stdbool.h>

struct hw_recording;

#define HW_RECORDING_SCAN_AGAIN_MS 10 /* the second look, before a recording ends */

/* Are all processes gone that the recording waits for? False without such. */
bool hw_recording_awaited_ended(const struct hw_recording *r);
/* Looks for processes below the program, if it is time to; false: it is not. */
bool hw_recording_scan_children(struct hw_recording *r);
/*
 * After each look, once the program has ended: does another of its processes live? One look does
 * not tell: a daemon's parent may end between the listing of all processes and the look at it, and
 * the daemon is younger than the list. So the second in a row in which none lives counts.
 */
bool hw_recording_others_live(struct hw_recording *r);

#endif
