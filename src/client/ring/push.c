/*
 * push.c - records into the ring, and what happens when it is full
 *
 * A full ring means that the recorder was slower than the program for longer than the buffer lasts.
 * With HW_CC_BLOCK the thread waits in steps of 100 us (500 us for a large ring), up to the
 * configured deadline; without, it tries once. Then profiling of this process ends: a profile with
 * gaps would be wrong, and a target that crawls is worse. A heartbeat older than 2 s ends the wait
 * at once. What counts is that it does not change: clocks of two namespaces cannot be compared.
 *
 * The ring lies in the program's own memory: a wild pointer of the program's may overwrite the
 * positions. If they cannot be what recorder and writers have left there, changes are no progress,
 * and the wait ends at once.
 */
#include <errno.h>
#include <string.h>

#include "base/memory/map64.h"
#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/ring/push.h"
#include "client/ring/retire.h"
#include "client/thread/client_guard.h"
#include "client/thread/thread_id.h"

#define STEP_NS        100000
#define LONG_STEP_NS   500000 /* a large ring: fewer wake-ups, each for a few hundred records */
#define LARGE_RING     (1024 * 1024)
#define HEARTBEAT_NS   2000000000ull
#define SURELY_GONE_NS 10000000000ull /* if there is room: a busy machine starves recorders */
#define NO_DEADLINE_NS 30000000000ull /* without a deadline: this long without progress */

/*
 * The last heartbeat seen, and when, by our own clock: the recorder's may differ. The time is
 * stored first and loaded last, so that a new heartbeat is never seen with an old time.
 */
static _Atomic uint64_t seen_beat, seen_ns;

static void note_beat(uint64_t beat, uint64_t now_ns)
{
    atomic_store_explicit(&seen_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&seen_beat, beat, memory_order_release);
}

void hw_recorder_note_alive(uint64_t now_ns)
{
    note_beat(atomic_load_explicit(&hw_control.heartbeat, memory_order_relaxed), now_ns);
}

bool hw_recorder_silent(uint64_t now_ns, uint64_t limit_ns)
{
    uint64_t beat = atomic_load_explicit(&hw_control.heartbeat, memory_order_relaxed);
    if (beat != atomic_load_explicit(&seen_beat, memory_order_acquire)) {
        note_beat(beat, now_ns);
        return false;
    }
    int64_t silent_ns = (int64_t)(now_ns - atomic_load_explicit(&seen_ns, memory_order_relaxed));
    return silent_ns > (int64_t)limit_ns;
}

/* Checked with every sample, which has read the clock anyway. */
bool hw_push_recorder_gone(struct hw_client_session *s, uint64_t now_ns)
{
    if (hw_likely(!hw_recorder_silent(now_ns, SURELY_GONE_NS)))
        return false;
    hw_client_session_give_up(s, HW_CLIENT_RECORDER_GONE);
    return true;
}

/* Nobody reads this ring any more. */
static bool stopped(const struct hw_client_session *s)
{
    return atomic_load_explicit(&hw_process_page.session, memory_order_relaxed) != s ||
           atomic_load_explicit(&hw_control.generation, memory_order_relaxed) != s->generation;
}

/*
 * What a waiting thread has seen: both positions only grow, the reader is never ahead of the
 * writers, and these are never further ahead than the ring is long. Each is loaded after the one it
 * is compared with, so that other threads may proceed meanwhile.
 */
struct seen_positions {
    uint64_t read, write;
};

static bool are_sound(const struct hw_client_session *s, struct seen_positions *seen)
{
    const struct hw_ring_shm *shm = s->ring.shm;
    uint64_t read = atomic_load_explicit(&shm->read_pos, memory_order_acquire);
    uint64_t write = atomic_load_explicit(&shm->write_pos, memory_order_acquire);
    uint64_t again = atomic_load_explicit(&shm->read_pos, memory_order_acquire);
    bool ordered = read >= HW_RING_FIRST_POS && read >= seen->read && write >= seen->write &&
                   write >= read && again >= read && (read | write) % 8 == 0;
    *seen = (struct seen_positions){read, write};
    return ordered && (again != read || write - read <= s->ring.mask + 1);
}

