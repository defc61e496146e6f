/*
 * jvm_link.h - our library in a JVM, and the connection to it
 *
 * Why:     putting it there (its file must be one that the JVM sees, the socket too), believing
 *          only that JVM at the other end, and taking the descriptors it hands over.
 * Shapes:  open loads it; dump walks once and feeds a graph for each attempt; any number of dumps.
 * Owns:    the connection; files that were put into the JVM's /tmp are removed before open returns.
 * Errors:  enum hw_java_reason > 0 with err; from dump also negative HW_E… of the caller's sink.
 */
#ifndef HW_JAVA_JVM_LINK_H
#define HW_JAVA_JVM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "java/attach.h"
#include "java/protocol.h"

struct hw_error;
struct hw_java_classes;
struct hw_java_graph;
struct hw_java_holders;
struct hw_java_link;
struct hw_java_sink;

/* The library's file: beside this program, in the build directory or LIBDIR; malloc'ed. */
int hw_java_find_library(char **out, struct hw_error *err);

/* library: its path here. jvm is borrowed. */
int hw_java_link_open(const struct hw_jvm *jvm, const char *library, struct hw_java_link **out,
                      struct hw_error *err);
void hw_java_link_free(struct hw_java_link *l);

struct hw_java_step { /* one rung of the ladder */
    uint32_t mode;
    int32_t reason, detail; /* 0 = it is the one that worked */
};

struct hw_java_taking {
    uint32_t modes;    /* as in struct hw_java_request */
    uint32_t fail;     /* tests */
    uint32_t stall_ms; /* 0 = 2 s */
    uint64_t min_heap_bytes;
    /* Each walk begins with it; what was given before is void. 0 or HW_E…. */
    int (*begin)(void *ctx, struct hw_java_classes *classes, struct hw_java_graph **out);
    void *ctx;

    /* results */
    struct hw_java_say ended; /* of the last walk */
    struct hw_java_step steps[8];
    unsigned n_steps;
    uint64_t stream_bytes;
    uint64_t heap_bytes;                   /* in use before it, garbage included; 0 = unknown */
    const struct hw_java_holders *holders; /* NULL = none came */
};

/* 0: the graph that the last begin made is whole. classes, graph and holders are the link's until
 * the next dump or free. */
int hw_java_link_dump(struct hw_java_link *l, struct hw_java_taking *t, struct hw_error *err);

/* The modes that are safe for this JVM now; with why, when a fork is not (0 = it is). */
uint32_t hw_java_modes(const struct hw_jvm *jvm, bool allow_pause, int *why);

#endif
