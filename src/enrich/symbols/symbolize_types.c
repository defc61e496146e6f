/* Types of allocations, by the debug information of the calls that made them. */
#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "enrich/allocator_names.h"
#include "enrich/lines/demangle.h"
#include "enrich/lines/line_reader.h"
#include "enrich/load_bias.h"
#include "enrich/symbols/symbolize_job.h"
#include "model/profile.h"

#include "base/banned.h"

static int on_type(void *ctx, size_t index, const struct hw_line *chain, size_t n, bool folded)
{
    struct hw_symbolize_job *j = ctx;
    uint64_t va = j->va.v[index];
    hw_str_id name;
    (void)folded;
    if (n == 0 || !chain[0].function)
        return HW_OK;
    int rc = hw_profile_str(j->p, hw_bytes_str(chain[0].function), &name);
    uint64_t written = UINT64_MAX;
    for (size_t i = 0; rc == HW_OK && i < j->n_at; i++) {
        if (j->at[i].va != va)
            continue;
        rc = hw_map64_put(&j->p->new_types, j->at[i].frame, name.v);
        if (written != j->at[i].rel_pc)
            hw_symbolize_put_type(j, j->at[i].rel_pc, chain[0].function);
        written = j->at[i].rel_pc;
    }
    return rc;
}

/* What is allocated by calls of operator new in this file. */
int hw_symbolize_request_types(struct hw_symbolize_job *j)
{
    struct hw_error err = {0};
    hw_vec_clear(&j->va);
    for (size_t i = 0; i < j->n_at; i++)
        if (hw_map64_find(&j->new_callers, j->at[i].frame) &&
            (j->va.n == 0 || j->va.v[j->va.n - 1] != j->at[i].va) &&
            hw_vec_push(&j->va, j->at[i].va) < 0)
            return HW_ENOMEM;
    if (j->va.n == 0 || hw_symbolize_is_late(j))
        return HW_OK;
    int rc = hw_line_reader_new_types(j->reader, j->number, j->fd, j->va.v, j->va.n, j->deadline_ns,
                                      on_type, j, &err);
    if (err.code && !hw_symbolize_is_late(j))
        hw_symbolize_warn(j, "'%s': %s; types of what it allocates may be missing",
                          j->file ? j->file : "?", err.text);
    return err.code ? HW_OK : rc;
}

static int put_named_type(struct hw_symbolize_job *j, const struct hw_symbolize_place *pl,
                          struct hw_bytes type)
{
    hw_str_id name;
    int rc = hw_profile_str(j->p, type, &name);
    if (rc == HW_OK)
        rc = hw_map64_put(&j->p->new_types, pl->frame, name.v);
    if (rc == HW_OK)
        hw_symbolize_put_type(j, pl->rel_pc,
                              hw_strings_cstr(hw_callsites_strings(j->p->callsites), name));
    return rc;
}

/* Of the rest, what the functions' names tell. */
int hw_symbolize_name_types(struct hw_symbolize_job *j)
{
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(j->p->callsites);
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < j->n_at; i++) {
        const struct hw_symbolize_place *pl = &j->at[i];
        const struct hw_symbol_line *lines;
        struct hw_bytes type;
        if (!hw_map64_find(&j->new_callers, pl->frame) ||
            hw_map64_find(&j->p->new_types, pl->frame))
            continue;
        size_t n = hw_symbol_sets_get(sets, (hw_frame_id){pl->frame}, &lines);
        for (size_t k = 0; k < n; k++)
            if (hw_allocator_type(hw_symbolize_text_of(j, lines[k].function), &type)) {
                rc = put_named_type(j, pl, type);
                break;
            }
    }
    return rc;
}

/* Frames that call operator new for something whose type nobody told. */
int hw_symbolize_list_new_callers(struct hw_symbolize_job *j)
{
    const struct hw_alloc_rows *a = &j->p->allocs;
    hw_autofree bool *seen = calloc(hw_callsites_count(j->p->callsites) + 1, sizeof *seen);
    if (!seen)
        return HW_ENOMEM;
    for (size_t i = 0; i < a->n; i++) {
        uint32_t site = a->callsite[i];
        if (site == HW_ID_NONE || seen[site] || (a->type && a->type[i]))
            continue;
        seen[site] = true;
        hw_frame_id caller = hw_profile_new_caller(j->p, (hw_callsite_id){site});
        if (caller.v != HW_ID_NONE && hw_map64_put(&j->new_callers, caller.v, 1) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}
