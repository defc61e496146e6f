/*
 * procpoll.c - what the trace says about processes besides their heaps
 *
 * Names and parents of every target (readers know a process by them), counters at an interval,
 * memory maps where asked for. Reading smaps holds the target's mmap lock, so each of these
 * readings rests a hundred times as long as it took.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/memory/map64.h"
#include "base/text/text_parts.h"
#include "daemon/core.h"
#include "daemon/dump/account.h"
#include "daemon/dump/dump_job.h"
#include "daemon/procfs_packets.h"
#include "proc/number.h"
#include "proc/smaps.h"
#include "trace/process_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

#define MS          UINT64_C(1000000)
#define MIN_POLL_MS 100u
#define SLICE_NS    UINT64_C(1000000)
#define MAX_ARGS    256u
#define YOUNG_FIRST (10 * MS)
#define REST        100u /* times the duration of a reading */
#define KEPT_SHARE  100u /* of a process's age */
#define KEPT_MIN_NS (40 * MS)

struct hw_proc_poll {
    struct hw_session *session;
    uint32_t sequence;
    uint64_t stats_every_ns, smaps_every_ns, minfo_every_ns; /* 0 = off */
    uint64_t next_stats_ns, next_smaps_ns, next_minfo_ns;
    bool everybody; /* all processes, not only targets */
    hw_pid_list scanned;
    size_t n_written; /* of scanned: they are in the trace */
};

static bool check(struct hw_session *s, int rc, const struct hw_error *err)
{
    if (rc < 0)
        hw_session_write_failed(s, rc, err);
    return rc == HW_OK;
}

/* ---- the tree ---- */

static void write_threads(struct hw_session *s, int32_t pid, int dir)
{
    int fd = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            (void)close(fd); /* read only */
        return;
    }
    struct hw_error err;
    for (struct dirent *e; (e = readdir(d));) {
        char path[300], *name;
        size_t n;
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        (void)snprintf(path, sizeof path, "%s/comm", e->d_name);
        if (hw_file_read(fd, path, 4096, &name, &n, NULL) < 0)
            continue;
        name[strcspn(name, "\n")] = '\0';
        struct hw_thread_entry t = {(int32_t)strtol(e->d_name, NULL, 10), pid, name};
        int rc = hw_trace_process_tree(s->writer, s->proc->sequence, hw_now_boottime_ns(), NULL, 0,
                                       &t, 1, &err);
        free(name);
        if (!check(s, rc, &err))
            break;
    }
    (void)closedir(d); /* read only */
}

/* A process that has ended has no arguments any more, or nothing at all: then its name is what
 * its target learned when it connected. */
static void write_process(struct hw_session *s, int32_t pid, int dir, struct hw_target *t)
{
    struct hw_proc_status st;
    struct hw_proc_stat stat;
    struct hw_error err;
    hw_autofree char *cmdline = NULL;
    size_t n = 0;
    const char *args[MAX_ARGS];
    if (hw_proc_status(dir, &st) < 0 || hw_proc_stat(dir, &stat) < 0) {
        if (!t)
            return;
        st = (struct hw_proc_status){.uid = t->uid, .vm_size_kb = 1};
        stat = (struct hw_proc_stat){.start_ticks = t->pid.start_ticks};
    }
    size_t n_args = 0;
    struct hw_reading_who who = {pid, st.uid, stat.start_ticks, dir};
    if (t && t->arguments) {
        cmdline = t->arguments;
        n = t->n_arguments;
        t->arguments = NULL;
    }
    if (cmdline || hw_reading_cmdline(s->rec->blocking_reader, who, &cmdline, &n) == HW_OK) {
        uint64_t hash = hw_hash_bytes(cmdline, n);
        n_args = hw_split_args(cmdline, n, args, MAX_ARGS);
        if (t)
            t->arguments_hash = hash;
    }
    struct hw_process_entry e = {.pid = pid,
                                 .ppid = stat.ppid,
                                 .uid = (int32_t)st.uid,
                                 .cmdline = args,
                                 .n_cmdline = n_args,
                                 .is_kthread = n_args == 0 && st.vm_size_kb == 0,
                                 .start_from_boot_ns = HW_ABSENT};
    if (n_args == 0 && t && t->name[0]) {
        args[0] = t->name;
        e.n_cmdline = 1;
        e.is_kthread = false;
    } else if (n_args == 0) {
        args[0] = st.name;
        e.n_cmdline = 1;
        e.cmdline_is_comm = true;
    }
    if (st.nspid && st.nspid != pid) {
        e.nspids = &st.nspid;
        e.n_nspids = 1;
    }
    long hz = sysconf(_SC_CLK_TCK);
    if (s->config.process_stats.record_process_age || hz > 0)
        e.start_from_boot_ns = stat.start_ticks * (UINT64_C(1000000000) / (uint64_t)hz);
    int rc = hw_trace_process_tree(s->writer, s->proc->sequence, hw_now_boottime_ns(), &e, 1, NULL,
                                   0, &err);
    (void)check(s, rc, &err);
}

