#include "record/processes.h"
#include "record/process_reads.h"

#include <pwd.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "proc/allocator.h"
#include "proc/maps.h"
#include "proc/pid.h"

#include "base/banned.h"

#define KEPT_NS UINT64_C(20000000000)

static void find_session(const struct hw_recorders *all, struct hw_process_row *row)
{
    for (size_t r = 0; r < all->all.n; r++)
        for (size_t i = 0; i < all->all.v[r].state.sessions.n; i++) {
            const struct hw_service_session *s = &all->all.v[r].state.sessions.v[i];
            for (size_t k = 0; k < s->targets.n; k++)
                if (s->targets.v[k].pid == row->pid) {
                    row->recorder = &all->all.v[r];
                    row->session = s;
                }
        }
}

/* A recorder profiles neither itself nor its workers. */
static void refuse_recorder(const struct hw_recorders *all, struct hw_process_row *row)
{
    enum { MOST_BELOW = 4 };
    int32_t recorder = all->all.n && !all->all.v[0].embedded ? all->all.v[0].state.pid : 0;
    int32_t pid = recorder > 0 ? row->pid : 0;
    for (int depth = 0; pid > 1 && depth < MOST_BELOW && pid != recorder; depth++) {
        struct hw_pid p;
        struct hw_proc_stat st = {0};
        if (hw_pid_open(pid, &p, NULL) == 0) {
            (void)hw_proc_stat(p.dir, &st); /* unreadable: no parent */
            hw_pid_done(&p);
        }
        pid = st.ppid;
    }
    if (recorder <= 0 || pid != recorder)
        return;
    row->why.code = "protected";
    (void)snprintf(row->why.text, sizeof row->why.text, "process %d %s", row->pid,
                   row->pid == recorder ? "is the recorder" : "works for the recorder");
}

static bool read_row(struct hw_process_row *row,
                     bool (*meant)(void *ctx, int32_t pid, const char *argv0), void *ctx)
{
    struct hw_pid p;
    struct hw_proc_status status;
    if (hw_pid_open(row->pid, &p, NULL) < 0)
        return false; /* has exited */
    hw_read_argv0(&p, row->name, sizeof row->name);
    bool is_meant = !meant || meant(ctx, row->pid, row->name);
    if (is_meant && hw_proc_status(p.dir, &status) == 0) {
        row->rss_kb = status.vm_rss_kb;
        row->uid = status.uid;
        row->inside = status.nspid != row->pid ? status.nspid : 0;
        if (!row->name[0])
            (void)snprintf(row->name, sizeof row->name, "[%s]", status.name);
    }
    hw_pid_done(&p);
    return is_meant;
}

static const char *allocator_of(int32_t pid)
{
    struct hw_pid p;
    struct hw_maps maps = {0};
    const char *name = NULL;
    if (hw_pid_open(pid, &p, NULL) < 0)
        return NULL;
    if (hw_read_maps(&p, &maps) == HW_OK)
        name = hw_allocator_name(&maps);
    hw_maps_done(&maps);
    hw_pid_done(&p);
    return name;
}

static void diagnose(struct hw_process_row *row, hw_processes_known *known)
{
    int32_t pid = row->pid;
    struct hw_pid p;
    uint64_t now = hw_now_monotonic_ns(), start = 0;
    if (known && hw_pid_open(pid, &p, NULL) == 0) {
        start = p.start_ticks;
        hw_pid_done(&p);
    }
    size_t slot = known ? known->n : 0;
    for (size_t i = 0; known && i < known->n; i++) {
        const struct hw_process_known *k = &known->v[i];
        if (k->pid == pid && k->start_ticks == start && now < k->until_ns) {
            if (!row->session)
                row->why = k->why;
            row->allocator = k->allocator;
            return;
        }
        if (k->pid == pid || now >= k->until_ns)
            slot = i;
    }
    if (!row->session) /* already being profiled: no need to check */
        hw_diagnose_pid(pid, &row->why);
    if (known && !row->why.code)
        row->allocator = allocator_of(pid);
    struct hw_process_known k = {pid, start, now + KEPT_NS, row->why, row->allocator};
    if (known && slot < known->n)
        known->v[slot] = k;
    else if (known)
        (void)hw_vec_push(known, k); /* out of memory: checked again the next time */
}

int hw_processes_find(const struct hw_recorders *all,
                      bool (*meant)(void *ctx, int32_t pid, const char *argv0), void *ctx,
                      bool every, hw_processes_known *known, hw_process_rows *out)
{
    hw_pid_list pids = {0};
    int rc = hw_proc_list(&pids);
    for (size_t i = 0; rc == 0 && i < pids.n; i++) {
        struct hw_process_row row = {.pid = pids.v[i]};
        if (!read_row(&row, meant, ctx))
            continue;
        find_session(all, &row);
        refuse_recorder(all, &row);
        if (!row.why.code && (!row.session || known))
            diagnose(&row, known);
        if (!row.why.code || every)
            (void)hw_vec_push(out, row); /* out of memory: just a shorter list */
    }
    hw_vec_done(&pids);
    return rc;
}

const char *hw_user_name(uint64_t uid, char out[32])
{
    char buffer[1024];
    struct passwd pw, *found = NULL;
    (void)getpwuid_r((uid_t)uid, &pw, buffer, sizeof buffer, &found); /* none: the number */
    (void)snprintf(out, 32, "%s", found ? pw.pw_name : "");           /* a truncated name will do */
    if (!found)
        (void)snprintf(out, 32, "%llu", (unsigned long long)uid);
    return out;
}
