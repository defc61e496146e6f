/*
 * trigger.h - conditions that trigger a dump or end a session
 *
 * Why:     session/condition.h evaluates them; this requests dumps and stops sessions.
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_TRIGGER_H
#define HW_DAEMON_TRIGGER_H

#include <stdint.h>

struct hw_recorder;
struct hw_session;
struct hw_target;

void hw_triggers_tick(struct hw_session *s, uint64_t now);
/* An allocation failed; the dump of that moment is being written. */
void hw_trigger_failure(struct hw_target *t);
/* The kernel says that memory is short. */
void hw_triggers_pressure(struct hw_recorder *r);

#endif
