#include "cli/report/diff_account.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "cli/cli.h"
#include "cli/report/diff_page.h"

#include "base/banned.h"

enum { A = HW_DIFF_A, B = HW_DIFF_B };
enum { COL_SIDE = 12, COL_CHANGE = 25, MOST_NAMES = 3 };

/* ---- finding ---- */

static int find_side(const struct hw_open_profile *s, struct hw_memory_parts *out)
{
    return s->label || !s->moment
               ? HW_ENOTFOUND
               : hw_memory_parts_find(s->p, &s->view, s->moment->ts_ns, &s->values, out);
}

/* Within one run, what stayed is the same sample on both sides. */
static double live_error(const struct hw_diff_page *pg)
{
    const struct hw_memory_parts *m = pg->account.parts;
    return pg->diff.same_run ? hw_diff_error(&pg->diff, &pg->diff.nodes.v[0].total, HW_METRIC_SPACE)
                             : hypot(m[A].error, m[B].error);
}

int hw_diff_account_find(struct hw_diff_page *pg)
{
    struct hw_diff_account *d = &pg->account;
    int rc = hw_opt_text(&pg->cli->opts, HW_OPT_SHOW_HEAP) ? HW_ENOTFOUND : HW_OK;
    for (int i = A; rc == HW_OK && i < HW_DIFF_SIDES; i++) {
        rc = find_side(&pg->show[i], &d->parts[i]);
        if (rc == HW_OK && !d->parts[i].by_owner)
            rc = HW_ENOTFOUND;
    }
    if (rc == HW_ENOTFOUND)
        return HW_OK;
    d->is_same = pg->show[A].p == pg->show[B].p && pg->show[A].upid.v == pg->show[B].upid.v &&
                 d->parts[A].ts_ns == d->parts[B].ts_ns;
    if (rc < 0 || d->is_same)
        return rc;
    struct hw_parts_diff_side a = {pg->show[A].p, &d->parts[A]}, b = {pg->show[B].p, &d->parts[B]};
    rc = hw_parts_diff_make(&a, &b, live_error(pg), &d->diff);
    d->is_there = rc == HW_OK;
    return rc;
}

void hw_diff_account_done(struct hw_diff_account *a)
{
    hw_parts_diff_done(&a->diff);
    for (int i = A; i < HW_DIFF_SIDES; i++)
        hw_memory_parts_done(&a->parts[i]);
}

static int64_t since_start(const struct hw_diff_page *pg, int side)
{
    return hw_sat_sub(pg->account.parts[side].ts_ns, pg->show[side].view.start_ns);
}

/* ---- which rows are shown ---- */

static bool is_shown(const struct hw_diff_page *pg, const struct hw_parts_diff_row *r)
{
    return hw_opt_flag(&pg->cli->opts, HW_OPT_DIFF_ALL) ? r->a != r->b : hw_parts_diff_is_sure(r);
}

/* Calls put for the rows to show: parts, and for each the names that changed most. */
static void each_row(const struct hw_diff_page *pg, void *to,
                     void (*put)(const struct hw_diff_page *pg, void *to,
                                 const struct hw_parts_diff_row *r))
{
    const struct hw_parts_diff *d = &pg->account.diff;
    bool all = hw_opt_flag(&pg->cli->opts, HW_OPT_DIFF_ALL);
    size_t names = 0;
    for (size_t i = 0; i < d->rows.n; i++) {
        const struct hw_parts_diff_row *r = &d->rows.v[i];
        names = r->name ? names + 1 : 0;
        if (is_shown(pg, r) && (all || names <= MOST_NAMES))
            put(pg, to, r);
    }
}

static void add_cells(const struct hw_diff_page *pg, const struct hw_parts_diff_row *r,
                      char cell[3][HW_DIFF_CHANGE_MAX])
{
    char change[HW_UNIT_MAX], error[HW_UNIT_MAX];
    char buf[HW_UNIT_MAX];
    (void)snprintf(cell[0], HW_DIFF_CHANGE_MAX, "%s", hw_fmt_bytes(buf, r->a));
    (void)snprintf(cell[1], HW_DIFF_CHANGE_MAX, "%s", hw_fmt_bytes(buf, r->b));
    hw_fmt_change(change, r->b - r->a, /* bytes = */ true);
    if (r->error >= 1)
        (void)snprintf(cell[2], HW_DIFF_CHANGE_MAX, "%s %s%s", change,
                       pg->look.unicode ? "\xc2\xb1" : "+-", hw_fmt_bytes(error, r->error));
    else
        (void)snprintf(cell[2], HW_DIFF_CHANGE_MAX, "%s", change);
}

static const char *status(const struct hw_parts_diff_row *r)
{
    return r->a == 0 && r->b != 0   ? "new"
           : r->b == 0 && r->a != 0 ? "gone"
           : r->b > r->a            ? "grew"
           : r->b < r->a            ? "shrank"
                                    : "";
}

