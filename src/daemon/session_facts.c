/* What a session wants, by its configuration and its lists: queries that change nothing. */
#include <errno.h>
#include <signal.h>

#include "daemon/core.h"

#include "base/banned.h"

bool hw_session_wants_idle(const struct hw_session *s, uint32_t source)
{
    return (s->start.flags & HW_START_IDLE) || s->config.heapprofd.v[source].idle_allocations;
}

bool hw_session_wants_pins(const struct hw_session *s)
{
    return (s->start.flags & HW_START_PINNED) != 0;
}

bool hw_session_is_later(const struct hw_session *s, const struct hw_pid *pid)
{
    return pid->start_ticks > s->start_ticks;
}

bool hw_session_has_excluded(const struct hw_session *s, const struct hw_pid *pid)
{
    for (size_t i = 0; i < s->left.n; i++)
        if (s->left.v[i].pid == pid->pid && s->left.v[i].start_ticks == pid->start_ticks)
            return true;
    return false;
}

static bool lives(const struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->left.n; i++)
        if (s->left.v[i].pid == pid)
            return false;
    return kill(pid, 0) == 0 || errno == EPERM;
}

/* Also if they live, but are no longer profiled: after an exec it is another program. */
bool hw_session_excluded_all(const struct hw_session *s)
{
    for (size_t i = 0; i < s->sources.n; i++) {
        const struct hw_heapprofd_config *c = s->sources.v[i].config;
        if (c->all || c->process_cmdline.n)
            return false;
        for (size_t k = 0; k < c->pids.n; k++)
            if (s->n_targets == 0 && lives(s, (int32_t)c->pids.v[k]))
                return false;
    }
    return true;
}