/* A server's worker is forked with its parent's arguments, and writes its own title over them. */
static void write_new_title(struct hw_session *s, struct hw_target *t)
{
    hw_autofree char *cmdline = NULL;
    size_t n = 0;
    if (t->is_untold || hw_reading_cmdline(s->rec->blocking_reader, hw_reading_at(&t->pid, t->uid),
                                           &cmdline, &n) != HW_OK)
        return;
    if (n > 0 && cmdline[0] && hw_hash_bytes(cmdline, n) != t->arguments_hash)
        write_process(s, t->pid.pid, t->pid.dir, t);
}

static void check_allocator(struct hw_session *s, const struct hw_target *t);

bool hw_proc_poll_busy(const struct hw_recorder *r)
{
    for (size_t i = 0; i < r->sessions.n; i++) {
        const struct hw_proc_poll *p = r->sessions.v[i]->stopping ? NULL : r->sessions.v[i]->proc;
        if (p && p->n_written < p->scanned.n)
            return true;
    }
    return false;
}

/* A slice of the list: handshakes are answered in between. */
static void write_scanned(struct hw_proc_poll *p)
{
    uint64_t end = hw_now_monotonic_ns() + SLICE_NS;
    while (p->n_written < p->scanned.n && hw_now_monotonic_ns() < end) {
        int32_t pid = p->scanned.v[p->n_written++];
        hw_autofd int dir = hw_proc_open_dir(pid);
        if (dir >= 0)
            write_process(p->session, pid, dir, NULL);
    }
}

/* ---- counters ---- */

static void take_status(struct hw_process_counters *k, int32_t pid, const struct hw_proc_status *st)
{
    hw_process_counters_init(k, pid);
    k->vm_size_kb = st->vm_size_kb;
    k->vm_rss_kb = st->vm_rss_kb;
    k->rss_anon_kb = st->rss_anon_kb;
    k->rss_file_kb = st->rss_file_kb;
    k->rss_shmem_kb = st->rss_shmem_kb;
    k->vm_swap_kb = st->vm_swap_kb;
    k->vm_locked_kb = st->vm_locked_kb;
    k->vm_hwm_kb = st->vm_hwm_kb;
}

