/*
 * __intrinsic_heap_graph_array(array_data_id): the elements as in memory, in this machine's byte
 * order; __intrinsic_heap_graph_array_json(array_data_id): a JSON array. Booleans are true and
 * false; longs are strings, as JavaScript's numbers have 53 bits. NULL for unknown ids and for
 * contents that were not kept (long arrays, or many: heap_graph.h).
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"

#include "base/banned.h"

enum { PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };

static const struct hw_heap_data *data_of(const struct hw_profile *p, sqlite3_value *value,
                                          const struct hw_heap_graph **graph)
{
    int64_t id = sqlite3_value_int64(value);
    if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER || id < 0)
        return NULL;
    for (size_t i = 0; i < p->graphs.n; i++) {
        const struct hw_heap_graph *g = p->graphs.v[i];
        if (id < g->first_object || id - g->first_object >= g->n_objects || !g->data_of)
            continue;
        uint32_t d = g->data_of[id - g->first_object];
        *graph = g;
        return d != HW_ID_NONE && g->data.v[d].has_contents ? &g->data.v[d] : NULL;
    }
    return NULL;
}

static void array(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    const struct hw_heap_graph *g;
    const struct hw_heap_data *d = data_of(s->profile, argv[0], &g);
    (void)argc;
    if (d)
        sqlite3_result_blob64(
            ctx, d->contents_bytes ? (const void *)(g->contents.v + d->contents_at) : "",
            d->contents_bytes, SQLITE_STATIC);
}

static void put_real(struct hw_strbuf *out, double d, int digits)
{
    if (isfinite(d))
        hw_strbuf_addf(out, "%.*g", digits, d);
    else
        hw_strbuf_adds(out, "null"); /* JSON has no NaN or infinity */
}

#define AS(type)                                                                                   \
    type v;                                                                                        \
    memcpy(&v, p, sizeof v)

static void put_boolean(struct hw_strbuf *out, const uint8_t *p)
{
    hw_strbuf_adds(out, *p ? "true" : "false");
}

static void put_byte(struct hw_strbuf *out, const uint8_t *p)
{
    AS(int8_t);
    hw_strbuf_addf(out, "%d", v);
}

static void put_char(struct hw_strbuf *out, const uint8_t *p)
{
    AS(uint16_t);
    hw_strbuf_addf(out, "%u", v);
}

static void put_short(struct hw_strbuf *out, const uint8_t *p)
{
    AS(int16_t);
    hw_strbuf_addf(out, "%d", v);
}

static void put_int(struct hw_strbuf *out, const uint8_t *p)
{
    AS(int32_t);
    hw_strbuf_addf(out, "%d", v);
}

static void put_long(struct hw_strbuf *out, const uint8_t *p)
{
    AS(int64_t);
    hw_strbuf_addf(out, "\"%lld\"", (long long)v);
}

static void put_float(struct hw_strbuf *out, const uint8_t *p)
{
    AS(float);
    put_real(out, (double)v, 9);
}

static void put_double(struct hw_strbuf *out, const uint8_t *p)
{
    AS(double);
    put_real(out, v, 17);
}

static const struct element {
    const char *type;
    size_t width;
    void (*put)(struct hw_strbuf *out, const uint8_t *p);
} elements[] = {
    {"boolean", 1, put_boolean}, {"byte", 1, put_byte},     {"char", 2, put_char},
    {"short", 2, put_short},     {"int", 4, put_int},       {"long", 8, put_long},
    {"float", 4, put_float},     {"double", 8, put_double},
};

static void array_json(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    const struct hw_heap_graph *g;
    const struct hw_heap_data *d = data_of(s->profile, argv[0], &g);
    struct hw_strbuf out = {0};
    size_t i = 0;
    (void)argc;
    if (!d)
        return;
    const char *type =
        hw_strings_cstr(hw_callsites_strings(s->profile->callsites), d->element_type);
    while (i < HW_ARRAY_LEN(elements) && strcmp(elements[i].type, type) != 0)
        i++;
    if (i == HW_ARRAY_LEN(elements))
        return;
    hw_strbuf_addc(&out, '[');
    for (size_t at = 0; at + elements[i].width <= d->contents_bytes; at += elements[i].width) {
        hw_strbuf_adds(&out, at ? "," : "");
        elements[i].put(&out, g->contents.v + d->contents_at + at);
    }
    hw_strbuf_addc(&out, ']');
    if (out.failed)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_text64(ctx, out.p, out.n, SQLITE_TRANSIENT, SQLITE_UTF8);
    hw_strbuf_done(&out);
}

int hw_sql_add_array_functions(struct hw_sql *s)
{
    if (sqlite3_create_function_v2(s->db, "__intrinsic_heap_graph_array", 1, PURE, s, array, NULL,
                                   NULL, NULL) != SQLITE_OK ||
        sqlite3_create_function_v2(s->db, "__intrinsic_heap_graph_array_json", 1, PURE, s,
                                   array_json, NULL, NULL, NULL) != SQLITE_OK)
        return HW_ENOMEM;
    return HW_OK;
}
