#include "export/stacks.h"

#include "base/error.h"

#include "base/banned.h"

int hw_stacks_init(struct hw_stacks *s, const struct hw_export_input *in)
{
    *s = (struct hw_stacks){0};
    int rc = hw_functions_new(in->profile->callsites, NULL, &s->functions);
    if (rc == 0)
        rc = hw_flame_build(in->profile->callsites, s->functions, in->values, 0, &s->tree);
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
