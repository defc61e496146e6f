/*
 * target.c - one profiled process, from hello to its last dump
 *
 *   PREPARING ── tables ready or deadline ──> RUNNING ── exit, exec, stop … ──> FINISHING ──> DONE
 *   (client waits for the welcome)          (drain thread owns the feed)   (final snapshot, names)
 *
 * The socket's end alone does not end a target: programs close descriptors they do not know. What
 * counts is the pidfd, or another image (exec) in which our ring is mapped no more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/files/fd_send.h"
#include "base/limits.h"
#include "daemon/clients/blocking_fd.h"
#include "daemon/core.h"
#include "daemon/dump/account.h"
#include "daemon/dump/go_alloc.h"
#include "daemon/events.h"
#include "daemon/java/java_agent_load.h"
#include "daemon/policy/memory.h"
#include "daemon/policy/permission.h"
#include "daemon/policy/unrecorded.h"
#include "daemon/target_parts.h"
#include "proc/allocator.h"

#include "base/banned.h"

#define MS                UINT64_C(1000000)
#define TABLES_WAIT_START (3000 * MS) /* the client's start waits up to 10 s */
#define TABLES_WAIT_HELD  (2 * MS)    /* so does that of a program held at its exec: not for long */
#define TABLES_WAIT_LIVE  (25 * MS)   /* a running thread waits 50 ms in all */
#define MIN_RING_BYTES    (64u * 1024)

static void hw_target_tell(struct hw_target *t, enum hw_target_state state, const char *text)
{
    struct hw_control_target_state b = {.pid = t->pid.pid, .state = state};
    hw_control_send(t->session->control, HW_CTL_TARGET_STATE, t->session->id, &b, sizeof b, text);
}

/* ---- memory ---- */

void hw_target_too_big(struct hw_target *t)
{
    if (t->phase != HW_PHASE_RUNNING)
        return;
    t->hit_guardrail = true;
    hw_session_warn(t->session,
                    "pid %d: profiling ends: its callstacks and live samples take %llu MiB of the "
                    "recorder's memory; try a larger --interval",
                    t->pid.pid, (unsigned long long)(hw_target_bytes(t) >> 20));
    hw_target_finish(t, HW_END_GUARDRAIL);
}

/* ---- the welcome ---- */

static void choose_heap(struct hw_client_config *out, const char *name, uint64_t interval_bytes)
{
    if (out->n_heaps == HW_MAX_HEAP_CHOICES)
        return;
    struct hw_heap_choice *h = &out->heaps[out->n_heaps++];
    h->interval_bytes = interval_bytes;
    (void)snprintf(h->name, sizeof h->name, "%s", name);
}

/* What its blocks have to say, for rounding. */
static uint32_t blocks_told(const struct hw_target *t)
{
    enum hw_block_rule rule = t->feed->books.rule;
    if (t->hello.arch != HW_ARCH_X86_64 && t->hello.arch != HW_ARCH_ARM64)
        return 0;
    return rule == HW_BLOCKS_UNKNOWN ? 0u : rule == HW_BLOCKS_GLIBC ? HW_CC_CHUNKS : HW_CC_ALIGNED;
}

