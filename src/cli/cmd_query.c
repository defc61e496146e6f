/* heapwise query TRACE [SQL]: SQL over a trace, results as CSV. */
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/query_out.h"
#include "cli/sql_session.h"

#include "base/banned.h"

static int wrong_usage(const struct hw_cli *cli, const char *text)
{
    hw_cli_error(cli, NULL, "%s", text);
    hw_cli_hint("heapwise query TRACE \"select * from process\"");
    return hw_cli_usage_exit(cli);
}

int hw_cmd_query(struct hw_cli *cli)
{
    const char *file = hw_opt_text(&cli->opts, HW_OPT_QUERY_SCRIPT);
    char **args = cli->opts.args;
    size_t n = cli->opts.n_args;
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
    hw_sql_session_done(&s);
    return status;
}
