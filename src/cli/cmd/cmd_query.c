/* heapwise query TRACE [SQL]: SQL over a trace, or over each of many; results as CSV. */
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/query/query_all.h"
#include "cli/query/query_out.h"
#include "cli/query/sql_session.h"

#include "base/banned.h"

static int wrong_usage(const struct hw_cli *cli, const char *text)
{
    hw_cli_error(cli, NULL, "%s", text);
    hw_cli_hint("heapwise query TRACE \"select * from process\"");
    return hw_cli_usage_exit(cli);
}

/* --all: all arguments are files or directories except the last, the SQL. */
static int query_all(struct hw_cli *cli, const char *file)
{
    struct hw_query_all q = {.cli = cli, .paths = cli->opts.args, .n_paths = cli->opts.n_args};
    if (file) {
        q.file = hw_input_path(file);
    } else if (q.n_paths) {
        q.sql = q.paths[--q.n_paths];
    }
    if (q.n_paths == 0)
        return wrong_usage(cli, "--all: which files, and which query?");
    return hw_query_all_run(&q);
}

int hw_cmd_query(struct hw_cli *cli)
{
    const char *file = hw_opt_text(&cli->opts, HW_OPT_QUERY_SCRIPT);
    char **args = cli->opts.args;
    size_t n = cli->opts.n_args;
    if (hw_opt_flag(&cli->opts, HW_OPT_QUERY_ALL))
        return query_all(cli, file);
    if (cli->opts.v[HW_OPT_QUERY_JOBS].set)
        return wrong_usage(cli, "--jobs goes with --all");
    if (n == 0)
        return wrong_usage(cli, "which file?");
    if (n > 2 || (n == 2 && file))
        return wrong_usage(cli, "too many arguments");
    if (n == 1 && !file)
        return wrong_usage(cli, "which query?");
    if (file && strcmp(file, "-") == 0 && strcmp(args[0], "-") == 0)
        return wrong_usage(cli, "trace and query cannot both come from standard input");
    struct hw_sql_session s;
    struct hw_query_out out;
    int status = hw_sql_session_open(&s, cli, args[0]);
    if (status)
        return status;
    hw_query_out_init(&out);
    status = file ? hw_sql_session_run_file(&s, file, &out)
                  : hw_sql_session_run(&s, args[1], strlen(args[1]), &out);
    hw_query_out_done(&out);
    if (s.p && hw_open_profile_reading_losses(s.p, stderr) < 0 && status == HW_EXIT_OK)
        status = HW_EXIT_FAILED;
    hw_sql_session_done(&s);
    return status;
}
