/*
 * diff_forms.c - what changed, for pull requests and pipelines: Markdown, JUnit, SARIF
 *
 * Names come from traces: none may close a cell, an element or a code span.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/report/diff_page.h"

#include "base/banned.h"

enum { A = HW_DIFF_A, B = HW_DIFF_B };
enum { MOST_CALLERS_WIDTH = 120 };

static const char *describe(enum hw_metric m)
{
    switch (m) {
    case HW_METRIC_SPACE:
        return "live memory";
    case HW_METRIC_OBJECTS:
        return "live allocations";
    case HW_METRIC_ALLOC_SPACE:
        return "allocated memory";
    case HW_METRIC_TEMPORARY_SPACE:
        return "memory freed again within 1 s";
    case HW_METRIC_TEMPORARY_OBJECTS:
        return "allocations freed again within 1 s";
    default:
        return "allocations";
    }
}

static int losses(const struct hw_diff_page *pg, bool *incomplete)
{
    int rc = hw_open_profile_losses(&pg->show[A], stderr, incomplete);
    if (rc == 0 && pg->show[A].p != pg->show[B].p)
        rc = hw_open_profile_losses(&pg->show[B], stderr, incomplete);
    return rc;
}

static int put_out(struct hw_strbuf *s)
{
    int rc = s->failed                                                           ? HW_ENOMEM
             : s->n && (fwrite(s->p, 1, s->n, stdout) != s->n || fflush(stdout)) ? HW_ESYS
                                                                                 : HW_OK;
    hw_strbuf_done(s);
    return rc;
}

static struct hw_bytes name_of(const struct hw_diff_page *pg, const struct hw_diff_row *r)
{
    return hw_strings_get(pg->diff.strings, pg->diff.functions.v[r->function].name);
}

static struct hw_bytes module_of(const struct hw_diff_page *pg, const struct hw_diff_row *r)
{
    return hw_strings_get(pg->diff.strings, pg->diff.functions.v[r->function].module);
}

/* "dictAdd < hashTypeSet < hsetCommand" */
static void callers_of(const struct hw_diff_page *pg, const struct hw_diff_row *r,
                       struct hw_strbuf *out)
{
    int side = hw_diff_page_side(pg, r);
    uint32_t fn = pg->diff.functions.v[r->function].of[side];
    if (fn != HW_ID_NONE)
        (void)hw_site_callers(&pg->names[side], fn, MOST_CALLERS_WIDTH, out);
}

/* "space: +3.2 MiB ±0.4 MiB (+12.5%)" */
static void add_total(const struct hw_diff_page *pg, struct hw_strbuf *out)
{
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    char change[HW_DIFF_CHANGE_MAX];
    double a = (double)hw_value_get(&v->a, pg->metric);
    hw_diff_page_change(pg, v, change);
    hw_strbuf_addf(out, "%s: %s", describe(pg->metric), change);
    if (a > 0)
        hw_strbuf_addf(out, " (%+.1f%%)", 100 * hw_diff_change(&pg->diff, v, pg->metric) / a);
    if (hw_diff_change(&pg->diff, v, pg->metric) != 0 &&
        !hw_diff_is_significant(&pg->diff, v, pg->metric))
        hw_strbuf_adds(out, hw_diff_is_open(&pg->diff, v, pg->metric)
                                ? ", error unknown"
                                : ", within the sampling error");
}

/* "createObject: +1.2 MiB, 3.0 MiB -> 4.2 MiB, grew" */
static void add_row(const struct hw_diff_page *pg, const struct hw_diff_row *r,
                    struct hw_strbuf *out)
{
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX], change[HW_DIFF_CHANGE_MAX];
    struct hw_bytes name = name_of(pg, r);
    hw_diff_page_change(pg, &r->self, change);
    hw_strbuf_add_escaped(out, name.p, name.n);
    hw_strbuf_addf(out, ": %s, %s -> %s, %s", change,
                   hw_diff_page_amount(pg, a, (double)hw_value_get(&r->self.a, pg->metric)),
                   hw_diff_page_amount(pg, b, (double)hw_value_get(&r->self.b, pg->metric)),
                   hw_diff_page_status(pg, &r->self));
}

/* ---- Markdown, as GitHub and GitLab show it ---- */

/* These formats are UTF-8, whatever the terminal is. */
static void begin_form(struct hw_diff_page *pg)
{
    pg->look.unicode = true;
}

/*
 * Text as a code span in a cell: its fence is longer than any run of backticks in it, and no bar
 * ends the cell.
 */
