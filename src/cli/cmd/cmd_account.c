/* heapwise account TRACE: all memory of a process, and who owns each byte. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/account/account_arenas.h"
#include "cli/account/account_remedies.h"
#include "cli/account/account_rounding.h"
#include "cli/account/account_runtimes.h"
#include "cli/cli.h"
#include "cli/parts/account_pins.h"
#include "cli/parts/account_sites.h"
#include "cli/parts/account_text.h"
#include "cli/parts/json_page.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "cli/report/account_group.h"
#include "cli/report/account_trend.h"
#include "cli/report/report.h"
#include "config/command/units.h"
#include "views/account/memory_parts.h"

#include "base/banned.h"

enum { COL_BYTES = 11, COL_SHARE = 8 };
#define UNSEEN_LEAST (1024.0 * 1024)

struct page {
    const struct hw_cli *cli;
    struct hw_open_profile show;
    struct hw_memory_parts parts;
    struct hw_account_sites mapped;
    struct hw_account_pins pins;
    struct hw_arenas arenas;
    struct hw_account_rounding rounding;
    struct hw_account_remedies remedies;
    struct hw_report_options look;
    size_t top;
};

static int64_t since_start(const struct page *pg, int64_t ts_ns)
{
    return hw_open_profile_since_start(&pg->show, ts_ns);
}

static void put_head(const struct page *pg)
{
    const struct hw_memory_parts *m = &pg->parts;
    char at[HW_UNIT_MAX], dump[HW_UNIT_MAX];
    struct hw_strbuf line = {0};
    hw_open_profile_label(&pg->show, &line);
    hw_strbuf_addf(&line, "  read %s after the start", hw_fmt_clock(at, since_start(pg, m->ts_ns)));
    if (pg->show.moment) /* an exited process was read before its last dump */
        hw_strbuf_addf(&line, ", dump at %s",
                       hw_fmt_clock(dump, since_start(pg, pg->show.moment->ts_ns)));
    int64_t age = pg->show.moment ? hw_sat_sub(pg->show.moment->ts_ns, m->ts_ns) : 0;
    if (age >= HW_ACCOUNT_AGE_SHOWN_NS || age <= -HW_ACCOUNT_AGE_SHOWN_NS)
        hw_strbuf_addf(&line, ", %s %s", hw_fmt_clock(at, age < 0 ? -age : age),
                       age < 0 ? "before the reading" : "after it");
    hw_strbuf_addc(&line, '\n');
    hw_account_line(m, NULL, pg->look.width, &line);
    fputs(line.p ? line.p : "", stdout);
    hw_strbuf_done(&line);
}

static void put_figures(const struct page *pg, const struct hw_part_bytes *b, bool with_swap)
{
    char buf[HW_UNIT_MAX];
    double rss = pg->parts.total.rss;
    printf("%*s", COL_BYTES, hw_fmt_bytes(buf, b->rss));
    printf("%*.1f%%", COL_SHARE - 1, rss > 0 ? 100 * b->rss / rss : 0);
    printf("%*s", COL_BYTES, hw_fmt_bytes(buf, b->pss));
    if (with_swap)
        printf("%*s", COL_BYTES, hw_fmt_bytes(buf, b->swap));
}

static void put_escaped(const char *text)
{
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, text, strlen(text));
    fputs(b.p ? b.p : "", stdout);
    hw_strbuf_done(&b);
}

static void put_requested(const struct page *pg)
{
    const struct hw_memory_parts *m = &pg->parts;
    char buf[HW_UNIT_MAX], error[HW_UNIT_MAX];
    printf(": %s requested%s", hw_fmt_bytes(buf, m->requested),
           hw_fmt_error(error, m->requested, m->error, pg->look.unicode));
    if (m->untouched >= 1024)
        printf(", %s of it never written to", hw_fmt_bytes(buf, m->untouched));
}

/* Of the same reading. */
static bool reading_figure(const struct page *pg, const char *counter, double *out)
{
    int64_t at;
    return hw_process_counter(pg->show.p, pg->show.upid, counter, pg->parts.ts_ns, out, &at) &&
           at == pg->parts.ts_ns;
}

