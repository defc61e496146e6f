#include "node/inspector.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "node/snapshot.h"
#include "proc/pid.h"

#include "base/banned.h"

enum {
    STEP_MS = 20,
    OPEN_MS = 20000,
    STOPPED_MS = 2000,
    MAX_ID = 128, /* of a target: 36 characters */
    MAX_TRIED = 16
};

/* ---- one listener: is it an inspector? ---- */

static int read_id(const char *body, size_t n, char id[MAX_ID], struct hw_error *err)
{
    json_error_t fault;
    json_t *list = json_loadb(body, n, 0, &fault);
    const json_t *first = json_array_get(list, 0);
    const char *type = json_string_value(json_object_get(first, "type"));
    const char *text = json_string_value(json_object_get(first, "id"));
    size_t len = text ? strlen(text) : 0;
    bool good =
        type && strcmp(type, "node") == 0 && len && len < MAX_ID &&
        strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == len;
    if (good)
        memcpy(id, text, len + 1);
    json_decref(list);
    return good ? HW_OK : hw_fail(err, HW_EFORMAT, 0, "it does not answer as an inspector");
}

static int list_targets(struct hw_inspector *i, char id[MAX_ID], struct hw_error *err)
{
    struct hw_node_link link;
    hw_autofree char *body = NULL;
    size_t n = 0;
    int fd = -1;
    int rc = hw_tcp_connect(i->pid, &i->listener, &fd, err);
    if (rc != HW_OK)
        return rc;
    hw_node_link_init(&link, fd, i->wait);
    rc = hw_node_get(&link, "/json/list", i->listener.here.port, &body, &n, err);
    hw_node_link_done(&link);
    return rc == HW_OK ? read_id(body, n, id, err) : rc;
}

static int talk_to(struct hw_inspector *i, struct hw_error *err)
{
    char id[MAX_ID], path[MAX_ID + 1];
    int fd = -1;
    int rc = list_targets(i, id, err);
    if (rc == HW_OK)
        rc = hw_tcp_connect(i->pid, &i->listener, &fd, err);
    if (rc == HW_OK) {
        (void)snprintf(path, sizeof path, "/%s", id);
        hw_node_link_init(&i->link, fd, i->wait);
        rc = hw_node_upgrade(&i->link, path, i->listener.here.port, err);
        if (rc != HW_OK)
            hw_node_link_done(&i->link);
    }
    if (rc < 0)
        hw_error_prefix(err, "port %u of process %d", i->listener.here.port, i->pid->pid);
    return rc;
}

/* ---- listeners before and after ---- */

static bool was_there(const hw_tcp_rows *before, uint64_t inode)
{
    for (size_t i = 0; i < before->n; i++)
        if (before->v[i].listens && before->v[i].inode == inode)
            return true;
    return false;
}

/* Its own listener at the port where it would be. */
static const struct hw_tcp_row *find_open(const struct hw_pid *pid, const hw_tcp_rows *rows,
                                          unsigned port)
{
    for (size_t i = 0; i < rows->n && port; i++)
        if (rows->v[i].listens && rows->v[i].here.port == port &&
            hw_tcp_is_of(pid, rows->v[i].inode))
            return &rows->v[i];
    return NULL;
}

/* A stranger at the port, so that the process cannot open it. */
static bool is_taken(const hw_tcp_rows *rows, const struct hw_node_port *port)
{
    for (size_t i = 0; i < rows->n && port->port && !port->has_host; i++)
        if (rows->v[i].listens && rows->v[i].here.port == port->port &&
            hw_tcp_is_local(&rows->v[i].here))
            return true;
    return false;
}

/* Of the new listeners, which may be the program's, too: the one that answers as an inspector. */
static int look_for_new(struct hw_inspector *i, const hw_tcp_rows *before, uint64_t *tried,
                        size_t *n_tried, struct hw_error *err)
{
    hw_tcp_rows now = {0};
    int rc = hw_tcp_read(i->pid, &now, err);
    bool found = false;
    for (size_t k = 0; k < now.n && rc == HW_OK && !found && *n_tried < MAX_TRIED; k++) {
        const struct hw_tcp_row *row = &now.v[k];
        bool again = false;
        for (size_t t = 0; t < *n_tried; t++)
            again |= tried[t] == row->inode;
        if (!row->listens || again || was_there(before, row->inode) ||
            !hw_tcp_is_of(i->pid, row->inode))
            continue;
        tried[(*n_tried)++] = row->inode;
        i->listener = *row;
        i->is_ours = true; /* even if it says nothing that we understand */
        rc = talk_to(i, err);
        found = rc == HW_OK;
        if (rc == HW_EFORMAT)
            rc = HW_OK; /* one of the program's own */
        i->is_ours = found || rc != HW_OK;
    }
    hw_vec_done(&now);
    return rc != HW_OK ? rc : found ? HW_OK : HW_ENOTFOUND;
}

