/*
 * missed.h - forked children and armed programs that asked to be recorded, and were not
 *
 * Why:     where many are forked together, some have ended before we come to them; so may a program
 *          that asks with its first sample. What they allocated is missing in the recording, which
 *          has to say so.
 * Shapes:  by number, each once. One that is recorded after all is taken out again; a later process
 *          of the same number does not count as that one.
 */
#ifndef HW_DAEMON_POLICY_MISSED_H
#define HW_DAEMON_POLICY_MISSED_H

#include <stdbool.h>
#include <stdint.h>

struct hw_conn;
struct hw_pid;
struct hw_session;
struct hw_target;

/* Does it follow forks, so that it has to say so? */
bool hw_missed_counts(const struct hw_session *s);
/* It went away before anything was decided: whose it was can only be told by its user. */
void hw_missed_conn(const struct hw_conn *c);
/* The target comes to nothing, or nothing came from it. False: it is none of those. */
bool hw_missed_target(const struct hw_target *t);
void hw_missed_had(struct hw_session *s, const struct hw_pid *pid);
uint32_t hw_missed_count(const struct hw_session *s);

#endif
