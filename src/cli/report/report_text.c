#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/text/plural.h"
#include "base/text/text_parts.h"
#include "base/text/utf8.h"
#include "cli/parts/account_text.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/short_name.h"
#include "cli/report/report_data.h"
#include "cli/report/report_end.h"
#include "cli/report/report_managed.h"
#include "cli/report/report_notes.h"
#include "config/command/units.h"

#include "base/banned.h"

struct page {
    const struct hw_report_data *d;
    FILE *out;
    struct hw_strbuf line; /* of the current row */
    bool has_callers;      /* some row names callers */
};

static const char *word(const struct page *pg, const char *unicode, const char *ascii)
{
    return pg->d->o->unicode ? unicode : ascii;
}

static void paint(const struct page *pg, const char *code)
{
    if (pg->d->o->color)
        fprintf(pg->out, "\033[%sm", code);
}

static char *fmt_metric(char out[HW_UNIT_MAX], enum hw_metric m, double v)
{
    return hw_metric_is_bytes(m) ? hw_fmt_bytes(out, v) : hw_fmt_count(out, v);
}

static void fmt_error(const struct page *pg, const struct hw_value *v, enum hw_metric m,
                      char out[HW_UNIT_MAX])
{
    double error = hw_figure_error(v, m, pg->d->view.interval_bytes);
    hw_fmt_error(out, (double)hw_value_get(v, m), error, pg->d->o->unicode);
}

/* ---- header ---- */

static void put_name(const struct page *pg, const char *name)
{
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, name, strlen(name));
    fputs(b.p ? b.p : "", pg->out);
    hw_strbuf_done(&b);
}

/* Cut where it is a whole command line; --json and SQL have all of it. */
static void put_title(const struct page *pg, const char *title)
{
    enum { MOST = 60 };
    struct hw_strbuf b = {0};
    size_t n = strlen(title), most = 0;
    while (most < n && (n <= MOST || most < MOST)) {
        size_t len = hw_utf8_len(title + most, n - most);
        most += len ? len : 1;
    }
    hw_strbuf_add_escaped(&b, title, most);
    fprintf(pg->out, "%s%s", b.p ? b.p : "", most < n ? word(pg, "\xe2\x80\xa6", "...") : "");
    hw_strbuf_done(&b);
}

/* A server that writes what it does over its arguments ("postgres: checkpointer") is shown by that. */
static const char *title_of(const struct hw_report_data *d, hw_upid upid)
{
    const char *name = hw_base_name(hw_report_process_name(d, upid));
    size_t n = strlen(name);
    if (n == 0 || name[n - 1] != ':')
        return name;
    const char *title =
        hw_strings_cstr(hw_callsites_strings(d->p->callsites), d->p->processes.v[upid.v].cmdline);
    return strncmp(title, name, n) == 0 ? title : name;
}

static void put_process(const struct page *pg)
{
    const struct hw_report_data *d = pg->d;
    const char *name = title_of(d, d->upid);
    char buf[HW_UNIT_MAX];
    paint(pg, "1");
    if (name[0]) {
        put_title(pg, name);
        fprintf(pg->out, " (%lld)", (long long)d->p->processes.v[d->upid.v].pid);
    } else {
        fprintf(pg->out, "pid %lld", (long long)d->p->processes.v[d->upid.v].pid);
    }
    paint(pg, "0");
    fprintf(pg->out, "  %zu dump%s over %s", d->view.n_dumps, hw_plural(d->view.n_dumps),
            hw_fmt_duration(buf, hw_sat_sub(d->now.ts_ns, d->view.start_ns)));
    fprintf(pg->out, "  interval %s", hw_fmt_bytes_exact(buf, d->view.interval_bytes));
    if (d->view.orig_interval_bytes && d->view.orig_interval_bytes != d->view.interval_bytes)
        fprintf(pg->out, " (asked for %s)", hw_fmt_bytes_exact(buf, d->view.orig_interval_bytes));
    fprintf(pg->out, "  samples %s", hw_fmt_count(buf, (double)d->n_samples));
    if (d->n_lost)
        paint(pg, "31");
    fprintf(pg->out, "  lost %s", hw_fmt_count(buf, (double)d->n_lost));
    if (d->n_lost)
        paint(pg, "0");
    fputc('\n', pg->out);
}

