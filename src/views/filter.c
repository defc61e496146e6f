#include "views/filter.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "views/flame/program.h"

#include "base/banned.h"

/* Long expressions with many repetitions make glibc's regcomp slow and large. */
enum { MAX_PATTERN = 512, MAX_NODES = 4000 };
/* glibc creates a state of its automaton when a name first reaches it, and keeps it: up to 5 KB and
 * 20 us per letter, if every letter needs a new state. So an expression is compiled again after
 * MAX_SEARCHED letters. A search also starts at every letter with states of its own
 * ((a|b)*a(a|b){99}c took 5.4 s for 1024 letters); after ^.* it starts only once. */
enum { MAX_NAME = 8192, MAX_SEARCHED = 16384, CHECK_BYTES = 1024 };

enum pattern_kind { CONTAINS, EXACT, REGEX };

struct expression {
    regex_t regex;
    int flags;
    size_t searched; /* letters since it was compiled */
    bool failed;     /* regex is not compiled: no memory */
    char text[MAX_PATTERN + 8];
};

struct hw_pattern {
    enum pattern_kind kind;
    char *text;               /* owned; CONTAINS, EXACT */
    struct expression *regex; /* owned; REGEX */
};

static const struct {
    const char *prefix;
    enum hw_filter_kind kind;
    bool inverted;
} prefixes[] = {
    {"SS:", HW_FILTER_SHOW_STACK}, {"HS:", HW_FILTER_HIDE_STACK},   {"SF:", HW_FILTER_SHOW_FRAME},
    {"HF:", HW_FILTER_HIDE_FRAME}, {"SFF:", HW_FILTER_SHOW_FROM},   {"P:", HW_FILTER_PIVOT},
    {"M:", HW_FILTER_MODULE},      {"HM:", HW_FILTER_MODULE, true}, {"H:", HW_FILTER_HEAP},
};

/* ---- patterns ---- */

/* Returns the end of the bracket expression at p; the end of the text if it is not closed. */
static const char *skip_bracket(const char *p)
{
    p += 1 + (p[1] == '^');
    for (p += *p == ']'; *p && *p != ']'; p++) {
        const char what[] = {p[1], ']', 0};
        const char *end = *p == '[' && p[1] && strchr(":.=", p[1]) ? strstr(p + 2, what) : NULL;
        p = end ? end + 1 : p;
    }
    return *p ? p + 1 : p;
}

/* glibc compiles x+ as xx* and x{3} as xxx, copying x: a++++ doubles with each sign. Estimates the
 * resulting number of nodes. */
static double nodes_of(const char *p)
{
    double sum[MAX_PATTERN + 2] = {0}; /* by depth of parentheses */
    double last = 0;                   /* of the last item */
    size_t depth = 0;
    while (*p) {
        double times = 0, one = 1;
        const char *next = p + 1;
        if (*p == '\\' && p[1]) {
            next = p + 2;
        } else if (*p == '[') {
            next = skip_bracket(p);
        } else if (*p == '(' && depth < MAX_PATTERN) {
            sum[++depth] = 0;
            one = 0;
        } else if (*p == ')' && depth > 0) {
            one = sum[depth--] + 1;
        } else if (*p == '+') {
            times = 2;
        } else if (*p == '{') {
            times = 100; /* the check below allows no more */
        } else if (*p == '*' || *p == '?') {
            times = 1;
        }
        sum[depth] += times > 0 ? last * (times - 1) : one;
        last = times > 0 ? last * times : one;
        p = next;
    }
    for (; depth > 0; depth--) /* not closed: regcomp refuses it */
        sum[0] += sum[depth];
    return sum[0];
}

/* "a+*+" means the same as a single repetition, but doubles the compiled expression each time. */
static bool has_stacked_repetitions(const char *text)
{
    bool repeated = false, in_brackets = false;
    for (const char *p = text; *p; p++) {
        bool repeats = !in_brackets && (*p == '+' || *p == '*' || *p == '?');
        if (repeats && repeated)
            return true;
        repeated = repeats || (!in_brackets && *p == '}');
        if (*p == '\\' && p[1] && !in_brackets) {
            p++;
        } else if (*p == '[' && !in_brackets) {
            in_brackets = true;
            p += p[1] == '^';
            p += p[1] == ']'; /* a first ] is literal */
        } else if (*p == ']') {
            in_brackets = false;
        }
    }
    return false;
}

/* glibc takes a stray ) literally, but our own ( before it would match it. */
static bool has_stray_parenthesis(const char *p)
{
    size_t depth = 0;
    while (*p) {
        if (*p == ')' && depth-- == 0)
            return true;
        depth += *p == '(';
        p = *p == '[' ? skip_bracket(p) : p + (*p == '\\' && p[1] ? 2 : 1);
    }
    return false;
}

