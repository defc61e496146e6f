/* What the recorder says about itself and its sessions (HW_CTL_STATUS): one JSON object. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/json_out.h"
#include "daemon/core.h"
#include "daemon/policy/connection_limit.h"
#include "daemon/policy/permission.h"
#include "trace/writer.h"

#include "base/banned.h"

/* Everything fits into one message: a head for each session, with texts cut to what six bytes
 * per character leave room for, then targets as long as they fit. */
#define HEAD_BYTES  8192u
#define SHOWN_PATH  1000u
#define TARGET_ROOM (HW_CONTROL_MAX_BYTES - 4096u)

static const char *phase_name(enum hw_target_phase p)
{
    switch (p) {
    case HW_PHASE_PREPARING:
        return "starting";
    case HW_PHASE_RUNNING:
        return "profiled";
    case HW_PHASE_FINISHING:
        return "ending";
    case HW_PHASE_DONE:
        break;
    }
    return "ended";
}

/* The output's path as the kernel knows it now: it may have been renamed since. */
static void status_file(struct hw_json *j, int fd)
{
    char link[40], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > SHOWN_PATH ? SHOWN_PATH : n > 0 ? (size_t)n : 0] = 0;
    hw_json_kv_str(j, "file", n > 0 ? path : NULL);
}

/* What is booked for it, and how full the buffer between it and us is. */
static void status_feed(struct hw_json *j, const struct hw_target *t)
{
    if (!t->feed || !t->with_thread)
        return;
    struct hw_ring_shm *shm = t->feed->ring.shm;
    hw_json_kv_uint(j, "live", atomic_load_explicit(&t->feed->live, memory_order_relaxed));
    hw_json_kv_uint(j, "lost",
                    atomic_load_explicit(&shm->counters.lost_full, memory_order_relaxed));
    uint64_t read = atomic_load_explicit(&shm->read_pos, memory_order_relaxed);
    uint64_t written = atomic_load_explicit(&shm->write_pos, memory_order_relaxed);
    if (written - read > t->ring_bytes)
        return; /* its memory is damaged, or it continued meanwhile */
    hw_json_kv_uint(j, "buffer", t->ring_bytes);
    hw_json_kv_uint(j, "buffered", written - read);
}

/* Of the first source; commands create no more. */
static void status_config(struct hw_json *j, const struct hw_session *s)
{
    const struct hw_heapprofd_config *c = s->sources.n ? s->sources.v[0].config : NULL;
    if (!c)
        return;
    hw_json_kv_uint(j, "interval", c->sampling_interval_bytes);
    hw_json_kv_uint(j, "stack_mode", c->stack_mode);
    hw_json_kv_bool(j, "all", c->all);
    hw_json_kv_bool(j, "no_running", c->no_running);
}

/* n_behind: sessions that follow. */
static void status_session(struct hw_json *j, const struct hw_session *s, size_t n_behind,
                           uint64_t now)
{
    uint64_t samples, lost;
    hw_session_counters(s, &samples, &lost);
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "id", s->id);
    hw_json_kv_uint(j, "uid", s->uid);
    hw_json_kv_int(j, "controller_pid", s->control ? s->control->pid : -1);
    hw_json_kv_str(j, "name", s->config.unique_session_name);
    hw_json_kv_str(j, "detached", s->detach_key);
    hw_json_kv_uint(j, "duration_ms", s->config.duration_ms);
    hw_json_kv_uint(j, "bytes", hw_trace_writer_bytes(s->writer));
    status_file(j, s->fd);
    status_config(j, s);
    hw_json_kv_uint(j, "seconds", (now - s->started_ns) / 1000000000u);
    hw_json_kv_str(j, "state", s->stopping ? "stopping" : "running");
    hw_json_kv_uint(j, "dumps", s->n_dumps);
    hw_json_kv_uint(j, "samples", samples);
    hw_json_kv_uint(j, "lost", lost);
    hw_json_kv_uint(j, "n_targets", s->n_targets);
    hw_json_key(j, "targets");
    hw_json_begin_array(j);
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        if (t->session != s ||
            j->buf.n + (n_behind + 1) * HEAD_BYTES > TARGET_ROOM) /* n_targets counts the rest */
            continue;
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "pid", (uint64_t)t->pid.pid);
        hw_json_kv_str(j, "name", t->name);
        hw_json_kv_str(j, "state", phase_name(t->phase));
        hw_json_kv_uint(j, "samples", hw_target_samples(t));
        hw_json_kv_uint(j, "dumps", t->n_dumps);
        hw_json_kv_uint(j, "seconds", t->since_ns ? (now - t->since_ns) / 1000000000u : 0);
        status_feed(j, t);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

void hw_control_status(struct hw_control_conn *c)
{
    struct hw_json j;
    uint64_t now = hw_now_monotonic_ns();
    size_t waiting = 0;
    for (size_t i = 0; i < c->rec->conns.n; i++)
        waiting += c->rec->conns.v[i]->waiting && !c->rec->conns.v[i]->closed &&
                   hw_permission_session(c->uid, c->rec->conns.v[i]->uid) == HW_OK;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_str(&j, "version", HW_VERSION);
    hw_json_kv_uint(&j, "pid", (uint64_t)getpid());
    hw_json_kv_str(&j, "producer_socket", c->rec->producer_name);
    hw_json_kv_uint(&j, "waiting_clients", waiting);
    hw_json_kv_uint(&j, "refused_clients", hw_connection_limit_count(c->rec, c->uid));
    hw_json_key(&j, "sessions");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < c->rec->sessions.n; i++)
        if (hw_permission_session(c->uid, c->rec->sessions.v[i]->uid) == HW_OK)
            status_session(&j, c->rec->sessions.v[i], c->rec->sessions.n - i - 1, now);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    if (hw_json_finish(&j) == HW_OK)
        hw_control_send(c, HW_CTL_STATUS_REPLY, 0, j.buf.p, j.buf.n, NULL);
    hw_json_done(&j);
}
