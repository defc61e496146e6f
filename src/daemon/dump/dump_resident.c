/*
 * dump_resident.c - what of a target's anonymous mappings is in memory, as a heap of its own beside mmap.anon
 *
 * The account's reading at the beginning of a dump knows resident bytes by address, the snapshot
 * that comes soon after knows the calls. A dump without a reading has no such heap, and readers
 * show the previous one. A process that has ended has the kept reading and the ranges it had at its
 * end, and no page map.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"
#include "daemon/dump/procpoll.h"
#include "daemon/dump/resident.h"
#include "model/profile.h"
#include "trace/process_writer.h"

#include "base/banned.h"

#define HEAP_ID   (HW_MAX_HEAPS + 1)  /* of none that a client has */
#define MAX_PAGES (UINT64_C(1) << 20) /* of the page map: 4 GiB */
#define REST      100u

/* Of the calls' ranges: what lies behind the last mapping that was read, though there are more. */
static uint64_t unread_bytes(const struct hw_target_resident *r, const hw_mapped_list *mapped)
{
    uint64_t from = r->maps.n ? r->maps.v[r->maps.n - 1].end : 0, sum = 0;
    for (size_t i = 0; r->is_cut && i < mapped->n; i++) {
        const struct hw_mapped_by *m = &mapped->v[i];
        if (m->hi > from)
            sum += m->hi - (m->lo > from ? m->lo : from);
    }
    return sum;
}

static int write_limits(struct hw_target *t, const struct hw_snapshot *s, uint64_t divided,
                        int error, struct hw_error *err)
{
    uint64_t listed = 0;
    for (size_t i = 0; i < s->mapped.n; i++)
        listed += s->mapped.v[i].hi - s->mapped.v[i].lo;
    uint64_t left = s->mapped_bytes > listed ? s->mapped_bytes - listed : 0;
    left += unread_bytes(&t->resident, &s->mapped);
    struct hw_memory_account a = hw_memory_account_of(t->pid.pid);
    a.mapped_divided_bytes = divided;
    a.mapped_left_bytes = left;
    if (error)
        a.mapped_errno = (uint64_t)error;
    return hw_proc_poll_account(t, t->resident.read_ns, &a, err);
}

/* Asks the page map about mappings of several calls. */
static void count_pages(struct hw_target *t, struct hw_resident *r, int *error)
{
    uint64_t cpu_ns = 0;
    if (r->ask.n == 0 || !hw_pid_alive(&t->pid))
        return;
    int rc = hw_reading_present(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid), r->ask.v,
                                r->ask.n, MAX_PAGES, error, &cpu_ns);
    t->account.next_dump_ns += cpu_ns * REST;
    if (!hw_target_is_shown(t)) /* it may have executed a set-user-id program */
        for (size_t i = 0; i < r->ask.n; i++)
            r->ask.v[i].n_pages = HW_PAGES_UNKNOWN;
    if (rc == HW_OK && *error && !t->resident.warned) {
        t->resident.warned = true;
        hw_session_warn(
            t->session,
            "pid %d: who mapped resident memory is told by size where the kernel joined "
            "mappings: /proc/%d/pagemap: %s",
            t->pid.pid, t->pid.pid, strerror(*error));
    }
}

static int measure(struct hw_target *t, struct hw_snapshot *s, struct hw_snap_book *out,
                   struct hw_error *err)
{
    struct hw_resident r = {.to = &t->resident.calls};
    int error = 0;
    hw_measured_heap_begin(&t->resident.calls);
    int rc = hw_resident_divide(&r, &t->resident.maps, &s->mapped);
    if (rc == HW_OK)
        count_pages(t, &r, &error);
    if (rc == HW_OK)
        rc = hw_resident_count(&r, (uint64_t)sysconf(_SC_PAGESIZE));
    if (rc == HW_OK)
        rc = hw_measured_heap_tell(&t->resident.calls, out);
    uint64_t divided = r.divided_bytes;
    hw_resident_done(&r);
    if (rc < 0)
        return hw_fail(err, rc, 0, "resident mappings of pid %d", t->pid.pid);
    return write_limits(t, s, divided, error, err);
}

static bool has_mappings(const struct hw_snapshot *s)
{
    for (size_t i = 0; i < s->books.n; i++)
        if (s->books.v[i].heap_id == HW_HEAP_ID_ANON)
            return true;
    return false;
}

int hw_dump_find_resident(struct hw_target *t, struct hw_snapshot *s, struct hw_error *err)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    bool has_gone = t->end == HW_END_EXECED && t->resident.calls.sites.n; /* and is told as freed */
    struct hw_snap_book b = {.heap_id = HEAP_ID,
                             .name = HW_RESIDENT_HEAP,
                             .interval_bytes = 1,
                             .orig_interval_bytes = 1};
    if (!has_mappings(s) || c->dump_at_max || c->stream_allocations || t->session->closed ||
        !(t->resident.is_new || has_gone))
        return HW_OK;
    t->resident.is_new = false;
    int rc = has_gone ? HW_OK : measure(t, s, &b, err);
    hw_vec_done(&t->resident.maps);
    if (rc == HW_OK && hw_vec_push(&s->books, b) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "resident mappings of pid %d", t->pid.pid);
    if (rc < 0)
        hw_vec_done(&b.cells);
    return rc;
}
