/*
 * Version 2 of a heap dump. The viewer's rules; breaking one fails the import or falsifies figures:
 * ids count from 1, are unique in the file across all processes and never redefined; every id is
 * defined in this event or an earlier one of the process; all four arrays are present and of one
 * length, even if empty; rows are unique per (node, type).
 */
#include <stdlib.h>

#include "base/error.h"
#include "export/memory_infra/heap_dump.h"
#include "export/memory_infra/heap_dump_job.h"

#include "base/banned.h"

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

void hw_infra_heaps_put_text(struct hw_infra_out *o, struct hw_json *j,
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
        hw_infra_heaps_put_text(o, j, t, t->new_names.v[i]);
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
            rc = hw_infra_heaps_fold_types(o, t);
        if (rc < 0)
            break;
        hw_infra_heaps_sum_up(o, t);
        rc = hw_infra_heaps_fold_stacks(o, t, folded);
        hw_infra_heaps_merge_rows(o);
        if (rc == HW_OK)
            rc = assign_row_ids(o, t);
        if (rc < 0 || o->rows.n == 0)
            continue;
        hw_infra_heaps_sort_by_size(o);
        hw_json_keyn(j, heaps[i].name.p, heaps[i].name.n);
        put_rows(o, j, t);
    }
    hw_json_end_object(j);
    hw_json_key(j, "maps");
    put_maps(o, j, t);
    hw_json_end_object(j);
    return rc;
}