static void client_config(struct hw_target *t, struct hw_client_config *out)
{
    const struct hw_session *s = t->session;
    const struct hw_heapprofd_config *c = s->sources.v[t->source].config;
    *out = (struct hw_client_config){.default_interval_bytes = c->default_interval_bytes,
                                     .block_timeout_us = c->block_client_timeout_us,
                                     .adaptive_threshold_bytes = c->adaptive_threshold_bytes,
                                     .adaptive_max_interval_bytes = c->adaptive_max_interval_bytes,
                                     .max_samples_per_second = c->max_samples_per_second,
                                     .seed = s->start.seed,
                                     .max_frames = HW_MAX_FRAMES};
    bool follow = (s->start.flags & HW_START_FOLLOW_FORK) ||
                  (c->all && !(s->start.flags & HW_START_LAUNCHED));
    bool strip = (s->start.flags & HW_START_STRIP_ENV) && !follow && !t->launcher;
    out->flags = (c->block_client ? HW_CC_BLOCK : 0u) |
                 (c->disable_fork_teardown ? HW_CC_DISABLE_FORK_TEARDOWN : 0u) |
                 (follow ? HW_CC_FOLLOW_FORK : 0u) | (strip ? HW_CC_STRIP_ENV : 0u) |
                 (c->all_heaps ? HW_CC_ALL_HEAPS : 0u) |
                 (c->stream_allocations ? HW_CC_STREAM : 0u) |
                 (s->start.flags & HW_START_MALLOC_INFO ? HW_CC_MALLOC_INFO : 0u) |
                 (t->feed->keeps_addresses ? HW_CC_ADDRESSES : 0u) |
                 (c->no_managed_frames ? HW_CC_NATIVE_ONLY : 0u) |
                 (c->record_types ? HW_CC_TYPES : 0u) | (c->record_slices ? HW_CC_SLICES : 0u) |
                 (t->hello.flags & HW_HELLO_ARMED ? HW_CC_ARMED : 0u) |
                 (t->feed->mappings.heaps ? HW_CC_MAPPINGS : 0u) | blocks_told(t);
    out->stack_mode = c->stack_mode;
    (void)snprintf(out->scopes, sizeof out->scopes, "%s", c->scope_categories);
    for (size_t i = 0; i < c->heaps.n; i++)
        choose_heap(out, c->heaps.v[i].name, c->heaps.v[i].interval_bytes);
    hw_java_heap_choices(t, out);
}

static bool send_welcome(struct hw_target *t)
{
    struct hw_welcome w = {.magic = HW_WELCOME_MAGIC,
                           .version = t->hello.version,
                           .status = HW_WELCOME_PROFILE,
                           .generation = t->session->generation};
    client_config(t, &w.config);
    w.now_ns = hw_now_monotonic_ns();
    int fds[HW_WELCOME_FDS] = {t->page.fd, t->feed->ring.fd, t->tables.fd};
    if (hw_fd_send(t->watch.fd, &w, hw_welcome_bytes(w.version), fds, HW_WELCOME_FDS,
                   MSG_DONTWAIT) < 0)
        return false;
    t->welcomed = true;
    (void)close(t->page.fd);   /* the client has its own; the mapping stays */
    (void)close(t->tables.fd); /* the same */
    t->page.fd = t->tables.fd = -1;
    hw_ring_close_fd(&t->feed->ring);
    return true;
}

/* One that could not be held at its start. */
static void tell_missing_start(struct hw_target *t)
{
    uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t began = t->pid.start_ticks * tick, now = hw_now_boottime_ns();
    if (t->from_startup || (t->hello.flags & HW_HELLO_FORKED) ||
        (t->session->start.flags & HW_START_LAUNCHED) || !hw_session_is_later(t->session, &t->pid))
        return;
    hw_session_warn(t->session,
                    "process %d ('%s') is profiled from %llu ms after its start: what it allocated "
                    "before that is missing",
                    t->pid.pid, t->name, (unsigned long long)(now > began ? now - began : 0) / MS);
}

/* The program's own marks are found through its loader, which the bare client does without. */
static void tell_missing_marks(const struct hw_target *t)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    bool scopes = c->stack_mode == HW_STACKS_PSEUDO || c->stack_mode == HW_STACKS_MIXED;
    if ((t->hello.flags & HW_HELLO_BARE) && (scopes || c->record_types || c->record_slices))
        hw_session_warn(t->session,
                        "process %d ('%s') is static or has its allocator linked in: its scopes "
                        "and types are not seen when it is attached to",
                        t->pid.pid, t->name);
}

