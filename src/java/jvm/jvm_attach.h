/*
 * jvm_attach.h - the JVM's attach protocol, from C
 *
 * Why:     a running HotSpot JVM takes commands at a socket in its /tmp, which it opens when asked
 *          by a file and SIGQUIT. SIGQUIT kills what does not handle it: a program that is no JVM,
 *          and a JVM that is still starting. It is sent only if /proc says it is handled.
 * Shapes:  hw_jvm_inspect is read only. Commands are one connection each.
 * Errors:  enum hw_java_reason, > 0; err holds its sentence with further details. 0 = success.
 * Threads: any; a JVM serves one at a time.
 * Source:  doc/design/java.md; OpenJDK's attachListener_posix.cpp
 */
#ifndef HW_JAVA_JVM_JVM_ATTACH_H
#define HW_JAVA_JVM_JVM_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "java/reason.h"

struct hw_error;
struct hw_pid;
struct hw_strbuf;

struct hw_jvm {
    const struct hw_pid *pid;     /* borrowed */
    int32_t inner;                /* as it calls itself */
    uint32_t uid, gid;            /* effective */
    bool shared_heap;             /* a fork would not copy it */
    bool zgc;                     /* and its references are no addresses */
    bool has_client, has_library; /* of ours: they may come in without the JVM's help */
    uint64_t anon_kb;             /* resident */
    uint64_t held_kb;             /* and of files, and in swap */
    uint32_t silence_ms;          /* after that long without a message, nobody keeps waiting */
};

/* Puts the reason's code and sentence, fmt's text and the remedy into err; gives reason. */
int hw_java_fail(struct hw_error *err, int reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

int hw_jvm_inspect(const struct hw_pid *pid, struct hw_jvm *out, struct hw_error *err);
/* `load` of a library: path as the JVM sees it. */
int hw_jvm_load(const struct hw_jvm *jvm, const char *path, const char *options,
                struct hw_error *err);
/* The JVM's own heap dump into a file that it creates; path as the JVM sees it. live: after a
 * collection, objects in use only. */
int hw_jvm_dump_heap(const struct hw_jvm *jvm, const char *path, bool live, struct hw_error *err);

#endif
