/*
 * A self-contained page: page.html with the data as JSON and page.js inserted. The data are columns
 * indexed by node; node 0 is the root, parents come before children:
 *
 *     {"title", "note", "interval", "metric", "lacksVariances", "functions": [[name, module]…],
 *      "parent": […], "function": […], "self": [[space…], [objects…], [alloc_space…],
 *      [alloc_objects…], the variance of each, [samples…], [alloc_samples…]]}
 *
 * and where temporary allocations are known four more: [temporary_space…], [temporary_objects…], the variance of each.
 *
 * Every `<` in a string is written as \u003c, so that no name can end the script element. Above
 * MAX_NODES the smallest nodes are merged into their parents, and the page says how many.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "export/embedded.h"
#include "export/export.h"
#include "export/figures.h"
#include "export/markup.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

enum { MAX_NODES = 300000 }; /* about 20 MB */

struct page {
    const struct hw_export_input *in;
    struct hw_stacks stacks;
    uint32_t *id; /* by node: its number in the page, or that of the ancestor it was merged into */
    struct hw_value *self;
    uint32_t *parent, *function;
    size_t n, n_merged;
    FILE *out;
};

static double share_of(const struct page *pg, uint32_t node, enum hw_metric m)
{
    const struct hw_flame *t = &pg->stacks.tree;
    double all = (double)hw_value_get(hw_flame_total(t, 0), m);
    return all > 0 ? (double)hw_value_get(hw_flame_total(t, node), m) / all : 0;
}

/* The share in the metric in which the node is largest. */
static double largest_share(const struct page *pg, uint32_t node)
{
    double best = 0;
    for (int m = 0; m < HW_METRIC_USUAL; m++) /* the others are part of these */
        best = fmax(best, share_of(pg, node, (enum hw_metric)m));
    return best;
}

static double smallest_share(const struct page *pg)
{
    size_t n = pg->stacks.tree.v.n;
    for (double share = 1e-9;; share *= 2) {
        size_t kept = 0;
        for (uint32_t i = 0; n > MAX_NODES && i < n; i++)
            kept += largest_share(pg, i) >= share;
        if (kept <= MAX_NODES)
            return n > MAX_NODES ? share : 0;
    }
}

static int pick_nodes(struct page *pg)
{
    const struct hw_flame *t = &pg->stacks.tree;
    double share = smallest_share(pg);
    pg->id = calloc(t->v.n, sizeof *pg->id);
    pg->parent = calloc(t->v.n, sizeof *pg->parent);
    pg->function = calloc(t->v.n, sizeof *pg->function);
    pg->self = calloc(t->v.n, sizeof *pg->self);
    if (!pg->id || !pg->parent || !pg->function || !pg->self)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < t->v.n; i++) {
        uint32_t above = i ? pg->id[t->v.v[i].parent] : 0;
        if (i && largest_share(pg, i) < share) {
            pg->id[i] = above;
            pg->n_merged++;
        } else {
            pg->id[i] = (uint32_t)pg->n;
            pg->parent[pg->n] = above;
            pg->function[pg->n++] = t->v.v[i].function;
        }
        struct hw_value v = hw_export_value(pg->in, hw_flame_self(t, i));
        hw_value_add(&pg->self[pg->id[i]], &v);
    }
    return HW_OK;
}

/* ---- the data ---- */

static int write_escaped(void *ctx, const void *p, size_t n)
{
    const char *text = p;
    FILE *out = ctx;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '<')
            fputs("\\u003c", out);
        else
            fputc(text[i], out);
    }
    return ferror(out) ? HW_ESYS : HW_OK;
}

static int put_functions(struct page *pg, struct hw_json *j)
{
    const struct hw_callsites *cs = pg->in->profile->callsites;
    struct hw_strbuf label = {0}, shown = {0};
    hw_json_key(j, "functions");
    hw_json_begin_array(j);
    for (uint32_t i = 0; i < hw_functions_count(pg->stacks.functions); i++) {
        const struct hw_function *fn = hw_functions_get(pg->stacks.functions, i);
        hw_strbuf_clear(&label);
        hw_strbuf_clear(&shown);
        hw_program_label(&pg->stacks.program, &label, cs, fn, pg->in->namer);
        hw_visible_add(&shown, hw_bytes_of(label.p, label.n));
        hw_json_begin_array(j);
        hw_json_strn(j, shown.p, shown.n);
        hw_strbuf_clear(&shown);
        hw_strbuf_clear(&label);
        hw_program_where(&pg->stacks.program, &label, cs, fn, &pg->stacks.places[i]);
        hw_visible_add(&shown, hw_bytes_of(label.p, label.n));
        hw_json_strn(j, shown.p, shown.n);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    int rc = label.failed || shown.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&label);
    hw_strbuf_done(&shown);
    return rc;
}

static void put_variance(struct hw_json *j, const struct hw_value *v, enum hw_metric m)
{
    char six_digits[32];
    double variance = hw_value_variance(v, m);
    (void)snprintf(six_digits, sizeof six_digits, "%.6g", variance > 0 ? variance : 0);
    hw_json_double(j, strtod(six_digits, NULL));
}