static void start_running(struct hw_target *t)
{
    t->since_coarse_ns = hw_now_monotonic_coarse_ns();
    if (t->since_coarse_ns < t->session->last_exec_ns) /* by nanoseconds: perhaps its own image */
        t->since_coarse_ns = t->session->last_exec_ns;
    hw_proc_poll_target(t->session,
                        t);   /* while it waits: a short program is gone the next moment */
    hw_java_entrance_tell(t); /* a JVM may be created before the next check */
    atomic_store_explicit(&t->page.map->doublings, t->session->doublings, memory_order_relaxed);
    /* Release: ring and tables are ready before a hook sees the generation. */
    hw_page_beat(&t->page);
    atomic_store_explicit(&t->page.map->generation, t->session->generation, memory_order_release);
    if (!send_welcome(t) || hw_drain_add(t->rec->drain, t->feed, t->key) < 0) {
        t->phase = HW_PHASE_DONE;      /* it went away before anything was recorded */
        (void)hw_unrecorded_target(t); /* counted, if it is one */
        return;
    }
    t->with_thread = true;
    t->phase = HW_PHASE_RUNNING;
    tell_missing_start(t);
    tell_missing_marks(t);
    t->rec->events->joined(t);
    hw_target_tell(t, HW_TARGET_CONNECTED, t->name);
    if (t->session->stopping)
        hw_target_finish(t, HW_END_SESSION);
}

/* ---- end of a target ---- */

static const char *trigger_of(enum hw_target_end why)
{
    switch (why) {
    case HW_END_EXITED:
        return "exit";
    case HW_END_EXECED:
        return "exec";
    case HW_END_NONE:
    case HW_END_SESSION:
    case HW_END_BROKEN:
    case HW_END_STUCK:
    case HW_END_GAVE_UP:
    case HW_END_GUARDRAIL:
        break;
    }
    return "end";
}

static const char damaged_text[] = "its buffer was damaged, perhaps by the program itself";

static const char *gave_up_text(const struct hw_target *t)
{
    switch (atomic_load(&t->feed->ring.shm->client_error)) {
    case HW_CLIENT_RECORDER_GONE:
        return "the recorder showed no sign of life for too long";
    case HW_CLIENT_NO_MEMORY:
        return "there was no memory for the client library";
    case HW_CLIENT_LOCKED_OUT:
        return "it locked its memory, for which its limit (RLIMIT_MEMLOCK, ulimit -l) left no room "
               "beside our buffer; raise the limit, or try a small buffer (--shmem-size 64K)";
    case HW_CLIENT_RING_DAMAGED:
        return damaged_text;
    default: /* a word of the target's */
        return "the buffer stayed full; try a larger one (--shmem-size 64M) or fewer samples (-i "
               "64K)";
    }
}

static void tell_end(struct hw_target *t, enum hw_target_end why)
{
    switch (why) {
    case HW_END_EXITED:
        hw_target_tell(t, HW_TARGET_EXITED, t->name);
        break;
    case HW_END_EXECED:
        hw_target_tell(t, HW_TARGET_EXECED, t->name);
        break;
    case HW_END_BROKEN:
        hw_target_tell(t, HW_TARGET_FAILED, damaged_text);
        break;
    case HW_END_STUCK:
        hw_target_tell(t, HW_TARGET_FAILED,
                       "one of its threads was stopped for 10 s while writing a sample");
        break;
    case HW_END_GAVE_UP:
        hw_target_tell(t, HW_TARGET_FAILED, gave_up_text(t));
        break;
    case HW_END_GUARDRAIL:
        hw_target_tell(t, HW_TARGET_FAILED,
                       "the recorder reached its own limit of memory or CPU time");
        break;
    case HW_END_NONE:
    case HW_END_SESSION:
        break;
    }
}

void hw_target_finish(struct hw_target *t, enum hw_target_end why)
{
    if (t->phase == HW_PHASE_PREPARING) {
        t->phase = HW_PHASE_DONE;
        (void)hw_unrecorded_target(t); /* counted, if it is one */
        t->end = why;
        return;
    }
    if (t->phase != HW_PHASE_RUNNING)
        return;
    t->phase = HW_PHASE_FINISHING;
    t->end = why;
    /* Before the client tidies up. */
    (void)hw_page_update_filters(&t->page, t->pid.dir, &t->filters, /* all_threads = */ true);
    if (!hw_target_is_a_parent(t))
        atomic_store_explicit(&t->page.map->generation, 0, memory_order_release);
    tell_end(t, why);
    t->rec->events->ended(t);
    hw_dump_request(t, trigger_of(why), /* final = */ true);
}

