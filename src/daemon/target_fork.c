/*
 * target_fork.c - what a forked child has inherited, on its way from its parent's books to its own
 *
 *     parent's ring: ... FORK token ...          child: hello, token
 *            |                                      |
 *     drain thread: copy of the ranges --> session's list <-- looked up while it is prepared
 *
 * The child waits for its welcome anyway, 2 to 5 ms; its parent's ring may be read later than that, so it is
 * read at once.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory/map64.h"
#include "daemon/books/inherited.h"
#include "daemon/core.h"
#include "daemon/target_parts.h"

#include "base/banned.h"

#define WAIT_NS    UINT64_C(25000000) /* half of what a child waits */
#define RING_BYTES (512u * 1024)      /* of a child's memory, to begin with */
#define FAST_BYTES 4096u

/* At small intervals a ring is full within milliseconds, before it can grow. */
static bool fills_fast(const struct hw_heapprofd_config *c)
{
    bool fast = c->all_heaps && c->default_interval_bytes < FAST_BYTES;
    for (size_t i = 0; i < c->heaps.n; i++)
        fast |= c->heaps.v[i].interval_bytes && c->heaps.v[i].interval_bytes < FAST_BYTES;
    return fast;
}

/* A ring of 8 MiB costs a millisecond, and most children end before they have filled a hundredth of
 * it. A client that shares out its room, or has a threshold for it, counts on the whole. */
int hw_target_make_ring(const struct hw_target *t, uint64_t bytes, struct hw_ring_reader *out)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    if (c->record_slices)
        return hw_ring_create_with_slots(out, bytes);
    if ((t->hello.flags & HW_HELLO_FORKED) && c->adaptive_threshold_bytes == 0 && !fills_fast(c))
        return hw_ring_create_begun(out, bytes, RING_BYTES);
    return hw_ring_create(out, bytes);
}

void hw_session_forget_forks(struct hw_session *s)
{
    for (size_t i = 0; i < HW_SESSION_FORKS; i++) {
        hw_inherited_free(s->inherited[i]);
        s->inherited[i] = NULL;
    }
    hw_map64_done(&s->heirs);
}

/* Two children of one parent by one number have the same stacks, and other readers take both
 * processes for one: they refuse what the second one says of them. So it has none. */
static bool is_first_of_number(const struct hw_target *t)
{
    uint64_t *seen;
    bool fresh;
    return hw_map64_at(&t->session->heirs, (uint64_t)t->pid.pid, &seen, &fresh) == 0 && fresh;
}

/*
 * A forked child looks at its parent's control page until it has one of its own, and it asks for
 * that at its first sample only. So the page keeps its generation when the parent ends. Some of
 * them: a build has thousands of processes.
 */
bool hw_target_is_a_parent(const struct hw_target *t)
{
    return (t->session->start.flags & HW_START_FOLLOW_FORK) && !t->session->stopping &&
           (t->end == HW_END_EXITED || t->end == HW_END_EXECED);
}

static void forget_parent(struct hw_session *s, struct hw_page *p)
{
    if (!p->map)
        return;
    if (s->rec->embedded || s->rec->stopping) /* the next recorder may have the process */
        atomic_store(&p->map->ended, 1);
    atomic_store(&p->map->generation, 0);
    hw_page_done(p);
}

void hw_session_forget_parents(struct hw_session *s)
{
    for (size_t i = 0; i < HW_SESSION_PARENTS; i++)
        forget_parent(s, &s->parents[i]);
}

void hw_session_keep_parent(struct hw_session *s, struct hw_page *p)
{
    struct hw_page *slot = &s->parents[s->n_parents++ % HW_SESSION_PARENTS];
    forget_parent(s, slot);
    *slot = *p;
    *p = (struct hw_page){.fd = -1};
    if (slot->fd >= 0)
        (void)close(slot->fd); /* memory only */
    slot->fd = -1;
}

void hw_target_forked(struct hw_target *t, struct hw_inherited *i)
{
    struct hw_session *s = t->session;
    if (!(s->start.flags & HW_START_FOLLOW_FORK) &&
        !s->sources.v[t->source].config->all) { /* its clients write no such record */
        hw_inherited_free(i);
        return;
    }
    size_t at = s->n_forks++ % HW_SESSION_FORKS;
    hw_inherited_free(s->inherited[at]);
    s->inherited[at] = i;
}

static const struct hw_inherited *find(const struct hw_session *s, uint64_t token)
{
    for (size_t i = 0; i < HW_SESSION_FORKS; i++)
        if (s->inherited[i] && s->inherited[i]->token == token)
            return s->inherited[i];
    return NULL;
}

static struct hw_target *find_parent(const struct hw_target *t)
{
    for (size_t i = 0; i < t->rec->targets.n; i++) {
        struct hw_target *p = t->rec->targets.v[i];
        if (p->pid.pid == t->ppid && p->session == t->session && p->with_thread)
            return p;
    }
    return NULL;
}

const struct hw_frames *hw_target_frames_of_parent(const struct hw_target *t)
{
    const struct hw_target *p = t->hello.flags & HW_HELLO_FORKED ? find_parent(t) : NULL;
    return p && p->uid == t->uid ? &p->frames : NULL;
}

static bool is_heir(const struct hw_target *t)
{
    return t->hello.forked_token != 0 && t->feed->mappings.heaps != 0;
}

void hw_target_ask_parent(const struct hw_target *t)
{
    struct hw_target *p = is_heir(t) ? find_parent(t) : NULL;
    if (p)
        (void)hw_drain_read_now(p->rec->drain, p->feed, p->key); /* else it looks by itself */
}

bool hw_target_awaits_parent(struct hw_target *t, uint64_t now)
{
    if (!is_heir(t))
        return false;
    const struct hw_inherited *i = find(t->session, t->hello.forked_token);
    if (!i && now - t->since_ns < WAIT_NS)
        return true;
    t->hello.forked_token = 0; /* once */
    if (!i)
        hw_log(DEBUG, "pid %d: what it has inherited is not known", t->pid.pid);
    else if (!is_first_of_number(t))
        hw_log(DEBUG, "pid %d: its number was used before: what it has inherited is left out",
               t->pid.pid);
    else if (hw_inherited_book(i, &t->maps, hw_now_monotonic_coarse_ns(), t->feed) < 0)
        hw_session_warn(t->session, "pid %d: what it has inherited is known in part: out of memory",
                        t->pid.pid);
    return false;
}