/* Only some dumps know, and only about the end. */
static bool shows_idle(const struct hw_report_data *d)
{
    return d->now.total.idle > 0 && !d->shows_peak && d->o->metric == HW_METRIC_SPACE;
}

/* Heaps left out of the sums: a JVM's objects next to its malloc. */
static void put_beside(const struct page *pg)
{
    const struct hw_report_data *d = pg->d;
    for (size_t i = 0; i < d->beside.n; i++) {
        const struct hw_report_heap *h = &d->beside.v[i];
        const char *name = hw_strings_cstr(hw_callsites_strings(d->p->callsites), h->name);
        char buf[HW_UNIT_MAX];
        fputs("not in these figures: ", pg->out);
        put_name(pg, name);
        if (h->kind == HW_HEAP_PINNED) {
            fprintf(pg->out, "   %s free on pages that live blocks pin   (--heap ",
                    hw_fmt_bytes(buf, (double)h->now.space));
            put_name(pg, name);
            fputs(")\n", pg->out);
            continue;
        }
        if (h->kind == HW_HEAP_RESIDENT) {
            fprintf(pg->out, "   %s of mmap.anon in memory   (--heap ",
                    hw_fmt_bytes(buf, (double)h->now.space));
            put_name(pg, name);
            fputs(")\n", pg->out);
            continue;
        }
        bool mapped = h->kind == HW_HEAP_MAPPED;
        if (h->kind != HW_HEAP_CHURN)
            fprintf(pg->out, "   %s %s", mapped ? "mapped" : "live",
                    hw_fmt_bytes(buf, (double)h->now.space));
        fprintf(pg->out, "   %s %s   (--heap ", mapped ? "ever mapped" : "allocated",
                hw_fmt_bytes(buf, (double)h->now.alloc_space));
        put_name(pg, name);
        fputs(")\n", pg->out);
    }
}

/* Then everything ever allocated is counted, and nothing is called live. */
static bool frees_unknown(const struct hw_report_data *d)
{
    return d->view.kind == HW_HEAP_CHURN;
}

static void put_account(const struct page *pg)
{
    const struct hw_report_data *d = pg->d;
    struct hw_strbuf line = {0};
    char at[HW_UNIT_MAX];
    if (!d->has_account)
        return;
    (void)hw_fmt_clock(at, hw_sat_sub(d->account.ts_ns, d->view.start_ns));
    hw_account_line(&d->account, d->account_is_of_another ? at : NULL, d->o->width, &line);
    fputs(line.p ? line.p : "", pg->out);
    hw_strbuf_done(&line);
}

#define TEMPORARY_SHARE 0.5 /* of all bytes: so much is said without being asked for */

/* What was freed at once is work for the allocator that another way of writing the program may avoid. */
static void put_temporary(const struct page *pg)
{
    const struct hw_report_data *d = pg->d;
    const struct hw_value *v = &d->now.total;
    bool asked = d->o->metric >= HW_METRIC_USUAL;
    double share = (double)v->temporary_space / (double)v->alloc_space;
    char buf[HW_UNIT_MAX], part[HW_UNIT_MAX];
    if (v->alloc_space <= 0 || (!asked && share < TEMPORARY_SHARE))
        return;
    fprintf(pg->out, "freed again within 1 s: %s", hw_fmt_bytes(buf, (double)v->temporary_space));
    fmt_error(pg, v, HW_METRIC_TEMPORARY_SPACE, buf);
    fprintf(pg->out, "%s%s in %s allocations", buf[0] ? " " : "", buf,
            hw_fmt_count(part, (double)v->temporary_objects));
    fmt_error(pg, v, HW_METRIC_TEMPORARY_OBJECTS, buf);
    fprintf(pg->out, "%s%s, %.0f%% of the allocated bytes%s\n", buf[0] ? " " : "", buf, 100 * share,
            asked ? "" : "   (-m temporary)");
}

