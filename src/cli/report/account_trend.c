#include "cli/report/account_trend.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"

#include "base/banned.h"

enum { COL_AT = 9, COL_BYTES = 12, MOST_SITES = 2, SITE_WIDTH = 60 };

/* ---- what grows ---- */

static bool grows(const struct hw_account_growth *g, enum hw_memory_part part)
{
    return g->series.growth[part].grows;
}

static int find_pins(const struct hw_open_profile *s, struct hw_account_growth *out)
{
    int64_t last_ns = out->series.v.v[out->series.v.n - 1].ts_ns;
    struct hw_memory_parts m;
    int rc = hw_memory_parts_find(s->p, &s->view, last_ns, &s->values, &m);
    if (rc < 0)
        return rc == HW_ENOTFOUND ? HW_OK : rc;
    rc = hw_account_pins_find(s, &m, &out->pins);
    hw_memory_parts_done(&m);
    return rc;
}

int hw_account_growth_find(const struct hw_open_profile *s, struct hw_account_growth *out)
{
    *out = (struct hw_account_growth){0};
    int rc = hw_parts_series_find(s->p, &s->list, &s->view, &out->series);
    if (rc == HW_OK && grows(out, HW_PART_FREE))
        rc = find_pins(s, out);
    if (rc == HW_OK && grows(out, HW_PART_ANONYMOUS))
        rc = hw_account_sites_find(s, s->moment ? s->moment->ts_ns : s->p->last_ns, &out->mapped);
    if (rc < 0)
        hw_account_growth_done(out);
    return rc;
}

void hw_account_growth_done(struct hw_account_growth *g)
{
    hw_account_sites_done(&g->mapped);
    hw_account_pins_done(&g->pins);
    hw_parts_series_done(&g->series);
}

static const char *reason_of(enum hw_memory_part part)
{
    switch (part) {
    case HW_PART_FREE:
        return "fragmentation: what was freed stays resident";
    case HW_PART_ANONYMOUS:
        return "the program maps it by itself";
    case HW_PART_STACKS:
        return "threads, or stacks that get deeper";
    case HW_PART_MANAGED:
        return "a runtime's own heap";
    case HW_PART_FILES:
        return "the kernel can drop what was not changed";
    case HW_PART_SHARED:
        return "stays until all its users have ended";
    case HW_PART_OLDER:
        return "from before the recording, or free";
    default:
        return hw_memory_part_what(part);
    }
}

/* ", pinned by A and B" */
static void put_who(const struct hw_site_names *names, const hw_sites *sites, const char *verb)
{
    struct hw_strbuf text = {0};
    size_t n = sites->n < MOST_SITES ? sites->n : MOST_SITES;
    for (size_t i = 0; i < n; i++) {
        hw_strbuf_clear(&text);
        hw_site_label(names, hw_functions_get(names->fns, sites->v[i].function), &text);
        printf("%s%s", i ? " and " : verb, text.p ? text.p : "");
    }
    hw_strbuf_done(&text);
}

static double live_of(const struct hw_parts_point *p)
{
    return p->parts[HW_PART_LIVE] + p->parts[HW_PART_ROUNDING];
}

static void put_head(const struct hw_parts_series *s)
{
    const struct hw_parts_point *a = &s->v.v[0], *b = &s->v.v[s->v.n - 1];
    char rss[HW_UNIT_MAX], live[HW_UNIT_MAX], span[HW_UNIT_MAX];
    printf("\nbeside the live heap: RSS %s in %s, the live heap %s; by %zu readings\n",
           hw_fmt_change(rss, b->rss - a->rss, /* bytes = */ true),
           hw_fmt_duration(span, hw_sat_sub(b->ts_ns, a->ts_ns)),
           hw_fmt_change(live, live_of(b) - live_of(a), /* bytes = */ true), s->v.n);
}

void hw_account_growth_put(const struct hw_account_growth *g)
{
    char rate[HW_UNIT_MAX], grew[HW_UNIT_MAX];
    size_t n = 0;
    for (int p = 0; p < HW_PART_COUNT; p++) {
        const struct hw_parts_growth *x = &g->series.growth[p];
        if (!x->grows)
            continue;
        if (n++ == 0)
            put_head(&g->series);
        printf("growing        %11s/s%11s  %s: %s",
               hw_fmt_change(rate, x->slope, /* bytes = */ true),
               hw_fmt_change(grew, x->grown, /* bytes = */ true),
               hw_memory_part_name((enum hw_memory_part)p), reason_of((enum hw_memory_part)p));
        if (p == HW_PART_FREE && g->pins.is_known)
            put_who(&g->pins.names, &g->pins.sites, ", pinned by ");
        else if (p == HW_PART_FREE)
            fputs(" (who pins it: record --pinned)", stdout);
        if (p == HW_PART_ANONYMOUS)
            put_who(&g->mapped.names, &g->mapped.sites, ", mapped by ");
        putchar('\n');
    }
}

