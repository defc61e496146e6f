/*
 * drain.c - poll, drain, adapt
 *
 * How often a ring is polled: pace.h. A poll of an empty ring costs two loads.
 */
#include "daemon/books/drain.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

#define SOON_NS          (HW_PACE_MIN_US * UINT64_C(1000))
#define BATCH_RECORDS    8192u
#define HEARTBEAT_NS     UINT64_C(200000000)
#define SNAP_WAIT_NS     UINT64_C(1000000000) /* how long a dump waits for a hole */
#define NAMES_WAIT_NS    UINT64_C(300000000)  /* a last dump, for the names of managed frames */
#define HOLE_ASK_NS      UINT64_C(2000000)    /* then: is its writer still there? */
#define HOLE_ASK_MOST_NS UINT64_C(256000000)
#define STUCK_NS         UINT64_C(10000000000) /* a hole ends the profile */

enum order {
    ORDER_ADD = 1,
    ORDER_SNAP,
    ORDER_MAPS_DONE,
    ORDER_SHARED_DONE, /* data: struct hw_shared_maps *, to be freed */
    ORDER_HOLE_LEFT,
    ORDER_READ_NOW,
    ORDER_STOP
};
enum order_flags { ORDER_FINAL = 1u << 30, ORDER_DEAD = 1u << 31 };

struct drain_thread {
    pthread_t thread;
    struct hw_message_queue orders;
    struct hw_message_queue *answers; /* borrowed */
    HW_VEC(struct hw_ring_consumer *) feeds;
    uint64_t cpu_ns; /* CPU time when this round's last ring was drained; 0 = not read */
    bool stop;
};

struct hw_drain {
    unsigned n;
    struct drain_thread threads[];
};

static void tell_stacks(struct drain_thread *t, struct hw_ring_consumer *f)
{
    size_t n = f->stacks.n - f->n_told;
    if (n == 0)
        return;
    const struct hw_stack **list = malloc(n * sizeof *list);
    if (!list)
        return; /* reported the next time */
    for (size_t i = 0; i < n; i++)
        list[i] = f->stacks.v[f->n_told + i];
    if (hw_message_queue_put(t->answers, HW_DRAINED_STACKS, f->owner, list, n, 0) < 0)
        free(list);
    else
        f->n_told += n;
}

static void tell_names(struct drain_thread *t, struct hw_ring_consumer *f)
{
    size_t n = f->managed.names.n - f->managed.n_told;
    if (n == 0)
        return;
    const struct hw_managed_name **list = malloc(n * sizeof *list);
    if (!list)
        return; /* reported the next time */
    memcpy(list, f->managed.names.v + f->managed.n_told, n * sizeof *list);
    if (hw_message_queue_put(t->answers, HW_DRAINED_NAMES, f->owner, list, n, 0) < 0)
        free(list);
    else
        f->managed.n_told += n;
}

static void tell_events(struct drain_thread *t, struct hw_ring_consumer *f)
{
    if (f->events.n == 0 || hw_message_queue_put(t->answers, HW_DRAINED_EVENTS, f->owner,
                                                 f->events.v, f->events.n, 0) < 0)
        return;                              /* reported the next time */
    memset(&f->events, 0, sizeof f->events); /* the message owns the array now */
}

static void tell_slices(struct drain_thread *t, struct hw_ring_consumer *f)
{
    size_t n = f->slices.n;
    if (n == 0)
        return;
    atomic_fetch_add_explicit(&f->n_slices_told, n, memory_order_relaxed);
    if (hw_message_queue_put(t->answers, HW_DRAINED_SLICES, f->owner, f->slices.v, n, 0) < 0)
        atomic_fetch_sub_explicit(&f->n_slices_told, n, memory_order_relaxed); /* the next time */
    else
        memset(&f->slices, 0, sizeof f->slices);
}

