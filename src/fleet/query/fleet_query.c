#include "fleet/query/fleet_query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/text/text_parts.h"
#include "fleet/store/clickhouse.h"
#include "fleet/store/table_schema.h"

#include "base/banned.h"

enum { DAY_S = 86400, MAX_CONDITIONS = 64, MAX_TEXT = 4096 };

static const char *const statements[HW_FLEET_Q_COUNT] = {
#define X(ID, sql) [HW_FLEET_Q_##ID] = sql,
#include "fleet/query/fleet_queries.def"
#undef X
};

/* The columns that are labels, and the SQL for their text. */
static const struct {
    const char *name, *sql;
} columns[] = {{"service", "service"},
               {"host", "host"},
               {"version", "version"},
               {"build_id", "build_id"},
               {"pid", "toString(pid)"},
               {"heap", "heap"},
               {"interval", "toString(`interval`)"}};

static const struct {
    const char *sign, *before, *between, *behind;
} ops[HW_FLEET_OP_COUNT] = {
    [HW_FLEET_IS] = {"=", "", " = ", ""},
    [HW_FLEET_IS_NOT] = {"!=", "", " != ", ""},
    [HW_FLEET_FITS] = {"~", "match(", ", ", ")"},
    [HW_FLEET_FITS_NOT] = {"!~", "NOT match(", ", ", ")"},
};

const char *hw_fleet_label(size_t i)
{
    return i < HW_ARRAY_LEN(columns) ? columns[i].name : NULL;
}

bool hw_fleet_is_label(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    if (!name[0] || !strchr(letters, name[0]))
        return false;
    return name[strspn(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")] ==
           0;
}

/* ---- the selection ---- */

void hw_fleet_where_init(struct hw_fleet_where *w, int64_t now_s)
{
    *w = (struct hw_fleet_where){.since_s = now_s - DAY_S, .until_s = now_s + 1};
}

void hw_fleet_where_done(struct hw_fleet_where *w)
{
    for (size_t i = 0; i < w->v.n; i++) {
        free(w->v.v[i].name);
        free(w->v.v[i].value);
    }
    hw_vec_done(&w->v);
    *w = (struct hw_fleet_where){0};
}

static int push(struct hw_fleet_where *w, const char *name, size_t n, enum hw_fleet_op op,
                const char *value)
{
    struct hw_fleet_condition c = {.name = strndup(name, n), .value = strdup(value), .op = op};
    if (c.name && c.value && hw_vec_push(&w->v, c) == 0)
        return HW_OK;
    free(c.name);
    free(c.value);
    return HW_ENOMEM;
}

int hw_fleet_where_copy(const struct hw_fleet_where *w, struct hw_fleet_where *out)
{
    *out = (struct hw_fleet_where){.since_s = w->since_s, .until_s = w->until_s};
    for (size_t i = 0; i < w->v.n; i++) {
        const struct hw_fleet_condition *c = &w->v.v[i];
        if (push(out, c->name, strlen(c->name), c->op, c->value) < 0) {
            hw_fleet_where_done(out);
            return HW_ENOMEM;
        }
    }
    return HW_OK;
}

/* "2026-03-01", "2026-03-01T10:00", "2026-03-01 10:00:30Z" */
static bool parse_date(const char *text, int64_t *out)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
                                        "%Y-%m-%d %H:%M", "%Y-%m-%d"};
    for (size_t i = 0; i < HW_ARRAY_LEN(forms); i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, forms[i], &tm);
        bool utc = end && strcmp(end, "Z") == 0;
        if (!end || (*end && !utc))
            continue;
        time_t t = utc ? timegm(&tm) : mktime(&tm);
        *out = t;
        return t != (time_t)-1;
    }
    return false;
}

