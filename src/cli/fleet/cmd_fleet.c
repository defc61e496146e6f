/*
 * heapwise fleet WORD: queries the store of many machines
 *
 * The store's rows become a profile (fleet/query/fleet_result.h), which the other commands' code then
 * prints. Only what has no counterpart there is printed here (fleet_page.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/fleet/fleet_page.h"
#include "cli/parts/open_profile.h"
#include "cli/report/findings.h"
#include "config/command/units.h"
#include "export/export.h"
#include "open/export_file.h"

#include "base/banned.h"

enum { LEAKS_DAYS = 14, DAY_S = 86400 };

/* ---- verbs and their options ---- */

static int flame(struct hw_fleet_job *j);
static int diff(struct hw_fleet_job *j);
static int leaks(struct hw_fleet_job *j);

enum verb_bit { TOP = 1, FLAME = 2, DIFF = 4, LEAKS = 8, HOSTS = 16, LABELS = 32 };

static const struct verb {
    const char *name;
    enum verb_bit bit;
    int (*run)(struct hw_fleet_job *j);
    size_t max_args; /* after the word */
} verbs[] = {{"top", TOP, hw_fleet_top, 0},
             {"flame", FLAME, flame, 1},
             {"diff", DIFF, diff, 0},
             {"leaks", LEAKS, leaks, 0},
             {"hosts", HOSTS, hw_fleet_hosts, 0},
             {"labels", LABELS, hw_fleet_labels, 1}};

/* Options that not every verb takes. */
static const struct {
    enum hw_option_id id;
    unsigned takes; /* enum verb_bit */
} special[] = {{HW_OPT_METRIC, TOP | FLAME | DIFF | HOSTS},
               {HW_OPT_TOP, TOP | DIFF | LEAKS | HOSTS},
               {HW_OPT_JSON, TOP | DIFF | LEAKS | HOSTS | LABELS},
               {HW_OPT_FORMAT, FLAME},
               {HW_OPT_FILTER, FLAME},
               {HW_OPT_FLEET_A, DIFF},
               {HW_OPT_FLEET_B, DIFF},
               {HW_OPT_DIFF_ALL, DIFF},
               {HW_OPT_DIFF_BY_NAME, DIFF},
               {HW_OPT_FAIL_ABOVE, DIFF | LEAKS},
               {HW_OPT_SUPPRESSIONS, LEAKS},
               {HW_OPT_FLEET_STEP, LEAKS}};

/* Values from settings apply to the verbs that take them. */
static bool check_options(const struct hw_cli *cli, const struct verb *verb)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(special); i++) {
        const struct hw_optval *v = &cli->opts.v[special[i].id];
        if (!v->origin || strcmp(v->origin, "command line") != 0 || (special[i].takes & verb->bit))
            continue;
        hw_cli_error(cli, NULL, "'fleet %s' takes no --%s", verb->name,
                     hw_options[special[i].id].name);
        return false;
    }
    return true;
}

static const struct verb *pick_verb(const struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    const char *names[HW_ARRAY_LEN(verbs)];
    for (size_t i = 0; i < HW_ARRAY_LEN(verbs); i++) {
        names[i] = verbs[i].name;
        if (o->n_args == 0 || strcmp(o->args[0], verbs[i].name) != 0)
            continue;
        if (o->n_args - 1 <= verbs[i].max_args)
            return &verbs[i];
        hw_cli_error(cli, NULL, "too many arguments after '%s'", verbs[i].name);
        return NULL;
    }
    if (o->n_args == 0) {
        hw_cli_error(cli, NULL, "which question?");
        hw_cli_hint("heapwise fleet top|flame|diff|leaks|hosts|labels");
        return NULL;
    }
    const char *near = hw_did_you_mean(o->args[0], names, HW_ARRAY_LEN(names));
    hw_cli_error(cli, NULL, "unknown question '%s'", o->args[0]);
    if (near)
        hw_cli_hint("did you mean '%s'?", near);
    else
        hw_cli_hint("top, flame, diff, leaks, hosts or labels");
    return NULL;
}

/* ---- selection ---- */

