/*
 * stack_queue.c - a queue per target, a few milliseconds of it at a time
 *
 *   drain thread ──stacks──> unresolved ──frames──> callsites
 *                              ^    │ a managed frame's name is on its way
 *                              └── unnamed
 *
 * A program decides how many stacks it has, how deep they are and where they lead, and one thread
 * resolves those of all programs. So it takes at most SLICE for one target, then the next has its
 * turn; after TURN it handles signals and commands. A dump waits for its own stacks, and no longer
 * than its names may take: what is left then is counted as lost. Searching for missing names is
 * limited, too: it costs as much as all the frames that wait for one.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/core.h"

#include "base/banned.h"

#define MS            UINT64_C(1000000)
#define SLICE         (2 * MS)
#define TURN          (20 * MS)
#define STACKS_A_LOOK 16u
#define NAMES_REST    10          /* times the time that searching for names took */
#define NAMES_BURST   (1000 * MS) /* 100 ms of it */
#define NAMES_A_CALL  (5 * MS)
#define FILES_STEP    (20 * MS) /* between two searches, or a quarter of its age */
#define FILES_FEW     8u        /* targets; with more of them that many times as long */
#define FILES_LAST    (1000 * MS)

/* ---- names of generated code ---- */

/* One of our moments on the target's clock, with which the files are written. */
static uint64_t target_ns(const struct hw_target *t, uint64_t ns)
{
    if (ns == HW_JIT_END || !t->feed || !t->feed->ring.shm)
        return ns;
    return ns - atomic_load_explicit(&t->feed->ring.shm->target_behind_ns, memory_order_relaxed);
}

/* What the files about its generated code say up to a moment. Now: decides whether a file that
 * was read to its end is due again; again: each is. */
static bool read_jit(struct hw_target *t, uint64_t until_ns, uint64_t now, bool again)
{
    struct hw_proc_status st;
    if (t->inner_pid == 0 && hw_proc_status(t->pid.dir, &st) == HW_OK)
        t->inner_pid = st.nspid;
    bool ended = t->phase == HW_PHASE_FINISHING && t->end == HW_END_EXITED;
    struct hw_jit_request ask = {.who = hw_reading_at(&t->pid, t->uid),
                                 .inner = ended ? 0 : t->inner_pid,
                                 .maps = &t->maps,
                                 .maps_ns = t->maps_ns,
                                 .until_ns = target_ns(t, until_ns),
                                 .now = now,
                                 .again = again};
    bool all = hw_jit_read(&t->jit, t->rec->blocking_reader, &ask);
    if (t->jit.complaint[0]) {
        hw_session_warn(t->session, "pid %d: %s", t->pid.pid, t->jit.complaint);
        t->jit.complaint[0] = '\0';
    }
    return all;
}

bool hw_target_seeks_generated(const struct hw_target *t)
{
    return t->phase == HW_PHASE_RUNNING && t->jit_look_age_ns <= FILES_LAST &&
           !hw_jit_has_files(&t->jit);
}

/*
 * A program that runs for a tenth of a second ends before the tables of a large program are made,
 * and with them the first of its stacks. Opened in time, the files are read when a stack needs
 * names; until then no more than what was written before it joined.
 */
void hw_target_find_generated(struct hw_target *t, uint64_t now)
{
    uint64_t age = now - t->since_ns;
    uint64_t step = FILES_STEP * (1 + t->rec->targets.n / FILES_FEW);
    if (age < t->jit_look_age_ns || !hw_target_seeks_generated(t))
        return;
    bool first = t->jit_look_age_ns == 0;
    t->jit_look_age_ns = age + (age / 4 > step ? age / 4 : step);
    if (first)
        return;
    (void)hw_target_refresh_maps(t, now); /* else what is known has to do */
    t->jit.map.retry_ns = 0;
    (void)read_jit(t, t->since_ns, now, /* again = */ false); /* only opened */
}

/* In the order in which they were seen: an address may have meant other code later. False: the
 * time did not suffice. */
static bool name_in_order(struct hw_target *t, bool again, uint64_t now, uint64_t stop_ns)
{
    struct hw_frames *f = &t->frames;
    uint64_t until_ns;
    bool all = true;
    while (all && hw_frames_nameless(f, &until_ns)) {
        if (hw_now_monotonic_ns() > stop_ns)
            return false;
        all = read_jit(t, until_ns, now, again);
        hw_frames_name_generated(f, until_ns, /* forget = */ all);
        again = true;
    }
    return true;
}

bool hw_target_name_generated(struct hw_target *t)
{
    uint64_t since_ns, now = hw_now_monotonic_ns();
    if (!hw_frames_nameless(&t->frames, &since_ns))
        return true;
    if (!name_in_order(t, /* again = */ true, now, now + NAMES_A_CALL))
        return false;
    (void)read_jit(t, HW_JIT_END, now,
                   /* again = */ true); /* names the rest as well as possible */
    hw_frames_name_generated(&t->frames, HW_JIT_END, /* forget = */ false);
    return true;
}

static bool may_look_for_names(const struct hw_target *t, uint64_t now)
{
    return hw_rate_limit_debt(&t->names_rest, now) <= NAMES_BURST;
}

static void looked_for_names(struct hw_target *t, uint64_t since_ns)
{
    uint64_t now = hw_now_monotonic_ns();
    hw_rate_limit_earn(&t->names_rest, now, NAMES_REST * (now - since_ns));
}

