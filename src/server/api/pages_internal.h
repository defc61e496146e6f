/* pages_internal.h - shared by pages*.c: loaded traces and the selection of a request */
#ifndef HW_SERVER_API_PAGES_INTERNAL_H
#define HW_SERVER_API_PAGES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/progress.h"
#include "base/text/json_out.h"
#include "codec/pb.h"
#include "enrich/lines/demangle.h"
#include "model/profile.h"
#include "server/api/files.h"
#include "server/pages.h"
#include "server/rpc/processor.h"
#include "views/filter.h"
#include "views/flame/flame.h"
#include "views/flame/functions.h"
#include "views/stack_mask.h"
#include "views/time/process_view.h"
#include "views/time/series.h"

enum {
    HTTP_OK = 200,
    HTTP_NO_CONTENT = 204,
    HTTP_BAD = 400,
    HTTP_NOT_FOUND = 404,
    HTTP_BUSY = 503,
    HTTP_ERROR = 500
};

enum { HW_PAGE_MAX_WITH = 63 };

enum hw_page_trace_state { HW_PAGE_LOADING, HW_PAGE_READY, HW_PAGE_FAILED };

struct hw_page_heaps;
struct hw_page_program;

/* The stages of loading a trace. */
enum hw_page_stage { HW_PAGE_READING, HW_PAGE_NAMING, HW_PAGE_SUMMING };

/* Everything but state, progress and stage is constant once state is not LOADING. */
struct hw_page_trace {
    struct hw_pages *pages;
    struct hw_page_heaps *heaps; /* data derived from managed heaps (pages_heap.h) */
    unsigned id;
    unsigned n_users;   /* references, under the lock: the list, its reader, requests */
    char *path;         /* to open */
    char *name;         /* to show */
    int fd;             /* of an uploaded or requested file; -1 */
    bool sent;          /* it was uploaded */
    bool away;          /* its paths are untrusted: do not open them */
    char *symbol_dirs;  /* besides the server's, one per line; NULL = none */
    struct hw_pb names; /* packets: symbols found that the file lacks */
    uint64_t n_bytes;
    uint64_t begin_ns, took_ns;  /* of reading; monotonic */
    struct hw_progress progress; /* of n_bytes */
    atomic_int stage;            /* enum hw_page_stage, while it is loading */
    atomic_int state;            /* enum hw_page_trace_state; released by the thread that reads */
    char *failure;
    uint8_t head[16]; /* the first bytes, if reading failed */
    size_t n_head;
    struct hw_processor *processor;   /* NULL: a snapshot of a running process */
    struct hw_profile *own;           /* then this is its profile */
    const struct hw_profile *profile; /* the processor's, or own */
    struct hw_series_list list;
    hw_process_views processes;    /* over time, most allocated first */
    struct hw_by_process views_of; /* rows of processes */
    struct hw_functions *functions;
    char **labels; /* shown names by function id, those of files; owned */
    size_t n_labels;
    struct hw_page_program **programs;    /* by upid, shared; NULL = not known (pages_program.c) */
    struct hw_page_program *all_programs; /* each once; owned */
    pthread_mutex_t names_lock;
    struct hw_demangler *demangler; /* names_lock */
};

struct hw_pages {
    struct hw_pages_options o;
    pthread_mutex_t lock, names_lock;
    struct hw_page_trace *traces[HW_PAGES_MAX_TRACES]; /* lock; open ones by rising id */
    unsigned n, last_id;                               /* lock */
    unsigned n_readers;                                /* lock; threads that read a trace */
    pthread_cond_t reader_ended;
    atomic_uint changes;                   /* counts changes reported by events */
    hw_files_dirs trace_dirs, symbol_dirs; /* requests may name files below these */
    HW_VEC(char *) opened; /* lock; real paths of files the owner named or recorded */
    struct hw_page_flame_windows *flame_windows; /* has its own lock */
    struct hw_page_infra *infra;                 /* has its own lock */
    pthread_mutex_t live_lock;
    struct hw_page_live *live; /* live_lock; processes being watched */
};

/* Loads a file synchronously, for snapshots: no SQL, no number. The caller frees. */
int hw_page_trace_read(struct hw_pages *p, int fd, const char *name, struct hw_page_trace **out,
                       struct hw_error *err);
void hw_page_trace_free(struct hw_page_trace *t); /* NULL is fine */

