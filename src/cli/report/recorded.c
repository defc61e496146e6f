#include "cli/report/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/plural.h"
#include "cli/parts/open_profile.h"
#include "import/import.h"
#include "model/profile.h"
#include "record/children/offspring.h"
#include "record/recording.h"
#include "views/time/series.h"
#include "wire/control.h"

#include "base/banned.h"

enum { SHOWN = 4 }; /* names */

static uint64_t samples_of(const struct hw_profile *p, const struct hw_series *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->all.n; i++)
        n += p->dumps.v[s->all.v[i]].heap_samples;
    return n;
}

bool hw_recorded_only_mappings(const char *path)
{
    struct hw_profile *p = NULL;
    struct hw_series_list list = {0};
    uint64_t n_mapped = 0, n_other = 0;
    bool has_malloc = false;
    if (hw_import_file(path, &p, NULL) == 0 && hw_series_list_init(&list, p) == 0)
        for (size_t i = 0; i < list.v.n; i++) {
            const struct hw_series *s = &list.v.v[i];
            has_malloc |= s->kind == HW_HEAP_NATIVE; /* it was asked for */
            if (s->kind == HW_HEAP_MAPPED)
                n_mapped += samples_of(p, s);
            else if (s->kind != HW_HEAP_RESIDENT && s->kind != HW_HEAP_PINNED)
                n_other += samples_of(p, s);
        }
    hw_series_list_done(&list);
    hw_profile_free(p);
    return has_malloc && n_mapped && !n_other;
}

char *hw_recorded_program(const char *path, const char *name)
{
    struct hw_profile *p = NULL;
    char *found = NULL;
    size_t n = hw_import_file(path, &p, NULL) == 0 ? hw_callsites_n_mappings(p->callsites) : 0;
    for (size_t i = 0; i < n && !found; i++) {
        const struct hw_mapping *m =
            hw_callsites_get_mapping(p->callsites, (hw_mapping_id){(uint32_t)i});
        struct hw_bytes at = hw_strings_get(hw_callsites_strings(p->callsites), m->path);
        const char *slash = at.n ? memrchr(at.p, '/', at.n) : NULL;
        if (slash &&
            hw_bytes_equal(hw_bytes_of(slash + 1, at.n - (size_t)(slash + 1 - (const char *)at.p)),
                           hw_bytes_str(name)))
            found = strndup((const char *)at.p, at.n);
    }
    hw_profile_free(p);
    return found;
}

bool hw_recorded_graph(const char *path)
{
    struct hw_profile *p = NULL;
    bool has = hw_import_file(path, &p, NULL) == 0 && p->graphs.n;
    hw_profile_free(p);
    return has;
}

const struct hw_seen_target *hw_recorded_most(const struct hw_recording *r, const char *path)
{
    const struct hw_seen_target *found = NULL;
    struct hw_profile *p = NULL;
    struct hw_series_list list = {0};
    hw_process_ranks ranks = {0};
    if (path && hw_import_file(path, &p, NULL) == 0 && hw_series_list_init(&list, p) == 0 &&
        hw_open_profile_rank(p, &list, &ranks) == 0 && ranks.n)
        for (size_t i = 0; i < r->targets.n; i++)
            if (r->targets.v[i].pid == p->processes.v[ranks.v[0].upid.v].pid)
                found = &r->targets.v[i];
    hw_vec_done(&ranks);
    hw_series_list_done(&list);
    hw_profile_free(p);
    return found;
}

void hw_recorded_say_lost(const struct hw_recording *r)
{
    unsigned long long n = r->ended.n_lost;
    if (n)
        fprintf(stderr,
                "incomplete: %llu sample%s lost; `heapwise report` says where and what helps, "
                "`heapwise stats` lists each process\n",
                n, hw_plural(n));
}

struct names {
    size_t n, at, max;
    char *out;
};

static void add_name(struct names *x, const char *name, int32_t pid)
{
    if (x->n++ < SHOWN && x->at < x->max) /* some 30 bytes each */
        x->at += (size_t)snprintf(x->out + x->at, x->max - x->at, "%s%.20s (%d)",
                                  x->n > 1 ? ", " : "", name, pid);
}

static bool is_listed(const struct hw_recording *r, int32_t pid)
{
    for (size_t i = 0; i < r->offspring.rows.n; i++)
        if (r->offspring.rows.v[i].pid == pid && hw_offspring_lives(&r->offspring.rows.v[i]))
            return true;
    return false;
}

/* A daemon whose parent ended before a look, or what a process executed without our library. */
static void add_living_targets(struct names *x, const struct hw_recording *r)
{
    for (size_t i = 0; i < r->targets.n; i++) {
        const struct hw_seen_target *t = &r->targets.v[i];
        if (t->pid == r->launch->pid || is_listed(r, t->pid))
            continue;
        if (t->state == HW_TARGET_CONNECTED)
            add_name(x, t->name, t->pid);
        else if (t->state == HW_TARGET_EXECED && hw_offspring_runs(&t->executed))
            add_name(x, t->executed.name, t->pid);
    }
}

size_t hw_recorded_offspring(const struct hw_recording *r, bool living, char *out, size_t max)
{
    struct names x = {.out = out, .max = max};
    if (max)
        out[0] = '\0';
    for (size_t i = 0; i < r->offspring.rows.n; i++) {
        const struct hw_offspring_row *row = &r->offspring.rows.v[i];
        if (living ? hw_offspring_lives(row) : hw_recording_left_out(r, row))
            add_name(&x, row->name, row->pid);
    }
    if (living)
        add_living_targets(&x, r);
    if (x.n > SHOWN && x.at < max)
        (void)snprintf(out + x.at, max - x.at, ", ..."); /* cut is fine */
    return x.n;
}
