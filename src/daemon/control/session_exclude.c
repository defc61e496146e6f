/*
 * Processes that leave a session before it ends: one of the session's processes is no longer
 * profiled, the others are. Its last dump is written, its hooks return to their fast path, and the
 * session does not take it again.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "daemon/core.h"

#include "base/banned.h"

#define MAX_LEFT 4096u

static void forget_ended(struct hw_session *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->left.n; i++)
        if (kill(s->left.v[i].pid, 0) == 0 || errno == EPERM)
            s->left.v[kept++] = s->left.v[i];
    s->left.n = kept;
}

static struct hw_target *find(const struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->pid.pid == pid &&
            (t->phase == HW_PHASE_RUNNING || t->phase == HW_PHASE_PREPARING))
            return t;
    }
    return NULL;
}

void hw_handle_exclude(struct hw_control_conn *c, uint64_t id, struct hw_bytes body)
{
    struct hw_session *s = hw_control_session(c, id);
    int32_t pid = 0;
    uint32_t n = 0;
    if (body.n == sizeof pid)
        memcpy(&pid, body.p, sizeof pid);
    struct hw_target *t = s && !s->stopping ? find(s, pid) : NULL;
    if (!t) {
        hw_control_fail(c, s ? "that process is not being profiled in this session"
                             : "no such session");
        return;
    }
    if (s->left.n >= MAX_LEFT)
        forget_ended(s);
    if (s->left.n >= MAX_LEFT ||
        hw_vec_push(&s->left, ((struct hw_left_process){pid, t->pid.start_ticks})) < 0) {
        hw_control_fail(c, "too many processes have been taken out of this session");
        return;
    }
    hw_target_finish(t, HW_END_SESSION);
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *o = s->rec->targets.v[i];
        n += o->session == s && (o->phase == HW_PHASE_RUNNING || o->phase == HW_PHASE_PREPARING);
    }
    hw_control_send(c, HW_CTL_LEFT, s->id, &n, sizeof n, NULL);
}
