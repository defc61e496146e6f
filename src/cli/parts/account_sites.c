#include "cli/parts/account_sites.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "base/text/json_out.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/short_name.h"

#include "base/banned.h"

#define SAME_MOMENT_NS INT64_C(250000000)

int hw_account_names_find(const struct hw_open_profile *s, const hw_values *values,
                          struct hw_functions **fns, struct hw_site_names *out)
{
    const struct hw_strings *strings = hw_callsites_strings(s->p->callsites);
    struct hw_wrappers none = {0};
    int rc = hw_functions_new(s->p->callsites, &none, fns);
    if (rc < 0)
        return rc;
    *out = (struct hw_site_names){.cs = s->p->callsites,
                                  .fns = *fns,
                                  .namer = &s->namer,
                                  .process_name =
                                      hw_strings_cstr(strings, s->p->processes.v[s->upid.v].name)};
    return hw_site_names_find(out, values, HW_METRIC_SPACE);
}

static bool is_named(const struct hw_profile *p, const struct hw_series *s, const char *name)
{
    return hw_bytes_equal(hw_strings_get(hw_callsites_strings(p->callsites), s->heap_name),
                          hw_bytes_str(name));
}

static bool is_anonymous(const void *ctx, const struct hw_profile *p, const struct hw_series *s)
{
    (void)ctx;
    return is_named(p, s, "mmap.anon");
}

/* Until a moment it is measured at some dumps only: the last one before tells. */
static int find_resident(const struct hw_open_profile *s, int64_t ts_ns, struct hw_account_sites *a)
{
    hw_values values = {0};
    int rc = HW_OK;
    for (size_t i = 0; i < s->list.v.n; i++) {
        const struct hw_series *x = &s->list.v.v[i];
        if (x->upid.v != s->upid.v || x->kind != HW_HEAP_RESIDENT)
            continue;
        uint32_t dump = hw_process_dump_at(s->p, x, ts_ns, /* at_max = */ false);
        if (dump == HW_ID_NONE)
            continue;
        a->resident_ns = s->p->dumps.v[dump].ts_ns;
        a->has_resident = true;
        rc = hw_values_at(s->p, x, dump, &values);
        break;
    }
    if (rc == HW_OK)
        rc = hw_sites_init(&a->resident, a->fns);
    if (rc == HW_OK)
        hw_sites_add(&a->resident, a->fns, &values,
                     HW_SITES_NOW); /* not ranked: the i-th is function i */
    for (size_t i = 0; rc == HW_OK && i < values.n; i++)
        a->resident_bytes += (double)values.v[i].v.space;
    hw_vec_done(&values);
    return rc;
}

static int by_resident(const void *pa, const void *pb, void *ctx)
{
    const struct hw_site *a = pa, *b = pb;
    int64_t x = hw_account_resident(ctx, a), y = hw_account_resident(ctx, b);
    if (x == y) {
        x = a->now.space;
        y = b->now.space;
    }
    return x > y ? -1 : x < y ? 1 : (a->function > b->function) - (a->function < b->function);
}

static int name_them(const struct hw_open_profile *s, int64_t ts_ns, struct hw_account_sites *a)
{
    int rc = hw_account_names_find(s, &a->values, &a->fns, &a->names);
    if (rc == HW_OK)
        rc = hw_sites_init(&a->sites, a->fns);
    if (rc == HW_OK)
        rc = find_resident(s, ts_ns, a);
    if (rc < 0)
        return rc;
    hw_sites_add(&a->sites, a->fns, &a->values, HW_SITES_NOW);
    hw_sites_rank(&a->sites, HW_METRIC_SPACE);
    while (a->sites.n && a->sites.v[a->sites.n - 1].now.space <= 0)
        a->sites.n--; /* unmapped again */
    if (a->sites.n)
        qsort_r(a->sites.v, a->sites.n, sizeof *a->sites.v, by_resident, a);
    return HW_OK;
}

int hw_account_sites_find(const struct hw_open_profile *s, int64_t ts_ns,
                          struct hw_account_sites *out)
{
    *out = (struct hw_account_sites){0};
    int rc = hw_process_values_of(s->p, &s->list, s->upid, ts_ns, /* at_max = */ false,
                                  is_anonymous, NULL, &out->values);
    for (size_t i = 0; i < s->list.v.n; i++)
        out->has_calls |=
            s->list.v.v[i].upid.v == s->upid.v && is_anonymous(NULL, s->p, &s->list.v.v[i]);
    if (rc == HW_OK && out->values.n)
        rc = name_them(s, ts_ns, out);
    if (rc < 0)
        hw_account_sites_done(out);
    return rc;
}

bool hw_account_sites_are_of(const struct hw_account_sites *a, int64_t reading_ns)
{
    int64_t apart = hw_sat_sub(reading_ns, a->resident_ns);
    return apart <= SAME_MOMENT_NS && apart >= -SAME_MOMENT_NS;
}

int64_t hw_account_resident(const struct hw_account_sites *a, const struct hw_site *s)
{
    int64_t n = s->function < a->resident.n ? a->resident.v[s->function].now.space : 0;
    return n < s->now.space ? n : s->now.space; /* some of it may have been unmapped since */
}

void hw_account_sites_done(struct hw_account_sites *a)
{
    hw_vec_done(&a->sites);
    hw_vec_done(&a->resident);
    hw_site_names_done(&a->names);
    hw_functions_free(a->fns);
    hw_vec_done(&a->values);
    *a = (struct hw_account_sites){0};
}

void hw_account_site_name(const struct hw_site_names *names, const struct hw_site *s, size_t width,
                          struct hw_strbuf *out)
{
    const struct hw_function *fn = hw_functions_get(names->fns, s->function);
    struct hw_strbuf label = {0}, module = {0};
    size_t begin = out->n;
    hw_site_label(names, fn, &label);
    hw_site_where(names, s->function, &module);
    hw_short_name(out, label.p ? label.p : "", width);
    if (out->n - begin < width)
        (void)hw_site_callers(names, s->function, width - (out->n - begin), out);
    if (module.n)
        hw_strbuf_addf(out, "  (%s)", module.p);
    out->failed |= label.failed || module.failed;
    hw_strbuf_done(&label);
    hw_strbuf_done(&module);
}

void hw_account_sites_json(const struct hw_account_sites *a, struct hw_json *j)
{
    hw_json_key(j, "mapped_by");
    hw_json_begin_array(j);
    for (size_t i = 0; i < a->sites.n; i++) {
        const struct hw_site *s = &a->sites.v[i];
        hw_json_begin_object(j);
        hw_json_put_site(j, &a->names, s->function);
        hw_json_kv_int(j, "mapped_bytes", s->now.space);
        if (a->has_resident)
            hw_json_kv_int(j, "resident_bytes", hw_account_resident(a, s));
        hw_json_kv_int(j, "calls", s->now.objects);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}
