/*
 * A missing or extra quote inverts the rest of a file: strings become structure and structure
 * strings, and the braces that follow are not counted. The "event" then extends to the end of the
 * file, or to some place where it happens to be balanced again. So when an event turns out not to
 * be JSON, its text is searched for `}` `,` `{"` followed by a complete object with a member "ph",
 * and reading resumes there. The search is limited: a file of such traps costs no more than a few
 * passes.
 */
#include "import/memory_infra/json_events.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/source.h"

#include "base/banned.h"

enum { CHUNK = 256 * 1024, MAX_RETRIES = 10000 };
static const size_t max_event = (size_t)256 << 20; /* jansson needs twenty times as much */
static const uint64_t max_retry_bytes = (uint64_t)256 << 20;

enum state { AT_START, IN_OBJECT, IN_LIST, AT_END };

struct hw_json_events {
    struct hw_source *source;
    uint8_t *buf; /* owned */
    size_t n, cap, pos;
    uint64_t base; /* offset of buf[0] in the file */
    bool at_eof;   /* of the source */
    bool is_array; /* the file is a bare list */
    enum state state;
    size_t last; /* start of the event emitted last */
    bool can_retry;
    unsigned n_retries;
    uint64_t retried_bytes;
};

/* Scans one object or list, or a bare value, byte by byte. */
struct scan {
    size_t i;
    uint32_t depth;
    bool in_string, escape;
    size_t string_at;
    uint8_t key; /* 1: the string was "ph"; 2: and a colon followed */
    char ph;
};

int hw_json_events_new(struct hw_source *source, struct hw_json_events **out)
{
    struct hw_json_events *e = calloc(1, sizeof *e);
    if (!e)
        return HW_ENOMEM;
    e->source = source;
    *out = e;
    return HW_OK;
}

void hw_json_events_free(struct hw_json_events *e)
{
    if (!e)
        return;
    free(e->buf);
    free(e);
}