/* Patterns may come from a page. Counted repetitions multiply (glibc needs gigabytes to compile
 * ((a{99}){99}){99}), and back references make matching exponential: names need neither. */
int hw_pattern_check_regex(const char *text, struct hw_error *err)
{
    size_t n_counted = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '{') {
            size_t first = strspn(p + 1, "0123456789");
            size_t second = strspn(p + 1 + first + (p[1 + first] == ','), "0123456789");
            n_counted += first > 2 || second > 2 ? 2 : 1;
        }
        if (*p == '\\' && p[1] >= '1' && p[1] <= '9')
            return hw_fail(err, HW_EINVAL, 0,
                           "regular expression %.100s: back references are not supported", text);
        p += *p == '\\' && p[1];
    }
    if (has_stacked_repetitions(text))
        return hw_fail(err, HW_EINVAL, 0,
                       "regular expression %.100s: a repetition directly after another", text);
    if (has_stray_parenthesis(text))
        return hw_fail(err, HW_EINVAL, 0,
                       "regular expression %.100s: a ) without its (; the letter is \\)", text);
    if (n_counted > 1)
        return hw_fail(err, HW_EINVAL, 0,
                       "regular expression %.100s: more than one counted repetition, or above 99",
                       text);
    if (nodes_of(text) > MAX_NODES)
        return hw_fail(err, HW_EINVAL, 0,
                       "regular expression %.100s: its repetitions multiply to too many", text);
    return HW_OK;
}

/* text is /…/ or /…/i */
static int regex_new(struct hw_pattern *p, const char *text, struct hw_error *err)
{
    const char *last = strrchr(text, '/');
    char message[160];
    int bad = hw_pattern_check_regex(text, err);
    if (bad < 0)
        return bad;
    struct expression *e = calloc(1, sizeof *e);
    if (!e)
        return HW_ENOMEM;
    e->flags = REG_EXTENDED | REG_NOSUB | (last[1] == 'i' ? REG_ICASE : 0);
    /* First without our prefix, so that errors are about the user's text. */
    (void)snprintf(e->text, sizeof e->text, "%.*s", (int)(last - text - 1), text + 1);
    int rc = regcomp(&e->regex, e->text, e->flags);
    if (rc == 0) {
        regfree(&e->regex);
        (void)snprintf(e->text, sizeof e->text, "^.*(%.*s)", (int)(last - text - 1), text + 1);
        rc = regcomp(&e->regex, e->text, e->flags);
    }
    if (rc == 0) {
        p->kind = REGEX;
        p->regex = e;
        return HW_OK;
    }
    (void)regerror(rc, &e->regex, message, sizeof message); /* truncated if longer */
    free(e);
    return hw_fail(err, HW_EINVAL, 0, "regular expression %.100s: %s", text, message);
}

static void regex_free(struct expression *e)
{
    if (e && !e->failed)
        regfree(&e->regex);
    free(e);
}

static bool regex_matches(struct expression *e, const char *name)
{
    size_t n = strnlen(name, MAX_NAME);
    regmatch_t all = {0, (regoff_t)n};
    if (e->searched > MAX_SEARCHED && !e->failed) {
        regfree(&e->regex);
        e->failed = regcomp(&e->regex, e->text, e->flags) != 0;
        e->searched = 0;
    }
    e->searched += n;
    return !e->failed && regexec(&e->regex, name, 0, &all, REG_STARTEND) == 0;
}

static int text_new(struct hw_pattern *p, enum pattern_kind kind, const char *text, size_t n)
{
    p->kind = kind;
    p->text = strndup(text, n);
    return p->text ? HW_OK : HW_ENOMEM;
}

int hw_pattern_new(const char *text, struct hw_pattern **out, struct hw_error *err)
{
    size_t n = strlen(text);
    if (n == 0 || n > MAX_PATTERN)
        return hw_fail(err, HW_EINVAL, 0, n ? "a pattern is too long" : "a pattern is empty");
    struct hw_pattern *p = calloc(1, sizeof *p);
    if (!p)
        return HW_ENOMEM;
    size_t end = text[n - 1] == 'i' ? n - 2 : n - 1;
    int rc;
    if (n > 2 && text[0] == '/' && end > 1 && text[end] == '/')
        rc = regex_new(p, text, err);
    else if (n > 2 && text[0] == '"' && text[n - 1] == '"')
        rc = text_new(p, EXACT, text + 1, n - 2);
    else
        rc = text_new(p, CONTAINS, text, n);
    if (rc < 0) {
        hw_pattern_free(p);
        return rc;
    }
    *out = p;
    return HW_OK;
}

void hw_pattern_free(struct hw_pattern *p)
{
    if (!p)
        return;
    regex_free(p->regex);
    free(p->text);
    free(p);
}

