/* Which function answers what, and the traces that a request brings or closes. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "server/pages_heap.h"
#include "server/pages_internal.h"
#include "server/pull.h"

#include "base/banned.h"

#define MAX_UPLOAD ((uint64_t)64 << 30)
enum { MAX_SQL = 4 << 20, MAX_WORDS = 64 << 10, MAX_KEPT = 256 << 10 };

static void trace_question(struct hw_http_request *req, void *ctx)
{
    static const struct {
        const char *name;
        void (*answer)(struct hw_http_request *req, struct hw_page_trace *t);
    } questions[] = {{"timeline", hw_page_timeline},
                     {"flame", hw_page_flame},
                     {"retained", hw_page_retained},
                     {"accounting", hw_page_accounting},
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
    for (size_t i = 0; slash && i < HW_ARRAY_LEN(questions); i++) {
        if (strcmp(slash + 1, questions[i].name) != 0)
            continue;
        struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_rest(req));
        if (t)
            questions[i].answer(req, t);
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
static void trace_order(struct hw_http_request *req, void *ctx)
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

static void forget_upload(struct connection *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
}

static int upload_piece(struct hw_http_request *req, void *ctx, struct hw_bytes piece)
{
    struct connection *c = hw_http_connection_data(req);
    (void)ctx;
    if (!c)
        return HW_ENOMEM;
    if (c->fd < 0)
        c->fd = hw_fd_temp("/tmp");
    int rc = c->fd < 0 ? HW_ESYS : hw_fd_write_all(c->fd, piece.p, piece.n);
    if (rc < 0)
        forget_upload(c);
    return rc;
}

/* What a request names: opening a pipe waits for its writer, and a device may never end. */
static int check_regular(const char *path, struct hw_error *err)
{
    struct stat st;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || S_ISREG(st.st_mode))
        return HW_OK; /* what cannot be opened stays in the list with its reason */
    return hw_fail(err, HW_EINVAL, 0,
                   "'%s' is not a regular file; send a pipe's bytes as the request's body, or name "
                   "it on the command line",
                   path);
}

/* POST /api/v1/traces?name=…: the body is the trace. With path=… it is a file of this machine, with
 * again=ID&symbols=DIRS one that is open. */
static void open_trace(struct hw_http_request *req, void *ctx)
{
    struct connection *c = hw_http_connection_data(req);
    const char *path = hw_http_query(req, "path"), *name = hw_http_query(req, "name");
    const char *again = hw_http_query(req, "again"), *dirs = hw_http_query(req, "symbols");
    struct hw_error err = {0};
    unsigned id = 0;
    int rc = HW_EINVAL;
    if (again) {
        const struct hw_page_trace *old = hw_page_trace_get(ctx, req, again);
        if (!old)
            return;
        rc = hw_pages_open_again(ctx, old, dirs ? dirs : "", &id, &err);
    } else if (path && *path) {
        if (c)
            forget_upload(c); /* else the connection's next one would go on behind it */
        rc = check_regular(path, &err);
        if (rc == HW_OK)
            rc = hw_pages_open(ctx, path, &id, &err);
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
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_uint(&j, "id", id);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

/* DELETE /api/v1/traces/ID */
static void close_trace(struct hw_http_request *req, void *ctx)
{
    if (hw_pages_close(ctx, hw_http_rest(req)))
        hw_http_reply(req, HTTP_NO_CONTENT, NULL, NULL, 0);
    else
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no trace of that number is open\n");
}

const struct hw_http_route hw_pages_routes[] = {
    {HW_HTTP_GET, "/", HW_HTTP_OPEN, 0, hw_page_asset, NULL},
    {HW_HTTP_GET, "/favicon.svg", HW_HTTP_OPEN, 0, hw_page_asset, NULL},
    {HW_HTTP_GET, "/assets/*", HW_HTTP_OPEN, 0, hw_page_asset, NULL},
    {HW_HTTP_GET, "/api/v1/status", 0, 0, hw_page_status, NULL},
    {HW_HTTP_GET, "/api/v1/events", 0, 0, hw_page_events, NULL},
    {HW_HTTP_POST, "/api/v1/traces", 0, MAX_UPLOAD, open_trace, upload_piece},
    {HW_HTTP_GET, "/api/v1/traces/*", 0, 0, trace_question, NULL},
    {HW_HTTP_POST, "/api/v1/traces/*", 0, 0, trace_order, NULL},
    {HW_HTTP_DELETE, "/api/v1/traces/*", 0, 0, close_trace, NULL},
    {HW_HTTP_GET, "/api/v1/fleet/*", 0, 0, hw_page_fleet, NULL},
    {HW_HTTP_POST, "/api/v1/fleet/profile", 0, 0, hw_page_fleet_profile, NULL},
    {HW_HTTP_GET, "/api/v1/kept", 0, 0, hw_page_kept, NULL},
    {HW_HTTP_POST, "/api/v1/kept", 0, MAX_KEPT, hw_page_keep, NULL},
    {HW_HTTP_POST, "/api/v1/query", 0, MAX_SQL, hw_page_query, NULL},
    {HW_HTTP_GET, "/api/v1/export/*", 0, 0, hw_page_export, NULL},
    {HW_HTTP_GET, "/api/v1/live", 0, 0, hw_page_live_list, NULL},
    {HW_HTTP_GET, "/api/v1/live/*", 0, 0, hw_page_live, NULL},
    {HW_HTTP_GET, "/api/v1/processes", 0, 0, hw_page_processes, NULL},
    {HW_HTTP_POST, "/api/v1/record/*", 0, MAX_WORDS, hw_page_record, NULL},
    {HW_HTTP_GET, "/api/v1/memory-internals/*", 0, 0, hw_page_internals, NULL},
    {HW_HTTP_POST, "/api/v1/memory-internals/*", 0, MAX_WORDS, hw_page_internals, NULL},
    {HW_HTTP_GET, "/debug/pprof/", HW_HTTP_OWN_USER, 0, hw_pull_list, NULL},
    {HW_HTTP_GET, "/debug/pprof/heap", HW_HTTP_OWN_USER, 0, hw_pull_heap, NULL},
    {HW_HTTP_GET, "/debug/pprof/allocs", HW_HTTP_OWN_USER, 0, hw_pull_allocs, NULL},
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
