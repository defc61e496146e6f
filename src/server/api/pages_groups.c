#include "server/api/pages_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "server/api/pages_internal.h"
#include "views/flame/flame_path.h"
#include "views/flame/program.h"

#include "base/banned.h"

void hw_page_parts_done(hw_page_parts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].owned);
        hw_vec_done(&p->v[i].values);
        hw_flame_done(&p->v[i].flame);
    }
    hw_vec_done(p);
}

static int part_for(hw_page_parts *out, struct hw_map64 *at, hw_str_id key, const char *name,
                    struct hw_page_part **part)
{
    uint64_t i;
    if (!hw_map64_get(at, (uint64_t)key.v + 1, &i)) {
        i = out->n;
        if (hw_vec_push(out, (struct hw_page_part){.name = *name ? name : "unknown"}) < 0 ||
            hw_map64_put(at, (uint64_t)key.v + 1, i) < 0)
            return HW_ENOMEM;
    }
    *part = &out->v[i];
    return HW_OK;
}

/* The group of an allocating function: an id and a name. */
typedef hw_str_id name_of_function(const struct hw_page_trace *t, const struct hw_page_selection *s,
                                   const struct hw_function *fn, const char **name);

static hw_str_id module_of(const struct hw_page_trace *t, const struct hw_page_selection *s,
                           const struct hw_function *fn, const char **name)
{
    *name = hw_page_module(t, s->program, fn ? fn->module : (hw_str_id){0});
    return fn ? fn->module : (hw_str_id){0};
}

static hw_str_id owner_of(const struct hw_page_trace *t, const struct hw_page_selection *s,
                          const struct hw_function *fn, const char **name)
{
    static const char *const names[] = {[HW_OWNER_PROGRAM] = "your code",
                                        [HW_OWNER_LIBRARY] = "libraries",
                                        [HW_OWNER_RUNTIME] = "runtime"};
    enum hw_function_owner owner = HW_OWNER_LIBRARY;
    if (fn)
        owner = hw_function_owner_of(hw_page_program_shown(s->program), t->profile->callsites, fn);
    *name = names[owner];
    return (hw_str_id){(uint32_t)owner};
}

/* By the group of the allocating function. */
static int by_function(const struct hw_page_trace *t, const struct hw_page_selection *s,
                       const hw_values *values, name_of_function *belongs, hw_page_parts *out)
{
    const struct hw_flame_input q = {.cs = t->profile->callsites,
                                     .fns = t->functions,
                                     .flags = s->flags & HW_PAGE_ALL_FRAMES ? 0 : HW_FLAME_SITES};
    hw_flame_path calls = {0}, path = {0};
    struct hw_map64 at = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < values->n; i++) {
        const struct hw_function *fn = NULL;
        const char *name = "";
        struct hw_page_part *part = NULL;
        rc = hw_flame_path_of(&q, values->v[i].callsite, &calls, &path);
        if (rc == HW_OK && path.n)
            fn = hw_functions_get(t->functions, path.v[path.n - 1]);
        if (rc == HW_OK) {
            hw_str_id key = belongs(t, s, fn, &name);
            rc = part_for(out, &at, key, name, &part);
        }
        if (rc == HW_OK)
            rc = hw_vec_push(&part->values, values->v[i]);
    }
    hw_map64_done(&at);
    hw_vec_done(&calls);
    hw_vec_done(&path);
    return rc;
}

/* Heaps of different kinds cannot be added up. */
static bool is_part(const struct hw_page_trace *t, const struct hw_page_selection *s,
                    const struct hw_series *series)
{
    if (!hw_page_selects(s, series->upid))
        return false;
    if (*s->heap)
        return series->heap_name.v == s->heap_id.v;
    return series->kind == hw_process_kind(t->profile, &t->list, series->upid, NULL, NULL);
}

static int by_heap(const struct hw_page_trace *t, const struct hw_page_selection *s,
                   hw_page_parts *out, struct hw_error *err)
{
    struct hw_map64 at = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < t->list.v.n; i++) {
        const struct hw_series *series = &t->list.v.v[i];
        const char *name = hw_page_string(t, series->heap_name);
        struct hw_page_selection one = *s;
        size_t before = out->n;
        struct hw_page_part *part = NULL;
        if (!is_part(t, s, series))
            continue;
        rc = part_for(out, &at, series->heap_name, name, &part);
        one.heap = *name ? name : "?"; /* only the id is used; "" would mean all heaps */
        one.heap_id = series->heap_name;
        if (rc == HW_OK && out->n > before)
            rc = hw_page_values(t, &one, &part->values, err);
    }
    hw_map64_done(&at);
    return rc;
}

/* Processes may have the same name: the pid distinguishes them. */
static int by_process(const struct hw_page_trace *t, const struct hw_page_selection *s,
                      hw_page_parts *out, struct hw_error *err)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i <= s->n_with; i++) {
        hw_upid upid = i ? s->with[i - 1] : s->upid;
        const struct hw_process *proc = &t->profile->processes.v[upid.v];
        struct hw_page_selection one;
        struct hw_strbuf name = {0};
        hw_page_selection_one(s, upid, &one);
        hw_strbuf_addf(&name, "%s (%lld)", hw_page_string(t, proc->name), (long long)proc->pid);
        struct hw_page_part part = {.owned = hw_strbuf_take(&name)};
        part.name = part.owned;
        if (!part.owned || hw_vec_push(out, part) < 0) {
            free(part.owned);
            return HW_ENOMEM;
        }
        rc = hw_page_values(t, &one, &out->v[out->n - 1].values, err);
    }
    return rc;
}

int hw_page_parts_by(const char *group, const struct hw_page_trace *t,
                     const struct hw_page_selection *s, hw_values *values, hw_page_parts *out,
                     struct hw_error *err)
{
    if (!group || !*group) {
        if (hw_vec_push(out, (struct hw_page_part){.values = *values}) < 0)
            return HW_ENOMEM;
        *values = (hw_values){0};
        return HW_OK;
    }
    if (strcmp(group, "module") == 0)
        return by_function(t, s, values, module_of, out);
    if (strcmp(group, "owner") == 0)
        return by_function(t, s, values, owner_of, out);
    if (strcmp(group, "heap") == 0)
        return by_heap(t, s, out, err);
    if (strcmp(group, "process") == 0)
        return by_process(t, s, out, err);
    return hw_fail(
        err, HW_EINVAL, 0,
        "group=%.40s: samples have a process, a module and a heap, neither thread nor type", group);
}
