/*
 * One line per node of the merged stacks, parents before children, for spreadsheets and data frames
 * (RFC 4180): its number and its parent's, then its self and total values of all four metrics. A
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

static void put_figures(struct hw_strbuf *line, const struct hw_export_input *in,
                        const struct hw_value *raw)
{
    struct hw_value v = hw_export_value(in, raw);
    for (int m = 0; m < HW_METRIC_USUAL; m++)
        hw_strbuf_addf(line, ",%lld", (long long)hw_value_get(&v, (enum hw_metric)m));
}

static void put_node(struct hw_strbuf *line, const struct hw_export_input *in,
                     const struct hw_stacks *s, uint32_t node)
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
    put_figures(line, in, hw_flame_self(&s->tree, node));
    put_figures(line, in, hw_flame_total(&s->tree, node));
    const struct hw_value *total = hw_flame_total(&s->tree, node);
    hw_strbuf_addf(line, ",%lld", (long long)total->samples);
    for (int m = 0; m < HW_METRIC_USUAL; m++) {
        double error = hw_value_error(total, (enum hw_metric)m, in->interval_bytes);
        hw_strbuf_addc(line, ',');
        if (isfinite(error)) /* else it is unknown */
            hw_strbuf_addf(line, "%.0f", error);
    }
    hw_strbuf_adds(line, "\r\n");
    line->failed |= name.failed;
    hw_strbuf_done(&name);
}

static int put_nodes(const struct hw_export_input *in, const struct hw_stacks *s, FILE *out)
{
    struct hw_strbuf line = {0};
    fputs("id,parent,depth,function,module", out);
    for (int total = 0; total < 2; total++)
        for (int m = 0; m < HW_METRIC_USUAL; m++)
            fprintf(out, ",%s_%s", total ? "total" : "self", hw_metric_name((enum hw_metric)m));
    fputs(",samples", out);
    for (int m = 0; m < HW_METRIC_USUAL; m++)
        fprintf(out, ",%s_error", hw_metric_name((enum hw_metric)m));
    fputs("\r\n", out);
    for (uint32_t i = 0; i < s->tree.v.n; i++) {
        hw_strbuf_clear(&line);
        put_node(&line, in, s, i);
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
    .summary = "one line a node of the merged stacks, all four metrics",
    .extension = ".csv",
    .merged = true,
    .write = csv_write,
};
