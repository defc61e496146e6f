/*
 * sql_session.h - a trace opened for SQL, shared by `query` and `trace_processor_shell`
 *
 * Owns:    the profile and the connection.
 * Errors:  printed; functions return an exit code of cli.h.
 */
#ifndef HW_CLI_QUERY_SQL_SESSION_H
#define HW_CLI_QUERY_SQL_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "sql/packages.h"

struct hw_cli;
struct hw_profile;
struct hw_query_out;
struct hw_error;
struct hw_metatrace;
struct hw_sql;

struct hw_sql_session {
    const struct hw_cli *cli;
    struct hw_profile *p;
    struct hw_sql *db;
    int64_t load_ns, query_ns;
    int rc;                          /* why the last call failed: hw_errc; HW_OK */
    struct hw_sql_packages packages; /* --add-sql-package and its like */
    struct hw_metatrace *metatrace;  /* --metatrace; NULL */
};

int hw_sql_session_open(struct hw_sql_session *s, const struct hw_cli *cli, const char *trace);
void hw_sql_session_done(struct hw_sql_session *s);
/* An empty script is an error here. */
int hw_sql_session_run(struct hw_sql_session *s, const char *sql, size_t n,
                       struct hw_query_out *out);
/* The same for a file; "-" is standard input. */
int hw_sql_session_run_file(struct hw_sql_session *s, const char *path, struct hw_query_out *out);

/* Loads what --add-sql-package, --override-sql-package and --override-stdlib name. */
int hw_sql_session_packages(const struct hw_cli *cli, struct hw_sql_packages *out,
                            struct hw_error *err);
/* Drops everything that scripts created. */
int hw_sql_session_reset(struct hw_sql_session *s);
/* Ends the recording and writes it. */
int hw_sql_session_write_metatrace(const struct hw_cli *cli, struct hw_metatrace *m,
                                   const char *path);

#endif
