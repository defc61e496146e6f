/*
 * Recording from the page: lists processes, previews a recording, starts and stops it. The recorder
 * is in the options (pages.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

enum { HTTP_FORBIDDEN = 403, HTTP_CONFLICT = 409 };

static const struct hw_page_recorder *recorder_of(struct hw_http_request *req, struct hw_pages *p)
{
    if (!p->o.recorder)
        hw_http_reply_text(req, HTTP_NOT_FOUND, "this server does not record\n");
    return p->o.recorder;
}

static void reply_refused(struct hw_http_request *req, const struct hw_error *err, int rc)
{
    unsigned status = rc == HW_EPERM ? HTTP_FORBIDDEN : rc == HW_EBUSY ? HTTP_CONFLICT : 0;
    if (status)
        hw_http_reply_text(req, status, err->code ? err->text : hw_errc_text(rc));
    else
        hw_page_reply_error(req, err, rc);
}

void hw_page_processes(struct hw_http_request *req, void *ctx)
{
    const struct hw_page_recorder *r = recorder_of(req, ctx);
    struct hw_error err = {0};
    struct hw_json j;
    if (!r)
        return;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = r->processes(r->ctx, &j, &err);
    if (rc == HW_OK) {
        hw_page_reply_json(req, &j);
        return;
    }
    hw_json_done(&j);
    reply_refused(req, &err, rc);
}

static void plan(struct hw_http_request *req, const struct hw_page_recorder *r)
{
    struct hw_error err = {0};
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = r->plan(r->ctx, hw_http_body(req), &j, &err);
    if (rc == HW_OK) {
        hw_page_reply_json(req, &j);
        return;
    }
    hw_json_done(&j);
    reply_refused(req, &err, rc);
}

static void start(struct hw_http_request *req, const struct hw_page_recorder *r)
{
    struct hw_error err = {0};
    unsigned id = 0;
    int rc = r->start(r->ctx, hw_http_body(req), &id, &err);
    if (rc < 0)
        reply_refused(req, &err, rc);
    else
        hw_page_reply_id(req, id);
}

/* The id of the recording; 0 = invalid. */
static unsigned id_of(struct hw_http_request *req)
{
    const char *text = hw_http_query(req, "id");
    unsigned long id = text ? strtoul(text, NULL, 10) : 0;
    return id <= UINT32_MAX ? (unsigned)id : 0;
}

static void reply_done(struct hw_http_request *req, unsigned id, const struct hw_error *err, int rc)
{
    if (rc < 0)
        reply_refused(req, err, rc);
    else
        hw_page_reply_id(req, id);
}

static void act(struct hw_http_request *req, const struct hw_page_recorder *r, enum hw_page_act a)
{
    struct hw_error err = {0};
    unsigned id = id_of(req);
    reply_done(req, id, &err, id ? r->act(r->ctx, id, a, &err) : HW_ENOTFOUND);
}

static void mark(struct hw_http_request *req, const struct hw_page_recorder *r)
{
    struct hw_error err = {0};
    unsigned id = id_of(req);
    reply_done(req, id, &err, id ? r->mark(r->ctx, id, hw_http_body(req), &err) : HW_ENOTFOUND);
}

/* POST /api/v1/record/VERB: plan and start take words, the others ?id= of a recording; mark also
 * takes the name for the moment. */
void hw_page_record(struct hw_http_request *req, void *ctx)
{
    static const struct {
        const char *verb;
        enum hw_page_act act;
    } acts[] = {{"stop", HW_PAGE_STOP},
                {"dump", HW_PAGE_DUMP},
                {"discard", HW_PAGE_DISCARD},
                {"end", HW_PAGE_END_PROGRAM}};
    const char *verb = hw_http_rest(req);
    const struct hw_page_recorder *r = recorder_of(req, ctx);
    if (!r)
        return;
    if (strcmp(verb, "plan") == 0) {
        plan(req, r);
        return;
    }
    if (strcmp(verb, "start") == 0) {
        start(req, r);
        return;
    }
    if (strcmp(verb, "mark") == 0) {
        mark(req, r);
        return;
    }
    for (size_t i = 0; i < HW_ARRAY_LEN(acts); i++)
        if (strcmp(verb, acts[i].verb) == 0) {
            act(req, r, acts[i].act);
            return;
        }
    hw_http_reply_text(req, HTTP_NOT_FOUND, "no such order\n");
}

void hw_page_put_recordings(struct hw_json *j, struct hw_pages *p)
{
    if (p->o.recorder) {
        p->o.recorder->state(p->o.recorder->ctx, j);
        return;
    }
    hw_json_begin_array(j);
    hw_json_end_array(j);
}
