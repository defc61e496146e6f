/*
 * trigger.h - conditions on which a dump is made, or a session begins or ends
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_TRIGGER_H
#define HW_DAEMON_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

struct hw_pid;
struct hw_heapprofd_config;
struct hw_recorder;
struct hw_session;
struct hw_target;

#define HW_TRIGGER_FAILURE "failure"

void hw_triggers_tick(struct hw_session *s, uint64_t now);
/* An allocation failed; the dump of that is being written. */
void hw_trigger_failure(struct hw_target *t);
bool hw_trigger_wants_failures(const struct hw_heapprofd_config *c);
/* May its profile begin? If not, it waits for one of its source's conditions. */
bool hw_start_is_due(struct hw_session *s, uint32_t source, const struct hw_pid *pid);
bool hw_start_awaits(const struct hw_recorder *r, int32_t pid);
void hw_start_done(struct hw_session *s);
void hw_start_forget(struct hw_session *s);
/* Not shown when a later dump exists. */
bool hw_trigger_is_checkpoint(const char *trigger);
/* The kernel says that memory is short. */
void hw_triggers_pressure(struct hw_recorder *r);

#endif
