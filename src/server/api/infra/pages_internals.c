/*
 * Memory internals over HTTP: GET processes, file/N/json, file/N/trace, heap/PID/ALLOCATOR; POST
 * start, stop, mode, save-dump.
 *
 * The tracker (pages.h) decides what happens. A save is answered by events: `progress` while
 * processes are read, then `saved` with the files, or `failed` with the reason; it continues if the
 * page disconnects.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "server/api/infra/pages_infra.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

enum { HTTP_FORBIDDEN = 403, HTTP_CONFLICT = 409, HTTP_TIMEOUT = 504, PIECE = 1 << 16 };

static void reply_refused(struct hw_http_request *req, const struct hw_error *err, int rc)
{
    unsigned status = rc == HW_EPERM      ? HTTP_FORBIDDEN
                      : rc == HW_EBUSY    ? HTTP_CONFLICT
                      : rc == HW_ETIMEOUT ? HTTP_TIMEOUT
                                          : 0;
    if (status)
        hw_http_reply_text(req, status, err->code ? err->text : hw_errc_text(rc));
    else
        hw_page_reply_error(req, err, rc);
}

static void reply(struct hw_http_request *req, struct hw_json *j, const struct hw_error *err,
                  int rc)
{
    if (rc >= 0) {
        hw_page_reply_json(req, j);
        return;
    }
    hw_json_done(j);
    reply_refused(req, err, rc);
}

static void processes(struct hw_http_request *req, const struct hw_page_internals *m)
{
    struct hw_error err = {0};
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = m->put(m->ctx, &j, &err);
    reply(req, &j, &err, rc);
}

static void order(struct hw_http_request *req, const struct hw_page_internals *m, const char *verb)
{
    struct hw_error err = {0};
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = m->order(m->ctx, verb, hw_http_body(req), &j, &err);
    reply(req, &j, &err, rc);
}

/* ---- saving ---- */

struct save {
    const struct hw_page_internals *m;
    struct hw_http_stream *stream;
    char *words; /* owned */
    size_t n_words;
};

static void send(struct hw_http_stream *s, const char *name, struct hw_json *j)
{
    if (hw_json_finish(j) == HW_OK)
        (void)hw_http_event_send(s, name, j->buf.p); /* fails only if the client has left */
    hw_json_done(j);
}

static void on_progress(void *ctx, size_t n_done, size_t n_all)
{
    struct save *s = ctx;
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_uint(&j, "done", n_done);
    hw_json_kv_uint(&j, "all", n_all);
    hw_json_end_object(&j);
    send(s->stream, "progress", &j);
}

static void produce(struct hw_http_stream *stream, void *ctx)
{
    struct save *s = ctx;
    struct hw_error err = {0};
    struct hw_json j;
    s->stream = stream;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = s->m->save(s->m->ctx, hw_bytes_of(s->words, s->n_words), on_progress, s, &j, &err);
    if (rc == HW_OK) {
        send(stream, "saved", &j);
        return;
    }
    hw_json_done(&j);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_str(&j, "text", err.code ? err.text : hw_errc_text(rc));
    hw_json_end_object(&j);
    send(stream, "failed", &j);
}

static void save_free(void *ctx)
{
    struct save *s = ctx;
    free(s->words);
    free(s);
}

static void save(struct hw_http_request *req, const struct hw_page_internals *m)
{
    struct hw_bytes body = hw_http_body(req);
    struct save *s = calloc(1, sizeof *s);
    char *words = s ? malloc(body.n + 1) : NULL;
    if (!words) {
        free(s);
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(HW_ENOMEM));
        return;
    }
    if (body.n)
        memcpy(words, body.p, body.n);
    *s = (struct save){.m = m, .words = words, .n_words = body.n};
    hw_http_events(req,
                   &(struct hw_http_producer){.produce = produce, .done = save_free, .ctx = s});
}

/* ---- the files ---- */

struct file {
    int fd;
};

