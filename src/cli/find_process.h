/*
 * find_process.h - the one process that a word names, for commands about one runtime
 *
 * Shapes:  a number is a pid; else the name of one process, of the wanted kind.
 * Owns:    the caller ends *out.
 * Errors:  printed; one of enum hw_exit.
 */
#ifndef HW_CLI_FIND_PROCESS_H
#define HW_CLI_FIND_PROCESS_H

#include <stdbool.h>

struct hw_cli;
struct hw_pid;

struct hw_wanted_process {
    const char *kind, *kinds; /* "JVM", "JVMs" */
    const char *command;      /* "heapwise java dump": a pid behind it names one */
    const char *names;        /* what such a process is called by */
    bool (*is_meant)(const struct hw_pid *pid, const char *word);
};

int hw_find_process(const struct hw_cli *cli, const struct hw_wanted_process *w, const char *word,
                    struct hw_pid *out);

#endif
