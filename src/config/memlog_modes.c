#include "config/memlog_modes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/config.h"

#include "base/banned.h"

enum { MAX_RULES = 64, ONE_IN = 3 };

const struct hw_memlog_mode hw_memlog_modes[] = {
    {"manual", "Memory logging must be enabled by hand per process."},
    {"all", "Memory logging is enabled for all processes."},
    {"minimal", "Memory logging is enabled for the browser and GPU processes."},
    {"browser", "Memory logging is enabled for just the browser process."},
    {"gpu", "Memory logging is enabled for just the GPU process."},
    {"all-renderers", "Memory logging is enabled for all renderers."},
    {"renderer-sampling", "Memory logging is enabled for at most one renderer, each having a fixed "
                          "probability at startup."},
    {"all-utilities", "Memory logging is enabled for all utility processes."},
    {"utility-sampling", "Memory logging is enabled for utility processes, each having a fixed "
                         "probability at startup."},
    {"utility-and-browser", "Memory logging is enabled for the utility and browser processes."},
    {NULL, NULL},
};

static const struct {
    const char *mode;
    enum hw_memlog_kind kind;
    bool sampled, alone;
    const char *role;
} meanings[] = {
    {"all", HW_MEMLOG_ALL, false, false, NULL},
    {"minimal", HW_MEMLOG_ROLE, false, false, "browser"},
    {"minimal", HW_MEMLOG_ROLE, false, false, "gpu"},
    {"browser", HW_MEMLOG_ROLE, false, false, "browser"},
    {"gpu", HW_MEMLOG_ROLE, false, false, "gpu"},
    {"all-renderers", HW_MEMLOG_ROLE, false, false, "renderer"},
    {"renderer-sampling", HW_MEMLOG_ROLE, true, true, "renderer"},
    {"all-utilities", HW_MEMLOG_ROLE, false, false, "utility"},
    {"utility-sampling", HW_MEMLOG_ROLE, true, false, "utility"},
    {"utility-and-browser", HW_MEMLOG_ROLE, false, false, "utility"},
    {"utility-and-browser", HW_MEMLOG_ROLE, false, false, "browser"},
};

static const struct {
    const char *prefix;
    enum hw_memlog_kind kind;
} selectors[] = {
    {"role:", HW_MEMLOG_ROLE}, {"name:", HW_MEMLOG_NAME}, {"cgroup:", HW_MEMLOG_CGROUP}};

static int add(struct hw_memlog *m, struct hw_memlog_rule rule, struct hw_bytes word,
               struct hw_error *err)
{
    if (m->rules.n == MAX_RULES)
        return hw_fail(err, HW_ELIMIT, 0, "a mode has more than %d parts", MAX_RULES);
    if (rule.kind != HW_MEMLOG_ALL && !(rule.word = strndup((const char *)word.p, word.n)))
        return hw_fail(err, HW_ENOMEM, 0, "mode");
    if (hw_vec_push(&m->rules, rule) == HW_OK)
        return HW_OK;
    free(rule.word);
    return hw_fail(err, HW_ENOMEM, 0, "mode");
}

static int add_word(struct hw_memlog *m, struct hw_bytes word, struct hw_error *err)
{
    bool known = hw_bytes_equal(word, hw_bytes_str("manual"));
    for (size_t i = 0; i < HW_ARRAY_LEN(meanings); i++) {
        struct hw_memlog_rule rule = {meanings[i].kind, meanings[i].sampled, meanings[i].alone,
                                      NULL};
        if (!hw_bytes_equal(word, hw_bytes_str(meanings[i].mode)))
            continue;
        int rc = add(m, rule, hw_bytes_str(meanings[i].role ? meanings[i].role : ""), err);
        if (rc < 0)
            return rc;
        known = true;
    }
    for (size_t i = 0; i < HW_ARRAY_LEN(selectors); i++) {
        size_t n = strlen(selectors[i].prefix);
        if (word.n > n && memcmp(word.p, selectors[i].prefix, n) == 0)
            return add(m, (struct hw_memlog_rule){.kind = selectors[i].kind},
                       hw_bytes_of(word.p + n, word.n - n), err);
    }
    if (known)
        return HW_OK;
    struct hw_strbuf shown = {0};
    hw_strbuf_add_escaped(&shown, word.p, word.n < 80 ? word.n : 80);
    int rc = hw_fail(err, HW_EINVAL, 0,
                     "'%s' is not a mode: it is manual, all, minimal, browser, gpu, all-renderers, "
                     "renderer-sampling, all-utilities, utility-sampling, utility-and-browser, "
                     "role:NAME, name:GLOB or cgroup:PATH",
                     shown.p ? shown.p : "");
    hw_strbuf_done(&shown);
    return rc;
}

