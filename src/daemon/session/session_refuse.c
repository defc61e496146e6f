/* What happens to processes that a session means and cannot have. */
#include <stdio.h>
#include <string.h>

#include "daemon/code/holder.h"
#include "daemon/core.h"
#include "trace/profile_writer.h"

#include "base/banned.h"

/* 0 = there is none any more. */
static uint64_t start_of(int32_t pid)
{
    struct hw_pid p;
    if (hw_pid_open(pid, &p, NULL) < 0)
        return 0;
    uint64_t ticks = p.start_ticks;
    hw_pid_done(&p);
    return ticks;
}

bool hw_session_was_refused(const struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->refused.n; i++) {
        uint64_t now = s->refused.v[i].pid == pid ? start_of(pid) : 0;
        if (s->refused.v[i].pid == pid)
            return now == 0 || now == s->refused.v[i].start_ticks;
    }
    return false;
}

bool hw_session_remember_refused(struct hw_session *s, int32_t pid)
{
    const struct hw_left_process one = {pid, start_of(pid)};
    for (size_t i = 0; i < s->refused.n; i++)
        if (s->refused.v[i].pid == pid) {
            s->refused.v[i] = one; /* the one before has ended */
            return true;
        }
    return hw_vec_push(&s->refused, one) == 0;
}

bool hw_session_refuse(struct hw_session *s, uint32_t source, int32_t pid, const char *reason)
{
    struct hw_error err;
    if (hw_session_was_refused(s, pid) || source >= s->sources.n || s->closed ||
        !hw_session_remember_refused(s, pid))
        return false; /* reported again */
    int rc = hw_profile_refused(s->sources.v[source].writer, (uint64_t)pid,
                                s->sources.v[source].config->default_interval_bytes, reason, &err);
    if (rc < 0)
        hw_session_write_failed(s, rc, &err);
    return true;
}

int hw_session_held_elsewhere(const struct hw_session *s, int32_t holder, int rc,
                              struct hw_error *err)
{
    char who[160];
    hw_holder_describe(s->rec->blocking_reader, &s->asking.who, holder, who, sizeof who);
    return hw_fail(err, rc, 0, "another recorder has it%s%s%s; end that one first",
                   who[0] ? " (" : "", who, who[0] ? ")" : "");
}

void hw_session_called(struct hw_session *s, int32_t pid)
{
    struct hw_control_target_state b = {.pid = pid, .state = HW_TARGET_CALLED};
    hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, NULL);
}

void hw_session_fail(struct hw_session *s, int32_t pid, const char *text)
{
    struct hw_control_target_state b = {.pid = pid, .state = HW_TARGET_FAILED};
    char prefix[32];
    (void)snprintf(prefix, sizeof prefix, "process %d", pid);
    size_t n = strlen(prefix);
    bool first = hw_session_refuse(s, /* source = */ 0, pid, text);
    if (!s->control && first)
        hw_session_warn(s, "not profiled: %s", text);
    if (!s->control)
        return;
    if (strncmp(text, prefix, n) == 0) /* the message begins with it anyway */
        text += text[n] == ':' ? n + 2 : n + 1;
    hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, text);
}

void hw_session_try_again(struct hw_session *s, int32_t pid)
{
    if (!(s->start.flags & HW_START_RESCAN))
        return;
    for (size_t i = 0; i < s->again.n; i++)
        if (s->again.v[i] == pid)
            return;
    (void)hw_vec_push(&s->again, pid); /* without memory it is not asked again */
}
