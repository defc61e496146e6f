/*
 * The table first, then values, then the walk over argv. An option is looked up among those the
 * command takes, so one letter may mean different things in different commands.
 */
#include "config/command/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "config/command/command.h"

#include "base/banned.h"

#define C(id) (1ull << HW_CMD_##id)
#define ALL   UINT64_MAX
#define FRONT                                                                                      \
    (ALL & ~(C(HEAP_PROFILE) | C(DIFF_HEAP) | C(SYMBOLIZE_TRACE) | C(PERFETTO) | C(HEAPPROFD) |    \
             C(TRACED) | C(TRACECONV) | C(TRACE_TO_TEXT) | C(TRACE_PROCESSOR) |                    \
             C(JAVA_HEAP_DUMP))) /* not the classic commands */
#define COMMON   HW_OF_COMMON
#define HIDDEN   HW_OF_HIDDEN
#define ANDROID  HW_OF_ANDROID
#define OPTIONAL HW_OF_OPTIONAL
#define UNSETS   HW_OF_UNSETS
#define WRITES   HW_OF_WRITES
const struct hw_option hw_options[HW_OPT_COUNT] = {
#define X(ID, name, short_name, arg, kind, dflt, min, max, field, group, flags, commands, help)    \
    [HW_OPT_##ID] = {name, short_name, arg,           HW_OK_##kind, dflt,     min,                 \
                     max,  field,      HW_OG_##group, flags,        commands, help},
#include "config/command/options.def"
#undef X
};
#undef C
#undef ALL
#undef FRONT
#undef COMMON
#undef HIDDEN
#undef ANDROID
#undef OPTIONAL
#undef UNSETS
#undef WRITES
_Static_assert(HW_CMD_COUNT <= 64, "one bit per command");

const char *hw_option_group_title(enum hw_option_group g)
{
    switch (g) {
    case HW_OG_TARGET:
        return "What is profiled";
    case HW_OG_SAMPLING:
        return "Sampling";
    case HW_OG_DUMPS:
        return "Length and dumps";
    case HW_OG_BUFFER:
        return "Buffer";
    case HW_OG_OUTPUT:
        return "Output";
    case HW_OG_REPORT:
        return "Report";
    case HW_OG_SERVICE:
        return "Service";
    case HW_OG_PARTS:
        return "Parts and tools";
    case HW_OG_ANDROID_GROUP:
        return "Accepted for compatibility with Android";
    case HW_OG_GENERAL:
        return "General";
    case HW_OG_COUNT:
        break;
    }
    return "";
}

/* ---- values ---- */

int hw_parse_limit(const char *text, bool bytes, struct hw_limit *out, struct hw_error *err)
{
    size_t len = strlen(text);
    if (len > 1 && text[len - 1] == '%') {
        char *end;
        double share = strtod(text, &end);
        if (end != text + len - 1 || !(share >= 0) || !isfinite(share))
            return hw_fail(err, HW_EINVAL, 0, "'%s' is not a share", text);
        *out = (struct hw_limit){share, true};
        return HW_OK;
    }
    uint64_t n;
    int rc = bytes ? hw_parse_size(text, &n, err) : hw_parse_uint(text, &n, err);
    if (rc == HW_OK)
        *out = (struct hw_limit){(double)n, false};
    return rc;
}

static int list_add(struct hw_optval *v, const char *p, size_t n, struct hw_error *err)
{
    char *copy = strndup(p, n);
    if (!copy || hw_vec_push(&v->list, copy) < 0) {
        free(copy);
        return hw_fail(err, HW_ENOMEM, 0, "list of values");
    }
    return HW_OK;
}

static int set_list(struct hw_optval *v, const char *text, struct hw_error *err)
{
    while (*text) {
        size_t n = strcspn(text, ",");
        int rc = n ? list_add(v, text, n, err) : HW_OK;
        if (rc < 0)
            return rc;
        text += n + (text[n] == ',');
    }
    return HW_OK;
}

static int set_flag(struct hw_optval *v, const char *text, struct hw_error *err)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off", ""};
    for (size_t i = 0; i < HW_ARRAY_LEN(yes); i++)
        if (strcasecmp(text, yes[i]) == 0) {
            v->num = 1;
            return HW_OK;
        }
    for (size_t i = 0; i < HW_ARRAY_LEN(no); i++)
        if (strcasecmp(text, no[i]) == 0) {
            v->num = 0;
            return HW_OK;
        }
    return hw_fail(err, HW_EINVAL, 0, "'%s' is neither true nor false", text);
}

