#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/push.h"
#include "fleet/clickhouse.h"
#include "fleet/schema.h"
#include "fleet/store.h"

#include "base/banned.h"

static int print_statement(const struct hw_strbuf *sql)
{
    return printf("%s;\n", sql->p) < 0 ? HW_ESYS : HW_OK;
}

/* The statements one by one; without a client they are printed. The first makes the database, so it
 * is asked in one that is always there. */
static int each_statement(struct hw_clickhouse *c, const char *database, const char *cluster,
                          struct hw_error *err)
{
    struct hw_strbuf sql = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == 0; i++) {
        hw_strbuf_clear(&sql);
        if (!hw_fleet_schema_statement(&sql, i, database, cluster))
            break;
        const struct hw_clickhouse_ask ask = {.sql = sql.p, .database = "default"};
        if (sql.failed)
            rc = hw_fail(err, HW_ENOMEM, 0, "statement");
        else if (c)
            rc = hw_clickhouse_do(c, &ask, NULL, err);
        else if (print_statement(&sql) < 0)
            rc = hw_fail_sys(err, "cannot print the statements");
    }
    hw_strbuf_done(&sql);
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
    hw_clickhouse_done(&c);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}
