/* module_texts.h - the modules' SQL: statements in Perfetto's dialect over our tables */
#ifndef HW_SQL_MODULES_MODULE_TEXTS_H
#define HW_SQL_MODULES_MODULE_TEXTS_H

/* public_views.c: in every connection */
extern const char hw_sql_public_views[];

/* callstack_modules.c: stacks as trees */
extern const char hw_module_stack_profile[];
extern const char hw_module_heap_profile_callstacks[];

/* algorithm_modules.c: any graph, any tree */
extern const char hw_module_graph_scan[];
extern const char hw_module_graph_search[];
extern const char hw_module_graph_hierarchy[];
extern const char hw_module_graph_partition[];

/* system_modules.c: processes and CPU samples; hw_sql_sample_views is in every connection */
extern const char hw_sql_sample_views[];
extern const char hw_module_process_metadata[];
extern const char hw_module_user_list[];
extern const char hw_module_cpu_profiling[];

/* memory_modules.c: counters of processes */
extern const char hw_module_counter_intervals[];
extern const char hw_module_memory_general[];
extern const char hw_module_memory_process[];
extern const char hw_module_memory_high_watermark[];
extern const char hw_module_dmabuf_spans[];
extern const char hw_module_oom_adjuster[];
extern const char hw_module_android_memory_process[];
extern const char hw_module_memory_breakdown[];

#endif