static void put_totals(const struct page *pg)
{
    const struct hw_report_data *d = pg->d;
    char buf[HW_UNIT_MAX];
    if (!frees_unknown(d)) {
        fprintf(pg->out, "live %s", hw_fmt_bytes(buf, (double)d->now.total.space));
        fmt_error(pg, &d->now.total, HW_METRIC_SPACE, buf);
        fprintf(pg->out, "%s   ", buf);
    }
    fprintf(pg->out, "allocated %s", hw_fmt_bytes(buf, (double)d->now.total.alloc_space));
    if (frees_unknown(d)) {
        fmt_error(pg, &d->now.total, HW_METRIC_ALLOC_SPACE, buf);
        fprintf(pg->out, "%s   (what was freed is not recorded)", buf);
    } else if (d->view.knows_peak || d->view.moments.n > 1) {
        /* without recorded maxima, whatever the dumps happened to see */
        fprintf(pg->out, "   %s %s", d->view.knows_peak ? "peak" : "largest dump",
                hw_fmt_bytes(buf, (double)d->peak.total.space));
        fprintf(pg->out, " at %s", hw_fmt_clock(buf, hw_sat_sub(d->peak.ts_ns, d->view.start_ns)));
    }
    if (d->has_rss) {
        const struct hw_value *v = d->shows_peak ? &d->peak.total : &d->now.total;
        bool then = d->shows_peak && d->rss_is_near && !d->rss_is_peak;
        fprintf(pg->out, "   %sRSS %s%s", d->rss_is_peak ? "peak " : "", then ? "then " : "",
                hw_fmt_bytes(buf, d->rss));
        int64_t at = hw_sat_sub(d->rss_ns, d->view.start_ns);
        if (!d->rss_is_near)
            fprintf(pg->out, " at %s", at > 0 ? hw_fmt_clock(buf, at) : "the start");
        if (d->rss_is_near)
            fprintf(pg->out, "  explained %.0f%%", 100 * (double)v->space / d->rss);
    }
    fputc('\n', pg->out);
    put_temporary(pg);
    hw_report_end_text(d, pg->out);
    put_account(pg);
    put_beside(pg);
    if (shows_idle(d)) {
        fprintf(pg->out, "idle %s", hw_fmt_bytes(buf, (double)d->now.total.idle));
        fputs(" of it: live, and not touched since the dump before\n", pg->out);
    }
    if (d->has_minfo) {
        fprintf(pg->out, "malloc_info: %s in use", hw_fmt_bytes(buf, d->minfo_in_use));
        if (!d->minfo_is_near)
            fprintf(pg->out, " at %s",
                    hw_fmt_clock(buf, hw_sat_sub(d->minfo_ns, d->view.start_ns)));
        fprintf(pg->out, " (since the program's start)   %s free, kept by the allocator\n",
                hw_fmt_bytes(buf, d->minfo_free));
    }
}

/* ---- table ---- */

enum { COL_VALUE = 17, COL_DELTA = 11, COL_IDLE = 11, COL_ALLOCS = 8, COL_TREND = 10 };

static const char *value_title(const struct page *pg)
{
    switch (pg->d->o->metric) {
    case HW_METRIC_SPACE:
        if (frees_unknown(pg->d))
            return "ALLOCATED";
        return pg->d->shows_peak ? "AT PEAK" : "LIVE";
    case HW_METRIC_OBJECTS:
        return pg->d->shows_peak ? "OBJECTS AT PEAK" : "OBJECTS";
    case HW_METRIC_ALLOC_SPACE:
        return "ALLOCATED";
    case HW_METRIC_ALLOC_OBJECTS:
        return "ALLOCATIONS";
    case HW_METRIC_TEMPORARY_SPACE:
        return "TEMPORARY";
    case HW_METRIC_TEMPORARY_OBJECTS:
        return "TEMPORARY ALLOCS";
    case HW_METRIC_COUNT:
        break;
    }
    return "";
}

static void put_value_cell(struct page *pg, const struct hw_site *s)
{
    enum hw_metric m = pg->d->o->metric;
    char value[HW_UNIT_MAX], error[HW_UNIT_MAX], cell[2 * HW_UNIT_MAX + 4];
    fmt_metric(value, m, (double)hw_value_get(&s->now, m));
    fmt_error(pg, &s->now, m, error);
    bool rough = error[0] && hw_value_is_rough(&s->now, m, pg->d->view.interval_bytes);
    (void)snprintf(cell, sizeof cell, "%s%s%s", rough ? word(pg, "\xe2\x89\x88", "~") : "", value,
                   error);
    hw_put_cell(&pg->line, cell, COL_VALUE);
}

