#include "record/tracked/tracked_processes.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "config/memlog_modes.h"
#include "proc/file.h"
#include "proc/pid.h"
#include "record/build_config.h"
#include "record/controller.h"
#include "record/output.h"
#include "record/process_reads.h"
#include "wire/handshake.h"

#include "base/banned.h"

#define NAME_ALL  HW_TRACKED_NAME " all"
#define NAME_MODE HW_TRACKED_NAME " mode "

enum {
    SHMEM_BYTES = 8 << 20,
    MALLOC_INFO_MS = 5000,
    START_MS = 10000,
    CONNECT_MS = 15000,
    END_MS = 30000,
    STEP_MS = 50,
};

const uint64_t hw_tracked_rates[] = {10000, 50000, 100000, 500000, 1000000, 5000000, 0};

struct hw_tracked {
    pthread_mutex_t lock;     /* one change at a time, so that none is tracked twice */
    hw_processes_known known; /* known_lock */
    pthread_mutex_t known_lock;
    HW_VEC(pid_t) children; /* under lock: recorders started here */
};

int hw_tracked_new(struct hw_tracked **out, struct hw_error *err)
{
    struct hw_tracked *m = calloc(1, sizeof *m);
    if (!m)
        return hw_fail(err, HW_ENOMEM, 0, "memory internals");
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->known_lock, NULL);
    *out = m;
    return HW_OK;
}

