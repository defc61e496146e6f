#include "fleet/push/deliver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "fleet/store/http_client.h"

#include "base/banned.h"

enum { FIRST_WAIT_MS = 500, MAX_WAIT_MS = 60000, MAX_RETRY_AFTER_S = 600, SLEEP_STEP_MS = 100 };
#define MS_NS UINT64_C(1000000)

int hw_delivery_init(struct hw_delivery *d, const struct hw_store *store, struct hw_spool *spool,
                     const volatile sig_atomic_t *stop, struct hw_error *err)
{
    *d = (struct hw_delivery){.spool = spool, .stop = stop};
    return hw_sender_init(&d->sender, store, stop, err);
}

void hw_delivery_done(struct hw_delivery *d)
{
    hw_sender_done(&d->sender);
}

static void tell(struct hw_delivery *d, enum hw_delivery_event what, const char *text)
{
    if (d->tell)
        d->tell(d->ctx, what, text);
}

static uint64_t next_wait_ms(const struct hw_delivery *d)
{
    uint64_t base = FIRST_WAIT_MS, chance = 0;
    for (unsigned i = 1; i < d->fails && base < MAX_WAIT_MS; i++)
        base *= 2;
    base = base < MAX_WAIT_MS ? base : MAX_WAIT_MS;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0)
        chance = hw_now_monotonic_ns(); /* differs from other machines' */
    uint64_t wait = base / 2 + chance % (base / 2 + 1);
    int64_t retry_after_s = d->sender.retry_after_s;
    retry_after_s = retry_after_s > MAX_RETRY_AFTER_S ? MAX_RETRY_AFTER_S : retry_after_s;
    return retry_after_s > 0 && (uint64_t)retry_after_s * 1000 > wait
               ? (uint64_t)retry_after_s * 1000
               : wait;
}

static void note_failure(struct hw_delivery *d, const struct hw_error *why)
{
    uint64_t now = hw_now_monotonic_ns();
    if (d->fails++ == 0) {
        d->first_fail_ns = now;
        tell(d, HW_DELIVERY_DOWN, why->text);
    }
    d->unanswered = true;
    d->next_ns = now + next_wait_ms(d) * MS_NS;
}

static void report_older(struct hw_delivery *d)
{
    if (d->sender.is_older && !d->reported_older)
        tell(d, HW_DELIVERY_OLDER, d->sender.store->shown);
    d->reported_older = d->sender.is_older;
}

static void note_reply(struct hw_delivery *d, enum hw_send_result what, const struct hw_error *why)
{
    if (d->fails)
        tell(d, HW_DELIVERY_UP, "");
    d->fails = 0;
    d->unanswered = false;
    if (what == HW_SEND_DONE) {
        report_older(d);
        return;
    }
    d->n_refused++;
    if (strcmp(d->refusal, why->text) == 0)
        return;
    memcpy(d->refusal, why->text, sizeof d->refusal);
    tell(d, HW_DELIVERY_REFUSED, why->text);
}

/* An attempt has as long as one request; one that begins before the entry is given up ends then. */
static void limit_attempt(struct hw_delivery *d)
{
    uint64_t now = hw_now_monotonic_ns(), end = now + HW_HTTP_TIMEOUT_MS * MS_NS;
    uint64_t given_up = d->first_fail_ns + d->retry_ms * MS_NS;
    bool ends_before = d->fails && given_up > now && given_up < end;
    hw_http_until(d->sender.client.http, ends_before ? given_up : end);
}

static int attempt(struct hw_delivery *d, const struct hw_entry *e, bool repeated,
                   enum hw_send_result *out, struct hw_error *err)
{
    struct hw_error why = {0};
    limit_attempt(d);
    int rc = hw_sender_try(&d->sender, e, repeated || d->unanswered, out, &why);
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    if (*out == HW_SEND_AGAIN)
        note_failure(d, &why);
    else
        note_reply(d, *out, &why);
    return HW_OK;
}

bool hw_delivery_gave_up(const struct hw_delivery *d)
{
    return d->fails && (hw_now_monotonic_ns() - d->first_fail_ns) / MS_NS >= d->retry_ms;
}

