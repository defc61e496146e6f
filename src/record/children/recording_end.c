#include "record/children/recording_end.h"

#include <errno.h>
#include <signal.h>

#include "base/clock.h"
#include "record/children/offspring.h"
#include "record/controller.h"
#include "record/launch.h"
#include "record/recording.h"
#include "wire/control.h"

#include "base/banned.h"

enum { LONGEST_PAUSE_MS = 200 }; /* between two looks at what is below the program */
static const uint64_t ms = 1000000;

/* What a process executes need not connect: then nobody tells its end. */
static bool targets_live(const struct hw_recording *r)
{
    for (size_t i = 0; i < r->targets.n; i++) {
        const struct hw_seen_target *t = &r->targets.v[i];
        if (t->state == HW_TARGET_CONNECTED ||
            (t->state == HW_TARGET_EXECED && hw_offspring_runs(&t->executed)))
            return true;
    }
    return false;
}

bool hw_recording_awaited_ended(const struct hw_recording *r)
{
    for (size_t i = 0; i < r->n_awaited; i++) {
        bool over = kill((pid_t)r->awaited[i], 0) < 0 && errno == ESRCH;
        for (size_t k = 0; k < r->targets.n; k++)
            if (r->targets.v[k].pid == (int32_t)r->awaited[i])
                over |= r->targets.v[k].state == HW_TARGET_EXITED ||
                        r->targets.v[k].state == HW_TARGET_FAILED ||
                        r->targets.v[k].state == HW_TARGET_REJECTED ||
                        (r->targets.v[k].state == HW_TARGET_EXECED &&
                         !hw_offspring_runs(&r->targets.v[k].executed));
        if (!over)
            return false;
    }
    return r->n_awaited != 0;
}

static void find_orphans(struct hw_recording *r)
{
    hw_offspring_find(&r->offspring, r->launch->pid, hw_controller_pid(r->controller),
                      hw_controller_socket(r->controller));
}

void hw_recording_find_more(struct hw_recording *r)
{
    if (!r->launch || r->launch->pid <= 0)
        return;
    if (!hw_recording_program_runs(r))
        find_orphans(r);
    hw_offspring_scan(&r->offspring, r->launch->pid);
}

bool hw_recording_scan_children(struct hw_recording *r)
{
    uint64_t now = hw_now_monotonic_ns();
    if (r->stop_sent || !r->launch || r->launch->pid <= 0 || now < r->next_look_ns)
        return false;
    hw_offspring_scan(&r->offspring, r->launch->pid);
    if (!hw_recording_program_runs(r) &&
        !(r->follow_fork && targets_live(r))) /* their parent is gone */
        find_orphans(r);
    r->look_pause_ns = r->look_pause_ns < LONGEST_PAUSE_MS * ms / 2 ? 2 * r->look_pause_ns + ms
                                                                    : LONGEST_PAUSE_MS * ms;
    r->next_look_ns = now + r->look_pause_ns;
    return true;
}

static const struct hw_seen_target *target_of(const struct hw_recording *r, int32_t pid)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i].pid == pid)
            return &r->targets.v[i];
    return NULL;
}

/* One that has forked and not allocated since is no target yet. */
static bool more_may_come(struct hw_recording *r)
{
    for (size_t i = 0; i < r->offspring.rows.n; i++) {
        const struct hw_seen_target *t = target_of(r, r->offspring.rows.v[i].pid);
        if ((!t || (t->state != HW_TARGET_FAILED && t->state != HW_TARGET_REJECTED)) &&
            hw_offspring_lives(&r->offspring.rows.v[i]))
            return true;
    }
    return false;
}

bool hw_recording_others_live(struct hw_recording *r)
{
    bool live = targets_live(r) || more_may_come(r);
    r->looks_in_vain = live ? 0 : r->looks_in_vain + 1;
    if (r->looks_in_vain == 1)
        r->next_look_ns = hw_now_monotonic_ns() + HW_RECORDING_SCAN_AGAIN_MS * ms;
    return r->looks_in_vain < 2;
}
