/*
 * trace_processor_shell: SQL over a trace, the classic command. The classic form
 *
 *   trace_processor_shell [-q FILE | -Q SQL] [-e FILE] [-i] TRACE
 *
 * and the subcommands `query`, `interactive`, `metrics` and `export sqlite`; the first word that is
 * not an option decides. With nothing to do, it prompts.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/classic/cmd_server.h"
#include "cli/cli.h"
#include "cli/query/query_out.h"
#include "cli/query/sql_session.h"
#include "export/metrics/metrics.h"
#include "sql/sql.h"

#include "base/banned.h"

enum { NARROW = 32, WIDE = 160 };

/* What to do, in whichever form it was asked for. */
struct task {
    const char *trace;
    const char *query, *query_file, *export_file, *arrow_file;
    const char *const *metrics; /* names; n_metrics 0 = none requested */
    size_t n_metrics;
    const char *pre_metrics; /* a file of SQL */
    enum hw_metrics_format format;
    bool prompt;
};

static int wrong_usage(const struct hw_cli *cli, const char *text)
{
    hw_cli_error(cli, NULL, "%s", text);
    hw_cli_hint("trace_processor_shell --help");
    return hw_cli_usage_exit(cli);
}

static int not_yet(const struct hw_cli *cli, const char *what)
{
    hw_cli_error(cli, NULL, "%s: not there yet in this version", what);
    return HW_EXIT_FAILED;
}

/* ---- the prompt ---- */

static struct hw_sql *running; /* what Ctrl+C interrupts */

static void on_interrupt(int sig)
{
    (void)sig;
    if (running)
        hw_sql_interrupt(running);
}

static int export_to(struct hw_sql_session *s, const char *path,
                     int (*write)(struct hw_sql *db, const char *path, struct hw_error *err))
{
    struct hw_error err = {0};
    return write(s->db, path, &err) < 0 ? hw_cli_fail(s->cli, &err) : HW_EXIT_OK;
}

static int reset(struct hw_sql_session *s)
{
    running = NULL; /* Ctrl+C has nothing to interrupt meanwhile */
    int status = hw_sql_session_reset(s);
    running = s->db;
    return status;
}

static int run_metrics(const struct hw_sql_session *s, const char *const *names, size_t n,
                       enum hw_metrics_format format)
{
    struct hw_error err = {0};
    struct hw_strbuf text = {0};
    if (format == HW_METRICS_BINARY && isatty(STDOUT_FILENO)) {
        hw_cli_error(s->cli, NULL, "the output is binary and standard output is a terminal");
        return HW_EXIT_FAILED;
    }
    int rc = hw_metrics_run(s->p, names, n, format, &text, &err);
    if (rc == HW_OK)
        (void)fwrite(text.p, 1, text.n, stdout); /* the stream is checked when the command ends */
    hw_strbuf_done(&text);
    if (rc == HW_OK)
        return HW_EXIT_OK;
    hw_cli_error(s->cli, NULL, "%s", err.text);
    return HW_EXIT_FAILED;
}

/* Names separated by commas or blanks, as `.run-metrics` takes them. */
static void prompt_metrics(const struct hw_sql_session *s, const char *list)
{
    enum { MAX_NAMES = 32 };
    char text[1024];
    const char *names[MAX_NAMES];
    size_t n = 0;
    if (strlen(list) >= sizeof text) {
        hw_cli_error(s->cli, NULL, "too many metrics at once");
        return;
    }
    memcpy(text, list, strlen(list) + 1);
    char *rest = text;
    for (char *word; (word = strsep(&rest, ", ")) != NULL && n < MAX_NAMES;)
        if (*word)
            names[n++] = word;
    (void)run_metrics(s, names, n, HW_METRICS_TEXT); /* failures are printed, the prompt goes on */
}

static void prompt_help(void)
{
    fputs("Any SQL, one or several statements in a line, or:\n"
          ".help          this text\n"
          ".quit, .q      leave (also Ctrl+D)\n"
          ".dump FILE     write everything to a SQLite file\n"
          ".read FILE     run a file of SQL\n"
          ".run-metrics A,B  print metrics as text\n"
          ".reset         forget tables, functions and modules made here\n"
          ".width N       characters of a column at most\n",
          stdout);
}

static const char *argument(const char *line, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(line, word, n) != 0 || (line[n] && line[n] != ' '))
        return NULL;
    line += n;
    return line + strspn(line, " ");
}

