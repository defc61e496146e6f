/*
 * query_all.h - one statement over many traces: `query --all`
 *
 * Why:     a process for each file, several at once: a broken or hostile trace takes no other with
 *          it, and the memory of each has a limit of its own that the kernel keeps.
 * Shapes:  the statement's rows as CSV, the file's name before them as column `trace_file`, in the
 *          order of the names. Directories are walked; files in them that hold no profile are
 *          counted and left out.
 * Limits:  --jobs at once; --max-memory is shared by them. A trace that its share does not hold is
 *          tried again alone with the whole.
 * Errors:  printed with the file's name, the same error of many files once; an exit code of cli.h:
 *          HW_EXIT_INCOMPLETE where some files have no answer.
 */
#ifndef HW_CLI_QUERY_QUERY_ALL_H
#define HW_CLI_QUERY_QUERY_ALL_H

#include <stddef.h>

struct hw_cli;

struct hw_query_all {
    const struct hw_cli *cli;
    char **paths; /* files and directories */
    size_t n_paths;
    const char *sql; /* NULL = file */
    const char *file;
};

int hw_query_all_run(const struct hw_query_all *q);

#endif
