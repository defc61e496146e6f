/*
 * trigger.c - what conditions do, and checkpoints before a limit ends the process
 *
 * Conditions about one process dump that process, those about the session all of them. Each acts
 * once, except rss+SIZE, which acts at every growth. Every 50 ms (with many targets less often)
 * their values are read.
 *
 * Without any condition a session with checkpoints makes one when a process comes near a limit (80,
 * 90, 95, 98 % of it), or when the kernel reports that memory is short (PSI): the next kill may
 * include the recorder (memory.oom.group), and what was written by then stays.
 */
#include <stdio.h>

#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/session/condition.h"
#include "daemon/session/start_when.h"

#include "base/banned.h"

#define MS             UINT64_C(1000000)
#define EVERY          (50 * MS)
#define FEW            8u           /* targets */
#define PRESSURE_EVERY (10000 * MS) /* a checkpoint for it */

static const uint32_t levels[] = {80, 90, 95, 98}; /* percent of a limit */

/* ---- actions ---- */

static void stop(struct hw_session *s, const struct hw_when *w)
{
    char reason[HW_WHEN_TEXT_MAX + 32];
    (void)snprintf(reason, sizeof reason, "its condition '%s' is true", w->text); /* fits */
    hw_session_stop(s, reason);
}

static void act(struct hw_target *t, const struct hw_when *w)
{
    if (w->act == HW_ACT_STOP)
        stop(t->session, w);
    else
        hw_dump_request(t, w->text, /* final = */ false);
}

/* ---- about one process ---- */

static void check_level(struct hw_target *t, uint32_t percent)
{
    uint32_t level = 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (percent >= levels[i])
            level = levels[i];
    if (level > t->triggers.level)
        hw_dump_request(t, HW_TRIGGER_NEAR_LIMIT, /* final = */ false);
    if (level > t->triggers.level || percent + 10 < t->triggers.level)
        t->triggers.level = level;
}

static void check_target(struct hw_target *t, uint64_t now)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    bool checkpoints = t->session->start.flags & HW_START_CHECKPOINTS;
    struct hw_condition_facts f =
        hw_condition_measure(c, &t->triggers, t->pid.dir, /* limits = */ checkpoints, now);
    for (size_t i = 0; i < c->conditions.n; i++) {
        const struct hw_when *w = &c->conditions.v[i];
        if (w->act == HW_ACT_START || t->triggers.fired >> i & 1 ||
            !hw_condition_is_true(&t->triggers, i, w, &f))
            continue;
        if (w->kind != HW_WHEN_RSS_GROWTH)
            t->triggers.fired |= 1u << i;
        act(t, w);
    }
    if (checkpoints && t->phase == HW_PHASE_RUNNING)
        check_level(t, f.limit_percent);
}

void hw_trigger_failure(struct hw_target *t)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    for (size_t i = 0; t->phase == HW_PHASE_RUNNING && i < c->conditions.n; i++)
        if (c->conditions.v[i].kind == HW_WHEN_FAILURE && c->conditions.v[i].act == HW_ACT_STOP) {
            stop(t->session, &c->conditions.v[i]);
            return;
        }
}

/* ---- about the session ---- */

static void check_source(struct hw_session *s, uint32_t source, uint64_t now)
{
    struct hw_session_source *src = &s->sources.v[source];
    for (size_t i = 0; i < src->config->conditions.n && !s->stopping; i++) {
        const struct hw_when *w = &src->config->conditions.v[i];
        if (w->act == HW_ACT_START || src->fired >> i & 1 ||
            hw_condition_value(s, w->kind, now) < w->limit)
            continue;
        src->fired |= 1u << i;
        if (w->act == HW_ACT_STOP)
            stop(s, w);
        else
            hw_session_dump_source(s, source, w->text);
    }
}

void hw_triggers_tick(struct hw_session *s, uint64_t now)
{
    if (now < s->next_trigger_ns)
        return;
    s->next_trigger_ns = now + EVERY * (s->rec->targets.n / FEW + 1);
    hw_start_when_tick(s, now);
    for (uint32_t i = 0; i < s->sources.n && !s->stopping; i++)
        check_source(s, i, now);
    for (size_t i = 0; i < s->rec->targets.n && !s->stopping; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->phase == HW_PHASE_RUNNING && !t->launcher)
            check_target(t, now);
    }
}

void hw_triggers_pressure(struct hw_recorder *r)
{
    uint64_t now = hw_now_monotonic_ns();
    for (size_t i = 0; i < r->sessions.n; i++) {
        struct hw_session *s = r->sessions.v[i];
        if (!(s->start.flags & HW_START_CHECKPOINTS) || s->stopping ||
            (s->pressure_ns && now - s->pressure_ns < PRESSURE_EVERY))
            continue;
        s->pressure_ns = now;
        hw_session_dump(s, HW_TRIGGER_PRESSURE, NULL, 0);
    }
}
