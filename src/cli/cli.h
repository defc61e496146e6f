/*
 * cli.h - the functions behind the commands
 *
 * Shapes:  a command is `int hw_cmd_x(struct hw_cli *cli)`; its result is one of enum hw_exit. A
 *          new one is a row in config/command/commands.def, rows in options.def beside it, and a
 *          file cmd/cmd_x.c.
 */
#ifndef HW_CLI_CLI_H
#define HW_CLI_CLI_H

#include "config/command/command.h"

#define X(ID, name, fn, flags, args, summary, examples) int fn(struct hw_cli *cli);
#include "config/command/commands.def"
#undef X

/* Runs the command named in cli. */
int hw_command_run(struct hw_cli *cli);

#endif
