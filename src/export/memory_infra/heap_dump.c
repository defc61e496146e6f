/*
 * The rows of one heap: callstacks become nodes of a tree, their functions and types become names.
 * Both are kept for the whole file, so that each is defined once per process. heap_dump_fold.c makes
 * the rows fewer, heap_dump_v2.c and heap_dump_v1.c write them.
 */
#include "export/memory_infra/heap_dump.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strings.h"
#include "export/memory_infra/heap_dump_job.h"

#include "base/banned.h"

int hw_infra_out_new(const struct hw_export_input *in, hw_infra_pc_fn pc, void *ctx,
                     struct hw_infra_out **out)
{
    struct hw_infra_out *o = calloc(1, sizeof *o);
    if (!o)
        return HW_ENOMEM;
    o->in = in;
    o->pc = pc;
    o->ctx = ctx;
    int rc = hw_strings_new(&o->strings);
    while (rc == HW_OK && o->written.n < in->profile->processes.n)
        if (hw_vec_push(&o->written, (struct hw_infra_heaps_written){0}) < 0)
            rc = HW_ENOMEM;
    if (rc < 0)
        hw_infra_out_free(o);
    else
        *out = o;
    return rc;
}

void hw_infra_out_free(struct hw_infra_out *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->written.n; i++) {
        struct hw_infra_heaps_written *t = &o->written.v[i];
        hw_map64_done(&t->name_at);
        hw_vec_done(&t->names);
        hw_map64_done(&t->node_at);
        hw_vec_done(&t->nodes);
        hw_map64_done(&t->callsite_at);
        hw_vec_done(&t->new_names);
        hw_vec_done(&t->new_types);
        hw_vec_done(&t->new_nodes);
    }
    hw_vec_done(&o->written);
    hw_vec_done(&o->rows);
    hw_vec_done(&o->path);
    hw_strings_free(o->strings);
    hw_strbuf_done(&o->label);
    free(o);
}

/* ---- names ---- */

static struct hw_bytes model_str(const struct hw_infra_out *o, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(o->in->profile->callsites), id);
}

