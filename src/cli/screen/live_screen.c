#include "cli/screen/live_screen.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "cli/parts/short_name.h"
#include "cli/screen/screen.h"
#include "config/command/units.h"
#include "export/figures.h"

#include "base/banned.h"

enum { CURVE_ROWS = 3, MAX_COLS = 300 };

/* ---- header lines ---- */

static void first_line(const struct hw_live_model *m, const struct hw_live_screen_state *l,
                       char *out, size_t max)
{
    char clock[HW_UNIT_MAX], interval[HW_UNIT_MAX], rss[HW_UNIT_MAX];
    (void)snprintf(out, max, "  %s  RSS %s  one sample every %s%s%s%s",
                   hw_fmt_clock(clock, (int64_t)(m->at_ns - m->first_ns)),
                   hw_fmt_bytes(rss, (double)m->rss_bytes),
                   hw_fmt_bytes_exact(interval, m->interval_bytes), l->own ? "" : "  recording ",
                   l->own ? "" : l->ref, l->paused ? "  PAUSED" : "");
}

static void second_line(const struct hw_live_model *m, char *out, size_t max)
{
    char live[HW_UNIT_MAX], grown[HW_UNIT_MAX], peak[HW_UNIT_MAX], rate[HW_UNIT_MAX];
    char error[HW_UNIT_MAX];
    hw_fmt_error(error, (double)m->total.space, m->error, /* unicode = */ true);
    (void)snprintf(out, max, "live %s%s  growth %s  lost %llu  peak %s  %s/s",
                   hw_fmt_bytes(live, (double)m->total.space), error[0] ? error : " exact",
                   hw_fmt_change(grown, (double)(m->total.space - m->base_space), true),
                   (unsigned long long)m->facts.n_lost, hw_fmt_bytes(peak, (double)m->peak_space),
                   hw_fmt_bytes(rate, m->alloc_rate));
}

/* ---- the curve ---- */

/* Height in steps of the latest `n` snapshots, the newest last; returns their number. */
static size_t heights(const struct hw_live_model *m, size_t n, int steps, int out[])
{
    double most = 1;
    size_t have = m->n_history < n ? m->n_history : n;
    const double *v = m->history + (m->n_history - have);
    for (size_t i = 0; i < have; i++)
        most = v[i] > most ? v[i] : most;
    for (size_t i = 0; i < have; i++)
        out[i] = v[i] > 0 ? 1 + (int)(v[i] / most * (steps - 1)) : 0;
    return have;
}

/* Two snapshots per column, four dots per row: dots 1 2 3 7 are the left column from the top. */
static void braille_line(struct hw_screen *s, const int h[], size_t n, int row)
{
    static const unsigned char left[4] = {0x40, 0x04, 0x02, 0x01},
                               right[4] = {0x80, 0x20, 0x10, 0x08};
    int floor = (CURVE_ROWS - 1 - row) * 4;
    char text[MAX_COLS * 3 + 1];
    size_t at = 0;
    for (size_t i = 0; i < n; i += 2) {
        unsigned bits = 0;
        for (int k = 0; k < 4; k++) {
            bits |= h[i] > floor + k ? left[k] : 0u;
            bits |= i + 1 < n && h[i + 1] > floor + k ? right[k] : 0u;
        }
        unsigned c = 0x2800 + bits;
        text[at++] = (char)(0xe0 | c >> 12);
        text[at++] = (char)(0x80 | (c >> 6 & 0x3f));
        text[at++] = (char)(0x80 | (c & 0x3f));
    }
    text[at] = '\0';
    hw_screen_put(s, HW_STYLE_HEAD, text);
    hw_screen_line(s);
}

static void ascii_line(struct hw_screen *s, const int h[], size_t n, int row)
{
    char text[MAX_COLS + 1];
    int floor = (CURVE_ROWS - 1 - row) * 2;
    for (size_t i = 0; i < n; i++)
        text[i] = h[i] > floor + 1 ? '#' : h[i] > floor ? '.' : ' ';
    text[n] = '\0';
    hw_screen_put(s, HW_STYLE_HEAD, text);
    hw_screen_line(s);
}

static void draw_curve(struct hw_screen *s, const struct hw_live_model *m)
{
    int h[MAX_COLS * 2];
    size_t cols = s->cols < MAX_COLS ? (size_t)s->cols : MAX_COLS;
    size_t n = heights(m, s->unicode ? 2 * cols : cols, CURVE_ROWS * (s->unicode ? 4 : 2), h);
    for (int row = 0; row < CURVE_ROWS; row++)
        if (s->unicode)
            braille_line(s, h, n, row);
        else
            ascii_line(s, h, n, row);
}

/* ---- the table ---- */

bool hw_live_row_shown(const struct hw_live_row *r, const char *filter)
{
    return (r->self.space || r->growth || r->rate > 0 || r->total.space) &&
           (!filter[0] || strcasestr(r->label, filter));
}

static const char *const heads[] = {[HW_LIVE_BY_SELF] = "SELF",
                                    [HW_LIVE_BY_TOTAL] = "TOTAL",
                                    [HW_LIVE_BY_COUNT] = "COUNT",
                                    [HW_LIVE_BY_GROWTH] = "GROWTH"};

