#include "cli/account/account_rounding.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/parts/account_sites.h"
#include "cli/parts/json_page.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"
#include "views/account/rounding.h"

#include "base/banned.h"

enum { COL_BYTES = 11, COL_ERROR = 9, COL_EACH = 11 };

static int by_rounding(const void *pa, const void *pb)
{
    const struct hw_site *a = pa, *b = pb;
    if (a->now.rounding != b->now.rounding)
        return a->now.rounding > b->now.rounding ? -1 : 1;
    return a->function < b->function ? -1 : a->function > b->function;
}

static void rank(hw_sites *s)
{
    if (s->n)
        qsort(s->v, s->n, sizeof *s->v, by_rounding);
    while (s->n && s->v[s->n - 1].now.rounding <= 0)
        s->n--;
}

static int find_sites(const struct hw_open_profile *s, struct hw_account_rounding *a)
{
    int rc = hw_account_names_find(s, &s->values, &a->fns, &a->names);
    if (rc == HW_OK)
        rc = hw_sites_init(&a->sites, a->fns);
    if (rc < 0)
        return rc;
    hw_sites_add(&a->sites, a->fns, &s->values, HW_SITES_NOW);
    rank(&a->sites);
    struct hw_value all = {0};
    for (size_t i = 0; i < s->values.n; i++)
        hw_value_add(&all, &s->values.v[i].v);
    a->bytes = (double)all.rounding;
    a->error = hw_rounding_error(&all, a->interval_bytes);
    return HW_OK;
}

int hw_account_rounding_find(const struct hw_open_profile *s, struct hw_account_rounding *out)
{
    *out = (struct hw_account_rounding){.is_known = hw_rounding_is_recorded(s->p, s->upid),
                                        .interval_bytes = s->view.interval_bytes};
    int rc = out->is_known ? find_sites(s, out) : HW_OK;
    if (rc < 0)
        hw_account_rounding_done(out);
    return rc;
}

void hw_account_rounding_done(struct hw_account_rounding *a)
{
    hw_vec_done(&a->sites);
    hw_site_names_done(&a->names);
    hw_functions_free(a->fns);
    *a = (struct hw_account_rounding){0};
}

double hw_account_rounding_error(const struct hw_account_rounding *a, const struct hw_site *s)
{
    return hw_rounding_error(&s->now, a->interval_bytes);
}

static void put_error(double error, double bytes, bool unicode)
{
    char text[HW_UNIT_MAX];
    hw_fmt_error(text, bytes, error, unicode);
    printf("%*s", COL_ERROR + (text[0] && unicode ? 1 : 0), text);
}

static void put_site(const struct hw_account_rounding *a, const struct hw_site *s, bool unicode,
                     size_t width, struct hw_strbuf *line)
{
    char added[HW_UNIT_MAX], live[HW_UNIT_MAX];
    double bytes = (double)s->now.rounding, blocks = (double)s->now.objects;
    hw_strbuf_clear(line);
    hw_account_site_name(&a->names, s, width, line);
    printf("%*s", COL_BYTES, hw_fmt_bytes(added, bytes));
    put_error(hw_account_rounding_error(a, s), bytes, unicode);
    printf("%*.1f%*s  %s\n", COL_EACH, blocks > 0 ? bytes / blocks : 0, COL_BYTES,
           hw_fmt_bytes(live, (double)s->now.space), line->p ? line->p : "");
}

void hw_account_rounding_put(const struct hw_account_rounding *a, bool unicode, size_t width,
                             size_t top)
{
    enum { LEFT = COL_BYTES + COL_ERROR + COL_EACH + COL_BYTES + 2 };
    struct hw_strbuf line = {0};
    char all[HW_UNIT_MAX];
    if (!a->is_known) {
        puts("\nrounding by site is not in this trace; one of a newer recorder has it, where the "
             "allocator is "
             "glibc, jemalloc, tcmalloc or mimalloc");
        return;
    }
    size_t n = top && top < a->sites.n ? top : a->sites.n;
    printf("\nheaders, and blocks rounded up: %s in all, by site\n", hw_fmt_bytes(all, a->bytes));
    printf("%*s%*s%*s%*s  SITE\n", COL_BYTES, "ADDED", COL_ERROR, "", COL_EACH, "A BLOCK",
           COL_BYTES, "LIVE");
    for (size_t i = 0; i < n; i++)
        put_site(a, &a->sites.v[i], unicode, width > LEFT + 24 ? width - LEFT : 24, &line);
    if (n < a->sites.n)
        printf("%*s%zu more site%s (--top 0: all)\n", LEFT, "", a->sites.n - n,
               hw_plural(a->sites.n - n));
    hw_strbuf_done(&line);
}

static void json_site(const struct hw_account_rounding *a, const struct hw_site *s,
                      struct hw_json *j)
{
    hw_json_begin_object(j);
    hw_json_put_site(j, &a->names, s->function);
    hw_json_kv_int(j, "rounding_bytes", s->now.rounding);
    hw_json_kv_double(j, "rounding_error_bytes", hw_account_rounding_error(a, s));
    hw_json_kv_int(j, "live_bytes", s->now.space);
    hw_json_kv_int(j, "blocks", s->now.objects);
    hw_json_end_object(j);
}

void hw_account_rounding_json(const struct hw_account_rounding *a, struct hw_json *j)
{
    if (!a->is_known)
        return;
    hw_json_key(j, "rounding");
    hw_json_begin_object(j);
    hw_json_kv_double(j, "bytes", a->bytes);
    hw_json_kv_double(j, "error_bytes", a->error);
    hw_json_key(j, "sites");
    hw_json_begin_array(j);
    for (size_t i = 0; i < a->sites.n; i++)
        json_site(a, &a->sites.v[i], j);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

int hw_account_rounding_alone(const struct hw_cli *cli, const struct hw_account_rounding *a,
                              const struct hw_open_profile *s, bool unicode, size_t width,
                              size_t top)
{
    struct hw_strbuf label = {0};
    struct hw_json j;
    char at[HW_UNIT_MAX];
    int64_t since_ns = hw_open_profile_since_start(s, s->moment->ts_ns);
    if (hw_opt_flag(&cli->opts, HW_OPT_JSON)) {
        hw_json_page_begin(&j, stdout, "account", 0);
        hw_json_kv_int(&j, "pid", s->p->processes.v[s->upid.v].pid);
        hw_json_kv_int(&j, "dump_at_ns", since_ns);
        hw_account_rounding_json(a, &j);
        return hw_json_page_end(&j);
    }
    hw_open_profile_label(s, &label);
    printf("%s  dump at %s; its mappings were not read, so this is no account of all memory\n",
           label.p ? label.p : "", hw_fmt_clock(at, since_ns));
    hw_strbuf_done(&label);
    hw_account_rounding_put(a, unicode, width, top);
    return HW_OK;
}
