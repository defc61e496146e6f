/*
 * fleet_query.h - a selection of rows of the fleet's store, and the statements that query them
 *
 * Why:     labels and their values are untrusted; only this module turns them into SQL.
 * Shapes:  a selection is a list of conditions, combined by AND, and a range of time. A condition
 *          is NAME=VALUE, NAME!=VALUE, NAME~REGEX or NAME!~REGEX (RE2, anywhere in the value; ^ and
 *          $ anchor it). NAME is a column of the table (service, host, version, build_id, pid,
 *          heap, interval) or any other label. `since=` and `until=` are the range. A time is an
 *          age (24h, 7d), a date, or a date and time of day, in local time unless followed by Z.
 * Units:   seconds of Unix time; `until` is exclusive.
 * Owns:    its texts.
 * Errors:  HW_EINVAL with a text for the user, HW_ENOMEM.
 * Trust:   values are always quoted and escaped (clickhouse.h); names consist of letters, digits
 *          and '_'.
 * Source:  doc/design/fleet-questions.md
 */
#ifndef HW_FLEET_QUERY_FLEET_QUERY_H
#define HW_FLEET_QUERY_FLEET_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"

struct hw_error;

enum hw_fleet_query {
#define X(ID, sql) HW_FLEET_Q_##ID,
#include "fleet/query/fleet_queries.def"
#undef X
    HW_FLEET_Q_COUNT
};

enum hw_fleet_op {
    HW_FLEET_IS,
    HW_FLEET_IS_NOT,
    HW_FLEET_FITS,
    HW_FLEET_FITS_NOT,
    HW_FLEET_OP_COUNT
};

struct hw_fleet_condition {
    char *name, *value;
    enum hw_fleet_op op;
};

struct hw_fleet_where {
    HW_VEC(struct hw_fleet_condition) v;
    int64_t since_s, until_s;
};

/* Selects everything of the last 24 hours. */
void hw_fleet_where_init(struct hw_fleet_where *w, int64_t now_s);
void hw_fleet_where_done(struct hw_fleet_where *w);
/* A condition as above, or since=TIME, until=TIME. */
int hw_fleet_where_add(struct hw_fleet_where *w, const char *text, int64_t now_s,
                       struct hw_error *err);
int hw_fleet_where_copy(const struct hw_fleet_where *w, struct hw_fleet_where *out);
/* HW_EINVAL unless the range is not empty and fits a DateTime. */
int hw_fleet_where_check(const struct hw_fleet_where *w, struct hw_error *err);
/* "service=checkout version=1.42", escaped for display; "everything" without conditions. */
void hw_fleet_where_show(const struct hw_fleet_where *w, struct hw_strbuf *out);
int hw_fleet_time(const char *text, int64_t now_s, int64_t *out, struct hw_error *err);

/* The name of the i-th column that is a label; NULL after the last. */
const char *hw_fleet_label(size_t i);
/* Letters, digits and '_', not starting with a digit. */
bool hw_fleet_is_label(const char *name);

struct hw_fleet_query_args {
    enum hw_fleet_query query;
    const struct hw_fleet_where *where; /* NULL: no {where} in it */
    uint32_t step_s;                    /* {step}: seconds */
    const char *label;                  /* {label} */
    const uint64_t *hashes;             /* {hashes} */
    size_t n_hashes;
};
/* Adds the statement; the fields that it uses must be set (asserted). */
void hw_fleet_sql(const struct hw_fleet_query_args *a, struct hw_strbuf *out);

#endif
