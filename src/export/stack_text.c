/* One block per stack, largest value first: the figures, then the frames, leaf first. */
#include <stdlib.h>

#include "base/error.h"
#include "export/export.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

struct order {
    const struct hw_stacks *s;
    enum hw_metric m;
};

static int by_self(const void *a, const void *b, void *ctx)
{
    const struct order *o = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int64_t vx = hw_value_get(hw_flame_self(&o->s->tree, x), o->m);
    int64_t vy = hw_value_get(hw_flame_self(&o->s->tree, y), o->m);
    if (vx != vy)
        return vx > vy ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void put_stack(const struct hw_export_input *in, const struct hw_stacks *s, uint32_t node,
                      struct hw_strbuf *line, FILE *out)
{
    const struct hw_strings *strings = hw_callsites_strings(in->profile->callsites);
    struct hw_value v = hw_export_value(in, hw_flame_self(&s->tree, node));
    fprintf(out, "space %lld objects %lld alloc_space %lld alloc_objects %lld\n",
            (long long)v.space, (long long)v.objects, (long long)v.alloc_space,
            (long long)v.alloc_objects);
    for (; node != 0; node = s->tree.v.v[node].parent) {
        const struct hw_function *fn = hw_functions_get(s->functions, s->tree.v.v[node].function);
        struct hw_strbuf name = {0};
        hw_function_label(&name, in->profile->callsites, fn, in->namer);
        struct hw_bytes module = hw_strings_get(strings, fn->module);
        hw_strbuf_clear(line);
        hw_strbuf_adds(line, "    ");
        hw_strbuf_add_escaped(line, name.p, name.n);
        if (module.n) {
            hw_strbuf_adds(line, "  (");
            hw_strbuf_add_escaped(line, module.p, module.n);
            hw_strbuf_adds(line, ")");
        }
        hw_strbuf_addc(line, '\n');
        (void)fwrite(line->p, 1, line->n, out); /* the stream remembers a failure */
        hw_strbuf_done(&name);
    }
    fputc('\n', out);
}

static int put_all(const struct hw_export_input *in, const struct hw_stacks *s, FILE *out)
{
    uint32_t *nodes = calloc(s->tree.v.n + 1, sizeof *nodes);
    struct hw_strbuf line = {0};
    size_t n = 0;
    if (!nodes)
        return HW_ENOMEM;
    for (uint32_t i = 1; i < s->tree.v.n; i++)
        if (hw_value_get(hw_flame_self(&s->tree, i), in->metric) != 0)
            nodes[n++] = i;
    struct order o = {s, in->metric};
    qsort_r(nodes, n, sizeof *nodes, by_self, &o);
    for (size_t i = 0; i < n; i++)
        put_stack(in, s, nodes[i], &line, out);
    int rc = line.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&line);
    free(nodes);
    return rc;
}

static int text_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return hw_stacks_write(in, "text", put_all, out, err);
}

const struct hw_exporter hw_export_text = {
    .name = "text",
    .summary = "stacks as text, largest first",
    .extension = ".txt",
    .one_metric = true,
    .merged = true,
    .write = text_write,
};
