/* A session's dumps, and its end, are requested here. Its tick (session.c) carries them out. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/java_source.h"

#include "base/banned.h"

#define SEC      UINT64_C(1000000000)
#define HURRY_NS SEC
#define MS       UINT64_C(1000000)

void hw_session_dump(struct hw_session *s, const char *trigger, const int32_t *pids, size_t n)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        bool meant = n == 0;
        for (size_t k = 0; k < n; k++)
            meant |= pids[k] == t->pid.pid;
        if (t->session == s && meant && t->phase == HW_PHASE_RUNNING)
            hw_dump_request(t, trigger, /* final = */ false);
    }
    if (n || strcmp(trigger, "checkpoint") == 0)
        return;
    for (size_t i = 0; i < s->java.n; i++)
        hw_java_source_dump(s->java.v[i]);
    hw_session_silent_dump(s, /* final = */ false);
}

void hw_session_dump_source(struct hw_session *s, uint32_t source, const char *trigger)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->source == source && t->phase == HW_PHASE_RUNNING)
            hw_dump_request(t, trigger, /* final = */ false);
    }
}

/* A heap graph in progress requests a dump of its process: that one comes first. */
void hw_session_finish_targets(struct hw_session *s, uint64_t now)
{
    bool busy = false;
    for (size_t i = 0; i < s->java.n; i++)
        busy |= hw_java_source_busy(s->java.v[i]);
    if (busy && s->status == HW_OK && now < s->stop_deadline_ns)
        return;
    s->targets_due = false;
    for (size_t i = 0; i < s->rec->targets.n; i++)
        if (s->rec->targets.v[i]->session == s)
            hw_target_finish(s->rec->targets.v[i], HW_END_SESSION);
    hw_session_silent_dump(s, /* final = */ true);
}

void hw_session_stop(struct hw_session *s, const char *reason)
{
    if (s->stopping)
        return;
    s->stopping = true;
    hw_session_forget_parents(s);
    hw_exec_watch_drop(s);
    if (s->status == HW_OK) /* else it says which write failed */
        (void)snprintf(s->reason, sizeof s->reason, "%s", reason);
    uint64_t wait_ms = s->config.stop_timeout_ms ? s->config.stop_timeout_ms : 5000;
    s->stopped_ns = hw_now_monotonic_ns();
    s->stop_deadline_ns = s->stopped_ns + wait_ms * MS;
    s->targets_due = true;
    for (size_t i = 0; i < s->java.n; i++)
        hw_java_source_end(s->java.v[i]);
    hw_session_finish_targets(s, hw_now_monotonic_ns());
}

/* Writes what can be written at once, without names that are not known yet; nothing else is
 * waited for longer than that takes. */
void hw_session_hurry(struct hw_session *s)
{
    if (!s->stopping || s->hurried)
        return;
    s->hurried = true;
    uint64_t end = hw_now_monotonic_ns() + HURRY_NS;
    if (s->stop_deadline_ns > end)
        s->stop_deadline_ns = end;
    if (s->targets_due)
        hw_session_finish_targets(s, s->stop_deadline_ns);
}