void hw_tracked_free(struct hw_tracked *m)
{
    if (!m)
        return;
    hw_vec_done(&m->children);
    hw_vec_done(&m->known);
    pthread_mutex_destroy(&m->known_lock);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* ---- listing ---- */

static bool is_ours(const struct hw_service_session *s)
{
    return hw_starts_with(s->name, HW_TRACKED_NAME);
}

static void read_role(int32_t pid, char role[64])
{
    struct hw_pid p;
    hw_autofree char *environment = NULL, *cmdline = NULL;
    size_t n_environment = 0, n_cmdline = 0;
    role[0] = '\0';
    if (hw_pid_open(pid, &p, NULL) < 0)
        return;
    if (hw_read_environ(&p, &environment, &n_environment) < 0)
        n_environment = 0; /* somebody else's */
    if (hw_read_cmdline(&p, &cmdline, &n_cmdline) < 0)
        n_cmdline = 0;
    hw_memlog_role(hw_bytes_of(environment, n_environment), hw_bytes_of(cmdline, n_cmdline),
                   getsid(pid) == pid, role);
    hw_pid_done(&p);
}

static void take_mode(struct hw_tracked_list *l, const struct hw_service_session *s)
{
    const char *mode = strcmp(s->name, NAME_ALL) == 0       ? "all"
                       : hw_starts_with(s->name, NAME_MODE) ? s->name + strlen(NAME_MODE)
                                                            : NULL;
    if (mode && strcmp(s->state, "running") == 0)
        (void)snprintf(l->mode, sizeof l->mode, "%s", mode); /* too long ones were refused */
}

static const struct hw_service_target *target_of(const struct hw_process_row *p)
{
    for (size_t i = 0; p->session && i < p->session->targets.n; i++)
        if (p->session->targets.v[i].pid == p->pid)
            return &p->session->targets.v[i];
    return NULL;
}

static bool is_recorder(const struct hw_tracked_list *l, const struct hw_process_row *p)
{
    for (size_t r = 0; r < l->recorders.all.n; r++)
        if (l->recorders.all.v[r].state.pid == p->pid)
            return true;
    return strcmp(p->name, "heapprofd") == 0; /* and their workers */
}

static int add_row(struct hw_tracked_list *l, const struct hw_process_row *p)
{
    struct hw_tracked_row row = {.process = p, .target = target_of(p)};
    row.tracked =
        p->session && is_ours(p->session) && row.target &&
        (strcmp(row.target->state, "profiled") == 0 || strcmp(row.target->state, "starting") == 0);
    if (p->uid != geteuid() && geteuid() != 0 && !row.tracked)
        return HW_OK; /* nothing could be done about it */
    if (is_recorder(l, p) && !row.tracked)
        return HW_OK; /* tracking them would start even more of them */
    read_role(p->pid, row.role);
    l->n_tracked += row.tracked;
    return hw_vec_push(&l->rows, row);
}

static int by_pid(const void *a, const void *b)
{
    const struct hw_tracked_row *x = a, *y = b;
    return x->process->pid < y->process->pid ? -1 : x->process->pid > y->process->pid;
}

/* If no process at all can be tracked, for one and the same reason, the cause is this machine. */
static void find_unsupported(struct hw_tracked_list *l)
{
    const struct hw_finding *one = NULL;
    for (size_t i = 0; i < l->rows.n; i++) {
        const struct hw_process_row *p = l->rows.v[i].process;
        bool place = p->why.code && (strcmp(p->why.code, "not-attachable") == 0 ||
                                     strcmp(p->why.code, "not-permitted") == 0 ||
                                     strcmp(p->why.code, "no-client") == 0);
        if (!p->why.code)
            return;
        if (place && !one)
            one = &p->why;
    }
    if (one)
        l->unsupported = *one;
}

int hw_tracked_query(struct hw_tracked *m, struct hw_tracked_list *out, struct hw_error *err)
{
    *out = (struct hw_tracked_list){.mode = "manual"};
    int rc = hw_recorders_query(&out->recorders, err);
    if (rc < 0)
        return rc;
    for (size_t r = 0; r < out->recorders.all.n; r++)
        for (size_t i = 0; i < out->recorders.all.v[r].state.sessions.n; i++)
            take_mode(out, &out->recorders.all.v[r].state.sessions.v[i]);
    pthread_mutex_lock(&m->known_lock);
    rc = hw_processes_find(&out->recorders, NULL, NULL, /* every = */ true, &m->known,
                           &out->processes);
    pthread_mutex_unlock(&m->known_lock);
    if (rc < 0)
        (void)hw_fail(err, rc, 0, "cannot read /proc");
    for (size_t i = 0; rc == HW_OK && i < out->processes.n; i++) {
        const char *code = out->processes.v[i].why.code;
        if (!code || strcmp(code, "kernel-thread") != 0)
            if ((rc = add_row(out, &out->processes.v[i])) < 0)
                (void)hw_fail(err, rc, 0, "processes:");
    }
    if (rc < 0) {
        hw_tracked_list_done(out);
        return rc;
    }
    if (out->rows.n)
        qsort(out->rows.v, out->rows.n, sizeof *out->rows.v, by_pid);
    find_unsupported(out);
    return HW_OK;
}

void hw_tracked_list_done(struct hw_tracked_list *l)
{
    hw_vec_done(&l->rows);
    hw_vec_done(&l->processes);
    hw_recorders_done(&l->recorders);
}

/* ---- a recorder that outlives us ---- */

static void reap(struct hw_tracked *m)
{
    for (size_t i = 0; i < m->children.n;)
        if (waitpid(m->children.v[i], NULL, WNOHANG) != 0)
            m->children.v[i] = m->children.v[--m->children.n];
        else
            i++;
}

static int start_session(struct hw_controller *c, struct hw_config_values *v, struct hw_error *err)
{
    struct hw_output file = HW_OUTPUT_NONE;
    struct hw_strbuf config = {0};
    struct hw_controller_event e;
    struct hw_control_start start = {.flags = HW_START_MALLOC_INFO | HW_START_UNTIL_GONE,
                                     .malloc_info_ms = MALLOC_INFO_MS};
    int rc = hw_build_config(v, &config, err);
    if (rc == HW_OK) /* an unnamed file */
        rc = hw_output_open("/dev/null", "tracked", 0, /* force = */ false, &file, err);
    if (rc == HW_OK)
        rc = hw_controller_start(c, &start, hw_bytes_of(config.p, config.n), file.fd, err);
    if (rc == HW_OK)
        rc = hw_controller_wait(c, HW_CTL_STARTED, START_MS, &e, err);
    hw_output_done(&file);
    hw_strbuf_done(&config);
    return rc;
}

/* Waits until the process is tracked, or has failed to be. */
static int wait_tracked(struct hw_controller *c, int32_t pid, struct hw_error *err)
{
    struct hw_controller_event e;
    struct hw_control_target_state s;
    for (int waited = 0; waited < CONNECT_MS; waited += STEP_MS) {
        int n = hw_controller_next(c, STEP_MS, &e, err);
        if (n < 0)
            return n;
        if (n == 0)
            continue;
        if (e.type == HW_CTL_ENDED)
            return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid);
        if (e.type != HW_CTL_TARGET_STATE || !hw_controller_body(&e, &s, sizeof s) || s.pid != pid)
            continue;
        if (s.state == HW_TARGET_CALLED)
            continue; /* it connects with its next allocation */
        if (s.state == HW_TARGET_CONNECTED)
            return HW_OK;
        return hw_fail(err, s.state == HW_TARGET_REJECTED ? HW_EBUSY : HW_EPERM, 0, "%.*s",
                       (int)(e.body.n - sizeof s), (const char *)e.body.p + sizeof s);
    }
    return hw_fail(err, HW_ETIMEOUT, 0,
                   "process %d has not answered within %d s: it is stopped, or does not allocate",
                   pid, CONNECT_MS / 1000);
}

