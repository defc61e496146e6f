/*
 * record_again.c - processes whose recording broke off, in a session that runs all the time
 *
 *   recorded ── buffer full, … ──> rests ── due: woken by its control page ──> hello ──> recorded
 *
 * Only passing reasons count: a buffer that stayed full, a recorder that seemed dead, a thread that
 * was stopped. Not: shared memory that was damaged (the program would damage the next buffer), no
 * memory in the process, or none that may be locked (it would need the same again), the recorder's
 * own limits (they exist so that it ends).
 *
 * The rest doubles each time, so a process that writes more than we can read costs one handshake in
 * five minutes. Meanwhile another session may have it, if it means it.
 */
#include "daemon/session/record_again.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>

#include "base/clock.h"
#include "daemon/core.h"

#include "base/banned.h"

#define SEC       UINT64_C(1000000000)
#define FIRST_MS  10000u
#define DOUBLINGS 5u          /* 10 s to 320 s */
#define FORGIVEN  (600 * SEC) /* recorded for that long: the next rest is as short as the first */
#define LATER_NS  SEC         /* it cannot be woken yet */
#define MAX_AGAIN 4096u

static struct hw_record_again *find(const struct hw_session *s, const struct hw_pid *pid)
{
    for (size_t i = 0; i < s->broken_off.n; i++)
        if (s->broken_off.v[i].pid == pid->pid &&
            s->broken_off.v[i].start_ticks == pid->start_ticks)
            return &s->broken_off.v[i];
    return NULL;
}

static bool lives(int32_t pid)
{
    return kill(pid, 0) == 0 || errno == EPERM;
}

static void forget_ended(struct hw_session *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->broken_off.n; i++)
        if (lives(s->broken_off.v[i].pid))
            s->broken_off.v[kept++] = s->broken_off.v[i];
    s->broken_off.n = kept;
}

static struct hw_record_again *find_or_add(struct hw_session *s, const struct hw_pid *pid)
{
    struct hw_record_again *a = find(s, pid);
    if (a)
        return a;
    if (s->broken_off.n >= MAX_AGAIN)
        forget_ended(s);
    struct hw_record_again fresh = {.pid = pid->pid, .start_ticks = pid->start_ticks};
    if (s->broken_off.n >= MAX_AGAIN || hw_vec_push(&s->broken_off, fresh) < 0)
        return NULL; /* it stays silent */
    return &s->broken_off.v[s->broken_off.n - 1];
}

static bool is_for_ever(const struct hw_target *t)
{
    switch (t->end) {
    case HW_END_GAVE_UP:
        return atomic_load(&t->feed->ring.shm->client_error) == HW_CLIENT_NO_MEMORY ||
               atomic_load(&t->feed->ring.shm->client_error) == HW_CLIENT_LOCKED_OUT;
    case HW_END_STUCK:
        return false;
    case HW_END_NONE:
    case HW_END_SESSION:
    case HW_END_EXITED:
    case HW_END_EXECED:
    case HW_END_BROKEN:
    case HW_END_GUARDRAIL:
        break;
    }
    return true;
}

void hw_record_again_ended(struct hw_target *t)
{
    struct hw_session *s = t->session;
    uint64_t now = hw_now_monotonic_ns();
    if (!(s->start.flags & HW_START_RESCAN) || s->stopping || is_for_ever(t) ||
        hw_session_has_excluded(s, &t->pid))
        return;
    struct hw_record_again *a = find_or_add(s, &t->pid);
    if (!a)
        return;
    if (a->joined_ns && now - a->joined_ns > FORGIVEN)
        a->n_doublings = 0;
    uint64_t rest = hw_session_period_ns("HEAPWISE_AGAIN_MS", FIRST_MS) << a->n_doublings;
    a->n_doublings += a->n_doublings < DOUBLINGS;
    a->times++;
    a->ended_ns = now;
    a->due_ns = now + rest;
    hw_session_warn(s, "process %d ('%s') is recorded again in %" PRIu64 ".%" PRIu64 " s",
                    t->pid.pid, t->name, rest / SEC, rest % SEC / (SEC / 10));
}

bool hw_record_again_rests(const struct hw_session *s, const struct hw_pid *pid)
{
    const struct hw_record_again *a = find(s, pid);
    return a && a->due_ns;
}

void hw_record_again_joined(struct hw_target *t)
{
    struct hw_record_again *a = find(t->session, &t->pid);
    if (!a)
        return;
    uint64_t now = hw_now_monotonic_ns(), gap = now - a->ended_ns;
    a->due_ns = 0;
    a->joined_ns = now;
    hw_note(t, "gap",
            "recorded again %" PRIu64 ".%" PRIu64 " s after its recording broke off (%" PRIu32
            " so far): what it allocated before is unknown",
            gap / SEC, gap % SEC / (SEC / 10), a->times);
}

static bool is_target(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->pid.pid == pid)
            return true; /* also while its last dump is written: then its page is not back yet */
    return false;
}

int32_t hw_record_again_next(struct hw_session *s, uint64_t now)
{
    for (size_t i = 0; i < s->broken_off.n;) {
        struct hw_record_again *a = &s->broken_off.v[i];
        if (!a->due_ns || now < a->due_ns) {
            i++;
            continue;
        }
        if (!lives(a->pid)) {
            s->broken_off.v[i] = s->broken_off.v[--s->broken_off.n];
            continue;
        }
        i++;
        if (is_target(s->rec, a->pid)) {
            a->due_ns = now + LATER_NS;
            continue;
        }
        a->due_ns = 0;
        return a->pid;
    }
    return 0;
}
