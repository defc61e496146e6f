/*
 * forward.h - subcommands of trace_processor_shell that are other commands
 *
 * Why:     `trace_processor_shell convert MODE` is traceconv; options belong to the command that
 *          runs, so the arguments are swapped before options are read.
 */
#ifndef HW_CLI_CLASSIC_FORWARD_H
#define HW_CLI_CLASSIC_FORWARD_H

struct hw_cli;

/*
 * Puts the other command into cli and the words after the subcommand into argc, argv (argv[0] is
 * kept). Returns 0, also when there is nothing to forward, or an exit code if refused.
 */
int hw_cli_forward(struct hw_cli *cli, int *argc, char ***argv);

#endif
