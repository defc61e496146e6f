/*
 * checker.h - the state that the parts of a check share, and how they report findings
 *
 * Shapes:  trace_check.c passes each packet to the parts: check_fields.c (bytes), packet_time.c,
 *          check_ids.c (interned data), check_dumps.c, check_graph.c, system_facts.c.
 * Errors:  parts return HW_ENOMEM; findings are not errors.
 */
#ifndef HW_TRACE_CHECK_CHECKER_H
#define HW_TRACE_CHECK_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "trace/check/trace_check.h"

struct hw_schema_message;

struct hw_check_pos {
    uint64_t packet, offset;
};

/* An id's definition, or the first reference to it. */
struct hw_check_entry {
    uint64_t id, hash, identity;
    struct hw_check_pos at;
    size_t first; /* in its table's ids: what it refers to */
    uint32_t n;
    bool defined;
    uint8_t mark; /* for walks over entries; 0 at first */
};

struct hw_check_table {
    struct hw_map64 by_id;
    HW_VEC(struct hw_check_entry) v;
    HW_VEC(uint64_t) ids;
};

/* X(ID, field of InternedData, name of an entry) */
#define HW_CHECK_INTERNED(X)                                                                       \
    X(CATEGORY, event_categories, "event category")                                                \
    X(EVENT_NAME, event_names, "event name")                                                       \
    X(ANNOTATION_NAME, debug_annotation_names, "annotation name")                                  \
    X(SOURCE_LOCATION, source_locations, "source location")                                        \
    X(FUNCTION_NAME, function_names, "function name")                                              \
    X(FRAME, frames, "frame")                                                                      \
    X(CALLSTACK, callstacks, "callstack")                                                          \
    X(BUILD_ID, build_ids, "build id")                                                             \
    X(MAPPING_PATH, mapping_paths, "path component")                                               \
    X(SOURCE_PATH, source_paths, "source path")                                                    \
    X(MAPPING, mappings, "mapping")                                                                \
    X(LOG_BODY, log_message_body, "log message")                                                   \
    X(VULKAN_KEY, vulkan_memory_keys, "vulkan key")                                                \
    X(HISTOGRAM_NAME, histogram_names, "histogram name")                                           \
    X(KERNEL_SYMBOL, kernel_symbols, "kernel symbol")                                              \
    X(VALUE_TYPE, debug_annotation_value_type_names, "value type")                                 \
    X(RAW_LOCATION, unsymbolized_source_locations, "unsymbolized location")                        \
    X(STRING_VALUE, debug_annotation_string_values, "annotation text")                             \
    X(CORRELATION, correlation_id_str, "correlation id")

enum hw_check_kind {
#define X(ID, field, what) HW_CHECK_KIND_##ID,
    HW_CHECK_INTERNED(X)
#undef X
        HW_CHECK_KIND_COUNT
};

struct hw_check_interned {
    struct hw_check_table kinds[HW_CHECK_KIND_COUNT];
};

struct hw_check_dumps;
struct hw_check_graph;

struct hw_check_sequence {
    uint64_t id; /* machine id << 32 | sequence id */
    uint32_t generation;
    struct hw_check_interned *interned; /* owned; of the generation */
    struct hw_check_dumps *dumps;       /* owned; NULL = none so far */
    struct hw_check_graph *graph;       /* owned; NULL = none so far */
};

/* A clock that a snapshot has, or that a time stamp is in. */
struct hw_check_clock {
    size_t parent; /* union-find, of clocks that snapshots relate */
    uint64_t last; /* its last reading */
    uint32_t id;
    bool in_snapshot, incremental, used, of_dumps;
    struct hw_check_pos at; /* first use */
    /* Times of packets: the newest, the newest before the current window, the oldest in it, and up
     * to where readers that sort in windows have emitted packets. */
    uint64_t newest, marked, oldest, emitted;
};

struct hw_check_clocks {
    struct hw_map64 by_key;
    HW_VEC(struct hw_check_clock) v;
    uint32_t trace_clock; /* 0 = in no snapshot */
};

struct hw_check_pid {
    int64_t pid;
    struct hw_check_pos at; /* first use */
    bool used, described;
};

struct hw_check_pids {
    struct hw_map64 by_pid;
    HW_VEC(struct hw_check_pid) v;
};

struct hw_checker {
    const struct hw_check_options *o;
    struct hw_check_result *result;
    struct hw_check_pos at; /* of the current packet */
    const struct hw_schema_message *packet_message;
    bool reported_state; /* of this packet: it refers to missing state */

    struct hw_map64 sequence_by_id;
    HW_VEC(struct hw_check_sequence *) sequences;
    struct hw_check_clocks clocks;
    uint32_t n_flushes; /* that ended in the current window */
    struct hw_check_pids pids;
};

/* At the current packet; at another position. */
void hw_check_found(struct hw_checker *c, enum hw_check_rule rule, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void hw_check_found_at(struct hw_checker *c, enum hw_check_rule rule, struct hw_check_pos at,
                       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The process has data; it has a name. */
int hw_check_pid_used(struct hw_checker *c, int64_t pid);
int hw_check_pid_described(struct hw_checker *c, int64_t pid);

#endif
