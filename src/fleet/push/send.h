/*
 * send.h - one attempt to send an entry to its store
 *
 * Why:     decides what a reply means for an entry: done, retry or refused.
 * Shapes:  ClickHouse is queried first for the rows it has, so that nothing is added twice by an
 *          attempt that was cut off, a process killed between the store's reply and recording it,
 *          or the same file pushed twice. While a statement of an earlier attempt still runs, the
 *          result is AGAIN. Other stores get an id with each profile.
 *          REFUSED: status 4xx except 408 and 429; redirections.
 * Errors:  the reason for AGAIN and REFUSED, in err; < 0 only for failures that retries cannot
 *          change (HW_ENOMEM, HW_EUNSUPPORTED, HW_EBUSY: *stop was set).
 * Threads: one owner at a time.
 * Source:  doc/design/fleet.md, "Once, not at least once"
 */
#ifndef HW_FLEET_PUSH_SEND_H
#define HW_FLEET_PUSH_SEND_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/memory/map64.h"
#include "fleet/push/entry.h"
#include "fleet/store/clickhouse.h"

struct hw_error;

enum hw_send_result { HW_SEND_DONE, HW_SEND_AGAIN, HW_SEND_REFUSED };

struct hw_sender {
    const struct hw_store *store; /* borrowed */
    struct hw_clickhouse client;  /* its HTTP client is used for the other forms, too */
    struct hw_map64 known;        /* hashes of callstacks that the store has */
    const char *tenant;           /* X-Scope-OrgID; NULL */
    int64_t retry_after_s;        /* requested by the store with AGAIN; 0 = none */
    uint64_t n_requests, n_bytes; /* of bodies */
    uint64_t n_rows_sent, n_rows_there;
    size_t n_columns; /* how many of our columns of samples the store has; 0 = unknown yet */
    bool is_older;    /* its table lacks columns; the last rows were sent without them */
};

int hw_sender_init(struct hw_sender *s, const struct hw_store *store,
                   const volatile sig_atomic_t *stop, struct hw_error *err);
void hw_sender_done(struct hw_sender *s);
/* repeated: an earlier attempt, possibly by another process, got no reply. */
int hw_sender_try(struct hw_sender *s, const struct hw_entry *e, bool repeated,
                  enum hw_send_result *out, struct hw_error *err);
/* Prints the requests of an entry as they would be sent, bodies shortened, secrets omitted. */
int hw_sender_print(const struct hw_sender *s, const struct hw_entry *e, FILE *out);

#endif