bool hw_pattern_matches(const struct hw_pattern *p, const char *name)
{
    switch (p->kind) {
    case CONTAINS:
        return strcasestr(name, p->text) != NULL;
    case EXACT:
        return strcmp(name, p->text) == 0;
    case REGEX:
        return regex_matches(p->regex, name);
    }
    return false;
}

/* ---- lists ---- */

static bool starts_stacks(enum hw_filter_kind k)
{
    return k == HW_FILTER_SHOW_FROM || k == HW_FILTER_PIVOT;
}

/* Filters of the page for which heap profiles' stacks have no data. */
static int refuse_others(const char *text, struct hw_error *err)
{
    static const struct {
        const char *prefix, *what;
    } others[] = {{"T:", "threads"}, {"TY:", "types"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(others); i++)
        if (hw_starts_with(text, others[i].prefix))
            return hw_fail(err, HW_EINVAL, 0, "filter '%.100s': these stacks have no %s", text,
                           others[i].what);
    return HW_OK;
}

int hw_filters_add(hw_filters *f, const char *text, struct hw_error *err)
{
    struct hw_filter n = {.kind = HW_FILTER_SHOW_STACK, .inverted = text[0] == '!'};
    const char *at = text + n.inverted;
    int rc = refuse_others(at, err);
    if (rc < 0)
        return rc;
    bool prefixed = false;
    for (size_t i = 0; i < HW_ARRAY_LEN(prefixes) && !prefixed; i++) {
        size_t len = strlen(prefixes[i].prefix);
        prefixed = strncmp(at, prefixes[i].prefix, len) == 0;
        if (prefixed) {
            n.kind = prefixes[i].kind;
            n.inverted ^= prefixes[i].inverted;
            at += len;
        }
    }
    if (!prefixed && n.inverted) { /* a destructor's name begins with ~, none with ! */
        n.kind = HW_FILTER_HIDE_STACK;
        n.inverted = false;
    }
    if (starts_stacks(n.kind) && n.inverted)
        return hw_fail(err, HW_EINVAL, 0, "filter '%.100s': SFF: and P: cannot be inverted", text);
    for (size_t i = 0; i < f->n; i++)
        if (starts_stacks(n.kind) && starts_stacks(f->v[i].kind))
            return hw_fail(err, HW_EINVAL, 0, "filter '%.100s': only one of SFF: and P:", text);
    if (f->n >= HW_FILTER_MAX)
        return hw_fail(err, HW_EINVAL, 0, "more than %u filters", HW_FILTER_MAX);
    rc = hw_pattern_new(at, &n.pattern, err);
    if (rc == 0 && hw_vec_push(f, n) < 0) {
        hw_pattern_free(n.pattern);
        rc = HW_ENOMEM;
    }
    return rc;
}

void hw_filters_done(hw_filters *f)
{
    for (size_t i = 0; i < f->n; i++)
        hw_pattern_free(f->v[i].pattern);
    hw_vec_done(f);
}

bool hw_filters_have_pivot(const hw_filters *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].kind == HW_FILTER_PIVOT)
            return true;
    return false;
}

bool hw_filters_have_heap(const hw_filters *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].kind == HW_FILTER_HEAP)
            return true;
    return false;
}

bool hw_filters_keep_heap(const hw_filters *f, const char *heap)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct hw_filter *x = &f->v[i];
        if (x->kind == HW_FILTER_HEAP && hw_pattern_matches(x->pattern, heap) == x->inverted)
            return false;
    }
    return true;
}

/* ---- matches ---- */

/* A function's names and modules as filters see them: first those of its file, then those shown. A
 * shown source file (hw_function_where) counts as a module. */
struct texts {
    struct hw_strbuf name[2], module[2];
    size_t n; /* 1: both are the same */
};

static bool make_texts(struct texts *t, const struct hw_callsites *cs, const struct hw_function *fn,
                       const struct hw_namer *namer, const struct hw_shown_program *program)
{
    const struct hw_strings *strings = hw_callsites_strings((struct hw_callsites *)(uintptr_t)cs);
    bool failed = false;
    hw_str_id where = hw_function_where(fn);
    bool is_program = hw_program_has(program, fn->module);
    t->n = is_program || where.v != fn->module.v ? 2 : 1;
    for (size_t i = 0; i < 2; i++) {
        hw_strbuf_clear(&t->name[i]);
        hw_strbuf_clear(&t->module[i]);
    }
    hw_function_label(&t->name[0], cs, fn, namer);
    hw_function_module(&t->module[0], cs, fn);
    if (t->n == 2) {
        struct hw_bytes shown = is_program ? hw_program_module_shown(program, cs, fn->module)
                                           : hw_strings_get(strings, where);
        hw_program_label(program, &t->name[1], cs, fn, namer);
        hw_strbuf_add(&t->module[1], shown.p, shown.n);
    }
    for (size_t i = 0; i < 2; i++)
        failed |= t->name[i].failed || t->module[i].failed;
    return !failed;
}