static void prompt_command(struct hw_sql_session *s, struct hw_query_out *out, const char *line)
{
    const char *arg;
    uint64_t n;
    if (argument(line, ".help"))
        prompt_help();
    else if ((arg = argument(line, ".dump")) && *arg)
        (void)export_to(s, arg, hw_sql_export); /* failures are printed, the prompt goes on */
    else if ((arg = argument(line, ".read")) && *arg)
        (void)hw_sql_session_run_file(s, arg, out);
    else if (argument(line, ".reset"))
        (void)reset(s);
    else if ((arg = argument(line, ".width")) && hw_parse_uint(arg, &n, NULL) == 0 && n > 0 &&
             n <= 10000)
        out->width = (unsigned)n;
    else if ((arg = argument(line, ".run-metrics")) && *arg)
        prompt_metrics(s, arg);
    else if (argument(line, ".load-metrics-sql"))
        (void)not_yet(s->cli, "metrics in SQL");
    else
        hw_cli_error(s->cli, NULL, "unknown command '%s'; try .help", line);
}

static bool is_quit(const char *line)
{
    return argument(line, ".quit") || argument(line, ".q");
}

static int prompt(struct hw_sql_session *s, bool wide)
{
    struct hw_query_out out;
    char *line = NULL;
    size_t cap = 0;
    hw_query_out_init(&out);
    out.columns = true;
    out.asks = isatty(STDIN_FILENO) != 0;
    out.width = wide ? WIDE : NARROW;
    running = s->db;
    (void)signal(SIGINT, on_interrupt);
    for (;;) {
        fputs("> ", stdout);
        (void)fflush(stdout);
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0)
            break;
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == ' '))
            line[--n] = 0;
        if (is_quit(line))
            break;
        if (line[0] == '.')
            prompt_command(s, &out, line);
        else if (n > 0)
            (void)hw_sql_session_run(s, line, (size_t)n, &out); /* printed */
    }
    (void)signal(SIGINT, SIG_DFL);
    running = NULL;
    free(line);
    hw_query_out_done(&out);
    return HW_EXIT_OK;
}

/* ---- forms ---- */

static int write_times(const struct hw_sql_session *s, const char *path)
{
    FILE *f = fopen(path, "we");
    if (f)
        fprintf(f, "%lld,%lld", (long long)s->load_ns, (long long)s->query_ns);
    if (!f || fclose(f) != 0) {
        hw_cli_error(s->cli, NULL, "cannot write '%s'", path);
        return HW_EXIT_FAILED;
    }
    return HW_EXIT_OK;
}

static int run_queries(struct hw_sql_session *s, const struct task *t)
{
    struct hw_query_out out;
    int status = HW_EXIT_OK;
    hw_query_out_init(&out);
    if (t->query_file)
        status = hw_sql_session_run_file(s, t->query_file, &out);
    if (status == HW_EXIT_OK && t->query)
        status = hw_sql_session_run(s, t->query, strlen(t->query), &out);
    hw_query_out_done(&out);
    return status;
}

static int run_task_metrics(struct hw_sql_session *s, const struct task *t)
{
    int status = HW_EXIT_OK;
    if (t->pre_metrics) {
        struct hw_query_out out;
        hw_query_out_init(&out);
        status = hw_sql_session_run_file(s, t->pre_metrics, &out);
        hw_query_out_done(&out);
    }
    return status == HW_EXIT_OK ? run_metrics(s, t->metrics, t->n_metrics, t->format) : status;
}

static int run_task(struct hw_cli *cli, const struct task *t)
{
    const char *perf_file = hw_opt_text(&cli->opts, HW_OPT_TP_PERF_FILE);
    const char *metatrace = hw_opt_text(&cli->opts, HW_OPT_TP_METATRACE);
    struct hw_sql_session s;
    int status = hw_sql_session_open(&s, cli, t->trace);
    if (status)
        return status;
    status = run_queries(&s, t);
    if (status == HW_EXIT_OK && t->n_metrics)
        status = run_task_metrics(&s, t);
    if (status == HW_EXIT_OK && t->export_file)
        status = export_to(&s, t->export_file, hw_sql_export);
    if (status == HW_EXIT_OK && t->arrow_file)
        status = export_to(&s, t->arrow_file, hw_sql_export_arrow);
    if (status == HW_EXIT_OK && perf_file)
        status = write_times(&s, perf_file);
    if (status == HW_EXIT_OK && t->prompt)
        status = prompt(&s, hw_opt_flag(&cli->opts, HW_OPT_TP_WIDE));
    if (metatrace) { /* also of a failed run */
        int written = hw_sql_session_write_metatrace(cli, s.metatrace, metatrace);
        status = status == HW_EXIT_OK ? written : status;
    }
    hw_sql_session_done(&s);
    return status;
}