enum image { IMAGE_OURS, IMAGE_OTHER, IMAGE_GONE };

/* Whose memory is it? Without any mapping the process is about to end; the pidfd will show it. */
static enum image look_at_image(struct hw_target *t)
{
    struct hw_reading_image i;
    struct hw_proc_status st;
    if (hw_proc_status(t->pid.dir, &st) < 0 || st.vm_size_kb == 0 ||
        hw_reading_image(t->rec->blocking_reader, hw_reading_at(&t->pid, t->uid),
                         HW_READING_NO_FILES, NULL, NULL, 0, &i) < 0)
        return IMAGE_GONE; /* mostly it is ending: its memory goes before its descriptors */
    enum image is = i.maps.maps.n ? IMAGE_OTHER : IMAGE_GONE;
    for (size_t k = 0; k < i.maps.maps.n; k++) {
        const char *path = i.maps.maps.v[k].path;
        if (strncmp(path, "/memfd:", 7) == 0 && strstr(path, "ring"))
            is = IMAGE_OURS;
    }
    hw_reading_image_done(&i);
    return is;
}

static void on_socket(struct hw_watch *w, uint32_t events)
{
    struct hw_target *t = HW_OWNER_OF(w, struct hw_target, watch);
    (void)events;
    hw_watch_remove(t->rec, w);
    t->socket_closed = true;
    if (t->phase == HW_PHASE_PREPARING) {
        t->phase = HW_PHASE_DONE;
        (void)hw_unrecorded_target(t); /* counted, if it is one */
        return;
    }
    if (t->phase != HW_PHASE_RUNNING || !hw_pid_alive(&t->pid))
        return; /* the pidfd shows more */
    enum image is = look_at_image(t);
    if (is == IMAGE_OTHER)
        hw_target_finish(t, HW_END_EXECED);
    else if (is == IMAGE_OURS && t->feed &&
             atomic_load(&t->feed->ring.shm->client_error) != HW_CLIENT_OK)
        hw_target_finish(t, HW_END_GAVE_UP);
    /* else it closed a descriptor it did not know: the profile continues */
}

static void on_process_exit(struct hw_watch *w, uint32_t events)
{
    struct hw_target *t = HW_OWNER_OF(w, struct hw_target, exit);
    (void)events;
    hw_watch_remove(t->rec, w);
    t->knows_exit = hw_pid_exit_status(&t->pid, &t->exit_status) == HW_OK;
    if (t->feed) /* nothing needs to wait for a hole any more */
        atomic_store_explicit(&t->feed->gone, true, memory_order_relaxed);
    hw_target_finish(t, HW_END_EXITED);
}

/* ---- making and freeing ---- */

static uint64_t ring_size(struct hw_session *s, uint64_t wanted, uint64_t *budget_used)
{
    uint64_t left = s->ring_budget > s->ring_used ? s->ring_budget - s->ring_used : 0;
    uint64_t size = wanted;
    /* Each takes at most half of what is left, so that later ones get something, too. */
    while (size > MIN_RING_BYTES && size > left / 2)
        size /= 2;
    if (size != wanted && !s->warned_budget) {
        s->warned_budget = true;
        hw_session_warn(
            s, "many processes are being profiled: new buffers have %llu KiB each, not %llu",
            (unsigned long long)size / 1024, (unsigned long long)wanted / 1024);
    }
    *budget_used = size;
    return size;
}

/* See pace.h. */
static bool is_patient(const struct hw_heapprofd_config *c, uint64_t ring_bytes)
{
    bool rare = !c->all_heaps || hw_pace_is_rare(c->default_interval_bytes, ring_bytes);
    for (size_t i = 0; i < c->heaps.n; i++)
        rare &= c->heaps.v[i].interval_bytes == 0 || /* not sampled */
                hw_pace_is_rare(c->heaps.v[i].interval_bytes, ring_bytes);
    return rare && !c->block_client && !c->stream_allocations;
}

