/*
 * dump_pins.c - free memory that live blocks pin (--pinned), as a heap of its own beside libc.malloc
 *
 * Of a process that was recorded from its start, at interval 1, with nothing lost, every live block is known, and the
 * figures are exact. Else the process's memory is read around the sampled blocks, and they are estimates
 * (pins.h). Without glibc's malloc nothing is written, and a warning says why. A measurement rests a
 * hundred times the time that it took; a dump meanwhile has none, and readers show the one before with its time.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"
#include "daemon/dump/dump_write.h"
#include "model/profile.h"
#include "proc/allocator.h"
#include "proc/glibc_heap.h"
#include "trace/process_writer.h"

#include "base/banned.h"

#define HEAP_ID         HW_MAX_HEAPS /* of none that a client has */
#define REST            100u
#define MAX_PAGES       (UINT64_C(16) << 10) /* of the process's memory: 64 MiB, some 15 ms */
#define WORTH_A_WARNING 0.2

struct measurement {
    struct hw_target *t;
    const struct hw_snapshot *s;
    uint64_t interval_bytes; /* 1: every live block is known */
    struct hw_pins_map map;
    bool *resident;      /* owned; by page of the map */
    uint64_t n_broken;   /* walks */
    uint64_t reading_ns; /* CPU time, of another thread */
};

static const struct hw_snap_book *libc_of(const struct hw_snapshot *s)
{
    for (size_t i = 0; i < s->books.n; i++)
        if (s->books.v[i].heap_id == HW_HEAP_ID_LIBC)
            return &s->books.v[i];
    return NULL;
}

/* NULL: it can be measured. */
static const char *why_not(const struct hw_target *t)
{
    const char *allocator = hw_allocator_name(&t->maps);
    bool is_64 = t->hello.arch == HW_ARCH_X86_64 || t->hello.arch == HW_ARCH_ARM64;
    if (!allocator || strcmp(allocator, "glibc") != 0 || !is_64)
        return "it needs glibc's malloc of a 64-bit program";
    return sysconf(_SC_PAGESIZE) == (long)HW_PINS_PAGE ? NULL : "it needs pages of 4096 bytes";
}

static bool knows_every_block(const struct hw_target *t, const struct hw_snapshot *s,
                              const struct hw_snap_book *libc)
{
    return t->from_startup && libc->interval_bytes == 1 && libc->orig_interval_bytes == 1 &&
           !hw_dump_lost_samples(t, s);
}

/* Reads what else is on the pages. */
static int read_heap(struct measurement *x)
{
    struct hw_target *t = x->t;
    struct hw_pins_map *m = &x->map;
    hw_autofree struct hw_glibc_block *blocks = calloc(m->blocks.n + 1, sizeof *blocks);
    hw_autofree uint32_t *used = calloc(m->pages.n + 1, sizeof *used);
    uint64_t cpu_ns = 0;
    if (!blocks || !used)
        return HW_ENOMEM;
    for (size_t i = 0; i < m->blocks.n; i++)
        blocks[i] =
            (struct hw_glibc_block){m->blocks.v[i].lo - 8, m->blocks.v[i].hi - m->blocks.v[i].lo};
    int rc = hw_reading_heap(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid), blocks,
                             m->blocks.n, m->numbers.v, m->numbers.n, HW_PINS_REGION, MAX_PAGES,
                             used, &x->n_broken, &cpu_ns);
    x->reading_ns += cpu_ns;
    for (size_t i = 0; rc == HW_OK && i < m->pages.n; i++)
        m->pages.v[i].used = used[i];
    return rc;
}

static int look(struct measurement *x)
{
    struct hw_target *t = x->t;
    x->resident = calloc(x->map.pages.n + 1, sizeof *x->resident);
    if (!x->resident)
        return HW_ENOMEM;
    int rc = hw_reading_pages(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid),
                              x->map.numbers.v, x->map.numbers.n, x->resident, &x->reading_ns);
    if (rc == HW_OK && x->interval_bytes > 1)
        rc = read_heap(x);
    if (rc == HW_OK && !hw_target_is_shown(t)) /* it may have executed a set-user-id program */
        rc = HW_EGONE;
    return rc;
}

