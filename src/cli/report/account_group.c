#include "cli/report/account_group.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"
#include "views/account/group_members.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum { COL = 11 };
static const enum hw_group_kind shown[] = {HW_GROUP_ANON, HW_GROUP_FILE, HW_GROUP_SHMEM,
                                           HW_GROUP_KERNEL, HW_GROUP_SOCK};
#define N_SHOWN (sizeof shown / sizeof *shown)

struct page {
    const struct hw_cli *cli;
    const struct hw_open_profile *show;
    struct hw_group_members g;
};

static int64_t since_start(const struct page *pg, int64_t ts_ns)
{
    return hw_sat_sub(ts_ns, pg->show->p->first_ns);
}

static void put_bytes(double v)
{
    char buf[HW_UNIT_MAX];
    if (v < 0 && v > -1024)
        v = 0;
    if (v < 0) {
        char with_sign[HW_UNIT_MAX + 1];
        (void)snprintf(with_sign, sizeof with_sign, "-%s", hw_fmt_bytes(buf, -v));
        printf("%*s", COL, with_sign);
    } else {
        printf("%*s", COL, hw_fmt_bytes(buf, v));
    }
}

static void put_name(const struct page *pg, hw_upid upid)
{
    const struct hw_process *process = &pg->show->p->processes.v[upid.v];
    const char *name = hw_strings_cstr(hw_callsites_strings(pg->show->p->callsites), process->name);
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, name, strlen(name));
    printf("%s (%lld)", b.p ? b.p : "", (long long)process->pid);
    hw_strbuf_done(&b);
}

/* What the group has beyond its recorded processes; the kernel did not say: NAN. */
#define WORTH_A_WORD (1024.0 * 1024)

static double rest_of(const struct hw_group_members *g, enum hw_group_kind k)
{
    return g->kinds[k] < 0 ? NAN : g->kinds[k] - g->of_members[k];
}

static void put_head(const struct page *pg)
{
    const struct hw_group_members *g = &pg->g;
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    printf("memory group, read %s after the start:", hw_fmt_clock(a, since_start(pg, g->ts_ns)));
    if (g->current >= 0)
        printf(" %s", hw_fmt_bytes(a, g->current));
    if (g->limit >= 0)
        printf(" of %s", hw_fmt_bytes(b, g->limit));
    printf("\n\n");
    for (size_t i = 0; i < N_SHOWN; i++) {
        char head[16];
        size_t n = strlen(hw_group_kind_name(shown[i]));
        for (size_t c = 0; c <= n && c < sizeof head; c++) {
            char ch = hw_group_kind_name(shown[i])[c];
            head[c] = ch >= 'a' && ch <= 'z' ? (char)(ch - 'a' + 'A') : ch;
        }
        printf("%*s", COL, head);
    }
    puts("  WHOSE");
}

static void put_member(const struct page *pg, const struct hw_group_member *m)
{
    char buf[HW_UNIT_MAX];
    int64_t off = hw_sat_sub(m->ts_ns, pg->g.ts_ns);
    for (size_t i = 0; i < N_SHOWN; i++)
        put_bytes(m->kinds[shown[i]]);
    fputs("  ", stdout);
    put_name(pg, m->upid);
    if (off > 100000000 || off < -100000000)
        printf(", read %s %s", hw_fmt_clock(buf, off < 0 ? -off : off),
               off < 0 ? "before" : "later");
    putchar('\n');
}

/* Else somebody would look for an error in the table. */
static void put_why_negative(const struct hw_group_members *g)
{
    double file = rest_of(g, HW_GROUP_FILE), shmem = rest_of(g, HW_GROUP_SHMEM);
    if (file < -WORTH_A_WORD || shmem < -WORTH_A_WORD)
        puts(
            "below zero: pages of files and of shared memory are charged to the group that brought "
            "them into\nmemory first, which is another one than these processes are in");
}

static void put_rest(const struct hw_group_members *g)
{
    for (size_t i = 0; i < N_SHOWN; i++)
        if (isnan(rest_of(g, shown[i])))
            printf("%*s", COL, "-");
        else
            put_bytes(rest_of(g, shown[i]));
    puts("  the rest: processes that were not recorded, the file cache, the kernel");
    for (size_t i = 0; i < N_SHOWN; i++)
        if (g->kinds[shown[i]] < 0)
            printf("%*s", COL, "-");
        else
            put_bytes(g->kinds[shown[i]]);
    puts("  all");
    put_why_negative(g);
}

static void put_parts(const struct hw_group_members *g)
{
    char buf[HW_UNIT_MAX];
    fputs("\nof the recorded processes, shared pages divided by those who share them:\n", stdout);
    for (int p = 0; p < HW_PART_COUNT; p++)
        if (fabs(g->parts[p]) >= 1024)
            printf("%*s  %s\n", COL, hw_fmt_bytes(buf, g->parts[p]),
                   hw_memory_part_name((enum hw_memory_part)p));
}

