/*
 * GET /api/v1/traces/ID/threads: {"threads": [{"track", "upid" (-1: not a thread's track), "pid",
 * "process", "tid", "name", "slices", "levels", "first", "last"}…]}
 *
 * GET /api/v1/traces/ID/slices?track=&from=&to=&min=: the slices of a track in a time range, with
 * those shorter than `min` ns merged: {"names": […], "boxes": [[depth, begin, end, name, category,
 * n]…], times in ns after `from`; name and category are indexes; n: slices merged}
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "server/api/pages_internal.h"
#include "views/time/slice_boxes.h"

#include "base/banned.h"

enum { MAX_LEVELS = 256 };

static void put_thread(struct hw_json *j, const struct hw_page_trace *t,
                       const struct hw_slice_summary *s)
{
    const struct hw_profile *p = t->profile;
    hw_str_id name = p->slices.tracks.v[s->track].name;
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "track", s->track);
    if (s->thread != HW_ID_NONE) {
        const struct hw_thread *thread = &p->threads.rows.v[s->thread];
        const struct hw_process *process = &p->processes.v[thread->upid.v];
        name = thread->name;
        hw_json_kv_uint(j, "upid", thread->upid.v);
        hw_json_kv_int(j, "pid", process->pid);
        hw_json_kv_str(j, "process", hw_page_string(t, process->name));
        hw_json_kv_int(j, "tid", thread->tid);
    } else {
        hw_json_kv_int(j, "upid", -1);
    }
    hw_json_kv_str(j, "name", hw_page_string(t, name));
    hw_json_kv_uint(j, "slices", s->n_slices);
    hw_json_kv_uint(j, "levels", s->n_levels);
    hw_json_kv_int(j, "first", s->first_ns);
    hw_json_kv_int(j, "last", s->last_ns);
    hw_json_end_object(j);
}

void hw_page_threads(struct hw_http_request *req, struct hw_page_trace *t)
{
    hw_slice_summaries all = {0};
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = hw_slices_summaries(t->profile, &all);
    hw_json_begin_object(&j);
    hw_json_key(&j, "threads");
    hw_json_begin_array(&j);
    for (size_t i = 0; rc == HW_OK && i < all.n; i++)
        put_thread(&j, t, &all.v[i]);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    if (rc < 0 && j.error == 0)
        j.error = rc;
    hw_vec_done(&all);
    hw_page_reply_json(req, &j);
}

static bool number(struct hw_http_request *req, const char *name, int64_t *out)
{
    const char *text = hw_http_query(req, name);
    char *end;
    if (!text || !*text)
        return false;
    long long v = strtoll(text, &end, 10);
    *out = v;
    return !*end;
}

/* The distinct names of a response. */
struct names {
    struct hw_map64 index;
    HW_VEC(hw_str_id) v;
};

static int index_of(struct names *n, hw_str_id name, uint64_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&n->index, name.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = n->v.n;
    *out = *at;
    return fresh && hw_vec_push(&n->v, name) < 0 ? HW_ENOMEM : HW_OK;
}

static int put_box(struct hw_json *j, const struct hw_profile *p, const struct hw_slice_box *b,
                   int64_t from, struct names *names)
{
    const struct hw_slice *r = &p->slices.rows.v[b->row];
    uint64_t name, category;
    int rc = index_of(names, r->name, &name);
    if (rc == HW_OK)
        rc = index_of(names, r->category, &category);
    if (rc < 0)
        return rc;
    hw_json_begin_array(j);
    hw_json_uint(j, b->depth);
    hw_json_int(j, b->ts_ns - from);
    hw_json_int(j, b->end_ns - from);
    hw_json_uint(j, name);
    hw_json_uint(j, category);
    hw_json_uint(j, b->n);
    hw_json_end_array(j);
    return HW_OK;
}

void hw_page_slices(struct hw_http_request *req, struct hw_page_trace *t)
{
    int64_t track, from, to, min;
    hw_slice_boxes boxes = {0};
    struct names names = {0};
    struct hw_json j;
    if (!number(req, "track", &track) || !number(req, "from", &from) || !number(req, "to", &to) ||
        !number(req, "min", &min) || track < 0 || (uint64_t)track >= t->profile->slices.tracks.n ||
        from < 0 || to < from || min < 0) {
        hw_http_reply_text(req, HTTP_BAD, "track (of threads), from, to, min: numbers, in ns\n");
        return;
    }
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = hw_slices_boxes(t->profile, (uint32_t)track, from, to, min, MAX_LEVELS, &boxes);
    hw_json_begin_object(&j);
    hw_json_key(&j, "boxes");
    hw_json_begin_array(&j);
    for (size_t i = 0; rc == HW_OK && i < boxes.n; i++)
        rc = put_box(&j, t->profile, &boxes.v[i], from, &names);
    hw_json_end_array(&j);
    hw_json_key(&j, "names");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < names.v.n; i++)
        hw_json_str(&j, hw_page_string(t, names.v.v[i]));
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    if (rc < 0 && j.error == 0)
        j.error = rc;
    hw_vec_done(&boxes);
    hw_vec_done(&names.v);
    hw_map64_done(&names.index);
    hw_page_reply_json(req, &j);
}