static int set_value(const struct hw_option *def, struct hw_optval *v, const char *text,
                     struct hw_error *err)
{
    int rc = HW_OK;
    switch (def->kind) {
    case HW_OK_FLAG:
        return set_flag(v, text, err);
    case HW_OK_UINT:
        rc = hw_parse_uint(text, &v->num, err);
        break;
    case HW_OK_SIZE:
        rc = hw_parse_size(text, &v->num, err);
        break;
    case HW_OK_TIME:
        rc = hw_parse_time_ms(text, &v->num, err);
        break;
    case HW_OK_TEXT:
        break;
    case HW_OK_LIST:
        rc = set_list(v, text, err);
        break;
    case HW_OK_REPEAT:
        rc = list_add(v, text, strlen(text), err);
        break;
    case HW_OK_COUNT:
        break;
    }
    if (rc < 0)
        return rc;
    if ((def->min || def->max) && (v->num < def->min || v->num > def->max))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is out of range (%llu to %llu)", text,
                       (unsigned long long)def->min, (unsigned long long)def->max);
    v->text = text;
    return HW_OK;
}

int hw_opts_set(struct hw_opts *o, enum hw_option_id id, const char *text, const char *origin,
                struct hw_error *err)
{
    struct hw_optval *v = &o->v[id];
    /* A list from a higher layer replaces a lower one's; within a layer it is appended to. */
    if (v->origin != origin || !v->set) {
        for (size_t i = 0; i < v->list.n; i++)
            free(v->list.v[i]);
        hw_vec_clear(&v->list);
        v->count = 0;
    }
    int rc = set_value(&hw_options[id], v, text, err);
    if (rc < 0)
        return rc;
    v->set = true;
    v->origin = origin;
    v->count++;
    return HW_OK;
}

int hw_opts_init(struct hw_opts *o, const struct hw_command *cmd, struct hw_error *err)
{
    *o = (struct hw_opts){0};
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!(def->commands & 1ull << cmd->id) || !def->default_text)
            continue;
        int rc = set_value(def, &o->v[i], def->default_text, err);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

void hw_opts_done(struct hw_opts *o)
{
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        for (size_t k = 0; k < o->v[i].list.n; k++)
            free(o->v[i].list.v[k]);
        hw_vec_done(&o->v[i].list);
    }
    for (size_t i = 0; i < o->kept.n; i++)
        free(o->kept.v[i]);
    hw_vec_done(&o->kept);
    free(o->args);
    *o = (struct hw_opts){0};
}

/* ---- the walk over argv ---- */

int hw_option_find(const struct hw_command *cmd, const char *name, size_t len, bool prefix)
{
    int found = HW_ENOTFOUND;
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (cmd && !(def->commands & 1ull << cmd->id))
            continue;
        if (strncmp(def->name, name, len) != 0)
            continue;
        if (def->name[len] == 0)
            return i;
        if (!prefix || (def->flags & HW_OF_HIDDEN))
            continue;
        found = found >= 0 || found == HW_ELIMIT ? HW_ELIMIT : i;
    }
    return found;
}

static int find_short(const struct hw_command *cmd, char c)
{
    for (int i = 0; i < HW_OPT_COUNT; i++)
        if (hw_options[i].short_name == c && (hw_options[i].commands & 1ull << cmd->id))
            return i;
    return HW_ENOTFOUND;
}

struct walk {
    struct hw_opts *o;
    const struct hw_command *cmd;
    int argc, i;
    char **argv;
};

static const char *const from_command_line = "command line";

static int set_named(struct walk *w, int id, const char *shown, const char *value,
                     struct hw_error *err)
{
    int rc = hw_opts_set(w->o, (enum hw_option_id)id, value, from_command_line, err);
    if (rc < 0)
        hw_error_prefix(err, "option %s", shown);
    return rc;
}

static int ambiguous(const struct walk *w, const char *word, size_t len, struct hw_error *err)
{
    char names[256] = "";
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!(def->commands & 1ull << w->cmd->id) || strncmp(def->name, word + 2, len) != 0)
            continue;
        size_t n = strlen(names);
        (void)snprintf(names + n, sizeof names - n, " --%s", def->name); /* cut is fine */
    }
    return hw_fail(err, HW_EINVAL, 0, "option '%.*s' is ambiguous:%s", (int)len + 2, word, names);
}

