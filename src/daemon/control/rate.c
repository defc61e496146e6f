/*
 * rate.c - the sampling interval of a running session
 *
 * A sample says with which interval it was drawn (wire/records.h), so the interval may change
 * between two samples: nothing is restarted, and live samples stay known. Each target reads the
 * number of doublings in its control page when it samples; programs that start are given the
 * interval.
 */
#include <string.h>

#include "daemon/core.h"

#include "base/banned.h"

void hw_handle_rate(struct hw_control_conn *c, uint64_t id, struct hw_bytes body)
{
    struct hw_session *s = hw_control_session(c, id);
    uint32_t n;
    if (!s || body.n != sizeof n) {
        hw_control_fail(c, s ? "a sampling rate must be one number" : "no such session");
        return;
    }
    memcpy(&n, body.p, sizeof n);
    s->doublings = n < HW_MAX_DOUBLINGS ? n : HW_MAX_DOUBLINGS;
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->page.map)
            atomic_store_explicit(&t->page.map->doublings, s->doublings, memory_order_relaxed);
    }
    hw_exec_watch_rate(s);
}