static void put_entries(const struct page *pg, enum hw_memory_part part, bool with_swap)
{
    const struct hw_memory_parts *m = &pg->parts;
    size_t n = 0, left = 0;
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct hw_part_entry *e = &m->entries.v[i];
        if (e->part != part || e->bytes.rss + e->bytes.swap <= 0)
            continue;
        if (pg->top && n++ >= pg->top) {
            left++;
            continue;
        }
        put_figures(pg, &e->bytes, with_swap);
        fputs("      ", stdout);
        put_escaped(hw_memory_entry_name(pg->show.p, e));
        if (e->n_mappings > 1)
            printf("  (%llu mappings)", (unsigned long long)e->n_mappings);
        putchar('\n');
    }
    if (left)
        printf("%*s%zu more (--top 0: all)\n",
               2 * COL_BYTES + COL_SHARE + 6 + (with_swap ? COL_BYTES : 0), "", left);
}

/* Of the measurement by call; absent and 0 are the same. */
static double mapped_figure(const struct page *pg, const char *counter)
{
    double v = 0;
    (void)hw_process_counter(pg->show.p, pg->show.upid, counter, pg->mapped.resident_ns, &v, NULL);
    return v;
}

/* NULL: there was a reason, and it is not known: the process had ended, or the mappings are too large. */
static const char *why_divided(const struct page *pg)
{
    double error = mapped_figure(pg, "account.mapped_errno");
    return error > 0 && error < 4096 ? strerror((int)error) : NULL;
}

/* How far the figures by call can be trusted. */
static void put_mapped_limits(const struct page *pg, const char *indent)
{
    char buf[HW_UNIT_MAX];
    double divided = mapped_figure(pg, "account.mapped_divided"),
           left = mapped_figure(pg, "account.mapped_left");
    const char *why = why_divided(pg);
    if (!hw_account_sites_are_of(&pg->mapped, pg->parts.ts_ns))
        printf("%sin memory at %s, when it was measured\n", indent,
               hw_fmt_clock(buf, since_start(pg, pg->mapped.resident_ns)));
    if (divided > 0)
        printf("%s%s estimated, in mappings of several calls that the kernel joined: %s%s\n",
               indent, hw_fmt_bytes(buf, divided), why ? "/proc/PID/pagemap: " : "",
               why ? why : "the process had ended, or they are too large");
    if (left > 0)
        printf("%s%s of address space was not looked at: too many mappings\n", indent,
               hw_fmt_bytes(buf, left));
}

static enum hw_memory_part mapped_part(const struct page *pg);

/* Mapped by no call that was seen; below the least: by the difference of two readings, perhaps. */
static double unseen_of(const struct page *pg)
{
    const struct hw_account_sites *a = &pg->mapped;
    double by_calls = a->has_resident ? a->resident_bytes : 0;
    if (a->has_resident ? !hw_account_sites_are_of(&pg->mapped, pg->parts.ts_ns) : a->has_calls)
        return 0; /* what is in memory of the calls' mappings was not measured then */
    double unseen = pg->parts.parts[mapped_part(pg)].rss - by_calls;
    return unseen >= UNSEEN_LEAST ? unseen : 0;
}

static void put_mapped(const struct page *pg)
{
    const struct hw_account_sites *a = &pg->mapped;
    char buf[HW_UNIT_MAX], indent[COL_BYTES + COL_SHARE + COL_BYTES + 7];
    struct hw_strbuf line = {0};
    (void)snprintf(indent, sizeof indent, "%*s", COL_BYTES + COL_SHARE + COL_BYTES + 6, "");
    for (size_t i = 0; i < a->sites.n && (!pg->top || i < pg->top); i++) {
        const struct hw_site *s = &a->sites.v[i];
        hw_strbuf_clear(&line);
        hw_account_site_name(&a->names, s, 60, &line);
        fputs(indent, stdout);
        if (a->has_resident)
            printf("%s of ", hw_fmt_bytes(buf, (double)hw_account_resident(a, s)));
        printf("%s mapped by %s\n", hw_fmt_bytes(buf, (double)s->now.space), line.p ? line.p : "");
    }
    if (unseen_of(pg) > 0)
        printf("%s%s by no call that was seen: system calls of the program's own, or before the "
               "recording\n",
               indent, hw_fmt_bytes(buf, unseen_of(pg)));
    if (a->sites.n && a->has_resident)
        put_mapped_limits(pg, indent);
    hw_strbuf_done(&line);
}

