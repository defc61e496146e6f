/*
 * java_agent_load.h - asks the client in a JVM process to load our JVMTI library
 *
 * Why:     only the recorder knows the target's mappings; see wire/java_entrance.h.
 * Shapes:  called whenever the mappings were read; acts once.
 * Errors:  none: without it heap graphs use the attach protocol.
 */
#ifndef HW_DAEMON_JAVA_JAVA_AGENT_LOAD_H
#define HW_DAEMON_JAVA_JAVA_AGENT_LOAD_H

#include <stdbool.h>

struct hw_client_config;
struct hw_snapshot;
struct hw_target;

/* One of Java objects, whose ends are seen when the garbage collector says so, or not at all. */
bool hw_java_heap_is(const char *heap_name);
/* What selecting a heap of Java objects implies: its own usual interval, and that the client
 * must find libjvm for it, by samples of libc.malloc. */
void hw_java_heap_choices(struct hw_target *t, struct hw_client_config *c);
/* With the last snapshot: says so if a heap of Java objects was requested and never came. */
void hw_java_heap_missing(struct hw_target *t, const struct hw_snapshot *s);

/* At its end: a JVM whose stacks stayed native. */
void hw_java_frames_missing(struct hw_target *t, const struct hw_snapshot *s);
void hw_java_entrance_tell(struct hw_target *t);

#endif
