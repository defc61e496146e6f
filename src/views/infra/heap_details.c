/*
 * After finish, the tree of names is in preorder and the rows are in the order of their nodes: a
 * node's subtree is one range of each.
 *
 *     node    0 root   1 main   2 parse   3 render     end[1] = 4
 *     rows    |        |r0      |r1 r2    |r3          first_row[1] = 0, first_row[4] = 4
 */
#include "views/infra/heap_details.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/text/strings.h"
#include "views/time/values.h"

#include "base/banned.h"

struct node {
    uint32_t parent, label; /* before finish: index of the parent; root HW_ID_NONE */
    uint32_t end;           /* the first node that is not below it */
    size_t first_row;
    struct hw_detail_value total;
};

struct row {
    uint32_t node, type;
    struct hw_detail_value v;
};

struct hw_heap_details {
    struct hw_strings *strings;
    HW_VEC(struct node) nodes;
    struct hw_map64 node_at; /* parent << 32 | label */
    HW_VEC(struct row) rows;
    struct hw_map64 type_at; /* label → type */
    HW_VEC(uint32_t) types;  /* labels */
    /* Both moments are usually of one profile with mostly the same callstacks: these tables are
     * kept until rows of another profile are added. */
    const struct hw_profile *profile; /* borrowed; NULL: none */
    uint32_t *frame_label;            /* by frame; 0 = not made yet */
    uint32_t *node_of;                /* by callsite; 0 = not made yet */
};

bool hw_detail_rule_named(const char *word, enum hw_detail_rule *out)
{
    static const char *const words[] = {"threshold", "fraction", "rows", "all"};
    for (size_t i = 0; i < HW_ARRAY_LEN(words); i++)
        if (strcmp(words[i], word) == 0) {
            *out = (enum hw_detail_rule)i;
            return true;
        }
    return false;
}

static void add_value(struct hw_detail_value *to, const struct hw_detail_value *v)
{
    for (int s = 0; s < HW_DETAIL_SIDES; s++) {
        to->size[s] = hw_sat_add(to->size[s], v->size[s]);
        to->count[s] = hw_sat_add(to->count[s], v->count[s]);
    }
}

static void drop_tables(struct hw_heap_details *d)
{
    free(d->frame_label);
    free(d->node_of);
    d->frame_label = d->node_of = NULL;
    d->profile = NULL;
}

int hw_heap_details_new(struct hw_heap_details **out)
{
    struct hw_heap_details *d = calloc(1, sizeof *d);
    if (!d)
        return HW_ENOMEM;
    int rc = hw_strings_new(&d->strings);
    if (rc == HW_OK && hw_vec_push(&d->nodes, (struct node){.parent = HW_ID_NONE}) < 0)
        rc = HW_ENOMEM;
    if (rc < 0)
        hw_heap_details_free(d);
    else
        *out = d;
    return rc;
}

void hw_heap_details_free(struct hw_heap_details *d)
{
    if (!d)
        return;
    hw_strings_free(d->strings);
    hw_vec_done(&d->nodes);
    hw_map64_done(&d->node_at);
    hw_vec_done(&d->rows);
    hw_map64_done(&d->type_at);
    hw_vec_done(&d->types);
    drop_tables(d);
    free(d);
}

/* ---- filling ---- */

struct adding {
    struct hw_heap_details *d;
    const struct hw_profile *p;
    const struct hw_namer *namer;
    struct hw_strbuf label;
    HW_VEC(uint32_t) path;
};

