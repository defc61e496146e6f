/*
 * start_when.c - processes that wait for their condition (--start-when)
 *
 * Their clients are told to wait, or they are not attached to, until one of them is true.
 */
#include "daemon/session/start_when.h"

#include "base/log.h"
#include "daemon/core.h"
#include "daemon/session/condition.h"

#include "base/banned.h"

static bool is_conditional(const struct hw_heapprofd_config *c)
{
    for (size_t i = 0; i < c->conditions.n; i++)
        if (c->conditions.v[i].act == HW_ACT_START)
            return true;
    return false;
}

bool hw_start_when_is_due(struct hw_session *s, uint32_t source, const struct hw_pid *pid)
{
    struct hw_awaited_start w = {.source = source, .pid = HW_PID_NONE};
    if (!is_conditional(s->sources.v[source].config))
        return true;
    for (size_t i = 0; i < s->waiting.n; i++)
        if (hw_pid_is_same(&s->waiting.v[i].pid, pid))
            return s->waiting.v[i].begun;
    if (hw_pid_open(pid->pid, &w.pid, NULL) == HW_OK &&
        (!hw_pid_is_same(&w.pid, pid) || hw_vec_push(&s->waiting, w) < 0))
        hw_pid_done(&w.pid); /* it is asked about again at its next try */
    return false;
}

bool hw_start_when_awaits(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        for (size_t k = 0; k < r->sessions.v[i]->waiting.n; k++)
            if (r->sessions.v[i]->waiting.v[k].pid.pid == pid)
                return true;
    return false;
}

static bool may_begin(struct hw_session *s, struct hw_awaited_start *x, uint64_t now)
{
    const struct hw_heapprofd_config *c = s->sources.v[x->source].config;
    struct hw_condition_facts f =
        hw_condition_measure(c, &x->triggers, x->pid.dir, /* limits = */ false, now);
    for (size_t i = 0; i < c->conditions.n; i++) {
        const struct hw_when *w = &c->conditions.v[i];
        if (w->act != HW_ACT_START)
            continue;
        if (hw_condition_is_true(&x->triggers, i, w, &f) ||
            (w->kind == HW_WHEN_TIME && hw_condition_value(s, w->kind, now) >= w->limit) ||
            (w->kind == HW_WHEN_SIGNAL && s->signalled))
            return true;
    }
    return false;
}

void hw_start_when_tick(struct hw_session *s, uint64_t now)
{
    for (size_t i = 0; i < s->waiting.n; i++) {
        struct hw_awaited_start *x = &s->waiting.v[i];
        if (x->begun || !hw_pid_alive(&x->pid) || !may_begin(s, x, now))
            continue;
        x->begun = true;
        hw_log(INFO, "process %d: its profile begins", x->pid.pid);
        if (!hw_clients_wake_one(s->rec, x->pid.pid))
            (void)hw_vec_push(&s->scan, x->pid.pid); /* without memory: it is not profiled */
    }
    s->signalled = false;
}

void hw_start_when_end(struct hw_session *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) {
        struct hw_awaited_start *x = &s->waiting.v[i];
        struct hw_control_target_state b = {.pid = x->pid.pid, .state = HW_TARGET_FAILED};
        static const char text[] =
            "no --start-when condition came true for it, so its profile never began";
        if (!x->begun && hw_session_refuse(s, x->source, x->pid.pid, text))
            hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, text);
    }
}

void hw_start_when_forget(struct hw_session *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) {
        hw_limits_done(&s->waiting.v[i].triggers.limits);
        hw_pid_done(&s->waiting.v[i].pid);
    }
    hw_vec_done(&s->waiting);
}
