/* The table of routes, and requests that open or close traces. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/heap/pages_heap.h"
#include "server/api/pages_internal.h"
#include "server/api/pprof_endpoint.h"
#include "server/api/samples.h"

#include "base/banned.h"

enum { MAX_SQL = 4 << 20, MAX_WORDS = 64 << 10, MAX_KEPT = 256 << 10, HTTP_NO_ROOM = 507 };

static void trace_get(struct hw_http_request *req, void *ctx)
{
    static const struct {
        const char *name;
        void (*handle)(struct hw_http_request *req, struct hw_page_trace *t);
    } endpoints[] = {{"timeline", hw_page_timeline},
                     {"flame", hw_page_flame},
                     {"retained", hw_page_retained},
                     {"accounting", hw_page_accounting},
                     {"parts", hw_page_owners_over_time},
                     {"functions-over-time", hw_page_functions_over_time},
                     {"diff", hw_page_diff},
                     {"leaks", hw_page_leaks},
                     {"lifetimes", hw_page_lifetimes},
                     {"sizes", hw_page_sizes},
                     {"lines", hw_page_lines},
                     {"source", hw_page_source},
                     {"code", hw_page_code},
                     {"binaries", hw_page_binaries},
                     {"threads", hw_page_threads},
                     {"slices", hw_page_slices},
                     {"table/diff", hw_page_diff_table},
                     {"table/functions", hw_page_functions}};
    const char *slash = strchr(hw_http_rest(req), '/');
    if (slash && strncmp(slash, "/heap/", 6) == 0) {
        struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_rest(req));
        if (t)
            hw_page_heap(req, t, slash + 6);
        return;
    }
    if (slash && strncmp(slash, "/infra/", 7) == 0) {
        struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_rest(req));
        if (t)
            hw_page_infra(req, t, slash + 7);
        return;
    }
    for (size_t i = 0; slash && i < HW_ARRAY_LEN(endpoints); i++) {
        if (strcmp(slash + 1, endpoints[i].name) != 0)
            continue;
        struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_rest(req));
        if (t)
            endpoints[i].handle(req, t);
        return;
    }
    if (slash && strncmp(slash, "/table/", 7) == 0) {
        struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_rest(req));
        if (t)
            hw_page_table(req, t, slash + 7);
        return;
    }
    hw_http_reply_text(req, HTTP_NOT_FOUND, "no such question about a trace\n");
}

/* POST /api/v1/traces/ID/save */
static void trace_post(struct hw_http_request *req, void *ctx)
{
    const char *slash = strchr(hw_http_rest(req), '/');
    if (!slash || strcmp(slash, "/save") != 0) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no such order about a trace\n");
        return;
    }
    struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_rest(req));
    if (t)
        hw_page_save(req, t);
}

/* An upload goes to an unlinked file, piece by piece. */
struct connection {
    int fd; /* -1 = none yet */
};

void *hw_pages_connection_new(void *ctx)
{
    struct connection *c = calloc(1, sizeof *c);
    (void)ctx;
    if (c)
        c->fd = -1;
    return c;
}

void hw_pages_connection_free(void *ctx, void *data)
{
    struct connection *c = data;
    (void)ctx;
    if (c->fd >= 0)
        (void)close(c->fd);
    free(c);
}

static void drop_upload(void *ctx)
{
    struct connection *c = ctx;
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
}

/* The announced size is checked first: a client should not send gigabytes in vain. */
static int begin_upload(struct hw_http_request *req, struct connection *c, struct hw_error *err)
{
    const char *length = hw_http_header(req, "Content-Length");
    c->fd = hw_fd_temp("/tmp");
    if (c->fd < 0)
        return hw_fail_sys(err, "cannot keep the trace");
    if (hw_http_at_end(req, drop_upload, c) < 0) /* closes it unless it was opened by then */
        return HW_ENOMEM;
    return hw_fd_check_room(c->fd, length ? strtoull(length, NULL, 10) : 0, err);
}

static int upload_piece(struct hw_http_request *req, void *ctx, struct hw_bytes piece)
{
    struct connection *c = hw_http_connection_data(req);
    struct hw_error err = {0};
    (void)ctx;
    if (!c)
        return HW_ENOMEM;
    if (hw_http_query(req, "path") || hw_http_query(req, "again") || hw_http_query(req, "sample"))
        return HW_OK; /* the body is not used */
    int rc = c->fd < 0 ? begin_upload(req, c, &err) : hw_fd_check_room(c->fd, piece.n, &err);
    if (rc == HW_OK && hw_fd_write_all(c->fd, piece.p, piece.n) < 0)
        rc = hw_fail_sys(&err, "cannot keep the trace");
    if (rc == HW_OK)
        return HW_OK;
    drop_upload(c);
    hw_http_refuse(req, HTTP_NO_ROOM, err.code ? err.text : hw_errc_text(rc));
    return rc;
}

/* Directories from a request, one per line. */
static int check_symbol_dirs(const struct hw_pages *p, const char *dirs, struct hw_error *err)
{
    hw_autofree char *copy = strdup(dirs);
    char *save = NULL;
    if (!copy)
        return hw_fail(err, HW_ENOMEM, 0, "directories");
    for (char *d = strtok_r(copy, "\n", &save); d; d = strtok_r(NULL, "\n", &save))
        if (!hw_files_has_dir(&p->symbol_dirs, d))
            return hw_fail(err, HW_EINVAL, 0,
                           "'%s' is not a directory below those that the server was started with "
                           "(--symbols DIR, --traces DIR)",
                           d);
    return HW_OK;
}

