/*
 * engine.h - definitions shared by the files of this folder
 *
 * Shapes:  struct hw_sql is one connection over one profile. A table of tables.def is a struct
 *          hw_table; its cells are read one by one. An index is built when a query first needs it.
 */
#ifndef HW_SQL_ENGINE_H
#define HW_SQL_ENGINE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "model/profile.h"
#include "sql/callstack_rows.h"
#include "sql/graph_views.h"
#include "sql/packages.h"
#include "sql/sql.h"
#include "sql/views/dump_sums.h"

struct hw_sql_stat_info {
    const char *name, *source, *description;
    enum hw_stat_severity severity;
    bool by_upid; /* the model's key is a upid */
    bool always;  /* the row exists even with value 0 */
};

/* A row of `stats`. */
struct hw_sql_stat {
    struct hw_bytes name;
    int64_t key; /* identical for all rows of a name */
    int64_t idx; /* < 0 = none */
    int64_t value;
    enum hw_stat_severity severity;
    const struct hw_sql_stat_info *info;
};

struct hw_sql_track {
    hw_upid upid;
    hw_str_id name;
};

struct hw_graph_row {
    uint32_t graph; /* the first of them */
    int64_t heap_size;
    bool truncated;
};

/* Data that the tables show and the model does not store. Owned; computed once. */
struct hw_sql_derived {
    const struct hw_profile *profile;
    struct hw_bytes *build_ids; /* in hex, per mapping; views into hex */
    char *hex;
    size_t n_mappings; /* the model's, then a nameless one if a frame has no mapping */
    struct hw_sql_stat *stats;
    size_t n_stats;
    struct hw_bytes *arg_texts; /* per row of args: the text shown; numbers' are in arg_text */
    char *arg_text;
    struct hw_sql_track *tracks;
    size_t n_tracks;
    uint32_t *track_of;                /* per row of counters */
    struct hw_symbol_set *set_of_line; /* per line of the symbol sets */
    struct hw_graph_row *graph_rows;   /* of heap_graph: several of one process and time are one */
    size_t n_graph_rows;
    uint32_t *row_of_graph;
    uint32_t *oomes; /* heap graphs triggered by OutOfMemoryErrors */
    size_t n_oomes;
    uint64_t *low_intervals; /* sampling intervals of the configuration that may be too low */
    size_t n_diagnostics;
    bool profiler_failed;                /* the heap profiler reported errors */
    struct hw_graph_views *graphs;       /* built on demand */
    struct hw_callstack_rows callstacks; /* the same */
    struct hw_dump_sums dump_sums;       /* the same */
};

int hw_sql_derived_init(struct hw_sql_derived *x, const struct hw_profile *p);
void hw_sql_derived_done(struct hw_sql_derived *x);

enum hw_column_class { HW_CLASS_INT, HW_CLASS_REAL, HW_CLASS_TEXT };

/* How rows are found by a column's value. */
enum hw_column_order {
    HW_ORDER_ANY,    /* by an index, built when first needed */
    HW_ORDER_DENSE,  /* the value is the row number */
    HW_ORDER_RISING, /* non-decreasing integers: by binary search in the cells */
    HW_ORDER_RUN,    /* constant within a run of rows: by one row per run (table_runs.c) */
    HW_ORDER_SCAN    /* by a full scan */
};

struct hw_column {
    const char *name;
    enum hw_column_class class;
    enum hw_column_order order;
    bool hidden;
};

struct hw_table {
    const char *name;
    const struct hw_column *columns;
    int n_columns;
    size_t (*count)(const struct hw_sql_derived *x);
    void (*cell)(const struct hw_sql_derived *x, uint32_t row, int column, struct hw_sql_cell *out);
    int (*prepare)(struct hw_sql_derived *x); /* called before the others; NULL = nothing to do */
    /* Runs of rows within which RUN and RISING columns are constant; NULL = none. */
    const struct hw_alloc_run *(*runs)(const struct hw_sql_derived *x, size_t *n);
};

extern const struct hw_table hw_tables[];
extern const size_t hw_n_tables;

/* ---- indexes ---- */

/* The rows in SQLite's order of one column: NULLs, then by value, then by row. */
struct hw_index {
    uint32_t *rows; /* owned; NULL: the rows already are in that order */
    size_t n, n_null, n_distinct;
    bool is_made;
};

static inline uint32_t hw_index_row(const struct hw_index *ix, size_t at)
{
    return ix->rows ? ix->rows[at] : (uint32_t)at;
}

int hw_index_build(struct hw_index *ix, const struct hw_sql_derived *x, const struct hw_table *t,
                   int column);
void hw_index_done(struct hw_index *ix);
/* The first position whose value is >= value (above: > value). False: value is not comparable. */
bool hw_index_bound(const struct hw_index *ix, const struct hw_sql_derived *x,
                    const struct hw_table *t, int column, sqlite3_value *value, bool above,
                    size_t *out);

/* Where the last group of equal values in [low, high) begins. */
size_t hw_index_group(const struct hw_index *ix, const struct hw_sql_derived *x,
                      const struct hw_table *t, int column, size_t low, size_t high);

/* ---- runs of rows ---- */

/* A scan of rows [from, to) that visits only some runs. */
struct hw_run_scan {
    HW_VEC(uint32_t) runs;
    size_t next, from, to;
};

