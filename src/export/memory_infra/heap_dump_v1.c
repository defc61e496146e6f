/* Version 1 of a heap dump: totals by callstack and type; only large entries are written, the callers'
 * totals include the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "export/memory_infra/heap_dump.h"
#include "export/memory_infra/heap_dump_job.h"

#include "base/banned.h"

static void put_decimal(struct hw_json *j, const char *key, uint64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    hw_json_kv_str(j, key, text);
}

/* The total of a stack (HW_ID_NONE: the whole heap) and a type (HW_ID_NONE: all types). */
static void put_entry(struct hw_json *j, const struct hw_infra_heaps_written *t,
                      const struct hw_infra_heaps_row *r)
{
    hw_json_begin_object(j);
    if (r->node == HW_ID_NONE)
        hw_json_kv_str(j, "bt", "");
    else
        put_decimal(j, "bt", t->nodes.v[r->node].id);
    if (r->type != HW_ID_NONE)
        put_decimal(j, "type", t->names.v[r->type].type_id);
    hw_json_kv_hex(j, "size", (uint64_t)r->size);
    hw_json_kv_hex(j, "count", (uint64_t)r->count);
    hw_json_end_object(j);
}

/* Repeats each row for every caller and for all types together; equal rows are summed later. */
static int expand_totals(struct hw_infra_out *o, const struct hw_infra_heaps_written *t)
{
    size_t n = o->rows.n;
    for (size_t i = 0; i < n; i++) {
        struct hw_infra_heaps_row r = o->rows.v[i];
        uint32_t node = r.node, type = r.type;
        o->rows.v[i].size = o->rows.v[i].count = 0; /* replaced by the copies */
        for (;;) {
            r.node = node;
            r.type = HW_ID_NONE;
            if (hw_vec_push(&o->rows, r) < 0)
                return HW_ENOMEM;
            r.type = type;
            if (hw_vec_push(&o->rows, r) < 0)
                return HW_ENOMEM;
            if (node == HW_ID_NONE)
                break;
            node = t->nodes.v[node].parent;
        }
    }
    return HW_OK;
}

static int by_size_descending(const void *pa, const void *pb)
{
    const struct hw_infra_heaps_row *a = *(const struct hw_infra_heaps_row *const *)pa,
                                    *b = *(const struct hw_infra_heaps_row *const *)pb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->type < b->type ? -1 : a->type > b->type;
}

/* HW_DETAIL_FRACTION: for the types within a callstack, and for callstacks as in version 2. */
static int choose_fractions(struct hw_infra_out *o, const struct hw_infra_heaps_written *t)
{
    HW_VEC(struct hw_infra_heaps_row *) types = {0};
    int rc = HW_OK;
    for (size_t i = 0, end; rc == HW_OK && i < o->rows.n; i = end) {
        struct hw_infra_heaps_row *first = &o->rows.v[i];
        bool small = first->node != HW_ID_NONE && !t->nodes.v[first->node].kept;
        int64_t sum = 0;
        hw_vec_clear(&types);
        for (end = i; end < o->rows.n && o->rows.v[end].node == first->node; end++) {
            o->rows.v[end].kept = !small;
            if (o->rows.v[end].type != HW_ID_NONE && hw_vec_push(&types, &o->rows.v[end]) < 0)
                rc = HW_ENOMEM;
        }
        if (types.n)
            qsort(types.v, types.n, sizeof *types.v, by_size_descending);
        for (size_t k = 0; k < types.n; k++) {
            small = small || hw_infra_heaps_is_fraction_small(types.v[k]->size, &sum);
            types.v[k]->kept = !small;
        }
    }
    hw_vec_done(&types);
    return rc;
}

static int choose_entries(struct hw_infra_out *o, const struct hw_infra_heaps_written *t)
{
    const struct hw_infra_rule *rule = hw_infra_heaps_rule_of(o);
    if (rule->rule == HW_DETAIL_FRACTION)
        return choose_fractions(o, t);
    for (size_t i = 0; i < o->rows.n; i++) {
        struct hw_infra_heaps_row *r = &o->rows.v[i];
        if (rule->rule == HW_DETAIL_THRESHOLD)
            r->kept = r->size >= rule->threshold;
        else if (rule->rule == HW_DETAIL_ALL)
            r->kept = r->size || r->count;
    }
    return HW_OK;
}

static bool is_entry(const struct hw_infra_heaps_row *r)
{
    return r->kept || (r->node == HW_ID_NONE && r->type == HW_ID_NONE);
}

static int put_entries(struct hw_infra_out *o, struct hw_json *j, struct hw_infra_heaps_written *t)
{
    hw_infra_heaps_sum_up(o, t);
    int rc = hw_infra_heaps_choose_nodes(o, t);
    if (rc == HW_OK)
        rc = expand_totals(o, t);
    hw_infra_heaps_merge_rows(o);
    if (rc == HW_OK)
        rc = choose_entries(o, t);
    hw_json_begin_object(j);
    hw_json_key(j, "entries");
    hw_json_begin_array(j);
    for (size_t k = o->rows.n; rc == HW_OK && k-- > 0;) { /* the whole heap is the last row */
        const struct hw_infra_heaps_row *r = &o->rows.v[k];
        if (!is_entry(r))
            continue;
        rc = hw_infra_heaps_assign_node_id(o, t, r->node);
        if (rc == HW_OK && r->type != HW_ID_NONE)
            rc = hw_infra_heaps_assign_type_id(o, t, r->type);
        put_entry(j, t, r);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    return rc;
}

int hw_infra_out_v1(struct hw_infra_out *o, struct hw_json *j, hw_upid upid,
                    const struct hw_infra_heap *heaps, size_t n)
{
    struct hw_infra_heaps_written *t = &o->written.v[upid.v];
    int rc = HW_OK;
    hw_json_begin_object(j);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        rc = hw_infra_heaps_collect(o, upid, &heaps[i]);
        if (rc < 0 || o->rows.n == 0)
            continue;
        hw_json_keyn(j, heaps[i].name.p, heaps[i].name.n);
        rc = put_entries(o, j, t);
    }
    hw_json_end_object(j);
    return rc;
}

/* ---- maps ---- */

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
        hw_infra_heaps_put_text(o, j, t, n->name);
        if (n->parent != HW_ID_NONE)
            put_decimal(j, "parent", t->nodes.v[n->parent].id);
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
        hw_infra_heaps_put_text(o, j, t, (uint32_t)i);
    }
    hw_json_end_object(j);
}
