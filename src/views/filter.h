/*
 * filter.h - which stacks and frames a flamegraph shows
 *
 * Why:     people narrow a graph down step by step; the command line, SQL and the page interpret
 *          the same text in the same way.
 * Shapes:  a filter is PREFIX:PATTERN; `!` before the prefix negates.
 *            SS:   keep stacks with a matching frame; also without a prefix
 *            HS:   drop such stacks
 *            SF:   keep only matching frames
 *            HF:   remove matching frames
 *            SFF:  stacks begin at the match nearest the root
 *            P:    pivot at the match
 *            M:    as SS, on the module's path
 *            HM:   as HS, on the module's path
 *            H:    as SS, on the heap's name
 *          A pattern is text (anywhere in the name, ignoring case), "text" (the whole
 *          name, exactly), /re/ or /re/i (POSIX extended, no back references, one repetition {n,m}
 *          up to 99; i: ignoring case). Filters apply in order; at most one of SFF and P.
 * Owns:    its copies of the texts.
 * Errors:  HW_EINVAL with a text for the user; HW_ENOMEM.
 * Cost:    each filter is matched once per function, not per frame. Some expressions are slow on
 *          long names: only a name's first 8 KiB are searched, and after HW_FILTER_MAX_NS of
 *          processor time matching ends with HW_ETIMEOUT.
 * Source:  doc/design/views.md
 */
#ifndef HW_VIEWS_FILTER_H
#define HW_VIEWS_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/flame/functions.h"

struct hw_error;
struct hw_shown_program;

#define HW_FILTER_MAX    64u /* filters in a list */
#define HW_FILTER_MAX_NS (UINT64_C(10) * 1000 * 1000 * 1000)

enum hw_filter_kind {
    HW_FILTER_SHOW_STACK,
    HW_FILTER_HIDE_STACK,
    HW_FILTER_SHOW_FRAME,
    HW_FILTER_HIDE_FRAME,
    HW_FILTER_SHOW_FROM,
    HW_FILTER_PIVOT,
    HW_FILTER_MODULE,
    HW_FILTER_HEAP, /* selects values (span.h), not stacks */
    HW_FILTER_KIND_COUNT
};

/* A compiled pattern; for one thread at a time. */
struct hw_pattern;
int hw_pattern_new(const char *text, struct hw_pattern **out, struct hw_error *err);
void hw_pattern_free(struct hw_pattern *p);
bool hw_pattern_matches(const struct hw_pattern *p, const char *name);
/* HW_EINVAL: a bad expression, or one that would take too long or too much memory. */
int hw_pattern_check_regex(const char *text, struct hw_error *err);

struct hw_filter {
    enum hw_filter_kind kind;
    bool inverted;
    struct hw_pattern *pattern; /* owned */
};

typedef HW_VEC(struct hw_filter) hw_filters;

int hw_filters_add(hw_filters *f, const char *text, struct hw_error *err);
void hw_filters_done(hw_filters *f);
bool hw_filters_have_pivot(const hw_filters *f);
bool hw_filters_have_heap(const hw_filters *f);
/* Whether this heap passes the filters on heaps, if any. */
bool hw_filters_keep_heap(const hw_filters *f, const char *heap);

/*
 * The result of every filter for every function. Functions shown under a name other than their
 * file's (program.h) match by both.
 */
struct hw_filter_matches {
    const hw_filters *filters; /* borrowed */
    size_t n_functions;
    uint8_t *v; /* owned: filter × function */
};
/* HW_ETIMEOUT: see Cost. namer, program: NULL = none. */
int hw_filter_match(const hw_filters *f, const struct hw_callsites *cs,
                    const struct hw_functions *fns, const struct hw_namer *namer,
                    const struct hw_shown_program *program, struct hw_filter_matches *out);
/* The same, with a different limit. */
int hw_filter_match_within(const hw_filters *f, const struct hw_callsites *cs,
                           const struct hw_functions *fns, const struct hw_namer *namer,
                           const struct hw_shown_program *program, uint64_t limit_ns,
                           struct hw_filter_matches *out);
void hw_filter_matches_done(struct hw_filter_matches *m);

/*
 * Applies every filter to a stack, root first, in place. False: the stack is dropped. *pivot (may
 * be NULL): position of the pivot's function in the remaining stack.
 */
bool hw_filter_apply(const struct hw_filter_matches *m, uint32_t *path, size_t *n, size_t *pivot);

#endif