/* Adds a constraint column = argument; arguments are in the order of these calls. */
void hw_runs_plan_equal(struct hw_strbuf *plan, int column);
/* Adds the requested row order. False: ordering the runs does not give it. */
bool hw_runs_plan_orders(struct hw_strbuf *plan, const struct hw_table *t,
                         const sqlite3_index_info *info);
int hw_runs_n_args(const char *plan);
/* The runs that match the plan, in its order; the caller has set out->from and out->to. */
int hw_runs_pick(const struct hw_sql_derived *x, const struct hw_table *t, const char *plan,
                 sqlite3_value **argv, struct hw_run_scan *out);
/* The rows of the next run; false = no more. */
bool hw_runs_next(const struct hw_sql_derived *x, const struct hw_table *t, struct hw_run_scan *s,
                  size_t *from, size_t *to);

/* ---- the connection ---- */

struct hw_macro {
    char *name, *body; /* owned */
    char **params;     /* owned */
    size_t n_params;
};

enum { HW_SQL_MAX_CALL_DEPTH = 32 }; /* nested selects run by functions */

struct hw_sql {
    sqlite3 *db;
    const struct hw_profile *profile;
    struct hw_sql_derived derived;
    struct hw_index **indexes; /* per table: an array per column */
    struct hw_sql_limits limits;
    uint64_t rows_visited; /* shows the effect of push-downs */
    uint64_t steps;
    int64_t deadline_ns; /* 0 = none */
    volatile int interrupted;
    bool (*stop)(void *ctx); /* of hw_sql_watch; NULL */
    void *stop_ctx;
    char *(*demangle)(const char *text); /* NULL = none; gives malloc'ed text or NULL */
    uint64_t kept_bytes;                 /* of flamegraphs' sources; partly SQLite's own memory */
    unsigned function_depth, script_depth;
    struct hw_sql_function *functions; /* a list; SQLite owns them */
    HW_VEC(struct hw_macro) macros;
    HW_VEC(char *) included;                                     /* owned: names of modules */
    const struct hw_sql_packages *packages[HW_SQL_MAX_PACKAGES]; /* borrowed */
    size_t n_packages;
};

/* For long work within one step of SQLite; counts as a thousand steps. True: the deadline passed,
 * or the statement was interrupted. */
bool hw_sql_must_stop(struct hw_sql *s);

/* Registers every table of tables.def. */
int hw_sql_add_tables(struct hw_sql *s);
int hw_sql_add_flamegraph(struct hw_sql *s);
int hw_sql_add_flame_tables(struct hw_sql *s);  /* CREATE VIRTUAL TABLE ... */
int hw_sql_add_profile_views(struct hw_sql *s); /* heapwise_top, …_leaks, …_tree */
/* extract_arg and the functions for stacks. */
int hw_sql_add_functions(struct hw_sql *s);
int hw_sql_add_text_functions(struct hw_sql *s); /* instr, replace, trim in bounded time */
int hw_sql_add_printf(struct hw_sql *s);         /* printf, format in bounded time */
int hw_sql_add_regex_functions(struct hw_sql *s);
int hw_sql_add_value_functions(struct hw_sql *s); /* texts, hashes, times */
int hw_sql_add_array_functions(struct hw_sql *s); /* contents of a heap graph's arrays */
/* The only module that scripts may use in CREATE VIRTUAL TABLE. */
#define HW_SQL_FLAME_MODULE "__intrinsic_flamegraph"
/* The views of every connection. */
extern const char hw_sql_prelude[];

struct hw_sql_module {
    const char *name, *sql;
};
extern const struct hw_sql_module hw_sql_modules[];
extern const size_t hw_n_sql_modules;

/* ---- Perfetto's statements ---- */

/* Rewrites one statement (without `;`) and executes the parts that SQLite does not know. Empty
 * *out: nothing is left to run. */
int hw_sql_rewrite(struct hw_sql *s, struct hw_bytes statement, struct hw_strbuf *out,
                   struct hw_error *err);

/* Gives the tables of a statement that mentions _auto_id such a column (auto_id.c). */
int hw_sql_add_auto_ids(struct hw_sql *s, struct hw_strbuf *statement);

/* name(params) -> value or rows. Everything is borrowed for the call. */
struct hw_sql_signature {
    const char *name;
    char **params;
    size_t n_params;
    char **columns; /* of a table function */
    size_t n_columns;
    const char *body;
};
int hw_sql_add_scalar(struct hw_sql *s, const struct hw_sql_signature *f, struct hw_error *err);
int hw_sql_add_table_function(struct hw_sql *s, const struct hw_sql_signature *f,
                              struct hw_error *err);
/* Finalizes the functions' cached statements: SQLite does not close a connection with open ones. */
void hw_sql_functions_finalize(struct hw_sql *s);
/* A function that a script adds must not have a table's name. */
bool hw_sql_is_table(const char *name);

/* ---- files written under a temporary name and renamed when complete ---- */

/* The temporary name. */
int hw_sql_part_begin(struct hw_strbuf *part, const char *path, struct hw_error *err);
/* rc: of writing the file, which is closed. Frees the name. */
int hw_sql_part_end(struct hw_strbuf *part, const char *path, int rc, struct hw_error *err);

#endif