/* 1: written; 0: there is nothing to read any more. */
static int write_counters(const struct hw_proc_poll *p, struct hw_trace_writer *w,
                          uint32_t sequence, int32_t pid, int dir, struct hw_error *err)
{
    const struct hw_process_stats_config *c = &p->session->config.process_stats;
    struct hw_process_counters k;
    struct hw_proc_status st;
    struct hw_proc_stat stat;
    if (hw_proc_status(dir, &st) < 0 || st.vm_size_kb == 0)
        return 0; /* gone, or a kernel thread */
    take_status(&k, pid, &st);
    int64_t oom;
    if (hw_proc_oom_score_adj(dir, &oom) == HW_OK)
        k.oom_score_adj = oom;
    long hz = sysconf(_SC_CLK_TCK);
    if (c->record_process_runtime && hz > 0 && hw_proc_stat(dir, &stat) == HW_OK) {
        k.runtime_user_ns = stat.utime_ticks * (UINT64_C(1000000000) / (uint64_t)hz);
        k.runtime_kernel_ns = stat.stime_ticks * (UINT64_C(1000000000) / (uint64_t)hz);
    }
    struct hw_smaps m;
    struct hw_reading_who who = {pid, st.uid, 0, dir};
    if (hw_proc_stat(dir, &stat) == HW_OK)
        who.start_ticks = stat.start_ticks;
    if (c->scan_smaps_rollup &&
        hw_reading_smaps(p->session->rec->blocking_reader, who, /* rollup = */ 1, &m) == HW_OK) {
        if (m.entries.n && hw_permission_shows(&p->session->asking, pid, dir)) {
            k.smr_rss_kb = m.entries.v[0].rss_kb;
            k.smr_pss_kb = m.entries.v[0].pss_kb;
            k.smr_pss_anon_kb = m.entries.v[0].pss_anon_kb;
            k.smr_pss_file_kb = m.entries.v[0].pss_file_kb;
            k.smr_pss_shmem_kb = m.entries.v[0].pss_shmem_kb;
            k.smr_swap_pss_kb = m.entries.v[0].swap_pss_kb;
        }
        hw_smaps_done(&m);
    }
    int rc = hw_trace_process_stats(w, sequence, hw_now_boottime_ns(), &k, 1, err);
    return rc < 0 ? rc : 1;
}

static bool poll_process(struct hw_proc_poll *p, int32_t pid, int dir)
{
    struct hw_error err;
    int rc = write_counters(p, p->session->writer, p->sequence, pid, dir, &err);
    (void)check(p->session, rc < 0 ? rc : HW_OK, &err);
    return rc == 1;
}

static void poll_target(struct hw_proc_poll *p, struct hw_target *t)
{
    if (!t->is_untold && poll_process(p, t->pid.pid, t->pid.dir))
        t->kept_ns = 0; /* older than what was just written */
}

/*
 * When a program's end is noticed, its memory is gone, and so are the figures that belong to its
 * last dump. So the latest reading is kept, and written if there is no later one. It is never older
 * than a hundredth of the life so far, or a tick: about 500 readings of a status in the first
 * hundred seconds of a process, and none later, when those at an interval are as good.
 */
static void keep_counters(const struct hw_proc_poll *p, struct hw_target *t, uint64_t now)
{
    struct hw_proc_status st;
    uint64_t age = now - t->since_ns, rest = age / KEPT_SHARE;
    t->next_keep_ns = rest >= p->stats_every_ns ? UINT64_MAX
                      : rest > KEPT_MIN_NS      ? now + rest
                                                : now + KEPT_MIN_NS;
    if (hw_proc_status(t->pid.dir, &st) < 0 || st.vm_size_kb == 0)
        return;
    take_status(&t->kept, t->pid.pid, &st);
    t->kept_ns = hw_now_boottime_ns();
}

static void keep_all_counters(const struct hw_proc_poll *p, uint64_t now)
{
    const struct hw_recorder *r = p->session->rec;
    for (size_t i = 0; i < r->targets.n; i++) {
        struct hw_target *t = r->targets.v[i];
        if (t->session != p->session || t->phase != HW_PHASE_RUNNING)
            continue;
        if (now >= t->next_keep_ns)
            keep_counters(p, t, now);
        hw_account_keep(t, now);
    }
}

void hw_proc_poll_last(struct hw_session *s, struct hw_target *t)
{
    struct hw_error err;
    if (s->closed || !s->proc || t->is_untold)
        return;
    (void)check(s, hw_account_last(t, s->proc->sequence, &err), &err);
    if (t->kept_ns)
        (void)check(
            s, hw_trace_process_stats(s->writer, s->proc->sequence, t->kept_ns, &t->kept, 1, &err),
            &err);
    t->kept_ns = 0;
    if (t->knows_exit)
        (void)check(s,
                    hw_trace_exit_status(s->writer, s->proc->sequence, hw_now_boottime_ns(),
                                         t->pid.pid, t->exit_status, &err),
                    &err);
}