static void tell_forks(struct drain_thread *t, struct hw_ring_consumer *f)
{
    size_t n = 0;
    while (n < f->forks.n && hw_message_queue_put(t->answers, HW_DRAINED_FORKED, f->owner,
                                                  f->forks.v[n], 1, 0) == HW_OK)
        n++;
    f->forks.n -= n; /* the rest the next time */
    memmove(f->forks.v, f->forks.v + n, f->forks.n * sizeof *f->forks.v);
}

static void tell_minfo(struct drain_thread *t, struct hw_ring_consumer *f)
{
    struct hw_minfo *copy = malloc(sizeof *copy);
    if (!copy)
        return;
    *copy = f->minfo;
    if (hw_message_queue_put(t->answers, HW_DRAINED_MINFO, f->owner, copy, 1, 0) < 0)
        free(copy); /* reported the next time */
    else
        f->minfo_new = false;
}

/* Most holes are threads that had to give up their processor: asked soon, and then less often. */
static void tell_hole(struct drain_thread *t, struct hw_ring_consumer *f, uint64_t now)
{
    uint64_t since_ns = now - f->hole_since_ns;
    bool is_new = f->hole.pos != f->hole_pos;
    if (since_ns < HOLE_ASK_NS || (!is_new && now < f->hole_ask_ns) ||
        !hw_ring_hole(&f->ring, &f->hole))
        return;
    f->hole_ask_ns = now + (since_ns < HOLE_ASK_MOST_NS ? since_ns : HOLE_ASK_MOST_NS);
    (void)hw_message_queue_put(t->answers, HW_DRAINED_HOLE, f->owner, NULL, 0,
                               f->hole.tid); /* else it is asked again */
}

static void tell(struct drain_thread *t, struct hw_ring_consumer *f,
                 enum hw_ring_consumer_status status, uint64_t now)
{
    tell_names(t, f);
    tell_stacks(t, f);
    tell_events(t, f);
    tell_slices(t, f);
    if (f->forks.n)
        tell_forks(t, f);
    if (f->minfo_new)
        tell_minfo(t, f);
    if (f->maps_wanted &&
        hw_message_queue_put(t->answers, HW_DRAINED_MAPS, f->owner, NULL, 0, f->maps_ask) == HW_OK)
        f->maps_wanted = false;
    if (f->shared.wanted && hw_message_queue_put(t->answers, HW_DRAINED_SHARED, f->owner, NULL, 0,
                                                 f->shared.ask) == HW_OK)
        f->shared.wanted = false;
    if (status == HW_CONSUMER_BROKEN && !f->d.told_broken &&
        hw_message_queue_put(t->answers, HW_DRAINED_BROKEN, f->owner, NULL, 0, 0) == HW_OK)
        f->d.told_broken = true;
    if (status == HW_CONSUMER_FULL && !f->d.told_full &&
        hw_message_queue_put(t->answers, HW_DRAINED_FULL, f->owner, NULL, 0, 0) == HW_OK)
        f->d.told_full = true;
    if (status == HW_CONSUMER_HOLE)
        tell_hole(t, f, now);
    if (status == HW_CONSUMER_HOLE && now - f->hole_since_ns > STUCK_NS && !f->d.told_stuck &&
        hw_message_queue_put(t->answers, HW_DRAINED_STUCK, f->owner, NULL, 0, 0) == HW_OK)
        f->d.told_stuck = true;
}

/* False: no memory, try once more later. */
static bool put_snapshot(struct drain_thread *t, struct hw_ring_consumer *f, uint32_t snap_flags,
                         uint32_t flags)
{
    tell_names(t, f);
    tell_stacks(t, f);
    hw_ring_consumer_slice_rests(f, f->d.final);
    tell_slices(t, f);
    struct hw_snapshot *s = NULL;
    (void)hw_ring_consumer_snapshot(f, snap_flags, &s); /* NULL is the answer "no memory" */
    if (hw_message_queue_put(t->answers, HW_DRAINED_SNAP, f->owner, s, 0, flags) == HW_OK)
        return true;
    hw_snapshot_free(s);
    return false;
}

