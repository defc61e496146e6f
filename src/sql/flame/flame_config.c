#include "sql/flame/flame_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

static const char config_type[] = "hw_flame_config";
static const char function[] = "__intrinsic_flamegraph_config";

static void config_free(void *p)
{
    struct hw_flame_config *c = p;
    if (!c)
        return;
    hw_pattern_free(c->view_pattern);
    for (size_t i = 0; i < c->filters.n; i++)
        hw_pattern_free(c->filters.v[i].pattern);
    for (size_t i = 0; i < c->groupings.n; i++)
        free(c->groupings.v[i]);
    for (size_t i = 0; i < c->values.n; i++)
        free(c->values.v[i]);
    for (size_t i = 0; i < c->aggregates.n; i++)
        free(c->aggregates.v[i].column);
    hw_vec_done(&c->filters);
    hw_vec_done(&c->groupings);
    hw_vec_done(&c->values);
    hw_vec_done(&c->aggregates);
    free(c);
}

const struct hw_flame_config *hw_flame_config_of(sqlite3_value *value)
{
    return sqlite3_value_pointer(value, config_type);
}

/* The index of text in words; -1 with an error text. */
static int find_word(const char *text, const char *const *words, size_t n, struct hw_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0)
            return (int)i;
    return hw_fail(err, HW_EINVAL, 0, "%s: unknown word '%.80s'", function, text);
}

static int pattern_of(const char *const *values, struct hw_pattern **out, struct hw_error *err)
{
    struct hw_strbuf text = {0};
    const char *flags = values[1];
    *out = NULL;
    if (strcmp(flags, "") != 0 && strcmp(flags, "i") != 0)
        return hw_fail(err, HW_EINVAL, 0, "%s: flags are '' or 'i', not '%.20s'", function, flags);
    if (!values[0][0])
        return HW_OK;
    hw_strbuf_addf(&text, "/%s/%s", values[0], flags);
    int rc = text.failed ? HW_ENOMEM : hw_pattern_new(text.p, out, err);
    hw_strbuf_done(&text);
    return rc;
}

static int parse_view(struct hw_flame_config *c, const char *const *values, struct hw_error *err)
{
    static const char *const words[] = {"TOP_DOWN", "FROM_FRAME", "BOTTOM_UP", "PIVOT"};
    int view = find_word(values[0], words, HW_ARRAY_LEN(words), err);
    if (view >= 0)
        c->view = (enum hw_forest_view)view;
    return view < 0 ? view : HW_OK;
}

static int parse_view_pattern(struct hw_flame_config *c, const char *const *values,
                              struct hw_error *err)
{
    if (c->has_view_pattern)
        return hw_fail(err, HW_EINVAL, 0, "%s: a second view_pattern", function);
    c->has_view_pattern = true;
    return pattern_of(values, &c->view_pattern, err);
}

static int parse_filter(struct hw_flame_config *c, const char *const *values, struct hw_error *err)
{
    static const char *const words[] = {"SHOW_STACK", "HIDE_STACK", "HIDE_FRAME"};
    struct hw_flame_filter f = {0};
    int kind = find_word(values[0], words, HW_ARRAY_LEN(words), err);
    if (kind < 0)
        return kind;
    f.kind = (enum hw_flame_filter_kind)kind;
    int rc = pattern_of(values + 1, &f.pattern, err);
    if (rc == HW_OK && hw_vec_push(&c->filters, f) < 0) {
        hw_pattern_free(f.pattern);
        rc = HW_ENOMEM;
    }
    size_t n_shows = 0;
    for (size_t i = 0; i < c->filters.n; i++)
        n_shows += c->filters.v[i].kind == HW_FLAME_SHOW_STACK;
    if (n_shows > HW_FLAME_MAX_SHOWS)
        return hw_fail(err, HW_ELIMIT, 0, "%s: more than %d filters SHOW_STACK", function,
                       HW_FLAME_MAX_SHOWS);
    return rc;
}

static int parse_grouping(struct hw_flame_config *c, const char *const *values,
                          struct hw_error *err)
{
    (void)err;
    char *copy = strdup(values[0]);
    if (copy && hw_vec_push(&c->groupings, copy) == 0)
        return HW_OK;
    free(copy);
    return HW_ENOMEM;
}

