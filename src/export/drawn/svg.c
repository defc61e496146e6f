/*
 * A flamegraph as one SVG file: root at the bottom, widths by one metric. Each frame is
 *
 *     <g class="f" data-n="name"><title>name (module) 1.2 MiB, 3.4%</title><rect …/><text/></g>
 *
 * so that figures and text show without scripts; svg.js adds zoom and search. Frames narrower than
 * a tenth of a point would be invisible: they are left out, and a line says how many.
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "export/embedded.h"
#include "export/export.h"
#include "export/figures.h"
#include "export/markup.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

enum { WIDTH = 1200, PAD = 10, HEAD = 56, FOOT = 40, ROW = 17 };
static const double min_width = 0.1;

struct svg {
    const struct hw_export_input *in;
    struct hw_stacks stacks;
    double *x;            /* by node: left edge in points */
    struct hw_strbuf out; /* of one frame */
    struct hw_strbuf name, module;
    double total;
    uint32_t n_rows;
    size_t n_left_out;
};

static double value_of(const struct svg *s, uint32_t node)
{
    struct hw_value v = hw_export_value(s->in, hw_flame_total(&s->stacks.tree, node));
    double x = (double)hw_value_get(&v, s->in->metric);
    return x > 0 ? x : 0;
}

static double width_of(const struct svg *s, uint32_t node)
{
    return s->total > 0 ? value_of(s, node) / s->total * (WIDTH - 2 * PAD) : 0;
}

/* Left edges: siblings are placed side by side from their parent's edge, in the tree's order. */
static int lay_out(struct svg *s)
{
    const struct hw_flame *t = &s->stacks.tree;
    s->x = calloc(t->v.n, sizeof *s->x);
    if (!s->x)
        return HW_ENOMEM;
    s->total = value_of(s, 0);
    s->x[0] = PAD;
    for (uint32_t i = 0; i < t->v.n; i++) {
        double at = s->x[i];
        if (width_of(s, i) >= min_width && t->v.v[i].depth >= s->n_rows)
            s->n_rows = t->v.v[i].depth + 1;
        for (uint32_t c = t->v.v[i].first_child; c != HW_ID_NONE; c = t->v.v[c].next_sibling) {
            s->x[c] = at;
            at += width_of(s, c);
        }
    }
    return HW_OK;
}

/* A hue for each module, which makes the borders between libraries visible. */
static void put_colour(struct svg *s, const struct hw_function *fn)
{
    uint64_t h = hw_hash_u64(fn ? fn->module.v + 1 : 0), f = hw_hash_u64(fn ? fn->name.v : 0);
    unsigned r = 60 + (unsigned)(h % 150), g = 170 + (unsigned)(f % 60);
    unsigned b = 70 + (unsigned)(h >> 20) % 90;
    if (fn && fn->kind == HW_FUNCTION_ALLOCATOR)
        r = g = b = 190 + (unsigned)(f % 30);
    hw_strbuf_addf(&s->out, "rgb(%u,%u,%u)", r, g, b);
}

static void put_names(struct svg *s, const struct hw_function *fn, const struct hw_function_at *at)
{
    struct hw_strbuf label = {0}, where = {0};
    hw_strbuf_clear(&s->name);
    hw_strbuf_clear(&s->module);
    if (!fn) {
        hw_strbuf_adds(&s->name, "all");
        return;
    }
    hw_program_where(&s->stacks.program, &where, s->in->profile->callsites, fn, at);
    hw_program_label(&s->stacks.program, &label, s->in->profile->callsites, fn, s->in->namer);
    hw_markup_add(&s->name, hw_bytes_of(label.p, label.n));
    hw_markup_add(&s->module, hw_bytes_of(where.p, where.n));
    s->name.failed |= label.failed || where.failed;
    hw_strbuf_done(&label);
    hw_strbuf_done(&where);
}

