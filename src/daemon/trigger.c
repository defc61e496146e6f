/*
 * trigger.c - conditions, and checkpoints before a limit ends the process
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
#include "base/fd.h"
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

/* ---- what is done ---- */

static void stop(struct hw_session *s, const struct hw_when *w)
{
    char reason[HW_WHEN_TEXT_MAX + 32];
    (void)snprintf(reason, sizeof reason, "its condition '%s' is true", w->text); /* fits */
    hw_session_stop(s, reason, HW_OK);
}

static void act(struct hw_target *t, const struct hw_when *w)
{
    if (w->stops)
        stop(t->session, w);
    else
        hw_dump_request(t, w->text, /* final = */ false);
}

/* ---- about one process ---- */

static uint64_t rss_bytes(const struct hw_target *t)
{
    char *text;
    size_t n;
    unsigned long long pages = 0;
    if (hw_file_read(t->pid.dir, "statm", 4096, &text, &n, NULL) < 0)
        return 0;
    if (sscanf(text, "%*u %llu", &pages) != 1)
        pages = 0;
    free(text);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool has_grown(struct hw_target *t, size_t i, uint64_t rss, uint64_t limit)
{
    uint64_t *base = &t->triggers.base[i];
    if (*base == 0 || rss < *base)
        *base = *base ? *base : rss; /* what it shrank by must grow again first */
    if (rss < *base || rss - *base < limit)
        return false;
    *base = rss;
    return true;
}

static uint32_t percent_used(struct hw_target *t, uint64_t now)
{
    struct hw_target_triggers *g = &t->triggers;
    if (now - g->limits_ns > LIMITS_AGAIN || g->limits_ns == 0) {
        hw_limits_done(&g->limits);
        hw_limits_init(&g->limits, t->pid.dir, &hw_limits_usual);
        g->limits_ns = now;
    }
    struct hw_limit_state s = hw_limits_nearest(&g->limits, t->pid.dir, &hw_limits_usual);
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

static bool is_true(struct hw_target *t, size_t i, const struct hw_when *w, uint64_t rss,
                    uint32_t percent)
{
    switch (w->kind) {
    case HW_WHEN_RSS:
        return rss >= w->limit;
    case HW_WHEN_RSS_GROWTH:
        return has_grown(t, i, rss, w->limit);
    case HW_WHEN_MEMORY_LIMIT:
        return percent >= w->limit;
    case HW_WHEN_FAILURE: /* the drain thread tells */
    case HW_WHEN_TIME:
    case HW_WHEN_SAMPLES:
    case HW_WHEN_DUMPS:
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
    uint64_t rss = asks(c, HW_WHEN_RSS, HW_WHEN_RSS_GROWTH) ? rss_bytes(t) : 0;
    uint32_t percent = checkpoints || asks(c, HW_WHEN_MEMORY_LIMIT, HW_WHEN_MEMORY_LIMIT)
                           ? percent_used(t, now)
                           : 0;
    for (size_t i = 0; i < c->conditions.n; i++) {
        const struct hw_when *w = &c->conditions.v[i];
        if (t->triggers.fired >> i & 1 || !is_true(t, i, w, rss, percent))
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
    if (t->phase != HW_PHASE_RUNNING)
        return; /* the order for its last dump is answered where it failed */
    for (size_t i = 0; i < c->conditions.n; i++)
        if (c->conditions.v[i].kind == HW_WHEN_FAILURE && c->conditions.v[i].stops) {
            stop(t->session, &c->conditions.v[i]);
            return;
        }
    /* An order that is on its way is answered there, too. */
    if (!t->dump.active || t->dump.snap)
        hw_dump_request(t, HW_TRIGGER_FAILURE, /* final = */ false);
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
    case HW_WHEN_KIND_COUNT:
        break;
    }
    return 0; /* no limit is that low */
}

static void check_source(struct hw_session *s, uint32_t source, uint64_t now)
{
    struct hw_source *src = &s->sources.v[source];
    for (size_t i = 0; i < src->config->conditions.n && !s->stopping; i++) {
        const struct hw_when *w = &src->config->conditions.v[i];
        if (src->fired >> i & 1 || session_value(s, w->kind, now) < w->limit)
            continue;
        src->fired |= 1u << i;
        if (w->stops)
            stop(s, w);
        else
            dump_all(s, source, w->text);
    }
}

void hw_triggers_tick(struct hw_session *s, uint64_t now)
{
    if (now < s->next_trigger_ns)
        return;
    s->next_trigger_ns = now + EVERY * (s->rec->targets.n / FEW + 1);
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
