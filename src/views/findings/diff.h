/*
 * diff.h - two profiles side by side: what grew, what shrank, and whether that is significant
 *
 * Why:     "is the new build worse" and "what is new since the last dump" are the same question
 *          about two sets of values, perhaps from two files.
 * Shapes:  side A is the base, B the other. Functions of both sides are matched as shown: by name
 *          and module, a module by its stem (libfoo.so.1.2 matches libfoo.so.1.3); unnamed frames
 *          by module, build id and offset. A union tree and a table of functions hold the value of
 *          each side and the change B - A. Sampling error: of two recordings, the errors of both
 *          sides add; one that is sampled and has no sample there may have missed three intervals
 *          (95 %). Of two dumps of one process, what is live in both is the same sample and has
 *          no error in the change: only samples that came or went count. A change within two
 *          standard errors is noise. Scales: figures of each side may be multiplied by a factor, so
 *          that sides of unequal length can be compared by share of their totals or per second.
 *          With unequal factors, what is live in both dumps also has an error in the change; the
 *          errors of both sides are then added, an upper bound.
 * Owns:    everything in struct hw_diff; names are copied.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 * Cost:    two trees, then O(nodes).
 * Threads: pure but for the namers.
 * Source:  doc/design/views.md
 */
#ifndef HW_VIEWS_FINDINGS_DIFF_H
#define HW_VIEWS_FINDINGS_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "views/flame/flame.h"

struct hw_shown_program;

struct hw_diff_side {
    const struct hw_profile *p;
    const struct hw_functions *fns;
    const struct hw_namer *namer;           /* NULL = raw names */
    const struct hw_shown_program *program; /* NULL = names of files */
    const hw_values *values;
    const struct hw_filter_matches *filters; /* of fns, without a pivot; NULL = none */
    uint64_t interval_bytes;
};

enum hw_diff_flags {
    HW_DIFF_ALL_FRAMES = 1, /* include allocator frames and container templates */
    HW_DIFF_BY_NAME = 2,    /* ignore the module when matching functions */
    HW_DIFF_SAME_RUN = 4    /* two dumps of one process: same callsites, A before B */
};

struct hw_diff_function {
    hw_str_id name, module; /* in hw_diff.strings, as shown (program.h) on side B if it has
                               the function, else on A */
    uint32_t of[2];         /* its function id in A and in B; HW_ID_NONE = not there */
};

struct hw_diff_value {
    struct hw_value a, b;
    double variance, variance_objects; /* of the change of space and objects */
};

/* A function's row; self is by site. */
struct hw_diff_row {
    uint32_t function;
    struct hw_diff_value self, total;
};

struct hw_diff_node {
    uint32_t parent, function, depth;
    struct hw_diff_value self, total;
};

struct hw_diff {
    struct hw_strings *strings;
    uint64_t interval_a, interval_b;
    double scale_a, scale_b; /* 1, or set by hw_diff_scale */
    bool same_run;
    HW_VEC(struct hw_diff_function) functions;
    HW_VEC(struct hw_diff_node) nodes; /* node 0 is the root; parents before children */
    HW_VEC(struct hw_diff_row) rows;   /* one per function, by its id */
};

int hw_diff_make(const struct hw_diff_side *a, const struct hw_diff_side *b, unsigned flags,
                 struct hw_diff *out);
void hw_diff_done(struct hw_diff *d);

/* Sets the factors for the figures of both sides. */
void hw_diff_scale(struct hw_diff *d, double scale_a, double scale_b);
/* A figure of one side, times its factor. */
double hw_diff_side_a(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m);
double hw_diff_side_b(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m);
double hw_diff_change(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m);
/* Two standard errors of the change; 0 = exact, infinite: unknown. */
double hw_diff_error(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m);
/* Whether the change exceeds its error. False when there is no change, or the error is unknown. */
bool hw_diff_is_significant(const struct hw_diff *d, const struct hw_diff_value *v,
                            enum hw_metric m);
/* Whether there is a change of which nobody knows that it is more than noise, nor that it is less. */
bool hw_diff_is_open(const struct hw_diff *d, const struct hw_diff_value *v, enum hw_metric m);
/* Indices of rows by descending absolute change of self. out: d->rows.n of them. */
void hw_diff_rank(const struct hw_diff *d, enum hw_metric by, uint32_t *out);

/* "libfoo.so" for "/usr/lib/libfoo.so.1.2". */
struct hw_bytes hw_module_stem(struct hw_bytes path);

#endif
