/*
 * libcurl is not linked: with TLS it is 2 MB of libraries whose constructors every command, even
 * the recorder, would run. Its headers provide the constants; the functions are resolved at run
 * time, in whichever variant is installed.
 */
#include "fleet/store/http_client.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#ifdef HW_HAVE_CURL_HEADERS
/* The type checks are macros with the functions' names, which are pointers here. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#endif

#include "base/banned.h"

void hw_http_reply_done(struct hw_http_reply *r)
{
    hw_strbuf_done(&r->body);
    *r = (struct hw_http_reply){0};
}

void hw_http_add_escaped(struct hw_strbuf *out, struct hw_bytes text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = text.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain)
            hw_strbuf_addc(out, (char)c);
        else
            hw_strbuf_addf(out, "%%%02X", c);
    }
}

#ifdef HW_HAVE_CURL_HEADERS

static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};

static struct {
    void *library; /* never closed: TLS libraries cannot be unloaded safely */
    CURLcode (*global_init)(long flags);
    char *(*version)(void);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *);
    void (*easy_reset)(CURL *);
    CURLcode (*setopt)(CURL *, CURLoption, ...);
    CURLcode (*perform)(CURL *);
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free_all)(struct curl_slist *);
    const char *(*strerror_)(CURLcode);
    bool usable;
} curl;

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

/* POSIX allows converting an object pointer to a function pointer; ISO C does not. */
static bool bind_one(const char *name, void *slot)
{
    void *found = dlsym(curl.library, name);
    memcpy(slot, &found, sizeof found);
    return found != NULL;
}

static void load(void)
{
    for (size_t i = 0; !curl.library && i < HW_ARRAY_LEN(libraries); i++)
        curl.library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
    curl.usable = curl.library && bind_one("curl_global_init", &curl.global_init) &&
                  bind_one("curl_version", &curl.version) &&
                  bind_one("curl_easy_init", &curl.easy_init) &&
                  bind_one("curl_easy_cleanup", &curl.easy_cleanup) &&
                  bind_one("curl_easy_reset", &curl.easy_reset) &&
                  bind_one("curl_easy_setopt", &curl.setopt) &&
                  bind_one("curl_easy_perform", &curl.perform) &&
                  bind_one("curl_easy_getinfo", &curl.getinfo) &&
                  bind_one("curl_slist_append", &curl.slist_append) &&
                  bind_one("curl_slist_free_all", &curl.slist_free_all) &&
                  bind_one("curl_easy_strerror", &curl.strerror_) &&
                  curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

bool hw_http_installed(const char **version)
{
    (void)pthread_once(&curl_once, load); /* cannot fail */
    if (version)
        *version = curl.usable ? curl.version() : NULL;
    return curl.usable;
}

struct hw_http_client {
    CURL *easy;
    char text[CURL_ERROR_SIZE]; /* of the last failure */
    uint64_t deadline_ns;
};

int hw_http_new(struct hw_http_client **out, struct hw_error *err)
{
    if (!hw_http_installed(NULL))
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "libcurl is not installed (Debian's package is libcurl4)");
    struct hw_http_client *h = calloc(1, sizeof *h);
    if (h)
        h->easy = curl.easy_init();
    if (!h || !h->easy) {
        free(h);
        return hw_fail(err, HW_ENOMEM, 0, "HTTP client");
    }
    *out = h;
    return HW_OK;
}

void hw_http_free(struct hw_http_client *h)
{
    if (!h)
        return;
    curl.easy_cleanup(h->easy);
    free(h);
}

void hw_http_until(struct hw_http_client *h, uint64_t deadline_ns)
{
    h->deadline_ns = deadline_ns;
}

/* libcurl's 0 is no limit at all. */
static long time_left_ms(const struct hw_http_client *h, const struct hw_http_request *r)
{
    uint64_t ms = r->timeout_ms ? r->timeout_ms : HW_HTTP_TIMEOUT_MS, now = hw_now_monotonic_ns();
    if (!h->deadline_ns)
        return (long)ms;
    uint64_t left = h->deadline_ns > now ? (h->deadline_ns - now) / 1000000 : 0;
    return left < 1 ? 1 : (long)(left < ms ? left : ms);
}

struct transfer {
    const struct hw_http_request *request;
    struct hw_http_client *http;
    struct hw_http_reply *reply;
    size_t n, max;
    int rc; /* why we aborted it */
};

static size_t take_piece(char *p, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    n *= size;
    if (n > t->max - t->n) {
        t->rc = HW_ELIMIT;
        return 0;
    }
    t->n += n;
    if (t->request->piece) {
        long status = 0;
        (void)curl.getinfo(t->http->easy, CURLINFO_RESPONSE_CODE, &status); /* 0 if unknown */
        if (status >= 200 && status < 300) {
            t->rc = t->request->piece(t->request->ctx, hw_bytes_of(p, n));
            return t->rc < 0 ? 0 : n;
        }
    }
    hw_strbuf_add(&t->reply->body, p, n);
    if (t->reply->body.failed) {
        t->rc = HW_ENOMEM;
        return 0;
    }
    return n;
}

static int check_stop(void *ctx, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                      curl_off_t up)
{
    struct transfer *t = ctx;
    (void)down_all, (void)down, (void)up_all, (void)up; /* the progress is not shown */
    if (!t->request->stop || !*t->request->stop)
        return 0;
    t->rc = HW_EBUSY;
    return 1;
}

