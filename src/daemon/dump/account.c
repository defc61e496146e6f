#include "daemon/dump/account.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/blocking_reader.h"
#include "daemon/code/blocking_reader_job.h"
#include "daemon/core.h"
#include "daemon/dump/go_alloc.h"
#include "daemon/procfs_packets.h"
#include "proc/allocator.h"
#include "trace/process_writer.h"

#include "base/banned.h"

#define MS            UINT64_C(1000000)
#define REST          100u
#define MANY          8u    /* targets of a continuous recording: */
#define MANY_REST     1000u /* all their kept readings together */
#define AGE_SHARE     20u
#define KEPT_FIRST    (50 * MS)
#define BOOKS_STEPS   10u
#define BOOKS_STEP_NS 1000000
#define USER_REST     10u         /* times what his processes kept the main thread waiting... */
#define USER_DEBT     (5000 * MS) /* ...beyond a burst of half a second */

struct hw_account_reading {
    struct hw_reading_memory memory;
    uint64_t own_left_bytes;
    uint64_t live_bytes;        /* behind the reading; HW_ABSENT */
    uint64_t live_before_bytes; /* likewise; HW_ABSENT: as much or more */
    uint64_t rounding_bytes;    /* of the live ones; HW_ABSENT */
    uint64_t gap_bytes;         /* around live blocks with mappings of their own; HW_ABSENT: none */
};

/* glibc's memory is recognized by its headers. Reading them counts as using their pages, which
 * then are not idle: if idle pages are wanted, none of the target's memory is read. */
static enum hw_owner_allocator allocator_of(const struct hw_maps *maps, bool wants_idle)
{
    if (wants_idle)
        return HW_OWNER_UNREAD;
    const char *name = hw_allocator_name(maps);
    if (!name)
        return HW_OWNER_NO_ALLOCATOR;
    return strcmp(name, "glibc") == 0 ? HW_OWNER_GLIBC : HW_OWNER_OTHER_ALLOCATOR;
}

void hw_account_free(struct hw_account_reading *k)
{
    if (k)
        hw_reading_memory_done(&k->memory);
    free(k);
}

bool hw_account_has_go(const struct hw_account_reading *k)
{
    return k->memory.go_alloc != NULL;
}

static void drop(struct hw_account_reading **k)
{
    hw_account_free(*k);
    *k = NULL;
}

static struct hw_rate_limit *rest_of_user(struct hw_recorder *r, uint32_t uid, uint64_t now)
{
    struct hw_account_user *least = &r->account_users[0];
    for (size_t i = 0; i < HW_ACCOUNT_USERS; i++) {
        struct hw_account_user *u = &r->account_users[i];
        if (u->uid == uid)
            return &u->rest;
        if (hw_rate_limit_debt(&u->rest, now) < hw_rate_limit_debt(&least->rest, now))
            least = u;
    }
    *least = (struct hw_account_user){.uid = uid};
    return &least->rest;
}

/* What is known about it before it is read. */
struct known {
    enum hw_owner_allocator allocator;
    struct hw_owner_ranges own;
    uint64_t own_left_bytes; /* of its own, and not in its list */
    bool wants_heaps;
};

/* Of all that record the process. */
static void find_own_files(const struct hw_recorder *r, int32_t pid, struct hw_owner_ranges *out)
{
    for (size_t i = 0; i < r->targets.n; i++) {
        const struct hw_target *t = r->targets.v[i];
        for (size_t k = 0; t->pid.pid == pid && k < HW_ARRAY_LEN(t->own_files); k++)
            if (out->n_files < HW_OWNERS_MAX_FILES)
                out->files[out->n_files++] = t->own_files[k];
    }
}

/* An older client does not say which mappings are its own. */
static void find_own(const struct hw_ring_shm *shm, struct hw_owner_ranges *out)
{
    _Static_assert(HW_RING_OWN <= HW_OWNERS_MAX_OWN, "all of it");
    out->n = 0;
    for (uint32_t i = 0; i < HW_RING_OWN; i++) {
        uint64_t word = atomic_load_explicit(&shm->own[i], memory_order_relaxed);
        if (word != 0)
            out->v[out->n++] = (struct hw_owner_range){hw_ring_own_lo(word), hw_ring_own_hi(word)};
    }
    out->by_flags = out->n == 0;
}