static bool send_snapshot(struct drain_thread *t, struct hw_ring_consumer *f)
{
    f->d.snap = false; /* before the answer: after a final one the feed may be gone */
    if (put_snapshot(t, f, f->d.snap_flags, f->d.final ? HW_DRAINED_FINAL : 0))
        return true;
    f->d.snap = true;
    return false;
}

/* The target sends the names of managed frames a moment after their first use. Those of the last
 * stacks are waited for, as nobody reads the ring after a final snapshot. */
static bool awaits_names(struct hw_ring_consumer *f, uint64_t now)
{
    if (!f->d.final || f->managed.n_unnamed == 0 || f->dead || f->broken || f->full ||
        now > f->d.names_deadline_ns)
        return false;
    return hw_ring_write_pos(&f->ring, &f->d.snap_until) == HW_OK;
}

/* True: the snapshot was sent, or cannot be. */
static bool try_snapshot(struct drain_thread *t, struct hw_ring_consumer *f,
                         enum hw_ring_consumer_status status, uint64_t now)
{
    bool ready = status == HW_CONSUMER_REACHED || status == HW_CONSUMER_EMPTY ||
                 status == HW_CONSUMER_BROKEN || status == HW_CONSUMER_FULL ||
                 f->ring.read_pos >= f->d.snap_until ||
                 (status == HW_CONSUMER_HOLE && now > f->d.snap_deadline_ns);
    return ready && !awaits_names(f, now) && send_snapshot(t, f);
}

/*
 * The books are as they were when an allocation failed, and only now: what the program does about
 * it (it frees, it throws, it ends) comes later in the ring. So the snapshot is taken here, before
 * anything else is read, without asking the main thread, which might be busy with another dump.
 */
static bool is_at_failure(struct drain_thread *t, struct hw_ring_consumer *f, uint64_t now)
{
    if (!f->d.at_failure)
        return false;
    f->d.at_failure = !put_snapshot(t, f, f->failure_flags, HW_DRAINED_AT_FAILURE);
    f->d.pace.next_ns = f->d.at_failure ? now + SOON_NS : now;
    return f->d.at_failure;
}

/* By this thread, not the main one: a dump may keep that one busy for longer than a client with
 * a full ring waits for us. */
static void beat(struct hw_ring_consumer *f, uint64_t now)
{
    if (!f->heartbeat || now - f->heartbeat_ns < HEARTBEAT_NS)
        return;
    f->heartbeat_ns = now;
    (void)atomic_fetch_add_explicit(f->heartbeat, 1, memory_order_relaxed);
}

/* An empty ring costs two loads whatever the interval, and is not counted. Reading the clock is
 * a system call: the end of one ring's turn is the beginning of the next one's. */
static enum hw_ring_consumer_status
drain_counted(struct drain_thread *t, struct hw_ring_consumer *f, uint64_t until, uint64_t now)
{
    uint64_t end;
    bool is_empty = hw_ring_write_pos(&f->ring, &end) == HW_OK && end == f->ring.read_pos;
    if (!is_empty && t->cpu_ns == 0)
        t->cpu_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    enum hw_ring_consumer_status status = hw_ring_consumer_drain(f, until, BATCH_RECORDS, now);
    if (is_empty)
        return status;
    uint64_t cpu_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    (void)atomic_fetch_add_explicit(&f->spent_ns, cpu_ns - t->cpu_ns, memory_order_relaxed);
    t->cpu_ns = cpu_ns;
    return status;
}

