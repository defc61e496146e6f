/*
 * java_source.h - the data source android.java_hprof of a session
 *
 * Why:     a heap graph takes seconds of another processor; the recorder continues meanwhile.
 *          Each round (at the start, then at the interval) has a thread that finds the selected
 *          JVMs and dumps them one after the other; the tick writes finished graphs to the trace.
 *          Triggered dumps (memory has run out, the JVM ends) are such a round too, while that JVM
 *          waits.
 * Shapes:  new when the configuration has such a source, tick from the session's. A round that is
 *          due while one runs is skipped and counted.
 * Owns:    its thread, connections into JVMs, graphs not written yet. free waits for the thread.
 * Errors:  reported as warnings of the session, one for each process and reason.
 */
#ifndef HW_DAEMON_JAVA_SOURCE_H
#define HW_DAEMON_JAVA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_java_source;
struct hw_session;

/* index: of s->config.java. */
int hw_java_source_new(struct hw_session *s, uint32_t index, uint64_t now,
                       struct hw_java_source **out, struct hw_error *err);
void hw_java_source_free(struct hw_java_source *j);
void hw_java_source_tick(struct hw_java_source *j, uint64_t now);
/* Another round, now (a dump was requested). */
void hw_java_source_dump(struct hw_java_source *j);
/* The session ends: the last graphs, if they were requested. */
void hw_java_source_end(struct hw_java_source *j);
/* Something is still to come: the session's end waits for it. */
bool hw_java_source_busy(struct hw_java_source *j);

#endif
