/* Which command: by the name of the binary, or by the first word after `heapwise`. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text/text_parts.h"
#include "cli/classic/forward.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/parts/pager.h"
#include "config/command/settings.h"

#include "base/banned.h"

/* Names used by other profilers; by spelling they would match others ("run" is close to "ui"). */
static const char *meant(const char *word)
{
    static const char *const words[][2] = {
        {"run", "record -- COMMAND"},
        {"start", "record -- COMMAND"},
        {"exec", "record -- COMMAND"},
        {"profile", "record -- COMMAND"},
        {"show", "report"},
        {"top", "live PID"},
        {"list", "ps"},
        {"view", "ui"},
        {"web", "ui"},
        {"export", "convert"},
        {"import", "convert"},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(words); i++)
        if (strcmp(word, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

static int unknown_word(const char *word)
{
    const char *known[HW_CMD_COUNT];
    size_t n = 0;
    for (int i = 0; i < HW_CMD_COUNT; i++)
        if (!(hw_commands[i].flags & HW_CF_HIDDEN))
            known[n++] = hw_commands[i].name;
    fprintf(stderr, "heapwise: unknown command '%s'\n", word);
    const char *near = meant(word);
    if (!near)
        near = hw_did_you_mean(word, known, n);
    if (near)
        hw_cli_hint("did you mean 'heapwise %s'?", near);
    else
        hw_cli_hint("heapwise help");
    return HW_EXIT_USAGE;
}

/* Options without a command: `heapwise --version`. */
static int front_word(const char *word)
{
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        hw_help_front(stdout);
        return HW_EXIT_OK;
    }
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) {
        printf("heapwise %s\n", HW_VERSION);
        return HW_EXIT_OK;
    }
    return unknown_word(word);
}

static void apply_verbosity(const struct hw_cli *cli)
{
    const struct hw_optval *v = &cli->opts.v[HW_OPT_VERBOSE];
    if (hw_opt_flag(&cli->opts, HW_OPT_QUIET))
        hw_log_set_level(HW_LOG_ERROR);
    else if (v->num)
        hw_log_set_level(v->count > 1 ? HW_LOG_DEBUG : HW_LOG_INFO);
}

/* Options without meaning on plain Linux are accepted, have no effect, and are mentioned once. */
static void tell_meaningless(const struct hw_cli *cli)
{
    for (int i = 0; i < HW_OPT_COUNT; i++)
        if (cli->opts.v[i].set && (hw_options[i].flags & HW_OF_ANDROID))
            fprintf(stderr, "%s: --%s has no effect here\n", cli->program, hw_options[i].name);
}

static int run(struct hw_cli *cli, int argc, char **argv)
{
    struct hw_error err = {0};
    int rc = hw_opts_init(&cli->opts, cli->command, &err);
    if (rc == 0 && !(cli->command->flags & HW_CF_CLASSIC))
        rc = hw_settings_apply(&cli->opts, cli->command, &err);
    if (rc == 0)
        rc = hw_opts_parse(&cli->opts, cli->command, argc, argv, &err);
    if (rc < 0) {
        hw_cli_error(cli, NULL, "%s", err.text);
        hw_cli_hint(cli->command->flags & HW_CF_CLASSIC ? "%s --help" : "heapwise help %s",
                    cli->command->name);
        return hw_cli_usage_exit(cli);
    }
    if (hw_opt_flag(&cli->opts, HW_OPT_HELP)) {
        hw_help_command(stdout, cli->command, hw_help_wants_all(argc, argv));
        return HW_EXIT_OK;
    }
    apply_verbosity(cli);
    tell_meaningless(cli);
    return hw_command_run(cli);
}

int main(int argc, char **argv)
{
    const char *name = argc > 0 && argv[0] ? hw_base_name(argv[0]) : "heapwise";
    struct hw_cli cli = {.program = "heapwise"};
    const struct hw_command *classic = hw_command_find(name);
    if (classic && (classic->flags & HW_CF_CLASSIC)) {
        cli.command = classic;
        cli.program = classic->name;
    } else {
        if (argc < 2) {
            hw_help_front(stderr);
            return HW_EXIT_USAGE;
        }
        cli.command = hw_command_find(argv[1]);
        if (!cli.command)
            return front_word(argv[1]);
        argc--;
        argv++;
    }
    hw_log_init(cli.program);
    int status = hw_cli_forward(&cli, &argc, &argv);
    if (status)
        return status;
    status = run(&cli, argc, argv);
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    hw_pager_end(&cli);
    hw_opts_done(&cli.opts);
    if (failed) {
        hw_cli_output_failed(&cli);
        return status ? status : HW_EXIT_FAILED;
    }
    return status;
}