static void put_delta_cell(struct page *pg, const struct hw_site *s)
{
    char cell[HW_UNIT_MAX];
    double delta = (double)hw_sat_sub(s->now.space, s->before_space);
    hw_put_cell(&pg->line, hw_fmt_change(cell, delta, /* bytes = */ true), COL_DELTA);
}

/*
 * "dir/file.cc:12", the line that most came by, else the module unless it is the program itself. True: a
 * source location.
 */
static bool put_place(const struct page *pg, const struct hw_site *s, struct hw_strbuf *out)
{
    const struct hw_report_data *d = pg->d;
    const struct hw_function_at *at = &d->names.places[s->function];
    hw_function_place(out, d->p->callsites, at->file, at->line);
    if (out->n)
        return true;
    hw_site_where(&d->names, s->function, out);
    return false;
}

/* If there is room for only one: of the program's own code its line, which is what to change; of
 * other code a caller, which says more. */
static void put_site_cell(struct page *pg, const struct hw_site *s, size_t width, bool pad)
{
    enum { LEAST_NAME = 16, LEAST_CALLER = 15 };
    const struct hw_report_data *d = pg->d;
    const struct hw_function *fn = hw_functions_get(d->functions, s->function);
    struct hw_strbuf label = {0}, cell = {0}, place = {0};
    bool is_own = hw_function_owner_of(&d->names.program, d->p->callsites, fn) == HW_OWNER_PROGRAM;
    bool gives_way = put_place(pg, s, &place) && !is_own;
    hw_site_label(&d->names, fn, &label);
    size_t place_width = place.n ? hw_text_width(place.p) + 4 : 0;
    size_t room = width > place_width + LEAST_NAME ? width - place_width : LEAST_NAME;
    hw_short_name(&cell, label.p ? label.p : "", room);
    hw_site_class(&d->names, s->function, &cell);
    size_t used = hw_text_width(cell.p ? cell.p : "");
    if (gives_way && d->names.callers[s->function].n && used + place_width + LEAST_CALLER > width &&
        used + LEAST_CALLER <= width)
        place_width = 0;
    if (used + place_width < width)
        pg->has_callers |=
            hw_site_callers(&d->names, s->function, width - used - place_width, &cell);
    if (place_width)
        hw_strbuf_addf(&cell, "  (%s)", place.p);
    hw_strbuf_adds(&pg->line, cell.p ? cell.p : "");
    for (size_t w = hw_text_width(cell.p ? cell.p : ""); pad && w < width; w++)
        hw_strbuf_addc(&pg->line, ' ');
    pg->line.failed |= label.failed || cell.failed || place.failed;
    hw_strbuf_done(&label);
    hw_strbuf_done(&cell);
    hw_strbuf_done(&place);
}

static void put_row(struct page *pg, size_t i, size_t site_width)
{
    const struct hw_report_data *d = pg->d;
    const struct hw_site *s = &d->sites.v[i];
    const char *trend = hw_trend_name(d->trends[i]);
    char buf[HW_UNIT_MAX];
    hw_strbuf_clear(&pg->line);
    put_value_cell(pg, s);
    if (d->before)
        put_delta_cell(pg, s);
    if (shows_idle(d))
        hw_put_cell(&pg->line, s->now.idle ? hw_fmt_bytes(buf, (double)s->now.idle) : "", COL_IDLE);
    hw_put_cell(&pg->line, hw_fmt_count(buf, (double)s->now.alloc_objects), COL_ALLOCS);
    hw_strbuf_adds(&pg->line, "   ");
    put_site_cell(pg, s, site_width, trend[0] != 0);
    fputs(pg->line.p ? pg->line.p : "", pg->out);
    if (trend[0]) {
        paint(pg, d->trends[i] == HW_TREND_GROWING ? "33" : "2");
        fprintf(pg->out, "  %s", trend);
        paint(pg, "0");
    }
    fputc('\n', pg->out);
}

