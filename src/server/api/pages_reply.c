/* Responses of the pages, and the texts in them. */
#include <stdio.h>

#include "base/error.h"
#include "server/api/pages_internal.h"
#include "server/pages.h"

#include "base/banned.h"

const char *hw_page_string(const struct hw_page_trace *t, hw_str_id id)
{
    return hw_strings_cstr(hw_callsites_strings(t->profile->callsites), id);
}

static const char *shown_name(void *ctx, hw_str_id raw)
{
    struct hw_page_trace *t = ctx;
    pthread_mutex_lock(&t->names_lock);
    const char *name = hw_demangle(t->demangler, raw); /* lives as long as the demangler */
    pthread_mutex_unlock(&t->names_lock);
    return name;
}

struct hw_namer hw_page_namer(struct hw_page_trace *t)
{
    return (struct hw_namer){shown_name, t};
}

const struct hw_process_view *hw_page_view(const struct hw_page_trace *t, hw_upid upid)
{
    const struct hw_process_rows rows = hw_by_process_of(&t->views_of, upid);
    return rows.n ? &t->processes.v[rows.v[0]] : NULL;
}

void hw_page_reply_json(struct hw_http_request *req, struct hw_json *j)
{
    int rc = hw_json_finish(j);
    if (rc < 0)
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(rc));
    else
        hw_http_reply(req, HTTP_OK, "application/json", j->buf.p, j->buf.n);
    hw_json_done(j);
}

void hw_page_reply_id(struct hw_http_request *req, unsigned id)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_uint(&j, "id", id);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

void hw_page_reply_error(struct hw_http_request *req, const struct hw_error *err, int rc)
{
    bool theirs = rc == HW_EINVAL || rc == HW_ENOTFOUND || rc == HW_ELIMIT;
    hw_http_reply_text(req, theirs ? HTTP_BAD : HTTP_ERROR,
                       err->code ? err->text : hw_errc_text(rc));
}
