/*
 * trigger.c - conditions, and checkpoints before a limit ends the process
 *
 * Conditions to start keep a process waiting until one of them is true for it: its client is told
 * to wait, or it is not attached to.
 *
 * Conditions about one process dump that process, those about the session all of them. Each acts
 * once, but rss+SIZE at every growth. Every 50 ms (with many targets less often) what they ask
 * about is read.
 *
 * Without any condition a session with checkpoints makes one when a process comes near to a limit
 * (80, 90, 95, 98 % of it), or when the kernel reports that memory is short (PSI): who kills next
 * may kill the recorder, too (memory.oom.group), and what was written by then stays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "daemon/core.h"

#include "base/banned.h"

#define MS             UINT64_C(1000000)
#define EVERY          (50 * MS)
#define FEW            8u           /* targets */
#define LIMITS_AGAIN   (5000 * MS)  /* limits change, processes move to other groups */
#define PRESSURE_EVERY (10000 * MS) /* a checkpoint for it */
#define NEAR_LIMIT     "near-limit"
#define PRESSURE       "memory-pressure"

static const uint32_t levels[] = {80, 90, 95, 98}; /* percent of a limit */

bool hw_trigger_is_checkpoint(const char *trigger)
{
    static const char *const names[] = {"checkpoint", NEAR_LIMIT, PRESSURE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(trigger, names[i]) == 0)
            return true;
    return false;
}

bool hw_trigger_wants_failures(const struct hw_heapprofd_config *c)
{
    for (size_t i = 0; i < c->conditions.n; i++)
        if (c->conditions.v[i].kind == HW_WHEN_FAILURE)
            return true;
    return false;
}

/* ---- actions ---- */

static void stop(struct hw_session *s, const struct hw_when *w)
{
    char reason[HW_WHEN_TEXT_MAX + 32];
    (void)snprintf(reason, sizeof reason, "its condition '%s' is true", w->text); /* fits */
    hw_session_stop(s, reason, HW_OK);
}

static void act(struct hw_target *t, const struct hw_when *w)
{
    if (w->act == HW_ACT_STOP)
        stop(t->session, w);
    else
        hw_dump_request(t, w->text, /* final = */ false);
}

/* ---- about one process ---- */

static uint64_t rss_bytes(int proc_dir)
{
    char *text;
    size_t n;
    unsigned long long pages = 0;
    if (hw_file_read(proc_dir, "statm", 4096, &text, &n, NULL) < 0)
        return 0;
    if (sscanf(text, "%*u %llu", &pages) != 1)
        pages = 0;
    free(text);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool has_grown(struct hw_target_triggers *g, size_t i, uint64_t rss, uint64_t limit)
{
    uint64_t *base = &g->base[i];
    if (*base == 0 || rss < *base)
        *base = *base ? *base : rss; /* what it shrank by must grow again first */
    if (rss < *base || rss - *base < limit)
        return false;
    *base = rss;
    return true;
}

static uint32_t percent_used(struct hw_target_triggers *g, int proc_dir, uint64_t now)
{
    if (now - g->limits_ns > LIMITS_AGAIN || g->limits_ns == 0) {
        hw_limits_done(&g->limits);
        hw_limits_init(&g->limits, proc_dir, &hw_limits_usual);
        g->limits_ns = now;
    }
    struct hw_limit_state s = hw_limits_nearest(&g->limits, proc_dir, &hw_limits_usual);
    return hw_limit_percent(&s);
}

static void check_level(struct hw_target *t, uint32_t percent)
{
    uint32_t level = 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (percent >= levels[i])
            level = levels[i];
    if (level > t->triggers.level)
        hw_dump_request(t, NEAR_LIMIT, /* final = */ false);
    if (level > t->triggers.level || percent + 10 < t->triggers.level)
        t->triggers.level = level;
}

static bool is_true(struct hw_target_triggers *g, size_t i, const struct hw_when *w, uint64_t rss,
                    uint32_t percent)
{
    switch (w->kind) {
    case HW_WHEN_RSS:
        return rss >= w->limit;
    case HW_WHEN_RSS_GROWTH:
        return has_grown(g, i, rss, w->limit);
    case HW_WHEN_MEMORY_LIMIT:
        return percent >= w->limit;
    case HW_WHEN_FAILURE: /* the drain thread tells */
    case HW_WHEN_TIME:
    case HW_WHEN_SAMPLES:
    case HW_WHEN_DUMPS:
    case HW_WHEN_SIGNAL:
    case HW_WHEN_KIND_COUNT:
        break;
    }
    return false;
}

static bool asks(const struct hw_heapprofd_config *c, enum hw_when_kind a, enum hw_when_kind b)
{
    for (size_t i = 0; i < c->conditions.n; i++)
        if (c->conditions.v[i].kind == a || c->conditions.v[i].kind == b)
            return true;
    return false;
}

static void check_target(struct hw_target *t, uint64_t now)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    bool checkpoints = t->session->start.flags & HW_START_CHECKPOINTS;
    uint64_t rss = asks(c, HW_WHEN_RSS, HW_WHEN_RSS_GROWTH) ? rss_bytes(t->pid.dir) : 0;
    uint32_t percent = checkpoints || asks(c, HW_WHEN_MEMORY_LIMIT, HW_WHEN_MEMORY_LIMIT)
                           ? percent_used(&t->triggers, t->pid.dir, now)
                           : 0;
    for (size_t i = 0; i < c->conditions.n; i++) {
        const struct hw_when *w = &c->conditions.v[i];
        if (w->act == HW_ACT_START || t->triggers.fired >> i & 1 ||
            !is_true(&t->triggers, i, w, rss, percent))
            continue;
        if (w->kind != HW_WHEN_RSS_GROWTH)
            t->triggers.fired |= 1u << i;
        act(t, w);
    }
    if (checkpoints && t->phase == HW_PHASE_RUNNING)
        check_level(t, percent);
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

static void dump_all(struct hw_session *s, uint32_t source, const char *trigger)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->source == source && t->phase == HW_PHASE_RUNNING)
            hw_dump_request(t, trigger, /* final = */ false);
    }
}