/* "24h", "1.5d", "now" */
static bool parse_ago(const char *text, int64_t now_s, int64_t *out)
{
    static const struct {
        char unit;
        int32_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', DAY_S}, {'w', 7 * DAY_S}};
    char *end = NULL;
    if (strcmp(text, "now") == 0) {
        *out = now_s;
        return true;
    }
    double n = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : -1;
    for (size_t i = 0; n >= 0 && n < 1e9 && i < HW_ARRAY_LEN(units); i++) {
        if (end[0] != units[i].unit || end[1])
            continue;
        *out = now_s - (int64_t)(n * units[i].seconds);
        return true;
    }
    return false;
}

int hw_fleet_time(const char *text, int64_t now_s, int64_t *out, struct hw_error *err)
{
    if (parse_date(text, out) || parse_ago(text, now_s, out))
        return HW_OK;
    return hw_fail(err, HW_EINVAL, 0,
                   "'%.80s' is not a time: 24h or 7d (before now), 2026-03-01, 2026-03-01T10:00",
                   text);
}

static int add_time(struct hw_fleet_where *w, const char *text, int64_t now_s, bool *is_time,
                    struct hw_error *err)
{
    bool since = strncmp(text, "since=", 6) == 0;
    *is_time = since || strncmp(text, "until=", 6) == 0;
    return *is_time ? hw_fleet_time(text + 6, now_s, since ? &w->since_s : &w->until_s, err)
                    : HW_OK;
}

int hw_fleet_where_add(struct hw_fleet_where *w, const char *text, int64_t now_s,
                       struct hw_error *err)
{
    bool is_time;
    int rc = add_time(w, text, now_s, &is_time, err);
    if (rc < 0 || is_time)
        return rc;
    size_t n = strcspn(text, "=!~");
    int op = HW_FLEET_OP_COUNT;
    while (op-- > 0) /* backwards: a longer sign follows its prefix */
        if (hw_starts_with(text + n, ops[op].sign))
            break;
    char name[128];
    if (op < 0 || n == 0 || n >= sizeof name)
        return hw_fail(
            err, HW_EINVAL, 0,
            "'%.80s' is not a condition: NAME=VALUE, NAME!=VALUE, NAME~REGEX, NAME!~REGEX", text);
    memcpy(name, text, n);
    name[n] = 0;
    if (!hw_fleet_is_label(name))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a label name: letters, digits and '_'",
                       name);
    if (w->v.n >= MAX_CONDITIONS || strlen(text) > MAX_TEXT)
        return hw_fail(err, HW_ELIMIT, 0, "at most %d conditions of %d bytes", MAX_CONDITIONS,
                       MAX_TEXT);
    rc = push(w, name, n, (enum hw_fleet_op)op, text + n + strlen(ops[op].sign));
    return rc < 0 ? hw_fail(err, rc, 0, "conditions") : HW_OK;
}

int hw_fleet_where_check(const struct hw_fleet_where *w, struct hw_error *err)
{
    if (w->since_s < 0 || w->until_s > UINT32_MAX)
        return hw_fail(err, HW_EINVAL, 0,
                       "the range of time begins before 1970 or ends after 2105");
    if (w->since_s >= w->until_s)
        return hw_fail(err, HW_EINVAL, 0, "the range of time ends before it begins");
    return HW_OK;
}

void hw_fleet_where_show(const struct hw_fleet_where *w, struct hw_strbuf *out)
{
    for (size_t i = 0; i < w->v.n; i++) {
        const struct hw_fleet_condition *c = &w->v.v[i];
        hw_strbuf_addf(out, "%s%s%s", i ? " " : "", c->name, ops[c->op].sign);
        hw_strbuf_add_escaped(out, c->value, strlen(c->value));
    }
    if (w->v.n == 0)
        hw_strbuf_adds(out, "everything");
}

/* ---- statements ---- */

static void add_label(struct hw_strbuf *out, const char *name)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(columns); i++) {
        if (strcmp(columns[i].name, name) == 0) {
            hw_strbuf_adds(out, columns[i].sql);
            return;
        }
    }
    /* A missing label has index 0, which yields "". */
    hw_strbuf_adds(out, "labels.v[indexOf(labels.k, ");
    hw_clickhouse_add_text(out, hw_bytes_str(name));
    hw_strbuf_adds(out, ")]");
}

