/*
 * Queries of the fleet's store for the page. A profile from the store becomes a trace of this
 * server (a file in memory, written like any profile), so that the page's graphs, tables,
 * differences, leaks, SQL and exports are independent of stores.
 *
 *   GET  /api/v1/fleet/labels                    names: columns first
 *   GET  /api/v1/fleet/values?label=NAME         values with row counts, most first
 *   GET  /api/v1/fleet/hosts?metric=&limit=      hosts by deviation
 *   POST /api/v1/fleet/profile?metric=           the profile of a mean process: {id, …}
 *   POST /api/v1/fleet/profile?step=SECONDS      with one dump per step
 *
 * All take where (conditions, separated by 0x1f), since and until, like `heapwise fleet`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "config/numbers.h"
#include "export/export.h"
#include "fleet/query/fleet_result.h"
#include "fleet/store/clickhouse.h"
#include "fleet/store/store.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

enum { TIMEOUT_MS = 120000, DEFAULT_HOSTS = 200 };

struct fleet_query {
    struct hw_pages *pages;
    struct hw_clickhouse client;
    struct hw_fleet_source from;
    struct hw_fleet_where where;
    enum hw_metric metric;
    int64_t now_s;
};

static int add_line(struct fleet_query *a, const char *line, size_t n, struct hw_error *err)
{
    char *text = n ? strndup(line, n) : NULL;
    int rc = n && !text ? HW_ENOMEM : HW_OK;
    if (text)
        rc = hw_fleet_where_add(&a->where, text, a->now_s, err);
    free(text);
    return rc;
}

static int read_where(struct fleet_query *a, struct hw_http_request *req, struct hw_error *err)
{
    const char *where = hw_http_query(req, "where"), *since = hw_http_query(req, "since");
    const char *until = hw_http_query(req, "until"), *metric = hw_http_query(req, "metric");
    hw_fleet_where_init(&a->where, a->now_s);
    int rc = HW_OK;
    for (const char *p = where; rc == HW_OK && p && *p;) {
        size_t n = strcspn(p, "\x1f");
        rc = add_line(a, p, n, err);
        p += n + (p[n] == '\x1f');
    }
    if (rc == HW_OK && since && *since)
        rc = hw_fleet_time(since, a->now_s, &a->where.since_s, err);
    if (rc == HW_OK && until && *until)
        rc = hw_fleet_time(until, a->now_s, &a->where.until_s, err);
    if (rc == HW_OK && metric && *metric && !hw_metric_find(metric, &a->metric))
        rc = hw_fail(err, HW_EINVAL, 0, "no such metric");
    return rc == HW_OK ? hw_fleet_where_check(&a->where, err) : rc;
}

static int begin(struct fleet_query *a, struct hw_pages *p, struct hw_http_request *req,
                 struct hw_error *err)
{
    *a = (struct fleet_query){.pages = p, .now_s = time(NULL)};
    if (!p->o.store)
        return hw_fail(err, HW_ENOTFOUND, 0,
                       "no store is configured: --store URL, HEAPWISE_STORE or `store =` in the "
                       "settings");
    int rc = read_where(a, req, err);
    if (rc == HW_OK)
        rc = hw_clickhouse_init(&a->client, p->o.store, err);
    a->client.timeout_ms = TIMEOUT_MS;
    if (rc == HW_OK)
        a->from = hw_fleet_source_of(&a->client);
    return rc;
}

static void end(struct fleet_query *a)
{
    hw_clickhouse_done(&a->client);
    hw_fleet_where_done(&a->where);
}

/* ---- lists ---- */

