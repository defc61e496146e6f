/*
 * answer.h - what the fleet's store says, as a profile like any other
 *
 * Why:     graphs, tables, differences and exports are made by views/ and export/ from a frozen
 *          model; so the rows of many machines become one, and nothing behind has to know.
 * Shapes:  one process with one heap stands for all that were asked for: its figures are those of
 *          a mean process at a mean dump (sums of all rows / dumps of all processes), so that sides
 *          with unequal numbers of machines, or of hours, can be compared. Only what lives or only
 *          what was asked for, by the metric: rows tell the two of one stretch of time apart, but
 *          memory that was there before it has no time of asking.
 *          By steps: a dump a step, with the changes between them.
 * Error:   variance of the mean: of what lives, sum of variances / (dumps * processes). Samples of
 *          one process live from dump to dump, so its dumps count as one sample; processes are
 *          independent. Of what was asked for, whose samples are each dump's own: / dumps².
 * Limits:  HW_FLEET_MAX_STACKS callstacks, those that hold most; the others stand as one frame.
 * Owns:    the profile.
 * Errors:  those of clickhouse.h; HW_ENOTFOUND: no rows; HW_EFORMAT: an answer of other types.
 * Cost:    two statements, and one for each 8,000 callstacks.
 * Source:  doc/design/fleet-questions.md
 */
#ifndef HW_FLEET_ASK_ANSWER_H
#define HW_FLEET_ASK_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "fleet/ask/question.h"
#include "views/time/values.h"

struct hw_clickhouse;
struct hw_error;
struct hw_profile;

#define HW_FLEET_MAX_STACKS 100000u

/* Whom to ask: a statement of question.h in, RowBinary out. */
struct hw_fleet_source {
    int (*ask)(void *ctx, const char *sql, struct hw_strbuf *reply, struct hw_error *err);
    void *ctx;
    const char *shown; /* for people; borrowed */
};
/* A store's client, borrowed; its limits of time and size are set where they are not. */
struct hw_fleet_source hw_fleet_source_of(struct hw_clickhouse *c);

struct hw_fleet_counts {
    uint64_t n_dumps, n_processes, n_hosts, n_rows;
    uint32_t first_s, last_s; /* of Unix time */
    uint32_t interval_bytes;  /* the largest */
};

struct hw_fleet_answer {
    struct hw_profile *p; /* frozen */
    struct hw_fleet_counts counts;
    uint64_t n_stacks;
    uint64_t n_unknown;  /* of them: the store has no frames of theirs */
    uint64_t n_left_out; /* beyond the limit */
};

int hw_fleet_get(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                 enum hw_metric metric, struct hw_fleet_answer *out, struct hw_error *err);
int hw_fleet_get_steps(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                       uint32_t step_s, struct hw_fleet_answer *out, struct hw_error *err);
void hw_fleet_answer_done(struct hw_fleet_answer *a);

/* ---- hosts ---- */

struct hw_fleet_host {
    char *name; /* owned */
    uint64_t n_dumps, n_processes;
    double mean;  /* of the metric: a process of this host at a dump */
    double error; /* two standard errors of it */
    double score; /* (mean - median of all hosts) / spread, see below; 0 when there is none */
    bool deviates;
};

/*
 * Hosts by the size of their deviation. The spread is 1.4826 * the median distance from the median:
 * the standard deviation of normal values, which some hosts that are wrong do not move. A host
 * deviates when it is more than 3.5 spreads and more than its error away, of at least five hosts;
 * where most hosts are the same to the byte, the error alone decides.
 */
struct hw_fleet_hosts {
    HW_VEC(struct hw_fleet_host) v;
    double median, spread;
    bool cut; /* more than 100,000 */
};

int hw_fleet_get_hosts(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                       enum hw_metric metric, struct hw_fleet_hosts *out, struct hw_error *err);
/* Fills score and deviates, and sorts; part of the above. */
int hw_fleet_hosts_judge(struct hw_fleet_hosts *h);
void hw_fleet_hosts_done(struct hw_fleet_hosts *h);

/* ---- labels ---- */

struct hw_fleet_word {
    char *text; /* owned */
    uint64_t n_rows;
    uint32_t last_s; /* 0 = not asked */
};

struct hw_fleet_words {
    HW_VEC(struct hw_fleet_word) v;
    bool cut; /* more than 1,000 */
};

/* Labels other than the columns, by name. */
int hw_fleet_get_labels(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                        struct hw_fleet_words *out, struct hw_error *err);
/* Values of one, most rows first. */
int hw_fleet_get_label_values(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                              const char *label, struct hw_fleet_words *out, struct hw_error *err);
void hw_fleet_words_done(struct hw_fleet_words *w);

#endif
