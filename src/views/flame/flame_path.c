/* Callsites are collected from leaf to root, then expanded into functions from the root on. */
#include "views/flame/flame_path.h"

#include "base/error.h"

#include "base/banned.h"

static const struct hw_callsite *callsite_of(const struct hw_flame_input *q, uint32_t callsite)
{
    return hw_callsites_get(q->cs, (hw_callsite_id){callsite});
}

struct hw_flame_end hw_flame_end_of(const struct hw_flame_input *q, hw_callsite_id leaf)
{
    struct hw_flame_end e = {.callsite = leaf.v, .depth = SIZE_MAX};
    if (q->flags & HW_FLAME_SITES) {
        (void)hw_functions_site_at(q->fns, leaf, &e.depth); /* only how deep */
        e.callsite = hw_functions_site_callsite(q->fns, leaf).v;
    }
    e.chain = hw_functions_chain(q->fns, callsite_of(q, e.callsite)->frame, &e.n);
    if (e.depth > e.n)
        e.depth = e.n;
    return e;
}

int hw_flame_path_of(const struct hw_flame_input *q, hw_callsite_id leaf, hw_flame_path *calls,
                     hw_flame_path *out)
{
    struct hw_flame_end e = hw_flame_end_of(q, leaf);
    hw_vec_clear(out);
    hw_vec_clear(calls);
    for (uint32_t c = e.callsite; c != HW_ID_NONE; c = callsite_of(q, c)->parent.v)
        if (hw_vec_push(calls, c) < 0)
            return HW_ENOMEM;
    for (size_t i = calls->n; i-- > 0;) {
        size_t n;
        const struct hw_function_at *chain =
            hw_functions_chain(q->fns, callsite_of(q, calls->v[i])->frame, &n);
        if (i == 0)
            n = e.depth;
        for (size_t k = 0; k < n; k++)
            if (hw_vec_push(out, chain[k].function) < 0)
                return HW_ENOMEM;
    }
    return HW_OK;
}
