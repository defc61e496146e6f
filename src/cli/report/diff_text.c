/*
 * diff_text.c - what changed, as text; amounts, changes and words shared by all formats
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/parts/short_name.h"
#include "cli/parts/site_text.h"
#include "cli/report/diff_page.h"

#include "base/banned.h"

enum { A = HW_DIFF_A, B = HW_DIFF_B };
enum { COL_SIDE = 12, COL_CHANGE = 25 };

bool hw_diff_page_at_peak(const struct hw_open_profile *s)
{
    return s->moment == hw_process_view_peak(&s->view) &&
           s->moment != &s->view.moments.v[s->view.moments.n ? s->view.moments.n - 1 : 0];
}

const struct hw_diff_row *hw_diff_page_row(const struct hw_diff_page *pg, size_t i)
{
    return &pg->diff.rows.v[pg->order[i]];
}

bool hw_diff_page_is_sure(const struct hw_diff_page *pg, const struct hw_diff_row *r)
{
    return hw_diff_is_significant(&pg->diff, &r->self, pg->metric);
}

const char *hw_diff_page_status(const struct hw_diff_page *pg, const struct hw_diff_value *v)
{
    int64_t a = hw_value_get(&v->a, pg->metric), b = hw_value_get(&v->b, pg->metric);
    return a == 0 && b != 0 ? "new" : b == 0 && a != 0 ? "gone" : b > a ? "grew" : "shrank";
}

char *hw_diff_page_amount(const struct hw_diff_page *pg, char out[HW_UNIT_MAX], double v)
{
    return hw_metric_is_bytes(pg->metric) ? hw_fmt_bytes(out, v) : hw_fmt_count(out, v);
}

/* "+3.2 MiB ±0.4 MiB" */
void hw_diff_page_change(const struct hw_diff_page *pg, const struct hw_diff_value *v,
                         char out[2 * HW_UNIT_MAX + 4])
{
    char change[HW_UNIT_MAX], error[HW_UNIT_MAX];
    double e = hw_diff_error(&pg->diff, v, pg->metric);
    hw_fmt_change(change, hw_diff_change(&pg->diff, v, pg->metric), hw_metric_is_bytes(pg->metric));
    if (e > 0)
        (void)snprintf(out, 2 * HW_UNIT_MAX + 4, "%s %s%s", change,
                       pg->look.unicode ? "\xc2\xb1" : "+-", hw_diff_page_amount(pg, error, e));
    else
        (void)snprintf(out, 2 * HW_UNIT_MAX + 4, "%s", change);
}

/* The side whose callers a row names: B, or A if B has none of it. */
int hw_diff_page_side(const struct hw_diff_page *pg, const struct hw_diff_row *r)
{
    const struct hw_diff_function *fn = &pg->diff.functions.v[r->function];
    return fn->of[B] == HW_ID_NONE || hw_value_get(&r->self.b, pg->metric) == 0 ? A : B;
}

static void put_side(struct hw_diff_page *pg, int side)
{
    const struct hw_open_profile *s = &pg->show[side];
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    const struct hw_value *total = side == A ? &v->a : &v->b;
    char buf[HW_UNIT_MAX];
    double error = hw_value_error(total, pg->metric, s->view.interval_bytes);
    hw_strbuf_clear(&pg->line);
    hw_strbuf_addf(&pg->line, "%c  ", "AB"[side]);
    hw_strbuf_add_escaped(&pg->line, pg->path[side], strlen(pg->path[side]));
    hw_strbuf_adds(&pg->line, "  ");
    hw_open_profile_label(s, &pg->line);
    if (!s->label)
        hw_strbuf_addf(&pg->line, " at %s%s",
                       hw_fmt_clock(buf, hw_sat_sub(s->moment->ts_ns, s->view.start_ns)),
                       hw_diff_page_at_peak(s) ? " (peak)" : "");
    hw_strbuf_addf(&pg->line, "  %s %s", hw_metric_name(pg->metric),
                   hw_diff_page_amount(pg, buf, (double)hw_value_get(total, pg->metric)));
    if (error > 0)
        hw_strbuf_addf(&pg->line, " %s%s", pg->look.unicode ? "\xc2\xb1" : "+-",
                       hw_diff_page_amount(pg, buf, error));
    puts(pg->line.p ? pg->line.p : "");
}

static void put_total(struct hw_diff_page *pg)
{
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    char cell[2 * HW_UNIT_MAX + 4];
    double a = (double)hw_value_get(&v->a, pg->metric);
    hw_diff_page_change(pg, v, cell);
    printf("   change %s", cell);
    if (a > 0)
        printf(" (%+.1f%%)", 100 * hw_diff_change(&pg->diff, v, pg->metric) / a);
    if (hw_diff_change(&pg->diff, v, pg->metric) != 0 &&
        !hw_diff_is_significant(&pg->diff, v, pg->metric))
        fputs(hw_diff_is_open(&pg->diff, v, pg->metric) ? "  error unknown"
                                                        : "  within the sampling error",
              stdout);
    putchar('\n');
}