static bool one_service(const struct hw_fleet_where *w)
{
    for (size_t i = 0; i < w->v.n; i++)
        if (w->v.v[i].op == HW_FLEET_IS && strcmp(w->v.v[i].name, "service") == 0)
            return true;
    return false;
}

/* Unless there is one service, comparing the day excludes parts of the table. With one, the table's
 * order (service, ts) does, and comparing days would be a quarter of the work. Days are in the
 * writers' time zones, hence one more on both sides. */
static void add_where(const struct hw_fleet_where *w, struct hw_strbuf *out)
{
    int64_t first = w->since_s / DAY_S - 1;
    if (!one_service(w))
        hw_strbuf_addf(out, "day >= toDate(%" PRId64 ") AND day <= toDate(%" PRId64 ") AND ",
                       first < 0 ? 0 : first, w->until_s / DAY_S + 1);
    hw_strbuf_addf(out, "ts >= toDateTime(%" PRId64 ") AND ts < toDateTime(%" PRId64 ")",
                   w->since_s, w->until_s);
    for (size_t i = 0; i < w->v.n; i++) {
        const struct hw_fleet_condition *c = &w->v.v[i];
        hw_strbuf_addf(out, " AND %s", ops[c->op].before);
        add_label(out, c->name);
        hw_strbuf_adds(out, ops[c->op].between);
        hw_clickhouse_add_text(out, hw_bytes_str(c->value));
        hw_strbuf_adds(out, ops[c->op].behind);
    }
}

static bool is_word(const char *at, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(at, word, n) == 0;
}

static void add_word(const struct hw_fleet_query_args *a, const char *word, size_t n,
                     struct hw_strbuf *out)
{
    if (is_word(word, n, "samples")) {
        hw_strbuf_adds(out, hw_fleet_table_name(HW_FLEET_SAMPLES));
    } else if (is_word(word, n, "stacks")) {
        hw_strbuf_adds(out, hw_fleet_table_name(HW_FLEET_STACKS));
    } else if (is_word(word, n, "where")) {
        add_where(a->where, out);
    } else if (is_word(word, n, "process")) {
        hw_strbuf_adds(out, one_service(a->where) ? "host, pid" : "service, host, pid");
    } else if (is_word(word, n, "any")) {
        hw_strbuf_adds(out, "any(host) AS h, any(pid) AS p");
        hw_strbuf_adds(out, one_service(a->where) ? "" : ", any(service) AS e");
    } else if (is_word(word, n, "seen")) {
        hw_strbuf_adds(out, one_service(a->where) ? "h, p" : "h, p, e");
    } else if (is_word(word, n, "step")) {
        hw_strbuf_addf(out, "toUInt32(intDiv(toUInt32(ts) - %" PRId64 ", %" PRIu32 "))",
                       a->where->since_s, a->step_s);
    } else if (is_word(word, n, "label")) {
        add_label(out, a->label);
    } else {
        assert(is_word(word, n, "hashes"));
        for (size_t i = 0; i < a->n_hashes; i++)
            hw_strbuf_addf(out, "%s%" PRIu64, i ? "," : "", a->hashes[i]);
    }
}

void hw_fleet_sql(const struct hw_fleet_query_args *a, struct hw_strbuf *out)
{
    const char *p = statements[a->query];
    for (const char *open; (open = strchr(p, '{')) != NULL;) {
        const char *end = strchr(open, '}');
        assert(end);
        hw_strbuf_add(out, p, (size_t)(open - p));
        add_word(a, open + 1, (size_t)(end - open - 1), out);
        p = end + 1;
    }
    hw_strbuf_adds(out, p);
    hw_strbuf_adds(out, " FORMAT RowBinary");
}