/* False: the feed was released. */
static bool poll_feed(struct drain_thread *t, struct hw_ring_consumer *f, uint64_t now)
{
    if (atomic_load_explicit(&f->gone, memory_order_relaxed))
        f->dead = true;
    beat(f, now);
    if (is_at_failure(t, f, now))
        return true;
    uint64_t before = f->ring.read_pos;
    uint64_t until = f->d.snap && !f->dead ? f->d.snap_until : UINT64_MAX;
    enum hw_ring_consumer_status status = drain_counted(t, f, until, now);
    tell(t, f, status, now);
    hw_pace_checked(&f->d.pace, f->ring.read_pos - before, hw_ring_memory_bytes(&f->ring),
                    now < f->quick_until_ns, now);
    if (status == HW_CONSUMER_STALLED || status == HW_CONSUMER_HOLE)
        f->d.pace.next_ns = now + SOON_NS;
    if (status == HW_CONSUMER_MORE)
        f->d.pace.next_ns = now;
    if (status == HW_CONSUMER_FAILED) {
        f->d.at_failure = true;
        (void)is_at_failure(t, f, now); /* which sets the next poll */
        return true;
    }
    if (!f->d.snap)
        return true;
    bool final = f->d.final;
    if (try_snapshot(t, f, status, now))
        return !final;
    f->d.pace.next_ns = status == HW_CONSUMER_MORE ? now : now + SOON_NS;
    return true;
}

static void order_snap(struct hw_ring_consumer *f, const struct hw_msg *m, uint64_t now)
{
    if (hw_ring_write_pos(&f->ring, &f->d.snap_until) < 0)
        f->broken = true;
    f->d.snap = true;
    f->d.snap_flags = m->flags & ~(ORDER_FINAL | ORDER_DEAD);
    f->d.final |= (m->flags & ORDER_FINAL) != 0;
    f->dead |= (m->flags & ORDER_DEAD) != 0;
    f->d.snap_deadline_ns = now + SNAP_WAIT_NS;
    f->d.names_deadline_ns = now + NAMES_WAIT_NS;
    f->d.pace.next_ns = now;
}

/* Orders may come after the feed was released: the answer was on its way. */
static bool is_ours(const struct drain_thread *t, const struct hw_ring_consumer *f)
{
    for (size_t i = 0; i < t->feeds.n; i++)
        if (t->feeds.v[i] == f)
            return true;
    return false;
}

static void order_shared(struct drain_thread *t, const struct hw_msg *m, uint64_t now)
{
    struct hw_ring_consumer *f = m->who;
    struct hw_shared_maps *maps = m->data;
    if (is_ours(t, f)) {
        hw_ring_consumer_take_shared(f, m->flags, maps);
        f->d.pace.next_ns = now;
    }
    hw_shared_maps_done(maps);
    free(maps);
}

static void dispatch(struct drain_thread *t, const struct hw_msg *m, uint64_t now)
{
    struct hw_ring_consumer *f = m->who;
    switch ((enum order)m->type) {
    case ORDER_ADD:
        hw_pace_start(&f->d.pace, now);
        if (hw_vec_push(&t->feeds, f) < 0) { /* never polled: the target is told at once */
            f->broken = true;
            (void)hw_message_queue_put(t->answers, HW_DRAINED_BROKEN, f->owner, NULL, 0,
                                       0); /* no memory */
        }
        break;
    case ORDER_SNAP:
        if (is_ours(t, f))
            order_snap(f, m, now);
        break;
    case ORDER_MAPS_DONE:
        if (!is_ours(t, f))
            break;
        f->maps_answered |= m->flags == f->maps_ask; /* not the answer to an earlier question */
        f->d.pace.next_ns = now;
        break;
    case ORDER_SHARED_DONE:
        order_shared(t, m, now);
        break;
    case ORDER_HOLE_LEFT:
        if (is_ours(t, f) && f->hole.tid == m->flags && hw_ring_pass_hole(&f->ring, &f->hole))
            f->d.pace.next_ns = now;
        break;
    case ORDER_READ_NOW:
        if (is_ours(t, f))
            f->d.pace.next_ns = now;
        break;
    case ORDER_STOP:
        t->stop = true;
        break;
    }
}

static void sleep_until(struct drain_thread *t, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < t->feeds.n; i++)
        if (t->feeds.v[i]->d.pace.next_ns < next)
            next = t->feeds.v[i]->d.pace.next_ns;
    struct pollfd p = {.fd = t->orders.fd, .events = POLLIN};
    uint64_t wait = next > now ? next - now : 0;
    struct timespec ts = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
    (void)ppoll(&p, 1, next == UINT64_MAX ? NULL : &ts, NULL); /* any return means: check */
}

