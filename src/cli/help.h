/*
 * help.h - the help pages and manual pages, made from the tables
 *
 * Shapes:  -h is one screen: synopsis, the options marked COMMON, three examples. --help is
 *          everything, by groups, with defaults and units.
 */
#ifndef HW_CLI_HELP_H
#define HW_CLI_HELP_H

#include <stdbool.h>
#include <stdio.h>

struct hw_command;

void hw_help_front(FILE *f);
void hw_help_command(FILE *f, const struct hw_command *cmd, bool all);
/* Whether the command line says --help (or a prefix of it) rather than -h. */
bool hw_help_wants_all(int argc, char **argv);
void hw_help_man(FILE *f, const struct hw_command *cmd); /* cmd NULL: heapwise(1) itself */

struct hw_help_topic {
    const char *name, *title, *text;
};
extern const struct hw_help_topic hw_help_topics[]; /* terminated by a NULL name */

#endif
