/* continuous_targets.c - finding, replacing and dropping targets */
#include "record/web/continuous_targets.h"

#include "base/clock.h"
#include "base/error.h"
#include "model/profile.h"
#include "proc/pid.h"
#include "record/live_source.h"

#include "base/banned.h"

static void target_done(struct hw_continuous_target *t)
{
    hw_live_source_free(t->source);
    hw_profile_free(t->before);
    hw_continuous_process_done(&t->who);
}

void hw_continuous_targets_clear(hw_continuous_targets *all)
{
    for (size_t i = 0; i < all->n; i++)
        target_done(&all->v[i]);
    hw_vec_clear(all);
}

struct hw_continuous_target *hw_continuous_targets_find(hw_continuous_targets *all, int32_t pid)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].who.pid == pid && !all->v[i].replaced)
            return &all->v[i];
    return NULL;
}

struct hw_continuous_target *hw_continuous_targets_find_ending(hw_continuous_targets *all,
                                                               int32_t pid)
{
    struct hw_continuous_target *oldest = NULL;
    for (size_t i = 0; i < all->n; i++) {
        struct hw_continuous_target *t = &all->v[i];
        if (t->who.pid == pid && !t->who.ended &&
            (!oldest || t->who.began_ns < oldest->who.began_ns))
            oldest = t;
    }
    return oldest;
}

bool hw_continuous_target_is_there(const struct hw_continuous_target *t)
{
    return !t->broke_off && !t->replaced && !t->who.ended;
}

static void forget(hw_continuous_targets *all, struct hw_continuous_target *t)
{
    target_done(t);
    *t = all->v[--all->n];
}

/* It exec'ed another program, or is recorded again. */
static void replace(hw_continuous_targets *all, struct hw_continuous_target *t)
{
    if (t->who.ended) {
        forget(all, t);
        return;
    }
    t->replaced = true;
    t->who.gone_ns = hw_now_monotonic_ns();
}

struct hw_continuous_target *hw_continuous_targets_add(hw_continuous_targets *all, int32_t pid,
                                                       struct hw_bytes name)
{
    struct hw_continuous_target t = {0}, *old = hw_continuous_targets_find(all, pid);
    int rc = hw_continuous_process_init(&t.who, pid, name);
    if (old)
        replace(all, old);
    if (rc == HW_OK && hw_vec_push(all, t) == 0)
        return &all->v[all->n - 1];
    hw_continuous_process_done(&t.who);
    return NULL;
}

static uint64_t start_ticks(int32_t pid)
{
    struct hw_pid p;
    struct hw_proc_stat s = {0};
    if (hw_pid_open(pid, &p, NULL) < 0)
        return 0;
    if (hw_proc_stat(p.dir, &s) < 0)
        s.start_ticks = 0;
    hw_pid_done(&p);
    return s.start_ticks;
}

void hw_continuous_targets_drop(hw_continuous_targets *all, uint64_t wait_ns)
{
    uint64_t now = hw_now_monotonic_ns();
    for (size_t i = all->n; i-- > 0;) {
        struct hw_continuous_target *t = &all->v[i];
        uint64_t ticks = start_ticks(t->who.pid);
        bool gone = t->broke_off || t->replaced || ticks == 0 || ticks != t->who.start_ticks;
        if (gone && !t->who.gone_ns)
            t->who.gone_ns = now; /* its last snapshot is on its way */
        if (t->who.ended || (gone && now - t->who.gone_ns > wait_ns))
            forget(all, t);
    }
}
