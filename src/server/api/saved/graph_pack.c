#include "server/api/saved/graph_pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/saved/graph_arrays.h"

#include "base/banned.h"

#define ROUNDED 1e-12 /* relative rounding error of sums of doubles */

static void put_uint(struct hw_strbuf *out, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        hw_strbuf_addc(out, (char)(v | 128));
    hw_strbuf_addc(out, (char)v);
}

static void put_int(struct hw_strbuf *out, int64_t v)
{
    put_uint(out, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

static int put_texts(const struct hw_graph_arrays *g, const uint32_t *ids, uint32_t *known,
                     struct hw_strings *texts, struct hw_strbuf *out)
{
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t id = ids[i];
        if (!known[id]) {
            hw_str_id s;
            int rc = hw_strings_intern(texts, hw_graph_arrays_text(g, id), &s);
            if (rc < 0)
                return rc;
            known[id] = s.v + 1;
        }
        put_uint(out, known[id] - 1);
    }
    return HW_OK;
}

static bool are_whole(const double *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] < 0 || v[i] > 9007199254740991.0 || v[i] != floor(v[i]))
            return false;
    return true;
}

/* The values minus the sums of the children's. */
static void put_rest(const struct hw_graph_arrays *g, const double *v, double *rest,
                     struct hw_strbuf *out)
{
    memcpy(rest, v, g->n * sizeof *v);
    for (uint32_t i = 1; i < g->n; i++)
        rest[g->parent[i]] -= v[i];
    for (uint32_t i = 0; i < g->n; i++)
        put_int(out, (int64_t)rest[i]);
}

static void put_doubles(const double *v, uint32_t n, struct hw_strbuf *out)
{
    hw_strbuf_add(out, v, n * sizeof *v);
}

static void put_sides(const struct hw_graph_arrays *g, double *rest, struct hw_strbuf *out)
{
    bool whole = are_whole(g->a, g->n) && are_whole(g->b, g->n);
    hw_strbuf_addc(out, whole ? 0 : 1);
    for (int side = 0; side < 2; side++) {
        const double *v = side ? g->b : g->a;
        if (whole)
            put_rest(g, v, rest, out);
        else
            put_doubles(v, g->n, out);
    }
}

static bool is_same(const struct hw_graph_arrays *g, uint32_t i)
{
    return i + 1 < g->n && g->parent[i + 1] == (int32_t)i &&
           memcmp(&g->error[i], &g->error[i + 1], sizeof *g->error) == 0;
}

/* Grouped by significance, bytes compress better. */
static void put_errors(const struct hw_graph_arrays *g, struct hw_strbuf *out)
{
    for (uint32_t i = 0; i < g->n; i++)
        hw_strbuf_addc(out, is_same(g, i) ? 1 : 0);
    for (int shift = 56; shift >= 0; shift -= 8)
        for (uint32_t i = 0; i < g->n; i++) {
            uint64_t bits;
            memcpy(&bits, &g->error[i], sizeof bits);
            if (!is_same(g, i))
                hw_strbuf_addc(out, (char)(bits >> shift));
        }
}

/*
 * Squares of errors minus those of the children: most are 0, and sums over filtered nodes stay as
 * exact as each term. False: errors do not add up here (differences; a selected moment).
 */
static bool subtract_children(const struct hw_graph_arrays *g, double *rest)
{
    for (uint32_t i = 0; i < g->n; i++)
        rest[i] = g->error[i] * g->error[i];
    for (uint32_t i = 1; i < g->n; i++)
        rest[g->parent[i]] -= g->error[i] * g->error[i];
    for (uint32_t i = 0; i < g->n; i++) {
        if (isinf(g->error[i])) /* unknown */
            return false;
        if (fabs(rest[i]) <= ROUNDED * g->error[i] * g->error[i])
            rest[i] = 0;
        if (rest[i] < 0 || (rest[i] > 0 && g->self[i] <= 0))
            return false;
    }
    return true;
}

static void put_squares(const double *rest, uint32_t n, struct hw_strbuf *out)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        for (uint32_t i = 0; i < n; i++) {
            float share = (float)rest[i];
            uint32_t bits;
            memcpy(&bits, &share, sizeof bits);
            hw_strbuf_addc(out, (char)(bits >> shift));
        }
}

static void put_head(const struct hw_graph_arrays *g, struct hw_strbuf *out)
{
    const uint32_t head[] = {g->flags, g->n, g->deepest};
    hw_strbuf_add(out, head, sizeof head);
    hw_strbuf_add(out, g->figures, sizeof g->figures);
}

static int put_arrays(const struct hw_graph_arrays *g, struct hw_strings *texts, uint32_t *known,
                      double *rest, struct hw_strbuf *out)
{
    put_head(g, out);
    for (uint32_t i = 0; i < g->n; i++)
        put_uint(out, i ? i - (uint32_t)g->parent[i] : 0);
    int rc = put_texts(g, g->name, known, texts, out);
    if (rc == HW_OK)
        rc = put_texts(g, g->module, known, texts, out);
    for (uint32_t i = 0; i < g->n; i++)
        hw_strbuf_addc(out, (char)g->node_flags[i]);
    bool whole = are_whole(g->self, g->n);
    hw_strbuf_addc(out, whole ? 0 : 1);
    if (!whole)
        put_doubles(g->self, g->n, out);
    for (uint32_t i = 0; whole && i < g->n; i++)
        put_uint(out, (uint64_t)g->self[i]);
    double *samples = rest + g->n;
    for (uint32_t i = 0; i < g->n; i++)
        samples[i] = g->samples[i];
    put_rest(g, samples, rest, out);
    if (g->a)
        put_sides(g, rest, out);
    bool shared = !g->a && subtract_children(g, rest);
    hw_strbuf_addc(out, shared ? 0 : 1);
    if (shared)
        put_squares(rest, g->n, out);
    else
        put_errors(g, out);
    return rc;
}

int hw_graph_pack(struct hw_bytes graph, struct hw_strings *texts, struct hw_strbuf *out)
{
    struct hw_graph_arrays g;
    int rc = hw_graph_arrays_read(graph, &g);
    if (rc < 0)
        return rc;
    uint32_t *known = calloc((size_t)g.n_texts + 1, sizeof *known);
    double *rest = calloc(2 * (size_t)g.n, sizeof *rest);
    rc = known && rest ? put_arrays(&g, texts, known, rest, out) : HW_ENOMEM;
    free(known);
    free(rest);
    return rc < 0 ? rc : out->failed ? HW_ENOMEM : HW_OK;
}
