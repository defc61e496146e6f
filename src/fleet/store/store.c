#include "fleet/store/store.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text/hex.h"
#include "codec/base64.h"
#include "fleet/store/table_schema.h"

#include "base/banned.h"

static const struct {
    const char *scheme;
    unsigned port;
} forms[HW_STORE_FORM_COUNT] = {
#define X(ID, scheme, port, summary) {scheme, port},
#include "fleet/store/stores.def"
#undef X
};

int hw_store_check_queries(const struct hw_store *s, struct hw_error *err)
{
    if (s->form == HW_STORE_CLICKHOUSE)
        return HW_OK;
    return hw_fail(err, HW_EINVAL, 0,
                   "'%s' can be pushed to, not asked; its own pages show what it has. "
                   "clickhouse:// can be asked",
                   s->shown);
}

const char *hw_store_scheme(enum hw_store_form f)
{
    return forms[f].scheme;
}

/* Decodes %XX; rejects control bytes, as the text is used in header lines or SQL. */
static char *unescape(struct hw_bytes text)
{
    struct hw_strbuf b = {0};
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = text.p[i];
        bool escaped = c == '%' && text.n - i > 2;
        int high = escaped ? hw_hex_digit((char)text.p[i + 1]) : -1;
        int low = escaped ? hw_hex_digit((char)text.p[i + 2]) : -1;
        if (high >= 0 && low >= 0) {
            c = (unsigned char)(high * 16 + low);
            i += 2;
        }
        if (c >= 0x20 && c != 0x7f)
            hw_strbuf_addc(&b, (char)c);
    }
    return hw_strbuf_take(&b);
}

static char *copy(struct hw_bytes text)
{
    return text.n ? strndup((const char *)text.p, text.n) : strdup("");
}

/* Takes the bytes before the first character of `any`, and that character, off *text; everything if
 * there is none. *found: the character, or 0. */
static struct hw_bytes take_until(struct hw_bytes *text, const char *any, char *found)
{
    size_t n = 0;
    while (n < text->n && !strchr(any, text->p[n]))
        n++;
    struct hw_bytes head = {text->p, n};
    *found = n < text->n ? (char)text->p[n] : '\0';
    size_t skip = n + (*found != '\0');
    *text = (struct hw_bytes){text->p + skip, text->n - skip};
    return head;
}

static int find_form(struct hw_store *s, struct hw_bytes scheme, bool *tls, struct hw_error *err)
{
    const uint8_t *plus = memchr(scheme.p, '+', scheme.n);
    struct hw_bytes form = {scheme.p, plus ? (size_t)(plus - scheme.p) : scheme.n};
    struct hw_bytes over = hw_bytes_str("http");
    if (plus)
        over = (struct hw_bytes){plus + 1, scheme.n - form.n - 1};
    *tls = hw_bytes_equal(over, hw_bytes_str("https"));
    for (unsigned f = 0; f < HW_STORE_FORM_COUNT; f++) {
        if (!hw_bytes_equal(form, hw_bytes_str(forms[f].scheme)))
            continue;
        s->form = (enum hw_store_form)f;
        if (*tls || hw_bytes_equal(over, hw_bytes_str("http")))
            return HW_OK;
    }
    struct hw_strbuf known = {0};
    for (unsigned f = 0; f < HW_STORE_FORM_COUNT; f++)
        hw_strbuf_addf(&known, "%s%s", f ? ", " : "", forms[f].scheme);
    int rc = hw_fail(err, HW_EINVAL, 0,
                     "unknown kind of store '%.*s'; there are %s, each also with +http or +https",
                     (int)(scheme.n < 32 ? scheme.n : 32), scheme.p, known.p ? known.p : "");
    hw_strbuf_done(&known);
    return rc;
}

/* "host", "host:1234", "[::1]:1234" */
static bool is_valid_host(struct hw_bytes host, bool *has_port)
{
    size_t i = 0;
    *has_port = false;
    if (host.n && host.p[0] == '[') {
        while (i < host.n && host.p[i] != ']')
            i++;
        if (i == host.n)
            return false;
        i++;
    } else {
        while (i < host.n && (isalnum(host.p[i]) || strchr("-._", host.p[i])))
            i++;
    }
    if (i == 0)
        return false;
    if (i == host.n)
        return true;
    *has_port = true;
    if (host.p[i] != ':' || host.n - i < 2 || host.n - i > 6)
        return false;
    while (++i < host.n)
        if (!isdigit(host.p[i]))
            return false;
    return true;
}

static char *from_environment(const char *name)
{
    const char *v = getenv(name);
    return v && v[0] ? unescape(hw_bytes_str(v)) : NULL;
}

static void set_user(struct hw_store *s, struct hw_bytes user)
{
    char found;
    struct hw_bytes name = take_until(&user, ":", &found);
    if (name.n)
        s->user = unescape(name);
    if (found)
        s->password = unescape(user);
}

