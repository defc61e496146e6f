/*
 * Who may send requests. Another site's page can make a browser send us requests (shown by Origin),
 * and another site's name can be pointed at our address (shown by Host); neither can forge the
 * header.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/text_parts.h"
#include "server/http/http_internal.h"

#include "base/banned.h"

enum { MAX_HOST = 256 };

/* Empty, or a port. */
static bool is_port(const char *text)
{
    return *text == 0 || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == 0);
}

/* The host without its port and brackets. */
static bool host_name(const char *header, char *out)
{
    bool brackets = header[0] == '[';
    const char *begin = header + brackets;
    size_t n = strcspn(begin, brackets ? "]" : ":");
    if (brackets && begin[n] != ']')
        return false;
    if (n == 0 || n >= MAX_HOST || !is_port(begin + n + brackets))
        return false;
    memcpy(out, begin, n);
    out[n] = 0;
    return true;
}

/* An address cannot be rebound; names must be known as ours. */
static bool host_is_ours(const struct hw_http_options *o, const char *header)
{
    char name[MAX_HOST];
    unsigned char address[sizeof(struct in6_addr)];
    if (!host_name(header, name))
        return false;
    if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1 ||
        inet_pton(AF_INET6, name, address) == 1)
        return true;
    if (o->address && strcasecmp(name, o->address) == 0)
        return true;
    for (size_t i = 0; i < o->n_hosts; i++)
        if (strcasecmp(name, o->hosts[i]) == 0)
            return true;
    return false;
}

static bool is_own_origin(const char *origin, const char *host, const char *scheme)
{
    size_t n = strlen(scheme);
    return host && strncmp(origin, scheme, n) == 0 && strcasecmp(origin + n, host) == 0;
}

const char *hw_http_allowed_origin(const struct hw_http_request *req)
{
    const struct hw_http_options *o = &req->server->o;
    const char *origin = hw_http_header(req, "Origin");
    if (!origin)
        return NULL;
    for (size_t i = 0; i < o->n_origins; i++)
        if (strcmp(origin, o->origins[i]) == 0)
            return origin;
    const char *scheme = o->cert ? "https://" : "http://";
    return is_own_origin(origin, hw_http_header(req, "Host"), scheme) ? origin : NULL;
}

/* Compares in constant time. */
static bool same_secret(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned char difference = n != m;
    for (size_t i = 0; i < n; i++)
        difference |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return difference == 0 && m > 0;
}

/* Authorization: Bearer T, or ?token=T where headers cannot be set (events, WebSockets, links). */
static bool has_token(const struct hw_http_request *req)
{
    static const char bearer[] = "Bearer ";
    const char *given = hw_http_header(req, "Authorization");
    if (given && hw_starts_with(given, bearer))
        given += sizeof bearer - 1;
    else
        given = hw_http_query(req, "token");
    return given && same_secret(given, req->server->o.token);
}

/*
 * Our own user needs no token for some routes; another site's page cannot get here with its Origin,
 * nor read a response without one.
 */
