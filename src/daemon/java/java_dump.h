/*
 * java_dump.h - heap graphs of one JVM, from its pid to packets
 *
 * Why:     shared by the command that dumps and the recorder's data source.
 * Shapes:  open checks that the process is a JVM and loads our library into it; take walks the heap
 *          and keeps the graph; write puts it into a trace. take and write may be repeated.
 * Owns:    the connection and the graph's file. pid is borrowed.
 * Errors:  HW_EUNSUPPORTED and others with the reason's sentence and code in err.
 * Threads: open and take wait for the JVM: up to seconds.
 * Source:  doc/design/java.md
 */
#ifndef HW_DAEMON_JAVA_JAVA_DUMP_H
#define HW_DAEMON_JAVA_JAVA_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"
#include "daemon/java/java_graph.h"
#include "java/jvm/jvm_link.h"

struct hw_java_dump;
struct hw_error;
struct hw_profile;
struct hw_pid;
struct hw_trace_writer;

struct hw_java_dump_options {
    const struct hw_pid *pid;
    bool allow_pause;    /* the JVM may be paused for the whole walk */
    bool later;          /* no way may be safe now, but one will be by then */
    bool only_by_client; /* java/jvm/jvm_link.h */
    /* Reads an .hprof file, import/import.h's hw_import_fd; NULL = that step is left out. With
     * allow_pause the JVM's own heap dump is taken if our library is refused. */
    int (*read_hprof)(int fd, const char *name, struct hw_profile **out, struct hw_error *err);
    uint32_t fail, stall_ms; /* tests: java/jvm/jvm_link.h */
    uint64_t min_heap_bytes; /* in use, or there is no dump */
    const char *const *ignored_types;
    size_t n_ignored;
};

struct hw_java_dump_figures {
    struct hw_jgraph_sums sums;
    uint64_t boottime_ns;                        /* of the snapshot */
    uint64_t stop_ns, fork_ns, call_ns, walk_ns; /* struct hw_java_message */
    uint64_t heap_bytes;                         /* in use, garbage included; 0 = unknown */
    uint64_t heap_left;                          /* how much it may have grown by, likewise */
    uint64_t stream_bytes, trace_bytes;
    uint32_t mode; /* enum hw_java_mode */
};

int hw_java_dump_open(const struct hw_java_dump_options *o, struct hw_java_dump **out,
                      struct hw_error *err);
/* From now on: may the JVM be paused for the whole walk? */
void hw_java_dump_allow_pause(struct hw_java_dump *d, bool allow);
void hw_java_dump_free(struct hw_java_dump *d);
int hw_java_dump_take(struct hw_java_dump *d, struct hw_java_dump_figures *out,
                      struct hw_error *err);
/* The graph taken last; also why it was not the first step of the ladder, as attributes of the
 * trace, and what is known about the moment at which it was taken (NULL = any). */
int hw_java_dump_write(struct hw_java_dump *d, struct hw_trace_writer *w, uint32_t sequence,
                       struct hw_java_dump_figures *figures, const struct hw_java_moment *moment,
                       struct hw_error *err);
/* Moments, java/jvm/jvm_link.h: bits 1 << enum hw_java_event. HW_EUNSUPPORTED: this way in has
 * none. */
int hw_java_dump_watch(struct hw_java_dump *d, uint32_t events, uint32_t hold_ms,
                       struct hw_error *err);
int hw_java_dump_moment(struct hw_java_dump *d, struct hw_java_moment *out);
void hw_java_dump_release(struct hw_java_dump *d, const struct hw_java_moment *m);
/* Of the graph taken last. */
const hw_native_blocks *hw_java_dump_natives(const struct hw_java_dump *d);
/* Steps of the last take that failed, "fork, objects by address: child_stalled" each; "" = none. */
void hw_java_dump_steps(const struct hw_java_dump *d, struct hw_strbuf *out);

#endif