void hw_diff_markdown_code(struct hw_strbuf *out, const void *p, size_t n)
{
    struct hw_strbuf text = {0};
    size_t run = 0, longest = 0;
    hw_strbuf_add_escaped(&text, p, n);
    for (size_t i = 0; i < text.n; i++) {
        run = text.p[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (size_t i = 0; i <= longest; i++)
        hw_strbuf_adds(out, "`");
    hw_strbuf_adds(out, longest ? " " : "");
    for (size_t i = 0; i < text.n; i++)
        hw_strbuf_addf(out, text.p[i] == '|' ? "\\%c" : "%c", text.p[i]);
    hw_strbuf_adds(out, longest ? " " : "");
    for (size_t i = 0; i <= longest; i++)
        hw_strbuf_adds(out, "`");
    out->failed |= text.failed;
    hw_strbuf_done(&text);
}

static void md_sides(const struct hw_diff_page *pg, struct hw_strbuf *out)
{
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    char buf[HW_UNIT_MAX];
    hw_strbuf_adds(out, "| | profile | ");
    hw_strbuf_addf(out, "%s |\n|---|---|--:|\n", describe(pg->metric));
    for (int i = A; i < HW_DIFF_SIDES; i++) {
        const struct hw_value *total = i == A ? &v->a : &v->b;
        hw_strbuf_addf(out, "| %c | ", "AB"[i]);
        hw_diff_markdown_code(out, pg->path[i], strlen(pg->path[i]));
        hw_strbuf_addf(out, " | %s |\n",
                       hw_diff_page_amount(pg, buf, (double)hw_value_get(total, pg->metric)));
    }
}

static void md_row(const struct hw_diff_page *pg, const struct hw_diff_row *r,
                   struct hw_strbuf *out)
{
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX], change[HW_DIFF_CHANGE_MAX];
    struct hw_bytes name = name_of(pg, r);
    struct hw_strbuf callers = {0};
    hw_diff_page_change(pg, &r->self, change);
    hw_strbuf_addf(out, "| %s%s | %s | %s | %s | ", change, hw_diff_page_is_sure(pg, r) ? "" : " ~",
                   hw_diff_page_amount(pg, a, (double)hw_value_get(&r->self.a, pg->metric)),
                   hw_diff_page_amount(pg, b, (double)hw_value_get(&r->self.b, pg->metric)),
                   hw_diff_page_status(pg, &r->self));
    hw_diff_markdown_code(out, name.p, name.n);
    callers_of(pg, r, &callers);
    if (callers.n > 1) {
        hw_strbuf_adds(out, " ");
        hw_diff_markdown_code(out, callers.p + 1, callers.n - 1); /* without the preceding blank */
    }
    hw_strbuf_adds(out, " |\n");
    out->failed |= callers.failed;
    hw_strbuf_done(&callers);
}

int hw_diff_put_markdown(struct hw_diff_page *pg, bool *incomplete)
{
    struct hw_strbuf out = {0};
    begin_form(pg);
    hw_strbuf_adds(&out, "### Heap, ");
    add_total(pg, &out);
    hw_strbuf_adds(&out, "\n\n");
    if (pg->has_limit) {
        hw_strbuf_adds(&out, "**");
        hw_diff_page_verdict(pg, &out);
        hw_strbuf_adds(&out, "**\n\n");
    }
    md_sides(pg, &out);
    if (pg->n_changed)
        hw_strbuf_adds(&out, "\n| Change | A | B | | Site |\n|--:|--:|--:|---|---|\n");
    for (size_t i = 0; i < pg->n_changed; i++)
        md_row(pg, hw_diff_page_row(pg, i), &out);
    if (pg->order[pg->n_changed])
        hw_strbuf_addf(&out, "\n%u more row%s.\n", pg->order[pg->n_changed],
                       hw_plural(pg->order[pg->n_changed]));
    if (pg->n_hidden)
        hw_strbuf_addf(&out, "\n%zu row%s within the sampling error.\n", pg->n_hidden,
                       hw_plural(pg->n_hidden));
    hw_diff_account_markdown(pg, &out);
    int rc = put_out(&out);
    return rc == 0 ? losses(pg, incomplete) : rc;
}

/* ---- JUnit: one test, which fails as the gate does ---- */

/* For attributes and text; characters that XML 1.0 lacks are escaped already. */
static void add_xml(struct hw_strbuf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        switch (p[i]) {
        case '<':
            hw_strbuf_adds(out, "&lt;");
            break;
        case '>':
            hw_strbuf_adds(out, "&gt;");
            break;
        case '&':
            hw_strbuf_adds(out, "&amp;");
            break;
        case '"':
            hw_strbuf_adds(out, "&quot;");
            break;
        default:
            hw_strbuf_add(out, p + i, 1);
        }
}

static void add_xml_path(struct hw_strbuf *out, const char *path)
{
    struct hw_strbuf text = {0};
    hw_strbuf_add_escaped(&text, path, strlen(path));
    add_xml(out, text.p ? text.p : "", text.n);
    out->failed |= text.failed;
    hw_strbuf_done(&text);
}

static void add_rows(const struct hw_diff_page *pg, struct hw_strbuf *out)
{
    for (size_t i = 0; i < pg->n_changed; i++) {
        add_row(pg, hw_diff_page_row(pg, i), out);
        hw_strbuf_adds(out, "\n");
    }
}

int hw_diff_put_junit(struct hw_diff_page *pg, bool *incomplete)
{
    struct hw_strbuf out = {0}, rows = {0}, verdict = {0};
    begin_form(pg);
    add_rows(pg, &rows);
    hw_diff_page_verdict(pg, &verdict);
    if (!pg->has_limit)
        add_total(pg, &verdict);
    hw_strbuf_addf(&out,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                   "<testsuites tests=\"1\" failures=\"%d\">\n"
                   "<testsuite name=\"heapwise diff\" tests=\"1\" failures=\"%d\">\n"
                   "<testcase classname=\"heapwise.diff\" name=\"%s of ",
                   pg->failed, pg->failed, describe(pg->metric));
    add_xml_path(&out, pg->path[B]);
    hw_strbuf_adds(&out, " against ");
    add_xml_path(&out, pg->path[A]);
    hw_strbuf_adds(&out, pg->failed ? "\">\n<failure message=\"" : "\">\n<system-out>");
    add_xml(&out, verdict.p ? verdict.p : "", verdict.n);
    hw_strbuf_adds(&out, pg->failed ? "\">" : "\n");
    add_xml(&out, rows.p ? rows.p : "", rows.n);
    hw_strbuf_adds(&out, pg->failed ? "</failure>\n" : "</system-out>\n");
    hw_strbuf_adds(&out, "</testcase>\n</testsuite>\n</testsuites>\n");
    out.failed |= rows.failed || verdict.failed;
    hw_strbuf_done(&rows);
    hw_strbuf_done(&verdict);
    int rc = put_out(&out);
    return rc == 0 ? losses(pg, incomplete) : rc;
}

/* ---- SARIF 2.1.0: a result for each function whose growth is significant ---- */

static void sarif_text(struct hw_json *j, const char *key, const struct hw_strbuf *text)
{
    hw_json_key(j, key);
    hw_json_begin_object(j);
    hw_json_key(j, "text");
    hw_json_strn(j, text->p ? text->p : "", text->n);
    hw_json_end_object(j);
}

static void sarif_tool(struct hw_json *j)
{
    hw_json_key(j, "tool");
    hw_json_begin_object(j);
    hw_json_key(j, "driver");
    hw_json_begin_object(j);
    hw_json_kv_str(j, "name", "heapwise");
    hw_json_kv_str(j, "version", HW_VERSION);
    hw_json_key(j, "rules");
    hw_json_begin_array(j);
    hw_json_begin_object(j);
    hw_json_kv_str(j, "id", "heap-growth");
    hw_json_key(j, "shortDescription");
    hw_json_begin_object(j);
    hw_json_kv_str(j, "text", "A function holds more memory than before");
    hw_json_end_object(j);
    hw_json_end_object(j);
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_json_end_object(j);
}

static void sarif_result(const struct hw_diff_page *pg, struct hw_json *j,
                         const struct hw_diff_row *r)
{
    struct hw_strbuf text = {0};
    struct hw_bytes name = name_of(pg, r), module = module_of(pg, r);
    add_row(pg, r, &text);
    callers_of(pg, r, &text);
    hw_json_begin_object(j);
    hw_json_kv_str(j, "ruleId", "heap-growth");
    hw_json_kv_str(j, "level", pg->failed ? "error" : "note");
    sarif_text(j, "message", &text);
    hw_json_key(j, "locations");
    hw_json_begin_array(j);
    hw_json_begin_object(j);
    hw_json_key(j, "logicalLocations");
    hw_json_begin_array(j);
    hw_json_begin_object(j);
    hw_json_key(j, "name");
    hw_json_strn(j, name.p, name.n);
    hw_json_kv_str(j, "kind", "function");
    hw_json_end_object(j);
    hw_json_begin_object(j);
    hw_json_key(j, "name");
    hw_json_strn(j, module.p, module.n);
    hw_json_kv_str(j, "kind", "module");
    hw_json_end_object(j);
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_json_end_array(j);
    hw_json_end_object(j);
    j->error = j->error || !text.failed ? j->error : HW_ENOMEM;
    hw_strbuf_done(&text);
}

int hw_diff_put_sarif(struct hw_diff_page *pg, bool *incomplete)
{
    struct hw_json j;
    begin_form(pg);
    hw_json_init(&j, NULL, NULL, /* pretty = */ true);
    hw_json_begin_object(&j);
    hw_json_kv_str(&j, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    hw_json_kv_str(&j, "version", "2.1.0");
    hw_json_key(&j, "runs");
    hw_json_begin_array(&j);
    hw_json_begin_object(&j);
    sarif_tool(&j);
    hw_json_key(&j, "results");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < pg->n_changed; i++) {
        const struct hw_diff_row *r = hw_diff_page_row(pg, i);
        if (hw_diff_page_is_sure(pg, r) && hw_diff_change(&pg->diff, &r->self, pg->metric) > 0)
            sarif_result(pg, &j, r);
    }
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    int rc = hw_json_finish(&j);
    if (rc == 0) {
        hw_strbuf_adds(&j.buf, "\n");
        rc = put_out(&j.buf);
    }
    hw_json_done(&j);
    return rc == 0 ? losses(pg, incomplete) : rc;
}
