/*
 * SQL functions that need the model: extract_arg, stacks as values, EXPERIMENTAL_PROFILE.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "sql/engine.h"
#include "sql/stack_profile.h"

#include "base/banned.h"

enum { MAX_TYPES = 16 };

static void fail(sqlite3_context *ctx, int rc, const char *text)
{
    if (rc == HW_ENOMEM)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_error(ctx, text, -1);
}

/* ---- args ---- */

static size_t first_of_set(const struct hw_args *args, int64_t set)
{
    return HW_LOWER_BOUND(mid, 0, args->rows.n, args->rows.v[mid].set < set);
}

static void set_arg(sqlite3_context *ctx, const struct hw_profile *p, const struct hw_arg_row *r)
{
    struct hw_bytes text;
    switch (r->type) {
    case HW_ARG_INT:
    case HW_ARG_UINT:
    case HW_ARG_BOOL:
        sqlite3_result_int64(ctx, r->number);
        break;
    case HW_ARG_REAL:
        sqlite3_result_double(ctx, r->real);
        break;
    case HW_ARG_STRING:
        text = hw_strings_get(hw_callsites_strings(p->callsites), r->text);
        sqlite3_result_text64(ctx, text.n ? (const char *)text.p : "", text.n, SQLITE_STATIC,
                              SQLITE_UTF8);
        break;
    }
}

static void extract_arg(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_profile *p = ((const struct hw_sql *)sqlite3_user_data(ctx))->profile;
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL || sqlite3_value_type(argv[1]) == SQLITE_NULL)
        return;
    if (sqlite3_value_numeric_type(argv[0]) != SQLITE_INTEGER) {
        sqlite3_result_error(ctx, "extract_arg: the first argument is an arg_set_id", -1);
        return;
    }
    int64_t set = sqlite3_value_int64(argv[0]);
    const void *key = sqlite3_value_text(argv[1]);
    struct hw_bytes want = hw_bytes_of(key, (size_t)sqlite3_value_bytes(argv[1]));
    for (size_t i = first_of_set(&p->args, set); i < p->args.rows.n; i++) {
        const struct hw_arg_row *r = &p->args.rows.v[i];
        if (r->set != set)
            break;
        if (hw_bytes_equal(hw_strings_get(hw_callsites_strings(p->callsites), r->key), want)) {
            set_arg(ctx, p, r);
            return;
        }
    }
}

/* ---- stacks ---- */

static void set_stack(sqlite3_context *ctx, struct hw_strbuf *stack)
{
    if (stack->failed)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_blob64(ctx, stack->n ? stack->p : "", stack->n, SQLITE_TRANSIENT);
    hw_strbuf_done(stack);
}

/* Concatenates, root first: blobs are stacks, texts become frames, NULLs are skipped. */
static void cat_stacks(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_strbuf stack = {0};
    for (int i = 0; i < argc; i++) {
        const void *p = sqlite3_value_blob(argv[i]);
        struct hw_bytes b = hw_bytes_of(p, (size_t)sqlite3_value_bytes(argv[i]));
        switch (sqlite3_value_type(argv[i])) {
        case SQLITE_NULL:
            break;
        case SQLITE_TEXT:
            hw_stack_put_name(&stack, b);
            break;
        case SQLITE_BLOB:
            if (hw_stack_is_valid(b)) {
                hw_strbuf_add(&stack, b.p, b.n);
                break;
            } /* fall through */
        default:
            hw_strbuf_done(&stack);
            sqlite3_result_error(ctx, "CAT_STACKS: an argument is neither a stack nor a text", -1);
            return;
        }
    }
    set_stack(ctx, &stack);
}

/* False: the result, NULL or an error, is set. */
static bool read_callsite(sqlite3_context *ctx, sqlite3_value *value, const char *name,
                          hw_callsite_id *out)
{
    const struct hw_profile *p = ((const struct hw_sql *)sqlite3_user_data(ctx))->profile;
    int64_t id = sqlite3_value_int64(value);
    if (sqlite3_value_type(value) == SQLITE_NULL)
        return false;
    if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER || id < 0 ||
        (uint64_t)id >= hw_callsites_count(p->callsites)) {
        char *text = sqlite3_mprintf("%s: there is no such callsite", name);
        sqlite3_result_error(ctx, text ? text : name, -1);
        sqlite3_free(text);
        return false;
    }
    out->v = (uint32_t)id;
    return true;
}

static void stack_from_callsite(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_strbuf stack = {0};
    hw_callsite_id id;
    if (!read_callsite(ctx, argv[0], "STACK_FROM_STACK_PROFILE_CALLSITE", &id))
        return;
    hw_stack_put_callsite(&stack, id, argc > 1 && sqlite3_value_int(argv[1]));
    set_stack(ctx, &stack);
}

