/* Programs that were not held: found by their names, in events and in scans of /proc. */
#include <errno.h>
#include <fcntl.h>
#include <linux/cn_proc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "daemon/books/pace.h"
#include "daemon/execwatch/exec_matcher_parts.h"
#include "daemon/execwatch/exec_rules.h"
#include "daemon/execwatch/exec_watch.h"
#include "proc/number.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MS        UINT64_C(1000000)
#define ROUND_MS  500u      /* a round of work that takes longer does not return */
#define SCAN_REST 60        /* times the CPU time of a scan of /proc, */
#define SCAN_FAST (25 * MS) /* and at least, if nothing reports programs that start */
#define SCAN_SLOW                                                                                  \
    (1000 * MS) /* or when it is for titles only; then it may cost a 200th of a core */
#define SCAN_REST_SLOW 200
#define COMM_BYTES     64u
#define SEEN_ARMED     UINT64_C(1) /* in seen */

static void on_event(struct hw_exec_finder *f, const struct proc_event *e)
{
    switch ((int)e->what) {
    case PROC_EVENT_EXEC:
        (void)hw_exec_examine(f, e->event_data.exec.process_tgid, 0, NULL); /* else not meant */
        break;
    case PROC_EVENT_COMM:
        if (e->event_data.comm.process_pid == e->event_data.comm.process_tgid &&
            !hw_exec_was_passed(f, e->event_data.comm.process_tgid))
            (void)hw_exec_examine(f, e->event_data.comm.process_tgid, HW_EXEC_RENAMED, NULL);
        break;
    default:
        break;
    }
}

void hw_exec_on_events(struct hw_exec_finder *f)
{
    struct proc_event e;
    int rc;
    while ((rc = hw_exec_next_event(f->events, &e)) == HW_OK || rc == HW_EBUSY || rc == HW_ELIMIT) {
        if (rc == HW_OK)
            on_event(f, &e);
        else if (rc == HW_ELIMIT) /* some were lost: /proc has them */
            f->next_scan_ns = 0;
    }
}

/* Arguments and short name only: few have changed since the last time. */
static bool hash_names(struct hw_exec_finder *f, int32_t pid, int dir, uint64_t *out)
{
    hw_autofree char *cmdline = NULL, *comm = NULL;
    size_t n, n_comm;
    struct hw_exec_reading reading;
    if (hw_exec_is_skipped(f->shared, &f->shared->finder, pid))
        return false;
    hw_exec_reading_begin(&f->shared->finder, pid, &reading);
    bool good = hw_proc_cmdline(dir, &cmdline, &n) == HW_OK && n > 0;
    hw_exec_reading_end(&f->shared->finder, &reading);
    if (!good || hw_file_read(dir, "comm", COMM_BYTES, &comm, &n_comm, NULL) < 0)
        return false;
    *out = hw_hash_mix(hw_hash_bytes(cmdline, n), hw_hash_bytes(comm, n_comm));
    return true;
}

/* Starts and short names are reported: only titles are left for this scan. */
static bool is_told(const struct hw_exec_finder *f)
{
    return f->holds || f->events >= 0;
}

static bool is_due(const struct hw_exec_finder *f, int32_t pid, uint64_t before)
{
    return !is_told(f) || hw_pace_title_is_due(f->n_scans, pid, before & HW_EXEC_SAME);
}

static uint64_t once_more(uint64_t before)
{
    return before + ((before & HW_EXEC_SAME) < HW_EXEC_SAME);
}

static void scan_one(struct hw_exec_finder *f, int32_t pid, struct hw_map64 *now_seen)
{
    struct hw_exec_candidate p;
    uint64_t before, hash;
    bool known = hw_map64_get(&f->seen, (uint64_t)pid, &before);
    if (known && !is_due(f, pid, before)) {
        (void)hw_map64_put(now_seen, (uint64_t)pid, once_more(before)); /* else reported again */
        return;
    }
    hw_exec_limit(ROUND_MS);
    hw_autofd int dir = hw_proc_open_dir(pid);
    if (dir < 0 || !hw_exec_rules_concern(&f->rules, dir) || !hash_names(f, pid, dir, &hash))
        return;
    hash &= ~HW_EXEC_SAME;
    struct hw_pid who = {pid, -1, dir, /* start_ticks = */ 0};
    bool same = known && (before & ~HW_EXEC_SAME) == hash;
    (void)hw_map64_put(now_seen, (uint64_t)pid, same ? once_more(before) : hash); /* as above */
    bool is_new = !same && !(known && before == SEEN_ARMED); /* that one is called in its time */
    if (!f->has_seen || !is_new || hw_exec_was_passed(f, pid) ||
        !hw_exec_candidate_read(&f->rules, f->shared, &who, &p))
        return;
    if (hw_exec_rules_mean(&f->rules, &p) && !hw_exec_is_of_passed(f, &p))
        hw_exec_tell(f, HW_EXEC_FOUND, known ? HW_EXEC_RENAMED : 0, pid, NULL);
    hw_exec_candidate_done(&p);
}

/* By the clock it may have waited for a processor, and would rest for minutes because others work. */
void hw_exec_scan(struct hw_exec_finder *f)
{
    uint64_t before = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    hw_pid_list all = {0};
    struct hw_map64 seen = {0};
    (void)hw_proc_list(&all); /* what was found before a failure is still right */
    for (size_t i = 0; i < all.n; i++)
        scan_one(f, all.v[i], &seen);
    hw_vec_done(&all);
    hw_map64_done(&f->seen);
    f->seen = seen;
    f->has_seen = true;
    f->n_scans++;
    uint64_t took = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    uint64_t least = is_told(f) ? SCAN_SLOW : SCAN_FAST;
    uint64_t rest = took * (is_told(f) ? SCAN_REST_SLOW : SCAN_REST);
    f->next_scan_ns = hw_now_monotonic_ns() + (rest > least ? rest : least);
}