int hw_delivery_sleep(const struct hw_delivery *d, uint64_t ms, struct hw_error *err)
{
    uint64_t end = hw_now_monotonic_ns() + ms * MS_NS;
    for (;;) {
        if (d->stop && *d->stop)
            return hw_fail(err, HW_EBUSY, 0, "stopped");
        uint64_t now = hw_now_monotonic_ns();
        if (now >= end)
            return HW_OK;
        uint64_t step = end - now < SLEEP_STEP_MS * MS_NS ? end - now : SLEEP_STEP_MS * MS_NS;
        struct timespec t = {.tv_nsec = (long)step};
        (void)nanosleep(&t, NULL); /* a signal interrupts it; the loop checks again */
    }
}

static uint64_t until_next_ms(const struct hw_delivery *d)
{
    uint64_t now = hw_now_monotonic_ns();
    return d->fails && d->next_ns > now ? (d->next_ns - now) / MS_NS + 1 : 0;
}

/* Without a spool: blocks until the entry is done, refused or given up. */
static int send_blocking(struct hw_delivery *d, const struct hw_entry *e, struct hw_error *err)
{
    enum hw_send_result sent = HW_SEND_AGAIN;
    for (;;) {
        if (hw_delivery_gave_up(d)) {
            d->n_lost++;
            return HW_OK;
        }
        int rc = attempt(d, e, /* repeated = */ false, &sent, err);
        if (rc < 0 || sent != HW_SEND_AGAIN)
            return rc;
        uint64_t left = d->retry_ms - (hw_now_monotonic_ns() - d->first_fail_ns) / MS_NS;
        uint64_t wait = until_next_ms(d);
        if (!hw_delivery_gave_up(d))
            rc = hw_delivery_sleep(d, wait < left ? wait : left, err);
        if (rc < 0)
            return rc;
    }
}

static int spool_entry(struct hw_delivery *d, const struct hw_entry *e, struct hw_error *err)
{
    struct hw_error why = {0};
    int rc = hw_spool_add(d->spool, e, &why);
    if (rc < 0) {
        d->n_lost++;
        tell(d, HW_DELIVERY_DROPPED, why.text);
        if (rc != HW_ELIMIT && rc != HW_ESYS) {
            if (err)
                *err = why;
            return rc;
        }
    }
    return HW_OK;
}

int hw_delivery_give(struct hw_delivery *d, const struct hw_entry *e, struct hw_error *err)
{
    enum hw_send_result sent = HW_SEND_AGAIN;
    if (!d->spool)
        return send_blocking(d, e, err);
    if (hw_spool_count(d->spool) == 0 && d->fails == 0) {
        int rc = attempt(d, e, /* repeated = */ false, &sent, err);
        if (rc == HW_EBUSY) /* stopped: spooled for the next run */
            return spool_entry(d, e, err);
        if (rc < 0)
            return rc;
    }
    return sent == HW_SEND_AGAIN ? spool_entry(d, e, err) : HW_OK;
}

int hw_delivery_step(struct hw_delivery *d, uint64_t *wait_ms, struct hw_error *err)
{
    struct hw_entry e;
    enum hw_send_result sent;
    *wait_ms = UINT64_MAX;
    if (!d->spool || hw_spool_count(d->spool) == 0)
        return HW_OK;
    *wait_ms = until_next_ms(d);
    if (*wait_ms)
        return HW_OK;
    int rc = hw_spool_peek(d->spool, &e, err);
    if (rc <= 0)
        return rc;
    /* The process that spooled it may have sent it and been killed before recording that. */
    rc = attempt(d, &e, /* repeated = */ true, &sent, err);
    hw_entry_done(&e);
    if (rc == 0 && sent != HW_SEND_AGAIN)
        hw_spool_pop(d->spool);
    *wait_ms = hw_spool_count(d->spool) ? until_next_ms(d) : UINT64_MAX;
    return rc;
}

int hw_delivery_drain(struct hw_delivery *d, struct hw_error *err)
{
    uint64_t wait_ms = 0;
    int rc = HW_OK;
    while (rc == 0 && !hw_delivery_gave_up(d)) {
        rc = hw_delivery_step(d, &wait_ms, err);
        if (rc < 0 || wait_ms == UINT64_MAX)
            break;
        if (wait_ms && !hw_delivery_gave_up(d)) {
            uint64_t left = d->retry_ms - (hw_now_monotonic_ns() - d->first_fail_ns) / MS_NS;
            rc = hw_delivery_sleep(d, wait_ms < left ? wait_ms : left, err);
        }
    }
    return rc;
}