/* Gives the position, or 0 after the session was given up. */
HW_COLD uint64_t hw_push_wait_for_room(struct hw_client_session *s, uint32_t size)
{
    enum hw_client_error why = HW_CLIENT_HIT_TIMEOUT;
    uint64_t start = hw_local_sandbox_ns();
    uint64_t pos = 0;
    if (stopped(s))
        return 0;
    if ((s->config.flags & HW_CC_BLOCK) == 0)
        goto give_up;
    hw_count(s, blocked, 1);
    uint64_t timeout = s->config.block_timeout_us * 1000;
    uint64_t limit = timeout ? timeout : NO_DEADLINE_NS;
    uint64_t since = start, now = start;
    struct seen_positions seen = {0};
    bool sound = are_sound(s, &seen);
    bool large = s->ring.mask >= LARGE_RING - 1 && limit > 2 * LONG_STEP_NS;
    while (pos == 0 && sound && now - since < limit) {
        hw_sys_step_ns(large ? LONG_STEP_NS : STEP_NS, hw_sandbox());
        pos = hw_ring_reserve_by(&s->ring, size, hw_push_this_thread());
        now = hw_local_sandbox_ns();
        uint64_t read = seen.read;
        sound = are_sound(s, &seen);
        if (timeout == 0 && seen.read != read)
            since = now; /* there is progress: keep waiting */
        if (pos == 0 && hw_recorder_silent(now, HEARTBEAT_NS)) {
            why = HW_CLIENT_RECORDER_GONE;
            break;
        }
        if (pos == 0 && stopped(s))
            return 0;
    }
    hw_count(s, blocked_us, (now - start) / 1000);
    if (pos != 0)
        return pos;
    if (!sound)
        why = HW_CLIENT_RING_DAMAGED;
give_up:
    hw_client_session_give_up(s, why);
    return 0;
}

void hw_push_free(struct hw_client_session *s, uint64_t sample_id)
{
    uint64_t pos = hw_push_reserve(s, sizeof(struct hw_rec_free));
    if (pos == 0) {
        hw_count(s, lost_free, 1);
        return;
    }
    struct hw_rec_free *r = hw_ring_at(&s->ring, pos);
    r->sample_id = sample_id;
    r->time_ns = hw_client_session_coarse_ns(s);
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_FREE);
}

void hw_push_heap(struct hw_client_session *s, uint32_t heap_id, const char *name,
                  uint64_t interval)
{
    uint64_t pos = hw_push_reserve(s, sizeof(struct hw_rec_heap));
    if (pos == 0)
        return;
    struct hw_rec_heap *r = hw_ring_at(&s->ring, pos);
    r->heap_id = heap_id;
    r->reserved = 0;
    r->interval_bytes = interval;
    memset(r->name, 0, sizeof r->name);
    for (size_t i = 0; i + 1 < sizeof r->name && name[i]; i++)
        r->name[i] = name[i];
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_HEAP);
}

/* Unknown code: one notice per page of addresses, and at most one per millisecond. pc 0: the
 * list of modules is out of date. */
void hw_push_maps(struct hw_client_session *s, uint64_t pc, uint64_t now_ns)
{
    uint64_t last = atomic_load_explicit(&s->last_maps_ns, memory_order_relaxed);
    uint64_t last_pc = atomic_load_explicit(&s->last_maps_pc, memory_order_relaxed);
    uint64_t quiet_ns = pc != 0 && pc >> 12 == last_pc >> 12 ? 100000000u : 1000000u;
    if (now_ns - last < quiet_ns ||
        !atomic_compare_exchange_strong(&s->last_maps_ns, &last, now_ns))
        return;
    atomic_store_explicit(&s->last_maps_pc, pc, memory_order_relaxed);
    uint64_t pos = hw_ring_reserve_by(&s->ring, sizeof(struct hw_rec_maps), hw_push_this_thread());
    if (pos == 0)
        return; /* only a hint: the recorder reads the mappings from time to time anyway */
    struct hw_rec_maps *r = hw_ring_at(&s->ring, pos);
    r->pc = pc;
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_MAPS);
}