/* Reads more, dropping what precedes keep. 1 = more was read, 0 = the source ended. */
static int fill(struct hw_json_events *e, size_t keep, struct hw_error *err)
{
    if (e->at_eof)
        return 0;
    if (keep) {
        memmove(e->buf, e->buf + keep, e->n - keep);
        e->n -= keep;
        e->pos -= keep;
        e->base += keep;
    }
    if (e->n >= max_event)
        return hw_fail(err, HW_ELIMIT, e->base, "an event of more than %zu bytes at byte %llu",
                       max_event, (unsigned long long)e->base);
    if (e->cap - e->n < CHUNK) {
        size_t cap = e->cap ? e->cap * 2 : 2 * CHUNK;
        uint8_t *grown = realloc(e->buf, cap);
        if (!grown)
            return hw_fail(err, HW_ENOMEM, e->base, "JSON trace");
        e->buf = grown;
        e->cap = cap;
    }
    int64_t got = e->source->read(e->source->ctx, e->buf + e->n, e->cap - e->n, err);
    if (got < 0)
        return (int)got;
    e->n += (size_t)got;
    e->at_eof = got == 0;
    return got > 0;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The next byte that is not a space; 0 = the end. */
static int peek(struct hw_json_events *e, struct hw_error *err)
{
    for (;;) {
        while (e->pos < e->n && is_space(e->buf[e->pos]))
            e->pos++;
        if (e->pos < e->n)
            return e->buf[e->pos] ? e->buf[e->pos] : ' ';
        int rc = fill(e, e->pos, err);
        if (rc <= 0)
            return rc;
    }
}

static void scan_string_end(struct scan *s, const uint8_t *p)
{
    const uint8_t *text = p + s->string_at;
    size_t n = s->i - s->string_at;
    if (s->depth != 1)
        return;
    if (s->key == 2)
        s->ph = n == 1 ? (char)text[0] : 0;
    s->key = n == 2 && text[0] == 'p' && text[1] == 'h';
}

/* Scans on to the end of the value that began at depth 0; true = complete, s->i is after it. */
static bool scan_value(struct scan *s, const uint8_t *p, size_t n)
{
    while (s->i < n) {
        uint8_t c = p[s->i];
        if (s->in_string) {
            if (s->escape)
                s->escape = false;
            else if (c == '\\')
                s->escape = true;
            else if (c == '"') {
                s->in_string = false;
                scan_string_end(s, p);
                if (s->depth == 0) {
                    s->i++;
                    return true;
                }
            }
            s->i++;
            continue;
        }
        switch (c) {
        case '"':
            s->in_string = true;
            s->string_at = s->i + 1;
            break;
        case '{':
        case '[':
            s->depth++;
            break;
        case '}':
        case ']':
            if (s->depth == 0)
                return true; /* a bare value, ended by its container's bracket */
            if (--s->depth == 0) {
                s->i++;
                return true;
            }
            break;
        case ':':
            s->key = s->key == 1 ? 2 : 0;
            break;
        case ',':
            if (s->depth == 0)
                return true;
            s->key = 0;
            break;
        default:
            break;
        }
        s->i++;
    }
    return false;
}

/* Reads the whole value at pos into the buffer: 1 = it is [pos, s->i), 0 = the file ends in it. */
static int whole_value(struct hw_json_events *e, struct scan *s, struct hw_error *err)
{
    *s = (struct scan){.i = e->pos};
    while (!scan_value(s, e->buf, e->n)) {
        size_t shift = e->pos;
        int rc = fill(e, e->pos, err);
        if (rc <= 0)
            return rc;
        s->i -= shift;
        s->string_at -= s->string_at < shift ? s->string_at : shift;
    }
    return 1;
}

/* Skips an unused value without buffering all of it. */
static int skip_value(struct hw_json_events *e, struct hw_error *err)
{
    struct scan s = {.i = e->pos};
    while (!scan_value(&s, e->buf, e->n)) {
        e->pos = s.i;
        int rc = fill(e, e->pos, err);
        if (rc <= 0)
            return rc;
        s.i = e->pos;
        s.string_at = s.i;
    }
    e->pos = s.i;
    return 1;
}

static int emit(struct hw_json_events *e, enum hw_json_event_kind kind, size_t end, char ph,
                struct hw_json_event *out)
{
    *out = (struct hw_json_event){.kind = kind,
                                  .text = hw_bytes_of(e->buf + e->pos, end - e->pos),
                                  .offset = e->base + e->pos,
                                  .ph = ph};
    e->last = e->pos;
    e->can_retry = e->state == IN_LIST;
    e->pos = end;
    return 1;
}

static int next_in_list(struct hw_json_events *e, struct hw_json_event *out, struct hw_error *err)
{
    struct scan s;
    int c = peek(e, err);
    while (c == ',') {
        e->pos++;
        c = peek(e, err);
    }
    if (c <= 0)
        return c;
    if (c == ']' || c == '}') { /* an extra brace ends it as well */
        e->pos++;
        e->state = e->is_array ? AT_END : IN_OBJECT;
        return 2;
    }
    int rc = whole_value(e, &s, err);
    if (rc < 0)
        return rc;
    bool good = rc == 1 && c == '{';
    return emit(e, good ? HW_JSON_EVENT : HW_JSON_DAMAGED, rc == 1 ? s.i : e->n, good ? s.ph : 0,
                out);
}

static int next_member(struct hw_json_events *e, struct hw_json_event *out, struct hw_error *err)
{
    struct scan s;
    int c = peek(e, err);
    if (c <= 0)
        return c;
    if (c != '"') { /* a comma, the end, or not JSON */
        e->pos++;
        if (c == '}')
            e->state = AT_END;
        return 2;
    }
    int rc = whole_value(e, &s, err);
    if (rc <= 0)
        return rc;
    struct hw_bytes key = hw_bytes_of(e->buf + e->pos, s.i - e->pos);
    bool events = hw_bytes_equal(key, hw_bytes_str("\"traceEvents\""));
    bool metadata = hw_bytes_equal(key, hw_bytes_str("\"metadata\""));
    e->pos = s.i;
    c = peek(e, err);
    if (c != ':')
        return c <= 0 ? c : 2;
    e->pos++;
    c = peek(e, err);
    if (c <= 0)
        return c;
    if (events && c == '[') {
        e->pos++;
        e->state = IN_LIST;
        return 2;
    }
    if (!metadata || c != '{') {
        rc = skip_value(e, err);
        return rc == 1 ? 2 : rc;
    }
    rc = whole_value(e, &s, err);
    return rc == 1 ? emit(e, HW_JSON_METADATA, s.i, 0, out) : rc;
}

static int at_start(struct hw_json_events *e, struct hw_error *err)
{
    int c = peek(e, err);
    if (c == 0xef && e->n - e->pos >= 3 && memcmp(e->buf + e->pos, "\xef\xbb\xbf", 3) == 0) {
        e->pos += 3;
        c = peek(e, err);
    }
    if (c < 0)
        return c;
    if (c != '[' && c != '{')
        return hw_fail(err, HW_EFORMAT, e->base + e->pos, "neither a JSON list nor an object");
    e->pos++;
    e->is_array = c == '[';
    e->state = e->is_array ? IN_LIST : IN_OBJECT;
    return 2;
}

int hw_json_events_next(struct hw_json_events *e, struct hw_json_event *out, struct hw_error *err)
{
    int rc = 2;
    e->can_retry = false;
    while (rc == 2) {
        switch (e->state) {
        case AT_START:
            rc = at_start(e, err);
            break;
        case IN_OBJECT:
            rc = next_member(e, out, err);
            break;
        case IN_LIST:
            rc = next_in_list(e, out, err);
            break;
        case AT_END:
            return 0;
        }
    }
    return rc;
}

/* Position of the `{` in the first `}` `,` `{"` from `at` on; end if there is none. */
static size_t find_next_object(const struct hw_json_events *e, size_t at, size_t end)
{
    const uint8_t *p = e->buf;
    while (at < end) {
        const uint8_t *brace = memchr(p + at, '}', end - at);
        if (!brace)
            return end;
        at = (size_t)(brace - p) + 1;
        size_t i = at;
        while (i < end && is_space(p[i]))
            i++;
        if (i >= end || p[i] != ',')
            continue;
        i++;
        while (i < end && is_space(p[i]))
            i++;
        if (i + 1 < end && p[i] == '{' && p[i + 1] == '"')
            return i;
    }
    return end;
}

void hw_json_events_retry(struct hw_json_events *e)
{
    size_t at = e->last + 1, end = e->pos;
    if (!e->can_retry)
        return;
    e->can_retry = false;
    while (e->n_retries < MAX_RETRIES && e->retried_bytes < max_retry_bytes) {
        at = find_next_object(e, at, end);
        if (at >= end)
            return;
        struct scan s = {.i = at};
        bool whole = scan_value(&s, e->buf, end);
        e->n_retries++;
        e->retried_bytes += s.i - at;
        if (whole && s.ph) {
            e->pos = at;
            return;
        }
        at++;
    }
}
