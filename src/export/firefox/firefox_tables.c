#include "export/firefox/firefox_tables.h"

#include "base/error.h"

#include "base/banned.h"

void hw_ff_thread_done(struct hw_ff_thread *t)
{
    hw_vec_done(&t->stacks);
    hw_vec_done(&t->frames);
    hw_vec_done(&t->funcs);
    hw_vec_done(&t->resources);
    hw_vec_done(&t->rows);
    hw_vec_done(&t->strings);
    hw_map64_done(&t->stack_of);
    hw_map64_done(&t->frame_of);
    hw_map64_done(&t->func_of);
    hw_map64_done(&t->resource_of);
    hw_map64_done(&t->string_of);
}

static int string_at(struct hw_ff_thread *t, uint32_t function, hw_str_id text, bool last_part,
                     uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    uint64_t key = function != HW_ID_NONE ? 1ull << 32 | function
                   : last_part            ? 2ull << 32 | text.v
                                          : text.v;
    int rc = hw_map64_at(&t->string_of, key, &at, &fresh);
    if (rc == HW_OK && fresh) {
        *at = t->strings.n;
        if (hw_vec_push(&t->strings, (struct hw_ff_string){function, text, last_part}) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = (uint32_t)*at;
    return rc;
}

static int resource_at(struct hw_firefox *x, struct hw_ff_thread *t, hw_str_id module,
                       uint32_t *out)
{
    uint64_t lib, *at;
    bool fresh;
    *out = HW_ID_NONE;
    if (!module.v || !hw_map64_get(&x->lib_at, module.v, &lib))
        return HW_OK;
    int rc = hw_map64_at(&t->resource_of, lib, &at, &fresh);
    if (rc == HW_OK && fresh) {
        struct hw_ff_resource r = {.lib = (uint32_t)lib};
        *at = t->resources.n;
        rc = string_at(t, HW_ID_NONE, module, /* last_part = */ true, &r.name);
        if (rc == HW_OK && hw_vec_push(&t->resources, r) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = (uint32_t)*at;
    return rc;
}

static int func_at(struct hw_firefox *x, struct hw_ff_thread *t, const struct hw_function_at *f,
                   uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&t->func_of, f->function, &at, &fresh);
    if (rc == HW_OK && fresh) {
        struct hw_ff_func func = {.file = HW_ID_NONE};
        *at = t->funcs.n;
        rc = string_at(t, f->function, (hw_str_id){0}, /* last_part = */ false, &func.name);
        if (rc == HW_OK && f->file.v)
            rc = string_at(t, HW_ID_NONE, f->file, /* last_part = */ false, &func.file);
        if (rc == HW_OK)
            rc = resource_at(x, t, hw_functions_get(x->fns, f->function)->module, &func.resource);
        if (rc == HW_OK && hw_vec_push(&t->funcs, func) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = (uint32_t)*at;
    return rc;
}

/* The frames of an address, outermost first: *first and the n - 1 that follow it. */
static int frames_of(struct hw_firefox *x, struct hw_ff_thread *t, hw_frame_id id, uint32_t *first,
                     size_t *n)
{
    const struct hw_function_at *chain = hw_functions_chain(x->fns, id, n);
    const struct hw_frame *f = hw_callsites_get_frame(x->p->callsites, id);
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&t->frame_of, id.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = t->frames.n;
    *first = (uint32_t)*at;
    for (size_t i = 0; fresh && rc == HW_OK && i < *n; i++) {
        struct hw_ff_frame frame = {.line = chain[i].line,
                                    .depth = (uint32_t)i,
                                    .mapping = f->mapping,
                                    .rel_pc = f->rel_pc};
        rc = func_at(x, t, &chain[i], &frame.func);
        if (rc == HW_OK && hw_vec_push(&t->frames, frame) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int add_callsite(struct hw_firefox *x, struct hw_ff_thread *t, hw_callsite_id id,
                        uint32_t prefix, uint32_t *out)
{
    uint32_t first;
    size_t n;
    int rc = frames_of(x, t, hw_callsites_get(x->p->callsites, id)->frame, &first, &n);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        if (hw_vec_push(&t->stacks, (struct hw_ff_stack){prefix, first + (uint32_t)i}) < 0)
            rc = HW_ENOMEM;
        prefix = (uint32_t)(t->stacks.n - 1);
    }
    *out = prefix;
    return rc == HW_OK ? hw_map64_put(&t->stack_of, id.v, prefix) : rc;
}

/* The stack of a callsite. Callers that have no stack yet are added, root first. */
static int stack_at(struct hw_firefox *x, struct hw_ff_thread *t, hw_callsite_id leaf,
                    uint32_t *out)
{
    hw_callsite_id missing[HW_MAX_CALLSITE_DEPTH];
    size_t n = 0;
    uint64_t known = HW_ID_NONE;
    for (hw_callsite_id c = leaf;
         c.v != HW_ID_NONE && n < HW_ARRAY_LEN(missing) && !hw_map64_get(&t->stack_of, c.v, &known);
         c = hw_callsites_get(x->p->callsites, c)->parent)
        missing[n++] = c;
    int rc = HW_OK;
    *out = (uint32_t)known;
    while (rc == HW_OK && n > 0) {
        uint32_t prefix = *out;
        rc = add_callsite(x, t, missing[--n], prefix, out);
    }
    return rc;
}

int hw_ff_add_rows(struct hw_firefox *x, struct hw_ff_thread *t)
{
    const struct hw_profile *p = x->p;
    int rc = HW_OK;
    for (uint32_t i = 0; i < p->dumps.n; i++) {
        const struct hw_heap_dump *d = &p->dumps.v[i];
        bool at_max = d->flags & HW_DUMP_AT_MAX;
        if (d->upid.v != t->upid.v || d->heap_name.v != t->heap.v || at_max != t->peaks_only)
            continue;
        if (t->peaks_only)
            t->rows.n = 0;
        size_t first, n;
        hw_profile_dump_rows(p, i, &first, &n);
        for (size_t k = first; rc == HW_OK && k < first + n; k++) {
            struct hw_ff_row r = {.ts_ns = d->ts_ns, .bytes = hw_alloc_size(&p->allocs, k)};
            if (r.bytes == 0)
                continue;
            rc = stack_at(x, t, (hw_callsite_id){p->allocs.callsite[k]}, &r.stack);
            if (rc == HW_OK && hw_vec_push(&t->rows, r) < 0)
                rc = HW_ENOMEM;
        }
    }
    return rc;
}

int hw_ff_add_libs(struct hw_firefox *x)
{
    for (uint32_t i = 0; i < hw_callsites_n_mappings(x->p->callsites); i++) {
        const struct hw_mapping *m = hw_callsites_get_mapping(x->p->callsites, (hw_mapping_id){i});
        uint64_t *at, *first;
        bool fresh, first_of_path;
        int rc = hw_map64_at(&x->lib_of, (uint64_t)m->path.v << 32 | m->build_id.v, &at, &fresh);
        if (rc == HW_OK && fresh) {
            *at = x->libs.n;
            rc = hw_map64_at(&x->lib_at, m->path.v, &first, &first_of_path);
            if (rc == HW_OK && first_of_path)
                *first = x->libs.n;
            if (rc == HW_OK && hw_vec_push(&x->libs, (struct hw_ff_lib){m->path, m->build_id}) < 0)
                rc = HW_ENOMEM;
        }
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}
