/*
 * continuous.h - a recording that is left on: `serve --continuous`
 *
 * Why:     what held the memory at three in the morning is asked the day after.
 * Shapes:  one session of the service (or of a recorder of our own) for all targets; each period a
 *          look at every process, kept as pprof: what was allocated in it, what was held at its
 *          begin and end (profile_store.h). A process that ends is kept, too. Comments in the
 *          file ("heapwise.NAME=value") say of whom it is, with which interval, and what is
 *          missing.
 * Errors:  of the start; later ones are told and gone on from: the recorder is started again, with
 *          pauses that double up to a minute.
 * Limits:  a process that gives more than --max-rate samples a second has its interval doubled by
 *          the client; where samples take the recorder more than --max-cpu, everybody's is
 *          (continuous_guard.h). Both are for as long as it is so.
 * Threads: has one of its own; start and stop: one owner.
 * Source:  doc/design/service.md, "Continuous recording"
 */
#ifndef HW_RECORD_WEB_CONTINUOUS_H
#define HW_RECORD_WEB_CONTINUOUS_H

struct hw_cli;
struct hw_continuous;
struct hw_error;

int hw_continuous_start(const struct hw_cli *cli, struct hw_continuous **out, struct hw_error *err);
void hw_continuous_stop(struct hw_continuous *c); /* keeps what there is; NULL is fine */

#endif