static int read_in_time(struct hw_recorder *r, struct hw_reading_who who, const struct known *k,
                        struct hw_reading_memory *out)
{
    uint64_t began = hw_now_monotonic_ns();
    struct hw_rate_limit *user = rest_of_user(r, who.uid, began);
    if (hw_rate_limit_debt(user, began) > USER_DEBT)
        return HW_ETIMEOUT;
    int rc = hw_reading_memory(r->blocking_reader, who, k->allocator, &k->own, k->wants_heaps, out);
    uint64_t ended = hw_now_monotonic_ns();
    hw_rate_limit_earn(user, ended, (ended - began) * USER_REST);
    return rc;
}

static void read_heaps(struct hw_recorder *r, struct hw_reading_who who, const struct known *known,
                       struct hw_reading_memory *m)
{
    uint64_t began = hw_now_monotonic_ns();
    hw_reading_heaps(r->blocking_reader, who, known->allocator, m);
    uint64_t ended = hw_now_monotonic_ns();
    hw_rate_limit_earn(rest_of_user(r, who.uid, ended), ended, (ended - began) * USER_REST);
}

/* Fails if it cannot be read, is just ending, or its user's processes took too much time. */
static int read_memory(struct hw_recorder *r, struct hw_reading_who who, const struct known *known,
                       struct hw_account_reading **out)
{
    struct hw_account_reading *k = calloc(1, sizeof *k);
    if (!k)
        return HW_ENOMEM;
    k->live_bytes = k->live_before_bytes = k->gap_bytes = k->rounding_bytes = HW_ABSENT;
    k->own_left_bytes = known->own_left_bytes;
    int rc = read_in_time(r, who, known, &k->memory);
    if (rc < 0) {
        free(k);
        return rc;
    }
    if (k->memory.status.vm_rss_kb == 0) {
        hw_account_free(k);
        return HW_EGONE;
    }
    *out = k;
    return HW_OK;
}

static uint64_t live_told(const struct hw_target *t)
{
    return t->feed ? atomic_load_explicit(&t->feed->live_libc, memory_order_relaxed) : HW_ABSENT;
}

/* The books follow the ring by up to a tenth of a second, and a program that has just given back a large block holds it
 * there still. So the ring is read at once, while the mappings are, and this is the rest of that. */
static uint64_t live_now(const struct hw_target *t, uint64_t until)
{
    struct hw_ring_shm *shm = t->feed->ring.shm;
    struct timespec pause = {.tv_nsec = BOOKS_STEP_NS};
    for (uint32_t i = 0;
         i < BOOKS_STEPS && t->with_thread && (int64_t)(until - atomic_load(&shm->read_pos)) > 0;
         i++)
        (void)nanosleep(&pause, NULL); /* cut short: it is asked again */
    return live_told(t);
}

static uint64_t read_ring_now(const struct hw_target *t)
{
    if (t->with_thread)
        (void)hw_drain_read_now(t->rec->drain, t->feed, t->key); /* else it looks by itself */
    return atomic_load(&t->feed->ring.shm->write_pos);
}

