/* module_texts.h - the texts of modules: statements of Perfetto's SQL over our tables */
#ifndef HW_SQL_MODULES_MODULE_TEXTS_H
#define HW_SQL_MODULES_MODULE_TEXTS_H

/* public_views.c: what is always there */
extern const char hw_sql_public_views[];

/* callstack_modules.c: stacks as trees */
extern const char hw_module_stack_profile[];
extern const char hw_module_heap_profile_callstacks[];

/* algorithm_modules.c: any graph, any tree */
extern const char hw_module_graph_search[];
extern const char hw_module_graph_hierarchy[];
extern const char hw_module_graph_partition[];

#endif