static void json_who(struct hw_json *j, const char *key, const struct hw_site_names *names,
                     const hw_sites *sites)
{
    struct hw_strbuf text = {0};
    hw_json_key(j, key);
    hw_json_begin_array(j);
    for (size_t i = 0; i < sites->n && i < MOST_SITES; i++) {
        hw_strbuf_clear(&text);
        hw_site_label(names, hw_functions_get(names->fns, sites->v[i].function), &text);
        hw_json_strn(j, text.p ? text.p : "", text.n);
    }
    hw_json_end_array(j);
    hw_strbuf_done(&text);
}

static void json_growth(const struct hw_account_growth *g, int part, struct hw_json *j)
{
    const struct hw_parts_growth *x = &g->series.growth[part];
    hw_json_begin_object(j);
    hw_json_kv_str(j, "part", hw_memory_part_name((enum hw_memory_part)part));
    hw_json_kv_double(j, "grown", x->grown);
    hw_json_kv_double(j, "slope_bytes_per_s", x->slope);
    hw_json_kv_double(j, "tau", x->tau);
    hw_json_kv_double(j, "p", x->p);
    if (part == HW_PART_FREE && g->pins.is_known)
        json_who(j, "pinned_by", &g->pins.names, &g->pins.sites);
    if (part == HW_PART_ANONYMOUS)
        json_who(j, "mapped_by", &g->mapped.names, &g->mapped.sites);
    hw_json_end_object(j);
}

void hw_account_growth_json(const struct hw_account_growth *g, struct hw_json *j)
{
    size_t n = g->series.v.n;
    if (n == 0)
        return;
    const struct hw_parts_point *a = &g->series.v.v[0], *b = &g->series.v.v[n - 1];
    hw_json_key(j, "parts");
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "readings", n);
    hw_json_kv_double(j, "seconds", (double)hw_sat_sub(b->ts_ns, a->ts_ns) * 1e-9);
    hw_json_kv_double(j, "rss_grown", b->rss - a->rss);
    hw_json_kv_double(j, "live_grown", live_of(b) - live_of(a));
    hw_json_key(j, "growing");
    hw_json_begin_array(j);
    for (int p = 0; p < HW_PART_COUNT; p++)
        if (g->series.growth[p].grows)
            json_growth(g, p, j);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

/* ---- each reading ---- */

static const char *const heads[HW_PART_COUNT] = {[HW_PART_LIVE] = "LIVE",
                                                 [HW_PART_ROUNDING] = "ROUNDING",
                                                 [HW_PART_FREE] = "FREE",
                                                 [HW_PART_OLDER] = "OLDER",
                                                 [HW_PART_ANONYMOUS] = "ANONYMOUS",
                                                 [HW_PART_MANAGED] = "MANAGED",
                                                 [HW_PART_STACKS] = "STACKS",
                                                 [HW_PART_PROGRAM] = "PROGRAM",
                                                 [HW_PART_FILES] = "FILES",
                                                 [HW_PART_SHARED] = "SHARED",
                                                 [HW_PART_PROFILER] = "PROFILER",
                                                 [HW_PART_MOVED] = "MOVED",
                                                 [HW_PART_UNEXPLAINED] = "UNEXPLAINED"};

static bool is_shown(const struct hw_parts_series *s, int part)
{
    for (size_t i = 0; i < s->v.n; i++)
        if (s->v.v[i].parts[part] != 0)
            return true;
    return false;
}

void hw_account_series_put(const struct hw_parts_series *s, int64_t start_ns)
{
    char buf[HW_UNIT_MAX];
    printf("%*s%*s", COL_AT, "READ AT", COL_BYTES, "RSS");
    for (int p = 0; p < HW_PART_COUNT; p++)
        if (is_shown(s, p))
            printf("%*s", COL_BYTES, heads[p]);
    putchar('\n');
    for (size_t i = 0; i < s->v.n; i++) {
        const struct hw_parts_point *x = &s->v.v[i];
        printf("%*s", COL_AT, hw_fmt_clock(buf, hw_sat_sub(x->ts_ns, start_ns)));
        printf("%*s", COL_BYTES, hw_fmt_bytes(buf, x->rss));
        for (int p = 0; p < HW_PART_COUNT; p++)
            if (is_shown(s, p))
                printf("%*s", COL_BYTES, hw_fmt_bytes(buf, x->parts[p]));
        putchar('\n');
    }
}

void hw_account_series_json(const struct hw_parts_series *s, int64_t start_ns, struct hw_json *j)
{
    hw_json_key(j, "readings");
    hw_json_begin_array(j);
    for (size_t i = 0; i < s->v.n; i++) {
        const struct hw_parts_point *x = &s->v.v[i];
        hw_json_begin_object(j);
        hw_json_kv_int(j, "at_ns", hw_sat_sub(x->ts_ns, start_ns));
        hw_json_kv_double(j, "rss_bytes", x->rss);
        hw_json_key(j, "parts");
        hw_json_begin_object(j);
        for (int p = 0; p < HW_PART_COUNT; p++)
            hw_json_kv_double(j, hw_memory_part_name((enum hw_memory_part)p), x->parts[p]);
        hw_json_end_object(j);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}
