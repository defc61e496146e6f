#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/help.h"

#include "base/banned.h"

static int unknown_topic(struct hw_cli *cli, const char *word)
{
    const char *known[HW_CMD_COUNT + 32];
    size_t n = 0;
    for (int i = 0; i < HW_CMD_COUNT; i++)
        if (!(hw_commands[i].flags & HW_CF_HIDDEN))
            known[n++] = hw_commands[i].name;
    for (const struct hw_help_topic *t = hw_help_topics; t->name && n < HW_CMD_COUNT + 32; t++)
        known[n++] = t->name;
    hw_cli_error(cli, NULL, "no help for '%s'", word);
    const char *near = hw_did_you_mean(word, known, n);
    if (near)
        hw_cli_hint("did you mean 'heapwise help %s'?", near);
    return HW_EXIT_USAGE;
}

int hw_cmd_help(struct hw_cli *cli)
{
    if (cli->opts.n_args == 0) {
        hw_help_front(stdout);
        return HW_EXIT_OK;
    }
    const char *word = cli->opts.args[0];
    const struct hw_command *cmd = hw_command_find(word);
    if (cmd && !(cmd->flags & HW_CF_HIDDEN)) {
        hw_help_command(stdout, cmd, /* all = */ true);
        return HW_EXIT_OK;
    }
    for (const struct hw_help_topic *t = hw_help_topics; t->name; t++)
        if (strcmp(t->name, word) == 0) {
            printf("%s\n\n%s", t->title, t->text);
            return HW_EXIT_OK;
        }
    return unknown_topic(cli, word);
}

/* Hidden: the build makes the manual pages with it. */
int hw_cmd_man(struct hw_cli *cli)
{
    const char *word = cli->opts.n_args ? cli->opts.args[0] : "heapwise";
    if (strcmp(word, "heapwise") == 0) {
        hw_help_man(stdout, NULL);
        return HW_EXIT_OK;
    }
    const struct hw_command *cmd = hw_command_find(word);
    if (!cmd)
        return unknown_topic(cli, word);
    hw_help_man(stdout, cmd);
    return HW_EXIT_OK;
}