static int start_recorder(struct hw_tracked *m, struct hw_config_values *v, int32_t pid,
                          struct hw_error *err)
{
    struct hw_controller *c = NULL;
    struct hw_controller_event e;
    reap(m);
    if (hw_vec_reserve(&m->children, m->children.n + 1) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "recorder");
    int rc = hw_controller_spawn_apart(&c, err);
    if (rc == HW_OK)
        rc = start_session(c, v, err);
    if (rc == HW_OK && pid)
        rc = wait_tracked(c, pid, err);
    if (rc == HW_OK)
        rc = hw_controller_detach(c, HW_TRACKED_NAME, err);
    if (rc == HW_OK)
        rc = hw_controller_wait(c, HW_CTL_DETACHED, START_MS, &e, err);
    if (rc == HW_OK) {
        m->children.v[m->children.n++] = hw_controller_pid(c);
        hw_controller_abandon(c);
    }
    hw_controller_free(c); /* failed: its session ends, and so does the recorder */
    return rc;
}

/* pid 0: does not wait. Takes over the values. */
static int track(struct hw_tracked *m, struct hw_config_values *v, const struct hw_tracked_how *how,
                 int32_t pid, struct hw_error *err)
{
    uint64_t rate_bytes = how->rate_bytes ? how->rate_bytes : HW_TRACKED_RATE;
    hw_config_set(v, HW_HEAPPROFD_FIELD(shmem_size_bytes), SHMEM_BYTES);
    hw_config_set(v, HW_HEAPPROFD_FIELD(sampling_interval_bytes), rate_bytes);
    hw_config_set(v, HW_HEAPPROFD_FIELD(block_client), 1);
    hw_config_set(v, HW_HEAPPROFD_FIELD(all_heaps), 1);
    hw_config_set(v, HW_HEAPPROFD_FIELD(record_types), 1);
    if (how->stack_mode)
        hw_config_set(v, HW_HEAPPROFD_FIELD(stack_mode), how->stack_mode);
    int rc = start_recorder(m, v, pid, err);
    hw_config_values_done(v);
    return rc;
}

/* ---- start ---- */

