#include "cli/parts/account_pins.h"

#include <stdio.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/parts/account_sites.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/short_name.h"
#include "config/command/units.h"

#include "base/banned.h"

enum { COL_BYTES = 11, COL_LIVE = 12, COL_ERROR = 9 };

static int rank(const struct hw_account_pins *a, const hw_values *values, hw_sites *out)
{
    int rc = hw_sites_init(out, a->fns);
    if (rc == HW_OK)
        hw_sites_add(out, a->fns, values, HW_SITES_NOW);
    return rc;
}

static int name_them(const struct hw_open_profile *s, struct hw_account_pins *a)
{
    int rc = hw_account_names_find(s, &a->pinned.values, &a->fns, &a->names);
    if (rc == HW_OK)
        rc = rank(a, &a->pinned.live, &a->live); /* not ranked: the i-th is function i */
    if (rc == HW_OK)
        rc = rank(a, &a->pinned.values, &a->sites);
    if (rc < 0)
        return rc;
    hw_sites_rank(&a->sites, HW_METRIC_SPACE);
    while (a->sites.n && a->sites.v[a->sites.n - 1].now.space <= 0)
        a->sites.n--; /* it no longer pins anything */
    return HW_OK;
}

int hw_account_pins_find(const struct hw_open_profile *s, const struct hw_memory_parts *m,
                         struct hw_account_pins *out)
{
    *out = (struct hw_account_pins){0};
    int rc = hw_pinned_find(s->p, &s->list, s->upid, m, &out->pinned);
    if (rc == HW_ENOTFOUND)
        return HW_OK;
    out->is_known = rc == HW_OK;
    if (rc == HW_OK)
        rc = name_them(s, out);
    if (rc < 0)
        hw_account_pins_done(out);
    return rc;
}

void hw_account_pins_done(struct hw_account_pins *a)
{
    hw_vec_done(&a->sites);
    hw_vec_done(&a->live);
    hw_site_names_done(&a->names);
    hw_functions_free(a->fns);
    hw_pinned_done(&a->pinned);
    *a = (struct hw_account_pins){0};
}

static int64_t live_of(const struct hw_account_pins *a, const struct hw_site *s)
{
    return s->function < a->live.n ? a->live.v[s->function].now.space : 0;
}

static double error_of(const struct hw_account_pins *a, const struct hw_site *s)
{
    return hw_value_error(&s->now, HW_METRIC_SPACE, a->pinned.interval_bytes);
}

static void put_error(const struct hw_account_pins *a, const struct hw_site *s)
{
    char text[HW_UNIT_MAX];
    hw_fmt_error(text, (double)s->now.space, error_of(a, s), /* unicode = */ false);
    printf("%*s", COL_ERROR, text);
}

static void put_sites(const struct hw_account_pins *a, size_t width, size_t top)
{
    char pins[HW_UNIT_MAX], live[HW_UNIT_MAX];
    struct hw_strbuf line = {0};
    size_t n = top && top < a->sites.n ? top : a->sites.n, left = COL_BYTES + COL_LIVE + 2;
    bool is_sampled = a->pinned.error > 0;
    left += is_sampled ? COL_ERROR : 0;
    printf("%*s%*s%*s  SITE\n", COL_BYTES, "PINS", is_sampled ? COL_ERROR : 0, "", COL_LIVE,
           "LIVE THERE");
    for (size_t i = 0; i < n; i++) {
        hw_strbuf_clear(&line);
        hw_account_site_name(&a->names, &a->sites.v[i], width > left + 24 ? width - left : 24,
                             &line);
        printf("%*s", COL_BYTES, hw_fmt_bytes(pins, (double)a->sites.v[i].now.space));
        if (is_sampled)
            put_error(a, &a->sites.v[i]);
        printf("%*s  %s\n", COL_LIVE, hw_fmt_bytes(live, (double)live_of(a, &a->sites.v[i])),
               line.p ? line.p : "");
    }
    if (n < a->sites.n)
        printf("%*s  %zu more site%s (--top 0: all)\n", (int)left - 2, "", a->sites.n - n,
               hw_plural(a->sites.n - n));
    hw_strbuf_done(&line);
}

void hw_account_pins_put(const struct hw_account_pins *a, const struct hw_memory_parts *m,
                         const char *at_text, size_t width, size_t top)
{
    enum { WORTH_A_HINT = 1 << 20 };
    const double WORTH_A_WORD = 0.05;
    char pinned[HW_UNIT_MAX], whole[HW_UNIT_MAX], error[HW_UNIT_MAX];
    if (!a->is_known) {
        if (m->parts[HW_PART_FREE].rss >= WORTH_A_HINT)
            puts("\nwhat pins free memory is not in this recording: record with --pinned (glibc's "
                 "malloc)");
        return;
    }
    printf("\nfree inside the allocator, at %s: %s on pages that live blocks pin", at_text,
           hw_fmt_bytes(pinned, a->pinned.pinned));
    if (a->pinned.error > 0 && a->pinned.pinned > 0)
        printf(" (%s)", hw_fmt_error(error, a->pinned.pinned, a->pinned.error, false) + 1);
    if (a->pinned.whole >= 0)
        printf(", %s in whole pages that it keeps (malloc_trim returns such)",
               hw_fmt_bytes(whole, a->pinned.whole));
    putchar('\n');
    if (a->pinned.missed > WORTH_A_WORD)
        printf("estimated by %.0f%% of the sampled blocks: the memory around the others changed "
               "while it was "
               "read, or was too much\n",
               100 * (1 - a->pinned.missed));
    if (a->sites.n)
        put_sites(a, width, top);
}

void hw_account_pins_json(const struct hw_account_pins *a, int64_t at_ns, struct hw_json *j)
{
    if (!a->is_known)
        return;
    hw_json_key(j, "pinned");
    hw_json_begin_object(j);
    hw_json_kv_int(j, "at_ns", at_ns);
    hw_json_kv_double(j, "pinned_bytes", a->pinned.pinned);
    hw_json_kv_double(j, "pinned_error_bytes", a->pinned.error);
    hw_json_kv_double(j, "missed_share", a->pinned.missed);
    if (a->pinned.whole >= 0)
        hw_json_kv_double(j, "whole_pages_bytes", a->pinned.whole);
    hw_json_key(j, "sites");
    hw_json_begin_array(j);
    for (size_t i = 0; i < a->sites.n; i++) {
        const struct hw_site *s = &a->sites.v[i];
        hw_json_begin_object(j);
        hw_json_put_site(j, &a->names, s->function);
        hw_json_kv_int(j, "pins_bytes", s->now.space);
        hw_json_kv_double(j, "pins_error_bytes", error_of(a, s));
        hw_json_kv_int(j, "blocks", s->now.objects);
        hw_json_kv_int(j, "live_bytes", live_of(a, s));
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}
