#include "cli/cli.h"

#include "base/banned.h"

int hw_command_run(struct hw_cli *cli)
{
    static int (*const run[HW_CMD_COUNT])(struct hw_cli * cli) = {
#define X(ID, name, fn, flags, args, summary, examples) [HW_CMD_##ID] = fn,
#include "config/command/commands.def"
#undef X
    };
    return run[cli->command->id](cli);
}
