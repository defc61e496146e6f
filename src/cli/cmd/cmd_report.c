/* heapwise report TRACE */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "cli/report/report.h"

#include "base/banned.h"

int hw_cmd_report(struct hw_cli *cli)
{
    struct hw_report_options o = hw_report_defaults(cli, STDOUT_FILENO);
    if (cli->opts.n_args != 1) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than one trace" : "which trace?");
        hw_cli_hint("heapwise report TRACE");
        return hw_cli_usage_exit(cli);
    }
    if (!hw_open_profile_metric(cli, &o.metric))
        return hw_cli_usage_exit(cli);
    const struct hw_optval *pid = &cli->opts.v[HW_OPT_SHOW_PID];
    if (pid->set)
        o.pid = (int64_t)pid->num;
    o.heap = hw_opt_text(&cli->opts, HW_OPT_SHOW_HEAP);
    o.top = (unsigned)hw_opt_num(&cli->opts, HW_OPT_TOP);
    o.peak = hw_opt_flag(&cli->opts, HW_OPT_PEAK);
    o.json = hw_opt_flag(&cli->opts, HW_OPT_JSON);
    o.fold = !o.json && !cli->opts.v[HW_OPT_TOP].set;
    o.path = cli->opts.args[0];
    hw_pager_begin(cli);
    return hw_report_file(cli, o.path, &o, stdout);
}
