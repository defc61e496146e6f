/*
 * unrecorded.h - forked children and starting programs that should have been recorded but were not
 *
 * Why:     if many are forked at once, some have exited before we get to them; so may a program
 *          that connects with its first sample. Their allocations are missing from the recording,
 *          which has to say so.
 * Shapes:  by pid, each once. One that is recorded after all is removed; a later process with a
 *          reused pid is not mistaken for it.
 */
#ifndef HW_DAEMON_POLICY_UNRECORDED_H
#define HW_DAEMON_POLICY_UNRECORDED_H

#include <stdbool.h>
#include <stdint.h>

struct hw_conn;
struct hw_pid;
struct hw_session;
struct hw_target;

/* Does it follow forks, so that it has to say so? */
bool hw_unrecorded_counts(const struct hw_session *s);
/* It went away before anything was decided: only its user shows which session it belongs to. */
void hw_unrecorded_conn(const struct hw_conn *c);
/* The target could not be set up, or nothing came from it. False: it is none of those. */
bool hw_unrecorded_target(const struct hw_target *t);
/* A program that should have been held at its start, and runs on; it may be found yet. */
void hw_unrecorded_start(struct hw_session *s, int32_t pid);
void hw_unrecorded_had(struct hw_session *s, const struct hw_pid *pid);
uint32_t hw_unrecorded_count(const struct hw_session *s);

#endif