/* Takes and drops a reference. */
void hw_page_trace_ref(struct hw_page_trace *t);
void hw_page_trace_unref(struct hw_page_trace *t);
/* The open traces, each with a new reference: out holds HW_PAGES_MAX_TRACES. */
unsigned hw_page_traces(struct hw_pages *p, struct hw_page_trace **out);
/*
 * The trace with that number if it is ready, referenced until the request ends; else NULL, and the
 * request was answered.
 */
struct hw_page_trace *hw_page_trace_get(struct hw_pages *p, struct hw_http_request *req,
                                        const char *id);
/* A file named by a request: below --traces, or opened earlier by the owner. */
int hw_pages_open_named(struct hw_pages *p, const char *path, unsigned *id, struct hw_error *err);
/* Loads a trace from a descriptor, which is taken over. */
int hw_pages_open_fd(struct hw_pages *p, int fd, const char *name, unsigned *id,
                     struct hw_error *err);
/*
 * Loads the same file again, with symbols from these directories too (one per line): a trace in use
 * never changes.
 */
int hw_pages_open_again(struct hw_pages *p, const struct hw_page_trace *old, const char *dirs,
                        unsigned *id, struct hw_error *err);
/* Removes it from the list at once, and frees it with the last reference. False: no such id. */
bool hw_pages_close(struct hw_pages *p, const char *id);
const char *hw_page_string(const struct hw_page_trace *t, hw_str_id id);
/* The process's moments; borrowed, the same as long as the trace. NULL: no such process. */
const struct hw_process_view *hw_page_view(const struct hw_page_trace *t, hw_upid upid);
/* Shown names for views; takes the trace's lock for each. */
struct hw_namer hw_page_namer(struct hw_page_trace *t);

/* ---- names of functions and modules (views/flame/program.h) ---- */

int hw_page_names_init(struct hw_page_trace *t); /* done also after an error */
void hw_page_names_done(struct hw_page_trace *t);
const struct hw_page_program *hw_page_program_of(const struct hw_page_trace *t, hw_upid upid);
/* program NULL: unknown, or several. */
const struct hw_shown_program *hw_page_program_shown(const struct hw_page_program *g);
const char *hw_page_program_module(const struct hw_page_program *g); /* its module as shown */
const char *hw_page_label(const struct hw_page_trace *t, const struct hw_page_program *g,
                          uint32_t function);
/* The path; the program's name if the file's differs. */
const char *hw_page_module(const struct hw_page_trace *t, const struct hw_page_program *g,
                           hw_str_id path);

/* Where a function is (views/flame/functions.h): its source file, or its module as shown. */
const char *hw_page_where(const struct hw_page_trace *t, const struct hw_page_program *g,
                          uint32_t function);

/* Answers with a JSON text and frees it. */
void hw_page_reply_json(struct hw_http_request *req, struct hw_json *j);
/* {"id": id} */
void hw_page_reply_id(struct hw_http_request *req, unsigned id);
/* 400 for a client error, 500 otherwise. */
void hw_page_reply_error(struct hw_http_request *req, const struct hw_error *err, int rc);

/* An SQL value: integers beyond 2^53 are strings, blobs hex after "0x". */
void hw_page_put_cell(struct hw_json *j, const struct hw_sql_cell *c);

/* ---- the selection of a request ---- */

enum hw_page_sel_flags {
    HW_PAGE_INVERT = 1,
    HW_PAGE_ALL_FRAMES = 2,
    HW_PAGE_COLLAPSE = 4,
    HW_PAGE_STABLE = 8
};

/* Parameters: upid, heap, at (ns, or "peak"; none = the end, or the peak if everything was freed),
 * max=1 (a maximum at that time), from (ns: only allocations since), metric, invert, frames=all,
 * filters (one per line); with: further processes, whose values are added. */
struct hw_page_selection {
    hw_upid upid;
    hw_upid with[HW_PAGE_MAX_WITH]; /* distinct, without upid */
    size_t n_with;
    const struct hw_page_program *program; /* of all of them; NULL = unknown, or several */
    const char *heap;                      /* "" = all */
    hw_str_id heap_id;
    int64_t ts_ns, from_ns;
    bool at_max, has_from;
    enum hw_metric metric;
    unsigned flags;
    uint64_t interval_bytes;
    hw_filters filters;
};

int hw_page_selection_init(struct hw_page_selection *s, struct hw_page_trace *t,
                           struct hw_http_request *req, struct hw_error *err);
