/* condition.c - the values that conditions compare, and whether they hold now */
#include "daemon/session/condition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "daemon/core.h"

#include "base/banned.h"

#define MS           UINT64_C(1000000)
#define LIMITS_AGAIN (5000 * MS) /* limits change, processes move to other groups */

bool hw_trigger_is_checkpoint(const char *trigger)
{
    static const char *const names[] = {"checkpoint", HW_TRIGGER_NEAR_LIMIT, HW_TRIGGER_PRESSURE};
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

bool hw_condition_is_true(struct hw_target_triggers *g, size_t i, const struct hw_when *w,
                          const struct hw_condition_facts *f)
{
    switch (w->kind) {
    case HW_WHEN_RSS:
        return f->rss_bytes >= w->limit;
    case HW_WHEN_RSS_GROWTH:
        return has_grown(g, i, f->rss_bytes, w->limit);
    case HW_WHEN_MEMORY_LIMIT:
        return f->limit_percent >= w->limit;
    case HW_WHEN_FAILURE: /* the drain thread reports it */
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

struct hw_condition_facts hw_condition_measure(const struct hw_heapprofd_config *c,
                                               struct hw_target_triggers *g, int proc_dir,
                                               bool limits, uint64_t now)
{
    struct hw_condition_facts f = {0};
    if (asks(c, HW_WHEN_RSS, HW_WHEN_RSS_GROWTH))
        f.rss_bytes = rss_bytes(proc_dir);
    if (limits || asks(c, HW_WHEN_MEMORY_LIMIT, HW_WHEN_MEMORY_LIMIT))
        f.limit_percent = percent_used(g, proc_dir, now);
    return f;
}

/* ---- about the session ---- */

uint64_t hw_condition_value(const struct hw_session *s, enum hw_when_kind kind, uint64_t now)
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
