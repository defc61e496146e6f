/*
 * dump_pins.c - free memory that live blocks pin (--pinned), as a heap of its own beside libc.malloc
 *
 * It is known only if every live block is: in a process that was recorded from its start, at
 * interval 1, with nothing lost, with glibc's malloc. Else nothing is written, and a warning says
 * why. After a measurement there is none for a hundred times the time that it took; a dump
 * meanwhile has none, and readers show the previous one with its time.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/files/fd.h"
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"
#include "daemon/dump/dump_write.h"
#include "model/profile.h"
#include "proc/allocator.h"

#include "base/banned.h"

#define HEAP_ID HW_MAX_HEAPS /* of none that a client has */
#define REST    100u

static const struct hw_snap_book *libc_of(const struct hw_snapshot *s)
{
    for (size_t i = 0; i < s->books.n; i++)
        if (s->books.v[i].heap_id == HW_HEAP_ID_LIBC)
            return &s->books.v[i];
    return NULL;
}

/* NULL: every live block is known. */
static const char *why_not(const struct hw_target *t, const struct hw_snapshot *s,
                           const struct hw_snap_book *libc)
{
    const char *allocator = hw_allocator_name(&t->maps);
    bool is_64 = t->hello.arch == HW_ARCH_X86_64 || t->hello.arch == HW_ARCH_ARM64;
    if (!t->from_startup)
        return "it was not recorded from its start";
    if (libc->interval_bytes != 1 || libc->orig_interval_bytes != 1)
        return "it needs --interval 1";
    if (hw_dump_lost_samples(t, s))
        return "samples were lost";
    if (!allocator || strcmp(allocator, "glibc") != 0 || !is_64)
        return "it needs glibc's malloc of a 64-bit program";
    return sysconf(_SC_PAGESIZE) == (long)HW_PINS_PAGE ? NULL : "it needs pages of 4096 bytes";
}

static int measure(struct hw_target *t, const struct hw_snapshot *s, struct hw_snap_book *out,
                   uint64_t *cpu_ns)
{
    struct hw_pins_map m;
    uint64_t began = hw_now_monotonic_ns(), reading_ns = 0;
    int rc = hw_pins_map_init(&m, s->idle.v, s->idle.n);
    if (rc < 0)
        return rc;
    hw_autofree bool *resident = calloc(m.pages.n + 1, sizeof *resident);
    rc = resident ? hw_reading_pages(t->rec->looker, hw_reading_at(&t->pid, t->uid), m.numbers.v,
                                     m.numbers.n, resident, &reading_ns)
                  : HW_ENOMEM;
    if (rc == HW_OK && !hw_target_is_shown(t)) /* it may have executed a set-user-id program */
        rc = HW_EGONE;
    if (rc == HW_OK)
        rc = hw_pins_take(&t->pins.sites, &m, resident, out);
    hw_pins_map_done(&m);
    *cpu_ns = hw_now_monotonic_ns() - began;
    return rc;
}

static int add_book(struct hw_target *t, struct hw_snapshot *s, bool measures)
{
    struct hw_snap_book b = {.heap_id = HEAP_ID,
                             .name = HW_PINNED_HEAP,
                             .interval_bytes = 1,
                             .orig_interval_bytes = 1,
                             .n_samples = s->n_samples};
    uint64_t took = 0;
    int rc = measures ? measure(t, s, &b, &took) : HW_OK;
    t->pins.next_ns = hw_now_monotonic_ns() + took * REST;
    if (rc == HW_OK && hw_vec_push(&s->books, b) < 0)
        rc = HW_ENOMEM;
    if (rc < 0)
        hw_vec_done(&b.cells);
    return rc;
}

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
    const char *why = is_gone ? NULL : why_not(t, s, libc);
    if (why) {
        give_up(t, why);
        return;
    }
    if (is_gone ? t->end != HW_END_EXECED
                : !t->dump.final && hw_now_monotonic_ns() < t->pins.next_ns)
        return;
    int rc = add_book(t, s, !is_gone);
    if (rc < 0 && rc != HW_EGONE && hw_pid_alive(&t->pid))
        give_up(t, hw_errc_text(rc));
}