/* A runtime's mappings are its managed heaps. */
static enum hw_memory_part mapped_part(const struct page *pg)
{
    const struct hw_part_bytes *p = pg->parts.parts;
    return p[HW_PART_MANAGED].rss > p[HW_PART_ANONYMOUS].rss ? HW_PART_MANAGED : HW_PART_ANONYMOUS;
}

static struct hw_account_runtimes runtimes_of(const struct page *pg)
{
    return (struct hw_account_runtimes){pg->show.p, pg->show.upid, &pg->parts};
}

static void put_runtimes(const struct page *pg)
{
    struct hw_account_runtimes r = runtimes_of(pg);
    hw_account_runtimes_put(&r, COL_BYTES + COL_SHARE + COL_BYTES + 6);
}

static void put_table(const struct page *pg)
{
    const struct hw_memory_parts *m = &pg->parts;
    bool with_swap = m->total.swap > 0;
    printf("\n%*s%*s%*s", COL_BYTES, "RSS", COL_SHARE, "SHARE", COL_BYTES, "PSS");
    if (with_swap)
        printf("%*s", COL_BYTES, "SWAP");
    puts("  WHOSE");
    for (int p = 0; p < HW_PART_COUNT; p++) {
        const struct hw_part_bytes *b = &m->parts[p];
        bool is_shown =
            p == HW_PART_UNEXPLAINED || (p == (int)mapped_part(pg) && pg->mapped.sites.n);
        if (!is_shown && b->rss == 0 && b->swap == 0)
            continue;
        put_figures(pg, b, with_swap);
        printf("  %s", hw_memory_part_name((enum hw_memory_part)p));
        if (p == HW_PART_LIVE)
            put_requested(pg);
        else
            hw_account_put_what(m, (enum hw_memory_part)p);
        putchar('\n');
        put_entries(pg, (enum hw_memory_part)p, with_swap);
        if (p == HW_PART_MANAGED)
            put_runtimes(pg);
        if (p == (int)mapped_part(pg))
            put_mapped(pg);
    }
    put_figures(pg, &m->total, with_swap);
    puts("  all");
}

static const char *const groups[][2] = {{"cgroup.current", "current"}, {"cgroup.limit", "limit"},
                                        {"cgroup.anon", "anon"},       {"cgroup.file", "file"},
                                        {"cgroup.shmem", "shmem"},     {"cgroup.kernel", "kernel"},
                                        {"cgroup.sock", "sock"}};

static void put_beside(const struct page *pg)
{
    const struct hw_memory_parts *m = &pg->parts;
    char buf[HW_UNIT_MAX];
    double v;
    putchar('\n');
    if (m->page_tables >= 0)
        printf("not in RSS: page tables %s\n", hw_fmt_bytes(buf, m->page_tables));
    if (reading_figure(pg, "cgroup.anon", &v)) {
        fputs("memory group, all its processes:", stdout);
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
            if (reading_figure(pg, groups[i][0], &v))
                printf(" %s %s", groups[i][1], hw_fmt_bytes(buf, v));
        putchar('\n');
    }
    if (reading_figure(pg, "account.own_left", &v))
        printf(
            "%s of the profiler's own memory is not known as such, and counts as the program's\n",
            hw_fmt_bytes(buf, v));
    if (m->is_cut)
        puts("not all mappings were read: there are too many of them; the rest is unexplained");
    if (!m->by_owner)
        puts("this trace does not tell the allocator's mappings from others; one of a newer "
             "recorder does");
}

static void put_pins(const struct page *pg)
{
    char at[HW_UNIT_MAX];
    hw_account_pins_put(&pg->pins, &pg->parts,
                        hw_fmt_clock(at, since_start(pg, pg->pins.pinned.ts_ns)), pg->look.width,
                        pg->top);
}

static void put_arenas(const struct page *pg)
{
    char at[HW_UNIT_MAX];
    hw_account_arenas_put(&pg->arenas, hw_fmt_clock(at, since_start(pg, pg->arenas.ts_ns)),
                          pg->top);
}

static void json_bytes(struct hw_json *j, const struct hw_part_bytes *b)
{
    hw_json_kv_double(j, "rss_bytes", b->rss);
    hw_json_kv_double(j, "pss_bytes", b->pss);
    hw_json_kv_double(j, "swap_bytes", b->swap);
}