static int make_feed(struct hw_target *t, struct hw_error *err)
{
    struct hw_session *s = t->session;
    const struct hw_heapprofd_config *c = s->sources.v[t->source].config;
    struct hw_ring_reader ring;
    uint64_t wanted = c->shmem_size_bytes, room = t->tables.room;
    if (room < HW_TABLES_BYTES && wanted > room / 2) /* it has little address space in all */
        wanted = room / 2 > MIN_RING_BYTES ? room / 2 : MIN_RING_BYTES;
    uint64_t size = ring_size(s, wanted, &t->ring_bytes);
    int rc = hw_target_make_ring(t, size, &ring);
    if (rc < 0)
        return rc == HW_ESYS ? hw_fail_sys(err, "cannot make the buffer to share with it")
                             : hw_fail(err, rc, 0, "the buffer to share with it:");
    ring.shm->version = t->hello.version;
    s->ring_used += t->ring_bytes;
    t->feed = calloc(1, sizeof *t->feed);
    if (!t->feed) {
        hw_ring_done(&ring);
        return hw_fail(err, HW_ENOMEM, 0, "books");
    }
    hw_ring_consumer_init(t->feed, &ring, c->dump_at_max || (s->start.flags & HW_START_KEEP_PEAK));
    t->feed->owner = t;
    t->feed->arch = t->hello.arch;
    t->feed->tables = t->tables.map;
    t->feed->heartbeat = &t->page.map->heartbeat;
    t->feed->stream = c->stream_allocations;
    if (t->hello.version >= HW_WIRE_MAPPINGS && !c->stream_allocations)
        t->feed->mappings.heaps = c->mappings;
    t->feed->d.pace.patient = is_patient(c, hw_ring_memory_bytes(&t->feed->ring));
    t->feed->stops_at_failure = hw_trigger_wants_failures(c);
    t->feed->failure_flags = hw_dump_flags(t);
    t->feed->keeps_addresses =
        (hw_session_wants_idle(s, t->source) || hw_session_wants_pins(s) || s->java.n) &&
        !c->dump_at_max;
    t->feed->max_bytes = t->feed->books.max_bytes = t->max_bytes;
    return HW_OK;
}

/* Before they are sent, and closed here: a name could be any file's. */
static int learn_files(struct hw_target *t)
{
    const int fds[] = {t->feed->ring.fd, t->page.fd, t->tables.fd};
    _Static_assert(HW_ARRAY_LEN(fds) == HW_ARRAY_LEN(t->own_files), "one each");
    for (size_t i = 0; i < HW_ARRAY_LEN(fds); i++) {
        struct stat st;
        if (fstat(fds[i], &st) < 0)
            return HW_ESYS;
        t->own_files[i] =
            (struct hw_owner_file){major(st.st_dev), minor(st.st_dev), (uint64_t)st.st_ino};
    }
    return HW_OK;
}

static void learn_names(struct hw_target *t)
{
    char argv0[512];
    struct hw_reading_who who = hw_reading_at(&t->pid, t->uid);
    hw_reading_argv0(t->rec->blocking_reader, who, argv0, sizeof argv0);
    if (hw_reading_cmdline(t->rec->blocking_reader, who, &t->arguments, &t->n_arguments) < 0)
        t->arguments = NULL;
    hw_proc_exe_name(t->pid.dir, t->exe, sizeof t->exe);
    const char *base = hw_proc_shown_name(argv0);
    (void)snprintf(t->name, sizeof t->name, "%.200s", base[0] ? base : t->exe);
    t->launcher = hw_launch_is_launcher(t->exe);
}

