/*
 * flame_config.h - the configuration of a flamegraph: __intrinsic_flamegraph_config(key, value...)
 *
 * Shapes:  keys and their values, in any order:
 *            'view', TOP_DOWN | BOTTOM_UP | PIVOT | FROM_FRAME             (TOP_DOWN)
 *            'view_pattern', regex, flags                   needed by, and only by, the last two
 *            'filter', SHOW_STACK | HIDE_STACK | HIDE_FRAME, regex, flags          (repeatable)
 *            'grouping', column                                                    (repeatable)
 *            'value', column                           (repeatable, at least one; the first counts)
 *            'aggregate', SUM | ONE_OR_SUMMARY | CONCAT_WITH_COMMA, column, column (repeatable)
 *          flags: '' or 'i' (ignore case). A regex is one of views/filter.h; an empty one matches
 *          every text. SQL handles the result as an opaque pointer.
 * Owns:    SQLite owns the configuration, for the statement.
 * Errors:  a wrong key, number of values, word or expression ends the statement with a text.
 */
#ifndef HW_SQL_FLAME_FLAME_CONFIG_H
#define HW_SQL_FLAME_FLAME_CONFIG_H

#include <sqlite3.h>

#include "base/memory/vec.h"
#include "views/filter.h"
#include "views/forest/frame_forest.h"

enum { HW_FLAME_MAX_SHOWS = 61 };

enum hw_flame_filter_kind { HW_FLAME_SHOW_STACK, HW_FLAME_HIDE_STACK, HW_FLAME_HIDE_FRAME };

struct hw_flame_filter {
    enum hw_flame_filter_kind kind;
    struct hw_pattern *pattern; /* owned; NULL = matches every text */
};

enum hw_flame_aggregate_kind { HW_FLAME_SUM, HW_FLAME_ONE_OR_SUMMARY, HW_FLAME_CONCAT };

struct hw_flame_aggregate {
    enum hw_flame_aggregate_kind kind;
    char *column; /* owned */
};

struct hw_flame_config {
    enum hw_forest_view view;
    struct hw_pattern *view_pattern; /* owned; NULL = matches every text */
    bool has_view_pattern;
    HW_VEC(struct hw_flame_filter) filters;
    HW_VEC(char *) groupings; /* owned */
    HW_VEC(char *) values;    /* owned */
    HW_VEC(struct hw_flame_aggregate) aggregates;
};

int hw_sql_add_flame_config(sqlite3 *db);
/* Borrowed; NULL: value is not a configuration. */
const struct hw_flame_config *hw_flame_config_of(sqlite3_value *value);

#endif