static void set_address(struct hw_store *s, struct hw_bytes host, bool has_port, bool tls)
{
    struct hw_strbuf base = {0}, shown = {0};
    struct hw_strbuf *both[] = {&base, &shown};
    hw_strbuf_addf(&base, "http%s://", tls ? "s" : "");
    hw_strbuf_addf(&shown, "%s%s://", forms[s->form].scheme, tls ? "+https" : "");
    if (s->user)
        hw_strbuf_addf(&shown, "%s@", s->user);
    for (size_t i = 0; i < HW_ARRAY_LEN(both); i++) {
        hw_strbuf_add(both[i], host.p, host.n);
        if (!has_port)
            hw_strbuf_addf(both[i], ":%u", forms[s->form].port);
    }
    hw_strbuf_adds(&shown, s->path ? s->path : "");
    s->base = hw_strbuf_take(&base);
    s->shown = hw_strbuf_take(&shown);
}

int hw_store_init(struct hw_store *s, const char *url, struct hw_error *err)
{
    *s = (struct hw_store){0};
    const char *slashes = strstr(url, "://");
    bool tls, has_port;
    char found;
    if (!slashes)
        return hw_fail(
            err, HW_EINVAL, 0,
            "'%.64s' is not a store; use for example clickhouse://user@host:8123/profiles", url);
    int rc =
        find_form(s, (struct hw_bytes){(const uint8_t *)url, (size_t)(slashes - url)}, &tls, err);
    if (rc < 0)
        return rc;
    struct hw_bytes rest = hw_bytes_str(slashes + 3);
    struct hw_bytes authority = take_until(&rest, "/?#", &found);
    struct hw_bytes path = {0};
    if (found == '/')
        path = take_until(&rest, "?#", &found);
    struct hw_bytes query = {0};
    if (found == '?')
        query = take_until(&rest, "#", &found);
    struct hw_bytes host = authority;
    for (size_t i = 0; i < authority.n; i++) /* the last '@': a password may contain one */
        if (authority.p[i] == '@')
            host = (struct hw_bytes){authority.p + i + 1, authority.n - i - 1};
    if (!is_valid_host(host, &has_port))
        return hw_fail(err, HW_EINVAL, 0, "'%.*s' is not a host", (int)(host.n < 64 ? host.n : 64),
                       host.p);
    if (host.p != authority.p)
        set_user(s, (struct hw_bytes){authority.p, authority.n - host.n - 1});
    if (!s->password)
        s->password = from_environment("HEAPWISE_STORE_PASSWORD");
    s->token = from_environment("HEAPWISE_STORE_TOKEN");
    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    struct hw_strbuf b = {0};
    if (path.n) {
        hw_strbuf_addc(&b, '/');
        hw_strbuf_add(&b, path.p, path.n);
    }
    s->path = hw_strbuf_take(&b);
    s->query = copy(query);
    set_address(s, host, has_port, tls);
    if (!s->path || !s->query || !s->base || !s->shown) {
        hw_store_done(s);
        return hw_fail(err, HW_ENOMEM, 0, "store's address");
    }
    for (const char *p = url; *p; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7f) {
            hw_store_done(s);
            return hw_fail(err, HW_EINVAL, 0, "a store's address has no spaces");
        }
    if (s->form == HW_STORE_CLICKHOUSE && s->path[0])
        rc = hw_fleet_check_name(s->path + 1, "database", err);
    if (rc < 0)
        hw_store_done(s);
    return rc;
}

void hw_store_done(struct hw_store *s)
{
    char *const owned[] = {s->base, s->path, s->query, s->user, s->password, s->token, s->shown};
    for (size_t i = 0; i < HW_ARRAY_LEN(owned); i++)
        free(owned[i]);
    *s = (struct hw_store){0};
}

const char *hw_store_database(const struct hw_store *s)
{
    return s->path[0] ? s->path + 1 : "default";
}

/* ---- credentials ---- */

static void add_line(struct hw_store_auth *a, bool *failed, struct hw_strbuf *line)
{
    a->line[a->n] = hw_strbuf_take(line);
    if (a->line[a->n])
        a->n++;
    else
        *failed = true;
    *line = (struct hw_strbuf){0};
}

int hw_store_auth_init(struct hw_store_auth *a, const struct hw_store *s, struct hw_error *err)
{
    *a = (struct hw_store_auth){0};
    struct hw_strbuf line = {0}, pair = {0};
    bool failed = false;
    if (s->form == HW_STORE_CLICKHOUSE) {
        if (s->user) {
            hw_strbuf_addf(&line, "X-ClickHouse-User: %s", s->user);
            add_line(a, &failed, &line);
        }
        if (s->password) {
            hw_strbuf_addf(&line, "X-ClickHouse-Key: %s", s->password);
            add_line(a, &failed, &line);
        }
    } else if (s->token) {
        hw_strbuf_addf(&line, "Authorization: Bearer %s", s->token);
        add_line(a, &failed, &line);
    } else if (s->user) {
        hw_strbuf_addf(&pair, "%s:%s", s->user, s->password ? s->password : "");
        hw_strbuf_adds(&line, "Authorization: Basic ");
        hw_base64_add(&line, hw_bytes_of(pair.p, pair.n));
        add_line(a, &failed, &line);
    }
    hw_strbuf_done(&pair);
    if (!failed)
        return HW_OK;
    hw_store_auth_done(a);
    return hw_fail(err, HW_ENOMEM, 0, "credentials");
}

void hw_store_auth_done(struct hw_store_auth *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->line[i]);
    *a = (struct hw_store_auth){0};
}