/* Without any if they cannot be read: the process may just have ended. */
static int write_regions(const struct hw_target *t, struct hw_trace_writer *w, uint32_t sequence,
                         struct hw_error *err)
{
    struct hw_smaps m;
    if (hw_reading_smaps(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid), /* rollup = */ 0,
                         &m) < 0)
        return HW_OK;
    int rc = m.entries.n && hw_target_is_shown(t)
                 ? hw_write_regions(w, sequence, hw_now_boottime_ns(), t->pid.pid, &m, err)
                 : HW_OK;
    hw_smaps_done(&m);
    return rc;
}

int hw_proc_poll_regions(const struct hw_target *t, struct hw_error *err)
{
    const struct hw_session *s = t->session;
    bool wanted = (s->start.flags & HW_START_REGIONS) && t->phase == HW_PHASE_RUNNING;
    return wanted ? write_regions(t, s->writer, s->proc->sequence, err) : HW_OK;
}

int hw_proc_poll_account(const struct hw_target *t, uint64_t boottime_ns,
                         const struct hw_memory_account *a, struct hw_error *err)
{
    const struct hw_session *s = t->session;
    return s->proc ? hw_trace_memory_account(s->writer, s->proc->sequence, boottime_ns, a, err)
                   : HW_OK;
}

int hw_proc_poll_live(const struct hw_target *t, struct hw_trace_writer *w, struct hw_error *err)
{
    uint32_t sequence = hw_trace_writer_sequence(w);
    int rc = hw_write_process(w, sequence, &t->pid, err);
    if (rc == HW_OK)
        rc = write_counters(t->session->proc, w, sequence, t->pid.pid, t->pid.dir, err);
    rc = rc > 0 ? HW_OK : rc;
    if (rc == HW_OK && t->malloc_info_ns)
        rc = hw_trace_malloc_info(w, sequence, t->malloc_info_ns, &t->malloc_info, err);
    if (rc == HW_OK)
        rc = write_regions(t, w, sequence, err);
    return rc;
}

/* Only requested here; the target does it at its next sample, and limits the rate itself. */
static void ask_malloc_info(const struct hw_target *t)
{
    atomic_fetch_add_explicit(&t->page.map->malloc_info_wanted, 1, memory_order_relaxed);
}

void hw_proc_poll_target(struct hw_session *s, struct hw_target *t)
{
    t->is_untold = hw_dump_number_before(t) != NULL;
    if (s->closed || t->is_untold)
        return;
    write_process(s, t->pid.pid, t->pid.dir, t);
    if (s->config.has_process_stats && s->config.process_stats.record_thread_names)
        write_threads(s, t->pid.pid, t->pid.dir);
    if (s->proc->minfo_every_ns) {
        check_allocator(s, t);
        ask_malloc_info(t); /* it did not exist when the others were asked */
    }
    if (s->proc->stats_every_ns)
        (void)poll_process(s->proc, t->pid.pid, t->pid.dir); /* nothing was kept yet */
}

void hw_proc_poll_successors(const struct hw_target *t)
{
    for (size_t i = 0; i < t->rec->targets.n; i++) {
        struct hw_target *b = t->rec->targets.v[i];
        if (b->is_untold && b->session == t->session && b->pid.pid == t->pid.pid)
            hw_proc_poll_target(b->session, b);
    }
}

void hw_proc_poll_dump(struct hw_session *s, struct hw_target *t)
{
    struct hw_error err;
    if (s->closed || !s->proc || !s->proc->stats_every_ns)
        return;
    write_new_title(s, t);
    poll_target(s->proc, t);
    /* Before a limit kills it there are four at most. */
    bool must =
        t->dump.final || (t->dump.trigger && strcmp(t->dump.trigger, HW_TRIGGER_NEAR_LIMIT) == 0);
    if (!t->is_untold)
        (void)check(s, hw_account_dump(t, must, s->proc->sequence, &err), &err);
}

void hw_proc_poll_name(struct hw_session *s, const struct hw_pid *pid)
{
    write_process(s, pid->pid, pid->dir, NULL);
}

