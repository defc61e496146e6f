/*
 * processor.h - one trace and its SQL connections, shared by several clients
 *
 * Why:     the RPC's clients share one trace. All requests end up here, whatever their transport.
 * Shapes:  data is appended and finalized, or a file is loaded; a query before the end sees what
 *          has arrived. Data after the end begins a new trace. What a client creates (tables,
 *          functions) is visible to its later queries only. One query per client and four in all
 *          run at a time; others wait, up to 64 per client.
 * Owns:    the trace's bytes (an unlinked file), the profile, connections, registered packages.
 * Errors:  texts for the client in struct hw_error. HW_EBUSY: too many of the client's queries are
 *          waiting.
 * Threads: any number; every function takes the lock it needs.
 */
#ifndef HW_SERVER_RPC_PROCESSOR_H
#define HW_SERVER_RPC_PROCESSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "sql/sql.h"

struct hw_error;
struct hw_processor;
struct hw_profile;
struct hw_progress;

struct hw_processor_options {
    struct hw_sql_limits limits; /* of each query */
    uint64_t max_trace;          /* bytes that clients may append; 0 = limited by the disk */
    const struct hw_sql_packages *packages; /* borrowed, from the command line; NULL = none */
    /* Symbolizes a loaded profile; NULL = none. Called by one thread at a time. */
    void (*add_names)(void *ctx, struct hw_profile *p);
    void *ctx;
    struct hw_progress *progress; /* of hw_processor_load; borrowed, NULL = none */
};

int hw_processor_new(const struct hw_processor_options *o, struct hw_processor **out,
                     struct hw_error *err);
void hw_processor_free(struct hw_processor *p); /* must not be in use; NULL is fine */

int hw_processor_load(struct hw_processor *p, const char *path, struct hw_error *err);
int hw_processor_append(struct hw_processor *p, struct hw_bytes data, uint64_t *total,
                        struct hw_error *err);
int hw_processor_finalize(struct hw_processor *p, struct hw_error *err);
/* Forgets the trace. */
int hw_processor_reset(struct hw_processor *p, struct hw_error *err);
/* Drops what scripts created. */
int hw_processor_restore(struct hw_processor *p, struct hw_error *err);
/* Name of the loaded trace, "" without one; malloc'ed, NULL without memory. */
char *hw_processor_trace_name(struct hw_processor *p);
/* Registers a module of a client's package; override: replaces an existing name. */
int hw_processor_add_module(struct hw_processor *p, const char *name, struct hw_bytes sql,
                            bool override, struct hw_error *err);

/* Interrupts one query only: lives in the caller's frame. */
struct hw_processor_job {
    struct hw_processor *processor;
    uint64_t client; /* the client's number (hw_http_client) */
    atomic_bool cancelled;
    bool (*gone)(void *ctx); /* polled while it runs: true interrupts it. May be NULL */
    void *ctx;
};
void hw_processor_cancel(struct hw_processor_job *job);

/* Runs fn with the client's connection, when it is its turn, and returns its result. */
int hw_processor_with(struct hw_processor *p, struct hw_processor_job *job,
                      int (*fn)(struct hw_sql *db, void *ctx, struct hw_error *err), void *ctx,
                      struct hw_error *err);

/* Calls fn with a descriptor of the whole original trace. */
int hw_processor_with_trace(struct hw_processor *p, int (*fn)(int fd, void *ctx, struct hw_error *),
                            void *ctx, struct hw_error *err);

#endif