static void draw_head(struct hw_screen *s, const struct hw_live_screen_state *l)
{
    static const enum hw_live_order columns[] = {HW_LIVE_BY_SELF, HW_LIVE_BY_TOTAL,
                                                 HW_LIVE_BY_GROWTH, HW_LIVE_BY_COUNT};
    for (size_t i = 0; i < HW_ARRAY_LEN(columns); i++)
        hw_screen_field(s, columns[i] == l->order ? HW_STYLE_HEAD : HW_STYLE_BOLD,
                        heads[columns[i]], i == 3 ? 8 : 11, true);
    hw_screen_field(s, HW_STYLE_BOLD, "RATE/s", 11, true);
    hw_screen_put(s, HW_STYLE_BOLD, "  FUNCTION");
    hw_screen_line(s);
}

static void draw_row(struct hw_screen *s, const struct hw_live_model *m,
                     const struct hw_live_row *r, bool marked)
{
    char text[HW_UNIT_MAX];
    if (marked)
        hw_screen_mark(s);
    hw_screen_field(s, HW_STYLE_PLAIN, hw_fmt_bytes(text, (double)r->self.space), 11, true);
    hw_screen_field(s, HW_STYLE_PLAIN, hw_fmt_bytes(text, (double)r->total.space), 11, true);
    hw_screen_field(s,
                    r->growth > 0   ? HW_STYLE_UP
                    : r->growth < 0 ? HW_STYLE_DOWN
                                    : HW_STYLE_DIM,
                    hw_fmt_change(text, (double)r->growth, true), 11, true);
    hw_screen_field(s, HW_STYLE_PLAIN, hw_fmt_count(text, (double)r->self.objects), 8, true);
    hw_screen_field(s, HW_STYLE_DIM, r->rate > 0 ? hw_fmt_bytes(text, r->rate) : "", 11, true);
    hw_screen_put(s, HW_STYLE_PLAIN, "  ");
    hw_screen_put(s, HW_STYLE_PLAIN, r->label);
    struct hw_strbuf where = {0};
    hw_program_where(&m->now.program, &where, m->now.p->callsites,
                     hw_functions_get(m->now.functions, r->function), &m->now.places[r->function]);
    hw_screen_put_aside(s, &where);
    hw_strbuf_done(&where);
    hw_screen_line(s);
}

static void draw_table(struct hw_screen *s, const struct hw_live_model *m,
                       struct hw_live_screen_state *l, int lines)
{
    size_t page = lines > 1 ? (size_t)lines - 1 : 1, n = 0, drawn = 0;
    for (size_t i = 0; i < m->now.rows.n; i++)
        n += hw_live_row_shown(&m->now.rows.v[i], l->filter);
    l->at = l->at < n ? l->at : n ? n - 1 : 0;
    l->top = l->at < l->top ? l->at : l->at >= l->top + page ? l->at - page + 1 : l->top;
    draw_head(s, l);
    n = 0;
    for (size_t i = 0; i < m->now.rows.n && drawn < page; i++) {
        if (!hw_live_row_shown(&m->now.rows.v[i], l->filter))
            continue;
        if (n >= l->top) {
            draw_row(s, m, &m->now.rows.v[i], n == l->at);
            drawn++;
        }
        n++;
    }
    for (; drawn < page; drawn++)
        hw_screen_line(s);
}

void hw_live_draw(struct hw_screen *s, const struct hw_live_model *m,
                  struct hw_live_screen_state *l, struct hw_tree_view *tree)
{
    char line[400];
    int head = 2 + (s->rows >= 16 ? CURVE_ROWS : 0);
    hw_screen_frame(s);
    (void)snprintf(line, sizeof line, "%.200s (%d)", l->name, l->pid);
    hw_screen_put(s, HW_STYLE_HEAD, line);
    if (m->first_ns == 0) {
        hw_screen_line(s);
        hw_screen_line(s);
        hw_screen_put(s, HW_STYLE_PLAIN, l->said[0] ? l->said : "Waiting for its next allocation…");
        hw_screen_line(s);
        hw_screen_show(s);
        return;
    }
    first_line(m, l, line, sizeof line);
    hw_screen_put(s, HW_STYLE_DIM, line);
    hw_screen_line(s);
    second_line(m, line, sizeof line);
    hw_screen_put(s, m->facts.n_lost ? HW_STYLE_UP : HW_STYLE_BOLD, line);
    hw_screen_line(s);
    if (s->rows >= 16)
        draw_curve(s, m);
    int lines = s->rows - head - 1;
    if (l->tree)
        hw_tree_view_draw(tree, s, lines);
    else
        draw_table(s, m, l, lines);
    if (l->said[0])
        hw_screen_put(s, HW_STYLE_BOLD, l->said);
    else if (l->filter[0] && !l->tree) {
        (void)snprintf(line, sizeof line, "only names with '%s'; /: another, Esc: all", l->filter);
        hw_screen_put(s, HW_STYLE_BOLD, line);
    } else {
        hw_screen_put(s, HW_STYLE_DIM,
                      l->tree ? "Tab: table  arrows: move, open  m: metric  i: bottom-up  ?: keys"
                              : "Tab: tree  s t g c: order  b: baseline  Space: pause  ?: keys  q");
    }
    hw_screen_line(s);
    hw_screen_show(s);
}

