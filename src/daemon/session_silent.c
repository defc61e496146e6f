/*
 * session_silent.c - running processes that the session means and has not heard from
 *
 * A client makes the handshake at its first allocation, so one that makes none is no target;
 * another one takes seconds to prepare, or cannot be prepared. What they hold has owners all the
 * same: their mappings are read at each dump and at the end, as a target's are.
 */
#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/dump/account.h"
#include "daemon/policy/permission.h"

#include "base/banned.h"

#define MAX_SILENT 64u
#define REST       100u /* times the CPU time of the readings */

/* A session that asks for all running processes is told about those that do something. */
static bool names_processes(const struct hw_session *s)
{
    for (size_t i = 0; i < s->sources.n; i++)
        if (s->sources.v[i].config->all)
            return false;
    return true;
}

static bool is_target(const struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->rec->targets.n; i++)
        if (s->rec->targets.v[i]->session == s && s->rec->targets.v[i]->pid.pid == pid)
            return true;
    return false;
}

void hw_session_silent_add(struct hw_session *s, int32_t pid)
{
    struct hw_silent one = {.pid = HW_PID_NONE};
    if (!s->proc || !names_processes(s) || s->silent.n >= MAX_SILENT || is_target(s, pid))
        return;
    hw_session_silent_drop(s, pid); /* perhaps one that had the number before */
    if (hw_pid_open(pid, &one.pid, NULL) == HW_OK && hw_vec_push(&s->silent, one) < 0)
        hw_pid_done(&one.pid); /* it has no account then */
}

void hw_session_silent_drop(struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->silent.n; i++)
        if (s->silent.v[i].pid.pid == pid) {
            hw_pid_done(&s->silent.v[i].pid);
            s->silent.v[i] = s->silent.v[--s->silent.n];
            return;
        }
}

/* It may have executed a program that it may not show. Checked before and after the reading. */
static bool may_be_read(const struct hw_session *s, const struct hw_pid *pid)
{
    struct hw_proc_status st;
    struct hw_error err;
    return hw_pid_alive(pid) && hw_proc_status(pid->dir, &st) == HW_OK &&
           hw_permission_profile(&s->asking, pid, &st, &err) == HW_OK;
}

static void read_one(struct hw_session *s, struct hw_silent *one)
{
    struct hw_account_reading *k;
    if (is_target(s, one->pid.pid) || !may_be_read(s, &one->pid))
        return;
    if (!one->is_told)
        hw_proc_poll_name(s, &one->pid); /* before the reading: packets come in order of time */
    one->is_told = true;
    if (hw_account_read(s->rec, &one->pid, hw_session_wants_idle(s, /* source = */ 0), &k) < 0)
        return;
    if (may_be_read(s, &one->pid))
        hw_proc_poll_reading(s, &one->pid, k);
    hw_account_free(k);
}

void hw_session_silent_dump(struct hw_session *s, bool final)
{
    uint64_t began = hw_now_monotonic_ns();
    if (s->closed || s->status < 0 || (!final && began < s->silent_next_ns))
        return;
    for (size_t i = 0; i < s->silent.n; i++)
        read_one(s, &s->silent.v[i]);
    uint64_t now = hw_now_monotonic_ns();
    s->silent_next_ns = now + (now - began) * REST;
}

void hw_session_silent_done(struct hw_session *s)
{
    for (size_t i = 0; i < s->silent.n; i++)
        hw_pid_done(&s->silent.v[i].pid);
    hw_vec_done(&s->silent);
}
