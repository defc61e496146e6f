/*
 * trace_check.h - a strict validator of traces
 *
 * Why:     readers of this format are lenient: they drop and count. Authors of writers want to know
 *          what is dropped, and where.
 * Shapes:  one pass over a reader's packets. A finding has the packet's number (from 1; packets
 *          inside a compressed one count, that one does not) and offset in the file. References may
 *          precede definitions, so "never defined" is reported at the end of a generation, a graph
 *          or the file, with the position of the first reference.
 * Owns:    nothing of the caller's.
 * Cost:    memory: 90 bytes per interned id of the current generations, 100 per (heap, callstack),
 *          16 to 32 per object of the current graph. Time: linear in the bytes.
 * Errors:  HW_ENOMEM and those of the reader. What is wrong in the file is a finding, not an error.
 * Threads: one owner at a time.
 * Source:  doc/formats/trace.md; the rules: doc/design/check.md
 */
#ifndef HW_TRACE_CHECK_TRACE_CHECK_H
#define HW_TRACE_CHECK_TRACE_CHECK_H

#include <stdint.h>

struct hw_error;
struct hw_trace_reader;

enum hw_check_severity { HW_CHECK_NOTE, HW_CHECK_WARNING, HW_CHECK_ERROR, HW_CHECK_SEVERITY_COUNT };

enum hw_check_rule {
#define X(ID, name, severity, summary) HW_CHECK_##ID,
#include "trace/check/rules.def"
#undef X
    HW_CHECK_RULE_COUNT
};

struct hw_check_finding {
    enum hw_check_rule rule;
    uint64_t packet, offset;
    const char *text; /* borrowed during the call; bytes from the file are escaped */
};

struct hw_check_options {
    uint64_t max_each; /* findings per rule that are reported; 0 = all */
    void (*found)(void *ctx, const struct hw_check_finding *f);
    void *ctx;
};

struct hw_check_result {
    uint64_t n[HW_CHECK_RULE_COUNT]; /* findings, also those beyond max_each */
    uint64_t n_packets;
    uint64_t n_own_fields; /* heapwise's extension fields */
};

const char *hw_check_rule_name(enum hw_check_rule rule);
const char *hw_check_rule_summary(enum hw_check_rule rule);
enum hw_check_severity hw_check_rule_severity(enum hw_check_rule rule);
const char *hw_check_severity_name(enum hw_check_severity severity);

int hw_trace_check(struct hw_trace_reader *r, const struct hw_check_options *o,
                   struct hw_check_result *out, struct hw_error *err);

#endif