void hw_proc_poll_reading(struct hw_session *s, const struct hw_pid *pid,
                          const struct hw_account_reading *k, struct hw_go_alloc **go)
{
    struct hw_error err;
    (void)check(s, hw_account_write(s, go, pid->pid, k, s->proc->sequence, &err), &err);
}

/* A run shorter than the period needs figures near its end, too: the pause doubles up to the
 * period. */
static void poll_young(struct hw_proc_poll *p, uint64_t now)
{
    struct hw_recorder *r = p->session->rec;
    for (size_t i = 0; i < r->targets.n; i++) {
        struct hw_target *t = r->targets.v[i];
        if (t->session != p->session || t->phase != HW_PHASE_RUNNING || now < t->next_poll_ns)
            continue;
        uint64_t age = now - t->since_ns;
        if (age < YOUNG_FIRST)
            age = YOUNG_FIRST;
        if (t->next_poll_ns) { /* 0: it was polled as it joined */
            poll_target(p, t);
            write_new_title(p->session, t);
        }
        t->next_poll_ns = age >= p->stats_every_ns / 2 ? UINT64_MAX : now + age;
    }
}

static void poll_stats(struct hw_proc_poll *p)
{
    struct hw_recorder *r = p->session->rec;
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->session == p->session && r->targets.v[i]->phase == HW_PHASE_RUNNING)
            poll_target(p, r->targets.v[i]);
    for (size_t i = 0; p->everybody && i < p->scanned.n; i++) {
        bool target = false;
        for (size_t k = 0; k < r->targets.n; k++)
            target |= r->targets.v[k]->pid.pid == p->scanned.v[i];
        hw_autofd int dir = target ? -1 : hw_proc_open_dir(p->scanned.v[i]);
        if (dir >= 0)
            (void)poll_process(p, p->scanned.v[i], dir); /* or it is gone */
    }
}

static void poll_smaps(struct hw_proc_poll *p, const struct hw_target *t)
{
    struct hw_smaps m;
    struct hw_error err;
    if (t->is_untold || hw_reading_smaps(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid),
                                         /* rollup = */ 0, &m) < 0)
        return;
    if (hw_target_is_shown(t))
        (void)check(p->session,
                    hw_write_smaps(p->session->writer, p->sequence, hw_now_boottime_ns(),
                                   t->pid.pid, &m, &err),
                    &err);
    hw_smaps_done(&m);
}

static void ask_all_malloc_info(const struct hw_proc_poll *p)
{
    const struct hw_recorder *r = p->session->rec;
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->session == p->session && r->targets.v[i]->phase == HW_PHASE_RUNNING)
            ask_malloc_info(r->targets.v[i]);
}

void hw_proc_poll_malloc_info(struct hw_target *t, const struct hw_minfo *told)
{
    const struct hw_rec_minfo *m = &told->r;
    struct hw_session *s = t->session;
    struct hw_error err;
    if (s->closed || t->is_untold)
        return;
    uint64_t ts = hw_now_boottime_ns(), now = hw_now_monotonic_coarse_ns();
    if (m->time_ns < now && now - m->time_ns < ts) /* a word of the target's */
        ts -= now - m->time_ns;
    struct hw_malloc_info i = {.pid = t->pid.pid,
                               .arena_bytes = m->arena_bytes,
                               .mmap_bytes = m->mmap_bytes,
                               .in_use_bytes = m->in_use_bytes,
                               .free_bytes = m->free_bytes,
                               .releasable_bytes = m->releasable_bytes,
                               .live_bytes = told->live_bytes,
                               .rounding_bytes =
                                   told->rounding < 0 ? HW_ABSENT : (uint64_t)told->rounding};
    t->malloc_info = i;
    t->malloc_info_ns = ts;
    (void)check(s, hw_trace_malloc_info(s->writer, s->proc->sequence, ts, &i, &err), &err);
}

/* Which processes can be asked, see client/sample/minfo.c. Another library's figures say nothing
 * about the allocator in use: none are better than wrong ones. */