static size_t rest(const struct page *pg, double *value)
{
    const struct hw_report_data *d = pg->d;
    size_t n = 0;
    *value = 0;
    for (size_t i = d->n_rows; i < d->sites.n; i++) {
        int64_t v = hw_value_get(&d->sites.v[i].now, d->o->metric);
        *value += (double)v;
        n += v != 0;
    }
    return n;
}

/* A Poisson process without a point: three intervals of small allocations miss all of them in one
 * case of twenty. */
static void put_legend(const struct page *pg)
{
    char buf[HW_UNIT_MAX];
    uint64_t n = pg->d->view.interval_bytes;
    if (n > 1 && n < UINT64_MAX / 3)
        fprintf(pg->out,
                "%s: 95%% interval. Without it, and where a site is missing, up to %s of small\n"
                "   allocations may have gone unsampled.\n",
                word(pg, "\xc2\xb1", "+-"), hw_fmt_bytes(buf, 3 * (double)n));
    if (pg->has_callers)
        fputs(HW_SITE_LEGEND, pg->out);
}

static void put_table(struct page *pg)
{
    const struct hw_report_data *d = pg->d;
    char buf[HW_UNIT_MAX];
    size_t left = COL_VALUE + COL_ALLOCS + 3 + (d->before ? COL_DELTA : 0) + 2 + COL_TREND;
    if (shows_idle(d))
        left += COL_IDLE;
    size_t site_width = d->o->width > left + 24 ? d->o->width - left : 24;
    if (d->shows_peak) {
        bool freed = !d->o->peak;
        bool totals = !hw_metric_is_live(d->o->metric);
        fprintf(pg->out, "\n%sthe table shows %s at %s\n",
                freed ? "most of it was freed by the end; " : "",
                totals ? "what was allocated until the peak" : "the peak",
                hw_fmt_clock(buf, hw_sat_sub(d->peak.ts_ns, d->view.start_ns)));
    }
    if (d->n_rows == 0) {
        fputs(d->o->metric < HW_METRIC_USUAL ? "\nnothing is live\n"
                                             : "\nnothing was freed within 1 s\n",
              pg->out);
        return;
    }
    hw_strbuf_clear(&pg->line);
    hw_put_cell(&pg->line, value_title(pg), COL_VALUE);
    if (d->before)
        hw_put_cell(&pg->line, word(pg, "\xce\x94 last", "change"), COL_DELTA);
    if (shows_idle(d))
        hw_put_cell(&pg->line, "IDLE", COL_IDLE);
    hw_put_cell(&pg->line, "ALLOCS", COL_ALLOCS);
    fputc('\n', pg->out);
    paint(pg, "1");
    fprintf(pg->out, "%s   SITE", pg->line.p ? pg->line.p : "");
    paint(pg, "0");
    fputc('\n', pg->out);
    for (size_t i = 0; i < d->n_rows; i++)
        put_row(pg, i, site_width);
    double value;
    size_t n = rest(pg, &value);
    if (n)
        fprintf(pg->out, "%*s   in %zu more site%s (--top 0: all)\n", COL_VALUE,
                fmt_metric(buf, d->o->metric, value), n, hw_plural(n));
    put_legend(pg);
}

/* ---- other processes and hints ---- */

static void put_amounts(const struct page *pg, const struct hw_value *v)
{
    char buf[HW_UNIT_MAX];
    fprintf(pg->out, "  live %s", hw_fmt_bytes(buf, (double)v->space));
    fprintf(pg->out, "  allocated %s", hw_fmt_bytes(buf, (double)v->alloc_space));
}

/*
 * Processes of one name share an entry: a build runs hundreds of compilers. Returns their number,
 * or 0 if an earlier process had the name.
 */
static size_t same_name(const struct hw_report_data *d, size_t at, struct hw_value *sum)
{
    const char *name = title_of(d, d->ranks.v[at].upid);
    size_t n = 0;
    for (size_t i = 0; i < d->ranks.n; i++) {
        if (d->ranks.v[i].upid.v == d->upid.v || strcmp(title_of(d, d->ranks.v[i].upid), name) != 0)
            continue;
        if (i < at)
            return 0;
        hw_value_add(sum, &d->ranks.v[i].total);
        n++;
    }
    return n;
}

