/*
 * The viewer's rules; breaking one fails the import or falsifies figures: ids count from 1, are
 * unique in the file across all processes and never redefined; every id is defined in this event or
 * an earlier one of the process; all four arrays are present and of one length, even if empty; rows
 * are unique per (node, type).
 *
 * Small callstacks are folded, not lost: those that the rule calls small (by default a total below
 * 1024 bytes) become, type by type, the frame `<other>` below the nearest caller that is kept. The
 * sum of the rows is the heap's total. Version 1 omits small entries: the callers' totals include
 * them.
 */
#include "export/memory_infra/heap_dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strings.h"
#include "export/memory_infra/heap_dump_job.h"

#include "base/banned.h"

enum { MAX_TYPES = 2000 };

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

static int name_of(struct hw_infra_out *o, struct hw_infra_heaps_written *t, struct hw_bytes text,
                   uint32_t *out)
{
    hw_strbuf_clear(&o->label);
    hw_strbuf_add(&o->label, text.p, text.n);
    return name_of_label(o, t, out);
}

static int child_of(struct hw_infra_heaps_written *t, uint32_t parent, uint32_t name, uint32_t *out)
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
    return rc < 0 ? rc : child_of(t, *node, label, node);
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
            rc = name_of(o, t, type, &r.type);
        if (rc == HW_OK && hw_vec_push(&o->rows, r) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* Nodes are ordered callers first. */
void hw_infra_heaps_sum_up(struct hw_infra_out *o, struct hw_infra_heaps_written *t)
{
    for (size_t i = 0; i < t->nodes.n; i++)
        t->nodes.v[i].total = 0;
    for (size_t i = 0; i < o->rows.n; i++) {
        struct hw_infra_heaps_node *n = &t->nodes.v[o->rows.v[i].node];
        n->total = hw_sat_add(n->total, o->rows.v[i].size);
    }
    for (size_t i = t->nodes.n; i-- > 0;) {
        uint32_t parent = t->nodes.v[i].parent;
        if (parent != HW_ID_NONE)
            t->nodes.v[parent].total = hw_sat_add(t->nodes.v[parent].total, t->nodes.v[i].total);
    }
}

const struct hw_infra_rule *hw_infra_heaps_rule_of(const struct hw_infra_out *o)
{
    static const struct hw_infra_rule usual = {HW_DETAIL_THRESHOLD, HW_INFRA_THRESHOLD_BYTES};
    return o->in->other ? o->in->other : &usual;
}

/* For descending values: less than 0.8 % of the sum so far, including the value. */
bool hw_infra_heaps_is_fraction_small(int64_t size, int64_t *sum)
{
    *sum = hw_sat_add(*sum, size);
    return *sum == 0 || (double)size * 125 < (double)*sum;
}

static bool is_large_row(const struct hw_infra_heaps_row *r)
{
    return r->size >= 16384 || r->count >= 1024;
}

struct ranked {
    uint32_t parent, node;
    int64_t total;
};

static int compare_ranked(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    if (a->total != b->total)
        return a->total > b->total ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

/* The callees of each caller, largest first; all after the first small one are small. */
static int keep_fractions(struct hw_infra_heaps_written *t)
{
    size_t n = t->nodes.n;
    int64_t sum = 0;
    bool small = false;
    struct ranked *v = calloc(n + 1, sizeof *v);
    if (!v)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct ranked){t->nodes.v[i].parent, (uint32_t)i, t->nodes.v[i].total};
    qsort(v, n, sizeof *v, compare_ranked);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || v[i].parent != v[i - 1].parent) {
            sum = 0;
            small = false;
        }
        small = small || hw_infra_heaps_is_fraction_small(v[i].total, &sum);
        t->nodes.v[v[i].node].kept = !small;
    }
    free(v);
    return HW_OK;
}

