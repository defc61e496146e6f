/* Who is notified of what about a target. */
#include "daemon/events.h"

#include "daemon/core.h"
#include "daemon/policy/unrecorded.h"

#include "base/banned.h"

static void joined(struct hw_target *t)
{
    struct hw_session *s = t->session;
    if (hw_session_follow(s, &t->pid, t->source)) /* else its children are not followed */
        hw_exec_watch_follow(s, t->pid.pid);
    if (t->hello.flags & HW_HELLO_FORKED)
        hw_inject_forked(s, &t->pid);
    hw_unrecorded_had(s, &t->pid);
    hw_session_has(s, t->source, t->pid.pid);
    hw_record_again_joined(t);
    s->n_targets++;
}

static void ended(struct hw_target *t)
{
    if (t->end == HW_END_EXECED)
        hw_inject_execed(t->rec, &t->pid);
    hw_record_again_ended(t);
}

const struct hw_target_events hw_target_events = {.joined = joined,
                                                  .ended = ended,
                                                  .allocation_failed = hw_trigger_failure,
                                                  .look_failed = hw_live_view_no_memory};
