#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/push/push_command.h"
#include "fleet/store/clickhouse.h"
#include "fleet/store/store.h"
#include "fleet/store/table_schema.h"

#include "base/banned.h"

static int print_statement(const struct hw_strbuf *sql)
{
    return printf("%s;\n", sql->p) < 0 ? HW_ESYS : HW_OK;
}

/* The first statement creates the database, so all are run in one that always exists. */
static int do_statement(struct hw_clickhouse *c, const char *sql, struct hw_strbuf *reply,
                        struct hw_error *err)
{
    const struct hw_clickhouse_query ask = {.sql = sql, .database = "default"};
    return hw_clickhouse_do(c, &ask, reply, err);
}

/* Runs the statements one by one; without a client, prints them. */
static int each_statement(struct hw_clickhouse *c, const char *database, const char *cluster,
                          struct hw_error *err)
{
    struct hw_strbuf sql = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == 0; i++) {
        hw_strbuf_clear(&sql);
        if (!hw_fleet_schema_statement(&sql, i, database, cluster))
            break;
        if (sql.failed)
            rc = hw_fail(err, HW_ENOMEM, 0, "statement");
        else if (c)
            rc = do_statement(c, sql.p, NULL, err);
        else if (print_statement(&sql) < 0)
            rc = hw_fail_sys(err, "cannot print the statements");
    }
    hw_strbuf_done(&sql);
    return rc;
}

struct tables {
    struct hw_clickhouse *client;
    const char *database, *cluster;
};

/* Adds the columns that one table lacks. */
static int add_columns(const struct tables *t, enum hw_fleet_table id, bool local,
                       struct hw_error *err)
{
    struct hw_strbuf sql = {0}, there = {0}, name = {0};
    hw_strbuf_addf(&name, "%s%s", hw_fleet_table_name(id), local ? "_local" : "");
    hw_fleet_columns_query(&sql, t->database, name.p);
    int rc = name.failed || sql.failed ? hw_fail(err, HW_ENOMEM, 0, "statement")
                                       : do_statement(t->client, sql.p, &there, err);
    for (size_t i = 0; rc == 0 && i < hw_fleet_n_columns; i++) {
        hw_strbuf_clear(&sql);
        if (hw_fleet_columns[i].table != id ||
            !hw_fleet_column_statement(&sql, i, t->database, name.p, t->cluster,
                                       hw_bytes_of(there.p, there.n)))
            continue;
        rc = sql.failed ? hw_fail(err, HW_ENOMEM, 0, "statement")
                        : do_statement(t->client, sql.p, NULL, err);
        if (rc == 0)
            hw_log(INFO, "added column %s to table %s", hw_fleet_columns[i].name, name.p);
    }
    hw_strbuf_done(&sql);
    hw_strbuf_done(&there);
    hw_strbuf_done(&name);
    return rc;
}

/* Adds columns that an older table lacks. The machines' own tables come before those over them. */
static int add_all_columns(const struct tables *t, struct hw_error *err)
{
    int rc = HW_OK;
    for (int local = t->cluster != NULL; rc == 0 && local >= 0; local--)
        for (int id = 0; rc == 0 && id < HW_FLEET_TABLE_COUNT; id++)
            rc = add_columns(t, (enum hw_fleet_table)id, local != 0, err);
    return rc;
}

int hw_push_schema(const struct hw_cli *cli, const struct hw_store *store)
{
    const char *cluster = hw_opt_text(&cli->opts, HW_OPT_CLUSTER);
    const char *database = hw_store_database(store);
    struct hw_error err = {0};
    struct hw_clickhouse c;
    if (store->form != HW_STORE_CLICKHOUSE) {
        hw_cli_error(cli, NULL, "%s has no schema to make", hw_store_scheme(store->form));
        return hw_cli_usage_exit(cli);
    }
    if (cluster && hw_fleet_check_name(cluster, "cluster", &err) < 0)
        return hw_cli_fail(cli, &err);
    if (hw_opt_flag(&cli->opts, HW_OPT_DRY_RUN))
        return each_statement(NULL, database, cluster, &err) < 0 ? hw_cli_fail(cli, &err)
                                                                 : HW_EXIT_OK;
    int rc = hw_clickhouse_init(&c, store, &err);
    if (rc == 0)
        rc = each_statement(&c, database, cluster, &err);
    const struct tables t = {&c, database, cluster};
    if (rc == 0)
        rc = add_all_columns(&t, &err);
    hw_clickhouse_done(&c);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}
