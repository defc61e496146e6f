/* speedscope's file format: shared frames, one "sampled" profile per metric, samples root first. */
#include <stdlib.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "export/export.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

static void put_frames(const struct hw_export_input *in, const struct hw_stacks *s,
                       struct hw_json *j)
{
    struct hw_strbuf name = {0};
    hw_json_key(j, "shared");
    hw_json_begin_object(j);
    hw_json_key(j, "frames");
    hw_json_begin_array(j);
    for (uint32_t i = 0; i < hw_functions_count(s->functions); i++) {
        const struct hw_function *fn = hw_functions_get(s->functions, i);
        const struct hw_strings *strings = hw_callsites_strings(in->profile->callsites);
        hw_str_id where = hw_function_where(fn);
        bool is_file = where.v && where.v == fn->file.v;
        struct hw_bytes file =
            is_file ? hw_strings_get(strings, where)
                    : hw_program_module_shown(&s->program, in->profile->callsites, where);
        hw_strbuf_clear(&name);
        hw_program_label(&s->program, &name, in->profile->callsites, fn, in->namer);
        hw_json_begin_object(j);
        hw_json_key(j, "name");
        hw_json_strn(j, name.p, name.n);
        if (file.n) {
            hw_json_key(j, "file"); /* speedscope colours by it */
            hw_json_strn(j, file.p, file.n);
        }
        if (is_file && s->places[i].line)
            hw_json_kv_uint(j, "line", s->places[i].line);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_strbuf_done(&name);
}

static int64_t value_of(const struct hw_export_input *in, const struct hw_stacks *s, uint32_t node,
                        enum hw_metric m)
{
    struct hw_value v = hw_export_value(in, hw_flame_self(&s->tree, node));
    return hw_value_get(&v, m);
}

static void put_profile(const struct hw_export_input *in, const struct hw_stacks *s,
                        enum hw_metric m, uint32_t *path, struct hw_json *j)
{
    int64_t sum = 0;
    hw_json_begin_object(j);
    hw_json_kv_str(j, "type", "sampled");
    hw_json_kv_str(j, "name", hw_metric_name(m));
    hw_json_kv_str(j, "unit", hw_metric_is_bytes(m) ? "bytes" : "none");
    hw_json_key(j, "samples");
    hw_json_begin_array(j);
    for (uint32_t i = 1; i < s->tree.v.n; i++) {
        const struct hw_flame_node *n = &s->tree.v.v[i];
        if (value_of(in, s, i, m) <= 0)
            continue;
        hw_stacks_path(s, i, path);
        hw_json_begin_array(j);
        for (uint32_t d = 0; d < n->depth; d++)
            hw_json_uint(j, path[d]);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_key(j, "weights");
    hw_json_begin_array(j);
    for (uint32_t i = 1; i < s->tree.v.n; i++) {
        int64_t x = value_of(in, s, i, m);
        if (x <= 0)
            continue;
        hw_json_int(j, x);
        sum += x;
    }
    hw_json_end_array(j);
    hw_json_kv_int(j, "startValue", 0);
    hw_json_kv_int(j, "endValue", sum);
    hw_json_end_object(j);
}

static void put_all(const struct hw_export_input *in, const struct hw_stacks *s, uint32_t *path,
                    struct hw_json *j)
{
    hw_json_kv_str(j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    hw_json_kv_str(j, "exporter", "heapwise " HW_VERSION);
    hw_json_kv_int(j, "activeProfileIndex", (int64_t)in->metric);
    put_frames(in, s, j);
    hw_json_key(j, "profiles");
    hw_json_begin_array(j);
    for (int m = 0; m < (int)hw_values_metrics(in->values); m++)
        put_profile(in, s, (enum hw_metric)m, path, j);
    hw_json_end_array(j);
}

static int speedscope_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return hw_stacks_write_json(in, "speedscope file", put_all, out, err);
}

const struct hw_exporter hw_export_speedscope = {
    .name = "speedscope",
    .summary = "JSON for speedscope, all metrics",
    .extension = ".speedscope.json",
    .merged = true,
    .write = speedscope_write,
};
