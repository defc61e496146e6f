#include "record/service.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/pid.h"
#include "record/controller.h"
#include "record/process_reads.h"
#include "wire/control.h"

#include "base/banned.h"

enum {
    ANSWER_MS = 5000,
    OTHERS_MS = 1000 /* for each recorder embedded in other commands: a hung one must not block
                        everybody who asks */
};

/* ---- one answer ---- */

static uint64_t number(const json_t *o, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(o, key));
    return v < 0 ? 0 : (uint64_t)v;
}

static bool text(const json_t *o, const char *key, char **out)
{
    const char *s = json_string_value(json_object_get(o, key));
    *out = strdup(s ? s : "");
    return *out != NULL;
}

static int read_target(const json_t *o, struct hw_service_session *s)
{
    struct hw_service_target t = {.pid = (int32_t)number(o, "pid"),
                                  .samples = number(o, "samples"),
                                  .dumps = number(o, "dumps"),
                                  .buffer = number(o, "buffer"),
                                  .buffered = number(o, "buffered"),
                                  .live = number(o, "live"),
                                  .lost = number(o, "lost"),
                                  .seconds = number(o, "seconds")};
    bool good = text(o, "name", &t.name) && text(o, "state", &t.state);
    if (good && hw_vec_push(&s->targets, t) == 0)
        return HW_OK;
    free(t.name);
    free(t.state);
    return HW_ENOMEM;
}

static int read_session(const json_t *o, struct hw_service_session *s)
{
    const struct {
        const char *key;
        uint64_t *out;
    } numbers[] = {{"id", &s->id},
                   {"uid", &s->uid},
                   {"seconds", &s->seconds},
                   {"samples", &s->samples},
                   {"lost", &s->lost},
                   {"dumps", &s->dumps},
                   {"bytes", &s->bytes},
                   {"duration_ms", &s->duration_ms},
                   {"interval", &s->interval},
                   {"stack_mode", &s->stack_mode}};
    for (size_t i = 0; i < HW_ARRAY_LEN(numbers); i++)
        *numbers[i].out = number(o, numbers[i].key);
    s->all = json_is_true(json_object_get(o, "all"));
    s->no_running = json_is_true(json_object_get(o, "no_running"));
    s->controller_pid = (int32_t)json_integer_value(json_object_get(o, "controller_pid"));
    (void)snprintf(s->ref, sizeof s->ref, "%llu", (unsigned long long)s->id); /* fits */
    bool good = text(o, "state", &s->state) && text(o, "file", &s->file) &&
                text(o, "name", &s->name) && text(o, "detached", &s->detached);
    int rc = good ? HW_OK : HW_ENOMEM;
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(o, "targets"), i, t)
    {
        if (rc == HW_OK)
            rc = read_target(t, s);
    }
    return rc;
}

int hw_service_read(struct hw_bytes reply, struct hw_service_state *out, struct hw_error *err)
{
    *out = (struct hw_service_state){0};
    json_t *root = json_loadb((const char *)reply.p, reply.n, 0, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        return hw_fail(err, HW_EFORMAT, 0, "the service's answer cannot be read");
    }
    size_t i;
    json_t *o;
    out->pid = (int32_t)number(root, "pid");
    out->waiting_clients = number(root, "waiting_clients");
    out->refused_clients = number(root, "refused_clients");
    bool good = text(root, "version", &out->version) &&
                text(root, "producer_socket", &out->producer_socket);
    int rc = good ? HW_OK : HW_ENOMEM;
    json_array_foreach(json_object_get(root, "sessions"), i, o)
    {
        if (rc == HW_OK && hw_vec_push(&out->sessions, (struct hw_service_session){0}) < 0)
            rc = HW_ENOMEM;
        if (rc == HW_OK)
            rc = read_session(o, &out->sessions.v[out->sessions.n - 1]);
    }
    json_decref(root);
    return rc < 0 ? hw_fail(err, rc, 0, "state of the service:") : HW_OK;
}

static int ask_within(struct hw_controller *c, int timeout_ms, struct hw_service_state *out,
                      struct hw_error *err)
{
    struct hw_controller_event e;
    *out = (struct hw_service_state){0};
    int rc = hw_controller_request_status(c, err);
    if (rc == 0)
        rc = hw_controller_wait(c, HW_CTL_STATUS_REPLY, timeout_ms, &e, err);
    if (rc == 0)
        rc = hw_service_read(e.body, out, err);
    if (rc < 0)
        hw_service_state_done(out);
    return rc;
}

int hw_service_refresh(struct hw_controller *c, struct hw_service_state *out, struct hw_error *err)
{
    return ask_within(c, ANSWER_MS, out, err);
}