static int put_words(struct fleet_query *a, struct hw_json *j, const char *label,
                     struct hw_error *err)
{
    struct hw_fleet_words w;
    int rc = label ? hw_fleet_get_label_values(&a->from, &a->where, label, &w, err)
                   : hw_fleet_get_labels(&a->from, &a->where, &w, err);
    if (rc < 0)
        return rc;
    hw_json_begin_object(j);
    hw_json_kv_bool(j, "cut", w.cut);
    hw_json_key(j, "words");
    hw_json_begin_array(j);
    for (size_t i = 0; !label && hw_fleet_label(i); i++)
        hw_json_str(j, hw_fleet_label(i));
    for (size_t i = 0; i < w.v.n; i++) {
        if (!label) {
            hw_json_str(j, w.v.v[i].text);
            continue;
        }
        hw_json_begin_array(j);
        hw_json_str(j, w.v.v[i].text);
        hw_json_uint(j, w.v.v[i].n_rows);
        hw_json_uint(j, w.v.v[i].last_s);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_fleet_words_done(&w);
    return HW_OK;
}

static int put_hosts(struct fleet_query *a, struct hw_json *j, const char *limit,
                     struct hw_error *err)
{
    struct hw_fleet_hosts h;
    uint64_t most = DEFAULT_HOSTS;
    int rc = limit && *limit ? hw_parse_uint(limit, &most, err) : HW_OK;
    if (rc == HW_OK)
        rc = hw_fleet_get_hosts(&a->from, &a->where, a->metric, &h, err);
    if (rc < 0)
        return rc;
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "n", h.v.n);
    hw_json_kv_bool(j, "cut", h.cut);
    hw_json_kv_double(j, "median", h.median);
    hw_json_kv_double(j, "spread", h.spread);
    hw_json_key(j, "rows");
    hw_json_begin_array(j);
    for (size_t i = 0; i < h.v.n && i < most; i++) {
        const struct hw_fleet_host *host = &h.v.v[i];
        hw_json_begin_object(j);
        hw_json_kv_str(j, "host", host->name);
        hw_json_kv_bool(j, "deviates", host->deviates);
        hw_json_kv_double(j, "value", host->mean);
        hw_json_kv_double(j, "error", host->error);
        hw_json_kv_double(j, "score", host->score);
        hw_json_kv_uint(j, "processes", host->n_processes);
        hw_json_kv_uint(j, "dumps", host->n_dumps);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_fleet_hosts_done(&h);
    return HW_OK;
}

void hw_page_fleet(struct hw_http_request *req, void *ctx)
{
    struct fleet_query a;
    struct hw_error err = {0};
    struct hw_json j;
    const char *what = hw_http_rest(req), *label = hw_http_query(req, "label");
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = begin(&a, ctx, req, &err);
    if (rc == HW_OK && strcmp(what, "labels") == 0)
        rc = put_words(&a, &j, NULL, &err);
    else if (rc == HW_OK && strcmp(what, "values") == 0)
        rc = put_words(&a, &j, label ? label : "", &err);
    else if (rc == HW_OK && strcmp(what, "hosts") == 0)
        rc = put_hosts(&a, &j, hw_http_query(req, "limit"), &err);
    else if (rc == HW_OK)
        rc = hw_fail(&err, HW_ENOTFOUND, 0, "no such question about the fleet");
    end(&a);
    if (rc == HW_OK) {
        hw_page_reply_json(req, &j);
        return;
    }
    hw_json_done(&j);
    hw_page_reply_error(req, &err, rc);
}

/* ---- a profile ---- */

/* Writes the profile as a trace file; the caller owns the descriptor. */
static int write_trace(const struct hw_profile *p, int *out, struct hw_error *err)
{
    struct hw_export_input in = {.profile = p};
    int fd = memfd_create("fleet", MFD_CLOEXEC);
    int mine = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *f = mine < 0 ? NULL : fdopen(mine, "w");
    int rc = f ? hw_export_perfetto.write(&in, f, err) : hw_fail_sys(err, "memory file");
    if (f && fclose(f) != 0 && rc == HW_OK)
        rc = hw_fail_sys(err, "memory file");
    if (!f && mine >= 0)
        (void)close(mine);
    if (rc == HW_OK)
        *out = fd;
    else if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* kind: which figures the profile has; its other figures are meaningless. */
static int open_profile(struct fleet_query *a, const struct hw_fleet_result *result,
                        const char *kind, unsigned *id, struct hw_error *err)
{
    struct hw_strbuf name = {0};
    int fd = -1;
    int rc = write_trace(result->p, &fd, err);
    hw_fleet_where_show(&a->where, &name);
    hw_strbuf_addf(&name, " (%s)", kind);
    if (rc == HW_OK && name.failed) {
        (void)close(fd);
        rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        rc = hw_pages_open_fd(a->pages, fd, name.p, id, err);
    hw_strbuf_done(&name);
    return rc;
}

static void put_profile(struct hw_json *j, unsigned id, const struct hw_fleet_result *result)
{
    const struct hw_fleet_counts *n = &result->counts;
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "id", id);
    hw_json_kv_uint(j, "hosts", n->n_hosts);
    hw_json_kv_uint(j, "processes", n->n_processes);
    hw_json_kv_uint(j, "dumps", n->n_dumps);
    hw_json_kv_uint(j, "rows", n->n_rows);
    hw_json_kv_uint(j, "first", n->first_s);
    hw_json_kv_uint(j, "last", n->last_s);
    hw_json_kv_uint(j, "stacks", result->n_stacks);
    hw_json_kv_uint(j, "unknown", result->n_unknown);
    hw_json_kv_uint(j, "left_out", result->n_left_out);
    hw_json_end_object(j);
}

void hw_page_fleet_profile(struct hw_http_request *req, void *ctx)
{
    struct fleet_query a;
    struct hw_fleet_result result = {0};
    struct hw_error err = {0};
    const char *step = hw_http_query(req, "step");
    uint64_t step_s = 0;
    unsigned id = 0;
    int rc = begin(&a, ctx, req, &err);
    if (rc == HW_OK && step && *step)
        rc = hw_parse_uint(step, &step_s, &err);
    if (rc == HW_OK && step_s > UINT32_MAX)
        rc = hw_fail(&err, HW_EINVAL, 0, "no such step");
    if (rc == HW_OK && step && *step)
        rc = hw_fleet_get_steps(&a.from, &a.where, (uint32_t)step_s, &result, &err);
    else if (rc == HW_OK)
        rc = hw_fleet_get(&a.from, &a.where, a.metric, &result, &err);
    if (rc == HW_OK)
        rc = open_profile(&a, &result,
                          step && *step                 ? "over time"
                          : hw_metric_is_live(a.metric) ? "live"
                                                        : "allocated",
                          &id, &err);
    end(&a);
    if (rc == HW_OK) {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        put_profile(&j, id, &result);
        hw_page_reply_json(req, &j);
    } else {
        hw_page_reply_error(req, &err, rc);
    }
    hw_fleet_result_done(&result);
}