/* NULL: it cannot be read, or is just ending. */
static struct hw_account_reading *read_now(const struct hw_target *t, bool wants_heaps)
{
    bool wants_idle = hw_session_wants_idle(t->session, t->source);
    uint64_t until = t->feed ? read_ring_now(t) : 0;
    struct known known = {.allocator = allocator_of(&t->maps, wants_idle),
                          .wants_heaps = wants_heaps};
    struct hw_account_reading *k;
    uint64_t before = live_told(t);
    find_own_files(t->rec, t->pid.pid, &known.own);
    if (t->feed) {
        find_own(t->feed->ring.shm, &known.own);
        known.own_left_bytes =
            atomic_load_explicit(&t->feed->ring.shm->own_left_bytes, memory_order_relaxed);
    }
    struct hw_reading_who who = hw_reading_at(&t->pid, t->uid);
    if (read_memory(t->rec, who, &known, &k) < 0)
        return NULL;
    if (!hw_target_is_shown(t))
        drop(&k);
    else
        k->live_bytes = t->feed ? live_now(t, until) : HW_ABSENT;
    if (k && k->live_bytes != HW_ABSENT && before < k->live_bytes)
        k->live_before_bytes = before;
    if (k && k->live_bytes != HW_ABSENT)
        k->rounding_bytes = atomic_load_explicit(&t->feed->rounding_libc, memory_order_relaxed);
    uint64_t gaps = t->feed ? atomic_load_explicit(&t->feed->gaps_libc, memory_order_relaxed) : 0;
    if (k && gaps)
        k->gap_bytes = gaps;
    if (k)
        read_heaps(t->rec, who, &known, &k->memory);
    if (k && k->memory.heaps_ns && !hw_target_is_shown(t))
        hw_reading_forget_heaps(&k->memory);
    return k;
}

static void take_group(struct hw_memory_account *a, const struct hw_memory_group *g)
{
    a->cgroup_current = g->current;
    a->cgroup_limit = g->limit;
    a->cgroup_anon = g->anon;
    a->cgroup_file = g->file;
    a->cgroup_kernel = g->kernel;
    a->cgroup_sock = g->sock;
    a->cgroup_shmem = g->shmem;
    a->cgroup_id = g->id;
}

static void take_jvm(struct hw_memory_account *a, const struct hw_jvm_counters *c)
{
    a->jvm_heap_used = c->heap_used;
    a->jvm_heap_committed = c->heap_committed;
    a->jvm_heap_max = c->heap_max;
    a->jvm_metaspace_used = c->metaspace_used;
    a->jvm_metaspace_committed = c->metaspace_committed;
    a->jvm_threads = c->threads;
}

static uint32_t state_of(enum hw_glibc_arena_state s)
{
    switch (s) {
    case HW_GLIBC_ARENA_KNOWN:
        return HW_ARENA_KNOWN;
    case HW_GLIBC_ARENA_CHANGED:
        return HW_ARENA_CHANGED;
    case HW_GLIBC_ARENA_LIMIT:
        return HW_ARENA_LIMIT;
    case HW_GLIBC_ARENA_SWAPPED:
        return HW_ARENA_SWAPPED;
    case HW_GLIBC_ARENA_SCATTERED:
        return HW_ARENA_SCATTERED;
    }
    return HW_ARENA_CHANGED;
}

/* NULL: there are none, or there is no memory: the account lacks them then. */
static struct hw_malloc_arena *arenas_of(const struct hw_glibc_arenas *all)
{
    struct hw_malloc_arena *out = all->v.n ? calloc(all->v.n, sizeof *out) : NULL;
    for (size_t i = 0; out && i < all->v.n; i++) {
        const struct hw_glibc_arena *a = &all->v.v[i];
        out[i] = (struct hw_malloc_arena){.state = state_of(a->state),
                                          .is_main = a->is_main,
                                          .threads = (int64_t)a->threads,
                                          .system_bytes = a->system ? (int64_t)a->system : -1,
                                          .in_use_bytes = (int64_t)a->in_use,
                                          .free_bytes = (int64_t)a->is_free,
                                          .top_bytes = (int64_t)a->top,
                                          .cached_bytes = a->has_cached ? (int64_t)a->cached : -1,
                                          .fast_bytes = (int64_t)a->fast,
                                          .returnable_bytes = (int64_t)a->returnable,
                                          .resident_bytes = (int64_t)a->resident};
    }
    return out;
}