static uint64_t session_value(const struct hw_session *s, enum hw_when_kind kind, uint64_t now)
{
    uint64_t samples = 0, lost;
    switch (kind) {
    case HW_WHEN_TIME:
        return (now - s->started_ns) / MS;
    case HW_WHEN_DUMPS:
        return s->n_dumps;
    case HW_WHEN_SAMPLES:
        hw_session_counters(s, &samples, &lost);
        return samples;
    case HW_WHEN_RSS:
    case HW_WHEN_RSS_GROWTH:
    case HW_WHEN_FAILURE:
    case HW_WHEN_MEMORY_LIMIT:
    case HW_WHEN_SIGNAL:
    case HW_WHEN_KIND_COUNT:
        break;
    }
    return 0; /* no limit is that low */
}

static void check_source(struct hw_session *s, uint32_t source, uint64_t now)
{
    struct hw_session_source *src = &s->sources.v[source];
    for (size_t i = 0; i < src->config->conditions.n && !s->stopping; i++) {
        const struct hw_when *w = &src->config->conditions.v[i];
        if (w->act == HW_ACT_START || src->fired >> i & 1 ||
            session_value(s, w->kind, now) < w->limit)
            continue;
        src->fired |= 1u << i;
        if (w->act == HW_ACT_STOP)
            stop(s, w);
        else
            dump_all(s, source, w->text);
    }
}

/* ---- when a profile begins ---- */

static bool hw_start_is_conditional(const struct hw_heapprofd_config *c)
{
    for (size_t i = 0; i < c->conditions.n; i++)
        if (c->conditions.v[i].act == HW_ACT_START)
            return true;
    return false;
}

static bool is_same(const struct hw_pid *a, const struct hw_pid *b)
{
    return a->pid == b->pid && a->start_ticks == b->start_ticks;
}

bool hw_start_is_due(struct hw_session *s, uint32_t source, const struct hw_pid *pid)
{
    struct hw_waiting w = {.source = source, .pid = HW_PID_NONE};
    if (!hw_start_is_conditional(s->sources.v[source].config))
        return true;
    for (size_t i = 0; i < s->waiting.n; i++)
        if (is_same(&s->waiting.v[i].pid, pid))
            return s->waiting.v[i].begun;
    if (hw_pid_open(pid->pid, &w.pid, NULL) == HW_OK &&
        (!is_same(&w.pid, pid) || hw_vec_push(&s->waiting, w) < 0))
        hw_pid_done(&w.pid); /* it is asked about again at its next try */
    return false;
}

bool hw_start_awaits(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        for (size_t k = 0; k < r->sessions.v[i]->waiting.n; k++)
            if (r->sessions.v[i]->waiting.v[k].pid.pid == pid)
                return true;
    return false;
}

static bool may_begin(struct hw_session *s, struct hw_waiting *x, uint64_t now)
{
    const struct hw_heapprofd_config *c = s->sources.v[x->source].config;
    uint64_t rss = rss_bytes(x->pid.dir);
    uint32_t percent = asks(c, HW_WHEN_MEMORY_LIMIT, HW_WHEN_MEMORY_LIMIT)
                           ? percent_used(&x->triggers, x->pid.dir, now)
                           : 0;
    for (size_t i = 0; i < c->conditions.n; i++) {
        const struct hw_when *w = &c->conditions.v[i];
        if (w->act != HW_ACT_START)
            continue;
        if (is_true(&x->triggers, i, w, rss, percent) ||
            (w->kind == HW_WHEN_TIME && session_value(s, w->kind, now) >= w->limit) ||
            (w->kind == HW_WHEN_SIGNAL && s->signalled))
            return true;
    }
    return false;
}

static void tick_waiting(struct hw_session *s, uint64_t now)
{
    for (size_t i = 0; i < s->waiting.n; i++) {
        struct hw_waiting *x = &s->waiting.v[i];
        if (x->begun || !hw_pid_alive(&x->pid) || !may_begin(s, x, now))
            continue;
        x->begun = true;
        hw_log(INFO, "process %d: its profile begins", x->pid.pid);
        if (!hw_clients_wake_one(s->rec, x->pid.pid))
            (void)hw_vec_push(&s->scan, x->pid.pid); /* without memory: it is not profiled */
    }
    s->signalled = false;
}

/* Those whose moment never came have an empty profile that says so. */
void hw_start_done(struct hw_session *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) {
        struct hw_waiting *x = &s->waiting.v[i];
        struct hw_control_target_state b = {.pid = x->pid.pid, .state = HW_TARGET_FAILED};
        static const char text[] =
            "no --start-when condition came true for it, so its profile never began";
        if (!x->begun && hw_session_refuse(s, x->source, x->pid.pid, text))
            hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, text);
    }
}

void hw_start_forget(struct hw_session *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) {
        hw_limits_done(&s->waiting.v[i].triggers.limits);
        hw_pid_done(&s->waiting.v[i].pid);
    }
    hw_vec_done(&s->waiting);
}

void hw_triggers_tick(struct hw_session *s, uint64_t now)
{
    if (now < s->next_trigger_ns)
        return;
    s->next_trigger_ns = now + EVERY * (s->rec->targets.n / FEW + 1);
    tick_waiting(s, now);
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
        hw_session_dump(s, PRESSURE, NULL, 0);
    }
}
