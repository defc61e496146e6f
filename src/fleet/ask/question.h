/*
 * question.h - which rows of the fleet's store are meant, and the statements that ask for them
 *
 * Why:     labels and their values are anybody's text; they become SQL in one place.
 * Shapes:  a selection is a list of conditions, all of which hold, and a range of time. A condition
 *          is NAME=VALUE, NAME!=VALUE, NAME~REGEX or NAME!~REGEX (RE2, anywhere in the value; ^ and
 *          $ hold it at the ends). NAME is a column of the table (service, host, version, build_id,
 *          pid, heap, interval) or any other label. `since=` and `until=` are the range. A time is
 *          one before now (24h, 7d), a date, or a date and time of day, which are local unless a Z
 *          stands behind.
 * Units:   seconds of Unix time; `until` is not part of the range.
 * Owns:    its texts.
 * Errors:  HW_EINVAL with a text for the user, HW_ENOMEM.
 * Trust:   a value only ever stands between quotes, escaped (clickhouse.h); a name must be one
 *          (letters, digits, '_').
 * Source:  doc/design/fleet-questions.md
 */
#ifndef HW_FLEET_ASK_QUESTION_H
#define HW_FLEET_ASK_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"

struct hw_error;

enum hw_fleet_question {
#define X(ID, sql) HW_FLEET_Q_##ID,
#include "fleet/ask/questions.def"
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

/* The day before now_s. */
void hw_fleet_where_init(struct hw_fleet_where *w, int64_t now_s);
void hw_fleet_where_done(struct hw_fleet_where *w);
/* A condition as above, or since=TIME, until=TIME. */
int hw_fleet_where_add(struct hw_fleet_where *w, const char *text, int64_t now_s,
                       struct hw_error *err);
int hw_fleet_where_copy(const struct hw_fleet_where *w, struct hw_fleet_where *out);
/* The range must have a begin before its end, and fit a DateTime. */
int hw_fleet_where_check(const struct hw_fleet_where *w, struct hw_error *err);
/* "service=checkout version=1.42", for people: escaped; "everything" without conditions. */
void hw_fleet_where_show(const struct hw_fleet_where *w, struct hw_strbuf *out);
int hw_fleet_time(const char *text, int64_t now_s, int64_t *out, struct hw_error *err);

/* Columns that are labels: name by number; NULL behind the last. */
const char *hw_fleet_label(size_t i);
/* Letters, digits and '_', no digit at the begin. */
bool hw_fleet_is_label(const char *name);

struct hw_fleet_ask {
    enum hw_fleet_question question;
    const struct hw_fleet_where *where; /* NULL: no {where} in it */
    uint32_t step_s;                    /* {step}: seconds */
    const char *label;                  /* {label} */
    const uint64_t *hashes;             /* {hashes} */
    size_t n_hashes;
};
/* Adds the statement; what was asked for must be there (asserted). */
void hw_fleet_sql(const struct hw_fleet_ask *a, struct hw_strbuf *out);

#endif
