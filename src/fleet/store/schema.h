/*
 * schema.h - the statements that make the fleet's tables
 *
 * Why:     whoever inserts and whoever asks share one list of columns (schema.def); the statements
 *          come from it.
 * Shapes:  on one machine a table is just itself. On a cluster NAME is a Distributed table over
 *          NAME_local, replicated on the machines of each shard, which the server's macros {shard}
 *          and {replica} tell apart.
 * Errors:  HW_EINVAL: a name that is no name.
 * Source:  doc/design/fleet.md; works from ClickHouse 18.16 on
 */
#ifndef HW_FLEET_STORE_SCHEMA_H
#define HW_FLEET_STORE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

struct hw_error;

enum hw_fleet_table {
#define TABLE(ID, ...) HW_FLEET_##ID,
#include "fleet/store/schema.def"
    HW_FLEET_TABLE_COUNT
};

enum hw_fleet_kind {
#define KIND(KIND, type) HW_FLEET_KIND_##KIND,
#include "fleet/store/schema.def"
    HW_FLEET_KIND_COUNT
};

struct hw_fleet_column {
    enum hw_fleet_table table;
    const char *name;
    enum hw_fleet_kind kind;
    const char *value; /* of a column that came later, in rows that lack it; NULL: always there */
};

extern const struct hw_fleet_column hw_fleet_columns[];
extern const size_t hw_fleet_n_columns;

const char *hw_fleet_table_name(enum hw_fleet_table t); /* "stacks" */

/* Adds the i-th statement, without a semicolon; false: there is none. cluster NULL = one machine.
 * database: where the tables are, which a cluster's statements must name. */
bool hw_fleet_schema_statement(struct hw_strbuf *out, size_t i, const char *database,
                               const char *cluster);
/* Columns of a table; those that came later are the last of them. */
size_t hw_fleet_table_columns(enum hw_fleet_table t);
/* Which columns has a table that exists? Names, one a line; no answer: nobody knows. Asked for, as
 * 18.16 has no ADD COLUMN IF NOT EXISTS. table: NAME or NAME_local. */
void hw_fleet_columns_question(struct hw_strbuf *out, const char *database, const char *table);
/* How many of the first columns it has. */
size_t hw_fleet_columns_there(enum hw_fleet_table t, struct hw_bytes reply);
/* Adds the statement that adds hw_fleet_columns[i]; false: it is there, or was from the first. */
bool hw_fleet_column_statement(struct hw_strbuf *out, size_t i, const char *database,
                               const char *table, const char *cluster, struct hw_bytes reply);
/* Letters, digits, '_' and (not at the begin) '-' and '.': such names need no thought in SQL once
 * quoted. what: for the message. */
int hw_fleet_check_name(const char *name, const char *what, struct hw_error *err);

#endif
