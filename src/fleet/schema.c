/*
 * The engine's clause is written as PARTITION BY … ORDER BY …, which means what the older form
 * `MergeTree(day, (service, ts, stack), 8192)` means: 18.16 knows both, the servers of today refuse
 * the older one unless a setting allows it.
 */
#include "fleet/schema.h"

#include <ctype.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/error.h"

#include "base/banned.h"

struct table {
    const char *name, *version, *day, *order, *shard;
};

static const struct table tables[HW_FLEET_TABLE_COUNT] = {
#define TABLE(ID, name, version, day, order, shard) {name, version, day, order, shard},
#include "fleet/schema.def"
};

static const char *const kinds[HW_FLEET_KIND_COUNT] = {
#define KIND(KIND, type) type,
#include "fleet/schema.def"
};

const struct hw_fleet_column hw_fleet_columns[] = {
#define COLUMN(TABLE, name, KIND) {HW_FLEET_##TABLE, name, HW_FLEET_KIND_##KIND},
#include "fleet/schema.def"
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
        return hw_fail(err, HW_EINVAL, 0, "'%.64s' is no name of a %s", name, what);
    return HW_OK;
}

static void add_columns(struct hw_strbuf *out, enum hw_fleet_table t)
{
    const char *between = "(";
    for (size_t i = 0; i < hw_fleet_n_columns; i++) {
        if (hw_fleet_columns[i].table != t)
            continue;
        hw_strbuf_addf(out, "%s%s %s", between, hw_fleet_columns[i].name,
                       kinds[hw_fleet_columns[i].kind]);
        between = ", ";
    }
    hw_strbuf_addc(out, ')');
}

/* ENGINE = Replacing…; replicated by the path that the replicas of a shard share. */
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
