-- trace: root_types.txt
-- told twice: STICKY_CLASS before JNI_GLOBAL before JNI_LOCAL before all others, of which the first; not told: of the zygote and the boot image
select id, heap_type, root_type, reachable from heap_graph_object;