static int add_all(struct hw_fleet_where *w, const struct hw_optval *v, int64_t now_s,
                   struct hw_error *err)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < v->list.n; i++)
        rc = hw_fleet_where_add(w, v->list.v[i], now_s, err);
    return rc;
}

static int add_named(struct hw_fleet_job *j, enum hw_option_id id, const char *name,
                     struct hw_error *err)
{
    const char *value = hw_opt_text(&j->cli->opts, id);
    struct hw_strbuf text = {0};
    if (!value)
        return HW_OK;
    hw_strbuf_addf(&text, "%s=%s", name, value);
    int rc = text.failed ? hw_fail(err, HW_ENOMEM, 0, "conditions")
                         : hw_fleet_where_add(&j->where, text.p, j->now_s, err);
    hw_strbuf_done(&text);
    return rc;
}

static int read_where(struct hw_fleet_job *j, const struct verb *verb, struct hw_error *err)
{
    hw_fleet_where_init(&j->where, j->now_s);
    if (verb->run == leaks)
        j->where.since_s = j->now_s - LEAKS_DAYS * DAY_S;
    int rc = add_named(j, HW_OPT_FLEET_SERVICE, "service", err);
    if (rc == 0)
        rc = add_named(j, HW_OPT_FLEET_HOST, "host", err);
    if (rc == 0)
        rc = add_named(j, HW_OPT_FLEET_SINCE, "since", err);
    if (rc == 0)
        rc = add_named(j, HW_OPT_FLEET_UNTIL, "until", err);
    if (rc == 0)
        rc = add_all(&j->where, &j->cli->opts.v[HW_OPT_FLEET_LABEL], j->now_s, err);
    return rc == 0 ? hw_fleet_where_check(&j->where, err) : rc;
}

/* ---- the store ---- */

static int open_store(struct hw_fleet_job *j, struct hw_error *err)
{
    const char *to = hw_opt_text(&j->cli->opts, HW_OPT_FLEET_TO);
    const char *url = to ? to : hw_opt_text(&j->cli->opts, HW_OPT_STORE);
    if (!url)
        return hw_fail(err, HW_EINVAL, 0,
                       "which store? --store clickhouse://USER@HOST:PORT/DATABASE, HEAPWISE_STORE, "
                       "or `store = ` in the settings");
    int rc = hw_store_init(&j->store, url, err);
    if (rc == 0)
        rc = hw_store_check_queries(&j->store, err);
    if (rc == 0)
        rc = hw_clickhouse_init(&j->client, &j->store, err);
    if (rc == 0)
        j->source = hw_fleet_source_of(&j->client);
    return rc;
}

int hw_fleet_fail(const struct hw_fleet_job *j, const struct hw_error *err)
{
    int rc = hw_cli_fail(j->cli, err);
    switch (err->code) {
    case HW_EGONE:
    case HW_ETIMEOUT:
        hw_cli_hint("--store and HEAPWISE_STORE name the store; does it run, and is its HTTP port "
                    "that one?");
        return rc;
    case HW_EPERM:
        hw_cli_hint("HEAPWISE_STORE_PASSWORD is the password of the user in the store's address");
        return rc;
    case HW_ENOTFOUND:
        if (j->client.status < 300) {
            hw_cli_hint("a longer time: --since 30d; what is there: heapwise fleet labels");
            return HW_EXIT_NO_DATA;
        }
        hw_cli_hint("heapwise push --to %s --init-schema makes the tables, and adds columns that "
                    "they lack",
                    j->store.shown);
        return rc;
    default:
        return rc;
    }
}

void hw_fleet_say_losses(const struct hw_fleet_result *a)
{
    if (a->n_unknown)
        fprintf(stderr,
                "note: of %llu of %llu callstacks the store has no frames (not pushed yet, or "
                "dropped)\n",
                (unsigned long long)a->n_unknown, (unsigned long long)a->n_stacks);
    if (a->n_left_out)
        fprintf(stderr,
                "note: the %llu callstacks that hold least stand together as [other callstacks]\n",
                (unsigned long long)a->n_left_out);
}

/* ---- texts ---- */

