/* What the views say of heap graphs of any input: it adds up, and nothing crashes. */
#ifndef ASK_GRAPHS_H
#define ASK_GRAPHS_H

#include "model/profile.h"
#include "views/contents/heap_boxes.h"
#include "views/contents/heap_collections.h"
#include "views/contents/heap_where.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_duplicates.h"
#include "views/objects/heap_paths.h"
#include "views/objects/heap_suspects.h"
#include "views/objects/heap_threads.h"

static inline void need(bool is_so)
{
    if (!is_so)
        __builtin_trap();
}

static inline void ask_contents(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    struct hw_heap_collections c;
    struct hw_heap_boxes b;
    hw_duplicates twice;
    int64_t n = 0;
    if (hw_heap_collections_find(p, g, &c) == 0) {
        for (size_t i = 0; i < c.by_class.n; i++)
            n += c.by_class.v[i].n;
        for (size_t i = 0; i < c.by_holder.n; i++)
            n -= c.by_holder.v[i].n;
        need(n == 0);
        hw_heap_collections_done(&c);
    }
    if (hw_heap_boxes_find(p, g, &b) == 0) {
        for (size_t i = 0; i < b.by_class.n; i++)
            n += b.by_class.v[i].n;
        for (size_t i = 0; i < b.by_holder.n; i++)
            n -= b.by_holder.v[i].n;
        need(n == 0);
        hw_heap_boxes_done(&b);
    }
    if (hw_heap_duplicates(g, &twice) == 0)
        hw_vec_done(&twice);
}

static inline size_t count_where(const struct hw_profile *p, const struct hw_heap_graph *g,
                                 const char *text)
{
    struct hw_heap_where *w;
    hw_found_objects found = {0};
    size_t n = 0;
    if (hw_heap_where_parse(text, &w, NULL) < 0)
        __builtin_trap();
    if (hw_heap_where_find(w, p, g, NULL, &found, NULL) == 0)
        n = found.n;
    hw_vec_done(&found);
    hw_heap_where_free(w);
    return n;
}

static inline void ask_graph(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    struct hw_dominators d;
    struct hw_heap_paths paths;
    struct hw_suspects suspects;
    struct hw_thread_heaps threads;
    struct hw_heap_sum all = hw_heap_graph_sum(g).reachable;
    int64_t retained = 0;
    if (hw_dominators_build(g, &d) < 0)
        return;
    need((int64_t)d.n == all.count);
    if (hw_heap_paths_build(p, g, &paths) == 0) {
        need(paths.n == d.n);
        if (hw_heap_suspects_find(g, &d, &paths, &suspects) == 0)
            hw_heap_suspects_done(&suspects);
        hw_heap_paths_done(&paths);
    }
    if (hw_heap_threads_find(g, &d, &threads) == 0) {
        for (size_t i = 0; i < threads.v.n; i++)
            retained += threads.v.v[i].retained.count;
        need(retained <= all.count);
        hw_heap_threads_done(&threads);
    }
    hw_dominators_done(&d);
    ask_contents(p, g);
    need((int64_t)count_where(p, g, "@bytes>=0") == all.count);
    need(count_where(p, g, "class~a and size>0") <= count_where(p, g, "class~a"));
}

static inline void ask_graphs(const struct hw_profile *p)
{
    for (size_t i = 0; i < p->graphs.n; i++)
        ask_graph(p, p->graphs.v[i]);
}

#endif