/* Which nodes are kept: never one whose caller is not. */
int hw_infra_heaps_choose_nodes(struct hw_infra_out *o, struct hw_infra_heaps_written *t)
{
    const struct hw_infra_rule *rule = hw_infra_heaps_rule_of(o);
    int rc = rule->rule == HW_DETAIL_FRACTION ? keep_fractions(t) : HW_OK;
    for (size_t i = 0; i < t->nodes.n && rule->rule != HW_DETAIL_FRACTION; i++)
        t->nodes.v[i].kept =
            rule->rule == HW_DETAIL_ALL ||
            (rule->rule == HW_DETAIL_THRESHOLD && t->nodes.v[i].total >= rule->threshold);
    for (size_t i = 0; i < o->rows.n && rule->rule == HW_DETAIL_ROWS; i++)
        t->nodes.v[o->rows.v[i].node].kept |= o->rows.v[i].kept = is_large_row(&o->rows.v[i]);
    for (size_t i = t->nodes.n; i-- > 0 && rule->rule == HW_DETAIL_ROWS;)
        if (t->nodes.v[i].kept && t->nodes.v[i].parent != HW_ID_NONE)
            t->nodes.v[t->nodes.v[i].parent].kept = true;
    for (size_t i = 0; i < t->nodes.n; i++)
        if (t->nodes.v[i].parent != HW_ID_NONE && !t->nodes.v[t->nodes.v[i].parent].kept)
            t->nodes.v[i].kept = false;
    return rc;
}

static int fold_stacks(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                       struct hw_infra_folded *folded)
{
    bool by_rows = hw_infra_heaps_rule_of(o)->rule == HW_DETAIL_ROWS;
    uint32_t other;
    int rc = hw_infra_heaps_choose_nodes(o, t);
    if (rc == HW_OK)
        rc = name_of(o, t, hw_bytes_str("<other>"), &other);
    for (size_t i = 0; rc == HW_OK && i < o->rows.n; i++) {
        struct hw_infra_heaps_row *r = &o->rows.v[i];
        uint32_t kept = r->node;
        while (kept != HW_ID_NONE && !t->nodes.v[kept].kept)
            kept = t->nodes.v[kept].parent;
        if (kept == r->node && (!by_rows || r->kept))
            continue;
        folded->rows++;
        folded->size = hw_sat_add(folded->size, r->size);
        rc = child_of(t, kept, other, &r->node);
        if (rc == HW_OK)
            t->nodes.v[r->node].kept = true; /* for this heap; recomputed for the next */
    }
    return rc;
}

static int by_type(const void *pa, const void *pb)
{
    const struct hw_infra_heaps_row *a = pa, *b = pb;
    return a->type < b->type ? -1 : a->type > b->type;
}

/* Above MAX_TYPES types the smallest ones are merged into one. */
static int fold_types(struct hw_infra_out *o, struct hw_infra_heaps_written *t)
{
    size_t n_types = 0;
    uint32_t other;
    if (o->rows.n == 0)
        return HW_OK;
    qsort(o->rows.v, o->rows.n, sizeof *o->rows.v, by_type);
    for (size_t i = 0; i < o->rows.n; i++)
        n_types += i == 0 || o->rows.v[i].type != o->rows.v[i - 1].type;
    if (n_types <= MAX_TYPES)
        return HW_OK;
    int rc = name_of(o, t, hw_bytes_str("<other>"), &other);
    for (size_t i = 0, end; rc == HW_OK && i < o->rows.n; i = end) {
        int64_t total = 0;
        for (end = i; end < o->rows.n && o->rows.v[end].type == o->rows.v[i].type; end++)
            total = hw_sat_add(total, o->rows.v[end].size);
        for (size_t k = i + 1; total < HW_INFRA_THRESHOLD_BYTES && k < end; k++)
            o->rows.v[k].type = other;
        if (total < HW_INFRA_THRESHOLD_BYTES)
            o->rows.v[i].type = other;
    }
    return rc;
}