/* All mere launchers share one line. */
static void put_starters(const struct page *pg, bool first)
{
    const struct hw_report_data *d = pg->d;
    struct hw_value sum = {0};
    struct hw_strbuf names = {0};
    for (size_t i = 0; i < d->ranks.n; i++) {
        if (d->ranks.v[i].upid.v == d->upid.v ||
            !hw_open_profile_is_starter(d->p, d->ranks.v[i].upid))
            continue;
        size_t n = same_name(d, i, &sum);
        const char *name = hw_base_name(hw_report_process_name(d, d->ranks.v[i].upid));
        if (n && names.n)
            hw_strbuf_adds(&names, ", ");
        if (n > 1)
            hw_strbuf_addf(&names, "%zu ", n);
        if (n)
            hw_strbuf_add_escaped(&names, name, strlen(name));
    }
    if (names.n) {
        fprintf(pg->out, "%sstarted by: %s", first ? "\n" : "", names.p ? names.p : "");
        put_amounts(pg, &sum);
        fputc('\n', pg->out);
    }
    hw_strbuf_done(&names);
}

/* " x3 (25496, 25495, 25493)": the n processes of one title, from `at` on. */
static void put_pids(const struct page *pg, size_t at, size_t n)
{
    enum { MAX_PIDS = 6 };
    const struct hw_report_data *d = pg->d;
    const char *title = title_of(d, d->ranks.v[at].upid);
    size_t shown = 0;
    if (n > 1)
        fprintf(pg->out, " %s%zu", word(pg, "\xc3\x97", "x"), n);
    for (size_t i = at; i < d->ranks.n && shown < n && shown < MAX_PIDS; i++) {
        hw_upid upid = d->ranks.v[i].upid;
        if (upid.v != d->upid.v && strcmp(title_of(d, upid), title) == 0)
            fprintf(pg->out, "%s%lld", shown++ ? ", " : " (",
                    (long long)d->p->processes.v[upid.v].pid);
    }
    if (shown < n)
        fprintf(pg->out, " and %zu more", n - shown);
    fputc(')', pg->out);
}

static void put_others(const struct page *pg)
{
    enum { MAX_LINES = 8 };
    const struct hw_report_data *d = pg->d;
    size_t lines = 0, left = 0;
    for (size_t i = 0; i < d->ranks.n; i++) {
        hw_upid upid = d->ranks.v[i].upid;
        struct hw_value sum = {0};
        if (upid.v == d->upid.v || hw_open_profile_is_starter(d->p, upid))
            continue;
        size_t n = same_name(d, i, &sum);
        if (n == 0)
            continue;
        if (lines == MAX_LINES) {
            left += n;
            continue;
        }
        fputs(lines++ == 0 ? "\nalso: " : "      ", pg->out);
        const char *name = title_of(d, upid);
        put_title(pg, name[0] ? name : "(no name)");
        put_pids(pg, i, n);
        put_amounts(pg, &sum);
        fputs(lines == 1 ? "  (--pid PID shows it)\n" : "\n", pg->out);
    }
    if (left)
        fprintf(pg->out, "      and %zu more; heapwise stats lists them\n", left);
    put_starters(pg, lines == 0);
}

static void put_hints(const struct page *pg)
{
    const struct hw_report_data *d = pg->d;
    if (d->o->path && !d->o->is_followed) {
        struct hw_strbuf word = {0};
        hw_strbuf_add_shell_word(&word, d->o->path);
        fprintf(pg->out, "\nnext: heapwise tree %s\n", word.p ? word.p : "");
        hw_strbuf_done(&word);
    }
}

int hw_report_text(const struct hw_report_data *d, FILE *out)
{
    struct page pg = {.d = d, .out = out};
    put_process(&pg);
    put_totals(&pg);
    int managed = hw_report_managed_text(d, out);
    hw_report_notes_above(d, out);
    put_table(&pg);
    put_others(&pg);
    int rc = hw_report_notes(d, out);
    put_hints(&pg);
    if (pg.line.failed || managed < 0)
        rc = HW_ENOMEM;
    hw_strbuf_done(&pg.line);
    return rc;
}