static void put_metrics(const struct page *pg, struct hw_json *j, enum hw_metric first,
                        enum hw_metric end)
{
    for (enum hw_metric m = first; m < end; m++) {
        hw_json_begin_array(j);
        for (size_t i = 0; i < pg->n; i++)
            hw_json_int(j, hw_value_get(&pg->self[i], m));
        hw_json_end_array(j);
    }
    for (enum hw_metric m = first; m < end; m++) {
        hw_json_begin_array(j);
        for (size_t i = 0; i < pg->n; i++)
            put_variance(j, &pg->self[i], m);
        hw_json_end_array(j);
    }
}

static void put_samples(const struct page *pg, struct hw_json *j, enum hw_metric m)
{
    hw_json_begin_array(j);
    for (size_t i = 0; i < pg->n; i++)
        hw_json_int(j, hw_value_samples(&pg->self[i], m));
    hw_json_end_array(j);
}

static void put_columns(const struct page *pg, struct hw_json *j)
{
    hw_json_key(j, "parent");
    hw_json_begin_array(j);
    for (size_t i = 0; i < pg->n; i++)
        hw_json_uint(j, pg->parent[i]);
    hw_json_end_array(j);
    hw_json_key(j, "function");
    hw_json_begin_array(j);
    for (size_t i = 0; i < pg->n; i++)
        hw_json_int(j, i ? (int64_t)pg->function[i] : -1);
    hw_json_end_array(j);
    hw_json_key(j, "self");
    hw_json_begin_array(j);
    put_metrics(pg, j, 0, HW_METRIC_USUAL);
    put_samples(pg, j, HW_METRIC_SPACE);
    put_samples(pg, j, HW_METRIC_ALLOC_SPACE);
    put_metrics(pg, j, HW_METRIC_USUAL, hw_values_metrics(pg->in->values));
    hw_json_end_array(j);
}

static bool lacks_variances(const struct page *pg)
{
    for (size_t i = 0; i < pg->n; i++)
        if (pg->self[i].lacks_variances)
            return true;
    return false;
}

static int put_data(struct page *pg)
{
    struct hw_json j;
    struct hw_strbuf title = {0}, shown = {0}, note = {0};
    hw_export_title(pg->in, &title);
    hw_visible_add(&shown, hw_bytes_of(title.p, title.n));
    if (pg->n_merged)
        hw_strbuf_addf(&note,
                       "%zu of %zu frames, each below %.2g%% of every figure, count in the "
                       "frames above them.",
                       pg->n_merged, pg->stacks.tree.v.n, 100 * smallest_share(pg));
    hw_json_init(&j, write_escaped, pg->out, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_key(&j, "title");
    hw_json_strn(&j, shown.p, shown.n);
    hw_json_key(&j, "note");
    hw_json_strn(&j, note.p, note.n);
    hw_json_kv_uint(&j, "interval", pg->in->interval_bytes);
    hw_json_kv_int(&j, "metric", (int64_t)pg->in->metric);
    hw_json_kv_bool(&j, "lacksVariances", lacks_variances(pg));
    int rc = put_functions(pg, &j);
    put_columns(pg, &j);
    hw_json_end_object(&j);
    int written = hw_json_finish(&j);
    hw_json_done(&j);
    if (title.failed || shown.failed || note.failed)
        rc = HW_ENOMEM;
    hw_strbuf_done(&title);
    hw_strbuf_done(&shown);
    hw_strbuf_done(&note);
    return rc < 0 ? rc : written;
}

/* ---- the page ---- */

/* Writes the template up to the mark and returns the rest behind it. */
static struct hw_bytes put_until(struct hw_bytes page, const char *mark, FILE *out)
{
    size_t len = strlen(mark);
    const uint8_t *at = memmem(page.p, page.n, mark, len);
    size_t n = at ? (size_t)(at - page.p) : page.n;
    (void)fwrite(page.p, 1, n, out); /* the stream remembers a failure */
    return at ? hw_bytes_of(at + len, page.n - n - len) : hw_bytes_of(page.p + n, 0);
}

static int html_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    struct page pg = {.in = in, .out = out};
    struct hw_bytes rest = hw_bytes_of(hw_embedded_page_html, hw_embedded_page_html_n);
    int rc = hw_stacks_init(&pg.stacks, in);
    if (rc == 0) {
        rc = pick_nodes(&pg);
        rest = put_until(rest, "@DATA@", out);
        if (rc == 0)
            rc = put_data(&pg);
        rest = put_until(rest, "@SCRIPT@", out);
        (void)fwrite(hw_embedded_page_js, 1, hw_embedded_page_js_n, out);
        (void)fwrite(rest.p, 1, rest.n, out);
        hw_stacks_done(&pg.stacks);
    }
    free(pg.id);
    free(pg.parent);
    free(pg.function);
    free(pg.self);
    if (rc < 0 && rc != HW_ESYS)
        return hw_fail(err, rc, 0, "html page:");
    return hw_export_finish(out, err);
}

const struct hw_exporter hw_export_html = {
    .name = "html",
    .summary = "one page that needs no server: flamegraph and functions, all metrics",
    .extension = ".html",
    .merged = true,
    .write = html_write,
};