static int ask(const char *path, struct hw_controller **controller, struct hw_service_state *out,
               struct hw_error *err)
{
    struct hw_controller *c;
    *out = (struct hw_service_state){0};
    int rc = hw_controller_connect(path, &c, err);
    if (rc < 0)
        return rc;
    rc = ask_within(c, path ? OTHERS_MS : ANSWER_MS, out, err);
    if (rc < 0)
        hw_controller_free(c);
    else
        *controller = c;
    return rc;
}

static void session_done(struct hw_service_session *s)
{
    for (size_t k = 0; k < s->targets.n; k++) {
        free(s->targets.v[k].name);
        free(s->targets.v[k].state);
    }
    hw_vec_done(&s->targets);
    free(s->state);
    free(s->file);
    free(s->name);
    free(s->detached);
}

void hw_service_state_done(struct hw_service_state *s)
{
    for (size_t i = 0; i < s->sessions.n; i++)
        session_done(&s->sessions.v[i]);
    hw_vec_done(&s->sessions);
    free(s->version);
    free(s->producer_socket);
    *s = (struct hw_service_state){0};
}

/* ---- all that run here ---- */

/* By name and arguments; the proof is that it answers at its socket as a trusted user. */
static bool looks_embedded(int32_t pid)
{
    struct hw_pid p;
    struct hw_proc_status status;
    char *cmdline = NULL;
    size_t n = 0;
    if (pid == (int32_t)getpid() || hw_pid_open(pid, &p, NULL) < 0)
        return false;
    bool ours = hw_proc_status(p.dir, &status) == 0 && strcmp(status.name, "heapprofd") == 0 &&
                (geteuid() == 0 || status.uid == geteuid()) &&
                hw_read_cmdline(&p, &cmdline, &n) == 0 && n &&
                memmem(cmdline, n, "--embedded", sizeof "--embedded" - 1);
    free(cmdline);
    hw_pid_done(&p);
    return ours;
}

/* One that has gone by now is not an error. */
static int add_recorder(struct hw_recorders *out, const char *path, int32_t embedded_pid,
                        struct hw_error *why)
{
    bool embedded = embedded_pid != 0;
    struct hw_recorder_seen r = {.embedded = embedded};
    int rc = ask(path, &r.controller, &r.state, why);
    if (rc == HW_ETIMEOUT && embedded && looks_embedded(embedded_pid))
        return hw_vec_push(&out->silent, embedded_pid) < 0 ? HW_ENOMEM : HW_OK;
    if (rc < 0)
        return HW_OK;
    for (size_t i = 0; embedded && i < r.state.sessions.n; i++)
        (void)snprintf(r.state.sessions.v[i].ref, sizeof r.state.sessions.v[i].ref, "r%d",
                       r.state.pid);
    if (hw_vec_push(&out->all, r) == 0)
        return HW_OK;
    hw_service_state_done(&r.state);
    hw_controller_free(r.controller);
    return HW_ENOMEM;
}

int hw_recorders_query_one(struct hw_recorders *out, int32_t pid, struct hw_error *err)
{
    char path[64];
    *out = (struct hw_recorders){0};
    (void)snprintf(path, sizeof path, HW_CONTROL_EMBEDDED "%d", pid); /* fits */
    int rc = add_recorder(out, path, pid, NULL);
    return rc < 0 ? hw_fail(err, rc, 0, "recorder %d:", pid) : HW_OK;
}

int hw_recorders_query(struct hw_recorders *out, struct hw_error *err)
{
    hw_pid_list all = {0};
    char path[64];
    *out = (struct hw_recorders){0};
    int rc = hw_proc_list(&all);
    if (rc == 0)
        rc = add_recorder(out, NULL, /* embedded_pid = */ 0, &out->service_error);
    for (size_t i = 0; i < all.n && rc == 0; i++) {
        if (!looks_embedded(all.v[i]))
            continue;
        (void)snprintf(path, sizeof path, HW_CONTROL_EMBEDDED "%d", all.v[i]); /* fits */
        rc = add_recorder(out, path, all.v[i], NULL);
    }
    hw_vec_done(&all);
    if (rc < 0) {
        hw_recorders_done(out);
        return hw_fail(err, rc, 0, "cannot look for recorders in /proc");
    }
    return HW_OK;
}

void hw_recorders_done(struct hw_recorders *r)
{
    for (size_t i = 0; i < r->all.n; i++) {
        hw_service_state_done(&r->all.v[i].state);
        hw_controller_free(r->all.v[i].controller);
    }
    hw_vec_done(&r->all);
    hw_vec_done(&r->silent);
    *r = (struct hw_recorders){0};
}

size_t hw_recorders_sessions(const struct hw_recorders *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->all.n; i++)
        n += r->all.v[i].state.sessions.n;
    return n;
}