static int take_metrics(struct hw_cli *cli, enum hw_option_id list, enum hw_option_id format,
                        struct task *t)
{
    const struct hw_opts *o = &cli->opts;
    const char *form = hw_opt_text(o, format);
    t->metrics = (const char *const *)o->v[list].list.v;
    t->n_metrics = o->v[list].list.n;
    t->pre_metrics = hw_opt_text(o, HW_OPT_TP_PRE_METRICS);
    t->format = HW_METRICS_TEXT;
    if (form && !hw_metrics_format_parse(form, &t->format))
        return wrong_usage(cli, "the form of metrics is binary, text or json");
    if (t->n_metrics == 0 && (form || t->pre_metrics))
        return wrong_usage(cli, "which metrics?");
    return HW_EXIT_OK;
}

static int classic(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    struct task t = {.query = hw_opt_text(o, HW_OPT_TP_QUERY_STRING),
                     .query_file = hw_opt_text(o, HW_OPT_TP_QUERY_FILE),
                     .export_file = hw_opt_text(o, HW_OPT_TP_EXPORT)};
    if (o->n_args != 1)
        return wrong_usage(cli, o->n_args ? "too many arguments" : "which trace?");
    if (o->v[HW_OPT_TP_SCRIPT].set || o->v[HW_OPT_TP_OUT].set || o->v[HW_OPT_TP_METRICS_SUB].set)
        return wrong_usage(cli, "-f, -o and --run belong to the subcommands");
    int status = take_metrics(cli, HW_OPT_TP_METRICS, HW_OPT_TP_METRICS_OUTPUT, &t);
    if (status != HW_EXIT_OK)
        return status;
    t.trace = o->args[0];
    t.prompt = hw_opt_flag(o, HW_OPT_TP_INTERACTIVE) ||
               !(t.query || t.query_file || t.export_file || t.n_metrics);
    return run_task(cli, &t);
}

static int sub_metrics(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    bool is_long = o->v[HW_OPT_TP_METRICS].set;
    bool has_form = o->v[HW_OPT_TP_OUT].set;
    struct task t = {.prompt = hw_opt_flag(o, HW_OPT_TP_INTERACTIVE)};
    int status = take_metrics(cli, is_long ? HW_OPT_TP_METRICS : HW_OPT_TP_METRICS_SUB,
                              has_form ? HW_OPT_TP_OUT : HW_OPT_TP_METRICS_OUTPUT, &t);
    if (status != HW_EXIT_OK)
        return status;
    if (o->n_args != 2 || t.n_metrics == 0)
        return wrong_usage(cli, "metrics --run NAME[,NAME...] TRACE");
    t.trace = o->args[1];
    return run_task(cli, &t);
}

static int sub_query(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    struct task t = {.query_file = hw_opt_text(o, HW_OPT_TP_SCRIPT),
                     .prompt = hw_opt_flag(o, HW_OPT_TP_INTERACTIVE)};
    if (o->n_args < 2 || o->n_args > 3)
        return wrong_usage(cli, "query [-f FILE] TRACE [SQL]");
    t.trace = o->args[1];
    t.query = o->n_args == 3 ? o->args[2] : NULL;
    if (!t.query == !t.query_file)
        return wrong_usage(cli, t.query ? "either -f FILE or SQL" : "which query?");
    return run_task(cli, &t);
}

static int sub_interactive(struct hw_cli *cli)
{
    if (cli->opts.n_args != 2)
        return wrong_usage(cli, "interactive TRACE");
    return run_task(cli, &(struct task){.trace = cli->opts.args[1], .prompt = true});
}

/* The packets as they are, compressed ones expanded, as traceconv does. */
static int export_perfetto(struct hw_cli *cli, const char *trace, const char *out)
{
    char *words[] = {(char *)(uintptr_t)cli->program, (char *)(uintptr_t) "decompress_packets",
                     (char *)(uintptr_t)trace, (char *)(uintptr_t)out};
    struct hw_cli other = {.command = hw_command_find("traceconv"), .program = cli->program};
    struct hw_error err = {0};
    int status = HW_EXIT_FAILED;
    if (hw_opts_init(&other.opts, other.command, &err) < 0 ||
        hw_opts_parse(&other.opts, other.command, (int)HW_ARRAY_LEN(words), words, &err) < 0)
        status = hw_cli_fail(cli, &err);
    else
        status = hw_command_run(&other);
    hw_opts_done(&other.opts);
    return status;
}

