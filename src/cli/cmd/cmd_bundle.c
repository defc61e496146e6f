/* heapwise bundle TRACE OUT */
#include "cli/cli.h"
#include "cli/parts/bundle_write.h"

int hw_cmd_bundle(struct hw_cli *cli)
{
    if (cli->opts.n_args == 2)
        return hw_bundle_write(cli, cli->opts.args[0], cli->opts.args[1]);
    hw_cli_error(cli, NULL,
                 cli->opts.n_args > 2 ? "too many files" : "which trace, and which archive?");
    hw_cli_hint("heapwise bundle TRACE OUT");
    return hw_cli_usage_exit(cli);
}