static int start_locked(struct hw_tracked *m, int32_t pid, const struct hw_tracked_how *how,
                        struct hw_error *err)
{
    struct hw_recorders recorders;
    struct hw_finding why = {0};
    struct hw_pid p;
    uint64_t pids[] = {(uint64_t)pid};
    struct hw_config_values v = {0};
    int rc = hw_pid_open(pid, &p, err);
    if (rc < 0)
        return rc == HW_EGONE ? hw_fail(err, HW_ENOTFOUND, 0, "there is no process %d", pid) : rc;
    hw_pid_done(&p);
    rc = hw_recorders_query(&recorders, err);
    if (rc < 0)
        return rc;
    for (size_t r = 0; r < recorders.all.n && rc == HW_OK; r++)
        for (size_t i = 0; i < recorders.all.v[r].state.sessions.n && rc == HW_OK; i++) {
            const struct hw_service_session *s = &recorders.all.v[r].state.sessions.v[i];
            for (size_t k = 0; k < s->targets.n && rc == HW_OK; k++)
                if (s->targets.v[k].pid == pid)
                    rc = is_ours(s) ? 1
                                    : hw_fail(err, HW_EBUSY, 0,
                                              "process %d is being recorded by %s; `heapwise stop "
                                              "%s` ends that recording",
                                              pid, s->ref, s->ref);
        }
    hw_recorders_done(&recorders);
    if (rc != HW_OK)
        return rc;
    hw_diagnose_pid(pid, &why);
    if (why.code)
        return hw_fail(err, HW_EPERM, 0, "%s", why.text);
    hw_config_set(&v, HW_HEAPPROFD_FIELD(no_startup), 1);
    hw_config_set_numbers(&v, HW_HEAPPROFD_FIELD(pid), pids, 1);
    hw_config_set_text(&v, "unique_session_name", HW_TRACKED_NAME);
    return track(m, &v, how, pid, err);
}

