/* Callstacks with all figures: {"version":1, "functions":[…], "stacks":[{"stack":[ids, root first],
 * …}]}. */
#include <stdlib.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "export/export.h"
#include "export/figures.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

static void put_head(const struct hw_export_input *in, struct hw_json *j)
{
    const struct hw_strings *strings = hw_callsites_strings(in->profile->callsites);
    struct hw_bytes heap = hw_strings_get(strings, in->heap_name);
    hw_json_kv_int(j, "version", 1);
    hw_json_kv_str(j, "type", "heap_profile");
    if (in->upid.v < in->profile->processes.n) {
        const struct hw_process *p = &in->profile->processes.v[in->upid.v];
        struct hw_bytes name = hw_strings_get(strings, p->name);
        hw_json_kv_int(j, "pid", p->pid);
        hw_json_key(j, "process");
        hw_json_strn(j, name.p, name.n);
    }
    if (heap.n) {
        hw_json_key(j, "heap");
        hw_json_strn(j, heap.p, heap.n);
    }
    hw_json_kv_int(j, "ts_ns", in->ts_ns);
    hw_json_kv_uint(j, "interval_bytes", in->interval_bytes);
    hw_json_kv_str(j, "counts", in->raw_counts ? "recorded" : "estimated");
}

static void put_functions(const struct hw_export_input *in, const struct hw_stacks *s,
                          struct hw_json *j)
{
    const struct hw_callsites *cs = in->profile->callsites;
    const struct hw_strings *strings = hw_callsites_strings(in->profile->callsites);
    struct hw_strbuf name = {0};
    hw_json_key(j, "functions");
    hw_json_begin_array(j);
    for (uint32_t i = 0; i < hw_functions_count(s->functions); i++) {
        const struct hw_function *fn = hw_functions_get(s->functions, i);
        struct hw_bytes raw = hw_strings_get(strings, fn->name);
        struct hw_bytes module = hw_strings_get(strings, fn->module);
        hw_strbuf_clear(&name);
        hw_function_label(&name, cs, fn, in->namer);
        hw_json_begin_object(j);
        hw_json_key(j, "name");
        hw_json_strn(j, name.p, name.n);
        hw_json_key(j, "raw_name");
        hw_json_strn(j, raw.p, raw.n);
        hw_json_key(j, "module");
        hw_json_strn(j, module.p, module.n);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_strbuf_done(&name);
}

static void put_stack(const struct hw_export_input *in, const struct hw_stacks *s, uint32_t node,
                      uint32_t *path, struct hw_json *j)
{
    const struct hw_flame_node *n = &s->tree.v.v[node];
    struct hw_value v = hw_export_value(in, hw_flame_self(&s->tree, node));
    hw_stacks_path(s, node, path);
    hw_json_begin_object(j);
    hw_json_key(j, "stack");
    hw_json_begin_array(j);
    for (uint32_t d = 0; d < n->depth; d++)
        hw_json_uint(j, path[d]);
    hw_json_end_array(j);
    for (int m = 0; m < (int)hw_value_metrics(&v); m++)
        hw_json_kv_int(j, hw_metric_name((enum hw_metric)m), hw_value_get(&v, (enum hw_metric)m));
    hw_json_kv_int(j, "samples", v.samples);
    hw_json_put_errors(j, &v, in->interval_bytes);
    hw_json_end_object(j);
}

static bool has_self(const struct hw_value *v)
{
    return v->space || v->objects || v->alloc_space || v->alloc_objects;
}

static void put_all(const struct hw_export_input *in, const struct hw_stacks *s, uint32_t *path,
                    struct hw_json *j)
{
    put_head(in, j);
    put_functions(in, s, j);
    hw_json_key(j, "stacks");
    hw_json_begin_array(j);
    for (uint32_t i = 1; i < s->tree.v.n; i++)
        if (has_self(hw_flame_self(&s->tree, i)))
            put_stack(in, s, i, path, j);
    hw_json_end_array(j);
}

static int json_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return hw_stacks_write_json(in, "json file", put_all, out, err);
}

const struct hw_exporter hw_export_json = {
    .name = "json",
    .summary = "all stacks with all figures",
    .extension = ".json",
    .merged = true,
    .write = json_write,
};
