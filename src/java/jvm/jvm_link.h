/*
 * jvm_link.h - the connection to our library in a JVM
 *
 * Why:     asking for walks and moments, and taking the descriptors that come with the answers.
 * Shapes:  open loads it; dump walks once and feeds a graph for each attempt; any number of dumps.
 *          watch makes the JVM wait at a moment of its life until it was dumped.
 * Owns:    the connection.
 * Errors:  enum hw_java_reason > 0 with err; from dump also negative HW_E… of the caller's sink.
 */
#ifndef HW_JAVA_JVM_JVM_LINK_H
#define HW_JAVA_JVM_JVM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "java/jvm/jvm_attach.h"
#include "java/jvm/jvm_entrance.h"
#include "java/protocol.h"

struct hw_error;
struct hw_java_classes;
struct hw_java_graph;
struct hw_java_holders;
struct hw_java_link;
struct hw_java_sink;

/* library: its path here. jvm is borrowed. only_by_client: the client brings the library in; until
 * it has, the reason is HW_JAVA_NOT_READY. */
int hw_java_link_open(const struct hw_jvm *jvm, const char *library, bool only_by_client,
                      struct hw_java_link **out, struct hw_error *err);
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
    struct hw_java_message ended; /* of the last walk */
    uint64_t started_ns;          /* CLOCK_BOOTTIME, here, of its snapshot */
    struct hw_java_step steps[8];
    unsigned n_steps;
    uint64_t stream_bytes;
    uint64_t heap_bytes;                   /* in use before it, garbage included; 0 = unknown */
    uint64_t heap_left;                    /* how much more it might have become, likewise */
    const struct hw_java_holders *holders; /* NULL = none came */
};

/* 0: the graph that the last begin made is whole. classes, graph and holders are the link's until
 * the next dump or free. */
int hw_java_link_dump(struct hw_java_link *l, struct hw_java_taking *t, struct hw_error *err);

/* ---- moments ---- */

#define HW_JAVA_MAX_STACK 256

struct hw_java_moment_frame {
    const char *method, *file; /* of the moment's text; "" = unknown */
    uint32_t line;             /* 0 = unknown */
};

struct hw_java_moment {
    enum hw_java_event event;
    char *text;        /* owned; NULL = nothing is known about it */
    const char *words; /* the JVM's; in text; "" */
    struct hw_java_moment_frame frames[HW_JAVA_MAX_STACK]; /* the innermost first */
    size_t n_frames;
};

/* From now on the JVM reports these moments (bits 1 << enum hw_java_event), each once, and waits
 * for release, but no longer than hold_ms after the last request. */
int hw_java_link_watch(struct hw_java_link *l, uint32_t events, uint32_t hold_ms,
                       struct hw_error *err);
/* 1: one was reported; *out until hw_java_moment_done. Waits for nothing. < 0: the JVM is gone. */
int hw_java_link_moment(struct hw_java_link *l, struct hw_java_moment *out);
int hw_java_link_release(struct hw_java_link *l, enum hw_java_event event);
void hw_java_moment_done(struct hw_java_moment *m);

/* The modes that are safe for this JVM now; with why, when a fork is not (0 = it is). */
uint32_t hw_java_modes(const struct hw_jvm *jvm, bool allow_pause, int *why);

#endif
