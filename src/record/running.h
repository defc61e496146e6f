/*
 * running.h - the running processes that a command's arguments name
 *
 * Why:     `attach 4211 nginx` names processes like `ps`: by number, by the base name of argv[0],
 *          or by the title that servers write over it.
 * Shapes:  each process once, in the order of the words. A name never matches ourselves.
 * Errors:  an exit code with its message printed; HW_EXIT_OK.
 */
#ifndef HW_RECORD_RUNNING_H
#define HW_RECORD_RUNNING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_cli;

typedef HW_VEC(uint64_t) hw_running_pids;

/*
 * A pid given by the user: in our namespace or, if there is no such process (or --pid-ns says so),
 * in a container's. Without any, prints nothing and sets *out to the number as given.
 */
int hw_running_pid(const struct hw_cli *cli, uint64_t given, int32_t *out);
/* Does the word match a process with that pid and argv[0]? */
bool hw_running_is_meant(const char *word, int32_t pid, const char *argv0);
/* The name by which a word means the process; false: none does, only its number. */
bool hw_running_name(int32_t pid, const char *argv0, char *out, size_t max);
/* Adds every process with that pid or name; returns how many. */
size_t hw_running_match(const char *word, hw_running_pids *out);
/* The error for a word that names none, with the processes that may be meant. */
void hw_running_say_none(const struct hw_cli *cli, const char *word);
/*
 * The processes that the arguments name and that can be profiled. Prints why others cannot; it is
 * an error if none is left.
 */
int hw_running_find(const struct hw_cli *cli, hw_running_pids *out);

#endif