static int parse_value(struct hw_flame_config *c, const char *const *values, struct hw_error *err)
{
    (void)err;
    char *copy = strdup(values[0]);
    if (copy && hw_vec_push(&c->values, copy) == 0)
        return HW_OK;
    free(copy);
    return HW_ENOMEM;
}

static int parse_aggregate(struct hw_flame_config *c, const char *const *values,
                           struct hw_error *err)
{
    static const char *const words[] = {"SUM", "ONE_OR_SUMMARY", "CONCAT_WITH_COMMA"};
    int kind = find_word(values[0], words, HW_ARRAY_LEN(words), err);
    if (kind < 0)
        return kind;
    if (strcmp(values[1], values[2]) != 0)
        return hw_fail(err, HW_EINVAL, 0, "%s: '%.80s' cannot be shown as '%.80s'", function,
                       values[1], values[2]);
    struct hw_flame_aggregate a = {(enum hw_flame_aggregate_kind)kind, strdup(values[1])};
    if (a.column && hw_vec_push(&c->aggregates, a) == 0)
        return HW_OK;
    free(a.column);
    return HW_ENOMEM;
}

enum { MAX_VALUES = 3 };

static const struct {
    const char *name;
    int n_values;
    int (*parse)(struct hw_flame_config *c, const char *const *values, struct hw_error *err);
} keys[] = {
    {"view", 1, parse_view},     {"view_pattern", 2, parse_view_pattern},
    {"filter", 3, parse_filter}, {"grouping", 1, parse_grouping},
    {"value", 1, parse_value},   {"aggregate", 3, parse_aggregate},
};

static int parse_key(struct hw_flame_config *c, int argc, sqlite3_value **argv, int *at,
                     struct hw_error *err)
{
    const char *values[MAX_VALUES], *key = (const char *)sqlite3_value_text(argv[*at]);
    size_t k = 0;
    while (key && k < HW_ARRAY_LEN(keys) && strcmp(keys[k].name, key) != 0)
        k++;
    if (!key || k == HW_ARRAY_LEN(keys))
        return hw_fail(err, HW_EINVAL, 0, "%s: unknown key '%.80s'", function, key ? key : "NULL");
    if (argc - *at - 1 < keys[k].n_values)
        return hw_fail(err, HW_EINVAL, 0, "%s: '%s' takes %d values", function, key,
                       keys[k].n_values);
    for (int i = 0; i < keys[k].n_values; i++) {
        values[i] = (const char *)sqlite3_value_text(argv[*at + 1 + i]);
        if (!values[i])
            return hw_fail(err, HW_EINVAL, 0, "%s: a value of '%s' is NULL", function, key);
    }
    *at += 1 + keys[k].n_values;
    return keys[k].parse(c, values, err);
}

static int check(const struct hw_flame_config *c, struct hw_error *err)
{
    bool needs_pattern = c->view == HW_FOREST_FROM_FRAME || c->view == HW_FOREST_PIVOT;
    if (needs_pattern != c->has_view_pattern)
        return hw_fail(err, HW_EINVAL, 0, "%s: PIVOT and FROM_FRAME%s view_pattern", function,
                       needs_pattern ? " need a" : ", and only they, have a");
    if (c->values.n == 0)
        return hw_fail(err, HW_EINVAL, 0, "%s: no 'value'", function);
    return HW_OK;
}

static void make_config(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_error err = {0};
    struct hw_flame_config *c = calloc(1, sizeof *c);
    int rc = c ? HW_OK : HW_ENOMEM;
    for (int at = 0; rc == HW_OK && at < argc;)
        rc = parse_key(c, argc, argv, &at, &err);
    if (rc == HW_OK)
        rc = check(c, &err);
    if (rc == HW_OK) {
        sqlite3_result_pointer(ctx, c, config_type, config_free);
        return;
    }
    config_free(c);
    if (rc == HW_ENOMEM)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_error(ctx, err.text, -1);
}

int hw_sql_add_flame_config(sqlite3 *db)
{
    return sqlite3_create_function_v2(db, function, -1, SQLITE_UTF8, NULL, make_config, NULL, NULL,
                                      NULL) == SQLITE_OK
               ? HW_OK
               : HW_ENOMEM;
}
