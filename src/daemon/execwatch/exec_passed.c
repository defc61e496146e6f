/*
 * exec_passed.c - programs whose start was not held because others of their kind are
 *
 * Their allocations are counted with those of the others (exec_share.h), so they are left alone,
 * and so are their children. Short programs do not represent one that lives long, so it is found
 * when it is no longer young.
 */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "daemon/execwatch/exec_matcher_parts.h"
#include "proc/number.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MOST_WAITING (1u << 20)

/* One that is not remembered is found earlier. */
static void add(struct hw_exec_finder *f, int32_t pid, uint64_t now)
{
    uint64_t since = hw_now_boottime_ns(), due = now + f->rules.sessions.v[0].young_ns;
    if (f->passed.v.n - f->passed.n_called < MOST_WAITING &&
        hw_vec_push(&f->passed.v, ((struct hw_exec_armed){pid, due, since})) == 0)
        (void)hw_map64_put(&f->passed_since, (uint64_t)pid, since);
}

/* Once another recording has started, what that one selects must be found at once. */
static bool passes(const struct hw_exec_finder *f)
{
    return hw_exec_rules_starts_per_minute(&f->rules) != 0;
}

/* It got the number after the one that was passed had ended. */
static bool is_another(int32_t pid, uint64_t since)
{
    hw_autofd int dir = hw_proc_open_dir(pid);
    const struct hw_pid p = {pid, -1, dir, /* start_ticks = */ 0};
    uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    return dir >= 0 && hw_pid_start(&p) * tick_ns > since;
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
        if (passes(f) && kill(pid, 0) == 0)
            add(f, pid, now);
    }
}

bool hw_exec_was_passed(struct hw_exec_finder *f, int32_t pid)
{
    uint64_t since;
    see(f);
    if (!passes(f) || !hw_map64_get(&f->passed_since, (uint64_t)pid, &since))
        return false;
    bool gone = is_another(pid, since);
    if (gone)
        hw_exec_not_passed(f, pid);
    return !gone;
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
    if (f->passed_since.n)
        (void)hw_map64_take(&f->passed_since, (uint64_t)pid, NULL);
}

void hw_exec_call_passed(struct hw_exec_finder *f, const struct hw_exec_armed *a)
{
    uint64_t since;
    if (!hw_map64_get(&f->passed_since, (uint64_t)a->pid, &since) || since != a->since_ns)
        return; /* another program runs there, which was held */
    hw_exec_not_passed(f, a->pid);
    (void)hw_exec_examine(f, a->pid, hw_exec_tell_share(0), NULL); /* it has ended */
}