static void put_frame(struct svg *s, uint32_t node)
{
    const struct hw_flame_node *n = &s->stacks.tree.v.v[node];
    const struct hw_function *fn =
        n->function == HW_ID_NONE ? NULL : hw_functions_get(s->stacks.functions, n->function);
    struct hw_value v = hw_export_value(s->in, hw_flame_total(&s->stacks.tree, node));
    char figure[HW_FIGURE_MAX];
    double y = HEAD + (double)(s->n_rows - 1 - n->depth) * ROW;
    put_names(s, fn, fn ? &s->stacks.places[n->function] : NULL);
    hw_strbuf_clear(&s->out);
    hw_strbuf_addf(&s->out, "<g class=\"f\" data-n=\"%s\"><title>%s", s->name.p, s->name.p);
    if (s->module.n)
        hw_strbuf_addf(&s->out, " (%s)", s->module.p);
    hw_figure_with_error(figure, &v, s->in->metric, s->in->interval_bytes);
    hw_strbuf_addf(&s->out, " %s, %.2f%%</title>", figure,
                   s->total > 0 ? 100 * value_of(s, node) / s->total : 0);
    hw_strbuf_addf(&s->out,
                   "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" rx=\"1\" fill=\"",
                   s->x[node], y, width_of(s, node), ROW - 1);
    put_colour(s, fn);
    hw_strbuf_addf(&s->out, "\"/><text x=\"%.2f\" y=\"%.1f\">", s->x[node] + 3, y + 12);
    /* Without scripts a name is shown only where all of it fits. */
    if ((double)s->name.n * 6.6 + 6 < width_of(s, node))
        hw_strbuf_add(&s->out, s->name.p, s->name.n);
    hw_strbuf_adds(&s->out, "</text></g>\n");
}

static void put_head(struct svg *s, FILE *out)
{
    double height = HEAD + (double)s->n_rows * ROW + FOOT;
    struct hw_strbuf title = {0};
    hw_export_title(s->in, &title);
    hw_strbuf_clear(&s->name);
    hw_markup_add(&s->name, hw_bytes_of(title.p, title.n));
    s->name.failed |= title.failed;
    hw_strbuf_done(&title);
    fprintf(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" height=\"%.0f\" "
        "viewBox=\"0 0 %d %.0f\">\n"
        "<style>text{font:12px monospace;fill:#111;pointer-events:none}"
        ".b{cursor:pointer;pointer-events:all;fill:#555}.f{cursor:pointer}"
        ".f:hover rect{stroke:#000;stroke-width:0.8}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#f6f8f4\"/>\n"
        "<text x=\"%d\" y=\"24\" text-anchor=\"middle\" style=\"font-size:16px\">%s</text>\n"
        "<text id=\"reset\" class=\"b\" x=\"%d\" y=\"24\" visibility=\"hidden\">reset zoom</text>\n"
        "<text id=\"search\" class=\"b\" x=\"%d\" y=\"24\" text-anchor=\"end\">search</text>\n"
        "<text id=\"found\" x=\"%d\" y=\"44\" text-anchor=\"end\"></text>\n"
        "<text id=\"info\" x=\"%d\" y=\"%.0f\"></text>\n",
        WIDTH, height, WIDTH, height, WIDTH / 2, s->name.p ? s->name.p : "", PAD, WIDTH - PAD,
        WIDTH - PAD, PAD, height - 10);
    if (s->n_left_out)
        fprintf(out, "<text x=\"%d\" y=\"44\">%zu frames below %.1f points are left out</text>\n",
                PAD, s->n_left_out, min_width);
}

static int put_all(struct svg *s, FILE *out)
{
    const struct hw_flame *t = &s->stacks.tree;
    int rc = lay_out(s);
    if (rc < 0)
        return rc;
    for (uint32_t i = 1; i < t->v.n; i++)
        s->n_left_out += width_of(s, i) < min_width;
    if (s->n_rows == 0)
        s->n_rows = 1;
    put_head(s, out);
    for (uint32_t i = 0; i < t->v.n; i++) {
        if (i && width_of(s, i) < min_width)
            continue;
        put_frame(s, i);
        (void)fwrite(s->out.p, 1, s->out.n, out); /* the stream remembers a failure */
    }
    fputs("<script><![CDATA[\n", out);
    (void)fwrite(hw_embedded_svg_js, 1, hw_embedded_svg_js_n, out);
    fputs("]]></script>\n</svg>\n", out);
    return s->out.failed || s->name.failed || s->module.failed ? HW_ENOMEM : HW_OK;
}

static int svg_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    struct svg s = {.in = in};
    int rc = hw_stacks_init(&s.stacks, in);
    if (rc == 0) {
        rc = put_all(&s, out);
        hw_stacks_done(&s.stacks);
    }
    free(s.x);
    hw_strbuf_done(&s.out);
    hw_strbuf_done(&s.name);
    hw_strbuf_done(&s.module);
    if (rc < 0)
        return hw_fail(err, rc, 0, "svg file:");
    return hw_export_finish(out, err);
}

const struct hw_exporter hw_export_svg = {
    .name = "svg",
    .summary = "flamegraph of one figure, with search and zoom, for browsers and documents",
    .extension = ".svg",
    .one_metric = true,
    .merged = true,
    .write = svg_write,
};
