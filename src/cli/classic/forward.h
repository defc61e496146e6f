/*
 * forward.h - subcommands of trace_processor_shell that are other commands
 *
 * Why:     what traceconv does is also reached by `trace_processor_shell convert MODE`; options
 *          belong to the command that runs, so the words are exchanged before options are read.
 */
#ifndef HW_CLI_CLASSIC_FORWARD_H
#define HW_CLI_CLASSIC_FORWARD_H

struct hw_cli;

/* Puts the other command into cli and the words behind the subcommand into argc, argv (argv[0] is
 * kept). Gives 0, also when there is nothing to exchange, or the exit code of what was refused. */
int hw_cli_forward(struct hw_cli *cli, int *argc, char ***argv);

#endif
