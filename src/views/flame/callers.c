#include "views/flame/callers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"

#include "base/banned.h"

/* The callers of one node of the tree, nearest first, HW_ID_NONE after the last. */
struct caller_path {
    uint32_t function, chain[HW_CALLERS_MAX];
    double value;
};

typedef HW_VEC(struct caller_path) caller_paths;

struct find {
    const struct hw_functions *fns;
    const struct hw_strings *strings;
    const struct hw_flame *tree;
    const uint8_t *managed; /* by node: it or a caller of it is a managed function */
};

static const struct hw_strings *strings_of(const struct hw_callsites *cs)
{
    /* The accessor hands out the table for interning too; here it is only read. */
    return hw_callsites_strings((struct hw_callsites *)(uintptr_t)cs);
}

static bool contains(const struct caller_path *w, size_t n, uint32_t function)
{
    bool found = w->function == function;
    for (size_t i = 0; i < n; i++)
        found |= w->chain[i] == function;
    return found;
}

/* Adds a function further up the stack. False: the path is complete. */
static bool add_caller(const struct find *f, struct caller_path *w, size_t *n, uint32_t function,
                       bool in_managed)
{
    const struct hw_function *fn = hw_functions_get(f->fns, function);
    bool between = in_managed &&
                   (fn->language == HW_FUNCTION_RUNTIME || fn->language == HW_FUNCTION_EXTENSION);
    /* where nothing of the program's own is above, the library's callers say more than none */
    bool of_library = fn->kind == HW_FUNCTION_STD && fn->home == HW_HOME_STANDARD &&
                      hw_functions_get(f->fns, w->function)->home == HW_HOME_STANDARD;
    if (!fn->name.v || (fn->kind != HW_FUNCTION_PLAIN && !of_library) || between)
        return true;
    struct hw_bytes name = hw_strings_get(f->strings, fn->name);
    if (hw_bytes_equal(name, hw_bytes_str("main")) || hw_bytes_equal(name, hw_bytes_str("_start")))
        return false;
    if (!contains(w, *n, function))
        w->chain[(*n)++] = function;
    return *n < HW_CALLERS_MAX;
}

static struct caller_path path_of(const struct find *f, uint32_t node)
{
    const struct hw_flame_node *v = f->tree->v.v;
    struct caller_path w = {.function = v[node].function,
                            .chain = {HW_ID_NONE, HW_ID_NONE, HW_ID_NONE}};
    size_t n = 0;
    for (uint32_t at = v[node].parent; at != HW_ID_NONE && v[at].function != HW_ID_NONE;
         at = v[at].parent)
        if (!add_caller(f, &w, &n, v[at].function, f->managed[node]))
            break;
    return w;
}

/* A recursive function's total counts only at its outermost node. */
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

static int by_path(const void *pa, const void *pb)
{
    const struct caller_path *a = pa, *b = pb;
    if (a->function != b->function)
        return a->function < b->function ? -1 : 1;
    for (size_t i = 0; i < HW_CALLERS_MAX; i++)
        if (a->chain[i] != b->chain[i])
            return a->chain[i] < b->chain[i] ? -1 : 1;
    return 0;
}

/* Sorted paths, equal below `level`: the range of the caller with the largest sum there. */
static double most_at(const struct caller_path *w, size_t n, size_t level, size_t *first,
                      size_t *end)
{
    double most = -1;
    for (size_t i = 0, next; i < n; i = next) {
        double sum = 0;
        for (next = i; next < n && w[next].chain[level] == w[i].chain[level]; next++)
            sum += w[next].value;
        if (sum > most) {
            most = sum;
            *first = i;
            *end = next;
        }
    }
    return most;
}

static struct hw_callers callers_of(const struct caller_path *w, size_t n)
{
    struct hw_callers out = {0};
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += w[i].value;
    while (out.n < HW_CALLERS_MAX) {
        size_t first = 0, end = n;
        double most = most_at(w, n, out.n, &first, &end);
        if (w[first].chain[out.n] == HW_ID_NONE)
            break;
        out.function[out.n] = w[first].chain[out.n];
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
    hw_autofree uint8_t *managed = hw_flame_managed_nodes(tree, fns);
    const struct find f = {fns, strings_of(cs), tree, managed};
    struct hw_callers *found = calloc(hw_functions_count(fns) + 1, sizeof *found);
    caller_paths all = {0};
    int rc = found && managed ? HW_OK : HW_ENOMEM;
    for (uint32_t i = 1; rc == HW_OK && i < tree->v.n; i++) {
        double value = value_of(tree, i, by, of);
        struct caller_path w = value > 0 ? path_of(&f, i) : (struct caller_path){0};
        w.value = value;
        if (value > 0 && hw_vec_push(&all, w) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK && all.n)
        qsort(all.v, all.n, sizeof *all.v, by_path);
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
