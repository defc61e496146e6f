/* exec_rules.c - the sessions' rules, and checking a program against them. */
#include "daemon/execwatch/exec_rules.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "config/config.h"
#include "daemon/policy/process_match.h"

#include "base/banned.h"

/* ---- rules ---- */

static void session_done(struct hw_exec_watch_session *s)
{
    hw_permission_request_done(&s->asking);
    hw_memlog_done(&s->memlog);
    hw_vec_done(&s->names);
    free(s->text);
}

void hw_exec_rules_drop(struct hw_exec_rules *r, uint64_t session)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i].id == session) {
            session_done(&r->sessions.v[i]);
            r->sessions.v[i] = r->sessions.v[--r->sessions.n];
            return;
        }
}

static int add_entry(struct hw_exec_watch_session *s, const char *entry)
{
    struct hw_memlog_rule rule = {.sampled = entry[1] == '1'};
    if (entry[0] == HW_EXEC_NAME)
        return hw_vec_push(&s->names, entry + 2);
    rule.kind = (enum hw_memlog_kind)(entry[0] - HW_EXEC_KIND);
    rule.word = strdup(entry + 2);
    int rc = rule.word ? hw_vec_push(&s->memlog.rules, rule) : HW_ENOMEM;
    if (rc < 0)
        free(rule.word);
    return rc;
}

int hw_exec_rules_add(struct hw_exec_rules *r, const struct hw_policy *policy,
                      const struct hw_exec_message *m, const char *names, size_t n)
{
    struct hw_exec_watch_session s = {.id = m->session,
                                      .uid = m->who.uid,
                                      .generation = m->generation,
                                      .all = m->flags & HW_RULE_ALL,
                                      .arm = {m->arm_interval_bytes, m->arm_token},
                                      .per_minute = m->starts_per_minute,
                                      .young_ns = m->young_s * UINT64_C(1000000000)};
    int rc = HW_OK;
    s.text = malloc(n + 1);
    if (!s.text)
        return HW_ENOMEM;
    memcpy(s.text, names, n);
    s.text[n] = '\0';
    for (char *p = s.text; rc == HW_OK && p < s.text + n; p += strlen(p) + 1)
        rc = strlen(p) > 2 ? add_entry(&s, p) : HW_OK;
    hw_permission_request_init(&s.asking, &m->who, m->pid, policy);
    hw_exec_rules_drop(r, s.id);
    if (rc == HW_OK)
        rc = hw_vec_push(&r->sessions, s);
    if (rc < 0)
        session_done(&s);
    return rc;
}

bool hw_exec_rules_follow(const struct hw_exec_rules *r, int32_t pid)
{
    for (size_t i = 0; i < r->followed.n; i++)
        if (r->followed.v[i] == pid)
            return true;
    return false;
}

bool hw_exec_rules_need(const struct hw_exec_rules *r, enum hw_memlog_kind kind)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (hw_memlog_needs(&r->sessions.v[i].memlog, kind))
            return true;
    return false;
}

bool hw_exec_rules_need_chance(const struct hw_exec_rules *r)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        for (size_t k = 0; k < r->sessions.v[i].memlog.rules.n; k++)
            if (r->sessions.v[i].memlog.rules.v[k].sampled)
                return true;
    return false;
}

bool hw_exec_rules_concern(const struct hw_exec_rules *r, int dir)
{
    struct stat st;
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i].uid == 0)
            return true;
    if (r->sessions.n == 0 || fstat(dir, &st) < 0)
        return false;
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i].uid == st.st_uid)
            return true;
    return false;
}

static bool is_in_some_group(const struct hw_exec_rules *r, const char *path)
{
    const struct hw_memlog_process p = {.role = "", .argv0 = "", .cgroup = path};
    for (size_t i = 0; i < r->sessions.n; i++)
        if (hw_memlog_means(&r->sessions.v[i].memlog, &p))
            return true;
    return false;
}

bool hw_exec_rules_may_mean_unnamed(const struct hw_exec_rules *r, struct hw_exec_candidate *p)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i].all)
            return true;
    if (r->followed.n || hw_exec_rules_need(r, HW_MEMLOG_ROLE))
        return true;
    if (!hw_exec_rules_need(r, HW_MEMLOG_CGROUP))
        return false;
    return hw_exec_candidate_groups(p) == HW_ELIMIT || is_in_some_group(r, p->cgroup);
}

/* ---- for the answerer ---- */

/* Without anything that only the finder knows. */
static bool answerer_decides(const struct hw_exec_rules *r)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i].all)
            return false;
    return r->followed.n == 0 &&
           (!hw_exec_rules_need(r, HW_MEMLOG_CGROUP) || hw_exec_groups_at_once());
}

static void publish(struct hw_exec_watch_shared *s, char kind, const char *word)
{
    size_t n = strlen(word) + 1;
    if (n + 1 > sizeof s->names - s->n_bytes) { /* of several sessions together */
        s->ask_always = HW_EXEC_SELECT_NAMED;
        return;
    }
    s->names[s->n_bytes] = kind;
    memcpy(s->names + s->n_bytes + 1, word, n);
    s->n_bytes += (uint32_t)n + 1;
}

