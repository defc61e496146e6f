/*
 * session_silent.c - running processes that the session means and has not heard from
 *
 * A client makes the handshake at its first allocation, so one that makes none is no target;
 * another one takes seconds to prepare, or cannot be prepared. What they hold has owners all the
 * same: their mappings are read at each dump and at the end, as a target's are.
 */
#include <string.h>

#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/dump/account.h"
#include "daemon/dump/go_alloc.h"
#include "daemon/policy/permission.h"

#include "base/banned.h"

#define MAX_SILENT 64u
#define REST       100u /* times the CPU time of the readings */
#define AGE_SHARE  20u
#define KEPT_FIRST UINT64_C(50000000)

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
    struct hw_silent one = {.pid = HW_PID_NONE, .is_root = pid == s->root.pid};
    if (!s->proc || !names_processes(s) || s->silent.n >= MAX_SILENT || is_target(s, pid))
        return;
    hw_session_silent_drop(s, pid); /* perhaps one that had the number before */
    if (hw_pid_open(pid, &one.pid, NULL) == HW_OK && hw_vec_push(&s->silent, one) < 0)
        hw_pid_done(&one.pid); /* it has no account then */
}

static void forget(struct hw_session *s, struct hw_silent *one)
{
    hw_pid_done(&one->pid);
    hw_account_free(one->kept);
    hw_go_alloc_free(s, one->go);
}

void hw_session_silent_drop(struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->silent.n; i++)
        if (s->silent.v[i].pid.pid == pid) {
            forget(s, &s->silent.v[i]);
            s->silent.v[i] = s->silent.v[--s->silent.n];
            return;
        }
}

/* It may have executed a program that it may not show. Checked before and after the reading. */
static bool may_be_read(const struct hw_session *s, struct hw_silent *one)
{
    struct hw_proc_status st;
    struct hw_error err;
    if (!hw_pid_alive(&one->pid) || hw_proc_status(one->pid.dir, &st) < 0 ||
        hw_permission_profile(&s->asking, &one->pid, &st, &err) < 0)
        return false;
    memcpy(one->name, st.name, sizeof one->name);
    return true;
}

/* The caller frees it; NULL: it is not to be had. */
static struct hw_account_reading *take(struct hw_session *s, struct hw_silent *one)
{
    struct hw_account_reading *k;
    bool wants_idle = hw_session_wants_idle(s, /* source = */ 0);
    if (is_target(s, one->pid.pid) || !may_be_read(s, one) ||
        hw_account_read(s->rec, &one->pid, wants_idle, &k) < 0)
        return NULL;
    if (may_be_read(s, one) && (!one->is_root || hw_account_has_go(k)))
        return k;
    hw_account_free(k);
    return NULL;
}

/* A Go program counts as recorded: who allocates in it is known. */
static void tell(struct hw_session *s, struct hw_silent *one)
{
    struct hw_control_target_state b = {.pid = one->pid.pid, .state = HW_TARGET_CONNECTED};
    if (!hw_go_alloc_is_known(one->go))
        return;
    s->n_dumps++;
    if (one->is_shown)
        return;
    one->is_shown = true;
    s->n_read++;
    if (s->control)
        hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, one->name);
}

static void write_reading(struct hw_session *s, struct hw_silent *one,
                          const struct hw_account_reading *k)
{
    if (!one->is_told)
        hw_proc_poll_name(s, &one->pid);
    one->is_told = true;
    hw_proc_poll_reading(s, &one->pid, k, &one->go);
    tell(s, one);
}

static void drop_kept(struct hw_silent *one)
{
    hw_account_free(one->kept);
    one->kept = NULL;
}

/* One that has ended has the last reading that was kept. */
static void dump_one(struct hw_session *s, struct hw_silent *one)
{
    struct hw_account_reading *k = take(s, one);
    if (k || one->kept)
        write_reading(s, one, k ? k : one->kept);
    hw_account_free(k);
    drop_kept(one);
}

void hw_session_silent_dump(struct hw_session *s, bool final)
{
    uint64_t began = hw_now_monotonic_ns();
    if (s->closed || s->status < 0 || !s->proc || (!final && began < s->silent_next_ns))
        return;
    for (size_t i = 0; i < s->silent.n; i++)
        dump_one(s, &s->silent.v[i]);
    uint64_t now = hw_now_monotonic_ns();
    s->silent_next_ns = now + (now - began) * REST;
}

bool hw_session_silent_reads(struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->silent.n && s->proc && !s->closed; i++)
        if (s->silent.v[i].pid.pid == pid) {
            dump_one(s, &s->silent.v[i]);
            return s->silent.v[i].go != NULL;
        }
    return false;
}

void hw_session_silent_tick(struct hw_session *s, uint64_t now)
{
    uint64_t age = now - s->started_ns;
    if (s->silent.n == 0 || now < s->silent_keep_ns || age < KEPT_FIRST || s->closed || !s->proc)
        return;
    for (size_t i = 0; i < s->silent.n; i++) {
        struct hw_account_reading *k = take(s, &s->silent.v[i]);
        if (!k)
            continue;
        drop_kept(&s->silent.v[i]);
        s->silent.v[i].kept = k;
    }
    uint64_t took = hw_now_monotonic_ns() - now, pause = took * REST;
    pause = pause > age / AGE_SHARE ? pause : age / AGE_SHARE;
    s->silent_keep_ns = now + took + (pause > KEPT_FIRST ? pause : KEPT_FIRST);
}

void hw_session_silent_done(struct hw_session *s)
{
    for (size_t i = 0; i < s->silent.n; i++)
        forget(s, &s->silent.v[i]);
    hw_vec_done(&s->silent);
}