int hw_memlog_parse(struct hw_bytes text, struct hw_memlog *out, struct hw_error *err)
{
    int rc = HW_OK;
    if (memchr(text.p ? text.p : (const uint8_t *)"", 0, text.n))
        return hw_fail(err, HW_EINVAL, 0, "a mode has a zero byte");
    for (size_t at = 0; rc == HW_OK && at <= text.n;) {
        const uint8_t *comma = at < text.n ? memchr(text.p + at, ',', text.n - at) : NULL;
        size_t end = comma ? (size_t)(comma - text.p) : text.n;
        rc = add_word(out, hw_bytes_of(text.p ? text.p + at : text.p, end - at), err);
        at = end + 1;
    }
    return rc;
}

void hw_memlog_done(struct hw_memlog *m)
{
    for (size_t i = 0; i < m->rules.n; i++)
        free(m->rules.v[i].word);
    hw_vec_done(&m->rules);
}

bool hw_memlog_is_in_group(const char *path, const char *group)
{
    size_t n = strlen(group);
    while (n && group[n - 1] == '/')
        n--;
    return strncmp(path, group, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool rule_means(const struct hw_memlog_rule *r, const struct hw_memlog_process *p)
{
    switch (r->kind) {
    case HW_MEMLOG_ALL:
        return true;
    case HW_MEMLOG_ROLE:
        return strcmp(r->word, p->role) == 0 && !(r->alone && p->others) &&
               (!r->sampled || p->chance % ONE_IN == 0);
    case HW_MEMLOG_NAME:
        return hw_config_name_matches(r->word, p->argv0);
    case HW_MEMLOG_CGROUP:
        return hw_memlog_is_in_group(p->cgroup, r->word);
    }
    return false;
}

bool hw_memlog_means(const struct hw_memlog *m, const struct hw_memlog_process *p)
{
    for (size_t i = 0; i < m->rules.n; i++)
        if (rule_means(&m->rules.v[i], p))
            return true;
    return false;
}

/* ---- what a process is ---- */

/* The rest of the first part with this prefix; n 0 = none. */
static struct hw_bytes find_part(struct hw_bytes text, int separator, const char *begin)
{
    size_t n = strlen(begin);
    for (size_t at = 0; at < text.n;) {
        const uint8_t *found = memchr(text.p + at, separator, text.n - at);
        size_t end = found ? (size_t)(found - text.p) : text.n;
        if (end - at > n && memcmp(text.p + at, begin, n) == 0)
            return hw_bytes_of(text.p + at + n, end - at - n);
        at = end + 1;
    }
    return hw_bytes_of(NULL, 0);
}

/* Chromium's children have their whole command line in the first argument. */
static bool is_title(struct hw_bytes cmdline, struct hw_bytes *out)
{
    const uint8_t *nul = cmdline.n ? memchr(cmdline.p, 0, cmdline.n) : NULL;
    size_t n = nul ? (size_t)(nul - cmdline.p) : cmdline.n;
    *out = hw_bytes_of(cmdline.p, n);
    for (size_t i = n; i < cmdline.n; i++)
        if (cmdline.p[i])
            return false;
    return true;
}

void hw_memlog_role(struct hw_bytes environment, struct hw_bytes cmdline, bool leads_session,
                    char out[64])
{
    struct hw_bytes role = find_part(environment, 0, "MEMLOG_ROLE="), title;
    if (role.n == 0)
        role = find_part(cmdline, 0, "--type=");
    if (role.n == 0 && is_title(cmdline, &title))
        role = find_part(title, ' ', "--type=");
    if (hw_bytes_equal(role, hw_bytes_str("gpu-process")))
        role = hw_bytes_str("gpu");
    if (role.n == 0)
        role = hw_bytes_str(leads_session ? "browser" : "utility");
    (void)snprintf(out, 64, "%.*s", (int)(role.n < 63 ? role.n : 63), (const char *)role.p);
}

void hw_memlog_cgroup(const char *text, char *out, size_t max)
{
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    line = !line ? text : line[0] == '\n' ? line + 1 : line;
    const char *path = strchr(line, ':');
    path = path ? strchr(path + 1, ':') : NULL;
    path = path ? path + 1 : "/";
    (void)snprintf(out, max, "%.*s", (int)strcspn(path, "\n"), path); /* cut is fine */
}

bool hw_memlog_needs(const struct hw_memlog *m, enum hw_memlog_kind kind)
{
    for (size_t i = 0; i < m->rules.n; i++)
        if (m->rules.v[i].kind == kind)
            return true;
    return false;
}

bool hw_memlog_needs_others(const struct hw_memlog *m, const char *role)
{
    for (size_t i = 0; i < m->rules.n; i++) {
        const struct hw_memlog_rule *r = &m->rules.v[i];
        if (r->kind == HW_MEMLOG_ROLE && r->alone && strcmp(r->word, role) == 0)
            return true;
    }
    return false;
}