/* "most in free inside the allocator", or nothing. */
static const char *most_in(const struct hw_diff_page *pg)
{
    const struct hw_parts_diff_row *most = hw_parts_diff_most(&pg->account.diff);
    return most ? hw_memory_part_name(most->part) : NULL;
}

/* ---- text ---- */

static void text_row(const struct hw_diff_page *pg, void *to, const struct hw_parts_diff_row *r)
{
    char cell[3][HW_DIFF_CHANGE_MAX];
    struct hw_strbuf *line = to;
    add_cells(pg, r, cell);
    hw_strbuf_clear(line);
    hw_put_cell(line, cell[0], COL_SIDE);
    hw_put_cell(line, cell[1], COL_SIDE);
    hw_put_cell(line, cell[2], COL_CHANGE);
    hw_strbuf_addf(line, "  %-6s%s", status(r),
                   hw_parts_diff_is_sure(r) || r->a == r->b ? "  " : " ~");
    if (r->name) {
        hw_strbuf_adds(line, "    ");
        hw_strbuf_add_escaped(line, r->name, strlen(r->name));
    } else {
        hw_strbuf_adds(line, r == &pg->account.diff.rss ? "all resident memory"
                                                        : hw_memory_part_name(r->part));
    }
    puts(line->p ? line->p : "");
}

void hw_diff_account_text(struct hw_diff_page *pg)
{
    const struct hw_diff_account *d = &pg->account;
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    const char *most;
    if (d->is_same)
        puts("\nmemory by owner: both dumps have the same reading, so nothing is compared");
    if (!d->is_there)
        return;
    printf("\nAll memory of the process, by owner, read at %s (A) and %s (B)\n",
           hw_fmt_clock(a, since_start(pg, A)), hw_fmt_clock(b, since_start(pg, B)));
    printf("%*s%*s%*s          WHOSE\n", COL_SIDE, "A", COL_SIDE, "B", COL_CHANGE, "CHANGE");
    text_row(pg, &pg->line, &d->diff.rss);
    each_row(pg, &pg->line, text_row);
    most = most_in(pg);
    if (most)
        printf("most of the growth: %s\n", most);
}

/* ---- Markdown ---- */

static void markdown_row(const struct hw_diff_page *pg, void *to, const struct hw_parts_diff_row *r)
{
    char cell[3][HW_DIFF_CHANGE_MAX];
    struct hw_strbuf *out = to;
    add_cells(pg, r, cell);
    hw_strbuf_addf(out, "| %s%s | %s | %s | %s | ", cell[2], hw_parts_diff_is_sure(r) ? "" : " ~",
                   cell[0], cell[1], status(r));
    if (r->name)
        hw_diff_markdown_code(out, r->name, strlen(r->name));
    else
        hw_strbuf_adds(out, r == &pg->account.diff.rss ? "**all resident memory**"
                                                       : hw_memory_part_name(r->part));
    hw_strbuf_adds(out, " |\n");
}

void hw_diff_account_markdown(const struct hw_diff_page *pg, struct hw_strbuf *out)
{
    if (!pg->account.is_there)
        return;
    hw_strbuf_adds(out, "\n| Change | A | B | | Whose |\n|--:|--:|--:|---|---|\n");
    markdown_row(pg, out, &pg->account.diff.rss);
    each_row(pg, out, markdown_row);
}

/* ---- JSON ---- */

static void json_change(struct hw_json *j, const struct hw_parts_diff_row *r)
{
    hw_json_kv_double(j, "a", r->a);
    hw_json_kv_double(j, "b", r->b);
    hw_json_kv_double(j, "change", r->b - r->a);
    hw_json_kv_double(j, "error", r->error);
    hw_json_kv_bool(j, "significant", hw_parts_diff_is_sure(r));
}

void hw_diff_account_json(const struct hw_diff_page *pg, struct hw_json *j)
{
    const struct hw_parts_diff *d = &pg->account.diff;
    if (!pg->account.is_there)
        return;
    hw_json_key(j, "account");
    hw_json_begin_object(j);
    hw_json_kv_int(j, "a_at_ns", since_start(pg, A));
    hw_json_kv_int(j, "b_at_ns", since_start(pg, B));
    hw_json_key(j, "rss");
    hw_json_begin_object(j);
    json_change(j, &d->rss);
    hw_json_end_object(j);
    if (most_in(pg))
        hw_json_kv_str(j, "grew_most", most_in(pg));
    hw_json_key(j, "parts");
    hw_json_begin_array(j);
    for (size_t i = 0; i < d->rows.n; i++) {
        hw_json_begin_object(j);
        hw_json_kv_str(j, "part", hw_memory_part_name(d->rows.v[i].part));
        if (d->rows.v[i].name)
            hw_json_kv_str(j, "name", d->rows.v[i].name);
        json_change(j, &d->rows.v[i]);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}
