#include "views/stack_mask.h"

#include <stdlib.h>

#include "base/error.h"
#include "model/profile.h"
#include "views/flame/flame_path.h"

#include "base/banned.h"

enum { UNKNOWN, KEPT, DROPPED };

struct hw_stack_mask {
    const struct hw_profile *p;
    struct hw_flame_input q;
    const struct hw_filter_matches *matches;
    uint8_t *results; /* by callsite */
    hw_flame_path calls, path;
    int error;
};

int hw_stack_mask_new(const struct hw_profile *p, const struct hw_functions *fns,
                      const struct hw_filter_matches *matches, unsigned flags,
                      struct hw_stack_mask **out)
{
    struct hw_stack_mask *m = calloc(1, sizeof *m);
    if (!m)
        return HW_ENOMEM;
    m->p = p;
    m->q = (struct hw_flame_input){.cs = p->callsites, .fns = fns, .flags = flags};
    m->matches = matches;
    m->results = calloc(hw_callsites_count(p->callsites) + 1, 1);
    if (!m->results) {
        hw_stack_mask_free(m);
        return HW_ENOMEM;
    }
    *out = m;
    return HW_OK;
}

void hw_stack_mask_free(struct hw_stack_mask *m)
{
    if (!m)
        return;
    free(m->results);
    hw_vec_done(&m->calls);
    hw_vec_done(&m->path);
    free(m);
}

static bool evaluate(struct hw_stack_mask *m, hw_callsite_id c)
{
    int rc = hw_flame_path_of(&m->q, c, &m->calls, &m->path);
    if (rc < 0)
        m->error = rc;
    return rc == HW_OK && hw_filter_apply(m->matches, m->path.v, &m->path.n, NULL);
}

bool hw_stack_mask_keeps(struct hw_stack_mask *m, hw_callsite_id c)
{
    if (!m)
        return true;
    if (m->results[c.v] == UNKNOWN)
        m->results[c.v] = evaluate(m, c) ? KEPT : DROPPED;
    return m->results[c.v] == KEPT;
}

bool hw_stack_mask_keeps_heap(const struct hw_stack_mask *m, const struct hw_series *s)
{
    return !m || hw_filters_keep_heap(
                     m->matches->filters,
                     hw_strings_cstr(hw_callsites_strings(m->p->callsites), s->heap_name));
}

void hw_stack_mask_apply(struct hw_stack_mask *m, hw_values *values)
{
    size_t kept = 0;
    if (!m)
        return;
    for (size_t i = 0; i < values->n; i++)
        if (hw_stack_mask_keeps(m, values->v[i].callsite))
            values->v[kept++] = values->v[i];
    values->n = kept;
}

int hw_stack_mask_error(const struct hw_stack_mask *m)
{
    return m ? m->error : HW_OK;
}
