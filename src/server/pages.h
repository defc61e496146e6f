/*
 * pages.h - the web page's API: traces, dumps, graphs, tables, SQL, files
 *
 * Why:     the page decodes no traces and computes no sums. It gets the figures of views/ in the
 *          shape it draws: JSON for lists, one binary array per property for graphs.
 * Shapes:  rows for an HTTP server (server/http/http.h), whose ctx is a struct hw_pages. A trace has a number
 *          from 1, never reused, is loaded in its own thread, and stays until closed.
 *          doc/design/pages.md lists endpoints and the binary form.
 * Owns:    its traces and their threads; texts of the options are borrowed.
 * Errors:  HW_ENOMEM, HW_ELIMIT (HW_PAGES_MAX_TRACES). A trace that cannot be read stays in the
 *          list with the reason; a bad request is answered by 400 and a text.
 * Threads: handlers run at the same time: a trace is frozen once read, its SQL connection and its
 *          demangler have locks. new and free: one owner, no handler running.
 * Trust:   names in traces are untrusted; they are sent as JSON or length-prefixed bytes, never as
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
struct hw_sample;
struct hw_store;

/*
 * Recording, implemented by whoever has a recorder: this folder only forwards requests. Error texts
 * are for the user. Called from several threads at once.
 */
enum hw_page_act { HW_PAGE_STOP, HW_PAGE_DUMP, HW_PAGE_DISCARD, HW_PAGE_END_PROGRAM };
/* A process's current heaps. */
struct hw_page_live_view {
    int fd; /* a trace with one dump per heap; the caller closes it */
    uint64_t n_samples, n_lost, rss_bytes;
    char name[256];
};
/* A process being recorded, by any recorder. */
struct hw_page_recorded {
    int32_t pid;
    char name[256], recording[24]; /* recording: its display name */
    uint64_t samples, seconds;
};
typedef HW_VEC(struct hw_page_recorded) hw_page_recorded_list;
struct hw_page_recorder {
    void *ctx;
    int (*processes)(void *ctx, struct hw_json *j, struct hw_error *err); /* an array */
    /* words: JSON; j: an object with what would be recorded and what prevents it */
    int (*plan)(void *ctx, struct hw_bytes words, struct hw_json *j, struct hw_error *err);
    int (*start)(void *ctx, struct hw_bytes words, unsigned *id, struct hw_error *err);
    int (*act)(void *ctx, unsigned id, enum hw_page_act act, struct hw_error *err);
    /* Names this moment in the trace; text: 1 to 200 bytes. */
    int (*mark)(void *ctx, unsigned id, struct hw_bytes text, struct hw_error *err);
    void (*state)(void *ctx, struct hw_json *j); /* an array: recordings of this server */
    unsigned (*changes)(void *ctx);              /* counts those of state */
    int (*recorded)(void *ctx, hw_page_recorded_list *out, struct hw_error *err);
    int (*look)(void *ctx, int32_t pid, struct hw_page_live_view *out, struct hw_error *err);
};

/* Memory internals, likewise. Words are a JSON object. */
struct hw_page_internals {
    void *ctx;
    int (*put)(void *ctx, struct hw_json *j, struct hw_error *err); /* an object: who is tracked */
    /* start, stop, mode; j: an object with what was done */
    int (*order)(void *ctx, const char *verb, struct hw_bytes words, struct hw_json *j,
                 struct hw_error *err);
    /*
     * Dumps the tracked processes; j: an object with its number and files. progress is called from
     * any thread, one call at a time.
     */
    int (*save)(void *ctx, struct hw_bytes words,
                void (*progress)(void *ctx, size_t n_done, size_t n_all), void *progress_ctx,
                struct hw_json *j, struct hw_error *err);
    int (*file)(void *ctx, unsigned id, bool trace, char **path); /* path: the caller's to free */
};

struct hw_pages_options {
    const struct hw_page_recorder *recorder;   /* borrowed; NULL = nothing is recorded */
    const struct hw_page_internals *internals; /* borrowed; NULL = nothing is tracked */
    struct hw_sql_limits limits;               /* of each query */
    /*
     * Adds symbols to a loaded profile, also from these directories (one per line; NULL = none),
     * and returns them as packets. away: opens no path that it names. One thread at a time; NULL =
     * no symbolization.
     */
    void (*add_names)(void *ctx, struct hw_profile *p, const char *more_dirs, bool away,
                      struct hw_pb *out);
    void *ctx;
    struct hw_binaries_where symbols; /* where files with symbols are; its lists are borrowed */
    const char *kept_dir;       /* borrowed: for the page's per-user data; NULL = not stored */
    const char *const *sources; /* borrowed: directories with source files */
    size_t n_sources;
    const char *const *traces; /* borrowed: directories below which a request may open traces */
    size_t n_traces;
    bool own; /* serves only its own user: source files may be anywhere that traces name them */
    const struct hw_store *store; /* borrowed: the fleet's store; supports queries; NULL = none */
};

int hw_pages_new(const struct hw_pages_options *o, struct hw_pages **out, struct hw_error *err);
/*
 * Waits two seconds for traces being loaded. False: one still is, so nothing was freed and the
 * process must _exit. NULL is fine.
 */
bool hw_pages_free(struct hw_pages *p);
/*
 * Starts loading a file; *id is its number. Requests may reopen it. For the server's owner only:
 * never pass a path from a request.
 */
int hw_pages_open(struct hw_pages *p, const char *path, unsigned *id, struct hw_error *err);
/* The same for an embedded trace (api/samples.h), whose paths are not opened. */
int hw_pages_open_sample(struct hw_pages *p, const struct hw_sample *s, unsigned *id,
                         struct hw_error *err);

extern const struct hw_http_route hw_pages_routes[];
extern const size_t hw_n_pages_routes;
/* For hw_http_options: headers of every response (pairs), and per-connection data. */
extern const char *const hw_pages_headers[];
extern const size_t hw_n_pages_headers;
void *hw_pages_connection_new(void *ctx);
void hw_pages_connection_free(void *ctx, void *data);

#endif