static void push_unmap(struct hw_client_session *s, uint64_t address, uint64_t n_bytes,
                       enum hw_unmap_kind kind)
{
    uint64_t pos = hw_push_reserve(s, sizeof(struct hw_rec_unmap));
    if (pos == 0) {
        hw_count(s, lost_free, 1);
        return;
    }
    struct hw_rec_unmap *r = hw_ring_at(&s->ring, pos);
    r->address = address;
    r->n_bytes = n_bytes;
    r->time_ns = hw_client_session_coarse_ns(s);
    r->kind = kind;
    r->reserved = 0;
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_UNMAP);
}

bool hw_push_unmap(uint64_t address, uint64_t n_bytes, enum hw_unmap_kind kind)
{
    struct hw_client_guard v;
    int saved = errno;
    hw_enter(&v);
    bool wanted = v.session && (v.session->config.flags & HW_CC_MAPPINGS);
    if (wanted)
        push_unmap(v.session, address, n_bytes, kind);
    hw_leave(&v);
    errno = saved;
    return wanted;
}

/* The token is the child's proof that it is one: no other process can guess the place of the session in this
 * one's memory and its time. A full ring is not waited for: a fork must not be slower for us. */
static uint64_t push_fork(struct hw_client_session *s)
{
    uint64_t pos = hw_ring_reserve_by(&s->ring, sizeof(struct hw_rec_fork), hw_push_this_thread());
    if (pos == 0)
        return 0;
    struct hw_rec_fork *r = hw_ring_at(&s->ring, pos);
    uint64_t token = hw_hash_u64(hw_hash_u64(s->seed ^ (uintptr_t)s) ^ hw_local_ns() ^ pos) | 1;
    r->token = token;
    r->time_ns = hw_client_session_coarse_ns(s);
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_FORK);
    return token;
}

uint64_t hw_push_fork(void)
{
    static const uint32_t wanted = HW_CC_MAPPINGS | HW_CC_FOLLOW_FORK;
    struct hw_client_guard v;
    int saved = errno;
    hw_enter(&v);
    bool is_wanted = v.session && (v.session->config.flags & wanted) == wanted;
    uint64_t token = is_wanted ? push_fork(v.session) : 0;
    hw_leave(&v);
    errno = saved;
    return token;
}

/* A program that retries in a loop must not fill the ring. */
#define FAILED_EVERY_NS 10000000u

static void push_failed(struct hw_client_session *s, size_t n_bytes)
{
    uint64_t now = hw_client_session_coarse_ns(s);
    uint64_t next = atomic_load_explicit(&s->failed_next_ns, memory_order_relaxed);
    if (now < next ||
        !atomic_compare_exchange_strong(&s->failed_next_ns, &next, now + FAILED_EVERY_NS))
        return;
    uint64_t pos = hw_push_reserve(s, sizeof(struct hw_rec_failed));
    if (pos == 0)
        return; /* the session is over */
    struct hw_rec_failed *r = hw_ring_at(&s->ring, pos);
    r->size = n_bytes;
    r->time_ns = now;
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_FAILED);
}

HW_COLD void hw_push_failed(size_t n_bytes)
{
    struct hw_client_guard v;
    int saved = errno;
    hw_enter(&v);
    if (v.session && !v.nested)
        push_failed(v.session, n_bytes);
    hw_leave(&v);
    errno = saved;
}