static void texts_done(struct texts *t)
{
    for (size_t i = 0; i < 2; i++) {
        hw_strbuf_done(&t->name[i]);
        hw_strbuf_done(&t->module[i]);
    }
}

struct budget {
    uint64_t until_ns; /* this thread's processor time */
    size_t bytes;      /* matched since that was checked */
};

static bool is_spent(struct budget *e, size_t bytes)
{
    e->bytes += bytes;
    if (e->bytes < CHECK_BYTES)
        return false;
    e->bytes = 0;
    return hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) > e->until_ns;
}

static int match_function(const hw_filters *f, const struct texts *t, struct budget *e,
                          uint8_t *out, size_t n_functions)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct hw_filter *x = &f->v[i];
        const struct hw_strbuf *text = x->kind == HW_FILTER_MODULE ? t->module : t->name;
        for (size_t k = 0; k < t->n; k++) {
            out[i * n_functions] |= hw_pattern_matches(x->pattern, text[k].n ? text[k].p : "");
            if (is_spent(e, text[k].n))
                return HW_ETIMEOUT;
        }
    }
    return HW_OK;
}

int hw_filter_match_within(const hw_filters *f, const struct hw_callsites *cs,
                           const struct hw_functions *fns, const struct hw_namer *namer,
                           const struct hw_shown_program *program, uint64_t limit_ns,
                           struct hw_filter_matches *out)
{
    struct hw_filter_matches m = {.filters = f, .n_functions = hw_functions_count(fns)};
    struct budget e = {.until_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) + limit_ns};
    struct texts t = {0};
    int rc = HW_OK;
    m.v = calloc(f->n * m.n_functions + 1, sizeof *m.v);
    if (!m.v)
        return HW_ENOMEM;
    for (uint32_t i = 0; rc == HW_OK && f->n && i < m.n_functions; i++)
        rc = make_texts(&t, cs, hw_functions_get(fns, i), namer, program)
                 ? match_function(f, &t, &e, m.v + i, m.n_functions)
                 : HW_ENOMEM;
    texts_done(&t);
    if (rc < 0) {
        free(m.v);
        return rc;
    }
    *out = m;
    return HW_OK;
}

int hw_filter_match(const hw_filters *f, const struct hw_callsites *cs,
                    const struct hw_functions *fns, const struct hw_namer *namer,
                    const struct hw_shown_program *program, struct hw_filter_matches *out)
{
    return hw_filter_match_within(f, cs, fns, namer, program, HW_FILTER_MAX_NS, out);
}

void hw_filter_matches_done(struct hw_filter_matches *m)
{
    free(m->v);
    *m = (struct hw_filter_matches){0};
}

/* ---- one stack ---- */

static size_t first_match(const uint8_t *match, const uint32_t *path, size_t n)
{
    size_t i = 0;
    while (i < n && !match[path[i]])
        i++;
    return i;
}

static size_t keep_frames(const uint8_t *match, bool keep, uint32_t *path, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((match[path[i]] != 0) == keep)
            path[kept++] = path[i];
    return kept;
}

bool hw_filter_apply(const struct hw_filter_matches *m, uint32_t *path, size_t *n, size_t *pivot)
{
    const uint8_t *pivot_match = NULL;
    for (size_t i = 0; i < m->filters->n; i++) {
        const struct hw_filter *x = &m->filters->v[i];
        const uint8_t *match = m->v + i * m->n_functions;
        size_t at = 0;
        switch (x->kind) {
        case HW_FILTER_SHOW_STACK:
        case HW_FILTER_MODULE:
            if ((first_match(match, path, *n) < *n) == x->inverted)
                return false;
            break;
        case HW_FILTER_HIDE_STACK:
            if ((first_match(match, path, *n) < *n) != x->inverted)
                return false;
            break;
        case HW_FILTER_SHOW_FRAME:
            *n = keep_frames(match, !x->inverted, path, *n);
            break;
        case HW_FILTER_HIDE_FRAME:
            *n = keep_frames(match, x->inverted, path, *n);
            break;
        case HW_FILTER_SHOW_FROM:
            at = first_match(match, path, *n);
            if (at == *n)
                return false;
            *n -= at;
            memmove(path, path + at, *n * sizeof *path);
            break;
        case HW_FILTER_PIVOT:
            pivot_match = match;
            if (first_match(match, path, *n) == *n)
                return false;
            break;
        case HW_FILTER_HEAP: /* other heaps have no values here */
        case HW_FILTER_KIND_COUNT:
            break;
        }
    }
    if (pivot_match && pivot) {
        *pivot = first_match(pivot_match, path, *n);
        return *pivot < *n; /* a later filter may have removed it */
    }
    return true;
}