static void callsite_annotation(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    hw_callsite_id id;
    (void)argc;
    if (!read_callsite(ctx, argv[0], "_callsite_annotation", &id))
        return;
    const char *text = hw_callsite_annotation(s->profile, id);
    if (text)
        sqlite3_result_text(ctx, text, -1, SQLITE_STATIC);
    else
        sqlite3_result_error_nomem(ctx);
}

/* ---- EXPERIMENTAL_PROFILE(stack [, type, unit, value]...) ---- */

struct aggregate {
    struct hw_stack_profile *profile; /* NULL: no row yet */
};

static int begin_profile(const struct hw_profile *p, int argc, sqlite3_value **argv,
                         struct hw_stack_profile **out)
{
    struct hw_stack_sample_type types[MAX_TYPES] = {
        {hw_bytes_str("samples"), hw_bytes_str("count")}};
    size_t n = argc == 1 ? 1 : (size_t)(argc - 1) / 3;
    for (size_t i = 0; argc > 1 && i < n; i++) {
        sqlite3_value *type = argv[1 + 3 * i], *unit = argv[2 + 3 * i];
        types[i].type = hw_bytes_of(sqlite3_value_text(type), (size_t)sqlite3_value_bytes(type));
        types[i].unit = hw_bytes_of(sqlite3_value_text(unit), (size_t)sqlite3_value_bytes(unit));
    }
    return hw_stack_profile_new(p, types, n, out);
}

static void profile_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    struct aggregate *a = sqlite3_aggregate_context(ctx, sizeof *a);
    int64_t values[MAX_TYPES] = {1};
    if (!a) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    if (argc == 0 || argc > 1 + 3 * MAX_TYPES || (argc - 1) % 3 != 0) {
        sqlite3_result_error(
            ctx, "EXPERIMENTAL_PROFILE(stack [, type, unit, value]...): wrong arguments", -1);
        return;
    }
    int rc = a->profile ? HW_OK : begin_profile(s->profile, argc, argv, &a->profile);
    for (int i = 0; argc > 1 && i < (argc - 1) / 3; i++)
        values[i] = sqlite3_value_int64(argv[3 + 3 * i]);
    if (rc == HW_OK && sqlite3_value_type(argv[0]) != SQLITE_NULL) {
        const void *p = sqlite3_value_blob(argv[0]);
        bool is_stack = sqlite3_value_type(argv[0]) == SQLITE_BLOB;
        rc = is_stack ? hw_stack_profile_add(a->profile,
                                             hw_bytes_of(p, (size_t)sqlite3_value_bytes(argv[0])),
                                             values)
                      : HW_EFORMAT;
    }
    if (rc < 0)
        fail(ctx, rc, "EXPERIMENTAL_PROFILE: the first argument is not a stack");
}

static void profile_final(sqlite3_context *ctx)
{
    struct aggregate *a = sqlite3_aggregate_context(ctx, 0);
    struct hw_strbuf out = {0};
    if (!a || !a->profile)
        return; /* no rows: NULL */
    int rc = hw_stack_profile_write(a->profile, &out);
    if (rc < 0)
        fail(ctx, rc, "EXPERIMENTAL_PROFILE: too large");
    else
        sqlite3_result_blob64(ctx, out.p, out.n, SQLITE_TRANSIENT);
    hw_strbuf_done(&out);
    hw_stack_profile_free(a->profile);
    a->profile = NULL;
}

int hw_sql_add_functions(struct hw_sql *s)
{
    enum { PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };
    static const struct {
        const char *name;
        int n_args;
        void (*fn)(sqlite3_context *ctx, int argc, sqlite3_value **argv);
    } functions[] = {
        {"extract_arg", 2, extract_arg},
        {"cat_stacks", -1, cat_stacks},
        {"stack_from_stack_profile_callsite", 1, stack_from_callsite},
        {"stack_from_stack_profile_callsite", 2, stack_from_callsite},
        {"_callsite_annotation", 1, callsite_annotation},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(functions); i++)
        if (sqlite3_create_function_v2(s->db, functions[i].name, functions[i].n_args, PURE, s,
                                       functions[i].fn, NULL, NULL, NULL) != SQLITE_OK)
            return HW_ENOMEM;
    return sqlite3_create_function_v2(s->db, "experimental_profile", -1, PURE, s, NULL,
                                      profile_step, profile_final, NULL) == SQLITE_OK
               ? HW_OK
               : HW_ENOMEM;
}
