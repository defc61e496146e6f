/*
 * query_all.h - one statement over many traces: `query --all`
 *
 * Why:     a process per file, several at once: a broken or hostile trace cannot affect others, and
 *          each has a memory limit that the kernel enforces.
 * Shapes:  the statement's rows as CSV, the file's name before them as column `trace_file`, in the
 *          order of the names. Directories are walked; files without a profile are counted and
 *          skipped.
 * Limits:  --jobs at once; --max-memory is shared by them. A trace that does not fit its share is
 *          tried again alone with all of it.
 * Errors:  printed with the file's name, the same error of many files once; an exit code of cli.h:
 *          HW_EXIT_INCOMPLETE if some files have no answer.
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
