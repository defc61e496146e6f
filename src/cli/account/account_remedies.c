#include "cli/account/account_remedies.h"

#include <stdio.h>

#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "config/command/units.h"

#include "base/banned.h"

#define SAME_MOMENT_NS INT64_C(250000000)

void hw_account_remedies_find(const struct hw_memory_parts *m, const struct hw_account_pins *pins,
                              const struct hw_account_rounding *rounding,
                              const struct hw_arenas *arenas, struct hw_account_remedies *out)
{
    struct hw_remedy_facts f = {.allocator = m->allocator, .whole = -1};
    *out = (struct hw_account_remedies){
        .allocator = m->allocator, .pins = pins, .rounding = rounding, .arenas = arenas};
    f.knows_arenas = arenas->n > 0 && arenas->n_unknown == 0;
    f.same_moment =
        arenas->ts_ns - m->ts_ns <= SAME_MOMENT_NS && m->ts_ns - arenas->ts_ns <= SAME_MOMENT_NS;
    f.returnable = (double)arenas->sum.returnable_bytes;
    f.cached = (double)arenas->sum.cached_bytes;
    f.in_other_arenas = arenas->free_resident - arenas->most_free_resident;
    f.knows_pins = pins->is_known;
    if (pins->is_known) {
        f.whole = pins->pinned.whole;
        f.whole_error = pins->pinned.error;
    }
    if (pins->sites.n) {
        const struct hw_value *v = &pins->sites.v[0].now;
        f.pinned = (double)v->space;
        f.pinned_error = hw_value_error(v, HW_METRIC_SPACE, pins->pinned.interval_bytes);
    }
    if (rounding->sites.n) {
        const struct hw_site *s = &rounding->sites.v[0];
        f.rounding = (double)s->now.rounding;
        f.rounding_error = hw_account_rounding_error(rounding, s);
        f.rounding_live = (double)s->now.space;
    }
    out->n = hw_remedies_find(m, &f, out->v);
}

/* The site that it is about; NULL: all. */
static const struct hw_site *site_of(const struct hw_account_remedies *a, enum hw_remedy_kind kind,
                                     const struct hw_site_names **names)
{
    switch (kind) {
    case HW_REMEDY_POOL:
        *names = &a->pins->names;
        return &a->pins->sites.v[0];
    case HW_REMEDY_SIZES:
        *names = &a->rounding->names;
        return &a->rounding->sites.v[0];
    case HW_REMEDY_TRIM:
    case HW_REMEDY_DECAY:
    case HW_REMEDY_ARENAS:
    case HW_REMEDY_CACHES:
    case HW_REMEDY_COUNT:
        break;
    }
    return NULL;
}

static const char *decay_of(enum hw_block_rule allocator)
{
    switch (allocator) {
    case HW_BLOCKS_JEMALLOC:
        return "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0, or the control arena.4096.purge";
    case HW_BLOCKS_TCMALLOC:
        return "MallocExtension_ReleaseFreeMemory(), or TCMALLOC_RELEASE_RATE above 1";
    case HW_BLOCKS_MIMALLOC:
        return "mi_collect(true), or MIMALLOC_PAGE_RESET and a shorter MIMALLOC_RESET_DELAY";
    case HW_BLOCKS_UNKNOWN:
    case HW_BLOCKS_GLIBC:
        break;
    }
    return "";
}

static void advise(const struct hw_account_remedies *a, const struct hw_remedy *r,
                   struct hw_strbuf *out)
{
    const struct hw_site_names *names = NULL;
    const struct hw_site *site = site_of(a, r->kind, &names);
    struct hw_strbuf label = {0};
    if (site)
        hw_site_label(names, hw_functions_get(names->fns, site->function), &label);
    const char *who = label.p ? label.p : "";
    switch (r->kind) {
    case HW_REMEDY_TRIM:
        hw_strbuf_addf(
            out, "malloc_trim(0), after work that frees much; or a lower M_TRIM_THRESHOLD%s",
            r->is_most ? "; how much is on pages with live blocks is not known: record --pinned"
                       : "");
        break;
    case HW_REMEDY_POOL:
        hw_strbuf_addf(
            out, "a pool for the blocks of %s, or to allocate them before those that are freed",
            who);
        break;
    case HW_REMEDY_DECAY:
        hw_strbuf_addf(out, "%s", decay_of(a->allocator));
        break;
    case HW_REMEDY_ARENAS:
        hw_strbuf_addf(out,
                       "MALLOC_ARENA_MAX=1, or mallopt(M_ARENA_MAX, 1): each of %zu arenas keeps "
                       "what its own threads freed; threads that share one wait for each other",
                       a->arenas->n);
        break;
    case HW_REMEDY_CACHES:
        hw_strbuf_addf(out, "GLIBC_TUNABLES=glibc.malloc.tcache_count=0, or fewer threads: each "
                            "keeps freed blocks for itself; without that, malloc takes a lock");
        break;
    case HW_REMEDY_SIZES:
        hw_strbuf_addf(
            out,
            "fewer and larger blocks in %s: to its blocks of %.0f bytes the allocator adds %.1f",
            who, site->now.objects > 0 ? (double)site->now.space / (double)site->now.objects : 0,
            site->now.objects > 0 ? (double)site->now.rounding / (double)site->now.objects : 0);
        break;
    case HW_REMEDY_COUNT:
        break;
    }
    hw_strbuf_done(&label);
}

void hw_account_remedies_put(const struct hw_account_remedies *a)
{
    struct hw_strbuf text = {0};
    char bytes[HW_UNIT_MAX];
    if (a->n)
        puts("\nwhat would give memory back");
    for (size_t i = 0; i < a->n; i++) {
        const struct hw_remedy *r = &a->v[i];
        hw_strbuf_clear(&text);
        advise(a, r, &text);
        printf("%9s%11s", r->is_most ? "at most" : "about", hw_fmt_bytes(bytes, r->bytes));
        if (r->error > 0)
            printf(" +-%s", hw_fmt_bytes(bytes, r->error));
        printf("  %s\n", text.p ? text.p : "");
    }
    hw_strbuf_done(&text);
}

void hw_account_remedies_json(const struct hw_account_remedies *a, struct hw_json *j)
{
    struct hw_strbuf text = {0};
    hw_json_key(j, "remedies");
    hw_json_begin_array(j);
    for (size_t i = 0; i < a->n; i++) {
        const struct hw_remedy *r = &a->v[i];
        const struct hw_site_names *names = NULL;
        const struct hw_site *site = site_of(a, r->kind, &names);
        hw_json_begin_object(j);
        hw_json_kv_str(j, "remedy", hw_remedy_name(r->kind));
        hw_json_kv_double(j, "bytes", r->bytes);
        hw_json_kv_double(j, "error_bytes", r->error);
        hw_json_kv_bool(j, "is_most", r->is_most);
        hw_strbuf_clear(&text);
        if (site)
            hw_site_label(names, hw_functions_get(names->fns, site->function), &text);
        if (site) {
            hw_json_key(j, "function");
            hw_json_strn(j, text.p ? text.p : "", text.n);
        }
        hw_strbuf_clear(&text);
        advise(a, r, &text);
        hw_json_key(j, "advice");
        hw_json_strn(j, text.p ? text.p : "", text.n);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_strbuf_done(&text);
}