/* A version whose heap looks otherwise has a state only. */
static void take_python(struct hw_memory_account *a, const struct hw_python_heap *h)
{
    if (h->state == HW_PYTHON_HEAP_NONE)
        return;
    a->python_state = h->state;
    if (h->state != HW_PYTHON_HEAP_KNOWN)
        return;
    a->python_arenas = h->arenas;
    a->python_used = h->used;
    a->python_free_blocks = h->free_blocks;
    a->python_free_pools = h->free_pools;
    a->python_committed = h->committed;
    a->python_resident = h->resident;
}

static void take_go(struct hw_memory_account *a, const struct hw_go_heap *h)
{
    if (h->state == HW_GO_HEAP_NONE)
        return;
    a->go_state = h->state;
    if (h->state != HW_GO_HEAP_KNOWN)
        return;
    a->go_objects = h->objects;
    a->go_in_use = h->in_use;
    a->go_committed = h->in_use + h->idle;
    a->go_stacks = h->stacks;
    a->go_metadata = h->metadata + h->work;
}

/* out: of HW_V8_SPACES; those that it has. */
static void take_v8(struct hw_memory_account *a, const struct hw_v8_heap *h,
                    struct hw_trace_v8_space *out)
{
    if (h->state == HW_V8_HEAP_NONE)
        return;
    a->v8_state = h->state;
    a->v8_spaces = out;
    for (uint32_t i = 0; h->state == HW_V8_HEAP_KNOWN && i < HW_V8_SPACES; i++) {
        const struct hw_v8_space *s = &h->spaces[i];
        if (s->committed)
            out[a->n_v8_spaces++] = (struct hw_trace_v8_space){
                i, s->committed, s->has_used ? s->used : HW_ABSENT, s->resident};
    }
}

int hw_account_read(struct hw_recorder *r, const struct hw_pid *pid, bool wants_idle,
                    struct hw_account_reading **out)
{
    struct hw_proc_status st;
    struct hw_reading_image i;
    int rc = hw_proc_status(pid->dir, &st);
    if (rc < 0)
        return rc;
    struct hw_reading_who who = hw_reading_at(pid, st.uid);
    rc = hw_reading_image(r->blocking_reader, who, HW_READING_NO_FILES, NULL, NULL, 0, &i);
    if (rc < 0)
        return rc;
    struct known known = {.allocator = allocator_of(&i.maps, wants_idle), /* no session: no list */
                          .wants_heaps = true};
    rc = read_memory(r, who, &known, out);
    if (rc == HW_OK)
        read_heaps(r, who, &known, &(*out)->memory);
    hw_reading_image_done(&i);
    return rc;
}

/* In a packet of its own, as they may be of an earlier reading. */
static int write_heaps(int32_t pid, const struct hw_reading_memory *m, struct hw_trace_writer *w,
                       uint32_t sequence, struct hw_error *err)
{
    struct hw_memory_account a = hw_memory_account_of(pid);
    hw_autofree struct hw_malloc_arena *arenas = arenas_of(&m->arenas);
    a.arenas = arenas;
    a.n_arenas = arenas ? m->arenas.v.n : 0;
    take_python(&a, &m->python);
    take_go(&a, &m->go);
    struct hw_trace_v8_space spaces[HW_V8_SPACES];
    take_v8(&a, &m->v8, spaces);
    if (m->jvm_code.is_known) {
        a.jvm_code_used = m->jvm_code.used;
        a.jvm_code_committed = m->jvm_code.committed;
    }
    return hw_trace_memory_account(w, sequence, m->heaps_ns, &a, err);
}

