#include "export/stacks.h"

#include "base/error.h"

#include "base/banned.h"

static int build(struct hw_stacks *s, const struct hw_export_input *in)
{
    static const hw_filters none;
    struct hw_filter_matches m;
    struct hw_flame_question q = {
        .cs = in->profile->callsites, .fns = s->functions, .values = in->values, .filters = &m};
    int rc = hw_filter_match(in->filters ? in->filters : &none, q.cs, q.fns, in->namer, &m);
    if (rc < 0)
        return rc;
    rc = hw_flame_ask(&q, &s->tree);
    hw_filter_matches_done(&m);
    return rc;
}

int hw_stacks_init(struct hw_stacks *s, const struct hw_export_input *in)
{
    *s = (struct hw_stacks){0};
    int rc = hw_functions_new(in->profile->callsites, NULL, &s->functions);
    if (rc == 0)
        rc = build(s, in);
    if (rc == 0)
        rc = hw_flame_sort(&s->tree, in->metric);
    if (rc < 0)
        hw_stacks_done(s);
    return rc;
}

void hw_stacks_done(struct hw_stacks *s)
{
    hw_functions_free(s->functions);
    s->functions = NULL;
    hw_flame_done(&s->tree);
}

void hw_stacks_path(const struct hw_stacks *s, uint32_t node, uint32_t *path)
{
    const struct hw_flame_node *n = &s->tree.v.v[node];
    for (uint32_t d = n->depth; d > 0; d--) {
        path[d - 1] = n->function;
        n = &s->tree.v.v[n->parent];
    }
}

uint32_t hw_stacks_depth(const struct hw_stacks *s)
{
    uint32_t max = 0;
    for (size_t i = 0; i < s->tree.v.n; i++)
        if (s->tree.v.v[i].depth > max)
            max = s->tree.v.v[i].depth;
    return max;
}
