/*
 * heapwise push --to STORE FILE...: sends profiles to a store of many machines.
 *
 * Each file is read, turned into entries and handed to delivery; the spool goes first, and is tried
 * again at the end. The files stay where they are: pushing them to ClickHouse again adds no
 * duplicates.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/push/push_command.h"
#include "config/command/units.h"
#include "enrich/lines/demangle.h"
#include "fleet/push/deliver.h"
#include "fleet/push/make_entries.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"

#include "base/banned.h"

static volatile sig_atomic_t stopped;

static void on_stop(int sig)
{
    (void)sig; /* which of them does not matter */
    stopped = 1;
}

static void tell(void *ctx, enum hw_delivery_event what, const char *text)
{
    const struct hw_push_job *j = ctx;
    switch (what) {
    case HW_DELIVERY_DOWN:
        hw_log(WARN, "%s; %s", text, j->has_spool ? "what cannot be sent waits" : "trying again");
        break;
    case HW_DELIVERY_UP:
        hw_log(INFO, "store '%s' answers again", j->store->shown);
        break;
    case HW_DELIVERY_REFUSED:
        hw_log(ERROR, "refused for good: %s", text);
        break;
    case HW_DELIVERY_DROPPED:
        hw_log(WARN, "not kept: %s", text);
        break;
    case HW_DELIVERY_OLDER:
        hw_log(WARN,
               "the tables of store '%s' are older: the errors of counts and of allocations are "
               "not sent; heapwise push --to %s --init-schema adds the columns",
               text, text);
        break;
    }
}

static int take_entry(void *ctx, const struct hw_entry *e, struct hw_error *err)
{
    struct hw_push_job *j = ctx;
    j->n_entries++;
    if (j->dry_run)
        return hw_sender_print(&j->delivery.sender, e, stdout) < 0
                   ? hw_fail_sys(err, "cannot print the requests")
                   : HW_OK;
    int rc = hw_delivery_give(&j->delivery, e, err);
    if (rc == 0 && !j->has_spool && hw_delivery_gave_up(&j->delivery))
        return hw_fail(err, HW_EGONE, 0, "given up after trying for --retry-for");
    return rc;
}

static int push_profile(struct hw_push_job *j, struct hw_profile *p, const struct stat *st,
                        struct hw_error *err)
{
    struct hw_demangler *demangler = NULL;
    int rc = hw_demangler_new(hw_callsites_strings(p->callsites), &demangler);
    if (rc < 0)
        return hw_fail(err, rc, 0, "names");
    struct hw_namer namer = {hw_demangle_shown, demangler};
    int64_t written_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
    const struct hw_entry_maker m = {.form = j->store->form,
                                     .labels = &j->labels,
                                     .namer = &namer,
                                     .known = &j->delivery.sender.known,
                                     .wall_ns = &written_ns,
                                     .take = take_entry,
                                     .ctx = j};
    rc = hw_entries_make(p, &m, err);
    hw_demangler_free(demangler);
    return rc;
}

int hw_push_opened(struct hw_push_job *j, int fd, const char *name, struct hw_error *err)
{
    struct hw_profile *p = NULL;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return hw_fail_sys(err, "cannot examine '%s'", name);
    int rc = hw_import_fd(fd, name, &p, err);
    if (rc < 0)
        return rc;
    hw_symbol_options_by_environment(j->cli, p);
    rc = push_profile(j, p, &st, err);
    if (rc < 0 && rc != HW_EBUSY)
        hw_error_prefix(err, "'%s'", name);
    hw_profile_free(p);
    return rc;
}