static void learn_generated(struct hw_target *t, uint64_t until_ns)
{
    uint64_t now = hw_now_monotonic_ns();
    if (!may_look_for_names(t, now))
        return;
    /* One moment for both: a file that is due only for the second would be read past the times
     * of older frames that have no name yet. */
    (void)name_in_order(t, /* again = */ false, now, now + SLICE); /* the others: next time */
    (void)read_jit(t, until_ns, now, /* again = */ false);         /* not all: named later */
    looked_for_names(t, now);
}

/* ---- the queue ---- */

bool hw_target_has_stacks(const struct hw_target *t)
{
    return t->unresolved_at < t->unresolved.n;
}

static bool is_covered(const struct hw_frames *f, const struct hw_stack *s)
{
    for (uint32_t i = 0; i < s->n_frames; i++)
        if (!hw_stack_is_managed(s, i) && !hw_frames_covers(f, s->pcs[i]))
            return false;
    return true;
}

static void resolve_one(struct hw_target *t, const struct hw_queued_stack *q)
{
    const struct hw_stack *s = q->stack;
    if (!q->as_is && !hw_frames_named(&t->frames, s) && hw_vec_push(&t->unnamed, s) == HW_OK)
        return;
    if (!is_covered(&t->frames, s))
        hw_target_unknown_code(t);
    if (hw_frames_any_generated(&t->frames, s))
        learn_generated(t, s->time_ns);
    if (hw_frames_resolve(&t->frames, s) < 0)
        t->n_unresolved++; /* out of memory or ids: its bytes cannot be shown */
}

static void empty_queue(struct hw_target *t)
{
    hw_vec_clear(&t->unresolved);
    t->unresolved_at = 0;
}

void hw_target_drop_stacks(struct hw_target *t)
{
    t->n_unresolved += t->unresolved.n - t->unresolved_at + t->unnamed.n;
    hw_vec_clear(&t->unnamed);
    empty_queue(t);
}

static bool hw_target_resolve(struct hw_target *t, uint64_t until_ns)
{
    for (size_t n = 0; hw_target_has_stacks(t); n++) {
        if (n % STACKS_A_LOOK == 0) {
            /* A frame costs ten times as much here as the target needs to invent it. */
            if (hw_target_bytes(t) > t->max_bytes) {
                hw_target_drop_stacks(t);
                t->too_big = true;
                return false;
            }
            if (n && hw_now_monotonic_ns() >= until_ns)
                return true;
        }
        resolve_one(t, &t->unresolved.v[t->unresolved_at++]);
    }
    empty_queue(t);
    return false;
}

void hw_targets_resolve(struct hw_recorder *r)
{
    uint64_t now = hw_now_monotonic_ns(), end = now + TURN;
    r->stacks_left = false;
    for (size_t i = 0; i < r->targets.n; i++) {
        struct hw_target *t = r->targets.v[(r->next_resolved + i) % r->targets.n];
        if (!hw_target_has_stacks(t))
            continue;
        if (now >= end) {
            r->next_resolved = (r->next_resolved + i) % r->targets.n;
            r->stacks_left = true;
            return;
        }
        r->stacks_left |= hw_target_resolve(t, now + SLICE);
        now = hw_now_monotonic_ns();
    }
}

static void queue(struct hw_target *t, const struct hw_stack *s, bool as_is)
{
    struct hw_queued_stack q = {s, as_is};
    if (hw_vec_push(&t->unresolved, q) < 0)
        resolve_one(t, &q); /* then at once */
}

/* ---- names of managed frames ---- */

void hw_target_names(struct hw_target *t, const struct hw_managed_name **list, size_t n)
{
    uint64_t now = hw_now_monotonic_ns();
    for (size_t i = 0; i < n; i++)
        if (!hw_slices_name(&t->slices, list[i]))
            (void)hw_managed_frames_name(&t->frames.managed, t->frames.cs,
                                         list[i]); /* else unnamed */
    free(list);
    if (!may_look_for_names(t, now))
        return;
    now = hw_now_monotonic_ns();
    (void)hw_target_settle_names(t, /* late = */ false); /* the others keep waiting */
    looked_for_names(t, now);
}

bool hw_target_settle_names(struct hw_target *t, bool late)
{
    size_t left = 0;
    for (size_t i = 0; i < t->unnamed.n; i++) {
        const struct hw_stack *s = t->unnamed.v[i];
        if (!late && !hw_frames_named(&t->frames, s))
            t->unnamed.v[left++] = s;
        else
            queue(t, s, /* as_is = */ true);
    }
    t->unnamed.n = left;
    (void)hw_target_resolve(t, hw_now_monotonic_ns() + SLICE); /* the others by the tick */
    return left == 0 && !hw_target_has_stacks(t);
}

/* ---- what the drain thread reports ---- */

void hw_target_stacks(struct hw_target *t, const struct hw_stack **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        queue(t, list[i], /* as_is = */ false);
    free(list);
    (void)hw_target_resolve(t, hw_now_monotonic_ns() + SLICE); /* the others by the tick */
}

void hw_target_stacks_done(struct hw_target *t)
{
    hw_vec_done(&t->unresolved);
    hw_vec_done(&t->unnamed);
}