int hw_target_new(struct hw_session *s, uint32_t source, struct hw_conn *c, struct hw_pid *pid,
                  struct hw_target **out, struct hw_error *err)
{
    struct hw_recorder *r = s->rec;
    struct hw_target *t = calloc(1, sizeof *t);
    if (!t)
        return hw_fail(err, HW_ENOMEM, 0, "target");
    t->rec = r;
    t->session = s;
    t->source = source;
    t->ns_socket = c->ns_socket;
    t->hello = c->hello;
    t->filters = c->filters;
    t->pid = *pid;
    *pid = HW_PID_NONE;
    hw_jit_init(&t->jit);
    t->page.fd = t->tables.fd = t->watch.fd = t->exit.fd = -1;
    t->idle.source = (struct hw_idle){.pagemap_fd = -1, .bitmap_fd = -1, .flags_fd = -1};
    t->key = ++r->next_key;
    t->max_bytes = hw_memory_of_one_target();
    t->since_ns = hw_now_monotonic_ns();
    t->from_startup = (c->hello.flags & HW_HELLO_STARTUP) != 0;
    t->share = c->share;
    struct hw_proc_status st;
    int rc = hw_proc_status(t->pid.dir, &st);
    if (rc == HW_ESYS)
        rc = hw_fail_sys(err, "its status");
    else if (rc < 0)
        rc = hw_fail(err, HW_EGONE, 0, "process %d has ended", c->pid);
    if (rc == HW_OK) {
        t->uid = st.uid;
        t->ppid = st.ppid;
        rc = hw_permission_profile(&s->asking, &t->pid, &st, err);
    }
    if (rc == HW_OK) {
        rc = hw_frames_init(&t->frames, t->hello.arch);
        t->frames.jit = &t->jit.code;
    }
    if (rc == HW_OK && (hw_page_init(&t->page, t->hello.version,
                                     hw_namespace_socket_name(r, c->ns_socket), &t->filters) < 0 ||
                        hw_tables_init(&t->tables, t->hello.arch, t->hello.tables_kib) < 0))
        rc = hw_fail_sys(err, "memory files");
    if (rc == HW_OK)
        rc = make_feed(t, err);
    if (rc == HW_OK && learn_files(t) < 0)
        rc = hw_fail_sys(err, "memory files");
    if (rc == HW_OK && hw_vec_push(&r->targets, t) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "target");
    if (rc < 0) {
        hw_target_free(t);
        return rc;
    }
    hw_watch_remove(r, &c->watch);
    t->watch = (struct hw_watch){c->watch.fd, on_socket};
    c->watch.fd = -1;
    t->exit = (struct hw_watch){t->pid.pidfd, on_process_exit};
    (void)hw_watch_add(r, &t->watch, EPOLLRDHUP); /* without: the pidfd shows it */
    (void)hw_watch_add(r, &t->exit, EPOLLIN);     /* without: no end is noticed before the stop */
    hw_target_ask_parent(t);
    if (hw_target_refresh_maps(t, t->since_ns) == HW_ETIMEOUT) {
        hw_session_warn(
            s, "process %d is not profiled: its memory or its files cannot be read in time",
            t->pid.pid);
        t->phase = HW_PHASE_DONE; /* the end of its socket shows it */
    }
    learn_names(t);
    t->feed->books.rule = hw_block_rule_of(hw_allocator_name(&t->maps));
    hw_target_tick(t, t->since_ns);
    *out = t;
    return HW_OK;
}

