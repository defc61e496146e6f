/*
 * dump_samples.c - what a dump takes from each live sample: idle memory, blocks of heap graphs
 */
#include <stdlib.h>

#include "base/files/fd.h"
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"
#include "trace/profile_writer.h"

#include "base/banned.h"

/* ---- idle memory ---- */

/* What was not used since the last dump, by callsite. For a process that has ended it is not
 * known. */
static int measure_idle(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err)
{
    struct hw_target_idle *x = &t->idle;
    int rc = HW_OK;
    if (x->source.way == HW_IDLE_NONE)
        rc = hw_idle_open(t->pid.dir, HW_IDLE_BITMAP, HW_IDLE_FLAGS, &x->source, err);
    hw_autofree bool *idle = calloc(s->idle.n + 1, sizeof *idle);
    bool first = !x->source.marked;
    if (rc == HW_OK && !idle)
        rc = hw_fail(err, HW_ENOMEM, 0, "idle samples");
    if (rc == HW_OK)
        rc = hw_idle_measure(&x->source, s->idle.v, s->idle.n, idle, err);
    if (rc < 0 || first)
        return rc;
    hw_map64_done(&x->bytes);
    for (size_t i = 0; rc == HW_OK && i < s->idle.n; i++) {
        hw_callsite_id c = hw_frames_of(&t->frames, s->idle.v[i].where);
        uint64_t *bytes;
        bool fresh;
        if (!idle[i] || c.v == HW_ID_NONE)
            continue;
        rc = hw_map64_at(&x->bytes, c.v, &bytes, &fresh);
        if (rc == HW_OK)
            *bytes = (fresh ? 0 : *bytes) + s->idle.v[i].sample_size;
    }
    x->known = rc == HW_OK;
    return rc;
}

void hw_dump_find_idle(struct hw_target *t, const struct hw_snapshot *s)
{
    struct hw_error err = {0};
    t->idle.known = false;
    if (!hw_session_wants_idle(t->session, t->source) || !t->feed->keeps_addresses ||
        t->idle.failed || t->end == HW_END_EXITED || t->end == HW_END_EXECED ||
        !hw_pid_alive(&t->pid))
        return;
    int rc = measure_idle(t, s, &err);
    if (rc == HW_OK || rc == HW_EGONE)
        return;
    t->idle.failed = true;
    hw_session_warn(t->session, "pid %d: idle allocations are not measured: %s", t->pid.pid,
                    err.text);
}

/* ---- blocks of heap graphs ---- */

void hw_dump_for_graph(struct hw_target *t, uint64_t graph_boottime_ns,
                       const hw_native_blocks *blocks)
{
    struct hw_graph_request q;
    if (!t->with_thread || !t->feed->keeps_addresses)
        return;
    if (hw_graph_request_init(&q, graph_boottime_ns, blocks) < 0 ||
        hw_vec_push(&t->questions, q) < 0) {
        hw_graph_request_done(&q);
        return;
    }
    hw_dump_request(t, HW_TRIGGER_GRAPH, /* final = */ false);
}

static int write_links(struct hw_target *t, const struct hw_snapshot *s,
                       const struct hw_graph_request *q, struct hw_error *err)
{
    struct hw_profile_writer *w = t->session->sources.v[t->source].writer;
    hw_graph_replies answers = {0};
    HW_VEC(struct hw_dump_link) links = {0};
    int rc = hw_graph_request_send(q, s->idle.v, s->idle.n, &answers);
    if (rc == HW_OK)
        rc = hw_vec_reserve(&links, answers.n);
    for (size_t i = 0; rc == HW_OK && i < answers.n; i++) {
        const struct hw_idle_sample *x = &s->idle.v[answers.v[i].sample];
        hw_callsite_id c = hw_frames_of(&t->frames, x->where);
        if (c.v == HW_ID_NONE)
            continue; /* could not be resolved, and was counted then */
        links.v[links.n++] = (struct hw_dump_link){.block = answers.v[i].block,
                                                   .callsite = c,
                                                   .alloc_size = x->alloc_size,
                                                   .sample_size = x->sample_size};
    }
    if (rc == HW_OK)
        rc = hw_profile_links(w, (uint64_t)t->pid.pid, q->boottime_ns, links.v, links.n,
                              t->frames.cs, t->key, err);
    else
        rc = hw_fail(err, rc, 0, "links of pid %d", t->pid.pid);
    hw_vec_done(&answers);
    hw_vec_done(&links);
    return rc;
}

int hw_dump_answer_questions(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err)
{
    size_t n = t->dump.n_questions;
    int rc = HW_OK;
    for (size_t i = 0; i < n; i++) {
        if (rc == HW_OK && !t->session->closed)
            rc = write_links(t, s, &t->questions.v[i], err);
        hw_graph_request_done(&t->questions.v[i]);
    }
    t->questions.n -= n;
    for (size_t i = 0; i < t->questions.n; i++)
        t->questions.v[i] = t->questions.v[i + n];
    t->dump.n_questions = 0;
    return rc;
}
