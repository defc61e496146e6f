/*
 * deliver.h - delivers entries to their store, with retries
 *
 * Why:     a recorder that produces entries must never wait for a store that is down; a command
 *          with one file to send must know that it failed. The former uses a spool, the latter
 *          does not.
 * Shapes:  a failed attempt is repeated after 0.5 s, doubling up to a minute, each wait randomly
 *          shortened by up to half, so that a thousand machines do not return at once; a longer
 *          Retry-After of the store takes precedence.
 * Errors:  the store's are reported by `tell` and counted. Returned: HW_ENOMEM, HW_EBUSY (*stop),
 *          and failures to write the spool.
 * Threads: one owner at a time.
 */
#ifndef HW_FLEET_PUSH_DELIVER_H
#define HW_FLEET_PUSH_DELIVER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/push/send.h"
#include "fleet/push/spool.h"

struct hw_error;

enum hw_delivery_event {
    HW_DELIVERY_DOWN,
    HW_DELIVERY_UP,
    HW_DELIVERY_REFUSED,
    HW_DELIVERY_DROPPED,
    HW_DELIVERY_OLDER
};

struct hw_delivery {
    struct hw_sender sender;
    struct hw_spool *spool; /* borrowed; NULL: entries that cannot be sent are lost, and counted */
    uint64_t retry_ms;      /* gives up after so long without a success */
    const volatile sig_atomic_t *stop;
    void (*tell)(void *ctx, enum hw_delivery_event what, const char *text);
    void *ctx;

    uint64_t n_refused, n_lost;
    unsigned fails;      /* consecutive */
    bool reported_older; /* HW_DELIVERY_OLDER was reported */
    bool unanswered;     /* the next attempt may repeat one that reached the store */
    uint64_t first_fail_ns, next_ns;
    char refusal[512]; /* the last one reported: not repeated */
};

int hw_delivery_init(struct hw_delivery *d, const struct hw_store *store, struct hw_spool *spool,
                     const volatile sig_atomic_t *stop, struct hw_error *err);
void hw_delivery_done(struct hw_delivery *d);
/* Sends the entry. With a spool it never blocks: it spools the entry if others wait or the store
 * does not accept it. Without one it blocks for up to retry_ms. */
int hw_delivery_give(struct hw_delivery *d, const struct hw_entry *e, struct hw_error *err);
/* One attempt with the oldest spooled entry, if due. *wait_ms: until the next attempt is due; 0 =
 * now, UINT64_MAX = the spool is empty. */
int hw_delivery_step(struct hw_delivery *d, uint64_t *wait_ms, struct hw_error *err);
/* Did all attempts fail for retry_ms? */
bool hw_delivery_gave_up(const struct hw_delivery *d);
/* Steps until the spool is empty or it gave up. */
int hw_delivery_drain(struct hw_delivery *d, struct hw_error *err);
/* Sleeps; HW_EBUSY as soon as *stop is set. */
int hw_delivery_sleep(const struct hw_delivery *d, uint64_t ms, struct hw_error *err);

#endif
