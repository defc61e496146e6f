#include "views/flame/callers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"

#include "base/banned.h"

/* The way up from one node of the tree, HW_ID_NONE behind its end, and what came by it. */
struct way {
    uint32_t function, up[HW_CALLERS_MAX];
    double value;
};

typedef HW_VEC(struct way) ways;

struct find {
    const struct hw_functions *fns;
    const struct hw_strings *strings;
    const struct hw_flame *tree;
};

static const struct hw_strings *strings_of(const struct hw_callsites *cs)
{
    /* The accessor hands out the table for interning too; here it is only read. */
    return hw_callsites_strings((struct hw_callsites *)(uintptr_t)cs);
}

static bool is_on(const struct way *w, size_t n, uint32_t function)
{
    bool found = w->function == function;
    for (size_t i = 0; i < n; i++)
        found |= w->up[i] == function;
    return found;
}

/* Takes a function further up the stack. False: the way ends below it. */
static bool step(const struct find *f, struct way *w, size_t *n, uint32_t function)
{
    const struct hw_function *fn = hw_functions_get(f->fns, function);
    if (!fn->name.v || fn->kind != HW_FUNCTION_PLAIN)
        return true;
    struct hw_bytes name = hw_strings_get(f->strings, fn->name);
    if (hw_bytes_equal(name, hw_bytes_str("main")) || hw_bytes_equal(name, hw_bytes_str("_start")))
        return false;
    if (!is_on(w, *n, function))
        w->up[(*n)++] = function;
    return *n < HW_CALLERS_MAX;
}

static struct way way_of(const struct find *f, uint32_t node)
{
    const struct hw_flame_node *v = f->tree->v.v;
    struct way w = {.function = v[node].function, .up = {HW_ID_NONE, HW_ID_NONE, HW_ID_NONE}};
    size_t n = 0;
    for (uint32_t at = v[node].parent; at != HW_ID_NONE && v[at].function != HW_ID_NONE;
         at = v[at].parent)
        if (!step(f, &w, &n, v[at].function))
            break;
    return w;
}

/* What a function calls again below itself is in its total once. */
static bool is_below_itself(const struct hw_flame *tree, uint32_t node)
{
    const uint32_t function = tree->v.v[node].function;
    uint32_t at = tree->v.v[node].parent;
    while (at != HW_ID_NONE && tree->v.v[at].function != function)
        at = tree->v.v[at].parent;
    return at != HW_ID_NONE;
}

static double value_of(const struct hw_flame *tree, uint32_t node, enum hw_metric by,
                       enum hw_callers_of of)
{
    if (of == HW_CALLERS_OF_TOTAL && is_below_itself(tree, node))
        return 0;
    return (double)hw_value_get(
        of == HW_CALLERS_OF_SELF ? hw_flame_self(tree, node) : hw_flame_total(tree, node), by);
}

static int by_way(const void *pa, const void *pb)
{
    const struct way *a = pa, *b = pb;
    if (a->function != b->function)
        return a->function < b->function ? -1 : 1;
    for (size_t i = 0; i < HW_CALLERS_MAX; i++)
        if (a->up[i] != b->up[i])
            return a->up[i] < b->up[i] ? -1 : 1;
    return 0;
}

/* Of ways that are alike below `level`, sorted: those of the caller there with the most. */
static double most_at(const struct way *w, size_t n, size_t level, size_t *first, size_t *end)
{
    double most = -1;
    for (size_t i = 0, next; i < n; i = next) {
        double sum = 0;
        for (next = i; next < n && w[next].up[level] == w[i].up[level]; next++)
            sum += w[next].value;
        if (sum > most) {
            most = sum;
            *first = i;
            *end = next;
        }
    }
    return most;
}

static struct hw_callers callers_of(const struct way *w, size_t n)
{
    struct hw_callers out = {0};
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += w[i].value;
    while (out.n < HW_CALLERS_MAX) {
        size_t first = 0, end = n;
        double most = most_at(w, n, out.n, &first, &end);
        if (w[first].up[out.n] == HW_ID_NONE)
            break;
        out.function[out.n] = w[first].up[out.n];
        out.share[out.n++] = most / total;
        w += first;
        n = end - first;
    }
    return out;
}

int hw_callers_find(const struct hw_callsites *cs, const struct hw_functions *fns,
                    const struct hw_flame *tree, enum hw_metric by, enum hw_callers_of of,
                    struct hw_callers **out)
{
    const struct find f = {fns, strings_of(cs), tree};
    struct hw_callers *found = calloc(hw_functions_count(fns) + 1, sizeof *found);
    ways all = {0};
    int rc = found ? HW_OK : HW_ENOMEM;
    for (uint32_t i = 1; rc == HW_OK && i < tree->v.n; i++) {
        double value = value_of(tree, i, by, of);
        struct way w = value > 0 ? way_of(&f, i) : (struct way){0};
        w.value = value;
        if (value > 0 && hw_vec_push(&all, w) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK && all.n)
        qsort(all.v, all.n, sizeof *all.v, by_way);
    for (size_t i = 0, next; rc == HW_OK && i < all.n; i = next) {
        for (next = i; next < all.n && all.v[next].function == all.v[i].function;)
            next++;
        found[all.v[i].function] = callers_of(all.v + i, next - i);
    }
    hw_vec_done(&all);
    if (rc < 0)
        free(found);
    else
        *out = found;
    return rc;
}

void hw_callers_text(struct hw_strbuf *out, const struct hw_callers *c,
                     const struct hw_callsites *cs, const struct hw_functions *fns,
                     const struct hw_namer *namer)
{
    for (size_t i = 0; i < c->n; i++) {
        hw_strbuf_adds(out, i ? " < " : "");
        hw_function_label(out, cs, hw_functions_get(fns, c->function[i]), namer);
    }
}