void hw_target_free(struct hw_target *t)
{
    if (!t)
        return;
    if (t->watch.fd >= 0) {
        hw_watch_remove(t->rec, &t->watch);
        hw_blocking_fd_close(t->watch.fd);
    }
    hw_watch_remove(t->rec, &t->exit);
    if (t->page.map && hw_target_is_a_parent(t))
        hw_session_keep_parent(t->session, &t->page);
    if (t->page.map) {
        if (t->rec->embedded || t->rec->stopping) /* the next recorder may have the process */
            atomic_store(&t->page.map->ended, 1);
        atomic_store(&t->page.map->generation, 0);
    }
    if (t->feed) {
        t->session->spent_ns += atomic_load(&t->feed->spent_ns);
        hw_ring_consumer_done(t->feed);
        free(t->feed);
        t->session->ring_used -= t->ring_bytes;
    }
    hw_page_done(&t->page);
    hw_tables_done(&t->tables);
    hw_frames_done(&t->frames);
    hw_target_slices_done(&t->slices);
    free(t->arguments);
    hw_jit_done(&t->jit);
    hw_account_forget(t);
    hw_go_alloc_free(t->session, t->account.go);
    hw_maps_done(&t->maps);
    hw_map64_done(&t->files);
    hw_target_stacks_done(t);
    for (size_t i = 0; i < t->heaps.n; i++)
        hw_callsite_totals_done(&t->heaps.v[i].tally);
    hw_vec_done(&t->heaps);
    hw_notes_done(&t->notes);
    for (size_t i = 0; i < t->questions.n; i++)
        hw_graph_request_done(&t->questions.v[i]);
    hw_vec_done(&t->questions);
    hw_dump_turns_done(t);
    hw_snapshot_free(t->dump.snap);
    hw_snapshot_free(t->dump.back.snap);
    hw_snapshot_free(t->dump.failure);
    hw_idle_done(&t->idle.source);
    hw_map64_done(&t->idle.bytes);
    hw_measured_heap_done(&t->pins.sites);
    hw_measured_heap_done(&t->resident.calls);
    hw_vec_done(&t->resident.maps);
    hw_limits_done(&t->triggers.limits);
    hw_pid_done(&t->pid);
    free(t);
}

/* How much of the recorder's memory it takes. */
uint64_t hw_target_bytes(const struct hw_target *t)
{
    uint64_t n = hw_frames_bytes(&t->frames) + hw_jit_bytes(&t->jit) + t->tables.used +
                 t->unresolved.cap * sizeof *t->unresolved.v +
                 t->unnamed.cap * sizeof *t->unnamed.v + t->maps.maps.cap * sizeof *t->maps.maps.v +
                 hw_target_slices_bytes(&t->slices) +
                 t->resident.maps.cap * sizeof *t->resident.maps.v +
                 hw_measured_heap_bytes(&t->resident.calls);
    for (size_t i = 0; i < t->heaps.n; i++)
        n += hw_callsite_totals_bytes(&t->heaps.v[i].tally);
    return n + (t->feed ? atomic_load_explicit(&t->feed->bytes, memory_order_relaxed) : 0);
}

void hw_target_tick(struct hw_target *t, uint64_t now)
{
    if (t->phase == HW_PHASE_PREPARING) {
        bool start = t->hello.flags & (HW_HELLO_STARTUP | HW_HELLO_BLOCKING);
        uint64_t wait_ns = t->hello.flags & HW_HELLO_HELD ? TABLES_WAIT_HELD
                           : start                        ? TABLES_WAIT_START
                                                          : TABLES_WAIT_LIVE;
        if ((hw_target_tables_ready(t) || now - t->since_ns > wait_ns) &&
            !hw_target_awaits_parent(t, now))
            start_running(t);
        return;
    }
    if (t->phase == HW_PHASE_DONE)
        return;
    if (now - t->filters_ns > hw_pace_filters_ns(now - t->since_ns, t->rec->targets.n)) {
        t->filters_ns = now;
        (void)hw_page_update_filters(&t->page, t->pid.dir, &t->filters, /* all_threads = */ false);
    }
    if (t->too_big || hw_target_bytes(t) > t->max_bytes)
        hw_target_too_big(t);
    hw_target_shared_if_due(t, now);
    hw_target_refresh_if_due(t, now);
    if (!t->maps_due)
        hw_target_answer_maps(t);
    hw_target_find_generated(t, now);
    if (t->phase == HW_PHASE_RUNNING && t->with_thread &&
        atomic_load_explicit(&t->feed->ring.shm->client_error, memory_order_relaxed))
        hw_target_finish(t, HW_END_GAVE_UP);
    hw_dump_tick(t);
}
