/*
 * jvm_entrance.h - our library into a JVM, and a socket to it
 *
 * Why:     the JVM must be able to open the file and the socket, and only that JVM at the other end
 *          is trusted.
 * Owns:    the socket given is the caller's; files that were put into the JVM's /tmp are removed
 *          before enter returns.
 * Errors:  enum hw_java_reason > 0 with err; find_library: HW_ENOTFOUND.
 */
#ifndef HW_JAVA_JVM_JVM_ENTRANCE_H
#define HW_JAVA_JVM_JVM_ENTRANCE_H

#include <stdbool.h>

#include "java/jvm/jvm_attach.h"

struct hw_error;

/* The library's file: beside this program, in the build directory or LIBDIR; malloc'ed. */
int hw_java_find_library(char **out, struct hw_error *err);

/* library: its path here. only_by_client: the client loads the library; until it has, the reason
 * is HW_JAVA_NOT_READY. */
int hw_jvm_enter(const struct hw_jvm *jvm, const char *library, bool only_by_client, int *out,
                 struct hw_error *err);

#endif