static int child_of(struct hw_heap_details *d, uint32_t parent, uint32_t label, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    if (d->nodes.n >= HW_ID_NONE - 1)
        return HW_ELIMIT;
    if (hw_vec_reserve(&d->nodes, d->nodes.n + 1) < 0)
        return HW_ENOMEM;
    int rc = hw_map64_at(&d->node_at, (uint64_t)parent << 32 | label, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = d->nodes.n;
        d->nodes.v[d->nodes.n++] = (struct node){.parent = parent, .label = label};
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int frame_label(struct adding *a, hw_frame_id id, uint32_t *out)
{
    const struct hw_callsites *cs = a->p->callsites;
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(cs);
    const struct hw_frame *f = hw_callsites_get_frame(cs, id);
    const struct hw_symbol_line *lines;
    size_t n = hw_symbol_sets_get(sets, id, &lines);
    hw_str_id better = n ? lines[n - 1].function : hw_symbol_sets_get_deobfuscated(sets, id);
    struct hw_function fn = {.name = better.v ? better : f->name};
    hw_str_id label;
    *out = a->d->frame_label[id.v];
    if (*out)
        return HW_OK;
    if (f->mapping.v != HW_ID_NONE)
        fn.module = hw_callsites_get_mapping(cs, f->mapping)->path;
    if (fn.name.v == 0)
        fn.rel_pc = f->rel_pc;
    hw_strbuf_clear(&a->label);
    hw_function_label(&a->label, cs, &fn, a->namer);
    if (a->label.failed)
        return HW_ENOMEM;
    int rc = hw_strings_intern(a->d->strings, hw_bytes_of(a->label.p, a->label.n), &label);
    if (rc == HW_OK)
        *out = a->d->frame_label[id.v] = label.v;
    return rc;
}

static int find_node(struct adding *a, hw_callsite_id c, uint32_t *out)
{
    uint32_t *node_of = a->d->node_of;
    hw_vec_clear(&a->path);
    while (c.v != HW_ID_NONE && !node_of[c.v]) {
        if (hw_vec_push(&a->path, c.v) < 0)
            return HW_ENOMEM;
        c = hw_callsites_get(a->p->callsites, c)->parent;
    }
    uint32_t node = c.v == HW_ID_NONE ? 0 : node_of[c.v]; /* 0: the root */
    while (a->path.n) {
        hw_callsite_id at = {a->path.v[--a->path.n]};
        uint32_t label;
        int rc = frame_label(a, hw_callsites_get(a->p->callsites, at)->frame, &label);
        if (rc == HW_OK)
            rc = child_of(a->d, node, label, &node);
        if (rc < 0)
            return rc;
        node_of[at.v] = node;
    }
    *out = node;
    return HW_OK;
}

static int type_of(struct adding *a, hw_str_id type, uint32_t *out)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(a->p->callsites), type);
    hw_str_id label;
    uint64_t *at;
    bool fresh;
    int rc = hw_strings_intern(a->d->strings, type.v ? name : hw_bytes_str("[unknown]"), &label);
    if (rc == HW_OK)
        rc = hw_map64_at(&a->d->type_at, label.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = a->d->types.n;
        if (hw_vec_push(&a->d->types, label.v) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int use_profile(struct hw_heap_details *d, const struct hw_profile *p)
{
    if (d->profile == p)
        return HW_OK;
    drop_tables(d);
    d->frame_label = calloc(hw_callsites_n_frames(p->callsites) + 1, sizeof *d->frame_label);
    d->node_of = calloc(hw_callsites_count(p->callsites) + 1, sizeof *d->node_of);
    if (!d->frame_label || !d->node_of)
        return HW_ENOMEM; /* hw_heap_details_free frees the rest */
    d->profile = p;
    return HW_OK;
}

int hw_heap_details_add(struct hw_heap_details *d, const struct hw_profile *p,
                        const hw_values_by_type *values, const struct hw_namer *namer,
                        enum hw_detail_side side)
{
    struct adding a = {.d = d, .p = p, .namer = namer};
    int rc = use_profile(d, p);
    if (rc == HW_OK && hw_vec_reserve(&d->rows, d->rows.n + values->n) < 0)
        rc = HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < values->n; i++) {
        const struct hw_value_by_type *v = &values->v[i];
        struct row r = {0};
        r.v.size[side] = v->size;
        r.v.count[side] = v->count;
        rc = find_node(&a, v->callsite, &r.node);
        if (rc == HW_OK)
            rc = type_of(&a, v->type, &r.type);
        if (rc == HW_OK)
            d->rows.v[d->rows.n++] = r;
    }
    hw_strbuf_done(&a.label);
    hw_vec_done(&a.path);
    return rc;
}

/* ---- sorting ---- */

/* Computes sizes of subtrees, then positions: a node's children and their subtrees follow it. */
static int preorder(const struct hw_heap_details *d, uint32_t *position)
{
    size_t n = d->nodes.n;
    hw_autofree uint32_t *below = calloc(n, sizeof *below), *used = calloc(n, sizeof *used);
    if (!below || !used)
        return HW_ENOMEM;
    for (size_t i = n; i-- > 1;)
        below[d->nodes.v[i].parent] += below[i] + 1;
    position[0] = 0;
    for (size_t i = 1; i < n; i++) { /* parents first */
        uint32_t parent = d->nodes.v[i].parent;
        position[i] = position[parent] + 1 + used[parent];
        used[parent] += below[i] + 1;
    }
    return HW_OK;
}

static int compare_rows(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb; /* of one node */
    return a->type < b->type ? -1 : a->type > b->type;
}

static void sum_up(struct hw_heap_details *d)
{
    for (size_t i = 0; i < d->rows.n; i++)
        add_value(&d->nodes.v[d->rows.v[i].node].total, &d->rows.v[i].v);
    for (size_t i = d->nodes.n; i-- > 1;)
        add_value(&d->nodes.v[d->nodes.v[i].parent].total, &d->nodes.v[i].total);
    for (size_t i = d->nodes.n, r = d->rows.n; i-- > 0;) {
        while (r > 0 && d->rows.v[r - 1].node >= i)
            r--;
        d->nodes.v[i].first_row = r;
    }
}

/* Counting sort by node, then by type within each; equal rows are merged. */
static int sort_rows(struct hw_heap_details *d)
{
    size_t n = d->rows.n, kept = 0;
    hw_autofree size_t *at = calloc(d->nodes.n + 1, sizeof *at);
    struct row *sorted = calloc(n + 1, sizeof *sorted);
    if (!at || !sorted) {
        free(sorted);
        return HW_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        at[d->rows.v[i].node + 1]++;
    for (size_t i = 0; i < d->nodes.n; i++)
        at[i + 1] += at[i];
    for (size_t i = 0; i < n; i++)
        sorted[at[d->rows.v[i].node]++] = d->rows.v[i];
    for (size_t i = 0, end; i < n; i = end) {
        size_t first = kept;
        end = at[sorted[i].node]; /* after its last row by now */
        if (end - i > 1)
            qsort(sorted + i, end - i, sizeof *sorted, compare_rows);
        for (size_t k = i; k < end; k++) {
            if (kept > first && sorted[kept - 1].type == sorted[k].type)
                add_value(&sorted[kept - 1].v, &sorted[k].v);
            else
                sorted[kept++] = sorted[k];
        }
    }
    free(d->rows.v);
    d->rows.v = sorted;
    d->rows.n = kept;
    d->rows.cap = n + 1;
    return HW_OK;
}

int hw_heap_details_finish(struct hw_heap_details *d)
{
    size_t n = d->nodes.n;
    hw_autofree uint32_t *position = calloc(n, sizeof *position);
    struct node *sorted = calloc(n, sizeof *sorted);
    int rc = position && sorted ? preorder(d, position) : HW_ENOMEM;
    if (rc < 0) {
        free(sorted);
        return rc;
    }
    for (size_t i = 0; i < n; i++) {
        struct node x = d->nodes.v[i];
        x.parent = i ? position[x.parent] : HW_ID_NONE;
        x.end = position[i] + 1;
        sorted[position[i]] = x;
    }
    for (size_t i = n; i-- > 1;)
        if (sorted[sorted[i].parent].end < sorted[i].end)
            sorted[sorted[i].parent].end = sorted[i].end;
    for (size_t i = 0; i < d->rows.n; i++)
        d->rows.v[i].node = position[d->rows.v[i].node];
    free(d->nodes.v);
    d->nodes.v = sorted;
    d->nodes.cap = n;
    drop_tables(d);
    rc = sort_rows(d);
    if (rc == HW_OK)
        sum_up(d);
    return rc;
}

/* ---- queries ---- */

static size_t row_end(const struct hw_heap_details *d, uint32_t node)
{
    return node < d->nodes.n ? d->nodes.v[node].first_row : d->rows.n;
}

/* Rows of a type (HW_ID_NONE: all) in [first, end). */
static struct hw_detail_value sum_rows(const struct hw_heap_details *d, size_t first, size_t end,
                                       uint32_t type)
{
    struct hw_detail_value sum = {0};
    for (size_t i = first; i < end; i++)
        if (type == HW_ID_NONE || d->rows.v[i].type == type)
            add_value(&sum, &d->rows.v[i].v);
    return sum;
}

struct hw_detail_row hw_heap_details_root(const struct hw_heap_details *d)
{
    return (struct hw_detail_row){
        .kind = HW_DETAIL_ROOT, .v = d->nodes.v[0].total, .type = HW_ID_NONE};
}

static bool is_nothing(const struct hw_detail_value *v)
{
    return !v->size[0] && !v->size[1] && !v->count[0] && !v->count[1];
}

static int64_t larger(const int64_t v[HW_DETAIL_SIDES])
{
    return v[0] > v[1] ? v[0] : v[1];
}

static int compare_sizes(const void *pa, const void *pb)
{
    const struct hw_detail_row *a = pa, *b = pb;
    int64_t x = larger(a->v.size), y = larger(b->v.size);
    if (x != y)
        return x > y ? -1 : 1;
    size_t n = a->label.n < b->label.n ? a->label.n : b->label.n;
    int order = n ? memcmp(a->label.p, b->label.p, n) : 0;
    return order ? order : a->label.n < b->label.n ? -1 : a->label.n > b->label.n;
}

/* How many rows, the largest first, the rule keeps. */
static size_t n_kept(const struct hw_detail_row *v, size_t n, enum hw_detail_rule rule,
                     int64_t threshold)
{
    int64_t sum = 0;
    size_t i = 0;
    for (; i < n; i++) {
        int64_t size = larger(v[i].v.size);
        sum = hw_sat_add(sum, size);
        bool small = false;
        switch (rule) {
        case HW_DETAIL_THRESHOLD:
            small = size < threshold;
            break;
        case HW_DETAIL_FRACTION:
            small = sum == 0 || (double)size * 125 < (double)sum;
            break;
        case HW_DETAIL_ROWS:
            small = size < 16384 && larger(v[i].v.count) < 1024;
            break;
        case HW_DETAIL_ALL:
            break;
        }
        if (small)
            break;
    }
    return i;
}

/* Applies the rule to the rows from first on. HW_DETAIL_ROWS checks each row, since a small one may
 * have many objects. */
static int fold(hw_detail_rows *out, size_t first, enum hw_detail_rule rule, int64_t threshold)
{
    struct hw_detail_row other = {.kind = HW_DETAIL_OTHER, .label = hw_bytes_str("<other>")};
    size_t n = first;
    if (out->n == first)
        return HW_OK;
    qsort(hw_vec_from(out, first), out->n - first, sizeof *out->v, compare_sizes);
    size_t kept = rule == HW_DETAIL_ROWS
                      ? 0
                      : n_kept(hw_vec_from(out, first), out->n - first, rule, threshold);
    for (size_t i = first; i < out->n; i++) {
        if (i < first + kept ||
            (rule == HW_DETAIL_ROWS && n_kept(&out->v[i], 1, rule, threshold) == 1)) {
            out->v[n++] = out->v[i];
        } else {
            add_value(&other.v, &out->v[i].v);
            other.n_folded++;
        }
    }
    out->n = n;
    /* If no row is kept there is no OTHER either: the parent has the same figures. */
    return n > first && other.n_folded && hw_vec_push(out, other) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_heap_details_frames(const struct hw_heap_details *d, const struct hw_detail_row *of,
                           enum hw_detail_rule rule, int64_t threshold, hw_detail_rows *out)
{
    const struct node *n = &d->nodes.v[of->node];
    size_t first = out->n;
    if (of->kind == HW_DETAIL_SELF || of->kind == HW_DETAIL_OTHER)
        return HW_OK;
    for (uint32_t c = of->node + 1; c < n->end; c = d->nodes.v[c].end) {
        const struct node *x = &d->nodes.v[c];
        struct hw_detail_row r = {.kind = HW_DETAIL_FRAME, .node = c, .type = of->type};
        r.label = hw_strings_get(d->strings, (hw_str_id){x->label});
        r.v = of->type == HW_ID_NONE ? x->total
                                     : sum_rows(d, x->first_row, row_end(d, x->end), of->type);
        if (!is_nothing(&r.v) && hw_vec_push(out, r) < 0)
            return HW_ENOMEM;
    }
    struct hw_detail_row self = {.kind = HW_DETAIL_SELF,
                                 .label = hw_bytes_str("<self>"),
                                 .node = of->node,
                                 .type = of->type};
    self.v = sum_rows(d, n->first_row, row_end(d, of->node + 1), of->type);
    if (out->n > first && !is_nothing(&self.v) && hw_vec_push(out, self) < 0)
        return HW_ENOMEM;
    return fold(out, first, rule, threshold);
}

int hw_heap_details_types(const struct hw_heap_details *d, const struct hw_detail_row *of,
                          enum hw_detail_rule rule, int64_t threshold, hw_detail_rows *out)
{
    const struct node *n = &d->nodes.v[of->node];
    size_t first = out->n;
    if (of->type != HW_ID_NONE || of->kind == HW_DETAIL_SELF || of->kind == HW_DETAIL_OTHER)
        return HW_OK;
    hw_autofree uint32_t *at = calloc(d->types.n + 1, sizeof *at); /* index + 1 in out */
    if (!at)
        return HW_ENOMEM;
    for (size_t i = n->first_row; i < row_end(d, n->end); i++) {
        const struct row *x = &d->rows.v[i];
        if (!at[x->type]) {
            struct hw_detail_row r = {.kind = HW_DETAIL_TYPE, .node = of->node, .type = x->type};
            r.label = hw_strings_get(d->strings, (hw_str_id){d->types.v[x->type]});
            if (hw_vec_push(out, r) < 0)
                return HW_ENOMEM;
            at[x->type] = (uint32_t)(out->n - first);
        }
        add_value(&out->v[first + at[x->type] - 1].v, &x->v);
    }
    return fold(out, first, rule, threshold);
}

int hw_heap_details_stacks(const struct hw_heap_details *d,
                           int (*fn)(void *ctx, const struct hw_detail_stack *s), void *ctx)
{
    HW_VEC(struct hw_bytes) frames = {0};
    hw_detail_rows types = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc >= 0 && i < d->rows.n;) {
        struct hw_detail_stack s = {0};
        uint32_t node = d->rows.v[i].node;
        hw_vec_clear(&frames);
        hw_vec_clear(&types);
        for (uint32_t n = node; rc >= 0 && n != 0; n = d->nodes.v[n].parent)
            if (hw_vec_push(&frames, hw_strings_get(d->strings, (hw_str_id){d->nodes.v[n].label})) <
                0)
                rc = HW_ENOMEM;
        for (; rc >= 0 && i < d->rows.n && d->rows.v[i].node == node; i++) {
            const struct row *x = &d->rows.v[i];
            add_value(&s.v, &x->v);
            if (types.n && types.v[types.n - 1].type == x->type) {
                add_value(&types.v[types.n - 1].v, &x->v);
                continue;
            }
            struct hw_detail_row r = {
                .kind = HW_DETAIL_TYPE, .v = x->v, .node = node, .type = x->type};
            r.label = hw_strings_get(d->strings, (hw_str_id){d->types.v[x->type]});
            if (hw_vec_push(&types, r) < 0)
                rc = HW_ENOMEM;
        }
        s.frames = frames.v;
        s.n_frames = frames.n;
        s.types = types.v;
        s.n_types = types.n;
        if (rc >= 0)
            rc = fn(ctx, &s);
    }
    hw_vec_done(&frames);
    hw_vec_done(&types);
    return rc < 0 ? rc : HW_OK;
}