int hw_tracked_start(struct hw_tracked *m, int32_t pid, const struct hw_tracked_how *how,
                     struct hw_error *err)
{
    pthread_mutex_lock(&m->lock);
    int rc = start_locked(m, pid, how, err);
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* ---- stop ---- */

/* Its hooks are off once the recorder no longer lists it, or is gone. */
static int wait_ended(struct hw_controller *c, uint64_t session, struct hw_error *err)
{
    const struct timespec step = {0, STEP_MS * 1000000};
    for (int ms = 0; ms < END_MS; ms += STEP_MS) {
        struct hw_service_state now;
        bool there = false;
        if (hw_service_refresh(c, &now, NULL) < 0)
            return HW_OK;
        for (size_t i = 0; i < now.sessions.n; i++)
            there |= now.sessions.v[i].id == session;
        hw_service_state_done(&now);
        if (!there)
            return HW_OK;
        (void)nanosleep(&step, NULL); /* a signal only cuts it short */
    }
    return hw_fail(err, HW_ETIMEOUT, 0,
                   "a recorder has not ended within %d s; it is still finishing its work",
                   END_MS / 1000);
}

static int end_session(struct hw_recorder_seen *r, const struct hw_service_session *s,
                       struct hw_error *err)
{
    int rc = hw_controller_stop(r->controller, s->id, err);
    if (rc == HW_EGONE)
        return HW_OK;
    return rc < 0 ? rc : wait_ended(r->controller, s->id, err);
}

/* Ends the whole session if it tracks nothing else. */
static int end_target(struct hw_recorder_seen *r, const struct hw_service_session *s, int32_t pid,
                      struct hw_error *err)
{
    struct hw_controller_event e;
    if (!s->all && s->targets.n == 1)
        return end_session(r, s, err);
    int rc = hw_controller_leave(r->controller, s->id, pid, err);
    return rc < 0 ? rc : hw_controller_wait(r->controller, HW_CTL_LEFT, START_MS, &e, err);
}

static bool is_mode(const struct hw_service_session *s)
{
    return hw_starts_with(s->name, NAME_MODE);
}

/* Stops the sessions that `meant` selects; returns how many processes they tracked. */
static int end_sessions(bool (*meant)(const struct hw_service_session *s), struct hw_error *err)
{
    struct hw_recorders recorders;
    int rc = hw_recorders_query(&recorders, err), n = 0;
    if (rc < 0)
        return rc;
    for (size_t r = 0; r < recorders.all.n; r++)
        for (size_t i = 0; i < recorders.all.v[r].state.sessions.n && rc == HW_OK; i++) {
            const struct hw_service_session *s = &recorders.all.v[r].state.sessions.v[i];
            if (!meant(s))
                continue;
            rc = end_session(&recorders.all.v[r], s, err);
            n += (int)s->targets.n;
        }
    hw_recorders_done(&recorders);
    return rc < 0 ? rc : n;
}

static int stop_one(int32_t pid, struct hw_error *err)
{
    struct hw_recorders recorders;
    int rc = hw_recorders_query(&recorders, err);
    bool found = false;
    if (rc < 0)
        return rc;
    for (size_t r = 0; r < recorders.all.n && !found; r++)
        for (size_t i = 0; i < recorders.all.v[r].state.sessions.n && !found; i++) {
            const struct hw_service_session *s = &recorders.all.v[r].state.sessions.v[i];
            for (size_t k = 0; is_ours(s) && k < s->targets.n && !found; k++)
                if (s->targets.v[k].pid == pid) {
                    found = true;
                    rc = end_target(&recorders.all.v[r], s, pid, err);
                }
        }
    int32_t silent = recorders.silent.n ? recorders.silent.v[0] : 0;
    hw_recorders_done(&recorders);
    if (!found && silent)
        return hw_fail(
            err, HW_ETIMEOUT, 0,
            "recorder %d does not answer: whether it tracks process %d is not known; is it "
            "stopped?",
            silent, pid);
    if (!found)
        return hw_fail(err, HW_ENOTFOUND, 0, "process %d is not tracked", pid);
    return rc < 0 ? rc : 1;
}

int hw_tracked_stop(struct hw_tracked *m, int32_t pid, struct hw_error *err)
{
    pthread_mutex_lock(&m->lock);
    int rc = pid ? stop_one(pid, err) : end_sessions(is_ours, err);
    reap(m);
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* ---- all, and modes ---- */

static bool is_all(const struct hw_service_session *s)
{
    return strcmp(s->name, NAME_ALL) == 0;
}

int hw_tracked_start_all(struct hw_tracked *m, const struct hw_tracked_how *how,
                         struct hw_error *err)
{
    struct hw_config_values v = {0};
    struct hw_recorders recorders;
    bool there = false;
    pthread_mutex_lock(&m->lock);
    int rc = hw_recorders_query(&recorders, err);
    for (size_t r = 0; rc == HW_OK && r < recorders.all.n; r++)
        for (size_t i = 0; i < recorders.all.v[r].state.sessions.n; i++)
            there |= is_all(&recorders.all.v[r].state.sessions.v[i]);
    if (rc == HW_OK)
        hw_recorders_done(&recorders);
    if (rc == HW_OK && !there)
        rc = end_sessions(is_mode, err); /* it also covers new processes */
    if (rc >= 0 && !there) {
        hw_config_set(&v, HW_HEAPPROFD_FIELD(all), 1);
        hw_config_set_text(&v, "unique_session_name", NAME_ALL);
        rc = track(m, &v, how, 0, err);
    } else if (rc >= 0) {
        rc = 1;
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

int hw_tracked_set_mode(struct hw_tracked *m, const char *mode, const struct hw_tracked_how *how,
                        struct hw_error *err)
{
    struct hw_memlog parsed = {0};
    char name[sizeof((struct hw_tracked_list *)0)->mode + sizeof NAME_MODE];
    struct hw_config_values v = {0};
    int rc = hw_memlog_parse(hw_bytes_str(mode), &parsed, err);
    bool none = parsed.rules.n == 0;
    hw_memlog_done(&parsed);
    if (rc < 0)
        return rc;
    if (strlen(mode) >= sizeof((struct hw_tracked_list *)0)->mode)
        return hw_fail(err, HW_EINVAL, 0, "a mode has at most 127 bytes");
    (void)snprintf(name, sizeof name, NAME_MODE "%s", mode); /* fits */
    pthread_mutex_lock(&m->lock);
    rc = end_sessions(is_mode, err);
    if (rc >= 0 && !none) {
        hw_config_set(&v, HW_HEAPPROFD_FIELD(all), 1);
        hw_config_set(&v, HW_HEAPPROFD_FIELD(no_running), 1);
        hw_config_set_text(&v, HW_HEAPPROFD_FIELD(memlog), mode);
        hw_config_set_text(&v, "unique_session_name", name);
        rc = track(m, &v, how, 0, err);
    }
    pthread_mutex_unlock(&m->lock);
    return rc < 0 ? rc : HW_OK;
}
