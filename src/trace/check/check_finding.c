/* The rules' names; reporting of findings; processes that have data or names. */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text/utf8.h"
#include "trace/check/checker.h"

#include "base/banned.h"

static const struct {
    const char *name, *summary;
    enum hw_check_severity severity;
} rules[HW_CHECK_RULE_COUNT] = {
#define X(ID, rule_name, rule_severity, rule_summary)                                              \
    [HW_CHECK_##ID] = {                                                                            \
        .name = (rule_name), .summary = (rule_summary), .severity = HW_CHECK_##rule_severity},
#include "trace/check/rules.def"
#undef X
};

const char *hw_check_rule_name(enum hw_check_rule rule)
{
    return rules[rule].name;
}

const char *hw_check_rule_summary(enum hw_check_rule rule)
{
    return rules[rule].summary;
}

enum hw_check_severity hw_check_rule_severity(enum hw_check_rule rule)
{
    return rules[rule].severity;
}

const char *hw_check_severity_name(enum hw_check_severity severity)
{
    static const char *const names[HW_CHECK_SEVERITY_COUNT] = {
        [HW_CHECK_NOTE] = "note", [HW_CHECK_WARNING] = "warning", [HW_CHECK_ERROR] = "error"};
    return names[severity];
}

/* False: this rule's findings are only counted. */
static bool is_reported(const struct hw_checker *c, enum hw_check_rule rule)
{
    return c->o->found && (c->o->max_each == 0 || c->result->n[rule] < c->o->max_each);
}

static void found(struct hw_checker *c, enum hw_check_rule rule, struct hw_check_pos at,
                  const char *fmt, va_list ap)
{
    char raw[512], text[1024];
    if (is_reported(c, rule)) {
        (void)vsnprintf(raw, sizeof raw, fmt, ap); /* a cut text is still a text */
        (void)hw_utf8_escape(text, sizeof text, raw, "");
        struct hw_check_finding f = {rule, at.packet, at.offset, text};
        c->o->found(c->o->ctx, &f);
    }
    c->result->n[rule]++;
}

void hw_check_found_at(struct hw_checker *c, enum hw_check_rule rule, struct hw_check_pos at,
                       const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    found(c, rule, at, fmt, ap);
    va_end(ap);
}

void hw_check_found(struct hw_checker *c, enum hw_check_rule rule, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    found(c, rule, c->at, fmt, ap);
    va_end(ap);
}

static int pid_get(struct hw_checker *c, int64_t pid, struct hw_check_pid **out)
{
    uint64_t *at;
    bool fresh;
    if (hw_map64_at(&c->pids.by_pid, (uint64_t)pid, &at, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        *at = c->pids.v.n;
        if (hw_vec_push(&c->pids.v, (struct hw_check_pid){.pid = pid}) < 0)
            return HW_ENOMEM;
    }
    *out = &c->pids.v.v[*at];
    return HW_OK;
}

int hw_check_pid_used(struct hw_checker *c, int64_t pid)
{
    struct hw_check_pid *p;
    if (pid == 0) /* the idle process, which every reader knows */
        return HW_OK;
    int rc = pid_get(c, pid, &p);
    if (rc == HW_OK && !p->used) {
        p->used = true;
        p->at = c->at;
    }
    return rc;
}

int hw_check_pid_described(struct hw_checker *c, int64_t pid)
{
    struct hw_check_pid *p;
    int rc = pid_get(c, pid, &p);
    if (rc == HW_OK)
        p->described = true;
    return rc;
}
