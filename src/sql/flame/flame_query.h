/*
 * flame_query.h - a source and a configuration → the rows of one flamegraph
 *
 * Shapes:  a node's value of a property is: for a grouping, the value that all its rows share; for
 *          an aggregate, the aggregate of its rows; else NULL.
 * Owns:    its forest; the source is borrowed, the configuration only during hw_flame_query_make.
 * Errors:  HW_EINVAL with a text (no such column, no numbers, negative ones), HW_ENOMEM,
 *          HW_ELIMIT (more nodes than there is memory), HW_ETIMEOUT.
 * Cost:    that of views/forest/frame_forest.h; each pattern is matched once per distinct frame.
 *          Aggregates are computed when a cell is read.
 */
#ifndef HW_SQL_FLAME_FLAME_QUERY_H
#define HW_SQL_FLAME_FLAME_QUERY_H

#include "sql/flame/flame_config.h"
#include "sql/flame/flame_source.h"
#include "views/forest/frame_forest.h"

enum hw_flame_role { HW_FLAME_UNUSED, HW_FLAME_GROUPING, HW_FLAME_AGGREGATE };

struct hw_flame_query {
    const struct hw_flame_source *source;
    struct hw_forest forest;
    uint32_t *ident_rows; /* owned; by ident, one of its rows */
    size_t n_values;
    bool is_real[HW_FLAME_MAX_COLUMNS];            /* by value */
    int value_of[HW_FLAME_MAX_COLUMNS];            /* by column: which value; -1 = none */
    enum hw_flame_role role[HW_FLAME_MAX_COLUMNS]; /* by column */
    enum hw_flame_aggregate_kind aggregate[HW_FLAME_MAX_COLUMNS];
};

int hw_flame_query_make(struct hw_sql *sql, struct hw_flame_source *source,
                        const struct hw_flame_config *config, struct hw_flame_query *out,
                        struct hw_error *err);
void hw_flame_query_done(struct hw_flame_query *q);

void hw_flame_query_name(const struct hw_flame_query *q, size_t node, sqlite3_context *ctx);
void hw_flame_query_property(const struct hw_flame_query *q, size_t node, size_t column,
                             sqlite3_context *ctx);
/* values: the forest's self or cumulative values. */
void hw_flame_query_value(const struct hw_flame_query *q, const hw_forest_number *values,
                          size_t node, size_t value, sqlite3_context *ctx);

#endif
