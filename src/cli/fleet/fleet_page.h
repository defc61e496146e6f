/*
 * fleet_page.h - what `heapwise fleet` prints itself: top, hosts, labels
 *
 * Shapes:  a job is one run of the command: its store, the query and how to show the result.
 * Errors:  printed; exit codes of cli.h.
 */
#ifndef HW_CLI_FLEET_FLEET_PAGE_H
#define HW_CLI_FLEET_FLEET_PAGE_H

#include <stdint.h>

#include "cli/report/report.h"
#include "fleet/query/fleet_query.h"
#include "fleet/query/fleet_result.h"
#include "fleet/store/clickhouse.h"
#include "fleet/store/store.h"
#include "views/time/values.h"

struct hw_cli;

struct hw_fleet_job {
    struct hw_cli *cli;
    int64_t now_s;
    struct hw_store store;
    struct hw_clickhouse client;
    struct hw_fleet_source source; /* that client */
    struct hw_fleet_where where;
    enum hw_metric metric;
    struct hw_report_options look;
};

int hw_fleet_top(struct hw_fleet_job *j);
int hw_fleet_hosts(struct hw_fleet_job *j);
int hw_fleet_labels(struct hw_fleet_job *j);

/* "1000 hosts, 1000 processes, 10 k dumps" */
void hw_fleet_put_counts(const struct hw_fleet_counts *n, struct hw_strbuf *out);
/* "2026-03-01 10:00" of the local clock */
void hw_fleet_put_time(int64_t s, struct hw_strbuf *out);
/* Prints the error with its remedy; returns an exit code. */
int hw_fleet_fail(const struct hw_fleet_job *j, const struct hw_error *err);
/* A line for everything the answer lacks, on standard error. */
void hw_fleet_say_losses(const struct hw_fleet_result *a);

#endif