int hw_account_write(struct hw_session *s, struct hw_go_alloc **go, int32_t pid,
                     const struct hw_account_reading *k, uint32_t sequence, struct hw_error *err)
{
    struct hw_trace_writer *w = s->writer;
    static const struct hw_memory_group none = {HW_ABSENT, HW_ABSENT, HW_ABSENT, HW_ABSENT,
                                                HW_ABSENT, HW_ABSENT, HW_ABSENT, HW_ABSENT};
    const struct hw_reading_memory *m = &k->memory;
    static const struct hw_jvm_counters no_jvm = {HW_ABSENT, HW_ABSENT, HW_ABSENT,
                                                  HW_ABSENT, HW_ABSENT, HW_ABSENT};
    struct hw_memory_account a = hw_memory_account_of(pid);
    a.live_bytes = k->live_bytes;
    a.live_before_bytes = k->live_before_bytes;
    a.gap_bytes = k->gap_bytes;
    a.rounding_bytes = k->rounding_bytes;
    a.page_tables_kb = m->status.vm_pte_kb;
    a.rss_kb = m->status.vm_rss_kb;
    a.swap_kb = m->status.vm_swap_kb;
    a.is_cut = m->smaps.cut;
    a.own_left_bytes = k->own_left_bytes ? k->own_left_bytes : HW_ABSENT;
    a.took_us = (m->ended_ns - m->began_ns) / 1000;
    take_group(&a, m->has_group ? &m->group : &none);
    take_jvm(&a, m->has_jvm ? &m->jvm : &no_jvm);
    int rc = hw_write_account(w, sequence, m->began_ns, pid, &m->smaps, err);
    if (rc == HW_OK)
        rc = hw_trace_memory_account(w, sequence, m->began_ns, &a, err);
    if (rc < 0 || !m->heaps_ns)
        return rc;
    rc = write_heaps(pid, m, w, sequence, err);
    return rc == HW_OK ? hw_go_alloc_write(s, go, pid, m, err) : rc;
}

static int write_one(struct hw_target *t, const struct hw_account_reading *k, uint32_t sequence,
                     struct hw_error *err)
{
    return hw_account_write(t->session, &t->account.go, t->pid.pid, k, sequence, err);
}

/* What the dump's own snapshot says about these mappings is written with it (dump_resident.c). */
static void keep_maps(struct hw_target *t, struct hw_account_reading *k)
{
    hw_vec_done(&t->resident.maps);
    t->resident.maps = k->memory.maps;
    t->resident.read_ns = k->memory.began_ns;
    t->resident.is_new = true;
    t->resident.is_cut = k->memory.smaps.cut;
    k->memory.maps = (hw_reading_maps){0};
}

/* Without that of what is inside of heaps, which rests for itself: it takes longer than the mappings. */
static uint64_t cost_of(const struct hw_account_reading *k)
{
    return k ? k->memory.cpu_ns - k->memory.heaps_cpu_ns : 0;
}

static bool is_heaps_time(const struct hw_target *t)
{
    uint64_t now = hw_now_monotonic_ns();
    return now >= t->account.next_heaps_ns && now >= t->rec->next_heaps_ns;
}

/* What is known of the heaps stays known. */
static void inherit_heaps(struct hw_reading_memory *to, struct hw_account_reading *from)
{
    if (to->heaps_ns || !from || !from->memory.heaps_ns)
        return;
    to->heaps_ns = from->memory.heaps_ns;
    to->arenas = from->memory.arenas;
    to->python = from->memory.python;
    to->go = from->memory.go;
    to->jvm_code = from->memory.jvm_code;
    to->v8 = from->memory.v8;
    to->go_alloc = from->memory.go_alloc;
    from->memory.go_alloc = NULL;
    from->memory.arenas = (struct hw_glibc_arenas){.v = {0}};
    from->memory.heaps_ns = 0;
}

/* Between kept readings of all targets, as a multiple of what one took. */
static uint64_t rest_of_all(const struct hw_target *t)
{
    bool continuous = t->session->start.flags & HW_START_RESCAN;
    return continuous && t->rec->targets.n > MANY ? MANY_REST : REST;
}

/* One that ends before its turn would have no account at all. */
static bool waits_for_first(const struct hw_target *t, uint64_t now)
{
    const struct hw_recorder *r = t->rec;
    for (size_t i = 0; i < r->targets.n; i++) {
        const struct hw_target *o = r->targets.v[i];
        if (o->session == t->session && o->phase == HW_PHASE_RUNNING && o->account.next_ns == 0 &&
            now - o->since_ns >= KEPT_FIRST)
            return true;
    }
    return false;
}