static void put_text(const struct page *pg)
{
    const struct hw_group_members *g = &pg->g;
    put_head(pg);
    for (size_t i = 0; i < g->members.n; i++)
        put_member(pg, &g->members.v[i]);
    put_rest(g);
    put_parts(g);
    if (g->n_ended)
        printf("\n%zu recorded processes of it did not live then\n", g->n_ended);
    if (g->n_elsewhere)
        printf("\n%zu recorded processes are in other groups\n", g->n_elsewhere);
}

static void json_kinds(struct hw_json *j, const double *kinds)
{
    for (size_t i = 0; i < N_SHOWN; i++)
        if (kinds[shown[i]] >= 0)
            hw_json_kv_double(j, hw_group_kind_name(shown[i]), kinds[shown[i]]);
}

static int put_json(const struct page *pg)
{
    const struct hw_group_members *g = &pg->g;
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "account", 0);
    hw_json_kv_int(&j, "at_ns", since_start(pg, g->ts_ns));
    if (g->current >= 0)
        hw_json_kv_double(&j, "current", g->current);
    if (g->limit >= 0)
        hw_json_kv_double(&j, "limit", g->limit);
    hw_json_key(&j, "group");
    hw_json_begin_object(&j);
    json_kinds(&j, g->kinds);
    hw_json_end_object(&j);
    hw_json_key(&j, "rest");
    hw_json_begin_object(&j);
    for (size_t i = 0; i < N_SHOWN; i++)
        if (!isnan(rest_of(g, shown[i])))
            hw_json_kv_double(&j, hw_group_kind_name(shown[i]), rest_of(g, shown[i]));
    hw_json_end_object(&j);
    hw_json_key(&j, "processes");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < g->members.n; i++) {
        const struct hw_group_member *m = &g->members.v[i];
        hw_json_begin_object(&j);
        hw_json_kv_int(&j, "pid", pg->show->p->processes.v[m->upid.v].pid);
        hw_json_kv_int(&j, "read_at_ns", since_start(pg, m->ts_ns));
        hw_json_kv_double(&j, "rss_bytes", m->rss);
        hw_json_kv_double(&j, "pss_bytes", m->pss);
        json_kinds(&j, m->kinds);
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    hw_json_key(&j, "parts");
    hw_json_begin_array(&j);
    for (int p = 0; p < HW_PART_COUNT; p++) {
        hw_json_begin_object(&j);
        hw_json_kv_str(&j, "name", hw_memory_part_name((enum hw_memory_part)p));
        hw_json_kv_double(&j, "pss_bytes", g->parts[p]);
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    hw_json_kv_uint(&j, "ended_before", g->n_ended);
    hw_json_kv_uint(&j, "in_other_groups", g->n_elsewhere);
    return hw_json_page_end(&j);
}

/* --at: a time since the start of the trace; last. Without: when the group had the most. */
static int moment_of(const struct page *pg, int64_t *ts_ns, bool *is_set)
{
    const char *at = hw_opt_text(&pg->cli->opts, HW_OPT_ACCOUNT_AT);
    uint64_t ms;
    *is_set = at && strcmp(at, "peak") != 0;
    if (!*is_set)
        return 0;
    if (strcmp(at, "last") == 0) {
        *ts_ns = INT64_MAX;
        return 0;
    }
    if (strcmp(at, "first") == 0) {
        *ts_ns = INT64_MIN;
        return 0;
    }
    if (hw_parse_time_ms(at, &ms, NULL) != 0 || ms > INT64_MAX / 1000000) {
        hw_cli_error(pg->cli, NULL, "--group --at takes first, last, peak or a time, not '%s'", at);
        return HW_EXIT_USAGE;
    }
    *ts_ns = pg->show->p->first_ns + (int64_t)ms * 1000000;
    return 0;
}

int hw_account_group(const struct hw_cli *cli, const struct hw_open_profile *show)
{
    struct page pg = {.cli = cli, .show = show};
    int64_t ts_ns = 0;
    bool is_set;
    int rc = moment_of(&pg, &ts_ns, &is_set);
    if (rc != 0)
        return rc;
    rc = hw_group_members_find(show->p, &show->list, is_set ? &ts_ns : NULL, &pg.g);
    if (rc == HW_ENOTFOUND) {
        hw_cli_error(cli, "no-data", "the trace has no figures of a memory group");
        hw_cli_hint("the recorder reads them where /sys/fs/cgroup shows the process's group; "
                    "record it there");
        return HW_EXIT_NO_DATA;
    }
    if (rc == HW_OK && hw_opt_flag(&cli->opts, HW_OPT_JSON))
        rc = put_json(&pg);
    else if (rc == HW_OK)
        put_text(&pg);
    hw_group_members_done(&pg.g);
    return hw_cli_written(cli, rc);
}
