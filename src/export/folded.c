/* One line per stack: `root;…;leaf VALUE`. Delimiters within names (';', newlines) are replaced. */
#include <stdlib.h>

#include "base/error.h"
#include "export/export.h"
#include "export/merged_stacks.h"

#include "base/banned.h"

static void put_name(FILE *out, const struct hw_strbuf *name)
{
    for (size_t i = 0; i < name->n; i++) {
        unsigned char c = (unsigned char)name->p[i];
        fputc(c == ';' ? ':' : c < 0x20 || c == 0x7f ? ' ' : c, out);
    }
}

static int put_stacks(const struct hw_export_input *in, const struct hw_stacks *s, FILE *out)
{
    uint32_t *path = calloc((size_t)hw_stacks_depth(s) + 1, sizeof *path);
    struct hw_strbuf name = {0};
    if (!path)
        return HW_ENOMEM;
    for (uint32_t i = 1; i < s->tree.v.n; i++) {
        const struct hw_flame_node *n = &s->tree.v.v[i];
        struct hw_value v = hw_export_value(in, hw_flame_self(&s->tree, i));
        int64_t x = hw_value_get(&v, in->metric);
        if (x <= 0)
            continue;
        hw_stacks_path(s, i, path);
        for (uint32_t d = 0; d < n->depth; d++) {
            hw_strbuf_clear(&name);
            hw_function_label(&name, in->profile->callsites,
                              hw_functions_get(s->functions, path[d]), in->namer);
            if (d)
                fputc(';', out);
            put_name(out, &name);
        }
        fprintf(out, " %lld\n", (long long)x);
    }
    int rc = name.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&name);
    free(path);
    return rc;
}

static int folded_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return hw_stacks_write(in, "folded stacks", put_stacks, out, err);
}

const struct hw_exporter hw_export_folded = {
    .name = "folded",
    .summary = "one line a stack with one figure, for flamegraph scripts",
    .extension = ".folded",
    .one_metric = true,
    .merged = true,
    .write = folded_write,
};
