/*
 * The engine's clause is written as PARTITION BY … ORDER BY …, which is equivalent to the older
 * form `MergeTree(day, (service, ts, stack), 8192)`: 18.16 supports both, current servers reject
 * the older one unless a setting allows it.
 */
#include "fleet/store/table_schema.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "fleet/store/clickhouse.h"

#include "base/banned.h"

struct table {
    const char *name, *version, *day, *order, *shard;
};

static const struct table tables[HW_FLEET_TABLE_COUNT] = {
#define TABLE(ID, name, version, day, order, shard) {name, version, day, order, shard},
#include "fleet/store/table_schema.def"
};

static const char *const kinds[HW_FLEET_KIND_COUNT] = {
#define KIND(KIND, type) type,
#include "fleet/store/table_schema.def"
};

const struct hw_fleet_column hw_fleet_columns[] = {
#define COLUMN(TABLE, name, KIND)       {HW_FLEET_##TABLE, name, HW_FLEET_KIND_##KIND, NULL},
#define ADDED(TABLE, name, KIND, value) {HW_FLEET_##TABLE, name, HW_FLEET_KIND_##KIND, value},
#include "fleet/store/table_schema.def"
};
const size_t hw_fleet_n_columns = HW_ARRAY_LEN(hw_fleet_columns);

const char *hw_fleet_table_name(enum hw_fleet_table t)
{
    return tables[t].name;
}

int hw_fleet_check_name(const char *name, const char *what, struct hw_error *err)
{
    size_t n = 0;
    for (; name[n]; n++) {
        unsigned char c = (unsigned char)name[n];
        bool first = isalpha(c) || c == '_';
        if (n >= 128 || !(first || (n > 0 && (isdigit(c) || c == '-' || c == '.'))))
            break;
    }
    if (n == 0 || name[n])
        return hw_fail(err, HW_EINVAL, 0, "'%.64s' is not a valid name of a %s", name, what);
    return HW_OK;
}

static void add_column(struct hw_strbuf *out, const struct hw_fleet_column *c)
{
    hw_strbuf_addf(out, "%s %s", c->name, kinds[c->kind]);
    if (c->value)
        hw_strbuf_addf(out, " DEFAULT %s", c->value);
}

static void add_columns(struct hw_strbuf *out, enum hw_fleet_table t)
{
    const char *between = "(";
    for (size_t i = 0; i < hw_fleet_n_columns; i++) {
        if (hw_fleet_columns[i].table != t)
            continue;
        hw_strbuf_adds(out, between);
        add_column(out, &hw_fleet_columns[i]);
        between = ", ";
    }
    hw_strbuf_addc(out, ')');
}

/* ENGINE = Replacing…; on a cluster replicated, by a path that the replicas of a shard share. */
static void add_engine(struct hw_strbuf *out, const struct table *t, const char *database,
                       const char *cluster)
{
    hw_strbuf_addf(out, " ENGINE = %s%sMergeTree(", cluster ? "Replicated" : "",
                   t->version[0] ? "Replacing" : "");
    if (cluster)
        hw_strbuf_addf(out, "'/clickhouse/tables/{shard}/%s/%s', '{replica}'", database, t->name);
    if (t->version[0])
        hw_strbuf_addf(out, "%s%s", cluster ? ", " : "", t->version);
    hw_strbuf_addf(out,
                   ") PARTITION BY toYYYYMM(%s) ORDER BY (%s) SETTINGS index_granularity = 8192",
                   t->day, t->order);
}

static void add_local(struct hw_strbuf *out, enum hw_fleet_table id, const char *database,
                      const char *cluster)
{
    const struct table *t = &tables[id];
    hw_strbuf_adds(out, "CREATE TABLE IF NOT EXISTS ");
    if (cluster)
        hw_strbuf_addf(out, "`%s`.%s_local ON CLUSTER `%s` ", database, t->name, cluster);
    else
        hw_strbuf_addf(out, "`%s`.%s ", database, t->name);
    add_columns(out, id);
    add_engine(out, t, database, cluster);
}

static void add_distributed(struct hw_strbuf *out, enum hw_fleet_table id, const char *database,
                            const char *cluster)
{
    const struct table *t = &tables[id];
    hw_strbuf_addf(out, "CREATE TABLE IF NOT EXISTS `%s`.%s ON CLUSTER `%s` ", database, t->name,
                   cluster);
    add_columns(out, id);
    hw_strbuf_addf(out, " ENGINE = Distributed(`%s`, `%s`, %s_local, %s)", cluster, database,
                   t->name, t->shard);
}

bool hw_fleet_schema_statement(struct hw_strbuf *out, size_t i, const char *database,
                               const char *cluster)
{
    if (i == 0) {
        hw_strbuf_addf(out, "CREATE DATABASE IF NOT EXISTS `%s`", database);
        if (cluster)
            hw_strbuf_addf(out, " ON CLUSTER `%s`", cluster);
        return true;
    }
    if (--i < HW_FLEET_TABLE_COUNT) {
        add_local(out, (enum hw_fleet_table)i, database, cluster);
        return true;
    }
    i -= HW_FLEET_TABLE_COUNT;
    if (!cluster || i >= HW_FLEET_TABLE_COUNT)
        return false;
    add_distributed(out, (enum hw_fleet_table)i, database, cluster);
    return true;
}

/* ---- existing tables ---- */

size_t hw_fleet_table_columns(enum hw_fleet_table t)
{
    size_t n = 0;
    for (size_t i = 0; i < hw_fleet_n_columns; i++)
        n += hw_fleet_columns[i].table == t;
    return n;
}

void hw_fleet_columns_query(struct hw_strbuf *out, const char *database, const char *table)
{
    hw_strbuf_adds(out, "SELECT name FROM system.columns WHERE database = ");
    hw_clickhouse_add_text(out, hw_bytes_str(database));
    hw_strbuf_addf(out, " AND table = '%s' FORMAT TSV", table);
}

static bool has_line(struct hw_bytes text, const char *line)
{
    size_t n = strlen(line);
    for (const uint8_t *p = text.p, *end = text.p + text.n; p < end;) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        if ((size_t)(stop - p) == n && memcmp(p, line, n) == 0)
            return true;
        p = stop + (stop < end);
    }
    return false;
}

size_t hw_fleet_count_columns(enum hw_fleet_table t, struct hw_bytes reply)
{
    size_t k = 0;
    if (reply.n == 0)
        return hw_fleet_table_columns(t);
    for (size_t i = 0; i < hw_fleet_n_columns; i++) {
        const struct hw_fleet_column *c = &hw_fleet_columns[i];
        if (c->table != t)
            continue;
        if (c->value && !has_line(reply, c->name))
            return k;
        k++;
    }
    return k;
}

bool hw_fleet_column_statement(struct hw_strbuf *out, size_t i, const char *database,
                               const char *table, const char *cluster, struct hw_bytes reply)
{
    const struct hw_fleet_column *c = &hw_fleet_columns[i];
    if (!c->value || reply.n == 0 || has_line(reply, c->name))
        return false;
    hw_strbuf_addf(out, "ALTER TABLE `%s`.%s", database, table);
    if (cluster)
        hw_strbuf_addf(out, " ON CLUSTER `%s`", cluster);
    hw_strbuf_adds(out, " ADD COLUMN ");
    add_column(out, c);
    return true;
}