static void json_part(const struct page *pg, struct hw_json *j, enum hw_memory_part part)
{
    const struct hw_memory_parts *m = &pg->parts;
    hw_json_begin_object(j);
    hw_json_kv_str(j, "name", hw_memory_part_name(part));
    json_bytes(j, &m->parts[part]);
    hw_json_key(j, "entries");
    hw_json_begin_array(j);
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct hw_part_entry *e = &m->entries.v[i];
        if (e->part != part)
            continue;
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name",
                       hw_strings_cstr(hw_callsites_strings(pg->show.p->callsites), e->name));
        json_bytes(j, &e->bytes);
        hw_json_kv_double(j, "size_bytes", e->size);
        hw_json_kv_uint(j, "mappings", e->n_mappings);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

/* Of mapped_by. */
static void json_mapped_limits(const struct page *pg, struct hw_json *j)
{
    if (!pg->mapped.has_resident)
        return;
    const char *why = why_divided(pg);
    hw_json_kv_int(j, "mapped_resident_at_ns", since_start(pg, pg->mapped.resident_ns));
    hw_json_kv_double(j, "mapped_resident_bytes", pg->mapped.resident_bytes);
    hw_json_kv_double(j, "mapped_estimated_bytes", mapped_figure(pg, "account.mapped_divided"));
    if (why)
        hw_json_kv_str(j, "mapped_estimated_why", why);
    hw_json_kv_double(j, "mapped_left_bytes", mapped_figure(pg, "account.mapped_left"));
}

static int put_json(const struct page *pg)
{
    const struct hw_memory_parts *m = &pg->parts;
    struct hw_json j;
    double v;
    hw_json_page_begin(&j, stdout, "account", 0);
    hw_json_kv_int(&j, "pid", pg->show.p->processes.v[pg->show.upid.v].pid);
    hw_json_kv_int(&j, "at_ns", since_start(pg, m->ts_ns));
    if (pg->show.moment)
        hw_json_kv_int(&j, "dump_at_ns", since_start(pg, pg->show.moment->ts_ns));
    hw_json_kv_int(&j, "live_at_ns", since_start(pg, m->live_ts_ns));
    json_bytes(&j, &m->total);
    hw_json_kv_double(&j, "unexplained_bytes", m->parts[HW_PART_UNEXPLAINED].rss);
    hw_json_kv_double(&j, "requested_bytes", m->requested);
    hw_json_kv_double(&j, "requested_error_bytes", m->error);
    hw_json_kv_double(&j, "untouched_bytes", m->untouched);
    hw_json_kv_bool(&j, "older_or_free", m->older_or_free);
    if (m->older_ts_ns)
        hw_json_kv_int(&j, "older_at_ns", since_start(pg, m->older_ts_ns));
    hw_json_kv_bool(&j, "cut", m->is_cut);
    if (m->page_tables >= 0)
        hw_json_kv_double(&j, "page_tables_bytes", m->page_tables);
    if (reading_figure(pg, "account.own_left", &v))
        hw_json_kv_double(&j, "profiler_unlisted_bytes", v);
    hw_json_key(&j, "parts");
    hw_json_begin_array(&j);
    for (int p = 0; p < HW_PART_COUNT; p++)
        json_part(pg, &j, (enum hw_memory_part)p);
    hw_json_end_array(&j);
    struct hw_account_runtimes runtimes = runtimes_of(pg);
    hw_account_runtimes_json(&runtimes, &j);
    hw_account_arenas_json(&pg->arenas, since_start(pg, pg->arenas.ts_ns), &j);
    hw_account_sites_json(&pg->mapped, &j);
    hw_json_kv_double(&j, "mapped_unseen_bytes", unseen_of(pg));
    json_mapped_limits(pg, &j);
    hw_account_rounding_json(&pg->rounding, &j);
    hw_account_pins_json(&pg->pins, since_start(pg, pg->pins.pinned.ts_ns), &j);
    hw_account_remedies_json(&pg->remedies, &j);
    hw_json_key(&j, "memory_group");
    hw_json_begin_object(&j);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (reading_figure(pg, groups[i][0], &v))
            hw_json_kv_double(&j, groups[i][1], v);
    hw_json_end_object(&j);
    return hw_json_page_end(&j);
}

