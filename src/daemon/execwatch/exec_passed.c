/*
 * exec_passed.c - programs whose start was not held because others of their kind are
 *
 * Their allocations are counted with those of the others (exec_share.h), so they are left alone,
 * and so are their children; but one that lives on is no short program that others can stand for,
 * and is found when it is no longer young.
 */
#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "daemon/execwatch/exec_matcher_parts.h"

#include "base/banned.h"

static void add(struct hw_exec_finder *f, int32_t pid, uint64_t now)
{
    uint64_t due = now + f->rules.sessions.v[0].young_ns;
    if (hw_vec_push(&f->passed.v, ((struct hw_exec_armed){pid, due})) == 0)
        (void)hw_map64_put(&f->passed_due, (uint64_t)pid, due); /* else it is found earlier */
}

/* Most are over. */
static void see(struct hw_exec_finder *f)
{
    const struct hw_exec_watch_shared *s = f->shared;
    uint32_t n = atomic_load_explicit(&s->n_passed, memory_order_acquire);
    if (n == f->n_passed)
        return;
    uint64_t now = hw_now_monotonic_ns();
    if (n - f->n_passed > HW_EXEC_N_PASSED)
        f->n_passed = n - HW_EXEC_N_PASSED;
    for (; f->n_passed != n; f->n_passed++) {
        uint32_t i = f->n_passed % HW_EXEC_N_PASSED;
        int32_t pid = atomic_load_explicit(&s->passed[i], memory_order_relaxed);
        if (f->rules.sessions.n && kill(pid, 0) == 0)
            add(f, pid, now);
    }
}

bool hw_exec_was_passed(struct hw_exec_finder *f, int32_t pid)
{
    see(f);
    return hw_map64_find(&f->passed_due, (uint64_t)pid) != NULL;
}

bool hw_exec_is_of_passed(struct hw_exec_finder *f, const struct hw_exec_candidate *p)
{
    if (!hw_exec_was_passed(f, p->status.ppid))
        return false;
    add(f, p->status.tgid, hw_now_monotonic_ns());
    return true;
}

void hw_exec_not_passed(struct hw_exec_finder *f, int32_t pid)
{
    if (f->passed_due.n)
        (void)hw_map64_take(&f->passed_due, (uint64_t)pid, NULL);
}

void hw_exec_call_passed(struct hw_exec_finder *f, int32_t pid, uint64_t due_ns)
{
    uint64_t due;
    if (!hw_map64_get(&f->passed_due, (uint64_t)pid, &due) || due != due_ns)
        return; /* another program runs there, which was held */
    hw_exec_not_passed(f, pid);
    (void)hw_exec_look_at(f, pid, 0, NULL); /* it has ended */
}