static bool has_figures(const char *base)
{
    static const char *const names[] = {"libc.so", "libjemalloc", "libtcmalloc"};
    for (size_t i = 0; base && i < HW_ARRAY_LEN(names); i++)
        if (hw_starts_with(base, names[i]))
            return true;
    return false;
}

static void check_allocator(struct hw_session *s, const struct hw_target *t)
{
    const char *path = NULL;
    for (size_t i = 0; !path && i < t->maps.maps.n; i++) {
        const struct hw_map *m = &t->maps.maps.v[i];
        if (t->hello.allocator_base >= m->start && t->hello.allocator_base < m->end)
            path = m->path;
    }
    const char *base = path ? strrchr(path, '/') : NULL;
    base = base ? base + 1 : path;
    if (!has_figures(base))
        hw_session_warn(s,
                        "malloc_info: process %d gets its memory from %s, which cannot be asked "
                        "for its figures; glibc, jemalloc and tcmalloc can",
                        t->pid.pid, base && base[0] ? base : "elsewhere");
}

static uint64_t rested(uint64_t began, uint64_t every)
{
    uint64_t now = hw_now_monotonic_ns(), rest = (now - began) * REST;
    return now + (rest > every ? rest : every);
}

void hw_proc_poll_tick(struct hw_proc_poll *p, uint64_t now)
{
    write_scanned(p);
    if (p->stats_every_ns)
        poll_young(p, now);
    if (p->stats_every_ns && now >= p->next_stats_ns) {
        poll_stats(p);
        p->next_stats_ns = rested(now, p->stats_every_ns);
    }
    if (p->stats_every_ns)
        keep_all_counters(p, now);
    if (p->smaps_every_ns && now >= p->next_smaps_ns) {
        struct hw_recorder *r = p->session->rec;
        for (size_t i = 0; i < r->targets.n; i++)
            if (r->targets.v[i]->session == p->session &&
                r->targets.v[i]->phase == HW_PHASE_RUNNING)
                poll_smaps(p, r->targets.v[i]);
        p->next_smaps_ns = rested(now, p->smaps_every_ns);
    }
    if (p->minfo_every_ns && now >= p->next_minfo_ns) {
        p->next_minfo_ns = now + p->minfo_every_ns;
        ask_all_malloc_info(p);
    }
}

/* ---- start and end ---- */

static uint64_t interval_ns(uint32_t ms)
{
    return ms == 0 ? 0 : (ms < MIN_POLL_MS ? MIN_POLL_MS : ms) * MS;
}

int hw_proc_poll_new(struct hw_session *s, struct hw_proc_poll **out)
{
    struct hw_proc_poll *p = calloc(1, sizeof *p);
    if (!p)
        return HW_ENOMEM;
    const struct hw_process_stats_config *c = &s->config.process_stats;
    p->session = s;
    p->sequence = hw_trace_writer_sequence(s->writer);
    p->everybody = s->config.has_process_stats && c->scan_all_processes_on_start;
    uint32_t stats_ms = s->config.has_process_stats ? c->poll_ms : 0;
    p->stats_every_ns = interval_ns(stats_ms ? stats_ms : s->start.process_stats_ms);
    p->smaps_every_ns = interval_ns(s->start.smaps_ms);
    p->minfo_every_ns =
        s->start.flags & HW_START_MALLOC_INFO ? interval_ns(s->start.malloc_info_ms) : 0;
    *out = p;
    s->proc = p;
    if (p->everybody)
        (void)hw_proc_list(&p->scanned); /* what was found before a failure is still right */
    struct hw_error err;
    if (s->config.has_packages_list) /* Linux has none: the list says so by being empty */
        (void)check(s,
                    hw_trace_packages_list(s->writer, p->sequence, hw_now_boottime_ns(), NULL, 0,
                                           /* read_error = */ false, &err),
                    &err);
    return HW_OK;
}

void hw_proc_poll_free(struct hw_proc_poll *p)
{
    if (!p)
        return;
    hw_vec_done(&p->scanned);
    free(p);
}
