/*
 * snapshot.c - the conversation:
 *
 *      -> {"id": 1, "method": "HeapProfiler.enable"}                    <- {"id": 1, "result": {}}
 *      -> {"id": 2, "method": "HeapProfiler.takeHeapSnapshot", ...}
 *          <- {"method": "HeapProfiler.reportHeapSnapshotProgress", "params": {"done": 1, "total": 9}}
 *          <- {"method": "HeapProfiler.addHeapSnapshotChunk", "params": {"chunk": "{\"snapshot\":..."}}
 *                                                                       <- {"id": 2, "result": {}}
 *      -> {"id": 3, "method": "HeapProfiler.disable"}                   <- {"id": 3, "result": {}}
 *
 * The last one matters: from the first snapshot on, V8 follows each object that moves, to give it the
 * same number in the next one, until the profiler is disabled.
 */
#include "node/snapshot.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/progress.h"
#include "base/text/strbuf.h"
#include "node/talk.h"

#include "base/banned.h"

enum { ENABLE = 1, TAKE, DISABLE, CLOSE };
enum { ROOM_EVERY = 64 << 20 };

#define HEAD "{\"snapshot\":"

struct state {
    struct hw_snapshot_job *job; /* NULL: chunks are passed over */
    double done;                 /* of V8's walk */
    char last;                   /* byte written */
};

/* ---- events ---- */

static int add_chunk(struct hw_node_link *l, struct state *s, const json_t *params,
                     struct hw_error *err)
{
    struct hw_snapshot_job *job = s->job;
    const json_t *chunk = json_object_get(params, "chunk");
    size_t n = json_string_length(chunk);
    const char *p = json_string_value(chunk);
    if (!p)
        return hw_fail(err, HW_EFORMAT, 0, "a part of the snapshot is no text");
    if (n == 0)
        return HW_OK; /* no progress, either */
    if (job->bytes == 0 && (n < sizeof HEAD - 1 || memcmp(p, HEAD, sizeof HEAD - 1) != 0))
        return hw_fail(err, HW_EFORMAT, 0, "what comes is no heap snapshot");
    if (n > job->max_bytes - job->bytes)
        return hw_fail(err, HW_ELIMIT, 0,
                       "more than %llu MiB come, which no heap of this process's size gives",
                       (unsigned long long)job->max_bytes >> 20);
    if (job->bytes / ROOM_EVERY != (job->bytes + n) / ROOM_EVERY) {
        int rc = hw_fd_check_room(job->fd, ROOM_EVERY, err);
        if (rc < 0)
            return rc;
    }
    if (hw_fd_write_all(job->fd, p, n) < 0)
        return hw_fail_sys(err, "cannot write the snapshot");
    job->bytes += n;
    s->last = p[n - 1];
    hw_node_link_progress(l);
    return HW_OK;
}

static void note_progress(struct hw_node_link *l, struct state *s, const json_t *params)
{
    double done = json_number_value(json_object_get(params, "done"));
    double total = json_number_value(json_object_get(params, "total"));
    if (!(done > s->done) || !(total > 0))
        return;
    s->done = done;
    hw_node_link_progress(l);
    hw_progress_at(s->job->progress, (uint64_t)(done < total ? 1000 * (done / total) : 1000), 1000);
}

static int take_event(struct hw_node_link *l, struct state *s, const json_t *message,
                      struct hw_error *err)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    const json_t *params = json_object_get(message, "params");
    if (!s->job || !method)
        return HW_OK;
    if (strcmp(method, "HeapProfiler.addHeapSnapshotChunk") == 0)
        return add_chunk(l, s, params, err);
    if (strcmp(method, "HeapProfiler.reportHeapSnapshotProgress") == 0)
        note_progress(l, s, params);
    return HW_OK;
}

/* ---- commands ---- */

static int refused(const json_t *error, struct hw_error *err)
{
    struct hw_strbuf b = {0};
    const json_t *text = json_object_get(error, "message");
    size_t n = json_string_length(text);
    enum { MOST = 200 };
    hw_strbuf_add_escaped(&b, n ? json_string_value(text) : "no reason",
                          n ? (n < MOST ? n : MOST) : 9);
    int rc = hw_fail(err, HW_EFORMAT, 0, "it refuses: %s", b.p ? b.p : "");
    hw_strbuf_done(&b);
    return rc;
}

/* *out: the answer, owned by the caller. */
static int await(struct hw_node_link *l, struct state *s, int id, json_t **out,
                 struct hw_error *err)
{
    for (;;) {
        struct hw_bytes text;
        json_error_t fault;
        int rc = hw_node_receive(l, &text, err);
        if (rc != HW_OK)
            return rc;
        json_t *message = json_loadb((const char *)text.p, text.n, JSON_ALLOW_NUL, &fault);
        if (!json_is_object(message))
            rc = hw_fail(err, HW_EFORMAT, 0, "a message that is no JSON object");
        json_t *number = json_object_get(message, "id");
        if (rc == HW_OK && json_is_integer(number) && json_integer_value(number) == id) {
            const json_t *error = json_object_get(message, "error");
            if (!error) {
                hw_node_link_progress(l);
                *out = message;
                return HW_OK;
            }
            rc = refused(error, err);
        } else if (rc == HW_OK) {
            rc = take_event(l, s, message, err);
        }
        json_decref(message);
        if (rc != HW_OK)
            return rc;
    }
}

static int call(struct hw_node_link *l, struct state *s, int id, const char *method,
                const char *params, struct hw_error *err)
{
    char text[512];
    json_t *answer = NULL;
    (void)snprintf(text, sizeof text, "{\"id\":%d,\"method\":\"%s\",\"params\":{%s}}", id, method,
                   params);
    int rc = hw_node_send(l, text, err);
    if (rc == HW_OK)
        rc = await(l, s, id, &answer, err);
    json_decref(answer);
    return rc;
}

int hw_snapshot_take(struct hw_node_link *l, struct hw_snapshot_job *job, struct hw_error *err)
{
    struct state s = {.job = job};
    hw_node_link_progress(l);
    int rc = call(l, &s, ENABLE, "HeapProfiler.enable", "", err);
    if (rc == HW_OK)
        rc = call(l, &s, TAKE, "HeapProfiler.takeHeapSnapshot", "\"reportProgress\":true", err);
    if (rc == HW_OK && s.last != '}')
        rc = hw_fail(err, HW_ETRUNCATED, 0, "the snapshot is cut off");
    s.job = NULL;
    return rc == HW_OK ? call(l, &s, DISABLE, "HeapProfiler.disable", "", err) : rc;
}

/* process._debugEnd was there in 10, 18, 20 and 24. */
int hw_snapshot_close_inspector(struct hw_node_link *l, struct hw_error *err)
{
    struct state s = {0};
    hw_node_link_progress(l);
    int rc = call(l, &s, CLOSE, "Runtime.evaluate",
                  "\"expression\":\"typeof process._debugEnd == 'function' ? process._debugEnd() "
                  ": require('inspector').close()\",\"includeCommandLineAPI\":true",
                  err);
    return rc == HW_EGONE ? HW_OK : rc; /* closed before it answered */
}