static int hw_push_file(struct hw_push_job *j, const char *path, struct hw_error *err)
{
    hw_autofd int fd = open(hw_input_path(path), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    return hw_push_opened(j, fd, path, err);
}

int hw_push_labels(struct hw_push_job *j, struct hw_error *err)
{
    const struct hw_opts *o = &j->cli->opts;
    const struct hw_optval *more = &o->v[HW_OPT_LABEL];
    hw_fleet_labels_init(&j->labels);
    for (size_t i = 0; i < more->list.n; i++) {
        int rc = hw_fleet_labels_add(&j->labels, more->list.v[i], err);
        if (rc < 0)
            return rc;
    }
    if (hw_opt_text(o, HW_OPT_SERVICE_NAME))
        j->labels.service = hw_opt_text(o, HW_OPT_SERVICE_NAME);
    if (hw_opt_text(o, HW_OPT_SERVICE_VERSION))
        j->labels.version = hw_opt_text(o, HW_OPT_SERVICE_VERSION);
    if (hw_opt_text(o, HW_OPT_HOST_NAME))
        j->labels.host = hw_opt_text(o, HW_OPT_HOST_NAME);
    return HW_OK;
}

static int job_init(struct hw_push_job *j, struct hw_error *err)
{
    const struct hw_opts *o = &j->cli->opts;
    const char *dir = hw_opt_text(o, HW_OPT_SPOOL);
    int rc = hw_push_labels(j, err);
    if (rc == 0 && dir && !j->dry_run) {
        rc = hw_spool_open(&j->spool, dir, hw_opt_num(o, HW_OPT_SPOOL_SIZE), err);
        j->has_spool = rc == 0;
    }
    if (rc == 0)
        rc = hw_delivery_init(&j->delivery, j->store, j->has_spool ? &j->spool : NULL, &stopped,
                              err);
    j->delivery.sender.tenant = hw_opt_text(o, HW_OPT_TENANT);
    j->delivery.retry_ms = hw_opt_num(o, HW_OPT_RETRY_FOR);
    j->delivery.tell = tell;
    j->delivery.ctx = j;
    return rc;
}

static void job_done(struct hw_push_job *j)
{
    hw_delivery_done(&j->delivery);
    hw_spool_close(&j->spool);
    hw_fleet_labels_done(&j->labels);
}

/* Reports the outcome on standard error and returns the exit code. */
static int sum_up(struct hw_push_job *j)
{
    const struct hw_delivery *d = &j->delivery;
    const struct hw_sender *s = &d->sender;
    char a[HW_UNIT_MAX];
    uint64_t dropped = j->has_spool ? hw_spool_take_dropped(&j->spool) : 0;
    size_t waiting = j->has_spool ? hw_spool_count(&j->spool) : 0;
    hw_log(INFO, "%" PRIu64 " row%s sent, %" PRIu64 " %s there, %" PRIu64 " request%s, %s",
           s->n_rows_sent, hw_plural(s->n_rows_sent), s->n_rows_there,
           s->n_rows_there == 1 ? "was" : "were", s->n_requests, hw_plural(s->n_requests),
           hw_fmt_bytes(a, (double)s->n_bytes));
    if (dropped)
        hw_log(WARN, "%" PRIu64 " request%s dropped from spool '%s' unsent; see --spool-size",
               dropped, dropped == 1 ? " was" : "s were", j->spool.path);
    if (waiting)
        hw_log(WARN, "%zu request%s (%s) %s in '%s'; heapwise push --to %s --spool %s sends %s",
               waiting, hw_plural(waiting), hw_fmt_bytes(a, (double)j->spool.bytes),
               waiting == 1 ? "waits" : "wait", j->spool.path, j->store->shown, j->spool.path,
               waiting == 1 ? "it" : "them");
    if (d->n_refused)
        hw_log(ERROR, "%" PRIu64 " request%s refused", d->n_refused,
               d->n_refused == 1 ? " was" : "s were");
    if (d->n_refused || d->n_lost)
        return HW_EXIT_FAILED;
    return waiting || dropped ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}

/* One unreadable file does not hold up the others. */
static int push_files(struct hw_push_job *j, int *code, struct hw_error *err)
{
    const struct hw_opts *o = &j->cli->opts;
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < o->n_args && !stopped; i++) {
        rc = hw_push_file(j, o->args[i], err);
        if (rc == 0 || rc == HW_EBUSY || rc == HW_EGONE || rc == HW_ENOMEM || o->n_args == 1)
            continue;
        *code = hw_cli_fail(j->cli, err);
        *err = (struct hw_error){0};
        rc = HW_OK;
    }
    return rc;
}

