/*
 * command.h - what every command is given, and the table of commands
 *
 * Why:     one binary, several names: `heapwise WORD` and the classic commands (symlinks) are rows
 *          of one table, with one option parser, one help and one way to print errors.
 * Shapes:  a command is a row in commands.def with rows in options.def; its code is in cli/. It
 *          returns one of the exit codes below.
 * Errors:  printed here: `PROGRAM: text [code]`, then `hint: …`; codes are listed in explain.def.
 */
#ifndef HW_CONFIG_COMMAND_COMMAND_H
#define HW_CONFIG_COMMAND_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "config/command/options.h"

struct hw_error;

enum hw_exit {
    HW_EXIT_OK = 0,
    HW_EXIT_FAILED = 1,
    HW_EXIT_USAGE = 2,
    HW_EXIT_GATE = 3,
    HW_EXIT_INCOMPLETE = 4,
    HW_EXIT_NO_DATA = 5,
    HW_EXIT_TRY_AGAIN = 75, /* push: the spool is unusable at the moment */
    HW_EXIT_UNSUPPORTED = 77,
    HW_EXIT_NOT_RUNNABLE = 126,
    HW_EXIT_NOT_FOUND = 127,
    HW_EXIT_SIGNAL = 128
};

enum hw_command_flags {
    HW_CF_CLASSIC = 1,
    HW_CF_WORD_ENDS = 2,
    HW_CF_USAGE1 = 4,
    HW_CF_HIDDEN = 8
};

struct hw_command {
    enum hw_command_id id;
    const char *name;
    uint32_t flags; /* enum hw_command_flags */
    const char *args;
    const char *summary;
    const char *examples;
};

struct hw_cli {
    const struct hw_command *command;
    const char *program; /* for messages: "heapwise" or the classic name */
    struct hw_opts opts;
    int pager_pid; /* 0 = none; pager.h */
};

extern const struct hw_command hw_commands[HW_CMD_COUNT];

const struct hw_command *hw_command_find(const char *name); /* exact; NULL */
/* The known word closest to an unknown one; NULL when none is close. */
const char *hw_did_you_mean(const char *word, const char *const *known, size_t n);

/* `PROGRAM: text [code]`; code NULL = none. */
void hw_cli_error(const struct hw_cli *cli, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void hw_cli_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A command to copy: "heapwise graph" and a path, in quotes where a shell needs them. */
void hw_cli_hint_path(const char *command, const char *path);
/* Prints err and returns the exit code for it. */
int hw_cli_fail(const struct hw_cli *cli, const struct hw_error *err);
/* Standard output cannot be written: says so, and why, if no error has been printed for it. */
void hw_cli_output_failed(const struct hw_cli *cli);
/* Flushes standard output; rc < 0: an earlier write failed. HW_EXIT_OK, or prints the reason. */
int hw_cli_written(const struct hw_cli *cli, int rc);
int hw_cli_usage_exit(const struct hw_cli *cli);

/* Whether colour, progress and wide characters may go to this stream (fd 1 or 2). */
bool hw_cli_color(const struct hw_cli *cli, int fd);
unsigned hw_cli_width(int fd); /* columns: the terminal's, $COLUMNS, else 100 */

#endif
