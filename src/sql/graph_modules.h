/* graph_modules.h - the modules about heap graphs, and the functions they need */
#ifndef HW_SQL_GRAPH_MODULES_H
#define HW_SQL_GRAPH_MODULES_H

/* X(name): android.memory.heap_graph.<name> */
#define HW_GRAPH_MODULES(X)                                                                        \
    X(excluded_refs)                                                                               \
    X(helpers)                                                                                     \
    X(oome)                                                                                        \
    X(raw_dominator_tree)                                                                          \
    X(dominator_tree)                                                                              \
    X(dominator_class_tree)                                                                        \
    X(class_tree)                                                                                  \
    X(class_summary_tree)                                                                          \
    X(object_tree)                                                                                 \
    X(heap_graph_class_aggregation)                                                                \
    X(heap_graph_stats)                                                                            \
    X(class_relationship)                                                                          \
    X(experimental_flamegraph)                                                                     \
    X(bitmap)

#define X(name) extern const char hw_module_##name[];
HW_GRAPH_MODULES(X)
#undef X
extern const char hw_module_graph_dominators[]; /* graphs.dominator_tree */

struct hw_sql;

/* The aggregate and the table function used by graph_dominator_tree!. */
int hw_sql_add_dominators(struct hw_sql *s);

#endif
