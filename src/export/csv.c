/*
 * One line per node of the merged stacks, parents before children, for spreadsheets and data frames
 * (RFC 4180): its number and its parent's, then its self and total values of all metrics. A
 * cell that a spreadsheet would take for a formula begins with an apostrophe: names are untrusted.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "export/export.h"
#include "export/markup.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

static void put_cell(struct hw_strbuf *line, struct hw_bytes text)
{
    struct hw_strbuf shown = {0};
    hw_visible_add(&shown, text);
    hw_strbuf_adds(line, ",\"");
    if (shown.n && strchr("=+-@", shown.p[0]))
        hw_strbuf_addc(line, '\'');
    for (size_t i = 0; i < shown.n; i++) {
        if (shown.p[i] == '"')
            hw_strbuf_addc(line, '"');
        hw_strbuf_addc(line, shown.p[i]);
    }
    hw_strbuf_addc(line, '"');
    line->failed |= shown.failed;
    hw_strbuf_done(&shown);
}

/* first, end: of the metrics. */
static void put_figures(struct hw_strbuf *line, const struct hw_export_input *in, int first,
                        int end, const struct hw_value *raw)
{
    struct hw_value v = hw_export_value(in, raw);
    for (int m = first; m < end; m++)
        hw_strbuf_addf(line, ",%lld", (long long)hw_value_get(&v, (enum hw_metric)m));
}

static void put_errors(struct hw_strbuf *line, const struct hw_export_input *in, int first, int end,
                       const struct hw_value *v)
{
    for (int m = first; m < end; m++) {
        double error = hw_figure_error(v, (enum hw_metric)m, in->interval_bytes);
        hw_strbuf_addc(line, ',');
        if (isfinite(error)) /* else it is unknown */
            hw_strbuf_addf(line, "%.0f", error);
    }
}

static void put_node(struct hw_strbuf *line, const struct hw_export_input *in,
                     const struct hw_stacks *s, uint32_t node, int metrics)
{
    const struct hw_flame_node *n = &s->tree.v.v[node];
    struct hw_bytes module = {0};
    struct hw_strbuf name = {0};
    hw_strbuf_addf(line, "%u,", node);
    if (node) {
        const struct hw_function *fn = hw_functions_get(s->functions, n->function);
        hw_strbuf_addf(line, "%u", n->parent);
        hw_function_label(&name, in->profile->callsites, fn, in->namer);
        module = hw_strings_get(hw_callsites_strings(in->profile->callsites), fn->module);
    } else {
        hw_strbuf_adds(&name, "all");
    }
    hw_strbuf_addf(line, ",%u", n->depth);
    put_cell(line, hw_bytes_of(name.p, name.n));
    put_cell(line, module);
    const struct hw_value *self = hw_flame_self(&s->tree, node);
    const struct hw_value *total = hw_flame_total(&s->tree, node);
    put_figures(line, in, 0, HW_METRIC_USUAL, self);
    put_figures(line, in, 0, HW_METRIC_USUAL, total);
    hw_strbuf_addf(line, ",%lld", (long long)total->samples);
    put_errors(line, in, 0, HW_METRIC_USUAL, total);
    put_figures(line, in, HW_METRIC_USUAL, metrics, self);
    put_figures(line, in, HW_METRIC_USUAL, metrics, total);
    put_errors(line, in, HW_METRIC_USUAL, metrics, total);
    hw_strbuf_adds(line, "\r\n");
    line->failed |= name.failed;
    hw_strbuf_done(&name);
}

static void put_names(const char *before, int first, int end, const char *behind, FILE *out)
{
    for (int m = first; m < end; m++)
        fprintf(out, ",%s%s%s", before, hw_metric_name((enum hw_metric)m), behind);
}

static int put_nodes(const struct hw_export_input *in, const struct hw_stacks *s, FILE *out)
{
    struct hw_strbuf line = {0};
    int metrics = (int)hw_values_metrics(in->values);
    fputs("id,parent,depth,function,module", out);
    put_names("self_", 0, HW_METRIC_USUAL, "", out);
    put_names("total_", 0, HW_METRIC_USUAL, "", out);
    fputs(",samples", out);
    put_names("", 0, HW_METRIC_USUAL, "_error", out);
    put_names("self_", HW_METRIC_USUAL, metrics, "", out);
    put_names("total_", HW_METRIC_USUAL, metrics, "", out);
    put_names("", HW_METRIC_USUAL, metrics, "_error", out);
    fputs("\r\n", out);
    for (uint32_t i = 0; i < s->tree.v.n; i++) {
        hw_strbuf_clear(&line);
        put_node(&line, in, s, i, metrics);
        (void)fwrite(line.p, 1, line.n, out); /* the stream remembers a failure */
    }
    int rc = line.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&line);
    return rc;
}

static int csv_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return hw_stacks_write(in, "csv", put_nodes, out, err);
}

const struct hw_exporter hw_export_csv = {
    .name = "csv",
    .summary = "one line a node of the merged stacks, all metrics",
    .extension = ".csv",
    .merged = true,
    .write = csv_write,
};
