#include "config/when.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "config/numbers.h"

#include "base/banned.h"

struct form {
    const char *name, *op; /* op: the operator between name and value; "" = nothing may follow */
    enum hw_when_kind kind;
    int (*parse)(const char *text, uint64_t *out, struct hw_error *err);
    uint64_t usual;         /* without a value; 0 = one is needed */
    bool can[HW_ACT_COUNT]; /* start, dump, stop */
};

static int parse_percent(const char *text, uint64_t *out, struct hw_error *err)
{
    size_t n = strlen(text);
    char digits[8];
    if (n && text[n - 1] == '%')
        n--;
    if (n >= sizeof digits)
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a percentage", text);
    memcpy(digits, text, n);
    digits[n] = '\0';
    int rc = hw_parse_uint(digits, out, err);
    if (rc == HW_OK && (*out < 1 || *out > 99))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a percentage from 1 to 99", text);
    return rc;
}

static const struct form forms[] = {
    {"rss", ">", HW_WHEN_RSS, hw_parse_size, 0, {true, true, true}},
    {"rss", "+", HW_WHEN_RSS_GROWTH, hw_parse_size, 0, {true, true, true}},
    {"time", ">", HW_WHEN_TIME, hw_parse_time_ms, 0, {true, true, true}},
    {"samples", ">", HW_WHEN_SAMPLES, hw_parse_uint, 0, {false, true, true}},
    {"dumps", "=", HW_WHEN_DUMPS, hw_parse_uint, 0, {false, false, true}},
    {"failure", "", HW_WHEN_FAILURE, NULL, 1, {false, true, true}},
    {"signal", "", HW_WHEN_SIGNAL, NULL, 1, {true, false, false}},
    {"memory-limit",
     ">",
     HW_WHEN_MEMORY_LIMIT,
     parse_percent,
     HW_WHEN_LIMIT_PERCENT,
     {true, true, true}},
};

/* ">", ">=" and "=" are the same: nobody who writes rss=2G means exactly that byte. */
static char op_of(const char *p, const char **value)
{
    size_t n = strspn(p, " ");
    char op = p[n] == '=' ? '>' : p[n];
    n += strspn(p + n, op == '+' ? "+" : ">=");
    *value = p + n + strspn(p + n, " ");
    return op;
}

static bool fits(const struct form *f, enum hw_when_act act, const char *name, size_t n, char op)
{
    char own = f->op[0] == '=' ? '>' : f->op[0];
    return strlen(f->name) == n && strncmp(f->name, name, n) == 0 &&
           (op == own || (op == '\0' && f->usual)) && f->can[act];
}

int hw_when_parse(const char *text, enum hw_when_act act, struct hw_when *out, struct hw_error *err)
{
    static const char *const others[HW_ACT_COUNT] = {
        [HW_ACT_START] = "signal, ",
        [HW_ACT_DUMP] = "samples>N, failure, ",
        [HW_ACT_STOP] = "samples>N, dumps=N, failure, ",
    };
    size_t n = strcspn(text, "<>=+ ");
    const char *value;
    char op = op_of(text + n, &value);
    for (size_t i = 0; i < HW_ARRAY_LEN(forms); i++) {
        const struct form *f = &forms[i];
        struct hw_when w = {.kind = f->kind, .limit = f->usual, .act = act};
        if (!fits(f, act, text, n, op))
            continue;
        int rc = op && f->parse ? f->parse(value, &w.limit, err) : HW_OK;
        if (rc < 0)
            return rc;
        if (w.limit == 0 || strlen(text) > HW_WHEN_TEXT_MAX)
            return hw_fail(err, HW_EINVAL, 0, "condition '%.80s' is always true, or too long",
                           text);
        w.text = strdup(text);
        if (!w.text)
            return hw_fail(err, HW_ENOMEM, 0, "conditions");
        *out = w;
        return HW_OK;
    }
    return hw_fail(err, HW_EINVAL, 0,
                   "condition '%.80s' is not one of rss>SIZE, rss+SIZE, time>TIME, %s"
                   "memory-limit[>PERCENT]",
                   text, others[act]);
}

void hw_when_done(struct hw_when *w)
{
    free(w->text);
    w->text = NULL;
}
