/*
 * pages.h - what the web page asks: traces, dumps, graphs, tables, SQL, files
 *
 * Why:     the page decodes no trace and sums nothing up. It gets figures that views/ made, in the
 *          shape it draws them: JSON for lists, one binary array per property for graphs.
 * Shapes:  rows for an HTTP server (http.h), whose ctx is a struct hw_pages. A trace has a number
 *          from 1, never used again, is read in a thread of its own, and stays until it is closed.
 *          doc/design/pages.md lists endpoints and the binary form.
 * Owns:    its traces and their threads; texts of the options are borrowed.
 * Errors:  HW_ENOMEM, HW_ELIMIT (HW_PAGES_MAX_TRACES). A trace that cannot be read stays in the
 *          list with the reason; a wrong question is answered by 400 and a text.
 * Threads: handlers run at the same time: a trace is frozen once read, its SQL connection and its
 *          demangler have locks. new and free: one owner, no handler running.
 * Trust:   names in traces are anybody's; they leave as JSON or length-prefixed bytes, never as
 *          markup. SQL is that of sql/ (no files), with limits.
 * Source:  doc/design/pages.md
 */
#ifndef HW_SERVER_PAGES_H
#define HW_SERVER_PAGES_H

#include <stddef.h>

#include "base/memory/vec.h"
#include "enrich/binaries.h"
#include "server/http/http.h"
#include "sql/sql.h"

#define HW_PAGES_MAX_TRACES 64u

struct hw_error;
struct hw_json;
struct hw_pb;
struct hw_pages;
struct hw_profile;
struct hw_store;

/*
 * Recording, done by whoever has a recorder: this folder only carries the questions. Errors' texts
 * are for the user. Calls come from several threads at once.
 */
enum hw_page_act { HW_PAGE_STOP, HW_PAGE_DUMP, HW_PAGE_DISCARD, HW_PAGE_END_PROGRAM };
/* How a process's heaps are now. */
struct hw_page_look {
    int fd; /* a trace with one dump of each heap; the asker's to close */
    uint64_t n_samples, n_lost, rss_bytes;
    char name[256];
};
/* A process that is recorded, by whomever. */
struct hw_page_recorded {
    int32_t pid;
    char name[256], recording[24]; /* recording: its name for people */
    uint64_t samples, seconds;
};
typedef HW_VEC(struct hw_page_recorded) hw_page_recorded_list;
struct hw_page_recorder {
    void *ctx;
    int (*processes)(void *ctx, struct hw_json *j, struct hw_error *err); /* an array */
    /* words: JSON; what would be recorded and what stands in its way: an object */
    int (*plan)(void *ctx, struct hw_bytes words, struct hw_json *j, struct hw_error *err);
    int (*start)(void *ctx, struct hw_bytes words, unsigned *id, struct hw_error *err);
    int (*act)(void *ctx, unsigned id, enum hw_page_act act, struct hw_error *err);
    /* Names this moment in the trace; text: 1 to 200 bytes. */
    int (*mark)(void *ctx, unsigned id, struct hw_bytes text, struct hw_error *err);
    void (*state)(void *ctx, struct hw_json *j); /* an array: recordings of this server */
    unsigned (*changes)(void *ctx);              /* counts those of state */
    int (*recorded)(void *ctx, hw_page_recorded_list *out, struct hw_error *err);
    int (*look)(void *ctx, int32_t pid, struct hw_page_look *out, struct hw_error *err);
};

/* Memory internals, likewise. Words are a JSON object. */
struct hw_page_internals {
    void *ctx;
    int (*put)(void *ctx, struct hw_json *j, struct hw_error *err); /* an object: who is tracked */
    /* start, stop, mode; j: an object with what was done */
    int (*order)(void *ctx, const char *verb, struct hw_bytes words, struct hw_json *j,
                 struct hw_error *err);
    /* A dump of those that are tracked; j: an object with its number and files. progress comes from
     * any thread, one call at a time. */
    int (*save)(void *ctx, struct hw_bytes words,
                void (*progress)(void *ctx, size_t n_done, size_t n_all), void *progress_ctx,
                struct hw_json *j, struct hw_error *err);
    int (*file)(void *ctx, unsigned id, bool trace, char **path); /* path: the caller's to free */
};

struct hw_pages_options {
    const struct hw_page_recorder *recorder;   /* borrowed; NULL = nothing is recorded */
    const struct hw_page_internals *internals; /* borrowed; NULL = nothing is tracked */
    struct hw_sql_limits limits;               /* of each query */
    /* Names for a profile just read, also from these directories (one a line; NULL = none), and the
     * same as packets. away: no path that it names is looked at. One thread at a time; NULL =
     * nobody adds names. */
    void (*add_names)(void *ctx, struct hw_profile *p, const char *more_dirs, bool away,
                      struct hw_pb *out);
    void *ctx;
    struct hw_binaries_where symbols; /* where files with symbols are; its lists are borrowed */
    const char *kept_dir; /* borrowed: where the page keeps a user's own things; NULL = nowhere */
    const char *const *sources; /* borrowed: directories with source files */
    size_t n_sources;
    const char *const *traces; /* borrowed: directories below which a request may open traces */
    size_t n_traces;
    bool own; /* it serves its own user only: source files lie wherever a trace of his names them */
    const struct hw_store *store; /* borrowed: of the fleet, one that can be asked; NULL = none */
};

int hw_pages_new(const struct hw_pages_options *o, struct hw_pages **out, struct hw_error *err);
/* Waits two seconds for traces that are being read. False: one still is, so nothing was freed and
 * the process has to _exit. NULL is fine. */
bool hw_pages_free(struct hw_pages *p);
/* Begins to read a file; *id is its number. Requests may open it again. For the server's owner: a
 * path out of a request is no argument for it. */
int hw_pages_open(struct hw_pages *p, const char *path, unsigned *id, struct hw_error *err);

extern const struct hw_http_route hw_pages_routes[];
extern const size_t hw_n_pages_routes;
/* For hw_http_options: headers of every answer (pairs), and what a connection keeps. */
extern const char *const hw_pages_headers[];
extern const size_t hw_n_pages_headers;
void *hw_pages_connection_new(void *ctx);
void hw_pages_connection_free(void *ctx, void *data);

#endif