static int push(struct hw_cli *cli, const struct hw_store *store)
{
    struct hw_push_job j = {.cli = cli,
                            .store = store,
                            .spool = HW_SPOOL_NONE,
                            .dry_run = hw_opt_flag(&cli->opts, HW_OPT_DRY_RUN)};
    struct hw_error err = {0};
    struct sigaction act = {.sa_handler = on_stop};
    (void)sigaction(SIGINT, &act, NULL); /* cannot fail for these */
    (void)sigaction(SIGTERM, &act, NULL);
    int failed = HW_EXIT_OK;
    int rc = job_init(&j, &err);
    bool no_spool = rc < 0 && hw_opt_text(&cli->opts, HW_OPT_SPOOL) && !j.dry_run && !j.has_spool;
    if (rc == 0)
        rc = push_files(&j, &failed, &err);
    if (rc == 0 && hw_opt_text(&cli->opts, HW_OPT_WATCH))
        rc = hw_push_watch(&j, hw_opt_text(&cli->opts, HW_OPT_WATCH), &err);
    else if (rc == 0)
        rc = hw_delivery_drain(&j.delivery, &err);
    bool asked_to_end = rc == HW_EBUSY && stopped && hw_opt_text(&cli->opts, HW_OPT_WATCH);
    if (asked_to_end)
        rc = 0;
    int code = rc < 0 ? hw_cli_fail(cli, &err) : failed;
    if (rc < 0 && no_spool)
        code = HW_EXIT_TRY_AGAIN;
    if (!j.dry_run && j.delivery.sender.store) {
        int summed = sum_up(&j);
        code = code ? code : summed;
    }
    job_done(&j);
    if (asked_to_end)
        return HW_EXIT_OK;
    return stopped ? HW_EXIT_SIGNAL + SIGINT : code;
}

int hw_cmd_push(struct hw_cli *cli)
{
    const char *to = hw_opt_text(&cli->opts, HW_OPT_TO);
    bool schema = hw_opt_flag(&cli->opts, HW_OPT_INIT_SCHEMA);
    struct hw_error err = {0};
    struct hw_store store;
    if (!to) {
        hw_cli_error(cli, NULL, "to which store?");
        hw_cli_hint("heapwise push --to clickhouse://user@host:8123/profiles FILE");
        return hw_cli_usage_exit(cli);
    }
    if (!schema && cli->opts.n_args == 0 && !hw_opt_text(&cli->opts, HW_OPT_SPOOL)) {
        hw_cli_error(cli, NULL, "which file?");
        hw_cli_hint("heapwise push --to %s FILE", to);
        return hw_cli_usage_exit(cli);
    }
    if (hw_opt_text(&cli->opts, HW_OPT_WATCH) && !hw_opt_text(&cli->opts, HW_OPT_SPOOL)) {
        hw_cli_error(cli, NULL, "--watch needs a place for what the store does not take");
        hw_cli_hint("heapwise push --to %s --watch DIR --spool DIR", to);
        return hw_cli_usage_exit(cli);
    }
    if (hw_store_init(&store, to, &err) < 0)
        return hw_cli_fail(cli, &err);
    if (store.form == HW_STORE_OTLP && !hw_opt_flag(&cli->opts, HW_OPT_PUSH_ALPHA)) {
        hw_cli_error(cli, NULL, "OpenTelemetry's profiles are not stable; %s may not read ours",
                     store.shown);
        hw_cli_hint("heapwise push --alpha --to %s FILE", to);
        hw_store_done(&store);
        return HW_EXIT_UNSUPPORTED;
    }
    int rc = schema ? hw_push_schema(cli, &store) : HW_EXIT_OK;
    if (rc == HW_EXIT_OK && (cli->opts.n_args || !schema))
        rc = push(cli, &store);
    hw_store_done(&store);
    return rc;
}
