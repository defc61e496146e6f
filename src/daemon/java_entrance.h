/*
 * java_entrance.h - asks the client of a target that runs a JVM to bring our library in
 *
 * Why:     only the recorder knows the target's mappings; see wire/java_entrance.h.
 * Shapes:  called whenever the mappings were read; does it once.
 * Errors:  none: without it heap graphs come by the attach protocol.
 */
#ifndef HW_DAEMON_JAVA_ENTRANCE_H
#define HW_DAEMON_JAVA_ENTRANCE_H

struct hw_target;

void hw_java_entrance_tell(struct hw_target *t);

#endif
