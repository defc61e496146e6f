/*
 * table_schema.h - the statements that create the fleet's tables
 *
 * Why:     inserts and queries share one list of columns (table_schema.def); the statements are generated
 *          from it.
 * Shapes:  on one machine a table is a plain table. On a cluster NAME is a Distributed table over
 *          NAME_local, replicated on the machines of each shard, which the server's macros {shard}
 *          and {replica} identify.
 * Errors:  HW_EINVAL: an invalid name.
 * Source:  doc/design/fleet.md; works from ClickHouse 18.16 on
 */
#ifndef HW_FLEET_STORE_TABLE_SCHEMA_H
#define HW_FLEET_STORE_TABLE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

struct hw_error;

enum hw_fleet_table {
#define TABLE(ID, ...) HW_FLEET_##ID,
#include "fleet/store/table_schema.def"
    HW_FLEET_TABLE_COUNT
};

enum hw_fleet_kind {
#define KIND(KIND, type) HW_FLEET_KIND_##KIND,
#include "fleet/store/table_schema.def"
    HW_FLEET_KIND_COUNT
};

struct hw_fleet_column {
    enum hw_fleet_table table;
    const char *name;
    enum hw_fleet_kind kind;
    const char *value; /* of a column added later, in rows that lack it; NULL: original column */
};

extern const struct hw_fleet_column hw_fleet_columns[];
extern const size_t hw_fleet_n_columns;

const char *hw_fleet_table_name(enum hw_fleet_table t); /* "stacks" */

/* Adds the i-th statement, without a semicolon; false: no more. cluster NULL = one machine.
 * database: the tables' database, which a cluster's statements must name. */
bool hw_fleet_schema_statement(struct hw_strbuf *out, size_t i, const char *database,
                               const char *cluster);
/* The number of columns of a table; those added later are the last ones. */
size_t hw_fleet_table_columns(enum hw_fleet_table t);
/* The query for the columns of an existing table. Reply: a name per line; empty: unknown. Needed
 * because 18.16 has no ADD COLUMN IF NOT EXISTS. table: NAME or NAME_local. */
void hw_fleet_columns_query(struct hw_strbuf *out, const char *database, const char *table);
/* How many columns, from the first on, the table has according to the reply. */
size_t hw_fleet_count_columns(enum hw_fleet_table t, struct hw_bytes reply);
/* Adds the statement that adds hw_fleet_columns[i]; false: it exists, or is an original column. */
bool hw_fleet_column_statement(struct hw_strbuf *out, size_t i, const char *database,
                               const char *table, const char *cluster, struct hw_bytes reply);
/* Letters, digits, '_' and, except at the start, '-' and '.': such names need no escaping in
 * quotes. what: for the message. */
int hw_fleet_check_name(const char *name, const char *what, struct hw_error *err);

#endif
