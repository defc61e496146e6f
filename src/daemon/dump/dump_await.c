/*
 * dump_await.c - dumps that a command has requested, and the answer when they are in the file
 *
 *   DUMP ── each meant process is asked ── all of them written, or ended, or time is over ──>
 * DUMPED
 *
 * A process numbers its dumps as they begin, and remembers the last one that was written. A command
 * that asks while one is in progress waits for the next: the contents of that one were fixed
 * before.
 */
#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"

#include <string.h>

#include "base/banned.h"

#define WAIT_NS   UINT64_C(60000000000) /* names alone may take 20 s */
#define MAX_ASKED 16u                   /* of one connection */
#define MAX_NAMED 1024u

static bool is_meant(const struct hw_control_conn *c, const struct hw_target *t, uint64_t session,
                     const int32_t *pids, size_t n)
{
    bool meant = n == 0;
    for (size_t k = 0; k < n; k++)
        meant |= pids[k] == t->pid.pid;
    return meant && t->phase == HW_PHASE_RUNNING && (session == 0 || t->session->id == session) &&
           hw_permission_session(c->uid, t->session->uid) == HW_OK;
}

/* Without memory for it that dump is not waited for. */
static void ask_one(struct hw_target *t, struct hw_awaited_dumps *a)
{
    hw_dump_request(t, "command", /* final = */ false);
    struct hw_awaited_dump one = {t->key, hw_dump_number_of_request(t)};
    (void)hw_vec_push(&a->left, one);
    a->n++;
}

static void answer(struct hw_control_conn *c, const struct hw_awaited_dumps *a)
{
    struct hw_control_dumped b = {.n = a->n, .n_missing = (uint32_t)a->left.n};
    hw_control_send(c, HW_CTL_DUMPED, a->session, &b, sizeof b, NULL);
}

void hw_handle_dump(struct hw_control_conn *c, uint64_t session, struct hw_bytes body)
{
    int32_t pids[MAX_NAMED];
    size_t n = body.n / sizeof pids[0] < MAX_NAMED ? body.n / sizeof pids[0] : MAX_NAMED;
    struct hw_awaited_dumps a = {.session = session, .until_ns = hw_now_monotonic_ns() + WAIT_NS};
    memcpy(pids, body.p, n * sizeof pids[0]);
    if (c->awaited.n >= MAX_ASKED) {
        hw_control_fail(c, "this connection is already waiting for dumps");
        return;
    }
    for (size_t i = 0; i < c->rec->targets.n; i++)
        if (is_meant(c, c->rec->targets.v[i], session, pids, n))
            ask_one(c->rec->targets.v[i], &a);
    if (a.left.n == 0) { /* no process is meant: that is known at once */
        answer(c, &a);
        return;
    }
    if (hw_vec_push(&c->awaited, a) < 0) {
        hw_vec_done(&a.left);
        hw_control_fail(c, "no memory to wait for the dumps, which have begun");
    }
}

static bool is_written(const struct hw_recorder *r, const struct hw_awaited_dump *d)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->key == d->key)
            return r->targets.v[i]->dump.written >= d->number;
    return true; /* it has ended, and its last dump says it all */
}

static void look(struct hw_control_conn *c, uint64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->awaited.n; i++) {
        struct hw_awaited_dumps *a = &c->awaited.v[i];
        for (size_t k = a->left.n; k-- > 0;)
            if (is_written(c->rec, &a->left.v[k]))
                a->left.v[k] = a->left.v[--a->left.n];
        if (a->left.n && now < a->until_ns) {
            c->awaited.v[kept++] = *a;
            continue;
        }
        answer(c, a);
        hw_vec_done(&a->left);
    }
    c->awaited.n = kept;
}

void hw_dumps_tick(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->controls.n; i++)
        if (!r->controls.v[i]->closed)
            look(r->controls.v[i], now);
}

void hw_dumps_forget(struct hw_control_conn *c)
{
    for (size_t i = 0; i < c->awaited.n; i++)
        hw_vec_done(&c->awaited.v[i].left);
    hw_vec_done(&c->awaited);
}