/* ---- without a screen ---- */

int hw_live_print(const struct hw_live_model *m, const struct hw_live_screen_state *l, size_t top,
                  unsigned width)
{
    char line[400];
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, l->name, strlen(l->name));
    first_line(m, l, line, sizeof line);
    hw_strbuf_addf(&b, " (%d)", l->pid);
    hw_strbuf_add_escaped(&b, line, strlen(line));
    second_line(m, line, sizeof line);
    hw_strbuf_addf(&b, "\n%s\n%10s %10s %10s %8s %10s  FUNCTION\n", line, "SELF", "TOTAL", "GROWTH",
                   "COUNT", "RATE/s");
    size_t n = 0;
    for (size_t i = 0; i < m->now.rows.n && (top == 0 || n < top); i++) {
        const struct hw_live_row *r = &m->now.rows.v[i];
        char self[HW_UNIT_MAX], total[HW_UNIT_MAX], growth[HW_UNIT_MAX], count[HW_UNIT_MAX],
            rate[HW_UNIT_MAX];
        if (!hw_live_row_shown(r, l->filter))
            continue;
        n++;
        hw_strbuf_addf(&b, "%10s %10s %10s %8s %10s  ", hw_fmt_bytes(self, (double)r->self.space),
                       hw_fmt_bytes(total, (double)r->total.space),
                       hw_fmt_change(growth, (double)r->growth, true),
                       hw_fmt_count(count, (double)r->self.objects),
                       r->rate > 0 ? hw_fmt_bytes(rate, r->rate) : "-");
        hw_short_name(&b, r->label, width > 70 ? width - 54 : 16);
        hw_strbuf_addc(&b, '\n');
    }
    if (!b.failed)
        (void)fwrite(b.p, 1, b.n, stdout); /* main checks ferror */
    int rc = b.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&b);
    return rc;
}

void hw_live_json(struct hw_json *j, const struct hw_live_model *m,
                  const struct hw_live_screen_state *l, size_t top)
{
    size_t n = 0;
    hw_json_kv_int(j, "pid", l->pid);
    hw_json_kv_str(j, "name", l->name);
    hw_json_kv_str(j, "recording", l->own ? NULL : l->ref);
    hw_json_kv_double(j, "seconds", (double)(m->at_ns - m->first_ns) / 1e9);
    hw_json_kv_uint(j, "interval_bytes", m->interval_bytes);
    hw_json_kv_uint(j, "samples", m->facts.n_samples);
    hw_json_kv_uint(j, "lost", m->facts.n_lost);
    hw_json_kv_uint(j, "rss_bytes", m->rss_bytes);
    for (int k = 0; k < (int)hw_value_metrics(&m->total); k++)
        hw_json_kv_int(j, hw_metric_name((enum hw_metric)k),
                       hw_value_get(&m->total, (enum hw_metric)k));
    hw_json_put_errors(j, &m->total, m->interval_bytes);
    hw_json_kv_int(j, "growth", m->total.space - m->base_space);
    hw_json_key(j, "functions");
    hw_json_begin_array(j);
    for (size_t i = 0; i < m->now.rows.n && (top == 0 || n < top); i++) {
        const struct hw_live_row *r = &m->now.rows.v[i];
        if (!hw_live_row_shown(r, l->filter))
            continue;
        n++;
        const struct hw_strings *strings = hw_callsites_strings(m->now.p->callsites);
        const struct hw_function_at *at = &m->now.places[r->function];
        struct hw_bytes module =
            hw_strings_get(strings, hw_functions_get(m->now.functions, r->function)->module);
        hw_json_begin_object(j);
        hw_json_kv_str(j, "function", r->label);
        hw_json_key(j, "module");
        hw_json_strn(j, module.p, module.n);
        if (at->file.v)
            hw_json_kv_str(j, "file", hw_strings_cstr(strings, at->file));
        if (at->line)
            hw_json_kv_uint(j, "line", at->line);
        hw_json_kv_int(j, "space", r->self.space);
        hw_json_kv_int(j, "objects", r->self.objects);
        hw_json_kv_int(j, "alloc_space", r->self.alloc_space);
        hw_json_kv_int(j, "alloc_objects", r->self.alloc_objects);
        for (int k = HW_METRIC_USUAL; k < (int)hw_value_metrics(&r->self); k++)
            hw_json_kv_int(j, hw_metric_name((enum hw_metric)k),
                           hw_value_get(&r->self, (enum hw_metric)k));
        hw_json_kv_int(j, "total_space", r->total.space);
        hw_json_kv_int(j, "growth", r->growth);
        hw_json_kv_double(j, "alloc_space_per_second", r->rate);
        hw_json_put_errors(j, &r->self, m->interval_bytes);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}