static int unknown_long(const struct walk *w, const char *word, size_t len, struct hw_error *err)
{
    char name[64];
    const char *known[HW_OPT_COUNT];
    size_t n = 0;
    (void)snprintf(name, sizeof name, "%.*s", (int)len, word + 2); /* longer ones never match */
    for (int i = 0; i < HW_OPT_COUNT; i++)
        if ((hw_options[i].commands & 1ull << w->cmd->id) && !(hw_options[i].flags & HW_OF_HIDDEN))
            known[n++] = hw_options[i].name;
    const char *near = hw_did_you_mean(name, known, n);
    if (near)
        return hw_fail(err, HW_EINVAL, 0, "unknown option '--%s'; did you mean '--%s'?", name,
                       near);
    return hw_fail(err, HW_EINVAL, 0, "unknown option '--%s'", name);
}

static int parse_long(struct walk *w, struct hw_error *err)
{
    const char *word = w->argv[w->i];
    size_t len = strcspn(word + 2, "=");
    const char *value = word[2 + len] ? word + 2 + len + 1 : NULL;
    int id = hw_option_find(w->cmd, word + 2, len, /* prefix = */ true);
    if (id == HW_ELIMIT)
        return ambiguous(w, word, len, err);
    if (id < 0)
        return unknown_long(w, word, len, err);
    const struct hw_option *def = &hw_options[id];
    char shown[80];
    (void)snprintf(shown, sizeof shown, "--%s", def->name); /* our own names fit */
    if (!def->arg) {
        if (value)
            return hw_fail(err, HW_EINVAL, 0, "option %s takes no value", shown);
        return set_named(w, id, shown, "1", err);
    }
    if (!value && (def->flags & HW_OF_OPTIONAL))
        value = def->default_text;
    if (!value) {
        if (w->i + 1 >= w->argc)
            return hw_fail(err, HW_EINVAL, 0, "option %s needs a value (%s)", shown, def->arg);
        value = w->argv[++w->i];
    }
    return set_named(w, id, shown, value, err);
}

static int parse_cluster(struct walk *w, struct hw_error *err)
{
    for (const char *p = w->argv[w->i] + 1; *p; p++) {
        int id = find_short(w->cmd, *p);
        if (id < 0)
            return hw_fail(err, HW_EINVAL, 0, "unknown option '-%c'",
                           isprint((unsigned char)*p) ? *p : '?');
        const struct hw_option *def = &hw_options[id];
        char shown[] = {'-', *p, 0};
        if (!def->arg) {
            int rc = set_named(w, id, shown, "1", err);
            if (rc < 0)
                return rc;
            continue;
        }
        if (p[1])
            return set_named(w, id, shown, p + 1, err);
        if (w->i + 1 >= w->argc)
            return hw_fail(err, HW_EINVAL, 0, "option %s needs a value (%s)", shown, def->arg);
        return set_named(w, id, shown, w->argv[++w->i], err);
    }
    return HW_OK;
}

int hw_opts_parse(struct hw_opts *o, const struct hw_command *cmd, int argc, char **argv,
                  struct hw_error *err)
{
    struct walk w = {.o = o, .cmd = cmd, .argc = argc, .argv = argv};
    o->args = calloc((size_t)argc + 1, sizeof *o->args);
    if (!o->args)
        return hw_fail(err, HW_ENOMEM, 0, "command line");
    bool ended = false;
    for (w.i = 1; w.i < argc; w.i++) {
        char *word = argv[w.i];
        int rc = HW_OK;
        if (ended || word[0] != '-' || word[1] == 0) {
            o->args[o->n_args++] = word;
            ended |= (cmd->flags & HW_CF_WORD_ENDS) != 0;
        } else if (strcmp(word, "--") == 0) {
            ended = o->had_dashes = true;
            o->n_before_dashes = o->n_args;
        } else if (word[1] == '-') {
            rc = parse_long(&w, err);
        } else {
            rc = parse_cluster(&w, err);
        }
        if (rc < 0)
            return rc;
    }
    if (!o->had_dashes)
        o->n_before_dashes = o->n_args;
    return HW_OK;
}
