/*
 * jvm_dump_fallback.h - the JVM's own heap dump, as an open file without a name
 *
 * Why:     the ladder's last step: a JVM that refuses libraries still writes .hprof files. It is
 *          stopped meanwhile.
 * Shapes:  the JVM writes into its /tmp, under a name nobody can guess; the file is opened through
 *          /proc/PID/root and removed at once, whatever became of it.
 * Owns:    *out is the caller's.
 * Errors:  enum hw_java_reason.
 */
#ifndef HW_JAVA_JVM_JVM_DUMP_FALLBACK_H
#define HW_JAVA_JVM_JVM_DUMP_FALLBACK_H

#include "java/jvm/jvm_attach.h"

int hw_java_own_dump(const struct hw_jvm *jvm, int *out, struct hw_error *err);

#endif