static void put_site(struct hw_diff_page *pg, const struct hw_diff_row *r, size_t width)
{
    const struct hw_diff_function *fn = &pg->diff.functions.v[r->function];
    const int side = fn->of[hw_diff_page_side(pg, r)] == HW_ID_NONE ? B : hw_diff_page_side(pg, r);
    const struct hw_site_names *names = &pg->names[side];
    struct hw_strbuf module = {0}, cell = {0};
    hw_site_where(names, fn->of[side], &module);
    size_t module_width = module.n ? hw_text_width(module.p) + 4 : 0;
    hw_short_name(&cell, hw_strings_cstr(pg->diff.strings, fn->name),
                  width > module_width + 16 ? width - module_width : 16);
    hw_site_class(names, fn->of[side], &cell);
    size_t used = hw_text_width(cell.p ? cell.p : "") + module_width;
    if (used < width)
        pg->has_callers |= hw_site_callers(names, fn->of[side], width - used, &cell);
    if (module.n)
        hw_strbuf_addf(&cell, "  (%s)", module.p);
    puts(cell.p ? cell.p : "");
    pg->line.failed |= module.failed || cell.failed;
    hw_strbuf_done(&module);
    hw_strbuf_done(&cell);
}

static void put_row(struct hw_diff_page *pg, const struct hw_diff_row *r, size_t width)
{
    char buf[HW_UNIT_MAX], cell[2 * HW_UNIT_MAX + 4];
    const char *status = hw_diff_page_status(pg, &r->self);
    double change = hw_diff_change(&pg->diff, &r->self, pg->metric);
    hw_strbuf_clear(&pg->line);
    hw_put_cell(&pg->line,
                hw_diff_page_amount(pg, buf, (double)hw_value_get(&r->self.a, pg->metric)),
                COL_SIDE);
    hw_put_cell(&pg->line,
                hw_diff_page_amount(pg, buf, (double)hw_value_get(&r->self.b, pg->metric)),
                COL_SIDE);
    hw_diff_page_change(pg, &r->self, cell);
    hw_put_cell(&pg->line, cell, COL_CHANGE);
    printf("%s  ", pg->line.p ? pg->line.p : "");
    if (pg->look.color)
        fputs(change > 0 ? "\033[33m" : "\033[34m", stdout);
    printf("%-6s", status);
    if (pg->look.color)
        fputs("\033[0m", stdout);
    fputs(hw_diff_page_is_sure(pg, r) ? "  " : " ~", stdout);
    put_site(pg, r, width);
}

void hw_diff_page_verdict(const struct hw_diff_page *pg, struct hw_strbuf *out)
{
    char buf[HW_UNIT_MAX], limit[HW_UNIT_MAX];
    if (!pg->has_limit)
        return;
    if (pg->limit.is_share)
        (void)snprintf(limit, sizeof limit, "%g%% of A", pg->limit.value);
    else
        (void)hw_diff_page_amount(pg, limit, pg->limit.value);
    double change = hw_diff_change(&pg->diff, &pg->diff.nodes.v[0].total, pg->metric);
    bool is_open = hw_diff_is_open(&pg->diff, &pg->diff.nodes.v[0].total, pg->metric);
    hw_strbuf_addf(out, "%s: %s changed by %s%s, the limit is %s", pg->failed ? "FAILED" : "passed",
                   hw_metric_name(pg->metric),
                   hw_fmt_change(buf, change, hw_metric_is_bytes(pg->metric)),
                   is_open ? " (error unknown)" : "", limit);
}

int hw_diff_put_text(struct hw_diff_page *pg, bool *incomplete)
{
    size_t left = 2 * COL_SIDE + COL_CHANGE + 10;
    size_t width = pg->look.width > left + 24 ? pg->look.width - left : 24;
    put_side(pg, A);
    put_side(pg, B);
    put_total(pg);
    putchar('\n');
    if (pg->n_changed)
        printf("%*s%*s%*s          SITE\n", COL_SIDE, "A", COL_SIDE, "B", COL_CHANGE, "CHANGE");
    for (size_t i = 0; i < pg->n_changed; i++)
        put_row(pg, hw_diff_page_row(pg, i), width);
    if (pg->has_callers)
        fputs(HW_SITE_LEGEND, stdout);
    if (pg->order[pg->n_changed])
        printf("%u more row%s (--top 0: all)\n", pg->order[pg->n_changed],
               hw_plural(pg->order[pg->n_changed]));
    if (pg->n_hidden)
        printf("%zu row%s within the sampling error (--all shows %s)\n", pg->n_hidden,
               hw_plural(pg->n_hidden), pg->n_hidden == 1 ? "it" : "them");
    if (pg->n_changed == 0 && pg->n_hidden == 0)
        puts("no difference");
    hw_diff_account_text(pg);
    if (pg->has_limit) {
        hw_strbuf_clear(&pg->line);
        hw_diff_page_verdict(pg, &pg->line);
        printf("\n%s\n", pg->line.p ? pg->line.p : "");
    }
    int rc = hw_open_profile_losses(&pg->show[A], stdout, incomplete);
    if (rc == 0 && pg->show[A].p != pg->show[B].p)
        rc = hw_open_profile_losses(&pg->show[B], stdout, incomplete);
    return rc;
}