/* POST /api/v1/traces?name=…: the body is the trace. path=…: a file of this machine (files.h);
 * again=ID&symbols=DIRS: an open trace; sample=NAME: an embedded one. */
static void open_trace(struct hw_http_request *req, void *ctx)
{
    struct connection *c = hw_http_connection_data(req);
    const char *path = hw_http_query(req, "path"), *name = hw_http_query(req, "name");
    const char *again = hw_http_query(req, "again"), *dirs = hw_http_query(req, "symbols");
    const char *sample = hw_http_query(req, "sample");
    struct hw_error err = {0};
    unsigned id = 0;
    int rc = HW_EINVAL;
    if (again) {
        const struct hw_page_trace *old = hw_page_trace_get(ctx, req, again);
        if (!old)
            return;
        rc = check_symbol_dirs(ctx, dirs ? dirs : "", &err);
        if (rc == HW_OK)
            rc = hw_pages_open_again(ctx, old, dirs ? dirs : "", &id, &err);
    } else if (sample) {
        const struct hw_sample *s = hw_sample_find(sample);
        rc = s ? hw_pages_open_sample(ctx, s, &id, &err)
               : hw_fail(&err, HW_EINVAL, 0, "there is no sample '%s'", sample);
    } else if (path && *path) {
        rc = hw_pages_open_named(ctx, path, &id, &err);
    } else if (c && c->fd >= 0) {
        int fd = c->fd;
        c->fd = -1;
        rc = hw_pages_open_fd(ctx, fd, name && *name ? name : "dropped file", &id, &err);
    } else {
        rc = hw_fail(&err, HW_EINVAL, 0, "send a trace, or name its path");
    }
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
        return;
    }
    hw_page_reply_id(req, id);
}

/* DELETE /api/v1/traces/ID */
static void close_trace(struct hw_http_request *req, void *ctx)
{
    if (hw_pages_close(ctx, hw_http_rest(req)))
        hw_http_reply(req, HTTP_NO_CONTENT, NULL, NULL, 0);
    else
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no trace with that number is open\n");
}

const struct hw_http_route hw_pages_routes[] = {
    {HW_HTTP_GET, "/", HW_HTTP_OPEN, 0, hw_page_asset, NULL},
    {HW_HTTP_GET, "/favicon.svg", HW_HTTP_OPEN, 0, hw_page_asset, NULL},
    {HW_HTTP_GET, "/assets/*", HW_HTTP_OPEN, 0, hw_page_asset, NULL},
    {HW_HTTP_GET, "/api/v1/status", 0, 0, hw_page_status, NULL},
    {HW_HTTP_GET, "/api/v1/events", 0, 0, hw_page_events, NULL},
    {HW_HTTP_POST, "/api/v1/traces", 0, HW_HTTP_MAX_UPLOAD, open_trace, upload_piece},
    {HW_HTTP_GET, "/api/v1/traces/*", 0, 0, trace_get, NULL},
    {HW_HTTP_POST, "/api/v1/traces/*", 0, 0, trace_post, NULL},
    {HW_HTTP_DELETE, "/api/v1/traces/*", 0, 0, close_trace, NULL},
    {HW_HTTP_GET, "/api/v1/fleet/*", 0, 0, hw_page_fleet, NULL},
    {HW_HTTP_POST, "/api/v1/fleet/profile", 0, 0, hw_page_fleet_profile, NULL},
    {HW_HTTP_GET, "/api/v1/kept", 0, 0, hw_page_list_user_store, NULL},
    {HW_HTTP_POST, "/api/v1/kept", 0, MAX_KEPT, hw_page_add_user_store, NULL},
    {HW_HTTP_POST, "/api/v1/query", 0, MAX_SQL, hw_page_query, NULL},
    {HW_HTTP_GET, "/api/v1/export/*", 0, 0, hw_page_export, NULL},
    {HW_HTTP_GET, "/api/v1/live", 0, 0, hw_page_live_list, NULL},
    {HW_HTTP_GET, "/api/v1/live/*", 0, 0, hw_page_live, NULL},
    {HW_HTTP_GET, "/api/v1/processes", 0, 0, hw_page_processes, NULL},
    {HW_HTTP_POST, "/api/v1/record/*", 0, MAX_WORDS, hw_page_record, NULL},
    {HW_HTTP_GET, "/api/v1/memory-internals/*", 0, 0, hw_page_internals, NULL},
    {HW_HTTP_POST, "/api/v1/memory-internals/*", 0, MAX_WORDS, hw_page_internals, NULL},
    {HW_HTTP_GET, "/debug/pprof/", HW_HTTP_OWN_USER, 0, hw_pprof_endpoint_list, NULL},
    {HW_HTTP_GET, "/debug/pprof/heap", HW_HTTP_OWN_USER, 0, hw_pprof_endpoint_heap, NULL},
    {HW_HTTP_GET, "/debug/pprof/allocs", HW_HTTP_OWN_USER, 0, hw_pprof_endpoint_allocs, NULL},
};
const size_t hw_n_pages_routes = HW_ARRAY_LEN(hw_pages_routes);

const char *const hw_pages_headers[] = {
    "Content-Security-Policy",
    "default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy",
    "no-referrer",
    "Cross-Origin-Resource-Policy",
    "same-origin",
};
const size_t hw_n_pages_headers = HW_ARRAY_LEN(hw_pages_headers) / 2;