void hw_fleet_put_counts(const struct hw_fleet_counts *n, struct hw_strbuf *out)
{
    char hosts[HW_UNIT_MAX], processes[HW_UNIT_MAX], dumps[HW_UNIT_MAX];
    hw_strbuf_addf(out, "%s host%s, %s process%s, %s dump%s",
                   hw_fmt_count(hosts, (double)n->n_hosts), hw_plural(n->n_hosts),
                   hw_fmt_count(processes, (double)n->n_processes), n->n_processes == 1 ? "" : "es",
                   hw_fmt_count(dumps, (double)n->n_dumps), hw_plural(n->n_dumps));
}

void hw_fleet_put_time(int64_t s, struct hw_strbuf *out)
{
    time_t t = (time_t)s;
    struct tm tm;
    char text[64] = "?";
    if (localtime_r(&t, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm); /* fits */
    hw_strbuf_adds(out, text);
}

/* ---- verbs that other commands answer ---- */

static char *name_of(const struct hw_fleet_where *w)
{
    struct hw_strbuf b = {0};
    hw_fleet_where_show(w, &b);
    return hw_strbuf_take(&b);
}

static char *label_of(const struct hw_fleet_counts *n)
{
    struct hw_strbuf b = {0};
    hw_fleet_put_counts(n, &b);
    return hw_strbuf_take(&b);
}

static int ask_side(struct hw_fleet_job *j, enum hw_option_id id, struct hw_fleet_result *out,
                    struct hw_open_profile_want *want, struct hw_error *err)
{
    struct hw_fleet_where w = {0};
    int rc = hw_fleet_where_copy(&j->where, &w);
    if (rc == 0)
        rc = add_all(&w, &j->cli->opts.v[id], j->now_s, err);
    if (rc == 0)
        rc = hw_fleet_get(&j->source, &w, j->metric, out, err);
    if (rc == 0) {
        want->profile = out->p;
        want->path = name_of(&w);
        want->label = label_of(&out->counts);
        rc = want->path && want->label ? HW_OK : HW_ENOMEM;
    }
    if (rc < 0 && !err->code)
        (void)hw_fail(err, rc, 0, "answer:"); /* returned below */
    hw_fleet_where_done(&w);
    return rc;
}

static int diff(struct hw_fleet_job *j)
{
    static const enum hw_option_id options[2] = {HW_OPT_FLEET_A, HW_OPT_FLEET_B};
    struct hw_fleet_result answers[2] = {0};
    struct hw_open_profile_want want[2] = {0};
    struct hw_error err = {0};
    const struct hw_opts *o = &j->cli->opts;
    if (o->v[HW_OPT_FLEET_A].list.n == 0 && o->v[HW_OPT_FLEET_B].list.n == 0) {
        hw_cli_error(j->cli, NULL, "which sides?");
        hw_cli_hint("--a version=1.41 --b version=1.42; in time: --a until=7d --b since=1d");
        return hw_cli_usage_exit(j->cli);
    }
    int rc = HW_OK;
    for (int i = 0; rc == 0 && i < 2; i++) {
        rc = ask_side(j, options[i], &answers[i], &want[i], &err);
        if (rc == 0)
            hw_fleet_say_losses(&answers[i]);
    }
    rc = rc < 0 ? hw_fleet_fail(j, &err) : hw_diff_of(j->cli, want);
    for (int i = 0; i < 2; i++) {
        hw_fleet_result_done(&answers[i]);
        free((char *)want[i].path);  /* made by ask_side */
        free((char *)want[i].label); /* the same */
    }
    return rc;
}

static int leaks(struct hw_fleet_job *j)
{
    struct hw_fleet_result a = {0};
    struct hw_error err = {0};
    uint64_t step_ms = hw_opt_num(&j->cli->opts, HW_OPT_FLEET_STEP);
    int rc = hw_fleet_get_steps(&j->source, &j->where, (uint32_t)(step_ms / 1000), &a, &err);
    if (rc < 0)
        return hw_fleet_fail(j, &err);
    hw_fleet_say_losses(&a);
    struct hw_strbuf label = {0};
    hw_fleet_where_show(&j->where, &label);
    hw_strbuf_adds(&label, "  ");
    hw_fleet_put_counts(&a.counts, &label);
    struct hw_open_profile_want want = {
        .path = "store", .profile = a.p, .label = label.failed ? "fleet" : label.p};
    rc = hw_leaks_of(j->cli, &want);
    hw_strbuf_done(&label);
    hw_fleet_result_done(&a);
    return rc;
}

static int export_answer(struct hw_fleet_job *j, const struct hw_fleet_result *a,
                         const struct hw_exporter *e, const char *out, const hw_filters *filters)
{
    struct hw_open_profile s;
    struct hw_open_profile_want want = {.path = "store", .profile = a->p, .metric = j->metric};
    struct hw_error err = {0};
    int rc = hw_open_profile_file_at(&s, j->cli, &want);
    if (rc != 0)
        return rc;
    struct hw_export_input in = {.profile = s.p,
                                 .values = &s.values,
                                 .upid = s.upid,
                                 .heap_name = s.list.v.v[0].heap_name,
                                 .ts_ns = s.moment->ts_ns,
                                 .interval_bytes = s.view.interval_bytes,
                                 .namer = &s.namer,
                                 .metric = s.metric,
                                 .filters = filters};
    rc = hw_export_to(e, &in, out, &err);
    hw_open_profile_done(&s);
    return rc < 0 ? hw_cli_fail(j->cli, &err) : HW_EXIT_OK;
}

static int flame(struct hw_fleet_job *j)
{
    const struct hw_opts *o = &j->cli->opts;
    const char *out = o->n_args > 1 ? o->args[1] : "-";
    const char *name = hw_opt_text(o, HW_OPT_FORMAT);
    const struct hw_exporter *e = name            ? hw_exporter_find(name)
                                  : o->n_args > 1 ? hw_exporter_of_file(out)
                                                  : &hw_export_folded;
    struct hw_fleet_result a = {0};
    struct hw_error err = {0};
    hw_filters filters = {0};
    if (!e || e->graph) {
        hw_cli_error(j->cli, NULL, name ? "unknown format '%s'" : "which format is '%s'?",
                     name ? name : out);
        hw_cli_hint("-t folded, pprof, svg, html, json, speedscope, text or csv");
        return hw_cli_usage_exit(j->cli);
    }
    if (e->binary && strcmp(out, "-") == 0 && isatty(STDOUT_FILENO)) {
        hw_cli_error(j->cli, NULL, "%s is binary and standard output is a terminal", e->name);
        hw_cli_hint("name an output file");
        return hw_cli_usage_exit(j->cli);
    }
    int rc = hw_open_profile_filters(j->cli, &filters);
    if (rc == 0 && hw_fleet_get(&j->source, &j->where, j->metric, &a, &err) < 0)
        rc = hw_fleet_fail(j, &err);
    if (rc == 0) {
        hw_fleet_say_losses(&a);
        rc = export_answer(j, &a, e, out, &filters);
    }
    hw_filters_done(&filters);
    hw_fleet_result_done(&a);
    return rc;
}

int hw_cmd_fleet(struct hw_cli *cli)
{
    struct hw_fleet_job j = {
        .cli = cli, .now_s = time(NULL), .look = hw_report_defaults(cli, STDOUT_FILENO)};
    const struct verb *verb = pick_verb(cli);
    struct hw_error err = {0};
    if (!verb || !check_options(cli, verb) || !hw_open_profile_metric(cli, &j.metric))
        return hw_cli_usage_exit(cli);
    if (j.metric >= HW_METRIC_USUAL) {
        hw_cli_error(cli, NULL, "a store has no temporary allocations");
        return hw_cli_usage_exit(cli);
    }
    int rc = read_where(&j, verb, &err);
    if (rc == 0)
        rc = open_store(&j, &err);
    if (rc == HW_EINVAL || rc == HW_ELIMIT) {
        hw_cli_error(cli, NULL, "%s", err.text);
        rc = hw_cli_usage_exit(cli);
    } else {
        rc = rc < 0 ? hw_cli_fail(cli, &err) : verb->run(&j);
    }
    hw_clickhouse_done(&j.client);
    hw_store_done(&j.store);
    hw_fleet_where_done(&j.where);
    return rc;
}
