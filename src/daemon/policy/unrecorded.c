/*
 * unrecorded.c - the list, and when a number in it is another process's
 *
 * /proc gives a process's start in ticks of the boot clock: a process that started after the entry
 * was made has only the number in common with it.
 */
#include "daemon/policy/unrecorded.h"

#include <unistd.h>

#include "base/clock.h"
#include "daemon/core.h"

#include "base/banned.h"

#define MAX_NAMED 65536u

static uint64_t now_ticks(void)
{
    return hw_now_boottime_ns() / (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void add(struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->missed.n; i++)
        if (s->missed.v[i].pid == pid)
            return;
    if (s->missed.n >= MAX_NAMED || hw_vec_push(&s->missed, ((struct hw_missed){pid, now_ticks()})))
        s->n_missed_more++;
}

bool hw_unrecorded_counts(const struct hw_session *s)
{
    bool follows = s->start.flags & HW_START_FOLLOW_FORK;
    for (size_t i = 0; i < s->sources.n; i++)
        follows |= s->sources.v[i].config->all && !(s->start.flags & HW_START_LAUNCHED);
    return follows && !s->closed;
}

/* It was recorded: what it said before, and did not wait for, is no loss. */
static bool has(const struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->rec->targets.n; i++)
        if (s->rec->targets.v[i]->session == s && s->rec->targets.v[i]->pid.pid == pid &&
            s->rec->targets.v[i]->phase != HW_PHASE_DONE)
            return true;
    return false;
}

void hw_unrecorded_conn(const struct hw_conn *c)
{
    if (!(c->hello.flags & (HW_HELLO_FORKED | HW_HELLO_ARMED)))
        return;
    for (size_t i = 0; i < c->rec->sessions.n; i++) {
        struct hw_session *s = c->rec->sessions.v[i];
        if (hw_unrecorded_counts(s) && !has(s, c->pid) &&
            (c->rec->embedded || s->uid == 0 || s->uid == c->uid))
            add(s, c->pid);
    }
}

bool hw_unrecorded_target(const struct hw_target *t)
{
    if (!(t->hello.flags & (HW_HELLO_FORKED | HW_HELLO_ARMED)))
        return false;
    add(t->session, t->pid.pid);
    return true;
}

void hw_unrecorded_start(struct hw_session *s, int32_t pid)
{
    add(s, pid);
}

void hw_unrecorded_had(struct hw_session *s, const struct hw_pid *pid)
{
    for (size_t i = 0; i < s->missed.n; i++)
        if (s->missed.v[i].pid == pid->pid && pid->start_ticks <= s->missed.v[i].ticks) {
            s->missed.v[i] = s->missed.v[--s->missed.n];
            return;
        }
}

uint32_t hw_unrecorded_count(const struct hw_session *s)
{
    return (uint32_t)s->missed.n + s->n_missed_more;
}