/* ---- a process without dumps: its readings take their place ---- */

typedef HW_VEC(struct hw_counter_row) reading_list;

static int find_readings(const struct hw_open_profile *s, reading_list *out)
{
    const struct hw_strings *strings = hw_callsites_strings(s->p->callsites);
    struct hw_bytes want = hw_bytes_str("account.rss");
    for (size_t i = 0; i < s->p->counters.n; i++) {
        const struct hw_counter_row *c = &s->p->counters.v[i];
        if (c->upid.v == s->upid.v && hw_bytes_equal(hw_strings_get(strings, c->name), want) &&
            hw_vec_push(out, *c) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* NULL: no such reading. */
static const struct hw_counter_row *pick_reading(const struct page *pg, const reading_list *r)
{
    const char *at = hw_opt_text(&pg->cli->opts, HW_OPT_ACCOUNT_AT);
    const struct hw_counter_row *best = r->n ? &r->v[r->n - 1] : NULL;
    uint64_t n;
    if (!at || strcmp(at, "last") == 0 || r->n == 0)
        return best;
    if (strcmp(at, "first") == 0)
        return &r->v[0];
    if (strcmp(at, "peak") == 0) {
        for (size_t i = 0; i < r->n; i++)
            best = r->v[i].value > best->value ? &r->v[i] : best;
        return best;
    }
    if (hw_parse_uint(at, &n, NULL) == 0)
        return n >= 1 && n <= r->n ? &r->v[n - 1] : NULL;
    best = NULL;
    if (hw_parse_time_ms(at, &n, NULL) == 0)
        for (size_t i = 0; i < r->n; i++)
            if ((double)since_start(pg, r->v[i].ts_ns) <= (double)n * 1e6)
                best = &r->v[i];
    return best;
}

/* 1: printed that there is none. */
static int choose_reading(const struct page *pg, int64_t *out)
{
    reading_list readings = {0};
    int rc = find_readings(&pg->show, &readings);
    const struct hw_counter_row *r = rc == HW_OK ? pick_reading(pg, &readings) : NULL;
    if (r) {
        *out = r->ts_ns;
    } else if (rc == HW_OK) {
        hw_cli_error(pg->cli, NULL, "no reading '%s' among the %zu of this process",
                     hw_opt_text(&pg->cli->opts, HW_OPT_ACCOUNT_AT), readings.n);
        rc = 1;
    }
    hw_vec_done(&readings);
    return rc;
}

static int no_readings(const struct page *pg)
{
    hw_cli_error(pg->cli, "no-data", "the trace has no mappings of this process");
    hw_cli_hint("record it again: `heapwise record` and `attach` read them at each dump, and of "
                "a program that runs for a tenth of a second");
    return HW_EXIT_NO_DATA;
}

/* It needs no mappings. */
static int rounding_alone(struct page *pg)
{
    bool is_asked = hw_opt_flag(&pg->cli->opts, HW_OPT_ACCOUNT_ROUNDING) && pg->show.moment;
    int rc = hw_account_rounding_find(&pg->show, &pg->rounding);
    if (rc == HW_OK && !(is_asked && pg->rounding.is_known))
        return no_readings(pg);
    if (rc == HW_OK)
        rc = hw_account_rounding_alone(pg->cli, &pg->rounding, &pg->show, pg->look.unicode,
                                       pg->look.width, pg->top);
    return hw_cli_written(pg->cli, rc);
}

static int json_all(const struct page *pg, const struct hw_parts_series *s)
{
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "account", 0);
    hw_json_kv_int(&j, "pid", pg->show.p->processes.v[pg->show.upid.v].pid);
    hw_account_series_json(s, pg->show.view.start_ns, &j);
    return hw_json_page_end(&j);
}

/* --at all */
static int answer_all(struct page *pg)
{
    struct hw_parts_series s;
    int rc = hw_parts_series_find(pg->show.p, &pg->show.list, &pg->show.view, &s);
    if (rc == HW_OK && s.v.n == 0) {
        hw_parts_series_done(&s);
        return no_readings(pg);
    }
    if (rc == HW_OK && hw_opt_flag(&pg->cli->opts, HW_OPT_JSON)) {
        rc = json_all(pg, &s);
    } else if (rc == HW_OK) {
        struct hw_strbuf label = {0};
        hw_open_profile_label(&pg->show, &label);
        printf("%s  %zu readings\n\n", label.p ? label.p : "", s.v.n);
        hw_strbuf_done(&label);
        hw_account_series_put(&s, pg->show.view.start_ns);
    }
    hw_parts_series_done(&s);
    return hw_cli_written(pg->cli, rc);
}

/* Of the reading that is shown; the dump it belongs to may be a little younger. */
static int64_t moment_of(const struct page *pg)
{
    const struct hw_memory_parts *m = &pg->parts;
    if (pg->show.moment)
        return pg->show.moment->ts_ns;
    return m->live_ts_ns > m->ts_ns ? m->live_ts_ns : m->ts_ns;
}

static int answer(struct page *pg)
{
    struct hw_open_profile *s = &pg->show;
    int64_t ts_ns = s->moment ? s->moment->ts_ns : 0;
    int rc = s->moment ? HW_OK : choose_reading(pg, &ts_ns);
    if (rc == 1)
        return HW_EXIT_FAILED;
    if (rc == HW_OK)
        rc = hw_memory_parts_find(s->p, &s->view, ts_ns, &s->values, &pg->parts);
    if (rc == HW_ENOTFOUND)
        return rounding_alone(pg);
    if (rc == HW_OK)
        rc = hw_account_sites_find(s, moment_of(pg), &pg->mapped);
    if (rc == HW_OK)
        rc = hw_account_pins_find(s, &pg->parts, &pg->pins);
    if (rc == HW_OK)
        rc = hw_account_rounding_find(s, &pg->rounding);
    if (rc == HW_OK) {
        hw_arenas_find(s->p, s->upid, pg->parts.ts_ns, &pg->arenas);
        hw_account_remedies_find(&pg->parts, &pg->pins, &pg->rounding, &pg->arenas, &pg->remedies);
    }
    if (rc == HW_OK && hw_opt_flag(&pg->cli->opts, HW_OPT_JSON)) {
        rc = put_json(pg);
    } else if (rc == HW_OK) {
        put_head(pg);
        put_table(pg);
        put_beside(pg);
        if (hw_opt_flag(&pg->cli->opts, HW_OPT_ACCOUNT_ROUNDING))
            hw_account_rounding_put(&pg->rounding, pg->look.unicode, pg->look.width, pg->top);
        put_arenas(pg);
        put_pins(pg);
        hw_account_remedies_put(&pg->remedies);
    }
    return hw_cli_written(pg->cli, rc);
}

int hw_cmd_account(struct hw_cli *cli)
{
    const struct hw_optval *pid = &cli->opts.v[HW_OPT_SHOW_PID];
    struct page pg = {.cli = cli, .look = hw_report_defaults(cli, STDOUT_FILENO)};
    if (cli->opts.n_args != 1) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than one trace" : "which trace?");
        hw_cli_hint("heapwise account TRACE");
        return hw_cli_usage_exit(cli);
    }
    struct hw_open_profile_want want = {.path = cli->opts.args[0],
                                        .has_pid = pid->set,
                                        .pid = (int64_t)pid->num,
                                        .moment = hw_opt_text(&cli->opts, HW_OPT_ACCOUNT_AT),
                                        .as_report = true,
                                        .as_mapped = true};
    bool all = want.moment && strcmp(want.moment, "all") == 0;
    bool group = hw_opt_flag(&cli->opts, HW_OPT_ACCOUNT_GROUP);
    if (all || group)
        want.moment = NULL;
    pg.top = (size_t)hw_opt_num(&cli->opts, HW_OPT_ACCOUNT_TOP);
    int rc = hw_open_profile_file_at(&pg.show, cli, &want);
    if (rc == 0) {
        hw_pager_begin(cli);
        rc = group ? hw_account_group(cli, &pg.show) : all ? answer_all(&pg) : answer(&pg);
    }
    hw_account_rounding_done(&pg.rounding);
    hw_account_pins_done(&pg.pins);
    hw_account_sites_done(&pg.mapped);
    hw_memory_parts_done(&pg.parts);
    hw_open_profile_done(&pg.show);
    return rc;
}