static void send_file(struct hw_http_stream *s, void *ctx)
{
    const struct file *f = ctx;
    hw_autofree char *piece = malloc(PIECE);
    ssize_t n;
    while (piece && ((n = read(f->fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0 && hw_http_stream_write(s, piece, (size_t)n) < 0)
            return;
}

static void file_free(void *ctx)
{
    struct file *f = ctx;
    (void)close(f->fd); /* read only */
    free(f);
}

/* file/N/json, file/N/trace. */
static void file(struct hw_http_request *req, const struct hw_page_internals *m, const char *rest)
{
    char *end, name[300];
    unsigned long id = strtoul(rest, &end, 10);
    bool trace = strcmp(end, "/trace") == 0;
    hw_autofree char *path = NULL;
    if ((!trace && strcmp(end, "/json") != 0) || id == 0 || id > UINT32_MAX ||
        m->file(m->ctx, (unsigned)id, trace, &path) < 0) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no dump with that number was saved here\n");
        return;
    }
    struct file *f = calloc(1, sizeof *f);
    int fd = f ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0) {
        free(f);
        hw_http_reply_text(req, HTTP_NOT_FOUND, "the file is no longer there\n");
        return;
    }
    f->fd = fd;
    (void)snprintf(name, sizeof name, "attachment; filename=\"%.250s\"", hw_base_name(path));
    hw_http_add_header(req, "Content-Disposition", name);
    hw_http_stream(req, HTTP_OK, trace ? "application/octet-stream" : "application/gzip",
                   &(struct hw_http_producer){.produce = send_file, .done = file_free, .ctx = f});
}

/* ---- one heap, now ---- */

static void put_heap(struct hw_http_request *req, struct hw_page_trace *t, const char *heap)
{
    struct hw_infra_dumps dumps;
    struct hw_infra_request request = {.base = SIZE_MAX, .heap = heap, .upid.v = HW_ID_NONE};
    struct hw_error err = {0};
    int rc = hw_infra_dumps_init(&dumps, t);
    if (rc < 0) {
        (void)hw_fail(&err, rc, 0, "%s", hw_errc_text(rc)); /* reported below */
        hw_page_reply_error(req, &err, rc);
    } else if (t->processes.n && hw_infra_n_dumps(&dumps)) {
        request.upid.v = t->processes.v[0].upid.v;
        hw_page_infra_details(req, t, &dumps, &request);
    } else {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no sample of that process yet\n");
    }
    hw_infra_dumps_done(&dumps);
}

/* heap/PID/ALLOCATOR: its breakdown as in infra/details, with the same parameters. */
static void heap(struct hw_http_request *req, struct hw_pages *p, const char *rest)
{
    struct hw_page_live_view look = {.fd = -1};
    struct hw_page_trace *t = NULL;
    struct hw_error err = {0};
    char *end;
    long pid = strtol(rest, &end, 10);
    if (!p->o.recorder || pid <= 0 || pid > INT32_MAX || *end != '/' || !end[1]) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "heap/PID/ALLOCATOR, please: heap/4211/malloc\n");
        return;
    }
    int rc = p->o.recorder->look(p->o.recorder->ctx, (int32_t)pid, &look, &err);
    if (rc == HW_OK) {
        rc = hw_page_trace_read(p, look.fd, look.name, &t, &err);
        (void)close(look.fd); /* a memory file */
    }
    if (rc < 0) {
        reply_refused(req, &err, rc);
        return;
    }
    put_heap(req, t, end + 1);
    hw_page_infra_forget(p->infra, t);
    hw_page_trace_free(t);
}

/* ---- routes ---- */

void hw_page_internals(struct hw_http_request *req, void *ctx)
{
    static const char *const orders[] = {"start", "stop", "mode"};
    struct hw_pages *p = ctx;
    const struct hw_page_internals *m = p->o.internals;
    const char *verb = hw_http_rest(req);
    bool post = strcmp(hw_http_method(req), "POST") == 0;
    if (!m) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "this server does not track processes\n");
        return;
    }
    for (size_t i = 0; post && i < HW_ARRAY_LEN(orders); i++)
        if (strcmp(verb, orders[i]) == 0) {
            order(req, m, verb);
            return;
        }
    if (post && strcmp(verb, "save-dump") == 0)
        save(req, m);
    else if (!post && strcmp(verb, "processes") == 0)
        processes(req, m);
    else if (!post && strncmp(verb, "file/", 5) == 0)
        file(req, m, verb + 5);
    else if (!post && strncmp(verb, "heap/", 5) == 0)
        heap(req, p, verb + 5);
    else
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no such question or order\n");
}