static bool needs_no_token(const struct hw_http_request *req)
{
    const union MHD_ConnectionInfo *info =
        req->route->flags & HW_HTTP_OWN_USER
            ? MHD_get_connection_info(req->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
            : NULL;
    return (req->route->flags & HW_HTTP_OPEN) || (info && hw_http_same_user(info->connect_fd));
}

/* Browsers send the kind of site a request is from, and pages cannot change it. An image, link or
 * script element of another site has no Origin, but is detected here. */
static bool is_for_another_site(const struct hw_http_request *req)
{
    const char *site = hw_http_header(req, "Sec-Fetch-Site");
    return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0 &&
           !hw_http_allowed_origin(req);
}

/* Older browsers do not send it, but their requests do not look like a program's. */
static bool is_browsers_get(const struct hw_http_request *req)
{
    static const char *const theirs[] = {"Origin",          "Referer",        "Cookie",
                                         "Accept-Language", "Sec-Fetch-Site", "Sec-Fetch-Mode",
                                         "Sec-Fetch-Dest"};
    const char *agent = hw_http_header(req, "User-Agent");
    if (strcmp(req->method, "POST") == 0)
        return false;
    for (size_t i = 0; i < HW_ARRAY_LEN(theirs); i++)
        if (hw_http_header(req, theirs[i]))
            return true;
    return agent && strncmp(agent, "Mozilla/", 8) == 0;
}

/* Requests that a form or script of any site may send without a preflight. */
static bool is_form(const struct hw_http_request *req)
{
    static const char *const types[] = {"text/plain", "multipart/form-data",
                                        "application/x-www-form-urlencoded"};
    const char *type = hw_http_header(req, "Content-Type");
    for (size_t i = 0; type && i < HW_ARRAY_LEN(types); i++)
        if (strncasecmp(type, types[i], strlen(types[i])) == 0)
            return true;
    return false;
}

/* For a request with valid Host and Origin: could another site's page have made it? */
static unsigned check_site(const struct hw_http_request *req, const char **text)
{
    if (req->route->flags & HW_HTTP_OPEN)
        return 0;
    if (is_for_another_site(req)) {
        *text = "another site asked the browser for this\n";
        return MHD_HTTP_FORBIDDEN;
    }
    if (req->route->flags & HW_HTTP_CHANGES && is_browsers_get(req)) {
        *text = "a browser has to ask with POST\n";
        return MHD_HTTP_FORBIDDEN;
    }
    if (!req->server->o.token && strcmp(req->method, "POST") == 0 && is_form(req)) {
        *text = "a form or plain text is not accepted; send it as application/x-protobuf\n";
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    }
    return 0;
}

/* ---- ambiguous requests ---- */

struct framing {
    unsigned lengths, codings, hosts;
    bool is_chunked, is_malformed;
};

static bool is_token(const char *p, size_t n)
{
    static const char letters[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz";
    return n > 0 && !memchr(p, 0, n) && strspn(p, letters) == n;
}

static enum MHD_Result check_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                    size_t name_bytes, const char *value, size_t value_bytes)
{
    struct framing *f = ctx;
    (void)kind;
    f->is_malformed |= !is_token(name, name_bytes) || (value && memchr(value, 0, value_bytes));
    if (f->is_malformed)
        return MHD_NO;
    if (strcasecmp(name, "Content-Length") == 0) {
        f->lengths++;
        f->is_malformed |= !value || value[strspn(value, "0123456789")] != 0;
    }
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->codings++;
        f->is_chunked = value && strcasecmp(value, "chunked") == 0;
    }
    f->hosts += strcasecmp(name, "Host") == 0;
    return MHD_YES;
}

/*
 * Request smuggling: could a proxy in front of us see a different end of this request, and so a
 * different start of the next, perhaps another client's; or a different Host?
 */
static bool is_ambiguous(const struct hw_http_request *req)
{
    struct framing f = {0};
    (void)MHD_get_connection_values_n(req->connection, MHD_HEADER_KIND, check_header, &f);
    return f.is_malformed || f.lengths + f.codings > 1 || f.hosts > 1 ||
           (f.codings && !f.is_chunked);
}

unsigned hw_http_check(const struct hw_http_request *req, const char **text)
{
    const struct hw_http_options *o = &req->server->o;
    if (is_ambiguous(req)) {
        *text = "the headers are ambiguous\n";
        return MHD_HTTP_BAD_REQUEST;
    }
    const char *host = hw_http_header(req, "Host");
    bool local = o->listen_fd >= 0; /* a socket in the file system: no name, no rebinding */
    if (!local && (!host || !host_is_ours(o, host))) {
        *text = "the Host header names another server; --host NAME allows that name\n";
        return MHD_HTTP_FORBIDDEN;
    }
    if (hw_http_header(req, "Origin") && !hw_http_allowed_origin(req)) {
        *text = "this origin is not allowed\n";
        return MHD_HTTP_FORBIDDEN;
    }
    bool preflight = strcmp(req->method, "OPTIONS") == 0;
    unsigned refused = !preflight && req->route ? check_site(req, text) : 0;
    if (refused)
        return refused;
    if (o->token && !preflight && req->route && !has_token(req) && !needs_no_token(req)) {
        *text = "the token is missing or wrong\n";
        return MHD_HTTP_FORBIDDEN;
    }
    return 0;
}