static int wake(struct hw_inspector *i, const hw_tcp_rows *before, struct hw_error *err)
{
    const struct timespec step = {0, STEP_MS * 1000000};
    uint64_t tried[MAX_TRIED], ms = i->wait->silence_ms < OPEN_MS ? i->wait->silence_ms : OPEN_MS;
    size_t n_tried = 0;
    bool stopped = false;
    int rc = hw_node_check_signal(i->pid, err);
    if (rc < 0)
        return rc;
    uint64_t end = hw_now_monotonic_ns() + ms * 1000000;
    if (syscall(SYS_pidfd_send_signal, i->pid->pidfd, SIGUSR1, NULL, 0) < 0)
        return hw_fail_sys(err, "cannot send SIGUSR1 to process %d", i->pid->pid);
    for (;;) {
        rc = look_for_new(i, before, tried, &n_tried, err);
        if (rc != HW_ENOTFOUND)
            return rc;
        if (!hw_pid_alive(i->pid))
            return hw_fail(err, HW_EGONE, 0, "process %d has ended", i->pid->pid);
        uint64_t now = hw_now_monotonic_ns();
        if (!stopped && i->wait->is_stopped && i->wait->is_stopped()) {
            stopped = true; /* what we have asked for is still to be closed */
            end = now + STOPPED_MS * UINT64_C(1000000);
        }
        if (now > end && stopped)
            return HW_NODE_STOPPED;
        if (now > end)
            return hw_fail(
                err, HW_ETIMEOUT, 0,
                "process %d did not open its inspector within %.3g s: it is open at a "
                "port that is not known (--port), it handles SIGUSR1 itself, or waits in "
                "one long call and will open it later",
                i->pid->pid, (double)ms / 1000);
        (void)nanosleep(&step, NULL);
    }
}

int hw_inspector_open(const struct hw_pid *pid, const struct hw_node_port *port,
                      const struct hw_node_wait *wait, struct hw_inspector *out,
                      struct hw_error *err)
{
    hw_tcp_rows before = {0};
    *out = (struct hw_inspector){.pid = pid, .wait = wait, .link.fd = -1};
    int rc = hw_tcp_read(pid, &before, err);
    const struct hw_tcp_row *open = rc == HW_OK ? find_open(pid, &before, port->port) : NULL;
    if (open) {
        out->listener = *open;
        rc = talk_to(out, err);
    } else if (rc == HW_OK && is_taken(&before, port)) {
        rc = hw_fail(err, HW_EBUSY, 0,
                     "port %u, where process %d would open its inspector, is in use by another "
                     "process; end that one, or start Node.js with --inspect-port=0",
                     port->port, pid->pid);
    } else if (rc == HW_OK) {
        rc = wake(out, &before, err);
    }
    hw_vec_done(&before);
    return rc;
}

/* ---- closing ---- */

static bool is_open(const struct hw_inspector *i)
{
    hw_tcp_rows rows = {0};
    bool open = hw_tcp_read(i->pid, &rows, NULL) < 0 ? hw_pid_alive(i->pid)
                                                     : was_there(&rows, i->listener.inode);
    hw_vec_done(&rows);
    return open;
}

static bool has_closed(const struct hw_inspector *i, uint64_t until_ns)
{
    const struct timespec step = {0, STEP_MS * 1000000};
    while (is_open(i)) {
        if (hw_now_monotonic_ns() > until_ns)
            return false;
        (void)nanosleep(&step, NULL);
    }
    return true;
}

int hw_inspector_close(struct hw_inspector *i, struct hw_error *err)
{
    const struct hw_node_wait patient = {.silence_ms = i->wait->silence_ms};
    uint64_t until = hw_now_monotonic_ns() + patient.silence_ms * 1000000;
    const struct hw_node_wait *before = i->wait;
    struct hw_error why = {0};
    int rc = HW_OK;
    i->wait = i->link.wait = &patient;
    /* The open connection first, then a new one: the old one may have broken off. */
    for (int attempt = 0; attempt < 2 && i->is_ours; attempt++) {
        if (i->link.fd < 0 && talk_to(i, &why) != HW_OK)
            i->link.fd = -1;
        if (i->link.fd >= 0)
            rc = hw_snapshot_close_inspector(&i->link, &why);
        if (i->link.fd >= 0)
            hw_node_link_done(&i->link);
        uint64_t soon = hw_now_monotonic_ns() + UINT64_C(1000000000);
        if (has_closed(i, rc == HW_OK ? until : soon))
            i->is_ours = false;
    }
    if (i->link.fd >= 0)
        hw_node_link_done(&i->link);
    i->wait = before;
    if (!i->is_ours)
        return HW_OK;
    return hw_fail(err, HW_EBUSY, 0,
                   "the inspector of process %d is still open at port %u%s%s: every user of this "
                   "machine can reach it; close it by require('inspector').close() in the program, "
                   "or end the program",
                   i->pid->pid, i->listener.here.port, why.text[0] ? "; " : "", why.text);
}