/* One side of a comparison: process, heap and times are parameters with the prefix. */
int hw_page_side_init(struct hw_page_selection *s, struct hw_page_trace *t,
                      struct hw_http_request *req, const char *prefix, struct hw_error *err);
void hw_page_selection_done(struct hw_page_selection *s);
/* Whether the process is among those selected. */
bool hw_page_selects(const struct hw_page_selection *s, hw_upid upid);
/* The same selection for one of its processes. */
void hw_page_selection_one(const struct hw_page_selection *s, hw_upid upid,
                           struct hw_page_selection *out);
int hw_page_values(const struct hw_page_trace *t, const struct hw_page_selection *s, hw_values *out,
                   struct hw_error *err);

/* Which callstacks pass the selection's filters; .mask is NULL without filters. */
struct hw_page_mask {
    struct hw_filter_matches matches;
    struct hw_stack_mask *mask;
};
int hw_page_mask_init(struct hw_page_mask *m, struct hw_page_trace *t,
                      const struct hw_page_selection *s);
void hw_page_mask_done(struct hw_page_mask *m);

/* ---- graphs ---- */

unsigned hw_page_flame_flags(const struct hw_page_selection *s); /* enum hw_flame_flags */
/*
 * The selection's tree of these values, in the requested order. callers: the callers' half of a
 * pivot. min_share: only for inverted trees.
 */
int hw_page_flame_build(struct hw_page_trace *t, const struct hw_page_selection *s,
                        const hw_values *values, bool callers, double min_share,
                        struct hw_flame *out, struct hw_error *err);

/* Graphs whose moment moves, cached between requests. */
struct hw_page_flame_windows;
int hw_page_flame_windows_new(struct hw_page_flame_windows **out);
void hw_page_flame_windows_free(struct hw_page_flame_windows *all); /* NULL is fine */
void hw_page_flame_windows_forget(struct hw_page_flame_windows *all, const struct hw_page_trace *t);
/* Drops those not used for a minute. */
void hw_page_flame_windows_age(struct hw_page_flame_windows *all);
/* Are such graphs possible for the selection? */
bool hw_page_flame_windows_can(const struct hw_page_trace *t, const struct hw_page_selection *s);
/* The selection through hw_flame_window_move. filters: the selection's, as text. */
int hw_page_flame_windows_move(struct hw_page_trace *t, const struct hw_page_selection *s,
                               const char *filters, double min_share, struct hw_flame *out,
                               int64_t *unfiltered);

/* Heap details of memory-infra, cached between requests. */
struct hw_page_infra;
int hw_page_infra_new(struct hw_page_infra **out);
void hw_page_infra_free(struct hw_page_infra *all); /* NULL is fine */
void hw_page_infra_forget(struct hw_page_infra *all, const struct hw_page_trace *t);

/* ---- endpoints ---- */

void hw_page_status(struct hw_http_request *req, void *ctx);
void hw_page_events(struct hw_http_request *req, void *ctx);
void hw_page_timeline(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_retained(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_flame(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_functions(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_accounting(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_owners_over_time(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_functions_over_time(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_diff(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_diff_table(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_infra(struct hw_http_request *req, struct hw_page_trace *t, const char *name);
void hw_page_leaks(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_lifetimes(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_threads(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_slices(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_sizes(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_lines(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_source(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_code(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_binaries(struct hw_http_request *req, struct hw_page_trace *t);
/* POST: a file with the trace and the symbols found for it. */
void hw_page_save(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_export(struct hw_http_request *req, void *ctx);
/* An SQL table; special NAMEs have functions of their own. */
void hw_page_table(struct hw_http_request *req, struct hw_page_trace *t, const char *name);
void hw_page_query(struct hw_http_request *req, void *ctx);
void hw_page_processes(struct hw_http_request *req, void *ctx);
void hw_page_record(struct hw_http_request *req, void *ctx);
void hw_page_internals(struct hw_http_request *req, void *ctx);
void hw_page_live(struct hw_http_request *req, void *ctx);
void hw_page_live_list(struct hw_http_request *req, void *ctx);
/* An array of the recordings; empty without a recorder. */
void hw_page_put_recordings(struct hw_json *j, struct hw_pages *p);
void hw_page_fleet(struct hw_http_request *req, void *ctx);
void hw_page_fleet_profile(struct hw_http_request *req, void *ctx);
void hw_page_list_user_store(struct hw_http_request *req, void *ctx);
void hw_page_add_user_store(struct hw_http_request *req, void *ctx);
void hw_page_asset(struct hw_http_request *req, void *ctx);

#endif
