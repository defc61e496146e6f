/* Requests without a network: runs a route and stores the response in a buffer, for saved pages. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/http/http_internal.h"

#include "base/banned.h"

struct hw_http_local {
    const struct hw_http_pair *query;
    size_t n;
    unsigned status; /* 0 = no response yet */
    struct hw_strbuf *out;
};

const char *hw_http_local_query(const struct hw_http_local *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->query[i].name, name) == 0)
            return l->query[i].value;
    return NULL;
}

void hw_http_local_reply(struct hw_http_request *req, unsigned status, const void *p, size_t n)
{
    req->answered = true;
    req->local->status = status;
    hw_strbuf_add(req->local->out, p, n);
}

void hw_http_request_done(struct hw_http_request *req)
{
    /* Last first: later borrowings may be part of earlier ones. */
    for (size_t i = req->endings.n; i-- > 0;)
        req->endings.v[i].fn(req->endings.v[i].ctx);
    hw_vec_done(&req->endings);
    free(req->refusal);
    hw_strbuf_done(&req->body);
    hw_strbuf_done(&req->path_copy);
    for (size_t i = 0; i < req->headers.n; i++)
        free(req->headers.v[i]);
    hw_vec_done(&req->headers);
}

int hw_http_get(const struct hw_http_options *o, const char *path, const struct hw_http_pair *query,
                size_t n, unsigned *status, struct hw_strbuf *out)
{
    struct hw_http_local local = {.query = query, .n = n, .out = out};
    struct hw_http_request req = {.local = &local, .method = "GET", .path = path};
    bool other;
    req.route = hw_http_find_route(o, req.method, path, &other);
    if (!req.route)
        return HW_ENOTFOUND;
    req.route->handle(&req, o->ctx);
    hw_http_request_done(&req);
    *status = local.status ? local.status : MHD_HTTP_NOT_IMPLEMENTED;
    return out->failed ? HW_ENOMEM : HW_OK;
}
