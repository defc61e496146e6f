/*
 * sampling_profile_writer.c - V8's sampling heap profile (.heapprofile)
 *
 * A tree of calls, outermost first; import/v8/sampling_profile.c says what a node has. The nodes
 * nest as deep as stacks do, which the JSON writer does not, so it writes one node's call each, and
 * the tree is walked here.
 */
#include "base/error.h"
#include "base/text/json_out.h"
#include "export/export.h"
#include "export/json_file.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

struct job {
    const struct hw_export_input *in;
    const struct hw_stacks *s;
    FILE *out;
    struct hw_strbuf name;
};

static int64_t size_of(const struct job *j, uint32_t node)
{
    struct hw_value v = hw_export_value(j->in, hw_flame_self(&j->s->tree, node));
    int64_t size = hw_value_get(&v, j->in->metric);
    return size > 0 ? size : 0;
}

/* Lines count from 0. A function without a file has the name of its library as its place. */
static void put_function(struct job *j, uint32_t function, struct hw_json *json)
{
    struct hw_callsites *cs = j->in->profile->callsites;
    const struct hw_function *fn = hw_functions_get(j->s->functions, function);
    hw_str_id where = hw_function_where(fn);
    bool is_file = where.v && where.v == fn->file.v;
    struct hw_bytes url = is_file ? hw_strings_get(hw_callsites_strings(cs), where)
                                  : hw_program_module_shown(&j->s->program, cs, where);
    int64_t line = is_file ? (int64_t)j->s->places[function].line - 1 : -1;
    hw_strbuf_clear(&j->name);
    hw_program_label(&j->s->program, &j->name, cs, fn, j->in->namer);
    hw_json_key(json, "functionName");
    hw_json_strn(json, j->name.p, j->name.n);
    hw_json_kv_str(json, "scriptId", "0");
    hw_json_key(json, "url");
    hw_json_strn(json, url.p, url.n);
    hw_json_kv_int(json, "lineNumber", line);
}

static int put_call(struct job *j, uint32_t node)
{
    struct hw_json json;
    uint32_t function = j->s->tree.v.v[node].function;
    hw_json_init(&json, hw_json_write_file, j->out, /* pretty = */ false);
    hw_json_begin_object(&json);
    if (function == HW_ID_NONE) {
        hw_json_kv_str(&json, "functionName", "(root)");
        hw_json_kv_str(&json, "scriptId", "0");
        hw_json_kv_str(&json, "url", "");
        hw_json_kv_int(&json, "lineNumber", -1);
    } else {
        put_function(j, function, &json);
    }
    hw_json_kv_int(&json, "columnNumber", -1);
    hw_json_end_object(&json);
    int rc = hw_json_finish(&json);
    hw_json_done(&json);
    return rc;
}

static int begin_node(struct job *j, uint32_t node)
{
    fputs("{\"callFrame\":", j->out);
    int rc = put_call(j, node);
    fprintf(j->out, ",\"selfSize\":%lld,\"id\":%lu,\"children\":[", (long long)size_of(j, node),
            (unsigned long)node + 1);
    return rc;
}

/* Depth first, without recursion: a node ends when none of its children follows. */
static int put_tree(struct job *j)
{
    const struct hw_flame *t = &j->s->tree;
    int rc = begin_node(j, 0);
    uint32_t at = 0, next = t->v.v[0].first_child;
    while (rc == HW_OK) {
        if (next != HW_ID_NONE) {
            rc = begin_node(j, next);
            at = next;
            next = t->v.v[at].first_child;
            continue;
        }
        fputs("]}", j->out);
        if (at == 0)
            break;
        next = t->v.v[at].next_sibling;
        at = t->v.v[at].parent;
        if (next != HW_ID_NONE)
            fputc(',', j->out);
    }
    return rc;
}

static int put(const struct hw_export_input *in, const struct hw_stacks *s, FILE *out)
{
    struct job j = {.in = in, .s = s, .out = out};
    fputs("{\"head\":", out);
    int rc = put_tree(&j);
    fputs(",\"samples\":[", out);
    for (uint32_t i = 0, n = 0; rc == HW_OK && i < s->tree.v.n; i++)
        if (size_of(&j, i)) {
            fprintf(out, "%s{\"size\":%lld,\"nodeId\":%lu,\"ordinal\":%lu}", n ? "," : "",
                    (long long)size_of(&j, i), (unsigned long)i + 1, (unsigned long)n + 1);
            n++;
        }
    fputs("]}\n", out);
    if (rc == HW_OK && j.name.failed)
        rc = HW_ENOMEM;
    hw_strbuf_done(&j.name);
    return rc;
}

static int profile_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return hw_stacks_write(in, "V8 heap profile", put, out, err);
}

const struct hw_exporter hw_export_v8_profile = {
    .name = "heapprofile",
    .summary = "V8 sampling heap profile, one metric: Chrome's developer tools",
    .extension = ".heapprofile",
    .one_metric = true,
    .merged = true,
    .write = profile_write,
};
