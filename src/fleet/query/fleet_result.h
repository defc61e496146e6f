/*
 * fleet_result.h - the results of queries to the fleet's store, as an ordinary profile
 *
 * Why:     views/ and export/ compute graphs, tables, differences and exports from a frozen model.
 *          So the rows of many machines become such a model, and later stages need no changes.
 * Shapes:  one process with one heap represents all selected ones: its figures are those of a mean
 *          process at a mean dump (sums of all rows / dumps of all processes), so that selections
 *          with different numbers of machines or hours are comparable. It has either live or
 *          allocated memory, by the metric: rows separate the two within a range of time, but
 *          live memory from before it has no time of allocation.
 *          By steps: one dump per step, with the changes between them.
 * Error:   variance of the mean. Live memory: sum of variances / (dumps * processes), as samples of
 *          a process persist from dump to dump and its dumps count as one; processes are
 *          independent. Allocated memory: / dumps², as each dump has its own samples.
 * Limits:  the HW_FLEET_MAX_STACKS largest callstacks; the others become one frame.
 * Owns:    the profile.
 * Errors:  those of clickhouse.h; HW_ENOTFOUND: no rows; HW_EFORMAT: a reply with other types.
 * Cost:    two statements, and one per 8,000 callstacks.
 * Source:  doc/design/fleet-questions.md
 */
#ifndef HW_FLEET_QUERY_FLEET_RESULT_H
#define HW_FLEET_QUERY_FLEET_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "fleet/query/fleet_query.h"
#include "views/time/values.h"

struct hw_clickhouse;
struct hw_error;
struct hw_profile;

#define HW_FLEET_MAX_STACKS 100000u

/* The connection: runs a statement of fleet_query.h and returns RowBinary. */
struct hw_fleet_source {
    int (*ask)(void *ctx, const char *sql, struct hw_strbuf *reply, struct hw_error *err);
    void *ctx;
    const char *shown; /* for messages; borrowed */
};
/* A borrowed client as the source; sets its limits of time and size if they are not set. */
struct hw_fleet_source hw_fleet_source_of(struct hw_clickhouse *c);

struct hw_fleet_counts {
    uint64_t n_dumps, n_processes, n_hosts, n_rows;
    uint32_t first_s, last_s; /* of Unix time */
    uint32_t interval_bytes;  /* the largest */
};

struct hw_fleet_result {
    struct hw_profile *p; /* frozen */
    struct hw_fleet_counts counts;
    uint64_t n_stacks;
    uint64_t n_unknown;  /* of these: without frames in the store */
    uint64_t n_left_out; /* beyond the limit */
};

int hw_fleet_get(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                 enum hw_metric metric, struct hw_fleet_result *out, struct hw_error *err);
int hw_fleet_get_steps(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                       uint32_t step_s, struct hw_fleet_result *out, struct hw_error *err);
void hw_fleet_result_done(struct hw_fleet_result *a);

/* ---- hosts ---- */

struct hw_fleet_host {
    char *name; /* owned */
    uint64_t n_dumps, n_processes;
    double mean;  /* of the metric, per process of this host and dump */
    double error; /* two standard errors of the mean */
    double score; /* (mean - median of all hosts) / spread, see below; 0 if the spread is 0 */
    bool deviates;
};

/*
 * Hosts sorted by deviation. The spread is 1.4826 * the median absolute deviation: for a normal
 * distribution that is the standard deviation, but a few outliers do not affect it. A host deviates
 * if it is more than 3.5 spreads and more than its error from the median, of at least five hosts;
 * if most hosts are equal to the byte, the error alone decides.
 */
struct hw_fleet_hosts {
    HW_VEC(struct hw_fleet_host) v;
    double median, spread;
    bool cut; /* more than 100,000 */
};

int hw_fleet_get_hosts(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                       enum hw_metric metric, struct hw_fleet_hosts *out, struct hw_error *err);
/* Computes score and deviates, and sorts; part of hw_fleet_get_hosts. */
int hw_fleet_hosts_judge(struct hw_fleet_hosts *h);
void hw_fleet_hosts_done(struct hw_fleet_hosts *h);

/* ---- labels ---- */

struct hw_fleet_word {
    char *text; /* owned */
    uint64_t n_rows;
    uint32_t last_s; /* 0 = not queried */
};

struct hw_fleet_words {
    HW_VEC(struct hw_fleet_word) v;
    bool cut; /* more than 1,000 */
};

/* Labels that are not columns, sorted by name. */
int hw_fleet_get_labels(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                        struct hw_fleet_words *out, struct hw_error *err);
/* The values of a label, most rows first. */
int hw_fleet_get_label_values(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                              const char *label, struct hw_fleet_words *out, struct hw_error *err);
void hw_fleet_words_done(struct hw_fleet_words *w);

#endif