static void rest(struct hw_target *t, const struct hw_account_reading *k)
{
    uint64_t now = hw_now_monotonic_ns(), age = now - t->since_ns;
    uint64_t took = cost_of(k), heaps = k ? k->memory.heaps_cpu_ns : 0;
    /* Twice as long if dumps come again and again: else the next one would always find a reading
     * that was just kept, and no time for its own. */
    bool repeated = t->session->sources.v[t->source].config->dump_interval_ms != 0;
    uint64_t least = took * REST * (repeated ? 2 : 1);
    uint64_t pause = least > age / AGE_SHARE ? least : age / AGE_SHARE;
    t->account.next_dump_ns = now + took * REST;
    if (heaps) {
        t->account.next_heaps_ns = now + heaps * REST;
        t->rec->next_heaps_ns = now + heaps * rest_of_all(t);
    }
    t->account.next_ns = now + (pause > KEPT_FIRST ? pause : KEPT_FIRST);
}

/* A reading that was kept meanwhile belongs to this dump as well as to any other. */
static int write_last(struct hw_target *t, uint32_t sequence, struct hw_error *err)
{
    int rc = t->account.last ? write_one(t, t->account.last, sequence, err) : HW_OK;
    if (t->account.last)
        keep_maps(t, t->account.last);
    drop(&t->account.last);
    return rc;
}

int hw_account_dump(struct hw_target *t, bool must, uint32_t sequence, struct hw_error *err)
{
    if (!must && hw_now_monotonic_ns() < t->account.next_dump_ns)
        return write_last(t, sequence, err);
    struct hw_account_reading *k = read_now(t, must || is_heaps_time(t));
    rest(t, k);
    if (!k)
        return HW_OK; /* what was kept is still the last */
    inherit_heaps(&k->memory, t->account.last);
    int rc = write_one(t, k, sequence, err);
    keep_maps(t, k);
    drop(&k);
    drop(&t->account.last); /* older */
    return rc;
}

void hw_account_keep(struct hw_target *t, uint64_t now)
{
    if (now < t->account.next_ns || now - t->since_ns < KEPT_FIRST ||
        now < t->rec->next_account_ns || (t->account.next_ns && waits_for_first(t, now)))
        return;
    struct hw_account_reading *k = read_now(t, is_heaps_time(t));
    rest(t, k);
    uint64_t took = cost_of(k);
    t->rec->next_account_ns = hw_now_monotonic_ns() + took * rest_of_all(t);
    if (!k)
        return;
    if (t->account.last && t->account.last->memory.status.vm_rss_kb > t->account.most_kb) {
        t->account.most_kb = t->account.last->memory.status.vm_rss_kb;
        drop(&t->account.most);
        t->account.most = t->account.last;
        t->account.last = NULL;
    }
    inherit_heaps(&k->memory, t->account.last);
    drop(&t->account.last);
    t->account.last = k;
}

/* One end is one dump of what Go's code allocates, the last that is known. */
static void leave_go_to_last(struct hw_target *t)
{
    const struct hw_account_reading *last = t->account.last;
    struct hw_account_reading *most = t->account.most;
    if (!most || !last || !last->memory.heaps_ns || !last->memory.go_alloc ||
        last->memory.go_alloc->state != HW_GO_PROFILE_KNOWN)
        return;
    hw_reading_go_free(most->memory.go_alloc);
    most->memory.go_alloc = NULL;
}

int hw_account_last(struct hw_target *t, uint32_t sequence, struct hw_error *err)
{
    leave_go_to_last(t);
    const struct hw_account_reading *last = t->account.last, *most = t->account.most;
    int rc = HW_OK;
    if (most && (!last || most->memory.status.vm_rss_kb > last->memory.status.vm_rss_kb))
        rc = write_one(t, most, sequence, err);
    if (rc == HW_OK && last)
        rc = write_one(t, last, sequence, err);
    if (last)
        keep_maps(t, t->account.last);
    hw_account_forget(t);
    return rc;
}

void hw_account_forget(struct hw_target *t)
{
    drop(&t->account.last);
    drop(&t->account.most);
}