static void warn_of_lost(const struct measurement *x)
{
    struct hw_target *t = x->t;
    if (t->pins.warned)
        return;
    t->pins.warned = true;
    hw_session_warn(t->session,
                    "pid %d: what pins memory is told by %.0f%% of the blocks that were looked at: "
                    "elsewhere the "
                    "allocator's memory changed while it was read, or is damaged (%llu places)",
                    t->pid.pid, 100 * (1 - hw_pins_lost(&x->map)), (unsigned long long)x->n_broken);
}

/* How many of the blocks the figures are of. */
static int write_share(struct measurement *x)
{
    struct hw_target *t = x->t;
    double missed = 1 - hw_pins_share(&x->map);
    struct hw_memory_account a = hw_memory_account_of(t->pid.pid);
    if (x->interval_bytes == 1)
        return HW_OK;
    a.pins_blocks = hw_sat_uint(x->map.all + 0.5);
    a.pins_missed = hw_sat_uint(missed * x->map.all + 0.5);
    if (hw_pins_lost(&x->map) > WORTH_A_WARNING)
        warn_of_lost(x);
    return hw_proc_poll_account(t, hw_now_boottime_ns(), &a, NULL);
}

static int measure(struct measurement *x, struct hw_snap_book *out, uint64_t *cpu_ns)
{
    uint64_t began = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int rc = hw_pins_map_init(&x->map, x->s->idle.v, x->s->idle.n, x->interval_bytes);
    if (rc == HW_OK)
        rc = look(x);
    if (rc == HW_OK)
        rc = hw_pins_take(&x->t->pins.sites, &x->map, x->resident, out);
    if (rc == HW_OK)
        rc = write_share(x);
    if (rc == HW_EFORMAT)
        warn_of_lost(x);
    hw_pins_map_done(&x->map);
    free(x->resident);
    *cpu_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began + x->reading_ns;
    return rc;
}

static int add_book(struct hw_target *t, struct hw_snapshot *s, const struct hw_snap_book *libc,
                    bool measures)
{
    /* Once sampled it stays so, also when the last dump tells nothing but the end. */
    t->pins.is_sampled |= !knows_every_block(t, s, libc);
    uint64_t interval = libc->interval_bytes > 1 ? libc->interval_bytes : 2;
    struct measurement x = {.t = t, .s = s, .interval_bytes = t->pins.is_sampled ? interval : 1};
    struct hw_snap_book b = {.heap_id = HEAP_ID,
                             .name = HW_PINNED_HEAP,
                             .interval_bytes = x.interval_bytes,
                             .orig_interval_bytes = x.interval_bytes};
    uint64_t took = 0;
    int rc = measures ? measure(&x, &b, &took) : HW_OK;
    t->pins.next_ns = hw_now_monotonic_ns() + took * REST;
    if (rc == HW_OK && hw_vec_push(&s->books, b) < 0)
        rc = HW_ENOMEM;
    if (rc < 0)
        hw_vec_done(&b.cells);
    return rc == HW_EFORMAT ? HW_OK : rc; /* the next dump may find it in order */
}

#define MAX_LATE 5u

static void give_up(struct hw_target *t, const char *why)
{
    t->pins.failed = true;
    hw_session_warn(t->session, "pid %d: pinned memory is not measured: %s", t->pid.pid, why);
}

void hw_dump_find_pins(struct hw_target *t, struct hw_snapshot *s)
{
    const struct hw_snap_book *libc = libc_of(s);
    bool is_gone = t->end == HW_END_EXITED || t->end == HW_END_EXECED || !hw_pid_alive(&t->pid);
    if (!hw_session_wants_pins(t->session) || !t->feed->keeps_addresses || !libc ||
        t->pins.failed || t->launcher)
        return;
    const char *why = is_gone && t->maps.maps.n == 0 ? NULL : why_not(t);
    if (why) {
        give_up(t, why);
        return;
    }
    if (is_gone ? t->end != HW_END_EXECED
                : !t->dump.final && hw_now_monotonic_ns() < t->pins.next_ns)
        return;
    int rc = add_book(t, s, libc, !is_gone);
    t->pins.n_late = rc == HW_ETIMEOUT ? t->pins.n_late + 1 : 0;
    if (rc == HW_ETIMEOUT && t->pins.n_late < MAX_LATE)
        return; /* a busy machine: the next dump may have it */
    if (rc < 0 && rc != HW_EGONE && hw_pid_alive(&t->pid))
        give_up(t, hw_errc_text(rc));
}