/* The index in t->names of the text in o->label. */
static int name_of_label(struct hw_infra_out *o, struct hw_infra_heaps_written *t, uint32_t *out)
{
    hw_str_id text;
    uint64_t *at;
    bool fresh;
    if (o->label.failed)
        return HW_ENOMEM;
    for (size_t i = 0; i < o->label.n; i++)
        if (o->label.p[i] == '\n' || o->label.p[i] == '\r')
            o->label.p[i] = ' ';
    if (o->label.n == 6 && memcmp(o->label.p, "<self>", 6) == 0)
        o->label.p[0] = '[', o->label.p[5] = ']'; /* readers add frames of that name themselves */
    int rc = hw_strings_intern(o->strings, hw_bytes_of(o->label.p, o->label.n), &text);
    if (rc == HW_OK && hw_vec_reserve(&t->names, t->names.n + 1) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_map64_at(&t->name_at, text.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = t->names.n;
        t->names.v[t->names.n++] = (struct hw_infra_heaps_name){text, 0, 0};
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

int hw_infra_heaps_name_of(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                           struct hw_bytes text, uint32_t *out)
{
    hw_strbuf_clear(&o->label);
    hw_strbuf_add(&o->label, text.p, text.n);
    return name_of_label(o, t, out);
}

int hw_infra_heaps_child_of(struct hw_infra_heaps_written *t, uint32_t parent, uint32_t name,
                            uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    if (hw_vec_reserve(&t->nodes, t->nodes.n + 1) < 0)
        return HW_ENOMEM;
    int rc = hw_map64_at(&t->node_at, (uint64_t)(parent + 1) << 32 | name, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = t->nodes.n;
        t->nodes.v[t->nodes.n++] = (struct hw_infra_heaps_node){.parent = parent, .name = name};
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int add_function(struct hw_infra_out *o, hw_upid upid, const struct hw_frame *f,
                        hw_str_id name, uint32_t *node)
{
    struct hw_infra_heaps_written *t = &o->written.v[upid.v];
    struct hw_function fn = {.name = name.v ? name : f->name};
    uint32_t label;
    uint64_t pc = fn.name.v ? 0 : o->pc(o->ctx, upid, f);
    hw_strbuf_clear(&o->label);
    if (f->mapping.v != HW_ID_NONE)
        fn.module = hw_callsites_get_mapping(o->in->profile->callsites, f->mapping)->path;
    if (fn.name.v == 0)
        fn.rel_pc = f->rel_pc;
    if (pc)
        hw_strbuf_addf(&o->label, "pc:%llx", (unsigned long long)pc);
    else
        hw_function_label(&o->label, o->in->profile->callsites, &fn, o->in->namer);
    int rc = name_of_label(o, t, &label);
    return rc < 0 ? rc : hw_infra_heaps_child_of(t, *node, label, node);
}

/* A frame with inlined functions becomes several nodes. */
static int add_frame(struct hw_infra_out *o, hw_upid upid, hw_frame_id id, uint32_t *node)
{
    const struct hw_callsites *cs = o->in->profile->callsites;
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(cs);
    const struct hw_frame *f = hw_callsites_get_frame(cs, id);
    const struct hw_symbol_line *lines;
    size_t n = hw_symbol_sets_get(sets, id, &lines);
    int rc = HW_OK;
    if (n == 0)
        return add_function(o, upid, f, hw_symbol_sets_get_deobfuscated(sets, id), node);
    for (size_t i = n; rc == HW_OK && i-- > 0;)
        rc = add_function(o, upid, f, lines[i].function, node);
    return rc;
}

static int node_of(struct hw_infra_out *o, hw_upid upid, hw_callsite_id callsite, uint32_t *out)
{
    const struct hw_callsites *cs = o->in->profile->callsites;
    struct hw_infra_heaps_written *t = &o->written.v[upid.v];
    uint64_t known = HW_ID_NONE;
    hw_vec_clear(&o->path);
    while (callsite.v != HW_ID_NONE && !hw_map64_get(&t->callsite_at, callsite.v, &known)) {
        if (hw_vec_push(&o->path, callsite.v) < 0)
            return HW_ENOMEM;
        callsite = hw_callsites_get(cs, callsite)->parent;
    }
    uint32_t node = (uint32_t)known;
    while (o->path.n) {
        hw_callsite_id c = {o->path.v[--o->path.n]};
        int rc = add_frame(o, upid, hw_callsites_get(cs, c)->frame, &node);
        if (rc == HW_OK)
            rc = hw_map64_put(&t->callsite_at, c.v, node);
        if (rc < 0)
            return rc;
    }
    *out = node;
    return HW_OK;
}

/* ---- rows ---- */

/* Type names may contain commas, so the list cannot be split at them: the name is compared at the
 * start of each entry. */
static bool is_listed(const char *list, struct hw_bytes type)
{
    for (const char *at = list; *at;) {
        size_t whole = strlen(at), n = strcspn(at, ",");
        if (n && at[n - 1] == '*' && n - 1 <= type.n && memcmp(at, type.p, n - 1) == 0)
            return true;
        if (type.n && type.n <= whole && memcmp(at, type.p, type.n) == 0 &&
            (at[type.n] == '\0' || at[type.n] == ','))
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

int hw_infra_heaps_collect(struct hw_infra_out *o, hw_upid upid, const struct hw_infra_heap *heap)
{
    struct hw_infra_heaps_written *t = &o->written.v[upid.v];
    hw_vec_clear(&o->rows);
    for (size_t i = 0; i < heap->values.n; i++) {
        const struct hw_value_by_type *v = &heap->values.v[i];
        struct hw_infra_heaps_row r = {.size = v->size, .count = v->count};
        struct hw_bytes type = v->type.v ? model_str(o, v->type) : hw_bytes_str("[unknown]");
        if (o->in->only_types && !is_listed(o->in->only_types, type))
            type = hw_bytes_str("[unknown]");
        int rc = node_of(o, upid, v->callsite, &r.node);
        if (rc == HW_OK)
            rc = hw_infra_heaps_name_of(o, t, type, &r.type);
        if (rc == HW_OK && hw_vec_push(&o->rows, r) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}
