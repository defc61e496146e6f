/*
 * sql.h - SQL over a frozen profile
 *
 * Why:     SQL is for questions that no command answers, and for pages and scripts. The data stay
 *          in the model; SQLite reads them through virtual tables.
 * Shapes:  a script is statements in SQLite's dialect with Perfetto's additions (INCLUDE PERFETTO
 *          MODULE; CREATE PERFETTO TABLE, VIEW, INDEX, FUNCTION, MACRO; macro!(…)). The rows of
 *          each statement that has columns go to the sink.
 * Units:   times in ns of the trace's clock, sizes in bytes.
 * Owns:    the database with the scripts' tables; the profile is borrowed and must outlive it.
 * Errors:  HW_EINVAL with SQLite's text, line and caret; HW_ETIMEOUT when the deadline passed or it
 *          was interrupted; HW_ELIMIT when a result is too large. A script stops at its first
 *          error; the effects of earlier statements stay.
 * Trust:   scripts are not trusted: an authorizer denies ATTACH, VACUUM, extensions, triggers and
 *          writing pragmas. No statement accesses files; hw_sql_export writes to its caller's path.
 * Threads: one owner at a time, except hw_sql_interrupt.
 * Source:  doc/design/sql.md
 */
#ifndef HW_SQL_SQL_H
#define HW_SQL_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_profile;
struct hw_sql;
struct hw_sql_packages;

#define HW_SQL_MAX_PACKAGES 4u

struct hw_sql_limits {
    uint32_t timeout_ms; /* per statement; 0 = none */
    uint64_t max_rows;   /* per statement; 0 = none */
    uint64_t max_bytes;  /* of texts and blobs in one result; 0 = none */
    uint64_t max_steps;  /* of SQLite's VM per statement, in thousands; 0 = none */
};

enum hw_sql_type { HW_SQL_NULL, HW_SQL_INT, HW_SQL_REAL, HW_SQL_TEXT, HW_SQL_BLOB };

struct hw_sql_cell {
    enum hw_sql_type type;
    int64_t i;
    double d;
    const void *p; /* TEXT, BLOB: valid during the call */
    size_t n;
};

/* Each returns 0 to go on, 1 to skip the rest of this result, or an HW_E… code. */
struct hw_sql_sink {
    int (*begin)(void *ctx, size_t n, const char *const *names);
    int (*row)(void *ctx, size_t n, const struct hw_sql_cell *cells);
    int (*end)(void *ctx);
    void *ctx;
};

int hw_sql_open(const struct hw_profile *p, const struct hw_sql_limits *limits, struct hw_sql **out,
                struct hw_error *err);
void hw_sql_close(struct hw_sql *db); /* NULL is fine */

/* Adds modules; later packages have priority. Borrowed until the close; they may grow meanwhile. */
int hw_sql_use_packages(struct hw_sql *db, const struct hw_sql_packages *k);

/* Adds the scalar function demangle(text) -> text, so that patterns can match demangled names. fn
 * returns malloc'ed text, or NULL for "unchanged". */
int hw_sql_use_demangler(struct hw_sql *db, char *(*fn)(const char *text));

/* Runs a script; sink may be NULL. *n_statements (may be NULL) counts its statements. */
int hw_sql_run(struct hw_sql *db, const char *text, size_t n, const struct hw_sql_sink *sink,
               size_t *n_statements, struct hw_error *err);

/* The first statement that begins at or after *at (skips blanks and comments). True: *at is its
 * start and *len its length, without the `;`. */
bool hw_sql_find_statement(const char *text, size_t n, size_t *at, size_t *len);
/* Runs that one statement and moves *at past its `;`. 1 = it was run, 0 = there is none. */
int hw_sql_run_one(struct hw_sql *db, const char *text, size_t n, size_t *at,
                   const struct hw_sql_sink *sink, struct hw_error *err);

/* Ends the running statement with HW_ETIMEOUT. Safe from a signal handler and other threads. */
void hw_sql_interrupt(struct hw_sql *db);
/* stop is polled while statements run; true ends them as hw_sql_interrupt does. NULL = none. */
void hw_sql_watch(struct hw_sql *db, bool (*stop)(void *ctx), void *ctx);

/* Writes every table and view to a new SQLite file, which replaces an existing one. */
int hw_sql_export(struct hw_sql *db, const char *path, struct hw_error *err);
/* Writes every table of the model to a tar archive of Arrow files. */
int hw_sql_export_arrow(struct hw_sql *db, const char *path, struct hw_error *err);

/* What a row of `stats` with this name means, in whole sentences; "" = unknown. */
const char *hw_sql_stat_meaning(const char *name);

const struct hw_profile *hw_sql_profile(const struct hw_sql *db);
/* Bytes that SQLite may use in the whole process, for all connections; 0 = no limit. Queries that
 * need more fail with HW_ENOMEM. */
void hw_sql_limit_memory(uint64_t bytes);
/* How much of that is left; UINT64_MAX without a limit. */
uint64_t hw_sql_memory_left(void);
/* Bytes of the tables that scripts made in this connection, which must be idle. */
uint64_t hw_sql_memory_kept(const struct hw_sql *db);

#endif
