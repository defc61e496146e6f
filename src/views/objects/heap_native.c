#include "views/objects/heap_native.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "model/callsites.h"
#include "views/flame/functions.h"

#include "base/banned.h"

enum { KIND_BITS = 8 };

/* A link with its owner. Callstacks of the same functions have the same path number. */
struct part {
    uint32_t owner, path;
    hw_callsite_id callsite;
    int64_t bytes;
};

static int by_owner(const void *pa, const void *pb)
{
    const struct part *a = pa, *b = pb;
    if (a->owner != b->owner)
        return a->owner < b->owner ? -1 : 1;
    if (a->path != b->path)
        return a->path < b->path ? -1 : 1;
    return (a->callsite.v > b->callsite.v) - (a->callsite.v < b->callsite.v);
}

static int by_stack_bytes(const void *pa, const void *pb)
{
    const struct hw_native_stack *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return (a->callsite.v > b->callsite.v) - (a->callsite.v < b->callsite.v);
}

static int by_bytes(const void *pa, const void *pb)
{
    const struct hw_native_owner *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return (int)a->kind - (int)b->kind;
}

static int64_t sum(int64_t a, int64_t b)
{
    int64_t s;
    return __builtin_add_overflow(a, b, &s) ? INT64_MAX : s;
}

static int add_blocks(const struct hw_heap_graph *g, struct hw_heap_native_view *out,
                      uint32_t *owner_of)
{
    struct hw_map64 known = {0};
    int rc = HW_OK;
    for (size_t i = 0; i < g->blocks.n && rc == HW_OK; i++) {
        const struct hw_heap_block *b = &g->blocks.v[i];
        uint32_t class = g->type[b->object];
        uint64_t *at;
        bool fresh;
        rc = hw_map64_at(&known, (uint64_t) class << KIND_BITS | b->kind, &at, &fresh);
        if (rc < 0)
            break;
        if (fresh) {
            *at = out->owners.n;
            if (hw_vec_push(&out->owners,
                            (struct hw_native_owner){.class = class, .kind = b->kind}) < 0) {
                rc = HW_ENOMEM;
                break;
            }
        }
        struct hw_native_owner *o = &out->owners.v[*at];
        owner_of[i] = (uint32_t)*at;
        o->n_blocks++;
        o->bytes = sum(o->bytes, b->bytes);
    }
    hw_map64_done(&known);
    return rc;
}

/* ---- callstacks of the same functions ---- */

struct paths {
    const struct hw_callsites *cs;
    const struct hw_functions *functions;
    struct hw_map64 of_callsite;    /* callsite -> path */
    struct hw_map64 below;          /* path << 32 | function -> the path one function longer */
    HW_VEC(hw_callsite_id) pending; /* callsites without a path yet, innermost first */
};

/* Paths are numbered from 1; 0 is the empty one. */
static int path_of(struct paths *p, hw_callsite_id at, uint32_t *out)
{
    uint64_t path = 0;
    hw_vec_clear(&p->pending);
    for (; at.v != HW_ID_NONE && !hw_map64_get(&p->of_callsite, at.v, &path);
         at = hw_callsites_get(p->cs, at)->parent)
        if (hw_vec_push(&p->pending, at) < 0)
            return HW_ENOMEM;
    for (size_t i = p->pending.n; i-- > 0;) {
        size_t n;
        const struct hw_function_at *chain =
            hw_functions_chain(p->functions, hw_callsites_get(p->cs, p->pending.v[i])->frame, &n);
        for (size_t k = 0; k < n; k++) {
            uint64_t *next, fresh_path = p->below.n + 1;
            bool fresh;
            int rc = hw_map64_at(&p->below, path << 32 | chain[k].function, &next, &fresh);
            if (rc < 0)
                return rc;
            if (fresh)
                *next = fresh_path;
            path = *next;
        }
        int rc = hw_map64_put(&p->of_callsite, p->pending.v[i].v, path);
        if (rc < 0)
            return rc;
    }
    *out = (uint32_t)path;
    return HW_OK;
}

/* g->links are in order of their blocks. */
static int add_links(const struct hw_heap_graph *g, struct paths *paths,
                     struct hw_heap_native_view *out, const uint32_t *owner_of)
{
    int rc = HW_OK;
    hw_autofree struct part *parts = calloc(g->links.n + 1, sizeof *parts);
    if (!parts || hw_vec_reserve(&out->stacks, g->links.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < g->links.n; i++) {
        const struct hw_heap_link *l = &g->links.v[i];
        struct hw_native_owner *o = &out->owners.v[owner_of[l->block]];
        parts[i] = (struct part){
            .owner = owner_of[l->block], .callsite = l->callsite, .bytes = l->sample_size};
        rc = path_of(paths, l->callsite, &parts[i].path);
        if (rc < 0)
            return rc;
        o->sampled_bytes = sum(o->sampled_bytes, l->sample_size);
        if (i == 0 || g->links.v[i - 1].block != l->block) {
            o->n_linked++;
            o->linked_bytes = sum(o->linked_bytes, g->blocks.v[l->block].bytes);
        }
    }
    if (g->links.n)
        qsort(parts, g->links.n, sizeof *parts, by_owner);
    for (size_t i = 0; i < g->links.n; i++) {
        struct hw_native_owner *o = &out->owners.v[parts[i].owner];
        bool same_owner = i > 0 && parts[i - 1].owner == parts[i].owner;
        if (!same_owner)
            o->first_stack = out->stacks.n;
        if (!same_owner || parts[i - 1].path != parts[i].path) {
            out->stacks.v[out->stacks.n++] =
                (struct hw_native_stack){.callsite = parts[i].callsite};
            o->n_stacks++;
        }
        struct hw_native_stack *s = &out->stacks.v[out->stacks.n - 1];
        s->bytes = sum(s->bytes, parts[i].bytes);
        s->n_samples++;
    }
    return HW_OK;
}

int hw_heap_native_build(const struct hw_heap_graph *g, const struct hw_callsites *cs,
                         const struct hw_functions *functions, struct hw_heap_native_view *out)
{
    struct paths paths = {.cs = cs, .functions = functions};
    hw_autofree uint32_t *owner_of = calloc(g->blocks.n + 1, sizeof *owner_of);
    *out = (struct hw_heap_native_view){0};
    int rc = owner_of ? add_blocks(g, out, owner_of) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = add_links(g, &paths, out, owner_of);
    hw_map64_done(&paths.of_callsite);
    hw_map64_done(&paths.below);
    hw_vec_done(&paths.pending);
    if (rc < 0) {
        hw_heap_native_done(out);
        return rc;
    }
    for (size_t i = 0; i < out->owners.n; i++)
        if (out->owners.v[i].n_stacks)
            qsort(out->stacks.v + out->owners.v[i].first_stack, out->owners.v[i].n_stacks,
                  sizeof *out->stacks.v, by_stack_bytes);
    if (out->owners.n)
        qsort(out->owners.v, out->owners.n, sizeof *out->owners.v, by_bytes);
    return HW_OK;
}

void hw_heap_native_done(struct hw_heap_native_view *v)
{
    hw_vec_done(&v->owners);
    hw_vec_done(&v->stacks);
}
