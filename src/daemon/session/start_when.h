/*
 * start_when.h - processes whose profile begins once a condition holds
 *
 * Owns:    hw_session.waiting.
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_SESSION_START_WHEN_H
#define HW_DAEMON_SESSION_START_WHEN_H

#include <stdbool.h>
#include <stdint.h>

struct hw_pid;
struct hw_recorder;
struct hw_session;

/* May its profile start? If not, it waits for one of its source's conditions. */
bool hw_start_when_is_due(struct hw_session *s, uint32_t source, const struct hw_pid *pid);
bool hw_start_when_awaits(const struct hw_recorder *r, int32_t pid);
void hw_start_when_tick(struct hw_session *s, uint64_t now);
/* The session ends: those whose moment never came get an empty profile that says so. */
void hw_start_when_end(struct hw_session *s);
void hw_start_when_forget(struct hw_session *s);

#endif