static int code_of(CURLcode c)
{
    switch ((int)c) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return HW_EINVAL;
    case CURLE_OPERATION_TIMEDOUT:
        return HW_ETIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return HW_EPERM;
    default:
        return HW_EGONE;
    }
}

static struct curl_slist *make_headers(const struct hw_http_request *r, bool *failed)
{
    struct curl_slist *list = NULL;
    /* No "Expect: 100-continue": it costs a second with each server that does not support it. */
    static const char *const ours[] = {"Expect:"};
    for (size_t i = 0; i < r->n_headers + HW_ARRAY_LEN(ours); i++) {
        const char *line = i < r->n_headers ? r->headers[i] : ours[i - r->n_headers];
        struct curl_slist *more = curl.slist_append(list, line);
        if (!more) {
            *failed = true;
            break;
        }
        list = more;
    }
    return list;
}

/* A custom certificate authority, from the variables that the curl command reads; the library reads
 * neither. */
static const char *ca_file(void)
{
    const char *name = secure_getenv("CURL_CA_BUNDLE");
    if (!name || !name[0])
        name = secure_getenv("SSL_CERT_FILE");
    return name && name[0] ? name : NULL;
}

static CURLcode set_up(struct hw_http_client *h, struct transfer *t, struct curl_slist *headers)
{
    const struct hw_http_request *r = t->request;
    CURL *e = h->easy;
    CURLcode c = CURLE_OK;
#define SET(option, value) (c = c ? c : curl.setopt(e, (option), (value)))
    SET(CURLOPT_URL, r->url);
    SET(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_USERAGENT, "heapwise/" HW_VERSION);
    SET(CURLOPT_ERRORBUFFER, h->text);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(r->connect_ms ? r->connect_ms : HW_HTTP_CONNECT_MS));
    SET(CURLOPT_TIMEOUT_MS, time_left_ms(h, r));
    SET(CURLOPT_WRITEFUNCTION, take_piece);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_XFERINFOFUNCTION, check_stop);
    SET(CURLOPT_XFERINFODATA, t);
    SET(CURLOPT_NOPROGRESS, 0L);
    if (ca_file())
        SET(CURLOPT_CAINFO, ca_file());
    if (r->once)
        SET(CURLOPT_FRESH_CONNECT, 1L);
    if (r->post) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDS, r->body.n ? (const void *)r->body.p : "");
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
    }
#undef SET
    return c;
}

int hw_http_do(struct hw_http_client *h, const struct hw_http_request *r, struct hw_http_reply *out,
               struct hw_error *err)
{
    struct transfer t = {.request = r,
                         .http = h,
                         .reply = out,
                         .max = r->max_reply ? r->max_reply : HW_HTTP_MAX_REPLY};
    bool failed = false;
    hw_strbuf_clear(&out->body);
    out->status = 0;
    out->retry_after_s = 0;
    h->text[0] = '\0';
    curl.easy_reset(h->easy);
    struct curl_slist *headers = make_headers(r, &failed);
    t.rc = failed ? HW_ENOMEM : HW_OK;
    CURLcode c = failed ? CURLE_OUT_OF_MEMORY : set_up(h, &t, headers);
    if (c == CURLE_OK)
        c = curl.perform(h->easy);
    curl_off_t after = 0;
    if (c == CURLE_OK) {
        (void)curl.getinfo(h->easy, CURLINFO_RESPONSE_CODE, &out->status); /* every reply has one */
        if (curl.getinfo(h->easy, CURLINFO_RETRY_AFTER, &after) == CURLE_OK)
            out->retry_after_s = after;
    }
    curl.slist_free_all(headers);
    if (c == CURLE_OK)
        return HW_OK;
    return hw_fail(err, t.rc < 0 ? t.rc : code_of(c), 0, "%s",
                   t.rc == HW_ELIMIT   ? "the answer is too long"
                   : t.rc == HW_EBUSY  ? "stopped"
                   : t.rc == HW_ENOMEM ? hw_errc_text(HW_ENOMEM)
                   : c == CURLE_OUT_OF_MEMORY
                       ? "libcurl had no memory, or the answer's head is too long for it"
                   : h->text[0] ? h->text
                                : curl.strerror_(c));
}

#else /* built without libcurl's headers */

bool hw_http_installed(const char **version)
{
    if (version)
        *version = NULL;
    return false;
}

int hw_http_new(struct hw_http_client **out, struct hw_error *err)
{
    (void)out; /* written on success only */
    return hw_fail(err, HW_EUNSUPPORTED, 0, "built without libcurl's headers");
}

void hw_http_until(struct hw_http_client *h, uint64_t deadline_ns)
{
    (void)h, (void)deadline_ns; /* there is none */
}

void hw_http_free(struct hw_http_client *h)
{
    (void)h; /* always NULL */
}

int hw_http_do(struct hw_http_client *h, const struct hw_http_request *r, struct hw_http_reply *out,
               struct hw_error *err)
{
    (void)h, (void)r, (void)out; /* there is no client */
    return hw_fail(err, HW_EUNSUPPORTED, 0, "built without libcurl's headers");
}

#endif
