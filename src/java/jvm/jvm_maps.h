/*
 * jvm_maps.h - the mappings of a process that may hold the lock of its memory
 *
 * Why:     they are read under that lock, which a process can hold for as long as it likes: it maps
 *          files of a file system that it serves itself. A reader for a dump would wait as long,
 *          and the end of its session with it.
 * Errors:  HW_ETIMEOUT after some seconds, and those of hw_maps_read. The thread that was reading
 *          is abandoned then: it ends when it can, and touches nothing but its own.
 * Threads: any.
 */
#ifndef HW_JAVA_JVM_JVM_MAPS_H
#define HW_JAVA_JVM_JVM_MAPS_H

struct hw_maps;
struct hw_pid;

int hw_jvm_maps(const struct hw_pid *pid, struct hw_maps *out);

#endif