static void *drain_main(void *arg)
{
    struct drain_thread *t = arg;
    (void)prctl(PR_SET_NAME, "drain"); /* only a name; the process keeps its own */
    while (!t->stop) {
        sleep_until(t, hw_now_monotonic_ns());
        uint64_t now = hw_now_monotonic_ns();
        for (struct hw_msg *m = hw_message_queue_take(&t->orders); m;) {
            struct hw_msg *next = m->next;
            dispatch(t, m, now);
            free(m);
            m = next;
        }
        t->cpu_ns = 0;
        for (size_t i = 0; i < t->feeds.n;) {
            struct hw_ring_consumer *f = t->feeds.v[i];
            if (hw_pace_is_due(&f->d.pace, now) && !poll_feed(t, f, now))
                t->feeds.v[i] = t->feeds.v[--t->feeds.n];
            else
                i++;
        }
    }
    return NULL;
}

static int start_thread(struct drain_thread *t, struct hw_message_queue *answers)
{
    t->answers = answers;
    int rc = hw_message_queue_init(&t->orders);
    if (rc < 0)
        return rc;
    sigset_t all, old; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&t->thread, NULL, drain_main, t) ? HW_ENOMEM : HW_OK;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc < 0)
        hw_message_queue_done(&t->orders);
    return rc;
}

int hw_drain_new(unsigned n_threads, struct hw_message_queue *answers, struct hw_drain **out)
{
    struct hw_drain *d = calloc(1, sizeof *d + n_threads * sizeof d->threads[0]);
    if (!d)
        return HW_ENOMEM;
    for (; d->n < n_threads; d->n++) {
        int rc = start_thread(&d->threads[d->n], answers);
        if (rc < 0) {
            hw_drain_free(d);
            return rc;
        }
    }
    *out = d;
    return HW_OK;
}

void hw_drain_free(struct hw_drain *d)
{
    if (!d)
        return;
    for (unsigned i = 0; i < d->n; i++) {
        struct drain_thread *t = &d->threads[i];
        while (hw_message_queue_put(&t->orders, ORDER_STOP, NULL, NULL, 0, 0) < 0)
            ; /* memory comes back when others free theirs; ending the thread would be worse */
        pthread_join(t->thread, NULL);
        hw_message_queue_done(&t->orders);
        hw_vec_done(&t->feeds);
    }
    free(d);
}

static struct hw_message_queue *orders_of(struct hw_drain *d, uint64_t key)
{
    return &d->threads[key % d->n].orders;
}

int hw_drain_add(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key)
{
    return hw_message_queue_put(orders_of(d, key), ORDER_ADD, f, NULL, 0, 0);
}

int hw_drain_snap(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t flags,
                  bool final, bool dead)
{
    flags |= (final ? (uint32_t)ORDER_FINAL : 0) | (dead ? (uint32_t)ORDER_DEAD : 0);
    return hw_message_queue_put(orders_of(d, key), ORDER_SNAP, f, NULL, 0, flags);
}

int hw_drain_read_now(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key)
{
    return hw_message_queue_put(orders_of(d, key), ORDER_READ_NOW, f, NULL, 0, 0);
}

int hw_drain_hole_left(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t tid)
{
    return hw_message_queue_put(orders_of(d, key), ORDER_HOLE_LEFT, f, NULL, 0, tid);
}

int hw_drain_shared_done(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t ask,
                         struct hw_shared_maps *maps)
{
    struct hw_shared_maps *own = malloc(sizeof *own);
    int rc = HW_ENOMEM;
    if (own) {
        *own = *maps;
        rc = hw_message_queue_put(orders_of(d, key), ORDER_SHARED_DONE, f, own, 0, ask);
    }
    if (rc < 0) {
        hw_shared_maps_done(maps);
        free(own);
    }
    *maps = (struct hw_shared_maps){0};
    return rc;
}

int hw_drain_maps_done(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t ask)
{
    return hw_message_queue_put(orders_of(d, key), ORDER_MAPS_DONE, f, NULL, 0, ask);
}
