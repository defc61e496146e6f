/*
 * The page's files, compressed by gzip at build time. Their names contain a hash of their contents,
 * so browsers may cache them forever; the page itself is requested each time.
 */
#include <string.h>

#include "base/error.h"
#include "codec/gzip.h"
#include "server/api/pages_assets.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

enum { MAX_ASSET = 16 << 20, HTTP_OWN_ERROR = 500 };

static const struct hw_asset *find(const char *path)
{
    for (size_t i = 0; i < hw_n_assets; i++)
        if (strcmp(hw_assets[i].path, path) == 0)
            return &hw_assets[i];
    return NULL;
}

void hw_page_asset(struct hw_http_request *req, void *ctx)
{
    const char *path = hw_http_path(req), *coding = hw_http_header(req, "Accept-Encoding");
    const struct hw_asset *a = find(path);
    (void)ctx;
    if (!a) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no such file\n");
        return;
    }
    bool hashed = strncmp(path, "/assets/", 8) == 0;
    hw_http_add_header(req, "Cache-Control",
                       hashed ? "public, max-age=31536000, immutable" : "no-cache");
    hw_http_add_header(req, "Vary", "Accept-Encoding");
    if (coding && strstr(coding, "gzip")) {
        hw_http_add_header(req, "Content-Encoding", "gzip");
        hw_http_reply_static(req, HTTP_OK, a->type, a->p, a->n);
        return;
    }
    struct hw_strbuf plain = {0};
    if (hw_inflate((struct hw_bytes){a->p, a->n}, MAX_ASSET, &plain, NULL) < 0)
        hw_http_reply_text(req, HTTP_OWN_ERROR, "cannot unpack\n");
    else
        hw_http_reply(req, HTTP_OK, a->type, plain.p, plain.n);
    hw_strbuf_done(&plain);
}
