#include "export/merged_stacks.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "export/json_file.h"
#include "views/flame/places.h"

#include "base/banned.h"

static int build(struct hw_stacks *s, const struct hw_export_input *in)
{
    static const hw_filters none;
    struct hw_filter_matches m;
    struct hw_flame_input q = {
        .cs = in->profile->callsites, .fns = s->functions, .values = in->values, .filters = &m};
    int rc =
        hw_filter_match(in->filters ? in->filters : &none, q.cs, q.fns, in->namer, &s->program, &m);
    if (rc < 0)
        return rc;
    rc = hw_flame_build_with(&q, &s->tree);
    hw_filter_matches_done(&m);
    return rc;
}

int hw_stacks_init(struct hw_stacks *s, const struct hw_export_input *in)
{
    *s = (struct hw_stacks){.program = hw_program_find(in->profile->callsites, in->values,
                                                       hw_process_name(in->profile, in->upid))};
    int rc = hw_functions_new(in->profile->callsites, NULL, &s->functions);
    if (rc == 0)
        rc = hw_places_find(in->profile->callsites, s->functions, in->values, in->metric,
                            &s->places);
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
    free(s->places);
    s->functions = NULL;
    s->places = NULL;
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

int hw_stacks_write(const struct hw_export_input *in, const char *what,
                    int (*put)(const struct hw_export_input *in, const struct hw_stacks *s,
                               FILE *out),
                    FILE *out, struct hw_error *err)
{
    struct hw_stacks s;
    int rc = hw_stacks_init(&s, in);
    if (rc == 0) {
        rc = put(in, &s, out);
        hw_stacks_done(&s);
    }
    if (rc < 0 && rc != HW_ESYS) /* the stream's own failure is reported below */
        return hw_fail(err, rc, 0, "%s:", what);
    return hw_export_finish(out, err);
}

int hw_stacks_write_json(const struct hw_export_input *in, const char *what,
                         void (*put)(const struct hw_export_input *in, const struct hw_stacks *s,
                                     uint32_t *path, struct hw_json *j),
                         FILE *out, struct hw_error *err)
{
    struct hw_stacks s;
    int rc = hw_stacks_init(&s, in);
    if (rc < 0)
        return hw_fail(err, rc, 0, "%s:", what);
    uint32_t *path = calloc((size_t)hw_stacks_depth(&s) + 1, sizeof *path);
    if (!path)
        rc = HW_ENOMEM;
    if (rc == 0) {
        struct hw_json j;
        hw_json_init(&j, hw_json_write_file, out, /* pretty = */ false);
        hw_json_begin_object(&j);
        put(in, &s, path, &j);
        hw_json_end_object(&j);
        rc = hw_json_finish(&j);
        hw_json_done(&j);
        fputc('\n', out);
    }
    free(path);
    hw_stacks_done(&s);
    if (rc < 0 && rc != HW_ESYS)
        return hw_fail(err, rc, 0, "%s:", what);
    return hw_export_finish(out, err);
}
