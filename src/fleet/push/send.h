/*
 * send.h - one entry to its store, one attempt
 *
 * Why:     what an answer means for an entry (done, later, never) is decided once, here.
 * Shapes:  ClickHouse is asked first which rows it has: an attempt that was cut off, a process that
 *          was killed between the store's answer and taking note of it, and the same file pushed
 *          twice add nothing twice. While a statement of an earlier attempt still runs there, it is
 *          "later". The other stores get an id with each profile.
 *          Final: what the store refuses with 4xx, but for 408 and 429; redirections.
 * Errors:  the reason of AGAIN and REFUSED, in err; < 0 only for what no other attempt changes
 *          (HW_ENOMEM, HW_EUNSUPPORTED, HW_EBUSY: *stop was set).
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

enum hw_sent { HW_SENT_DONE, HW_SENT_AGAIN, HW_SENT_REFUSED };

struct hw_sender {
    const struct hw_store *store; /* borrowed */
    struct hw_clickhouse client;  /* its HTTP client serves the other forms, too */
    struct hw_map64 known;        /* hashes of callstacks that the store has */
    const char *tenant;           /* X-Scope-OrgID; NULL */
    int64_t retry_after_s;        /* the store's wish with AGAIN; 0 = none */
    uint64_t n_requests, n_bytes; /* of bodies */
    uint64_t n_rows_sent, n_rows_there;
    size_t n_columns; /* of the store's samples, the first ones; 0 = not known yet */
    bool is_older;    /* its table lacks columns; those of the last rows went without them */
};

int hw_sender_init(struct hw_sender *s, const struct hw_store *store,
                   const volatile sig_atomic_t *stop, struct hw_error *err);
void hw_sender_done(struct hw_sender *s);
/* repeated: an earlier attempt, perhaps of another process, had no answer. */
int hw_sender_try(struct hw_sender *s, const struct hw_entry *e, bool repeated, enum hw_sent *out,
                  struct hw_error *err);
/* The requests of an entry as they would go out, bodies shortened, secrets left out. */
int hw_sender_print(const struct hw_sender *s, const struct hw_entry *e, FILE *out);

#endif