static int by_node(const void *pa, const void *pb)
{
    const struct hw_infra_heaps_row *a = pa, *b = pb;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->type < b->type ? -1 : a->type > b->type;
}

static int by_size(const void *pa, const void *pb)
{
    const struct hw_infra_heaps_row *a = pa, *b = pb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return by_node(pa, pb);
}

void hw_infra_heaps_merge_rows(struct hw_infra_out *o)
{
    size_t n = 0;
    if (o->rows.n == 0)
        return;
    qsort(o->rows.v, o->rows.n, sizeof *o->rows.v, by_node);
    for (size_t i = 0; i < o->rows.n; i++) {
        struct hw_infra_heaps_row *last = n ? &o->rows.v[n - 1] : NULL;
        if (last && by_node(last, &o->rows.v[i]) == 0) {
            last->size = hw_sat_add(last->size, o->rows.v[i].size);
            last->count = hw_sat_add(last->count, o->rows.v[i].count);
            last->kept |= o->rows.v[i].kept;
        } else {
            o->rows.v[n++] = o->rows.v[i];
        }
    }
    o->rows.n = n;
}

/* ---- maps and rows ---- */

static int assign_name_id(struct hw_infra_out *o, struct hw_infra_heaps_written *t, uint32_t name)
{
    if (t->names.v[name].id)
        return HW_OK;
    t->names.v[name].id = ++o->last_id;
    return hw_vec_push(&t->new_names, name) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_infra_heaps_assign_type_id(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                                  uint32_t name)
{
    int rc = assign_name_id(o, t, name);
    if (rc < 0 || t->names.v[name].type_id)
        return rc;
    t->names.v[name].type_id = ++o->last_id;
    return hw_vec_push(&t->new_types, name) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_infra_heaps_assign_node_id(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                                  uint32_t node)
{
    int rc = HW_OK;
    for (; rc == HW_OK && node != HW_ID_NONE && !t->nodes.v[node].id;
         node = t->nodes.v[node].parent) {
        t->nodes.v[node].id = ++o->last_id;
        rc = assign_name_id(o, t, t->nodes.v[node].name);
        if (rc == HW_OK && hw_vec_push(&t->new_nodes, node) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int assign_row_ids(struct hw_infra_out *o, struct hw_infra_heaps_written *t)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < o->rows.n; i++) {
        rc = hw_infra_heaps_assign_node_id(o, t, o->rows.v[i].node);
        if (rc == HW_OK)
            rc = hw_infra_heaps_assign_type_id(o, t, o->rows.v[i].type);
    }
    return rc;
}

static void put_text(struct hw_infra_out *o, struct hw_json *j,
                     const struct hw_infra_heaps_written *t, uint32_t name)
{
    struct hw_bytes text = hw_strings_get(o->strings, t->names.v[name].text);
    hw_json_strn(j, text.p, text.n);
}

static void put_maps(struct hw_infra_out *o, struct hw_json *j, struct hw_infra_heaps_written *t)
{
    hw_json_begin_object(j);
    hw_json_key(j, "strings");
    hw_json_begin_array(j);
    for (size_t i = 0; i < t->new_names.n; i++) {
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "id", t->names.v[t->new_names.v[i]].id);
        hw_json_key(j, "string");
        put_text(o, j, t, t->new_names.v[i]);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_key(j, "nodes");
    hw_json_begin_array(j);
    for (size_t i = 0; i < t->new_nodes.n; i++) {
        const struct hw_infra_heaps_node *n = &t->nodes.v[t->new_nodes.v[i]];
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "id", n->id);
        hw_json_kv_uint(j, "name_sid", t->names.v[n->name].id);
        if (n->parent != HW_ID_NONE)
            hw_json_kv_uint(j, "parent", t->nodes.v[n->parent].id);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_key(j, "types");
    hw_json_begin_array(j);
    for (size_t i = 0; i < t->new_types.n; i++) {
        const struct hw_infra_heaps_name *n = &t->names.v[t->new_types.v[i]];
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "id", n->type_id);
        hw_json_kv_uint(j, "name_sid", n->id);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_vec_clear(&t->new_names);
    hw_vec_clear(&t->new_types);
    hw_vec_clear(&t->new_nodes);
}

static void put_rows(struct hw_infra_out *o, struct hw_json *j,
                     const struct hw_infra_heaps_written *t)
{
    static const char *const columns[] = {"counts", "sizes", "types", "nodes"};
    hw_json_begin_object(j);
    for (size_t c = 0; c < HW_ARRAY_LEN(columns); c++) {
        hw_json_key(j, columns[c]);
        hw_json_begin_array(j);
        for (size_t i = 0; i < o->rows.n; i++) {
            const struct hw_infra_heaps_row *r = &o->rows.v[i];
            hw_json_uint(j, c == 0   ? (uint64_t)r->count
                            : c == 1 ? (uint64_t)r->size
                            : c == 2 ? t->names.v[r->type].type_id
                                     : t->nodes.v[r->node].id);
        }
        hw_json_end_array(j);
    }
    hw_json_end_object(j);
}

int hw_infra_out_v2(struct hw_infra_out *o, struct hw_json *j, hw_upid upid,
                    const struct hw_infra_heap *heaps, size_t n, struct hw_infra_folded *folded)
{
    struct hw_infra_heaps_written *t = &o->written.v[upid.v];
    int rc = HW_OK;
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "version", 1);
    hw_json_key(j, "allocators");
    hw_json_begin_object(j);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        rc = hw_infra_heaps_collect(o, upid, &heaps[i]);
        if (rc == HW_OK)
            rc = fold_types(o, t);
        if (rc < 0)
            break;
        hw_infra_heaps_sum_up(o, t);
        rc = fold_stacks(o, t, folded);
        hw_infra_heaps_merge_rows(o);
        if (rc == HW_OK)
            rc = assign_row_ids(o, t);
        if (rc < 0 || o->rows.n == 0)
            continue;
        qsort(o->rows.v, o->rows.n, sizeof *o->rows.v, by_size);
        hw_json_keyn(j, heaps[i].name.p, heaps[i].name.n);
        put_rows(o, j, t);
    }
    hw_json_end_object(j);
    hw_json_key(j, "maps");
    put_maps(o, j, t);
    hw_json_end_object(j);
    return rc;
}

/* ---- version 1 ---- */

void hw_infra_out_stack_frames(struct hw_infra_out *o, struct hw_json *j, hw_upid upid)
{
    const struct hw_infra_heaps_written *t = &o->written.v[upid.v];
    char key[24];
    hw_json_begin_object(j);
    for (size_t i = 0; i < t->nodes.n; i++) {
        const struct hw_infra_heaps_node *n = &t->nodes.v[i];
        if (!n->id)
            continue;
        (void)snprintf(key, sizeof key, "%llu", (unsigned long long)n->id);
        hw_json_key(j, key);
        hw_json_begin_object(j);
        hw_json_key(j, "name");
        put_text(o, j, t, n->name);
        if (n->parent != HW_ID_NONE)
            hw_infra_heaps_put_decimal(j, "parent", t->nodes.v[n->parent].id);
        hw_json_end_object(j);
    }
    hw_json_end_object(j);
}

void hw_infra_out_type_names(struct hw_infra_out *o, struct hw_json *j, hw_upid upid)
{
    const struct hw_infra_heaps_written *t = &o->written.v[upid.v];
    char key[24];
    hw_json_begin_object(j);
    hw_json_kv_str(j, "0", "[unknown]");
    for (size_t i = 0; i < t->names.n; i++) {
        if (!t->names.v[i].type_id)
            continue;
        (void)snprintf(key, sizeof key, "%llu", (unsigned long long)t->names.v[i].type_id);
        hw_json_key(j, key);
        put_text(o, j, t, (uint32_t)i);
    }
    hw_json_end_object(j);
}