static int sub_export(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    const char *out = hw_opt_text(o, HW_OPT_TP_OUT);
    if (o->n_args != 3 || !out)
        return wrong_usage(cli, "export sqlite|arrow_tar|perfetto -o OUT TRACE");
    if (strcmp(o->args[1], "sqlite") == 0)
        return run_task(cli, &(struct task){.trace = o->args[2], .export_file = out});
    if (strcmp(o->args[1], "perfetto") == 0)
        return export_perfetto(cli, o->args[2], out);
    if (strcmp(o->args[1], "arrow_tar") == 0)
        return run_task(cli, &(struct task){.trace = o->args[2], .arrow_file = out});
    return wrong_usage(cli, "export sqlite|arrow_tar|perfetto -o OUT TRACE");
}

/* Options of the classic command that change nothing here, each with its reason. */
static void tell_without_effect(const struct hw_cli *cli)
{
    static const struct {
        enum hw_option_id id;
        const char *why;
    } options[] = {
        {HW_OPT_TP_FULL_SORT, "everything is always sorted"},
        {HW_OPT_TP_NO_FTRACE_RAW, "ftrace events are not read"},
        {HW_OPT_TP_CROP, "track events are not read"},
        {HW_OPT_TP_ANALYZE, "there is no table of sizes by field; `heapwise stats` has totals"},
        {HW_OPT_TP_DEV, "nothing is hidden behind it"},
        {HW_OPT_TP_DEV_FLAG, "nothing is hidden behind it"},
        {HW_OPT_TP_EXTRA_CHECKS, "every check is always done"},
        {HW_OPT_TP_METRIC_EXTENSION,
         "metrics are not made of SQL files here; --add-sql-package adds "
         "modules"},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(options); i++)
        if (cli->opts.v[options[i].id].set)
            fprintf(stderr, "%s: --%s has no effect: %s\n", cli->program,
                    hw_options[options[i].id].name, options[i].why);
}

/* Requests that we cannot serve are errors, not ignored. */
static bool asks_for_summary(const struct hw_opts *o)
{
    for (int i = HW_OPT_TP_SUMMARY; i <= HW_OPT_TP_SUMMARY_FORMAT; i++)
        if (o->v[i].set)
            return true;
    return o->n_args && strcmp(o->args[0], "summarize") == 0;
}

static int refuse_summary(const struct hw_cli *cli)
{
    hw_cli_error(cli, NULL, "trace summaries (structured queries) are not supported");
    hw_cli_hint("ask the same in SQL, or by --run-metrics");
    return HW_EXIT_FAILED;
}

int hw_cmd_trace_processor(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    if (hw_opt_flag(o, HW_OPT_TP_VERSION)) {
        printf("heapwise %s\n", HW_VERSION);
        return HW_EXIT_OK;
    }
    const char *word = o->n_args ? o->args[0] : "";
    if (asks_for_summary(o))
        return refuse_summary(cli);
    tell_without_effect(cli);
    if (hw_opt_flag(o, HW_OPT_TP_DEBUG))
        hw_log_set_level(HW_LOG_DEBUG);
    if (hw_opt_flag(o, HW_OPT_TP_HTTPD) || hw_opt_flag(o, HW_OPT_TP_STDIOD)) {
        if (o->n_args > 1)
            return wrong_usage(cli, "too many arguments");
        return hw_cli_serve(cli, hw_opt_flag(o, HW_OPT_TP_HTTPD) ? "http" : "stdio",
                            o->n_args ? word : NULL);
    }
    if (strcmp(word, "server") == 0) {
        if (o->n_args < 2 || o->n_args > 3)
            return wrong_usage(cli, "server http|stdio|unix|kill [TRACE]");
        return hw_cli_serve(cli, o->args[1], o->n_args == 3 ? o->args[2] : NULL);
    }
    if (strcmp(word, "query") == 0)
        return sub_query(cli);
    if (strcmp(word, "interactive") == 0)
        return sub_interactive(cli);
    if (strcmp(word, "export") == 0)
        return sub_export(cli);
    if (strcmp(word, "metrics") == 0)
        return sub_metrics(cli);
    return classic(cli);
}
