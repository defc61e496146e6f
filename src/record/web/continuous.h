/*
 * continuous.h - an always-on recording: `serve --continuous`
 *
 * Why:     what held the memory at 3 am is only asked the next day.
 * Shapes:  one session of the service (or of an embedded recorder) for all targets; each period a
 *          snapshot of every process, stored as pprof: what was allocated in the period, what was
 *          held at its start and end (profile_store.h). So is a process that ends. Comments in the
 *          file ("heapwise.NAME=value") name the process, the interval, and what is missing.
 * Errors:  those of the start; later ones are reported and recovered from: the recorder is
 *          restarted, with pauses that double up to a minute.
 * Limits:  if a process produces more than --max-rate samples a second, its client doubles its
 *          interval; if samples cost the recorder more than --max-cpu, all intervals are doubled
 *          (continuous_guard.h). Both are undone when the load drops.
 * Threads: has its own thread; start and stop: one owner.
 * Source:  doc/design/service.md, "Continuous recording"
 */
#ifndef HW_RECORD_WEB_CONTINUOUS_H
#define HW_RECORD_WEB_CONTINUOUS_H

struct hw_cli;
struct hw_continuous;
struct hw_error;

int hw_continuous_start(const struct hw_cli *cli, struct hw_continuous **out, struct hw_error *err);
void hw_continuous_stop(struct hw_continuous *c); /* stores what it has; NULL is fine */

#endif
