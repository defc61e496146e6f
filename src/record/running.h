/*
 * running.h - which running processes a command's words mean
 *
 * Why:     `attach 4211 nginx` names processes as `ps` does: by number, by the last part of their
 *          first argument, or by the title that servers write over it.
 * Shapes:  each process once, in the order of its first word. Ourselves are never meant by a name.
 * Errors:  an exit code with its message printed; HW_EXIT_OK.
 */
#ifndef HW_RECORD_RUNNING_H
#define HW_RECORD_RUNNING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_cli;

typedef HW_VEC(uint64_t) hw_running_pids;

/* A number that a user gives: of ours, or, where we have no such process (or --pid-ns says so), of
 * a container's. Nothing is printed when there is none at all: *out is the number as given. */
int hw_running_pid(const struct hw_cli *cli, uint64_t given, int32_t *out);
/* Does the word mean a process of that number and first argument? */
bool hw_running_is_meant(const char *word, int32_t pid, const char *argv0);
/* Adds every process of that number or name; gives how many. */
size_t hw_running_match(const char *word, hw_running_pids *out);
/* Those that the command's words mean and that can be profiled. For others the reason is printed;
 * none left is an error. */
int hw_running_find(const struct hw_cli *cli, hw_running_pids *out);

#endif
