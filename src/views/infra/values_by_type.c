#include "views/infra/values_by_type.h"

#include "base/error.h"
#include "views/time/series.h"
#include "views/time/values.h"

#include "base/banned.h"

void hw_type_sum_done(struct hw_type_sum *t)
{
    hw_vec_done(&t->v);
    hw_map64_done(&t->at);
}

/* Heaps of Java objects: stacks end with the object's class, below the method that allocated it. */
static bool is_of_objects(struct hw_bytes heap)
{
    enum hw_heap_kind kind = hw_heap_kind_of(heap);
    return kind == HW_HEAP_OBJECTS || kind == HW_HEAP_CHURN;
}

static void set_class(const struct hw_profile *p, struct hw_alloc_row *row)
{
    struct hw_callsites *cs = p->callsites;
    const struct hw_callsite *leaf = hw_callsites_get(cs, row->callsite);
    const struct hw_frame *f = hw_callsites_get_frame(cs, leaf->frame);
    if (row->type.v || !f->name.v || f->mapping.v == HW_ID_NONE || leaf->parent.v == HW_ID_NONE)
        return;
    struct hw_bytes module =
        hw_strings_get(hw_callsites_strings(cs), hw_callsites_get_mapping(cs, f->mapping)->path);
    if (!hw_bytes_equal(module, hw_bytes_str("/[java]")) &&
        !hw_bytes_equal(module, hw_bytes_str("[java]")))
        return; /* a method, which also has a module or a file */
    row->type = f->name;
    row->callsite = leaf->parent;
}

/* Types found in debug info, not recorded by the program. */
static void set_new_type(const struct hw_profile *p, struct hw_alloc_row *row)
{
    uint64_t type;
    if (row->type.v || p->new_types.n == 0)
        return;
    hw_frame_id caller = hw_profile_new_caller(p, row->callsite);
    if (caller.v != HW_ID_NONE && hw_map64_get(&p->new_types, caller.v, &type))
        row->type.v = (uint32_t)type;
}

static int add_rows(struct hw_type_sum *t, const struct hw_profile *p, uint32_t dump)
{
    size_t first, n;
    bool objects = is_of_objects(
        hw_strings_get(hw_callsites_strings(p->callsites), p->dumps.v[dump].heap_name));
    hw_profile_dump_rows(p, dump, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        struct hw_alloc_row row = hw_alloc_row_of(&p->allocs, dump, i);
        uint64_t *at;
        bool fresh;
        if (objects)
            set_class(p, &row);
        else
            set_new_type(p, &row);
        if (hw_vec_reserve(&t->v, t->v.n + 1) < 0)
            return HW_ENOMEM;
        int rc = hw_map64_at(&t->at, (uint64_t)row.callsite.v << 32 | row.type.v, &at, &fresh);
        if (rc < 0)
            return rc;
        if (fresh) {
            *at = t->v.n;
            t->v.v[t->v.n++] = (struct hw_value_by_type){row.callsite, row.type, 0, 0};
        }
        struct hw_value_by_type *v = &t->v.v[*at];
        v->size = hw_sat_add(v->size, row.size);
        v->count = hw_sat_add(v->count, row.count);
    }
    return HW_OK;
}

static int list(const struct hw_type_sum *t, hw_values_by_type *out)
{
    hw_vec_clear(out);
    for (size_t i = 0; i < t->v.n; i++) {
        struct hw_value_by_type v = t->v.v[i];
        v.size = v.size < 0 ? 0 : v.size; /* damaged trace: more freed than allocated */
        v.count = v.count < 0 ? 0 : v.count;
        if ((v.size || v.count) && hw_vec_push(out, v) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_type_sum_at(struct hw_type_sum *t, const struct hw_profile *p, const struct hw_series *s,
                   uint32_t dump, hw_values_by_type *out)
{
    int rc = HW_OK;
    if (p->dumps.v[dump].flags & HW_DUMP_AT_MAX) {
        struct hw_type_sum alone = {0};
        rc = add_rows(&alone, p, dump);
        if (rc == HW_OK)
            rc = list(&alone, out);
        hw_type_sum_done(&alone);
        return rc;
    }
    bool found = t->n_done && s->all.v[t->n_done - 1] == dump;
    while (rc == HW_OK && !found && t->n_done < s->all.n) {
        rc = add_rows(t, p, s->all.v[t->n_done]);
        found = s->all.v[t->n_done++] == dump;
    }
    if (rc == HW_OK && !found)
        rc = HW_EINVAL;
    return rc < 0 ? rc : list(t, out);
}