static void publish_rule(struct hw_exec_watch_shared *s, const struct hw_memlog_rule *r)
{
    if (r->kind == HW_MEMLOG_NAME)
        publish(s, HW_EXEC_NAME, r->word);
    else if (r->kind == HW_MEMLOG_CGROUP)
        publish(s, HW_EXEC_GROUP, r->word);
    else if (r->kind == HW_MEMLOG_ROLE)
        publish(s, HW_EXEC_ROLE, r->word);
}

/* Starts may be skipped only if this session alone selects them: its figures then count for all. */
uint32_t hw_exec_rules_starts_per_minute(const struct hw_exec_rules *r)
{
    return r->sessions.n == 1 && r->followed.n == 0 && r->sessions.v[0].arm.interval_bytes
               ? r->sessions.v[0].per_minute
               : 0;
}

void hw_exec_rules_publish(const struct hw_exec_rules *r, struct hw_exec_watch_shared *s)
{
    uint32_t version = atomic_load_explicit(&s->version, memory_order_relaxed);
    atomic_store_explicit(&s->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    s->n_bytes = 0;
    s->per_minute = hw_exec_rules_starts_per_minute(r);
    s->ask_always = answerer_decides(r) ? HW_EXEC_SELECT_MEANT : HW_EXEC_SELECT_ALL;
    for (size_t i = 0; i < r->sessions.n; i++) {
        const struct hw_exec_watch_session *w = &r->sessions.v[i];
        for (size_t k = 0; k < w->names.n; k++)
            publish(s, HW_EXEC_NAME, w->names.v[k]);
        for (size_t k = 0; k < w->memlog.rules.n; k++)
            publish_rule(s, &w->memlog.rules.v[k]);
    }
    atomic_store_explicit(&s->version, version + 2, memory_order_release);
}

/* ---- a program ---- */

static bool is_named(const char *wanted, const struct hw_exec_candidate *p)
{
    return p->starts ? hw_config_name_matches(wanted, p->cmdline)
                     : hw_name_is_meant(wanted, p->cmdline, p->n, p->status.name, p->exe);
}

/* As the recorder decides (memlog.c), except that it does not know about other processes of the
 * role. */
static bool memlog_means(const struct hw_exec_watch_session *s, const struct hw_exec_candidate *p)
{
    struct hw_memlog_process m = {
        .role = p->role,
        .argv0 = p->cmdline,
        .cgroup = p->cgroup,
        .chance = hw_hash_mix(hw_hash_mix(s->generation, (uint64_t)p->status.tgid), p->start_ticks),
    };
    return hw_memlog_means(&s->memlog, &m);
}

static bool session_means(const struct hw_exec_watch_session *s, const struct hw_exec_candidate *p)
{
    if (s->uid != 0 && s->uid != p->status.uid)
        return false;
    bool meant = s->all || memlog_means(s, p);
    for (size_t i = 0; !meant && i < s->names.n; i++)
        meant = is_named(s->names.v[i], p);
    return meant;
}

static bool is_followed(const struct hw_exec_rules *r, const struct hw_exec_candidate *p)
{
    return hw_exec_rules_follow(r, p->status.ppid) || hw_exec_rules_follow(r, p->status.tgid);
}

bool hw_exec_rules_mean(const struct hw_exec_rules *r, const struct hw_exec_candidate *p)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (session_means(&r->sessions.v[i], p))
            return true;
    return is_followed(r, p);
}

uint64_t hw_exec_rules_first(const struct hw_exec_rules *r, const struct hw_exec_candidate *p)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (session_means(&r->sessions.v[i], p))
            return r->sessions.v[i].id;
    return 0;
}

struct hw_start_arm hw_exec_rules_arm(const struct hw_exec_rules *r,
                                      const struct hw_exec_candidate *p)
{
    const struct hw_start_arm none = {0};
    const struct hw_exec_watch_session *only = NULL;
    for (size_t i = 0; i < r->sessions.n; i++) {
        if (!session_means(&r->sessions.v[i], p))
            continue;
        if (only)
            return none;
        only = &r->sessions.v[i];
    }
    return only && !is_followed(r, p) ? only->arm : none;
}

void hw_exec_rules_set_interval(struct hw_exec_rules *r, uint64_t session, uint64_t interval_bytes)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i].id == session)
            r->sessions.v[i].arm.interval_bytes = interval_bytes;
}

int hw_exec_rules_permit(const struct hw_exec_rules *r, const struct hw_exec_candidate *p,
                         const struct hw_pid *pid, bool starts, struct hw_error *err)
{
    const struct hw_permission_program program = {&p->status, p->exe, p->groups};
    int rc = HW_EPERM;
    err->text[0] = '\0';
    for (size_t i = 0; rc == HW_EPERM && i < r->sessions.n; i++)
        if (session_means(&r->sessions.v[i], p) || is_followed(r, p))
            rc = starts
                     ? hw_permission_start(&r->sessions.v[i].asking, pid, &program, err)
                     : hw_permission_profile_program(&r->sessions.v[i].asking, pid, &program, err);
    return rc;
}
