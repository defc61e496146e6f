/* What a session says to its command, and what it has counted. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core.h"

#include "base/banned.h"

#define MS UINT64_C(1000000)

void hw_session_warn(struct hw_session *s, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (s->control)
        hw_control_send(s->control, HW_CTL_WARNING, s->id, NULL, 0, text);
    else
        hw_log(WARN, "%s", text);
}

uint64_t hw_session_period_ns(const char *name, uint64_t usual_ms)
{
    const char *text = secure_getenv(name);
    char *end = NULL;
    unsigned long ms = text && text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    return (end && *end == '\0' && ms >= 50 && ms < usual_ms ? ms : usual_ms) * MS;
}

/* The recorder could not answer faster: that time is not the user's. */
void hw_session_wrote(struct hw_session *s, uint64_t began_ns)
{
    if (!s->stopping || s->hurried)
        return;
    uint64_t since = began_ns > s->stopped_ns ? began_ns : s->stopped_ns;
    s->stop_deadline_ns += hw_now_monotonic_ns() - since;
}

uint64_t hw_target_samples(const struct hw_target *t)
{
    uint64_t now = 0;
    if (t->feed)
        now = atomic_load_explicit(&t->feed->ring.shm->counters.samples, memory_order_relaxed);
    return now > t->n_samples ? now : t->n_samples;
}

void hw_session_counters(const struct hw_session *s, uint64_t *samples, uint64_t *lost)
{
    *samples = *lost = 0;
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        if (t->session != s || !t->feed)
            continue;
        const struct hw_ring_counters *c = &t->feed->ring.shm->counters;
        *samples += hw_target_samples(t);
        *lost += atomic_load_explicit(&c->lost_full, memory_order_relaxed);
    }
    *samples = *samples > s->n_samples ? *samples : s->n_samples;
    *lost = *lost > s->n_lost ? *lost : s->n_lost;
}

uint64_t hw_session_sampling_ns(const struct hw_session *s)
{
    uint64_t ns = s->spent_ns;
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->feed)
            ns += atomic_load_explicit(&t->feed->spent_ns, memory_order_relaxed);
    }
    return ns;
}

uint64_t hw_session_cpu_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u); /* cannot fail for ourselves */
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

void hw_session_write_failed(struct hw_session *s, int rc, const struct hw_error *err)
{
    if (s->status < 0)
        return; /* said once */
    (void)snprintf(s->reason, sizeof s->reason, "%.120s; what was written before is readable",
                   err->text);
    s->status = rc;
    hw_session_warn(s, "%s", s->reason);
}
