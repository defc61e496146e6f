#include "cli/service.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/controller.h"
#include "proc/pid.h"
#include "wire/control.h"

#include "base/banned.h"

enum { ANSWER_MS = 5000 };

static uint64_t number(const json_t *o, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(o, key));
    return v < 0 ? 0 : (uint64_t)v;
}

static char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return strdup(s ? s : "");
}

static int read_session(const json_t *o, struct hw_service_session *s)
{
    size_t i;
    json_t *t;
    s->id = number(o, "id");
    s->seconds = number(o, "seconds");
    s->samples = number(o, "samples");
    s->lost = number(o, "lost");
    s->dumps = number(o, "dumps");
    json_array_foreach(json_object_get(o, "targets"), i, t)
    {
        struct hw_service_target one = {(int32_t)number(t, "pid"), text(t, "name"),
                                        text(t, "state")};
        if (!one.name || !one.state || hw_vec_push(&s->targets, one) < 0) {
            free(one.name);
            free(one.state);
            return HW_ENOMEM;
        }
    }
    return HW_OK;
}

static int read_state(struct hw_bytes reply, struct hw_service_state *out, struct hw_error *err)
{
    json_t *root = json_loadb((const char *)reply.p, reply.n, 0, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        return hw_fail(err, HW_EFORMAT, 0, "the service's answer cannot be read");
    }
    int rc = HW_OK;
    size_t i;
    json_t *o;
    out->pid = (int32_t)number(root, "pid");
    out->waiting_clients = number(root, "waiting_clients");
    json_array_foreach(json_object_get(root, "sessions"), i, o)
    {
        if (hw_vec_push(&out->sessions, (struct hw_service_session){0}) < 0)
            rc = HW_ENOMEM;
        else
            rc = read_session(o, &out->sessions.v[out->sessions.n - 1]);
        if (rc < 0)
            break;
    }
    json_decref(root);
    return rc < 0 ? hw_fail(err, rc, 0, "state of the service") : HW_OK;
}

static int ask(const char *path, struct hw_controller **controller, struct hw_service_state *out,
               struct hw_error *err)
{
    struct hw_controller *c;
    struct hw_controller_event e;
    *out = (struct hw_service_state){0};
    int rc = hw_controller_connect(path, &c, err);
    if (rc < 0)
        return rc;
    rc = hw_controller_ask_status(c, err);
    while (rc == 0) {
        rc = hw_controller_next(c, ANSWER_MS, &e, err);
        if (rc == 0)
            rc = hw_fail(err, HW_ETIMEOUT, 0, "the service does not answer");
        else if (rc > 0 && e.type != HW_CTL_STATUS_REPLY)
            rc = 0;
    }
    if (rc > 0)
        rc = read_state(e.body, out, err);
    if (rc < 0) {
        hw_service_state_done(out);
        hw_controller_free(c);
        return rc;
    }
    *controller = c;
    return HW_OK;
}

int hw_service_ask(struct hw_controller **controller, struct hw_service_state *out,
                   struct hw_error *err)
{
    return ask(NULL, controller, out, err);
}

int hw_service_ask_embedded(int32_t pid, struct hw_controller **controller,
                            struct hw_service_state *out, struct hw_error *err)
{
    char path[64];
    (void)snprintf(path, sizeof path, HW_CONTROL_EMBEDDED "%d", pid);
    return ask(path, controller, out, err);
}

void hw_service_state_done(struct hw_service_state *s)
{
    for (size_t i = 0; i < s->sessions.n; i++) {
        struct hw_service_session *one = &s->sessions.v[i];
        for (size_t k = 0; k < one->targets.n; k++) {
            free(one->targets.v[k].name);
            free(one->targets.v[k].state);
        }
        hw_vec_done(&one->targets);
    }
    hw_vec_done(&s->sessions);
}

/* Ours by three signs: its name, this very executable, and a user we may signal. */
static bool is_embedded(int32_t pid, const struct stat *self)
{
    struct hw_pid p;
    struct hw_proc_status status;
    struct stat exe;
    char path[64], *cmdline = NULL;
    size_t n = 0;
    if (pid == (int32_t)getpid() || hw_pid_open(pid, &p, NULL) < 0)
        return false;
    (void)snprintf(path, sizeof path, "/proc/%d/exe", pid);
    bool ours = hw_proc_status(p.dir, &status) == 0 && strcmp(status.name, "heapprofd") == 0 &&
                (geteuid() == 0 || status.uid == geteuid()) && stat(path, &exe) == 0 &&
                exe.st_ino == self->st_ino && exe.st_dev == self->st_dev &&
                hw_proc_cmdline(p.dir, &cmdline, &n) == 0 && n &&
                memmem(cmdline, n, "--embedded", sizeof "--embedded" - 1);
    free(cmdline);
    hw_pid_done(&p);
    return ours;
}

int hw_embedded_recorders(hw_recorder_pids *out)
{
    hw_pid_list all = {0};
    struct stat self;
    int rc = hw_proc_list(&all);
    if (rc < 0 || stat("/proc/self/exe", &self) < 0)
        return rc < 0 ? rc : HW_ESYS;
    for (size_t i = 0; i < all.n && rc == 0; i++)
        if (is_embedded(all.v[i], &self) && hw_vec_push(out, all.v[i]) < 0)
            rc = HW_ENOMEM;
    hw_vec_done(&all);
    return rc;
}
