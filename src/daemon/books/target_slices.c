/*
 * A thread's record says how deep its scope is. Whatever is still open at that depth or below it
 * has ended by then: left by longjmp, or its end did not fit into the ring.
 */
#include "daemon/books/target_slices.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/core.h"
#include "trace/slice_writer.h"

#include "base/banned.h"

bool hw_slices_name(struct hw_target_slices *s, const struct hw_managed_name *n)
{
    uint32_t kind = hw_managed_kind_of(n->id);
    if (kind != HW_MANAGED_SLICE && kind != HW_MANAGED_THREAD)
        return false;
    (void)hw_map64_put(&s->names, n->id, (uint64_t)(uintptr_t)n); /* else without a name */
    return true;
}

void hw_target_slices_done(struct hw_target_slices *s)
{
    hw_map64_done(&s->names);
    hw_map64_done(&s->by_tid);
    for (size_t i = 0; i < s->threads.n; i++)
        hw_vec_done(&s->threads.v[i].open_depths);
    hw_vec_done(&s->threads);
}

uint64_t hw_target_slices_bytes(const struct hw_target_slices *s)
{
    return hw_map64_bytes(&s->names) + hw_map64_bytes(&s->by_tid) +
           s->threads.cap * sizeof *s->threads.v + s->depth_bytes;
}

static const struct hw_managed_name *name_of(const struct hw_target_slices *s, uint64_t id)
{
    uint64_t at = 0;
    (void)hw_map64_get(&s->names, id, &at); /* 0: none */
    return (const struct hw_managed_name *)(uintptr_t)at;
}

static struct hw_bytes function_of(const struct hw_managed_name *n)
{
    return n ? hw_bytes_of(n->text, n->n_function) : hw_bytes_of(NULL, 0);
}

static struct hw_bytes file_of(const struct hw_managed_name *n)
{
    return n ? hw_bytes_of(n->text + n->n_function, n->n_file) : hw_bytes_of(NULL, 0);
}

static uint64_t track_of(const struct hw_target *t, uint32_t tid)
{
    return hw_hash_mix(t->key, tid) | 1;
}

/* In another pid namespace the target knows its first thread by the number that it has there. */
static int32_t outer_tid(const struct hw_target *t, uint32_t tid)
{
    return (int32_t)tid == t->hello.pid_inside ? t->pid.pid : (int32_t)tid;
}

enum { MAX_THREADS = 1 << 16, MAX_OPEN = 1 << 12 };

/* Described when it first appears. NULL: one too many, or an error in *rc. */
static struct hw_slices_thread *thread_at(struct hw_target *t, uint32_t tid, uint64_t boottime_ns,
                                          struct hw_error *err, int *rc)
{
    struct hw_target_slices *s = &t->slices;
    uint64_t at;
    *rc = HW_OK;
    if (hw_map64_get(&s->by_tid, tid, &at))
        return &s->threads.v[at];
    if (s->threads.n == MAX_THREADS)
        return NULL;
    struct hw_slices_thread thread = {.tid = tid};
    if (hw_vec_push(&s->threads, thread) < 0 ||
        hw_map64_put(&s->by_tid, tid, s->threads.n - 1) < 0) {
        *rc = HW_ENOMEM;
        return NULL;
    }
    uint64_t id = hw_managed_id(HW_MANAGED_THREAD, tid);
    struct hw_slice_thread words = {.track = track_of(t, tid),
                                    .pid = t->pid.pid,
                                    .tid = outer_tid(t, tid),
                                    .name = function_of(name_of(s, id))};
    *rc = hw_slice_write_thread(t->session->slices, boottime_ns, &words, err);
    return &s->threads.v[s->threads.n - 1];
}

/* One offset for all, unless the machine slept: measured again, it differs by the time a clock
 * reading takes, and an end would precede its beginning. */
static void set_clock(struct hw_target_slices *s)
{
    const int64_t slept_ns = 1000000;
    uint64_t now = hw_now_boottime_ns() - hw_now_monotonic_ns();
    if (s->to_boottime == 0 || (int64_t)(now - s->to_boottime) > slept_ns)
        s->to_boottime = now;
}

static int write_one(struct hw_target *t, const struct hw_fed_slice *r, struct hw_error *err)
{
    struct hw_slice_writer *w = t->session->slices;
    uint64_t ts = r->time_ns + t->slices.to_boottime, track = track_of(t, r->tid);
    int rc;
    struct hw_slices_thread *k = thread_at(t, r->tid, ts, err, &rc);
    while (k && rc == HW_OK && k->open_depths.n &&
           k->open_depths.v[k->open_depths.n - 1] >= r->depth) {
        rc = hw_slice_write_end(w, ts, track, err);
        k->open_depths.n--;
    }
    if (rc < 0 || r->id == 0)
        return rc;
    size_t before = k ? k->open_depths.cap : 0;
    if (!k || k->open_depths.n == MAX_OPEN || hw_vec_push(&k->open_depths, r->depth) < 0) {
        t->slices.n_lost++;
        return HW_OK;
    }
    t->slices.depth_bytes += (k->open_depths.cap - before) * sizeof *k->open_depths.v;
    const struct hw_managed_name *n = name_of(&t->slices, r->id);
    return hw_slice_write_begin(w, ts, track, file_of(n), function_of(n), err);
}

void hw_target_slices(struct hw_target *t, struct hw_fed_slice *list, size_t n)
{
    struct hw_session *s = t->session;
    struct hw_error err = {0};
    int rc = HW_OK;
    set_clock(&t->slices);
    bool writes = !s->closed && s->status == HW_OK;
    if (writes && !s->slices)
        rc = hw_slice_writer_new(s->writer, &s->slices);
    for (size_t i = 0; writes && rc == HW_OK && i < n; i++)
        rc = write_one(t, &list[i], &err);
    if (rc < 0)
        hw_session_write_failed(s, rc, &err);
    atomic_fetch_sub_explicit(&t->feed->n_slices_told, n, memory_order_relaxed);
    free(list);
}
